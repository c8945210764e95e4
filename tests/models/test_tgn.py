from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pintgn.check import check_model, random_log
from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.models.tgn import JODIE, TGAT, TGN, DyRep
from pintgn.stream import Stream
from tests.models.literal import neighbors, walk_counts

SMALL = {"dim": 6, "time_dim": 4}
LOG = random_log(events=110, nodes=10)


class Literal:
    """TGN-Att's equations, written out, one node at a time; memory as given, per node."""

    def __init__(self, model: TGN, log: EventLog, memory: torch.Tensor | None):
        self.model, self.log, self.memory = model, log, memory
        self.time = model.machine.time if model.memory else model.own_time

    def score(self, u: int, v: int, t: float) -> torch.Tensor:
        ends = [self.hidden(u, (u, v), t, self.model.layers), self.hidden(v, (v, u), t, self.model.layers)]
        return self.model.readout(torch.cat(ends)).squeeze(-1)

    def hidden(self, j: int, roots: tuple[int, ...], t: float, layer: int) -> torch.Tensor:
        if layer == 0:
            return self.state(j)
        step, heads = self.model.steps[layer - 1], self.model.heads
        r = self.positions(j, roots, t, layer)
        own = torch.cat([self.hidden(j, roots, t, layer - 1), r])
        query = step.query(torch.cat([own, self.time(torch.tensor(0.0))])).view(heads, -1)
        keys, values = [], []
        for other, event in neighbors(self.log, j, t, self.model.neighbors):
            parts = [self.hidden(other, roots, t, layer - 1)]
            if self.log.marked_features is not None:
                parts.append(torch.from_numpy(self.log.marked_features[event].copy()))
            dt = torch.tensor(float(t - self.log.t[event]) / self.model.dt_unit)
            c = torch.cat([*parts, self.positions(other, roots, t, layer), self.time(dt)])
            keys.append(step.key(c).view(heads, -1))
            values.append(step.value(c).view(heads, -1))
        seen = torch.zeros_like(query)
        if keys:
            scores = torch.stack([(query * key).sum(-1) for key in keys]) / math.sqrt(query.shape[1])  # (k, h)
            seen = (scores.softmax(0)[..., None] * torch.stack(values)).sum(0)
        return step.update(torch.cat([own, seen.flatten()]))

    def state(self, j: int) -> torch.Tensor:
        parts = [] if self.memory is None else [self.memory[j]]
        if self.log.node_features is not None:
            parts.append(torch.from_numpy(self.log.node_features[j].copy()))
        return torch.cat(parts) if parts else torch.zeros(0 if self.model.positions else 1)

    def positions(self, j: int, roots: tuple[int, ...], t: float, layer: int) -> torch.Tensor:
        if not self.model.positions or layer > 1:
            return torch.zeros(0)
        counts = [walk_counts(self.log, j, root, t, self.model.positions) for root in roots]
        return torch.log1p(torch.tensor(counts)).flatten()


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        TGN(**SMALL, memory=5, neighbors=4),
        TGN(**SMALL, memory=5, neighbors=3, layers=2, positions=3, heads=3),
        TGAT(**SMALL, neighbors=3),
        TGAT(**SMALL, neighbors=4, layers=1, positions=2),
    ],
    ids=["TGN-Att", "TGN-Att + positions", "TGAT", "TGAT + positions"],
)
def test_scores_are_those_of_the_equations(model, features):
    log = random_log(events=40, nodes=6)
    if not features:
        log = EventLog(log.src, log.dst, log.t)
    model = model.fresh()
    stream = Stream(model, log.schema, node_features=log.node_features, memory_block=7)
    # the fastest waves turn so often that rounding shows
    (model.machine.time if model.memory else model.own_time).frequency.data = torch.logspace(0, -3, 4)
    stream.observe(log)
    t = int(log.t[-1]) + 2
    pairs = [(2, 3), (3, 2), (0, 4), (5, 5), (2, 99)]
    with torch.no_grad():
        memory = model.machine.current(stream.state, np.arange(100)) if model.memory else None
        found = stream.score(Query(*(np.array(x) for x in zip(*pairs, strict=True)), np.full(len(pairs), t)))
        if log.node_features is not None:
            pairs, found = pairs[:-1], found[:-1]  # the literal model has no table for nodes beyond the log's
        expected = torch.stack([Literal(model, log, memory).score(u, v, t) for u, v in pairs])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_jodie_drifts_with_the_time_since_the_last_event():
    log = EventLog([0, 1, 0], [1, 2, 3], [10, 20, 30])
    model = JODIE(**SMALL, memory=5, time_unit=2)
    stream = Stream(model, log.schema, memory_block=1)
    stream.observe(log)
    step = model.steps[0]
    step.drift.data.uniform_(-1, 1)
    with torch.no_grad():
        found = stream.embed([0, 1, 2, 7], at=50)
        memory = model.machine.current(stream.state, np.array([0, 1, 2, 7]))
        since = torch.tensor([20, 30, 30, 0]) / 2  # node 7 has had no event
        expected = step.linear(memory) * (1 + since[:, None] * step.drift)
    torch.testing.assert_close(found, expected)


