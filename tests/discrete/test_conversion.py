"""Prop. 1: discrete-time graphs become events and come back, and the other way round."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.discrete.conversion import GraphSnapshot, from_snapshots, to_snapshots
from pintgn.errors import BadInput, UnknownName
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import ADD, DELETE, NODE
from pintgn.ingest.read import read_events


def ids_of(log, snapshot):
    """A snapshot as plain Python values in the users' ids: edges with features, nodes with features."""
    ends = log.ids.decode(snapshot.edges.reshape(-1)).to_pylist()
    features = [()] * len(snapshot.edges) if snapshot.features is None else map(tuple, snapshot.features.tolist())
    rows = [()] * len(snapshot.nodes) if snapshot.node_features is None else snapshot.node_features.tolist()
    nodes = dict(zip(log.ids.decode(snapshot.nodes).to_pylist(), map(tuple, rows), strict=True))
    return list(zip(ends[::2], ends[1::2], features, strict=True)), nodes


# -- graphs to events --------------------------------------------------------------------------------------


def test_snapshot_i_happens_at_i_times_delta():
    log = from_snapshots([[(0, 1)], [(1, 2), (0, 2)]], delta=10)
    assert log.t.tolist() == [0, 10, 10]
    assert log.src.tolist() == [0, 1, 0]
    assert log.dst.tolist() == [1, 2, 2]
    assert log.op is None
    assert log.learnable.all()
    assert from_snapshots([[(0, 1)]], delta=10, start=5).t.tolist() == [5]


def test_node_features_travel_with_the_dummy_node_and_are_not_learned():
    graph = GraphSnapshot([("a", "b")], features=[[0.5]], nodes=["a", "b", "c"], node_features=[[1, 2], [3, 4], [5, 6]])
    log = from_snapshots([graph], features=["weight"], node_features=["age", "height"])
    dummy = log.schema.dummy
    assert log.id(dummy) == "◇"
    assert [(log.id(u), log.id(v)) for u, v in zip(log.src, log.dst, strict=True)] == [
        ("a", "b"),
        ("a", "◇"),
        ("b", "◇"),
        ("c", "◇"),
    ]
    assert log.op.tolist() == [ADD, NODE, NODE, NODE]
    assert log.learnable.tolist() == [True, False, False, False]
    assert log.node_updates.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert log.schema.feature_columns() == ["weight"]
    assert log.schema.node_updates == ("age", "height")


def test_node_events_can_be_self_loops_instead():
    graph = GraphSnapshot([("a", "b")], nodes=["c"], node_features=[[7]])
    log = from_snapshots([graph], node_events="self")
    assert log.schema.dummy is None
    assert log.nodes == 3
    assert (log.src[1], log.dst[1], log.op[1]) == (2, 2, NODE)
    assert log.learnable.tolist() == [True, False]
    assert ids_of(log, to_snapshots(log)[0]) == ([("a", "b", ())], {"c": (7,)})


def test_a_dummy_never_takes_an_id_that_is_in_use():
    named = from_snapshots([GraphSnapshot([("◇", "b")], nodes=["c"])])
    assert named.id(named.schema.dummy) == "◇◇"
    numbered = from_snapshots([GraphSnapshot([(-1, 4)], nodes=[5])])
    assert numbered.id(numbered.schema.dummy) == -2
    assert numbered.ids.decode().to_pylist() == [-1, 4, 5, -2]


def test_isolated_nodes_and_empty_snapshots_survive():
    graphs = [GraphSnapshot([("a", "b")], nodes=["lonely"]), [], [("b", "a")]]
    log = from_snapshots(graphs)
    back = to_snapshots(log)
    assert [ids_of(log, g) for g in back] == [
        ([("a", "b", ())], {"lonely": ()}),
        ([], {}),
        ([("b", "a", ())], {}),
    ]
    assert len(to_snapshots(log, start=-2, delta=1)) == 5
    assert to_snapshots(log[:2])[1].edges.tolist() == []


def test_a_log_remembers_empty_snapshots_at_either_end():
    log = from_snapshots([[], [(0, 1)], [], [(0, 1)], [], []], delta=2)
    assert [len(g.edges) for g in to_snapshots(log)] == [0, 1, 0, 1, 0, 0]
    unaware = EventLog(log.src, log.dst, log.t)
    assert [len(g.edges) for g in to_snapshots(unaware)] == [1, 1]
    assert unaware == log


def test_nothing_at_all_is_an_empty_log():
    for nothing in ([], [[], []]):
        log = from_snapshots(nothing)
        assert (len(log), log.nodes, len(to_snapshots(log))) == (0, 0, len(nothing))
    assert len(to_snapshots(EventLog([], [], []))) == 0


