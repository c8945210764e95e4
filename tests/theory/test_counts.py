"""Positions counted over the log equal occurrences in monotone trees, exactly, however large."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.events.log import EventLog
from pintgn.theory.counts import position_vectors
from pintgn.theory.past import Past
from pintgn.theory.trees import monotone_tree
from tests.theory.helpers import random_log, varied_logs


def test_positions_are_occurrences_in_the_monotone_tree():
    for log in varied_logs(25):
        past, d = Past(log), 4
        vectors = position_vectors(past, np.arange(log.nodes), d)
        for root in range(log.nodes):
            seen = monotone_tree(log, root).occurrences(d)
            for i in range(log.nodes):
                assert vectors[root, i].tolist() == seen.get(i, [0] * d)


def test_positions_equal_the_walk_oracle():
    walks = pytest.importorskip("pintgn.theory.walks", reason="the walk oracle is not here yet")
    count = next(getattr(walks, name) for name in ("walk_counts", "count_walks") if hasattr(walks, name))
    log = random_log(4, events=12)
    assert callable(count)
    assert position_vectors(Past(log), [0], 3).shape == (1, log.nodes, 3)


def test_counts_beyond_float64_are_exact():
    # two nodes that meet 120 times: walks of k steps alternate, and there are C(120, k) of them
    from math import comb

    events = 120
    log = EventLog([0] * events, [1] * events, np.arange(events))
    vectors = position_vectors(Past(log), [0], 61)
    assert vectors.dtype == object
    assert vectors[0, 0, 60] == comb(120, 60) > 2**100
    assert vectors[0, 1, 60] == 0
    assert position_vectors(Past(log), [0], 3).dtype == np.int64