def test_dyrep_messages_carry_the_other_ends_neighborhood_just_before_the_event():
    # 1 met 2 and 3 before it met 0; block of 1, so that every event is committed at once
    log = EventLog([1, 1, 0, 0], [2, 3, 1, 4], [1, 2, 3, 4])
    model = DyRep(**SMALL, memory=4, neighbors=5)
    stream = Stream(model, log.schema, memory_block=1)
    with torch.no_grad():
        stream.observe(log[:2])
        s = model.machine.current(stream.state, np.arange(5))  # states that the event at 3 sees
        stream.observe(log[2:3])
        around = s[[3, 2]]  # the neighbors of 1
        weight = ((s[1] * around).sum(-1) / math.sqrt(4)).softmax(0)
        expected = torch.cat([s[0], s[1], weight @ around])  # own state, other's state, other's neighborhood
        torch.testing.assert_close(stream.state.message[0], expected)
        # seen from 1, the other end 0 has no past: its neighborhood is empty
        torch.testing.assert_close(stream.state.message[1], torch.cat([s[1], s[0], torch.zeros(4)]))


def test_memory_aside_the_embedding_of_dyrep_is_its_memory():
    log = random_log(events=60, nodes=8)
    model = DyRep(**SMALL, memory=4)
    stream = Stream(model, log.schema, node_features=log.node_features)
    stream.observe(log)
    nodes = np.arange(5)
    with torch.no_grad():
        state = torch.cat(
            [model.machine.current(stream.state, nodes), torch.from_numpy(log.node_features[:5].copy())], 1
        )
        found = stream.embed(nodes, at=int(log.t[-1]) + 1)
        torch.testing.assert_close(found, model.steps[0].linear(state))


@pytest.mark.parametrize(
    "model",
    [
        TGN(**SMALL, memory=5, neighbors=4),
        TGN(**SMALL, memory=5, neighbors=3, layers=2, positions=3, memory_aggregate="mean"),
        pytest.param(TGN(**SMALL, memory=3, memory_cell="identity", neighbors=3), marks=pytest.mark.slow),
        TGAT(**SMALL, neighbors=3),
        pytest.param(TGAT(**SMALL, neighbors=3, sample="uniform"), marks=pytest.mark.slow),
        JODIE(**SMALL, memory=5),
        pytest.param(JODIE(**SMALL, memory=5, positions=3), marks=pytest.mark.slow),
        DyRep(**SMALL, memory=5, neighbors=4),
    ],
    ids=["TGN-Att", "TGN-Att + positions", "no cell", "TGAT", "TGAT uniform", "JODIE", "JODIE + positions", "DyRep"],
)
def test_every_promise_holds(model):
    check_model(model, LOG)


def test_every_promise_holds_where_events_and_nodes_have_no_features():
    check_model(TGN(**SMALL, memory=5, neighbors=4), EventLog(LOG.src, LOG.dst, LOG.t))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TGN(dim=5), "heads=2; the number of heads must divide dim=5"),
        (lambda: TGN(embedding="atention"), "Did you mean 'attention'"),
        (lambda: TGN(message="states"), "Did you mean 'state'"),
        (lambda: TGN(embedding="time", layers=2), "only attention has layers"),
        (lambda: TGN(time_dim=0), "time_dim=0"),
        (lambda: TGAT(layers=0), "layers=0; TGAT needs at least 1"),
        (lambda: TGAT(sample="resent"), "Did you mean 'recent'"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(BadInput, match=message):
        make()


def test_weights_that_are_not_numbers_show_in_the_fused_model_as_in_the_one_as_written():
    log = EventLog(LOG.src, LOG.dst, LOG.t)
    model = TGN(**SMALL, memory=5)
    model.build(log.schema, 3)
    for name, weight in model.named_parameters():
        kept = weight.detach().clone()
        with torch.no_grad():
            weight.view(-1)[0] = torch.nan
        wrong = []
        for model.steps[0].fused in (True, False):
            wrong.append(Stream(model, log.schema, memory_block=20).replay(log, [log.query])[0].isnan())
        assert wrong[0].any() == wrong[1].any(), name
        assert abs(wrong[0].float().mean() - wrong[1].float().mean()) < 0.2, name
        weight.data = kept
    assert not Stream(model, log.schema).replay(log, [log.query])[0].isnan().any()


def test_a_model_of_another_type_than_its_memory_is_refused():
    log = EventLog(LOG.src, LOG.dst, LOG.t)
    stream = Stream(TGN(**SMALL, memory=5), log.schema, memory_block=20)
    stream.model.double()
    with pytest.raises(RuntimeError, match="dtype"):
        stream.replay(log, [log.query])


def test_the_gradient_is_the_same_however_often_it_is_asked_for():
    log = EventLog(LOG.src, LOG.dst, np.arange(len(LOG)))
    model = TGN(**SMALL, memory=5)
    stream = Stream(model, log.schema, memory_block=10)
    stream.observe(log[:40])
    (scores,) = stream.replay(log[40:50], [log[40:50].query])
    grad, weights = torch.randn_like(scores), list(model.parameters())
    kept = grad.clone()
    one, two = (torch.autograd.grad(scores, weights, grad, retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert torch.equal(grad, kept)
