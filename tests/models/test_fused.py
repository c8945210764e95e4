from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.models.history_view import Distinct
from pintgn.models.layers import Edges, InjectiveLayer, TreeNodes, WeightedReluSum


def random_slots(rng, parents, k, width, rows, events, columns, dtype=torch.float64):
    """Inputs of the fused sum; some slots are empty, and rows and events stand in several slots."""
    slots = parents * k
    weight = rng.random(slots) * (rng.random(slots) < 0.8)
    own = rng.random((slots, columns)) * (rng.random((slots, columns)) < 0.5)
    tensors = [rng.normal(size=shape) for shape in ((rows, width), (events, width), (columns, width))]
    row, event, mix = (torch.tensor(x, dtype=dtype, requires_grad=x.size > 0) for x in tensors)
    where = [rng.integers(0, max(size, 1), slots).astype(np.int32) for size in (rows, events)]
    weight = torch.tensor(weight, dtype=dtype, requires_grad=True)
    return k, row, where[0], event, where[1], own.astype(str(dtype).split(".")[1]), mix, weight


def reference(k, row, row_of, event, event_of, own, mix, weight):
    """The same sum in plain torch."""
    z = row[torch.from_numpy(row_of).long()] + torch.from_numpy(own) @ mix
    if len(event):
        z = z + event[torch.from_numpy(event_of).long()]
    return (torch.relu(z) * weight[:, None]).view(-1, k, row.shape[1]).sum(1)


def fused(k, row, row_of, event, event_of, own, mix, weight):
    return WeightedReluSum.apply(row, event, mix, weight, k, row_of, event_of, own)


def full(weight):
    """Weights without a zero: an empty slot is read as empty, so the derivative in its weight is not asked for."""
    return torch.tensor(np.where(weight.detach() == 0, 0.5, weight.detach()), requires_grad=True)


shapes = st.tuples(*[st.integers(1, 4)] * 4, st.integers(0, 3), st.integers(0, 5), st.integers(0, 10**6))


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_the_fused_sum_equals_the_one_written_out(shape):
    inputs = random_slots(np.random.default_rng(shape[-1]), *shape[:-1])
    torch.testing.assert_close(fused(*inputs), reference(*inputs))


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_the_gradient_is_that_of_the_sum_written_out(shape):
    # by autograd, not by small differences: those are wrong wherever a bend is near
    *inputs, weight = random_slots(np.random.default_rng(shape[-1]), *shape[:-1])
    inputs = *inputs, full(weight)
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.numel()]
    found, expected = fused(*inputs), reference(*inputs)
    g = torch.randn_like(found)
    for one, two in zip(torch.autograd.grad(found, leaves, g), torch.autograd.grad(expected, leaves, g), strict=True):
        torch.testing.assert_close(one, two)


@settings(max_examples=25, deadline=None)
@given(shapes)
def test_the_sum_of_rows_alone_and_its_gradient_are_right(shape):
    parents, k, width, rows, *_, seed = shape
    *inputs, weight = random_slots(np.random.default_rng(seed), parents, k, width, rows, 0, 0)
    for learned in (full(weight), weight.detach()):  # weights that are learned, and that are not
        found, expected = fused(*inputs, learned), reference(*inputs, learned)
        torch.testing.assert_close(found, expected)
        leaves, g = [inputs[1], *([learned] if learned.requires_grad else [])], torch.randn_like(found)
        mine, its = (torch.autograd.grad(x, leaves, g) for x in (found, expected))
        for one, two in zip(mine, its, strict=True):
            torch.testing.assert_close(one, two)


@pytest.mark.parametrize("changed", ["input", "result"])
def test_a_fused_step_refuses_what_has_changed_since(changed):
    *inputs, weight = random_slots(np.random.default_rng(0), 3, 2, 4, 3, 2, 1)
    found = fused(*inputs, weight)
    doubled = found * 2
    with torch.no_grad():
        (inputs[1] if changed == "input" else found.detach()).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        doubled.sum().backward()


@pytest.mark.parametrize(("events", "columns"), [(6, 3), (0, 0)])
def test_several_threads_give_the_same(monkeypatch, events, columns):
    monkeypatch.setattr("pintgn.models.layers.WORTH_A_THREAD", 1)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    inputs = random_slots(np.random.default_rng(0), 50, 4, 8, 5, events, columns)
    found, expected = fused(*inputs), reference(*inputs)
    torch.testing.assert_close(found, expected)
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.numel()]
    g = torch.randn_like(found)
    filled = inputs[-1].detach() != 0
    for one, two in zip(torch.autograd.grad(found, leaves, g), torch.autograd.grad(expected, leaves, g), strict=True):
        if one.shape == filled.shape:
            one, two = one[filled], two[filled]
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("states", [0, 4])
@pytest.mark.parametrize("positions", [0, 3])
@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize("shared", [True, False], ids=["rows shared", "a row each"])
def test_the_layer_without_waste_equals_the_layer_as_written(states, positions, features, shared):
    if not states + positions:
        return  # a layer needs some input
    rng = np.random.default_rng(1)
    layer = InjectiveLayer(states, positions, features, 6)
    places, slots = 9, 21
    table = torch.randn(5 if shared else places, states, requires_grad=True)
    row_of = rng.integers(0, 5, places).astype(np.int32) if shared else None
    known = TreeNodes(table, row_of, rng.random((places, positions)).astype(np.float32))
    edges = Edges(
        child=rng.integers(0, places, slots).astype(np.int32),
        mask=torch.ones(slots, dtype=torch.bool),
        dt=torch.rand(slots),
        event_of=rng.integers(0, 3, slots).astype(np.int32),
        features=torch.randn(3, features) if features else None,
        k=3,
    )
    weight = torch.rand(slots)
    results = []
    for layer.fused in (True, False):
        layer.zero_grad()
        table.grad = None
        out = layer(known, edges, weight)
        out.square().sum().backward()
        results.append([out, *([table.grad] if states else []), *(p.grad for p in layer.parameters())])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    layer.fused = True
    with torch.no_grad():  # another way to the same, when nothing is learned
        torch.testing.assert_close(layer(known, edges, weight), results[1][0], rtol=1e-4, atol=1e-5)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30))
def test_distinct_values_are_numbered(entries):
    values = np.array([v for v, _ in entries], np.int64)
    valid = np.array([m for _, m in entries], bool)
    number = Distinct()
    for _ in range(2):  # the table is clean again after a call
        distinct, where = number(values, valid)
        assert sorted(distinct) == sorted(set(values[valid].tolist()))
        assert (distinct[where[valid]] == values[valid]).all()
        assert (where[~valid] == 0).all()
