"""Graphs as of a time for NetworkX, and positions as sparse matrices for SciPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.events.log import EventLog
from pintgn.events.moment import read_duration
from pintgn.events.schema import ADD, DELETE, NODE
from pintgn.packages import need
from pintgn.positions import RelativePositions
from pintgn.positions.exact import nonzero

if TYPE_CHECKING:
    import networkx
    from scipy.sparse import csr_array


def to_networkx(log: EventLog, at: Any = None, since: Any = None, *, multi: bool = False) -> networkx.DiGraph:
    """The graph of what has happened strictly before a time, with users' own ids.

    A directed graph; each edge has `count`, and `first` and `last`, the times of its first and last event. A deletion
    takes back the oldest copy of its edge; an edge without copies is gone. Nodes have their features (the newest, where
    node events change them) and are there once they have an event. With two name spaces a node is ("src", id) or
    ("dst", id).

    Args:
        at: events strictly before this time count, a number in the log's own unit or a date; all when not given.
        since: events before this time are left out (a window).
        multi: a `MultiDiGraph` with an edge for each living event: `t`, features, label.
    """
    networkx = need("networkx")
    rows, alive = _living(log, at, since)
    graph = (networkx.MultiDiGraph if multi else networkx.DiGraph)()
    names = _names(log)
    met = np.unique(np.concatenate([log.src[rows], log.dst[rows]]))
    graph.add_nodes_from((names[node], attributes) for node, attributes in _attributes(log, met, rows))
    src, dst, t = log.src[alive], log.dst[alive], log.t[alive].tolist()
    if multi:
        columns = _edge_columns(log, alive)
        for row, (u, v) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            graph.add_edge(names[u], names[v], t=t[row], **{name: column[row] for name, column in columns.items()})
        return graph
    keys = src * np.int64(max(log.nodes, 1)) + dst
    order = np.argsort(keys, kind="stable")  # rows of one edge together, in order of time
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1)) if len(keys) else np.zeros(0, np.int64)
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(keys)], strict=False):
        one, last = order[begin], order[end - 1]
        graph.add_edge(names[src[one]], names[dst[one]], count=end - begin, first=t[one], last=t[last])
    return graph


def networkx_snapshots(
    log: EventLog, times: Iterable[Any], window: Any = None
) -> Iterator[tuple[Any, networkx.DiGraph]]:
    """For each time, the graph of what happened strictly before it; of the last `window` only, where one is given, in
    the log's unit or as P30D, PT1H."""
    length = None if window is None else read_duration(window, log.schema.time)
    for at in times:
        when = log.time(at, bound=True)
        yield at, to_networkx(log, when, None if length is None else when - length)


def sparse_positions(positions: RelativePositions, *, at: Any = None, transform: str = "raw") -> list[csr_array]:
    """All positions as sparse matrices, one for each level k: row u, column i is r_{i→u}[k], how many walks lead back.

    Level 0 is the identity. Only what is not zero is looked at.

    Args:
        positions: with the exact backend; a sketch has no zeros.
        at: events strictly before this time count; all that were observed when not given.
        transform: as in `RelativePositions.read`.

    Returns:
        `scipy.sparse.csr_array`s (nodes, nodes), float64 for `raw`, else float32.
    """
    sparse = need("scipy.sparse", "scipy")
    n = positions.size
    levels: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(positions.d)]
    for roots, nodes in nonzero(positions):
        found = positions.read(nodes, roots, at, transform)  # (pairs, d)
        for k, parts in enumerate(levels):
            kept = found[:, k] != 0
            parts.append((roots[kept], nodes[kept], found[kept, k]))
    return [_matrix(sparse, parts, n) for parts in levels]


def _matrix(sparse: Any, parts: list[tuple[np.ndarray, ...]], n: int) -> Any:
    if not parts:
        return sparse.csr_array((n, n))
    roots, nodes, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return sparse.csr_array((counts, (roots, nodes)), shape=(n, n))


def _living(log: EventLog, at: Any, since: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the events that count, and of the additions among them that no deletion took back."""
    part = log.between(since, at)
    rows = np.arange(part.first - log.first, part.first - log.first + len(part))
    if log.schema.dummy is not None:
        rows = rows[(log.src[rows] != log.schema.dummy) & (log.dst[rows] != log.schema.dummy)]
    if log.op is None:
        return rows, rows
    copies: dict[tuple[int, int], list[int]] = {}
    for row in rows[log.op[rows] != NODE].tolist():
        mine = copies.setdefault((int(log.src[row]), int(log.dst[row])), [])
        if log.op[row] == ADD:
            mine.append(row)
        elif log.op[row] == DELETE and mine:
            mine.pop(0)
    return rows, np.array(sorted(row for mine in copies.values() for row in mine), np.int64)


def _names(log: EventLog) -> list[Any]:
    ids = log.ids.decode().to_pylist()
    if log.ids.side is None:
        return ids
    return [(("src", "dst")[side], id) for side, id in zip(log.ids.side.tolist(), ids, strict=True)]


def _attributes(log: EventLog, nodes: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, dict[str, float]]]:
    """Initial features of nodes, and what node events have made of them."""
    updates: dict[int, int] = {}
    if log.op is not None and log.node_updates is not None:
        numbers = np.cumsum(log.op == NODE) - 1
        updates = {int(log.src[row]): int(numbers[row]) for row in rows[log.op[rows] == NODE].tolist()}
    for node in nodes.tolist():
        attributes: dict[str, float] = {}
        if log.node_features is not None:
            attributes |= dict(zip(log.schema.node_features, log.node_features[node].tolist(), strict=True))
        if node in updates and log.node_updates is not None:
            attributes |= dict(zip(log.schema.node_updates, log.node_updates[updates[node]].tolist(), strict=True))
        yield node, attributes


def _edge_columns(log: EventLog, rows: np.ndarray) -> dict[str, list]:
    columns: dict[str, list] = {}
    if log.features is not None:
        columns |= {name: log.features[rows, k].tolist() for k, name in enumerate(log.schema.feature_columns())}
    if log.label is not None:
        columns["label"] = log.label[rows].tolist()
    return columns
