from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.models.attention import Attend, AttentionInputs, AttentionLayer, masked_softmax, reference
from pintgn.models.layers import Edges, TimeEncoding, TreeNodes
from pintgn.models.static import GATLayer


def random_level(rng, parents, k, states, features, positions, rows=5, dtype=torch.float32, shared=True):
    """Places, and edges from the first of them to others, with at least one that has no neighbors."""
    kind, count = str(dtype).split(".")[1], parents + 3
    rows = rows if shared else count
    table = torch.tensor(rng.normal(size=(rows, states)), dtype=dtype, requires_grad=True)
    row_of = rng.integers(0, rows, count).astype(np.int32) if shared else None
    places = TreeNodes(table, row_of, rng.random((count, positions)).astype(kind))
    mask = rng.random(parents * k) < 0.7
    mask[:k] = False
    edges = Edges(
        child=rng.integers(0, count, parents * k).astype(np.int32),
        mask=torch.from_numpy(mask),
        dt=torch.tensor(rng.exponential(2, parents * k), dtype=dtype),
        event_of=rng.integers(0, 3, parents * k).astype(np.int32),
        features=torch.tensor(rng.normal(size=(3, features)), dtype=dtype) if features else None,
        k=k,
    )
    return places, edges


shapes = st.tuples(st.integers(1, 4), st.integers(1, 4), *[st.integers(0, 3)] * 3, st.integers(0, 3))


@settings(max_examples=60, deadline=None)
@given(shapes, st.integers(1, 3), st.sampled_from([1.0, 0.2]), st.integers(0, 10**6))
def test_fused_attention_and_its_gradients_are_those_of_the_definition(shape, heads, slope, seed):
    *shape, waves = shape
    rng = np.random.default_rng(seed)
    places, edges = random_level(rng, *shape, dtype=torch.float64)
    children = edges.seen(places)
    parents, k, width = *shape[:2], sum(shape[2:]) + waves
    own_of = rng.integers(0, 3, parents).astype(np.int32)
    query, offset, frequency, phase = (
        torch.tensor(rng.normal(size=size), requires_grad=True)
        for size in ((heads, 3, width), (heads, 3), waves, waves)
    )
    where = AttentionInputs.seen(own_of, places, edges)
    found = Attend.apply(query, offset, children.table, frequency, phase, where, slope)

    time = TimeEncoding(waves)
    time.frequency, time.phase = torch.nn.Parameter(frequency), torch.nn.Parameter(phase)
    c = reference(children, edges, time).view(parents, k, width)
    rows = torch.from_numpy(own_of).long()
    scores = torch.einsum("hpc,pkc->hpk", query[:, rows], c) + offset[:, rows][..., None]
    weight = masked_softmax(torch.nn.functional.leaky_relu(scores, slope), edges.mask.view(parents, k))
    expected = torch.einsum("hpk,pkc->hpc", weight, c)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)

    grad = torch.tensor(rng.normal(size=expected.shape))
    wanted = torch.autograd.grad(
        expected, [query, offset, children.table, time.frequency, time.phase], grad, allow_unused=True
    )
    mine = torch.autograd.grad(found, [query, offset, children.table, frequency, phase], grad)
    for name, one, two in zip(("query", "offset", "table", "frequency", "phase"), mine, wanted, strict=True):
        if name == "offset" and slope == 1:
            continue  # softmax does not feel it
        two = torch.zeros_like(one) if two is None else two
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7, msg=name)


def both_ways(layer, others, run):
    """Results and gradients of a layer without waste and as written."""
    results = []
    for fused in (True, False):
        layer.fused = fused
        for p in (*layer.parameters(), *others):
            p.grad = None
        out = run()
        out.square().sum().backward(retain_graph=True)
        once = [p.grad.clone() for p in (*layer.parameters(), *others) if p.grad is not None]
        out.square().sum().backward()
        twice = [p.grad for p in (*layer.parameters(), *others) if p.grad is not None]
        assert all(torch.equal(2 * a, b) for a, b in zip(once, twice, strict=True))  # nothing kept was overwritten
        results.append([out, *(p.grad for p in (*layer.parameters(), *others))])
    return zip(*results, strict=True)


@pytest.mark.parametrize("states", [0, 4])
@pytest.mark.parametrize("positions", [0, 3])
@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize("shared", [True, False], ids=["rows shared", "a row each"])
def test_the_attention_layer_without_waste_equals_the_layer_as_written(states, positions, features, shared):
    places, edges = random_level(np.random.default_rng(1), 7, 3, states, features, positions, shared=shared)
    time = TimeEncoding(5)
    time.frequency.data = torch.logspace(0, -2, 5)
    layer = AttentionLayer(states, positions, features, 5, 6, 2)
    others = [places.table, *time.parameters()] if states else list(time.parameters())
    for one, two in both_ways(layer, others, lambda: layer(places, edges, time)):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize("shared", [True, False], ids=["rows shared", "a row each"])
def test_the_gat_layer_without_waste_equals_the_layer_as_written(features, shared):
    places, edges = random_level(np.random.default_rng(2), 7, 3, 4, features, 0, shared=shared)
    layer = GATLayer(4, features, 6, 2)
    for one, two in both_ways(layer, [places.table], lambda: layer(places, edges)):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("positions", [0, 3])
def test_several_threads_give_the_same(monkeypatch, positions):
    rng = np.random.default_rng(0)
    places, edges = random_level(rng, 50, 4, 5, 2, positions)
    layer, time = AttentionLayer(5, positions, 2, 4, 6, 2), TimeEncoding(4)
    results = []
    for threads in (1, 3):
        monkeypatch.setattr("pintgn.models.layers.WORTH_A_THREAD", 1)
        monkeypatch.setattr("torch.get_num_threads", lambda threads=threads: threads)
        out = layer(places, edges, time)
        leaves = [places.table, *layer.query.parameters(), *time.parameters()]
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
