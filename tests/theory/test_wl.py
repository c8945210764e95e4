"""Temporal colour refinement is exact: it equals the definition, the trees, and 1-WL when times are equal."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

from pintgn.errors import BadInput, UnknownName
from pintgn.events.log import EventLog
from pintgn.theory.colors import refine, refinement, temporal_wl, temporal_wl_test
from pintgn.theory.computation_trees import computation_tree
from pintgn.theory.event_history import EventHistory
from tests.theory.helpers import entry_list, partition, random_log, varied_logs


def dictionary_wl(history: EventHistory, rounds: int) -> list[list[int]]:
    """The definition, with a dictionary of nested tuples for Hash."""
    color = history.state.tolist()
    found = [color]
    for _ in range(rounds):
        names: dict = {}
        signatures = []
        for v in range(history.nodes):
            around = sorted((color[u], e, t) for u, e, t in entry_list(history, v))
            signatures.append((color[v], tuple(around)))
        color = [names.setdefault(s, len(names)) for s in signatures]
        found.append(color)
    return found


def test_colors_equal_the_definition():
    for seed, log in enumerate(varied_logs(40)):
        t = None if seed % 3 else 4
        if t is not None and log.t[0] >= t:
            continue
        history = EventHistory(log, t)
        coloring = temporal_wl(log, rounds=4, t=t)
        for mine, theirs in zip(coloring.colors, dictionary_wl(history, 4), strict=True):
            assert partition(mine.tolist()) == partition(theirs)


def test_colors_after_l_rounds_are_the_isomorphism_classes_of_depth_l_trees():
    for log in varied_logs(12, events=7):
        coloring = temporal_wl(log, rounds=3)
        for depth in range(4):
            table: dict = {}
            trees = [computation_tree(log, v, depth=depth).canonical(table) for v in range(log.nodes)]
            assert partition(coloring.colors[depth].tolist()) == partition(trees)


def test_equal_times_give_the_partition_of_1_wl_on_the_multigraph():
    """An independent 1-WL that knows nothing of times: multiplicities in an adjacency matrix."""
    for seed in range(40):
        log = random_log(seed, nodes=9, events=10, times=1, kinds=2 * (seed % 2))
        adjacency = np.zeros((log.nodes, log.nodes), int)
        for u, v in zip(log.src, log.dst, strict=True):
            adjacency[u, v] += 1
            if u != v:
                adjacency[v, u] += 1
        color = [0] * log.nodes if log.node_features is None else log.node_features[:, 0].astype(int).tolist()
        for mine in temporal_wl(log, rounds=5).colors:
            assert partition(mine.tolist()) == partition(color)
            names: dict = {}
            around = [Counter() for _ in color]
            for v, u in np.argwhere(adjacency).tolist():
                around[v][color[u]] += int(adjacency[v, u])
            seen = [(color[v], frozenset(around[v].items())) for v in range(log.nodes)]
            color = [names.setdefault(s, len(names)) for s in seen]


def test_colors_do_not_depend_on_how_nodes_are_numbered():
    rng = np.random.default_rng(5)
    for log in varied_logs(20):
        order = rng.permutation(log.nodes)
        rows = None if log.node_features is None else log.node_features[np.argsort(order)]
        other = EventLog(order[log.dst], order[log.src], log.t, features=log.features, node_features=rows)
        assert np.array_equal(temporal_wl(log).colors, temporal_wl(other).colors[:, order])


def test_the_future_does_not_matter():
    log = random_log(3, events=30, times=10)
    early = log.between(None, 6)
    assert np.array_equal(temporal_wl(log, 3, t=6).colors, temporal_wl(early, 3).colors)


def test_a_self_loop_is_one_entry_and_repeats_count():
    log = EventLog([0, 1, 2, 2], [0, 1, 2, 2], [1, 1, 1, 1])
    assert np.diff(EventHistory(log).entries.start).tolist() == [1, 1, 2]
    assert temporal_wl(log).counts == [1, 2]


def test_refinement_stops_when_stable_and_repeats_from_there():
    # a path of 7 nodes at equal times: 1-WL needs 3 rounds to tell the 4 distances from the middle
    log = EventLog(np.arange(6), np.arange(1, 7), np.ones(6, int))
    coloring = temporal_wl(log)
    assert coloring.counts == [1, 2, 3, 4]
    assert coloring.stable == 3
    longer = temporal_wl(log, rounds=9)
    assert longer.counts == [1, 2, 3, 4] + [4] * 6
    assert longer.stable == 3
    assert temporal_wl(log, rounds=2).stable is None


def test_proportions_forget_how_many_but_not_which():
    # 0 meets 1; 2 meets 3 and 4; 5 meets 6 (kind 1) and 7 (kind 0): all at time 1
    kinds = np.array([[0], [0], [0], [0], [0], [0], [1], [0]], np.float32)
    log = EventLog([0, 2, 2, 5, 5], [1, 3, 4, 6, 7], [1] * 5, node_features=kinds)
    history = EventHistory(log)
    exact, up_to_scale = (
        refine(history.state, history.entries),
        refine(history.state, history.entries, proportions=True),
    )
    assert exact[0] != exact[2]
    assert up_to_scale[0] == up_to_scale[2] != up_to_scale[5]


def test_wide_keys_are_sorted_by_two_columns(monkeypatch):
    """The fallback for graphs whose keys do not fit one integer gives the same partition."""
    log = random_log(8, nodes=30, events=80, features=3)
    history = EventHistory(log)
    expected = [partition(c.tolist()) for c in refinement(history.state, history.entries)]
    huge = history.entries.label.astype(np.int64) * (2**61 // int(history.entries.label.max()))
    entries = type(history.entries)(history.entries.start, history.entries.neighbor, huge % (2**60))
    wide = refine(np.zeros(log.nodes, np.int64), entries)
    assert partition(wide.tolist()) == expected[1]


# -- the two-graph test ------------------------------------------------------------------------------------


def test_a_relabelled_graph_is_never_called_different():
    rng = np.random.default_rng(1)
    for log in varied_logs(20):
        order = rng.permutation(log.nodes)
        rows = None if log.node_features is None else log.node_features[np.argsort(order)]
        other = EventLog(order[log.src], order[log.dst], log.t, features=log.features, node_features=rows)
        assert temporal_wl_test(log, other).verdict == "inconclusive"


def test_the_round_that_decides_is_reported():
    # two paths a-b-c-d; the last event at 3 in one and at 4 in the other: round 1 sees it
    first, second = EventLog([0, 1, 2], [1, 2, 3], [1, 2, 3]), EventLog([0, 1, 2], [1, 2, 3], [1, 2, 4])
    answer = temporal_wl_test(first, second)
    assert (answer.verdict, answer.round) == ("non-isomorphic", 1)
    # all at time 1, with degrees 1 1 1 1 2 2 2 in both: paths of 5 and 2 nodes against paths of 4 and 3.
    # Round 1 sees degrees only; in round 2 the path of 2 nodes has ends that met an end
    five_two = EventLog([0, 1, 2, 3, 5], [1, 2, 3, 4, 6], [1] * 5)
    four_three = EventLog([0, 1, 2, 4, 5], [1, 2, 3, 5, 6], [1] * 5)
    assert temporal_wl_test(five_two, four_three).round == 2
    assert temporal_wl_test(first, first[:2]).witness == "4 nodes against 3"


def test_isolated_nodes_do_not_decide():
    log = EventLog([0], [1], [1])
    more = EventLog([0], [1], [1], node_features=np.zeros((5, 1), np.float32))
    same = EventLog([0], [1], [1], node_features=np.zeros((2, 1), np.float32))
    assert temporal_wl_test(more, same).verdict == "inconclusive"
    with pytest.raises(BadInput, match="different numbers of node features: 1 and none"):
        temporal_wl_test(more, log)


def test_shared_colors_compare_values_not_numbers():
    """Equal times in different ranks of the two logs are still equal times."""
    first = EventLog([0, 2], [1, 3], [5, 9])
    second = EventLog([0, 2], [1, 3], [1, 5])
    assert temporal_wl_test(first, second).verdict == "non-isomorphic"
    third = EventLog([0, 2], [1, 3], [5, 9], features=np.array([[1], [2]]))
    fourth = EventLog([2, 0], [3, 1], [5, 9], features=np.array([[2], [1]]))
    assert temporal_wl_test(third, fourth).verdict == "non-isomorphic"


# -- size and bad input ------------------------------------------------------------------------------------


def test_all_of_wikipedia_is_colored(shared_data):
    table = pq.read_table(shared_data("wikipedia"))
    log = EventLog(table["src"].to_numpy(), table["dst"].to_numpy(), table["t"].to_numpy())
    coloring = temporal_wl(log, rounds=3)
    assert coloring.colors.shape == (4, 9227)
    assert coloring.counts[0] == 1
    assert coloring.counts[-1] == 9212


def test_bad_input_is_named():
    log = random_log(0)
    with pytest.raises(BadInput, match=r"rounds=-1; a whole number of at least 0"):
        temporal_wl(log, rounds=-1)
    with pytest.raises(BadInput, match="has no event before it: the first event is at t="):
        temporal_wl(log, t=log.t[0])
    with pytest.raises(UnknownName, match="Did you mean 'octaves'"):
        temporal_wl(log, times="octave")
    with pytest.raises(BadInput, match="no events"):
        temporal_wl(log[:0])
    with pytest.raises(BadInput, match="times here are numbers, given 'soon'"):
        temporal_wl(log, t="soon")