def test_labels_of_edges_come_with_them():
    log = from_snapshots([GraphSnapshot([(0, 1)], label=[1]), GraphSnapshot([], nodes=[2])])
    assert log.label.tolist() == [1, 0]
    assert log.schema.label == "label"


def test_edges_of_networkx_graphs_are_lists_of_pairs():
    graphs = [nx.path_graph(3), nx.DiGraph([(2, 0)])]
    log = from_snapshots([graph.edges for graph in graphs])
    assert [g.edges.tolist() for g in to_snapshots(log)] == [[[0, 1], [1, 2]], [[2, 0]]]


def test_a_table_with_a_column_of_snapshots_is_a_log():
    edges = pa.table({"year": [2001, 2003, 2003], "src": ["a", "b", "c"], "dst": ["b", "c", "a"], "n": [1.0, 2.0, 3.0]})
    log = read_events(edges, t="year", features=["n"])
    back = to_snapshots(log, delta=1)
    assert [len(g.edges) for g in back] == [1, 0, 2]
    assert ids_of(log, back[2])[0] == [("b", "c", (2.0,)), ("c", "a", (3.0,))]
    assert from_snapshots(back) == log


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snapshots", "message"),
    [
        ([[(0, 1, 2)]], "snapshot 0 cannot be read: two ids for each edge"),
        ([np.zeros((3, 3), int)], "snapshot 0 cannot be read: two ids for each edge"),
        ([[(0, "a")]], "snapshot 0 cannot be read"),
        ([[(0, 1)], [("a", "b")]], "alike in every snapshot"),
        ([[(0.5, 1.0)]], "snapshot 0 has ids of type double"),
        ([["ab"]], "snapshot 0 cannot be read"),
        (
            [GraphSnapshot([(0, 1)], features=[[1.0]]), [(1, 2)]],
            r"snapshot 1 has 1 edges but features of shape \(0, 1\)",
        ),
        ([GraphSnapshot([(0, 1)], nodes=[0, 1], node_features=[[1.0]])], "snapshot 0 has 2 nodes but features"),
        ([GraphSnapshot([(0, 1)], features=[[np.nan]])], "Features must be finite"),
        ([GraphSnapshot([(0, 1)], label=[1, 2])], "snapshot 0 has 1 edges but 2 labels"),
        ([nx.path_graph(3)], r"pass list\(graph.edges\)"),
        ("edges.parquet", "read_events"),
    ],
)
def test_unusable_snapshots_are_refused(snapshots, message):
    with pytest.raises(BadInput, match=message):
        from_snapshots(snapshots)


def test_unusable_settings_are_refused():
    for delta in (0, -1, float("inf"), "day"):
        with pytest.raises(BadInput, match="a number above 0"):
            from_snapshots([[(0, 1)]], delta=delta)
    with pytest.raises(UnknownName, match="Did you mean 'dummy'"):
        from_snapshots([[(0, 1)]], node_events="dumy")
    with pytest.raises(BadInput, match="2 names for 1 feature columns"):
        from_snapshots([GraphSnapshot([(0, 1)], features=[[1.0]])], features=["a", "b"])


# -- events to graphs --------------------------------------------------------------------------------------


def test_the_spacing_is_the_widest_that_fits():
    assert to_snapshots(EventLog([0, 0, 0], [1, 1, 1], [7, 13, 25])).delta == 6
    snapshots = to_snapshots(EventLog([0, 0, 0], [1, 1, 1], [0.5, 0.5 + 0.1, 0.5 + 0.5]))
    assert snapshots.delta == pytest.approx(0.1)
    assert [len(g.edges) for g in snapshots] == [1, 1, 0, 0, 0, 1]
    assert to_snapshots(EventLog([0], [1], [3])).delta == 1


def test_the_first_time_off_the_grid_is_named():
    log = EventLog([0, 0, 0, 0], [1, 1, 1, 1], [0, 5, 12, 13])
    with pytest.raises(BadInput, match=r"event 2 has t=12, which is not start \+ k \* delta"):
        to_snapshots(log, delta=5)
    with pytest.raises(BadInput, match="event 0 has t=0"):
        to_snapshots(log, delta=1, start=3)
    irregular = EventLog([0, 0, 0], [1, 1, 1], [0.0, 1.0, 1.0 + np.sqrt(2)])
    with pytest.raises(BadInput, match="which is not start"):
        to_snapshots(irregular)


def test_deletions_have_no_place_in_a_snapshot():
    log = EventLog([0, 0], [1, 1], [0, 1], op=[ADD, DELETE])
    with pytest.raises(BadInput, match="event 1 is a deletion"):
        to_snapshots(log)


def test_snapshots_are_a_sequence():
    snapshots = to_snapshots(from_snapshots([[(0, 1)], [], [(1, 2)]], delta=2))
    assert repr(snapshots) == "GraphSnapshots: 3 graphs, 2 edges, one every 2 from 0"
    assert snapshots[-1].edges.tolist() == [[1, 2]]
    assert [len(s.edges) for s in snapshots[1:]] == [0, 1]
    with pytest.raises(IndexError):
        snapshots[3]


