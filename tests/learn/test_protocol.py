"""Parts of a log: what is trained on, what is measured, and logs that cannot be cut."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn import DELETE, EventLog
from pintgn.errors import BadInput, PintgnWarning
from pintgn.learn.protocol import Parts, cut, scored_events
from tests.learn.helpers import random_log


def test_trained_events_touch_no_hidden_node_and_new_events_touch_a_node_never_trained_on():
    log = random_log(1_000, 40)
    parts = Parts.of(log, hidden=0.2, seed=3)
    touched = set(parts.trained.src.tolist()) | set(parts.trained.dst.tolist())
    assert set(np.flatnonzero(parts.seen).tolist()) == touched
    for row, new in enumerate(parts.is_new(parts.test)):
        assert new == bool({parts.test.src[row], parts.test.dst[row]} - touched)
    assert len(parts.trained) < len(parts.train)


def test_the_hidden_nodes_of_others_are_the_same_for_every_seed():
    log = random_log(1_000, 40)
    seen = [Parts.of(log, hidden="dyglib", seed=seed).seen for seed in range(3)]
    assert (~seen[0]).sum() >= 4
    assert (seen[0] == seen[1]).all()
    assert (seen[0] == seen[2]).all()


def test_simultaneous_events_are_never_parted():
    parts = Parts.of(random_log(1_000, 40, ties=20))
    assert parts.train.t[-1] < parts.val.t[0]
    assert parts.val.t[-1] < parts.test.t[0]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (EventLog([0, 1], [1, 2], [1, 2]), "2 events at 2 distinct times cannot be cut"),
        (EventLog([0] * 50, [1, 2] * 25, [7] * 50), "50 events at 1 distinct time cannot be cut"),
        (EventLog([0, 1], [1, 2], [1, 1]), "2 events at 1 distinct time cannot be cut"),
        (EventLog(np.arange(50), np.full(50, 99), np.arange(50)), "one destination"),
        (EventLog([0] * 40, [1, 2] * 20, np.arange(40), op=[1] * 20 + [DELETE] * 20), "only 20 of them are additions"),
    ],
)
def test_a_log_that_cannot_be_learned_from_is_refused_in_one_line(log, message):
    with pytest.raises(BadInput, match=message):
        Parts.of(log)


def test_a_part_of_one_event_is_found_where_there_is_no_other():
    t = np.repeat([0, 1, 2], [90, 9, 1])
    train, val, test = cut(EventLog(np.arange(100) % 7, np.arange(100) % 5, t), 0.15, 0.15)
    assert [len(train), len(val), len(test)] == [90, 9, 1]


def test_large_groups_are_cut_where_they_can_be_and_that_is_said():
    """As in a log of snapshots whose last one has 30 % of all events: quantiles alone would leave nothing to test."""
    t = np.repeat([0, 1, 2, 3, 4], [40, 20, 5, 5, 30])
    log = EventLog(np.arange(100) % 7, np.arange(100) % 5, t)
    with pytest.warns(PintgnWarning, match="cut 65 / 5 / 30 %"):
        parts = Parts.of(log)
    assert [len(parts.train), len(parts.val), len(parts.test)] == [65, 5, 30]
    assert parts.before(parts.test).t[-1] < parts.test.t[0]


def test_measured_events_of_a_plain_log_are_the_log_itself():
    log = random_log()
    assert scored_events(log) is log
