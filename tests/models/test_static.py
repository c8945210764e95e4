from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn.check import check_model, random_log
from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.models.static import GAT, GraphSAGE
from pintgn.stream import Stream
from tests.models.literal import neighbors

LOG = random_log(events=110, nodes=10)


def literal(model, log, v, t, layer):
    """h_v of the equations, over the newest neighbors before min(t, freeze)."""
    x = torch.from_numpy(log.node_features[v].copy())
    if layer == 0:
        return x
    step, own = model.steps[layer - 1], literal(model, log, v, t, layer - 1)
    cut = t if model.freeze is None else min(t, model.freeze)
    children = [
        torch.cat([literal(model, log, u, t, layer - 1), torch.from_numpy(log.features[e].copy())])
        for u, e in neighbors(log, v, cut, model.neighbors)
    ]
    if isinstance(model, GraphSAGE):
        mean = torch.stack([step.aggregate(c) for c in children]).mean(0) if children else torch.zeros(model.dim)
        return step.update(torch.cat([own, mean]))
    itself = torch.cat([own, torch.zeros(3)])
    mapped = torch.stack([c @ step.linear.weight.T for c in [itself, *children]]).view(
        -1, model.heads, model.dim // model.heads
    )
    one, two = (mapped * step.attention[0]).sum(-1), (mapped * step.attention[1]).sum(-1)  # (k, h)
    weight = torch.nn.functional.leaky_relu(one[0] + two, 0.2).softmax(0)
    return torch.nn.functional.elu((weight[..., None] * mapped).sum(0).flatten() + step.linear.bias)


@pytest.mark.parametrize("freeze", [None, 25])
@pytest.mark.parametrize("cls", [GAT, GraphSAGE])
def test_embeddings_are_those_of_the_equations(cls, freeze):
    log = random_log(events=60, nodes=8)
    model = cls(dim=6, layers=2, neighbors=3, sample="recent", freeze=freeze)
    stream = Stream(model, log.schema, node_features=log.node_features)
    stream.observe(log)
    t = int(log.t[-1]) + 1
    with torch.no_grad():
        found = stream.embed(np.arange(6), at=t)
        expected = torch.stack([literal(model, log, v, t, 2) for v in range(6)])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sample", ["uniform", "recent"])
@pytest.mark.parametrize("cls", [GAT, GraphSAGE])
def test_a_frozen_model_sees_nothing_from_the_freeze_on_and_never_changes(cls, sample):
    model = cls(dim=6, neighbors=2, freeze=40, sample=sample)
    early, late = LOG.t < 40, LOG.t >= 40
    assert early.any()
    assert late.any()
    whole, part = (Stream(model, LOG.schema, node_features=LOG.node_features) for _ in range(2))
    whole.observe(LOG)
    part.observe(LOG[: early.sum()])
    nodes = np.arange(10)
    with torch.no_grad():
        after = [whole.embed(nodes, at=t) for t in (LOG.t[-1] + 1, LOG.t[-1] + 1000)]
        torch.testing.assert_close(*after)
        torch.testing.assert_close(after[0], part.embed(nodes, at=40))


def test_time_is_not_seen():
    """The same events at other times, in the same order, give the same embeddings."""
    model = GraphSAGE(dim=6, neighbors=50)
    slow = EventLog(LOG.src, LOG.dst, LOG.t**2, features=LOG.features, node_features=LOG.node_features)
    found = []
    for log in (LOG, slow):
        stream = Stream(model, LOG.schema, node_features=log.node_features)
        stream.observe(log)
        with torch.no_grad():
            found.append(stream.embed(np.arange(10), at=int(log.t[-1]) + 1))
    torch.testing.assert_close(*found)


def test_prepare_freezes_at_the_end_of_training():
    for t, end in (([1, 2, 7], 8), ([1.0, 2.0, 7.0], np.nextafter(7.0, 8))):
        model = GAT(freeze="train")
        with pytest.raises(BadInput, match="prepare"):
            Stream(model, EventLog([0], [1], [1]).schema).score(Query(np.array([0]), np.array([1]), np.array([3])))
        model = GAT(freeze="train")
        model.prepare(EventLog([0, 1, 0], [1, 2, 2], t))
        assert model.freeze == end
        assert model.fresh().freeze == end


@pytest.mark.parametrize(
    "model",
    [
        GAT(dim=6, neighbors=3),
        GAT(dim=6, neighbors=3, layers=1, sample="recent", freeze=60),
        GraphSAGE(dim=6, neighbors=3),
        GraphSAGE(dim=6, neighbors=3, freeze="train"),
    ],
    ids=["GAT", "GAT frozen", "GraphSAGE", "GraphSAGE frozen"],
)
def test_every_promise_holds(model):
    check_model(model, LOG)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GAT(sample="unifrm"), "Did you mean 'uniform'"),
        (lambda: GAT(heads=3), "must divide dim=100"),
        (lambda: GraphSAGE(freeze="never"), "it is a time"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(BadInput, match=message):
        make()
