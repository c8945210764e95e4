"""Properties of the underlying simple graph equal networkx's; the temporal diameter equals listing all walks."""

from __future__ import annotations

import math

import networkx
import numpy as np
import pytest

from pintgn.errors import TooLarge
from pintgn.events.log import EventLog
from pintgn.theory.computation_trees import monotone_tree
from pintgn.theory.items import item
from pintgn.theory.properties import cycles, diameter, girth, graph_properties, temporal_diameter
from tests.theory.helpers import random_log


def simple(log: EventLog) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from([*log.src.tolist(), *log.dst.tolist()])
    graph.add_edges_from((u, v) for u, v in zip(log.src.tolist(), log.dst.tolist(), strict=True) if u != v)
    return graph


def test_girth_diameter_and_cycles_equal_networkx():
    for seed in range(60):
        log = random_log(seed, nodes=8, events=4 + seed % 10)
        graph = simple(log)
        connected = networkx.is_connected(graph)
        assert girth(log) == networkx.girth(graph)
        assert diameter(log) == (networkx.diameter(graph) if connected else math.inf)
        assert cycles(log) == sum(1 for _ in networkx.simple_cycles(graph))


def test_temporal_diameter_is_the_depth_of_the_deepest_monotone_tree():
    for seed in range(30):
        log = random_log(seed, events=8)
        assert temporal_diameter(log) == max(monotone_tree(log, v).depth for v in range(log.nodes))
    # b-c at 1, v-b at 2: the walk v-b-c
    assert temporal_diameter(item("memory").log) == 2
    assert temporal_diameter(item("memory").log, t=2) == 1


def test_only_events_before_t_count():
    log = item("girth-messages").graphs[0].log
    assert graph_properties(log, t=3).to_dict() == {
        "temporal_diameter": 2,
        "girth": None,
        "diameter": None,
        "cycles": 0,
    }
    assert graph_properties(log).cycles == 2


def test_large_graphs_are_refused_with_a_reason():
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 40, 300), rng.integers(0, 40, 300), np.arange(300))
    with pytest.raises(TooLarge, match=r"more than 1,000 paths among 40 nodes and 2\d\d links that lie on cycles"):
        cycles(log, most=1000)
    with pytest.raises(TooLarge, match=r"the girth of 40 nodes and 2\d\d links takes about"):
        girth(log, most=100)
    with pytest.raises(TooLarge, match="the diameter of 40 nodes"):
        diameter(log, most=100)


def test_trees_have_no_cycles_however_large():
    n = 3000
    path = EventLog(np.arange(n), np.arange(1, n + 1), np.arange(n))
    assert cycles(path) == 0
    assert temporal_diameter(path) == n
