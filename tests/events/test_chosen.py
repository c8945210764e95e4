"""Rows of another log stand for a copy of them, whatever is asked."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.errors import BadInput
from pintgn.events import chosen
from pintgn.events.chosen import ChosenLog
from pintgn.events.log import COLUMNS, EventLog
from pintgn.events.schema import ADD, DELETE, NODE


def full_log(events: int = 60, seed: int = 0) -> EventLog:
    """Every column there is, with ties, deletions and node events."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 9, (2, events))
    t, op = np.sort(rng.integers(0, 25, events)), rng.choice([ADD, DELETE, NODE], events, p=[0.7, 0.1, 0.2])
    dst = np.where(op == NODE, src, dst)
    some = rng.normal(size=(events, 2)).astype(np.float32)
    updates, nodes = rng.normal(size=(int((op == NODE).sum()), 3)), rng.normal(size=(9, 3))
    return EventLog(
        src, dst, t, features=some, label=rng.random(events), op=op, node_updates=updates, node_features=nodes
    )


def same(one: EventLog, other: EventLog) -> None:
    assert one == other
    assert one.first == other.first
    for name in COLUMNS:
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype
            assert not a.flags.writeable


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_where_gives(seed):
    log, rng = full_log(seed=seed), np.random.default_rng(seed)
    keep = rng.random(len(log)) < 0.6
    ours, theirs = ChosenLog.of(log[3:], keep[3:]), log[3:].where(keep[3:])
    same(ours, theirs)
    same(ours[4:17], theirs[4:17])
    same(ours[-5:], theirs[-5:])
    same(ours[2:][3:9], theirs[2:][3:9])
    same(ours.between(5, 15), theirs.between(5, 15))
    again = rng.random(len(theirs)) < 0.5
    same(ours.where(again), theirs.where(again))
    for mine, other in zip(ours[5:].batches(7), theirs[5:].batches(7), strict=True):
        assert type(mine) is EventLog
        same(mine, other)
    rows = rng.integers(0, len(theirs), 10)
    assert all(np.array_equal(a, b) for a, b in zip(ours.ends(rows), theirs.ends(rows), strict=True))
    assert [ours.row_at(t) for t in range(-1, 27)] == [theirs.row_at(t) for t in range(-1, 27)]
    assert np.array_equal(ours.marked_features, theirs.marked_features)
    assert np.array_equal(ours.ties, theirs.ties)
    assert ours.fingerprint == theirs.fingerprint
    assert repr(ours) == repr(theirs)


def test_nothing_and_everything():
    log = full_log()
    same(ChosenLog.of(log, np.zeros(len(log), bool)), log.where(np.zeros(len(log), bool)))
    same(ChosenLog.of(log, np.ones(len(log), bool)), log.where(np.ones(len(log), bool)))


@pytest.mark.parametrize(("most", "kind"), [(59, np.int64), (60, np.int32), (61, np.int32)])
def test_rows_are_as_wide_as_they_must_be(most, kind, monkeypatch):
    monkeypatch.setattr(chosen, "NARROW", most)
    log = full_log(60)
    made = ChosenLog.of(log, np.ones(60, bool))
    assert made.rows.dtype == kind
    same(made, log.where(np.ones(60, bool)))


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(BadInput, match="59 rows, the log 60"):
        ChosenLog.of(full_log(60), np.ones(59, bool))
    with pytest.raises(BadInput, match="3 rows, the log 60"):
        ChosenLog.of(full_log(60), np.ones(60, bool)).where(np.ones(3, bool))
    with pytest.raises(AttributeError):
        ChosenLog.of(full_log(60), np.ones(60, bool)).sorce  # noqa: B018
