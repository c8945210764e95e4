"""The walk oracle, against values derived by hand and against other definitions of the same numbers."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from pintgn.events.log import EventLog
from pintgn.theory.computation_trees import monotone_tree as grown_tree
from pintgn.theory.items import item
from pintgn.theory.walks import temporal_diameter
from tests.theory.helpers import random_log
from tests.theory.oracle import draw, monotone_tree, walk_counts, walks


def test_times_strictly_decrease_along_every_walk():
    events = [("a", "b", 1), ("b", "c", 1), ("b", "c", 2), ("c", "a", 2), ("a", "a", 3)]
    for root in "abc":
        for walk in walks(monotone_tree(events, root)):
            times = [when for _, when in walk[1:]]
            assert all(earlier > later for earlier, later in itertools.pairwise(times))


def test_counts_derived_by_hand():
    # a-b at 1, b-c at 2, a-b at 3. From a, before 4: one step to b at 1 and at 3. Two steps: over b at 3 to a at 1
    # and to c at 2. Three steps: over b at 3 and c at 2 to b needs another c-b before 2: none; over a at 1: none.
    events = [("a", "b", 1), ("b", "c", 2), ("a", "b", 3)]
    assert walk_counts(events, "a", 4, d=4) == {"a": [1, 0, 1, 0], "b": [0, 2, 0, 0], "c": [0, 0, 1, 0]}
    assert walk_counts(events, "a", 3, d=4) == {"a": [1, 0, 0, 0], "b": [0, 1, 0, 0]}  # strictly before


def test_a_self_loop_is_one_child_and_a_repeat_is_another():
    # loops at 1, 1 and 2: one step: 3 walks; two steps: over the loop at 2 to either loop at 1: 2 walks
    events = [("a", "a", 1), ("a", "a", 1), ("a", "a", 2)]
    assert walk_counts(events, "a", d=4) == {"a": [1, 3, 2, 0]}


def test_a_node_without_events_is_its_own_tree():
    assert walk_counts([("a", "b", 1)], "z", d=2) == {"z": [1, 0]}
    assert draw(monotone_tree([], "z")) == "z"


def test_meetings_of_two_nodes_are_counted_by_binomials():
    # two nodes that meet at n different times: walks of k steps choose k of the n times
    events = [(0, 1, when) for when in range(7)]
    counts = walk_counts(events, 0, d=8)
    assert [counts[k % 2][k] for k in range(8)] == [math.comb(7, k) for k in range(8)]


def test_decay_weighs_every_edge_of_a_walk():
    # a-b at 1, b-c at 2 seen from c at 5: the walk c, b, a weighs exp(-d * (5 - 2)) * exp(-d * (5 - 1))
    counts = walk_counts([("a", "b", 1), ("b", "c", 2)], "c", 5, d=3, decay=0.1)
    assert counts["a"][2] == pytest.approx(math.exp(-0.1 * 3) * math.exp(-0.1 * 4))
    assert counts["b"][1] == pytest.approx(math.exp(-0.1 * 3))


@pytest.mark.parametrize("seed", range(30))
def test_counts_equal_a_search_over_all_sequences_of_events(seed):
    """The other way round: choose k events with decreasing times, then see whether they form a walk."""
    draw_from = random.Random(seed)
    events = [(draw_from.randrange(3), draw_from.randrange(3), draw_from.randrange(4)) for _ in range(6)]
    root, t, d = 0, 4, 4
    expected: dict[int, list[int]] = {}
    for k in range(d):
        for chosen in itertools.permutations(events, k):
            node = root
            for (src, dst, when), previous in zip(chosen, [t, *(c[2] for c in chosen)], strict=False):
                if when >= previous or node not in (src, dst):
                    break
                node = dst if node == src else src
            else:
                expected.setdefault(node, [0] * d)[k] += 1
    assert walk_counts(events, root, t, d) == expected


def test_temporal_diameter_is_the_depth_of_the_deepest_monotone_tree():
    for seed in range(30):
        log = random_log(seed, events=8)
        assert temporal_diameter(log) == max(grown_tree(log, v).depth for v in range(log.nodes))
    # b-c at 1, v-b at 2: the walk v-b-c
    assert temporal_diameter(item("memory").log) == 2
    assert temporal_diameter(item("memory").log, t=2) == 1
    n = 3000
    assert temporal_diameter(EventLog(np.arange(n), np.arange(1, n + 1), np.arange(n))) == n
