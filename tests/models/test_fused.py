from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.models.fused import Distinct, WeightedReluSum
from pintgn.models.layers import InjectiveLayer, Slots


def random_slots(rng, parents, k, width, states, events, positions, dtype=torch.float64):
    """Inputs of the fused sum; some slots are empty, and nodes and events stand in several slots."""
    slots = parents * k
    weight = rng.random(slots) * (rng.random(slots) < 0.8)
    read = rng.random((slots, positions)) * (rng.random((slots, positions)) < 0.5)
    tensors = [rng.normal(size=shape) for shape in ((width,), (states, width), (events, width), (positions, width))]
    bias, node, event, mix = (torch.tensor(x, dtype=dtype, requires_grad=x.size > 0) for x in tensors)
    where = [rng.integers(0, max(size, 1), slots).astype(np.int32) for size in (states, events)]
    weight = torch.tensor(weight, dtype=dtype, requires_grad=True)
    return k, bias, node, where[0], event, where[1], read.astype(str(dtype).split(".")[1]), mix, weight


def written_out(k, bias, node, node_of, event, event_of, position, mix, weight):
    """The same sum in plain torch."""
    z = bias + torch.from_numpy(position) @ mix
    if len(node):
        z = z + node[torch.from_numpy(node_of).long()]
    if len(event):
        z = z + event[torch.from_numpy(event_of).long()]
    return (torch.relu(z) * weight[:, None]).view(-1, k, len(bias)).sum(1)


shapes = st.tuples(*[st.integers(1, 4)] * 3, *[st.integers(0, 3)] * 3, st.integers(0, 10**6))


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_the_fused_sum_equals_the_one_written_out(shape):
    inputs = random_slots(np.random.default_rng(shape[-1]), *shape[:-1])
    torch.testing.assert_close(WeightedReluSum.apply(*inputs), written_out(*inputs))


@settings(max_examples=25, deadline=None)
@given(shapes)
def test_the_gradient_is_right(shape):
    inputs = random_slots(np.random.default_rng(shape[-1]), *shape[:-1])
    weight = inputs[-1]
    # an empty slot is read as empty, so the derivative in its weight is not asked for
    full = torch.tensor(np.where(weight.detach() == 0, 0.5, weight.detach()), requires_grad=True)
    assert torch.autograd.gradcheck(WeightedReluSum.apply, (*inputs[:-1], full))


def test_several_threads_give_the_same(monkeypatch):
    monkeypatch.setattr("pintgn.models.fused.WORTH_A_THREAD", 1)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    inputs = random_slots(np.random.default_rng(0), 50, 4, 8, 5, 6, 3)
    found, expected = WeightedReluSum.apply(*inputs), written_out(*inputs)
    torch.testing.assert_close(found, expected)
    leaves = [x for x in inputs if isinstance(x, torch.Tensor)]
    g = torch.randn_like(found)
    filled = inputs[-1].detach() != 0
    for one, two in zip(torch.autograd.grad(found, leaves, g), torch.autograd.grad(expected, leaves, g), strict=True):
        if one.shape == filled.shape:
            one, two = one[filled], two[filled]
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("positions", [0, 3])
@pytest.mark.parametrize("features", [0, 2])
def test_the_layer_without_waste_equals_the_layer_as_written(positions, features):
    rng = np.random.default_rng(1)
    layer = InjectiveLayer(4, positions, features, 6)
    table = torch.randn(5, 4, requires_grad=True)
    parents, children = (
        Slots(table, rng.integers(0, 5, n), rng.random((n, positions)).astype(np.float32)) for n in (7, 21)
    )
    carried = torch.randn(3, features) if features else None
    event_of, weight = rng.integers(0, 3, 21).astype(np.int32), torch.rand(21)
    results = []
    for fused in (True, False):
        layer.fused = fused
        layer.zero_grad()
        table.grad = None
        out = layer(parents, children, carried, event_of, weight)
        out.square().sum().backward()
        results.append([out, table.grad, *(p.grad for p in layer.parameters())])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


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
