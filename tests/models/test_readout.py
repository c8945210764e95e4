"""What PINT may know beyond the paper's model: what is known about two nodes, and a second question."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given

from pintgn import PINT, EventLog, Stream, check_model
from pintgn.errors import UnknownName
from pintgn.events.log import Query
from pintgn.events.splits import time_scale
from pintgn.models.history_view import HistoryView
from pintgn.models.known_columns import LEAST_DEVIATION, SAMPLED, KnownColumns
from pintgn.models.layers import InjectiveLayer
from pintgn.models.pair_features import (
    COLUMNS,
    EVER,
    LAST_DESTINATIONS,
    NEAR,
    NEWEST,
    RECENT,
    VISITORS,
    WINDOWS,
    pair_features,
)
from pintgn.models.registry import model_class
from pintgn.neighbors import adjacency
from pintgn.neighbors.index import CO_VISITS, WAYS, NeighborIndex
from tests.neighbors.oracle import loops

EXTRAS = [
    {"pair_history": True},
    {"historical": True, "memory": 6},
    pytest.param({"pair_history": True, "positions": 0}, marks=pytest.mark.slow),
    pytest.param({"pair_history": True, "layers": 2, "memory": 6}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: " ".join(extra))
def test_every_promise_of_the_contract_holds_with_them(extra):
    check_model(PINT(dim=8, neighbors=3, **extra))


@pytest.mark.parametrize(
    "name",
    ["tgn", *(pytest.param(one, marks=pytest.mark.slow) for one in ("tgat", "jodie", "dyrep", "gat", "graphsage"))],
)
def test_every_model_with_trees_can_know_about_pairs(name):
    """And whatever it knows then, it keeps every promise."""
    model = model_class(name)(dim=8, pair_history=True)
    check_model(model)
    log = small_log()
    model = model.fresh()
    model.prepare(log)
    stream = Stream(model, log.schema)
    assert stream.model.readout.first.in_features == 2 * 8 + len(COLUMNS)
    assert stream.model.standardize.mean.any(), "what is usual comes from the training part"


def small_log(seed: int = 0, events: int = 300, nodes: int = 12) -> EventLog:
    rng = np.random.default_rng(seed)
    return EventLog(
        rng.integers(0, nodes, events), rng.integers(0, nodes, events), np.sort(rng.integers(0, 150, events))
    )


@pytest.mark.parametrize("historical", [False, True])
def test_ranking_equals_scoring_pair_by_pair(historical):
    log = small_log()
    model = PINT(dim=8, neighbors=4, pair_history=True, historical=historical)
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
    model = PINT(dim=8, neighbors=4, layers=2)
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


def ever(count: int, dt: float) -> list[float]:
    """The columns of a direction in which there were events, the last so long ago."""
    ages = [math.log1p(scale * dt) for scale in (1, 100, 10_000)]
    return [1, math.log1p(count), *ages, 2 ** (-0.1 * dt), 2**-dt, 2 ** (-10 * dt)]


def test_columns_of_a_pair_are_what_they_say():
    """0 wrote to 1 at 1, 2 and 10, and to 2 at 20; 1 wrote to 2 at 21. It is 30, and the unit is 10."""
    index = NeighborIndex()
    index.append([0, 0, 0, 0, 1], [1, 1, 1, 2, 2], [1, 2, 10, 20, 21])
    history = HistoryView(index, np.array([30]), np.array([5]), None, None)
    found = dict(zip(COLUMNS, pair_features(np.array([0]), np.array([1]), history, 10.0)[0].tolist(), strict=True))

    wanted = {
        "u to v": ever(3, 2.0),
        "u to anyone": ever(4, 1.0),
        "v to anyone": ever(1, 0.9),
        "anyone else to v": ever(3, 2.0),
    }
    for way in WAYS:
        columns = [value for name, value in found.items() if name.startswith(f"{way}: ")]
        assert columns == pytest.approx(wanted.get(way, [0] * 8)), way
    rates = {"u to v": [0, 0, 0, 3, 3], "u to anyone": [0, 0, 1, 4, 4], "v to anyone": [0, 0, 1, 1, 1]}
    rates["anyone else to v"] = rates["u to v"]
    for way in WAYS:  # within 0 (at least 1), 1, 10, 100 and 1,000
        columns = [value for name, value in found.items() if name.startswith(f"{way} within ")]
        assert columns == pytest.approx(np.log1p(rates.get(way, [0] * 5))), way
    recent = [found[name] for name in RECENT]
    # 1 comes after one newer contact of 0, and 0 after one of 1; both know two nodes by four contacts; both know 2
    near, busy, shared = [1, math.log1p(1)] * 2, [0.5, 4 / 32] * 2, [1, 1 / (1 + 1.0), 1 / (1 + 0.9)]
    assert recent == pytest.approx([*near, *busy, *np.log1p(shared)])


@pytest.mark.parametrize("hub", [3, adjacency.HUB])
@given(log=loops())
def test_every_column_of_a_pair_is_what_the_log_says_with_self_loops(hub, log):
    """Against reading the whole log. A self-loop is outgoing: what comes in is from anyone else."""
    with patch.object(adjacency, "HUB", hub):
        index, naive = log.index(), log.naive()
    last = log.t[-1] if log.t else 0
    u, v = (one.ravel() for one in np.meshgrid(np.arange(3), np.arange(3), indexing="ij"))
    for now in {last, last + 1}:
        when = np.full(len(u), now, log.kind)
        before = np.searchsorted(np.array(log.t, log.kind), when)
        found = pair_features(u, v, HistoryView(index, when, before, None, None), 2.0)
        windows = [max(2 * window, 1 if log.kind is np.int64 else 0) for window in WINDOWS]
        windows = [int(window) if log.kind is np.int64 else window for window in windows]
        for row in range(len(u)):
            counts, dt, within = naive.pair_history(u[row], v[row], now, windows=windows)
            wanted = dict.fromkeys(COLUMNS, 0.0)
            for way, count, since, rates in zip(WAYS, counts, dt, within, strict=True):
                wanted |= {f"{way} within {w:g}": math.log1p(rate) for w, rate in zip(WINDOWS, rates, strict=True)}
                wanted |= (
                    dict(zip((f"{way}: {what}" for what in EVER), ever(count, since / 2), strict=True)) if count else {}
                )
            near = naive.recent_contacts(u[row], v[row], now, NEWEST, 2.0)
            ranks = [one for rank in near["ranks"] for one in (float(rank >= 0), math.log1p(max(rank, 0)))]
            held = zip(near["partners"], near["held"], strict=True)
            busy = [one for partners, many in held for one in (partners / max(many, 1), many / NEWEST)]
            wanted |= dict(zip(RECENT, [*ranks, *busy, *np.log1p(near["shared"])], strict=True))
            visits = np.array(naive.co_visits(u[row], v[row], now, LAST_DESTINATIONS, VISITORS, NEAR, 2.0))
            together = [*np.log1p(visits[:2]), *np.sqrt(visits[2:])]
            wanted |= {f"co-visits: {what}": one for what, one in zip(CO_VISITS, together, strict=True)}
            assert dict(zip(COLUMNS, found[row].tolist(), strict=True)) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("newer", [NEWEST - 2, NEWEST - 1, NEWEST])
def test_so_many_contacts_are_compared_and_no_more(newer):
    """0 met 1, then `newer` others."""
    index, others = NeighborIndex(), np.arange(2, 2 + newer)
    index.append(np.zeros(1 + newer, np.int64), np.append(1, others), np.arange(1 + newer))
    history = HistoryView(index, np.array([newer + 1]), np.array([newer + 1]), None, None)
    found = dict(zip(COLUMNS, pair_features(np.array([0]), np.array([1]), history, 10.0)[0].tolist(), strict=True))
    among = newer < NEWEST
    assert found["v among u's newest"] == among
    assert found["rank of v"] == pytest.approx(math.log1p(newer) if among else 0)
    assert found["contacts of u"] == min(newer + 1, NEWEST) / NEWEST
    assert found["partners of u"] == 1
    assert found["u to v: met"] == 1


def co_visits_of(src: list[int], dst: list[int], u: int, v: int) -> dict[str, float]:
    """Of u and v after events at 0, 1, 2, …"""
    index, now = NeighborIndex(), len(src)
    index.append(src, dst, np.arange(now))
    history = HistoryView(index, np.array([now]), np.array([now]), None, None)
    found = dict(zip(COLUMNS, pair_features(np.array([u]), np.array([v]), history, 10.0)[0].tolist(), strict=True))
    return {name.removeprefix("co-visits: "): value for name, value in found.items() if name.startswith("co-visits")}


@pytest.mark.parametrize("newer", [LAST_DESTINATIONS - 2, LAST_DESTINATIONS - 1, LAST_DESTINATIONS])
def test_so_many_last_destinations_are_compared_and_no_more(newer):
    """1 was at 2 and 3; 0 was at 2, then at `newer` others. Is 3 next?"""
    others = list(range(4, 4 + newer))
    found = co_visits_of([1, 1, 0, *[0] * newer], [2, 3, 2, *others], 0, 3)
    assert found["visitors of both"] == pytest.approx(math.log(2) if newer < LAST_DESTINATIONS else 0)


@pytest.mark.parametrize("newer", [VISITORS - 2, VISITORS - 1, VISITORS])
def test_so_many_visitors_are_compared_and_no_more(newer):
    """1 was at 2 and 3; then `newer` others were at 3, and 0 at 2. Is 3 next?"""
    others = list(range(4, 4 + newer))
    found = co_visits_of([1, 1, *others, 0], [2, 3, *[3] * newer, 2], 0, 3)
    assert found["visitors of both"] == pytest.approx(math.log(2) if newer < VISITORS else 0)


@pytest.mark.parametrize("between", [NEAR - 2, NEAR - 1, NEAR])
def test_visits_with_so_many_contacts_between_them_are_near(between):
    """1 was at 2, at `between` others, and at 3; 0 at 2. Is 3 next?"""
    others = list(range(4, 4 + between))
    found = co_visits_of([1, *[1] * between, 1, 0], [2, *others, 3, 2], 0, 3)
    assert found["visitors of both"] == pytest.approx(math.log(2))
    assert (found["from the last to v"] > 0) == (between < NEAR)


def test_nothing_is_known_about_strangers():
    history = HistoryView(NeighborIndex(), np.array([30]), np.array([0]), None, None)
    assert not pair_features(np.array([0]), np.array([1]), history, 10.0).any()


@pytest.mark.parametrize("unit", [1e-3, 1.0, 2.0**61])
@pytest.mark.parametrize("time", [np.int64, np.float64])
def test_columns_of_a_pair_are_finite_whatever_the_unit_of_time(unit, time):
    index, far = NeighborIndex(), 3 * 2**60
    index.append([0, 1], [1, 0], np.array([-far, far - 1], time))
    history = HistoryView(index, np.array([far], time), np.array([2]), None, None)
    assert np.isfinite(pair_features(np.array([0]), np.array([1]), history, unit)).all()


@pytest.mark.parametrize("events", [SAMPLED - 1, SAMPLED, SAMPLED + 1])
def test_what_is_usual_comes_from_training_events_evenly_taken(events):
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 9, events), rng.integers(0, 9, events), np.arange(events))
    mean, deviation = KnownColumns(log.schema, True, None, 5.0).usual(log)
    assert (deviation >= LEAST_DEVIATION).all()
    assert 0 < mean[COLUMNS.index("u to v: met")] < 1
    model = PINT(dim=8, pair_history=True)
    model.prepare(log)
    model.build(log.schema)
    expected, _ = KnownColumns(log.schema, True, None, time_scale(log.src, log.dst, log.t)).usual(log)
    assert model.standardize.mean.numpy() == pytest.approx(expected)


def test_what_is_usual_comes_from_the_newest_events_of_a_long_log(monkeypatch):
    monkeypatch.setattr("pintgn.models.known_columns.SAMPLED_FROM", 100)
    log = small_log()
    same = EventLog(log.src[::-1].copy(), log.dst[::-1].copy(), log.t)
    later = EventLog(np.r_[same.src[:200], log.src[200:]], np.r_[same.dst[:200], log.dst[200:]], log.t)
    columns = KnownColumns(log.schema, True, None, 5.0)
    for one, two in zip(columns.usual(log), columns.usual(later), strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("transform", ["raw", "rate", "l1", "log1p"])
def test_every_transform_of_positions_gives_finite_scores(transform):
    log = small_log(2)
    stream = Stream(PINT(dim=8, positions=5, positions_transform=transform), log.schema)
    with torch.no_grad():
        found = stream.replay(log, [log.query])[0]
    assert torch.isfinite(found).all()
