"""Positions counted over the log equal occurrences in monotone trees, exactly, however large."""

from __future__ import annotations

from math import comb

import numpy as np

from pintgn.events.log import EventLog
from pintgn.theory.computation_trees import monotone_tree
from pintgn.theory.event_history import EventHistory
from pintgn.theory.walks import position_vectors
from tests.theory.helpers import varied_logs
from tests.theory.oracle import monotone_tree as oracle_tree
from tests.theory.oracle import walk_counts


def test_positions_are_occurrences_in_the_monotone_tree():
    for log in varied_logs(25):
        history, d = EventHistory(log), 4
        vectors = position_vectors(history, np.arange(log.nodes), d)
        for root in range(log.nodes):
            seen = monotone_tree(log, root).occurrences(d)
            for i in range(log.nodes):
                assert vectors[root, i].tolist() == seen.get(i, [0] * d)


def test_positions_equal_the_walk_oracle():
    """Two independent ways: counting along the log, and listing every walk."""
    for log in varied_logs(25):
        events = list(zip(log.src.tolist(), log.dst.tolist(), log.t.tolist(), strict=True))
        for t in (4, 99):
            if t <= log.t[0]:
                continue
            vectors = position_vectors(EventHistory(log, t), np.arange(log.nodes), 4)
            for root in range(log.nodes):
                listed = walk_counts(events, root, t, d=4)
                assert vectors[root].tolist() == [listed.get(i, [0] * 4) for i in range(log.nodes)]


def test_monotone_trees_equal_those_of_the_walk_oracle():
    for log in varied_logs(15):
        events = list(zip(log.src.tolist(), log.dst.tolist(), log.t.tolist(), strict=True))
        for root in range(log.nodes):
            assert sorted(_nested(monotone_tree(log, root))) == sorted(_listed(oracle_tree(events, root)))


def _nested(tree, place=0):
    return [(tree.nodes[c].node, tree.edge(c)[0], sorted(_nested(tree, c))) for c in tree.children[place]]


def _listed(tree):
    return [(child.node, child.time, sorted(_listed(child))) for child in tree.children]


def test_counts_beyond_float64_are_exact():
    # two nodes that meet 120 times: walks of k steps alternate, and there are C(120, k) of them
    events = 120
    log = EventLog([0] * events, [1] * events, np.arange(events))
    vectors = position_vectors(EventHistory(log), [0], 61)
    assert vectors.dtype == object
    assert vectors[0, 0, 60] == comb(120, 60) > 2**100
    assert vectors[0, 1, 60] == 0
    assert position_vectors(EventHistory(log), [0], 3).dtype == np.int64
