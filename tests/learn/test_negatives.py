"""Negatives are what DGB and DyGLib say they are, checked against definitions written out with sets."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn import DELETE, EventLog
from pintgn.errors import UnknownName
from pintgn.events.schema import Schema
from pintgn.learn import negatives
from pintgn.learn.metrics import CHUNK
from pintgn.learn.negatives import KINDS, current_destination, draw, is_event, random_destination
from pintgn.learn.protocol import Parts, destinations
from tests.learn.helpers import random_log


def parted(log):
    train, _, test = log.split()
    return log[: test.first], test, train


def pairs(log, t0=None, t1=None):
    """Distinct pairs with t0 <= t <= t1."""
    keep = np.ones(len(log), bool)
    keep &= True if t0 is None else log.t >= t0
    keep &= True if t1 is None else log.t <= t1
    return set(zip(log.src[keep].tolist(), log.dst[keep].tolist(), strict=True))


@pytest.mark.parametrize("ties", [1, 8])
@pytest.mark.parametrize("seed", range(3))
def test_what_did_happen_is_told_from_negatives(seed, ties):
    part = random_log(400, 12, seed, ties=ties)[100:300]
    query = current_destination(part, np.random.default_rng(seed))
    events = set(zip(part.src.tolist(), part.dst.tolist(), part.t.tolist(), strict=True))
    asked = zip(query.src.tolist(), query.dst.tolist(), query.t.tolist(), strict=True)
    wanted = [one in events for one in asked]
    assert is_event(query, part).tolist() == wanted
    assert any(wanted)
    assert not all(wanted)


@pytest.mark.parametrize("kind", ["historical", "inductive"])
@pytest.mark.parametrize("seed", range(3))
def test_chunked_negatives_are_those_of_dyglib(kind, seed):
    """Pairs up to a chunk's first time, less those up to the last observed time when inductive, less those from the
    chunk's first to its last time; distinct; the rest are random pairs outside the chunk, and stand first."""
    log = random_log(3_000, 60, seed, ties=5)
    before, test, _ = parted(log)
    drawn = draw(kind, log, test, seed, before)
    for start in range(0, len(test), CHUNK):
        rows = slice(start, start + CHUNK)
        t0, t1 = test.t[rows][0], test.t[rows][-1]
        allowed = pairs(log, None, t0) - pairs(log, t0, t1)
        if kind == "inductive":
            allowed -= pairs(before)
        found = list(zip(drawn.query.src[rows].tolist(), drawn.query.dst[rows].tolist(), strict=True))
        fell = drawn.fallback[rows]
        by_rule = [pair for pair, fallback in zip(found, fell, strict=True) if not fallback]
        by_chance = [pair for pair, fallback in zip(found, fell, strict=True) if fallback]
        assert set(by_rule) <= allowed
        assert len(set(by_rule)) == len(by_rule) == min(len(allowed), len(found))
        assert not set(by_chance) & set(zip(test.src[rows].tolist(), test.dst[rows].tolist(), strict=True))
        assert (np.sort(~fell) == ~fell).all(), "random ones come first"
    assert (drawn.query.t == test.t).all()


def test_historical_negatives_are_drawn_evenly():
    log = random_log(3_000, 30, 1, ties=1)
    before, test, _ = parted(log)
    chunk = test[:20]
    counts: dict = {}
    for seed in range(300):
        drawn = draw("historical", log, chunk, seed, before)
        for pair in zip(drawn.query.src.tolist(), drawn.query.dst.tolist(), strict=True):
            counts[pair] = counts.get(pair, 0) + 1
    allowed = pairs(log, None, chunk.t[0]) - pairs(log, chunk.t[0], chunk.t[-1])
    assert set(counts) == allowed
    expected = 300 * 20 / len(allowed)
    assert max(abs(count - expected) for count in counts.values()) < 6 * expected**0.5


