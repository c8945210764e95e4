"""What PINT may know beyond the paper's model: the age of each contact, and how two nodes are acquainted."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pintgn import PINT, EventLog, Stream, check_model
from pintgn.errors import UnknownName
from pintgn.events.log import Query
from pintgn.models.history_view import HistoryView
from pintgn.models.layers import Edges, InjectiveLayer
from pintgn.models.pint import ages
from pintgn.models.trees import pair_features
from pintgn.neighbors.index import WAYS, NeighborIndex

EXTRAS = [
    {"contact_age": True},
    {"pair_history": True},
    {"pair_history": True, "positions": 0},
    {"historical": True, "memory": 6},
    {"contact_age": True, "pair_history": True, "layers": 2, "memory": 6},
]


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: " ".join(extra))
def test_every_promise_of_the_contract_holds_with_them(extra):
    check_model(PINT(dim=8, neighbors=3, **extra))


def small_log(seed: int = 0, events: int = 300, nodes: int = 12) -> EventLog:
    rng = np.random.default_rng(seed)
    return EventLog(
        rng.integers(0, nodes, events), rng.integers(0, nodes, events), np.sort(rng.integers(0, 150, events))
    )


@pytest.mark.parametrize("historical", [False, True])
def test_ranking_equals_scoring_pair_by_pair(historical):
    log = small_log()
    model = PINT(dim=8, neighbors=4, contact_age=True, pair_history=True, historical=historical)
    stream = Stream(model, log.schema)
    stream.observe(log[:200])
    t = np.full(3, stream.clock + 5)
    query = Query(np.array([0, 3, 11]), np.zeros(3, np.int64), t)
    candidates = np.tile(np.arange(14), (3, 6))  # wide enough to be ranked together; two nodes are unknown
    with torch.no_grad():
        together = stream.rank(None, query, candidates)
        pairs = query[np.repeat(np.arange(3), candidates.shape[1])].toward(candidates.ravel())
        one_by_one = stream.score(pairs).view(3, -1)
    torch.testing.assert_close(together, one_by_one, rtol=1e-5, atol=1e-5)


def test_each_question_has_a_logit_of_its_own():
    log = small_log()
    for historical, questions in ((False, ("anyone",)), (True, ("anyone", "known"))):
        stream = Stream(PINT(dim=8, neighbors=4, historical=historical), log.schema)
        stream.observe(log[:200])
        query = Query(np.array([0, 3]), np.array([1, 2]), np.full(2, stream.clock + 5))
        assert stream.model.questions == questions
        with torch.no_grad():
            both = stream.replay(None, [query])[0]
            anyone, known = stream.score(query), stream.score(query, "known")
        assert both.shape == ((2, 2) if historical else (2,))
        assert stream.replay(None, [query[:0]])[0].shape == ((0, 2) if historical else (0,))
        if historical:
            assert (both[:, 0] == anyone).all()
            assert (both[:, 1] == known).all()
            assert (anyone != known).all()
        else:  # one logit for every question
            assert (anyone == known).all()
    with pytest.raises(UnknownName, match="Did you mean 'known'"):
        stream.score(query, "knwn")


def test_fused_message_passing_equals_the_equations_as_written():
    log = small_log(1)
    model = PINT(dim=8, neighbors=4, layers=2, contact_age=True)
    stream = Stream(model, log.schema)
    stream.observe(log[:250])
    query = log[250:].query
    with torch.no_grad():
        fused = stream.fork().replay(log[250:], [query])[0]
        for step in model.steps:
            assert isinstance(step, InjectiveLayer)
            step.fused = False
        plain = stream.fork().replay(log[250:], [query])[0]
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-5)


def test_acquaintance_tells_which_way_round_two_nodes_met():
    """0 -> 1 and 2 -> 3 look alike to PINT seen from either side; only the direction of the query differs."""
    log = EventLog(np.array([0, 3]), np.array([1, 2]), np.array([1, 1]))
    asked = Query(np.array([0, 2]), np.array([1, 3]), np.array([5, 5]))
    for pair_history in (False, True):
        stream = Stream(PINT(dim=8, pair_history=pair_history), log.schema)
        stream.observe(log)
        with torch.no_grad():
            forth, back = stream.score(asked).tolist()
        assert (abs(forth - back) > 1e-4) == pair_history


def test_columns_of_ages_are_what_they_say():
    dt, mask = torch.tensor([0.5, 7.0]), torch.tensor([True, False])
    found = ages(Edges(np.zeros(2, np.int32), mask, dt, np.zeros(2, np.int32), None, 1))
    wanted = [math.log1p(0.5), math.log1p(50) / 2, math.log1p(5000) / 4, 2**-5]
    assert found[0] == pytest.approx(wanted)
    assert found[1].tolist() == [0, 0, 0, 0]


def test_columns_of_acquaintance_are_what_they_say():
    index = NeighborIndex()
    index.append([0, 0, 0], [1, 1, 1], [1, 2, 10])
    history = HistoryView(index, np.array([30]), np.array([3]), None, None)
    found = pair_features(np.array([0]), np.array([1]), history, 10.0)
    d = 2.0
    wanted = [1, math.log1p(3) / 2, math.log1p(d) / 2, math.log1p(100 * d) / 4, math.log1p(10_000 * d) / 8]
    wanted += [2 ** (-0.1 * d), 2**-d, 2 ** (-10 * d)]
    columns = found.reshape(len(WAYS), 8)
    for way, row in zip(WAYS, columns, strict=True):
        assert row == pytest.approx(wanted if way in ("u to v", "u to anyone", "anyone to v") else [0] * 8), way


@pytest.mark.parametrize("transform", ["raw", "rate", "l1", "log1p"])
def test_every_transform_of_positions_gives_finite_scores(transform):
    log = small_log(2)
    stream = Stream(PINT(dim=8, positions=5, positions_transform=transform), log.schema)
    with torch.no_grad():
        found = stream.replay(log, [log.query])[0]
    assert torch.isfinite(found).all()