# -- round trips -------------------------------------------------------------------------------------------


@st.composite
def graphs(draw):
    """A sequence of graphs over letters, with features of fixed widths, self-loops, repeats and loners."""
    width, node_width = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    node = st.sampled_from("abcde")
    number = st.integers(-3, 3)

    def graph():
        edges = draw(st.lists(st.tuples(node, node), max_size=5))
        nodes = draw(st.lists(node, unique=True, max_size=3))
        row = st.lists(number, min_size=width, max_size=width)
        node_row = st.lists(number, min_size=node_width, max_size=node_width)
        return GraphSnapshot(
            edges,
            np.array([draw(row) for _ in edges], float).reshape(-1, width) if width else None,
            nodes,
            np.array([draw(node_row) for _ in nodes], float).reshape(-1, node_width) if node_width else None,
        )

    return [graph() for _ in range(draw(st.integers(1, 5)))]


@given(graphs(), st.sampled_from([1, 7, 0.1]), st.sampled_from([0, -3, 0.5]), st.sampled_from(["dummy", "self"]))
@settings(deadline=None, max_examples=80)
def test_graphs_come_back_from_their_events(given_graphs, delta, start, node_events):
    log = from_snapshots(given_graphs, delta, start=start, node_events=node_events)
    back = to_snapshots(log)
    for before, after in zip(given_graphs, back, strict=True):
        edges, nodes = ids_of(log, after)
        features = [()] * len(before.edges) if before.features is None else map(tuple, before.features.tolist())
        assert edges == [(u, v, f) for (u, v), f in zip(before.edges, features, strict=True)]
        rows = [()] * len(before.nodes) if before.node_features is None else before.node_features.tolist()
        assert nodes == dict(zip(before.nodes, map(tuple, rows), strict=True))
    assert from_snapshots(back) == log


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 20)), max_size=20),
    st.integers(1, 9),
    st.integers(-50, 50),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_events_come_back_from_their_graphs(rows, delta, start, decorated):
    rows = sorted(rows, key=lambda row: row[2])
    src, dst, k = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    more = {}
    if decorated:
        more = {"features": np.arange(2.0 * len(rows)).reshape(-1, 2), "label": k % 2, "node_features": np.ones((5, 1))}
    ids = IdMap(pa.array([10, 11, 12, 13, 14]))
    log = EventLog(src, dst, start + k * delta, ids=ids, **more)
    assert from_snapshots(to_snapshots(log)) == log
    assert from_snapshots(to_snapshots(log, delta, start=start)) == log


def test_a_saved_log_still_knows_its_graphs(tmp_path):
    graph = GraphSnapshot([("a", "b")], features=[[0.5]], nodes=["a", "c"], node_features=[[1, 2], [3, 4]])
    for node_events in ("dummy", "self"):
        log = from_snapshots([graph, [], graph], delta=3, node_events=node_events)
        log.save(tmp_path / "log.parquet")
        again = EventLog.open(tmp_path / "log.parquet")
        assert again == log
        assert [len(g.edges) for g in to_snapshots(again)] == [1, 0, 1]


def test_a_later_file_may_name_the_dummy_node_too():
    graph = GraphSnapshot([("a", "b")], nodes=["a"], node_features=[[1.0]])
    log = from_snapshots([graph])
    later = read_events(log.to_table(), like=log)
    assert np.array_equal(later.dst, log.dst)
    assert later.schema.dummy == log.schema.dummy
    assert later.learnable.tolist() == [True, False]


def test_dblp_makes_the_round_trip_both_ways(shared_data):
    path = shared_data("dblp_snapshots")
    log = read_events(path)
    assert (len(log), log.nodes) == (2552, 303)
    snapshots = to_snapshots(log)
    assert (len(snapshots), snapshots.delta, snapshots.start) == (10, 1, 0)
    table = pq.read_table(path).to_pydict()
    lists = []
    for number, snapshot in enumerate(snapshots):
        ends = log.ids.decode(snapshot.edges.reshape(-1)).to_pylist()
        rows = [i for i, t in enumerate(table["t"]) if t == number]
        assert ends[::2] == [table["src"][i] for i in rows]
        assert ends[1::2] == [table["dst"][i] for i in rows]
        lists.append(list(zip(ends[::2], ends[1::2], strict=True)))
    assert from_snapshots(snapshots) == log
    again = from_snapshots(lists, delta=86_400)  # days instead of numbers, and ids instead of node numbers
    assert to_snapshots(again).delta == 86_400
    assert [len(s.edges) for s in to_snapshots(again)] == [len(s.edges) for s in snapshots]