@pytest.mark.parametrize("seed", range(3))
def test_per_event_negatives_were_met_before_and_not_now(seed):
    log = random_log(600, 15, seed, ties=6)
    _, test, _ = parted(log)
    drawn = draw("per-event", log, test, seed, log[: test.first])
    assert (drawn.query.src == test.src).all()
    for row in range(len(test)):
        s, t = test.src[row], test.t[row]
        history = {d for _, d in pairs(log.where((log.src == s) & (log.t < t)))}
        now = {d for _, d in pairs(log.where((log.src == s) & (log.t == t)))}
        if drawn.fallback[row]:
            assert not history - now
        else:
            assert drawn.query.dst[row] in history - now


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_per_event_negatives_do_not_depend_on_chunks(rows, monkeypatch):
    log = random_log(1_000, 15, 2)
    before, test, _ = parted(log)

    def drawn(kind):
        found = draw(kind, log, test, 0, before)
        return [*found.query.src.tolist(), *found.query.dst.tolist(), *found.query.t.tolist(), *found.fallback.tolist()]

    whole, by_chunks = drawn("per-event"), drawn("historical")
    monkeypatch.setattr(negatives, "CHUNK", rows)
    assert drawn("per-event") == whole
    assert drawn("historical") != by_chunks, "those do depend on them; else the chunks were the same"
    assert 0 < draw("per-event", log, test, 0, before).fallback_fraction < 0.5


def test_where_nobody_was_met_before_any_destination_can_be_drawn():
    log = EventLog(np.arange(200), 200 + np.arange(200) % 8, np.arange(200))  # every source is new
    before, test, _ = parted(log)
    drawn = draw("per-event", log, test, 0, before)
    assert drawn.fallback.all()
    assert set(drawn.query.dst.tolist()) == set(range(200, 208))


@pytest.mark.parametrize("kind", KINDS)
def test_negatives_are_fixed_by_split_and_seed(kind):
    log = random_log(800, 25)
    before, test, _ = parted(log)
    one, again, other = (draw(kind, log, test, seed, before) for seed in (0, 0, 1))
    assert (one.query.dst == again.query.dst).all()
    assert (one.query.src == again.query.src).all()
    assert (one.query.dst != other.query.dst).any()


def test_everything_falls_back_where_there_is_no_history_and_that_is_said():
    log = EventLog(np.arange(40) % 5, 5 + np.arange(40) // 5, np.arange(40))  # no pair ever repeats
    _, test, _ = parted(log)
    drawn = draw("inductive", log, test[:3], 0, log[: test.first])
    assert drawn.fallback_fraction == 1.0


def test_pairs_that_fill_a_gap_are_any_source_with_any_destination():
    log = EventLog(np.arange(400) % 20, 20 + np.arange(400) // 20, np.arange(400))  # no pair ever repeats
    _, test, _ = parted(log)
    drawn = draw("inductive", log, test, 0, log[: test.first])
    fell = drawn.query.src[drawn.fallback], drawn.query.dst[drawn.fallback]
    assert len(fell[0]) > 50
    assert len(set(fell[0].tolist())) > 15
    assert len(set(fell[1].tolist())) > 15


def test_random_negatives_come_from_destinations_only():
    log = EventLog(np.arange(50) % 5, 5 + np.arange(50) % 7, np.arange(50))
    drawn = random_destination(log)(log, np.random.default_rng(0))
    assert set(drawn.dst.tolist()) <= set(range(5, 12))
    assert (drawn.src == log.src).all()


def test_the_dummy_node_and_deletions_stay_out_of_everything():
    rng = np.random.default_rng(0)
    src, dst, t = rng.integers(0, 10, 200), rng.integers(0, 10, 200), np.arange(200)
    dst[rng.random(200) < 0.2] = 10  # the dummy: node 10
    op = np.where(rng.random(200) < 0.2, DELETE, 1)
    schema = Schema(op="op", dummy=10)
    log = EventLog(src, dst, t, op=op, schema=schema)
    parts = Parts.of(log, hidden=0.3)
    assert 10 not in destinations(log)
    assert parts.seen.shape == (11,)
    hidden = set(range(10)) - set(np.flatnonzero(parts.seen).tolist())
    assert len(hidden) == 3
    for kind in KINDS:
        drawn = draw(kind, log, parts.test, 0, parts.before(parts.test))
        assert len(drawn.query) == len(parts.test.scored_events) < len(parts.test)
        assert 10 not in drawn.query.dst
    assert (parts.test.scored_events.op == 1).all()


def test_an_unknown_kind_is_suggested():
    log = random_log()
    with pytest.raises(UnknownName, match="historical"):
        draw("historic", log, log.split()[2], 0, log[:10])
