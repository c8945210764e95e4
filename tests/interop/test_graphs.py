"""NetworkX snapshots and sparse positions, against the real packages."""

from __future__ import annotations

import numpy as np
import pytest

import pintgn
from pintgn.errors import BadInput
from pintgn.interop import networkx_snapshots, sparse_positions, to_networkx
from tests.learn.helpers import random_log

nx = pytest.importorskip("networkx", reason="networkx is not installed")
sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")

TRADES = {"src": ["ann", "bob", "ann", "ann"], "dst": ["bob", "cay", "bob", "ann"], "t": [1, 2, 2, 3]}


def test_a_graph_has_what_happened_strictly_before_its_time():
    log = pintgn.read_events(TRADES)
    assert dict(to_networkx(log, at=2).edges) == {("ann", "bob"): {"count": 1, "first": 1, "last": 1}}
    assert to_networkx(log, at=3).edges["ann", "bob"] == {"count": 2, "first": 1, "last": 2}
    assert nx.number_of_selfloops(to_networkx(log)) == 1
    assert set(to_networkx(log, since=3)) == {"ann"}
    assert len(to_networkx(log, at=1)) == 0


def test_a_graph_ignores_a_scrambled_future():
    log = random_log()
    half = int(log.t[150])
    later = log.t >= half
    src = log.src.copy()
    src[later] = np.random.default_rng(0).permutation(src[later])
    other = pintgn.EventLog(src, log.dst, log.t)
    assert nx.utils.graphs_equal(to_networkx(log, at=half), to_networkx(other, at=half))


def test_counts_of_a_graph_add_up_to_the_events():
    log = random_log(events=500)
    graph = to_networkx(log)
    assert sum(count for *_, count in graph.edges.data("count")) == 500
    many = to_networkx(log, multi=True)
    assert many.number_of_edges() == 500
    assert all(many.number_of_edges(u, v) == count for u, v, count in graph.edges.data("count"))


def test_deletions_take_back_the_oldest_copy_and_node_events_change_attributes():
    events = {
        "src": ["a", "a", "a", "b", "c"], "dst": ["b", "b", "b", None, "a"], "t": [1, 2, 3, 4, 5],
        "op": ["add", "add", "delete", "node", "delete"], "load": [None, None, None, 0.5, None],
    }  # fmt: skip
    log = pintgn.read_events(events, columns=pintgn.Columns(op="op", node_updates=["load"]))
    assert dict(to_networkx(log).edges) == {("a", "b"): {"count": 1, "first": 2, "last": 2}}
    assert to_networkx(log, at=4).nodes["b"] == {}
    assert to_networkx(log).nodes["b"] == {"load": 0.5}
    assert to_networkx(log, at=3).edges["a", "b"]["count"] == 2


def test_snapshots_with_features_and_two_name_spaces():
    log = pintgn.read_events(
        {"src": [1, 2, 1], "dst": [1, 1, 2], "t": [10, 20, 30], "w": [0.5, 1.0, 2.0]}, features=["w"], bipartite=True
    )
    sizes = {t: graph.number_of_edges() for t, graph in networkx_snapshots(log, [10, 20, 30, 40])}
    assert sizes == {10: 0, 20: 1, 30: 2, 40: 3}
    assert [g.number_of_edges() for _, g in networkx_snapshots(log, [40], window=15)] == [1]
    assert list(to_networkx(log, 15, multi=True).edges(data=True)) == [(("src", 1), ("dst", 1), {"t": 10, "w": 0.5})]


def test_node_features_are_attributes():
    log = pintgn.read_events(TRADES, columns=pintgn.Columns(nodes={"id": ["ann", "bob", "cay"], "age": [35, 41, 50]}))
    assert to_networkx(log).nodes["bob"] == {"age": 41.0}


@pytest.mark.parametrize("transform", ["raw", "log1p", "l1"])
@pytest.mark.parametrize("at", [None, "clock"])
def test_sparse_positions_are_what_read_says(transform, at):
    log = random_log(events=200, nodes=15, seed=3)
    positions = pintgn.RelativePositions(d=4, backend="exact")
    positions.observe(log.src, log.dst, log.t)
    at = positions.clock if at else None  # at the clock the open group is not seen
    everyone = np.arange(positions.size)
    dense = positions.read(everyone[None, :], everyone[:, None], at, transform)
    before = positions.read(everyone, everyone)
    levels = sparse_positions(positions, at=at, transform=transform)
    assert len(levels) == 4
    for k, matrix in enumerate(levels):
        assert isinstance(matrix, sparse.csr_array)
        assert (matrix.toarray() == dense[..., k]).all()
        assert matrix.nnz == np.count_nonzero(dense[..., k])
    assert (positions.read(everyone, everyone) == before).all()


def test_sparse_positions_of_one_level_and_of_nothing():
    log = random_log(events=100, nodes=8)
    alone = pintgn.RelativePositions(d=1, backend="exact")
    alone.observe(log.src, log.dst, log.t)
    assert (sparse_positions(alone)[0].toarray() == np.eye(alone.size)).all()
    assert [m.shape for m in sparse_positions(pintgn.RelativePositions(d=2, backend="exact"))] == [(0, 0)] * 2


def test_a_sketch_has_no_sparse_form():
    positions = pintgn.RelativePositions(backend="sketch")
    positions.observe(0, 1, 5)
    with pytest.raises(BadInput, match="backend='exact'"):
        sparse_positions(positions)


def test_a_missing_package_is_named_with_its_cure(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(BadInput, match=r"networkx.*pip install 'pintgn\[interop\]'"):
        to_networkx(pintgn.read_events(TRADES))
