"""What TGN-Att does as one operation, and what it need not do twice, equals what its parts do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn.check import check_model, random_log
from pintgn.events.log import EventLog, Query
from pintgn.models.fused import Run
from pintgn.models.layers import MLP
from pintgn.models.pairs import Judgement
from pintgn.models.past import Events
from pintgn.models.recurrent import Step
from pintgn.models.tgn import TGN
from pintgn.stream import Stream

LOG = random_log(events=110, nodes=10)


def learned(model: TGN, log: EventLog, chains: bool) -> list[torch.Tensor]:
    """Scores of some batches, and the gradients of every parameter."""
    stream = Stream(model, log.schema, memory_block=20)
    model._chains, found = chains, []
    for batch in log.batches(20):
        query = batch.query
        wrong = query.toward(query.dst[::-1].copy())
        scores = torch.cat(stream.replay(batch, [query, wrong]))
        model.zero_grad()
        scores.square().sum().backward()
        found += [scores.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
    return found


@pytest.mark.parametrize("features", [True, False], ids=["event features", "no features"])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_chain_equals_its_parts(features, heads):
    log = EventLog(LOG.src, LOG.dst, LOG.t, features=LOG.marked_features if features else None)
    model = TGN(dim=6, memory=5, time_dim=4, heads=heads)
    model.build(log.schema, 3)
    model.machine.time.frequency.data = torch.logspace(0, -2, 4)  # slow enough for float32 to agree on the angle
    assert model._chains
    chained, by_parts = learned(model, log, True), learned(model, log, False)
    model.steps[0].fused = False
    as_written = learned(model, log, True)
    for one, two, three in zip(chained, by_parts, as_written, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one, three, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("features", [True, False], ids=["event features", "no features"])
def test_the_chain_keeps_every_promise(features):
    log = EventLog(LOG.src, LOG.dst, LOG.t, features=LOG.marked_features if features else None)
    check_model(TGN(dim=6, memory=5, time_dim=4, neighbors=4), log)


@pytest.mark.parametrize("settings", [{"layers": 2}, {"positions": 2}, {"embedding": "time"}, {"memory": 0}])
def test_where_something_stands_between_the_parts_there_is_no_chain(settings):
    model = TGN(dim=6, **settings)
    model.build(LOG.schema)
    assert not model._chains


def test_weights_that_are_not_numbers_show_in_the_chain_as_in_its_parts():
    log = EventLog(LOG.src, LOG.dst, LOG.t)
    model = TGN(dim=6, memory=5, time_dim=4)
    model.build(log.schema, 3)
    for name, weight in model.named_parameters():
        kept = weight.detach().clone()
        with torch.no_grad():
            weight.view(-1)[0] = torch.nan
        wrong = []
        for model._chains, model.steps[0].fused in ((True, True), (False, False)):
            wrong.append(Stream(model, log.schema, memory_block=20).replay(log, [log.query])[0].isnan())
        assert wrong[0].any() == wrong[1].any(), name
        assert abs(wrong[0].float().mean() - wrong[1].float().mean()) < 0.2, name
        weight.data = kept
    assert not Stream(model, log.schema).replay(log, [log.query])[0].isnan().any()


def test_a_model_of_another_type_than_its_memory_is_refused():
    log = EventLog(LOG.src, LOG.dst, LOG.t)
    stream = Stream(TGN(dim=6, memory=5, time_dim=4), log.schema, memory_block=20)
    stream.model.double()
    with pytest.raises(Exception, match="must be of one type"):
        stream.replay(log, [log.query])


def test_the_gradient_is_the_same_however_often_it_is_asked_for():
    model, stream = begun()
    (scores,) = stream.replay(plain(40, 50), [plain(40, 50).query])
    grad, weights = torch.randn_like(scores), list(model.parameters())
    kept = grad.clone()
    one, two = (torch.autograd.grad(scores, weights, grad, retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert torch.equal(grad, kept)


def test_an_operation_refuses_a_result_that_was_changed():
    h, readout = torch.randn(3, 4, requires_grad=True), MLP(8, 4, 1)
    scores = Run.apply(Judgement(np.array([0, 1, 1, 2])), h, *readout.weights)
    doubled = scores * 2
    scores.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        doubled.sum().backward()


def test_an_operation_refuses_weights_that_have_changed_since():
    cell = torch.nn.GRUCell(4, 2)
    waves = [torch.ones(2, requires_grad=True) for _ in range(2)]
    weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh, *waves]
    step = Step(np.arange(3), torch.zeros(3, 2), np.ones(3, bool), torch.zeros(3, 2), torch.ones(3))
    out = Run.apply(step, *weights)
    with torch.no_grad():
        cell.weight_ih += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_the_ends_of_events_are_their_distinct_nodes():
    rng = np.random.default_rng(0)
    for size in (0, 1, 30):
        src, dst = rng.integers(0, 9, (2, size))
        nodes, places = Events(src, dst, np.arange(size), None).ends
        assert (nodes == np.unique([src, dst])).all()
        assert (nodes[places] == np.stack([src, dst])).all()


# -- what was computed for learning, used again by the commit ------------------------------------------------------


def counted(monkeypatch) -> list[int]:
    """How many nodes were stepped, call by call."""
    calls: list[int] = []
    forward = Step.forward

    def count(self, *weights):
        calls.append(len(self.nodes))
        return forward(self, *weights)

    monkeypatch.setattr(Step, "forward", count)
    return calls


def begun(block: int = 10) -> tuple[TGN, Stream]:
    model = TGN(dim=6, memory=5, time_dim=4)
    stream = Stream(model, EventLog(LOG.src, LOG.dst, LOG.t).schema, memory_block=block)
    stream.observe(plain(0, 40))
    return model, stream


def plain(first: int, last: int) -> EventLog:
    return EventLog(LOG.src[first:last], LOG.dst[first:last], np.arange(first, last))


def test_a_commit_while_learning_does_not_step_again_and_leaves_the_same(monkeypatch):
    _, stream = begun()
    other = stream.fork()
    calls = counted(monkeypatch)
    stream.replay(plain(40, 50), [plain(40, 50).query])
    assert len(calls) == 1
    with torch.no_grad():  # what is observed does not depend, in its last bits, on what is asked
        other.replay(plain(40, 50), [plain(40, 50).query])
    assert len(calls) == 3
    for one, two in zip(stream.state.arrays().values(), other.state.arrays().values(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_a_commit_steps_again_when_nodes_or_weights_are_others(monkeypatch):
    model, stream = begun()
    calls = counted(monkeypatch)

    stream.replay(plain(40, 50), [Query(np.array([0]), np.array([1]), np.array([40]))])
    assert len(calls) == 2, "not everyone was asked about"

    fork = stream.fork()
    stream.score(Query(np.arange(10), np.arange(10), np.full(10, 50)))
    fork.observe(plain(50, 60))
    assert len(calls) == 4, "another stream, which shares the model"

    stream.score(Query(np.arange(10), np.arange(10), np.full(10, 50))).sum().backward()
    torch.optim.Adam(model.parameters(), 0.1, fused=True).step()  # does not count as a version of the weights
    other = stream.fork()
    stream.observe(plain(50, 60))
    other.observe(plain(50, 60))
    assert len(calls) == 7, "the weights have changed"
    for one, two in zip(stream.state.arrays().values(), other.state.arrays().values(), strict=True):
        assert (one == two).all()
