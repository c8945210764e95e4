"""Discrete time: a sequence of graphs to a log of events and back, without loss (paper, Prop. 1).

Snapshot i becomes events at start + i * delta. Its edges are ordinary events with their own features. A node that
comes with features, or without edges, becomes a node event that carries its features x_u. In the proof that event
joins u to a dummy node ◇; here it does too (`node_events="dummy"`), is marked by its op and by `Schema.dummy`, and is
left out of `EventLog.learnable`. Because ◇ is a neighbor of everyone, `node_events="self"` writes the same features
as self-loops instead, as the paper's appendix on node-level events does. Both can be undone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.columns import first_true
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.moment import read_duration
from pintgn.events.schema import ADD, DELETE, NODE, Feature, Schema

__all__ = ["DUMMY", "GraphSnapshot", "GraphSnapshots", "from_snapshots", "to_snapshots"]

DUMMY = "◇"
"""What the dummy node is called where ids are strings; where they are numbers it is -1."""


@dataclass(frozen=True)
class GraphSnapshot:
    """One static graph: its edges, and the nodes that have features or no edges.

    In what a user passes to `from_snapshots`, edges and nodes are the user's own ids; in what `to_snapshots` returns
    they are node numbers.
    """

    edges: Any  # (m, 2)
    features: Any = None  # (m, f)
    nodes: Any = None  # (k,)
    node_features: Any = None  # (k, g)
    label: Any = None  # (m,)


class GraphSnapshots(Sequence[GraphSnapshot]):
    """A log seen as snapshots: item i is the graph of the events at start + i * delta, in node numbers."""

    def __init__(self, log: EventLog, delta: int | float, start: int | float, count: int, index: np.ndarray):
        self.log, self.delta, self.start, self._count = log, delta, start, count
        self._index = index  # (e,) the snapshot of every event
        self._updates = None if log.op is None else np.concatenate([[0], np.cumsum(log.op == NODE)])

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        edges = len(self.log) if self.log.op is None else int((self.log.op == ADD).sum())
        return f"GraphSnapshots: {len(self):,} graphs, {edges:,} edges, one every {self.delta} from {self.start}"

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no snapshot {number}; there are {len(self)}.")
        first, last = np.searchsorted(self._index, [number % len(self), number % len(self) + 1])
        log, rows = self.log, slice(first, last)
        edge = slice(None) if log.op is None else log.op[rows] == ADD
        node = slice(0) if log.op is None else log.op[rows] == NODE
        updates = None
        if log.node_updates is not None and self._updates is not None:
            updates = log.node_updates[self._updates[first] : self._updates[last]]
        return GraphSnapshot(
            edges=np.stack([log.src[rows][edge], log.dst[rows][edge]], axis=1),
            features=None if log.features is None else log.features[rows][edge],
            nodes=log.src[rows][node],
            node_features=updates,
            label=None if log.label is None else log.label[rows][edge],
        )


def to_snapshots(log: EventLog, delta: Any = None, *, start: Any = None) -> GraphSnapshots:
    """The graphs of a log whose times lie on a grid start, start + delta, … (paper, Prop. 1, second part).

    A log made by `from_snapshots` remembers its grid. Otherwise, and when `delta` or `start` is given:

    Args:
        delta: time between snapshots, in the log's unit or as P1D, PT1H; when not given, the widest that fits all whole
            numbers, and of decimal times the smallest gap.
        start: time of the first snapshot, a number or a date; when not given, that of the first event.

    >>> import pintgn
    >>> log = pintgn.from_snapshots([[("a", "b")], [("a", "b"), ("b", "c")]], delta=1)
    >>> len(pintgn.to_snapshots(log))
    2
    """
    if log.op is not None and (row := first_true(log.op == DELETE)) >= 0:
        raise BadInput(f"event {row} is a deletion, which a snapshot cannot show. Keep log.where(log.op != DELETE).")
    count = 0
    if delta is None and start is None and log.schema.grid is not None:
        start, delta, count = log.schema.grid
    origin = log.t[0].item() if start is None and len(log) else start or 0
    if not (isinstance(origin, float) and math.isfinite(origin)):  # which may lie between two times of the log
        origin = log.time(origin).item()
    spacing = _widest(log.t, origin) if delta is None else _positive(read_duration(delta, log.schema.time))
    index = _grid(log.t, origin, spacing)
    return GraphSnapshots(log, spacing, origin, max(int(index[-1]) + 1 if len(log) else 0, count), index)


def from_snapshots(
    snapshots: Any,
    delta: int | float | None = None,
    *,
    start: int | float | None = None,
    features: Sequence[str] | None = None,
    node_features: Sequence[str] | None = None,
    node_events: str = "dummy",
) -> EventLog:
    """A log with the same information as a sequence of graphs (paper, Prop. 1, first part).

    Args:
        snapshots: one item each: an edge array (m, 2) or a list of pairs, empty or not, or a `GraphSnapshot`; or what
            `to_snapshots` returned.
        delta, start: snapshot i happens at start + i * delta; 1 and 0 when not given.
        features, node_features: names of the columns of features.
        node_events: "dummy" joins a node with features (or without edges) to the dummy node, "self" to itself.

    >>> import pintgn
    >>> pintgn.from_snapshots([[("a", "b")], [("a", "b"), ("b", "c")]], delta=1)
    EventLog: 3 events, 3 nodes, 0 to 1
    """
    if node_events not in ("dummy", "self"):
        raise UnknownName(f"node_events={node_events!r} does not exist.{suggest(node_events, ['dummy', 'self'])}")
    initial = None
    if isinstance(snapshots, GraphSnapshots):
        schema, initial = snapshots.log.schema, snapshots.log.node_features
        if delta not in (None, snapshots.delta):
            schema = dataclasses.replace(schema, time_scale=None)
        delta, start = (snapshots.delta if delta is None else delta), (snapshots.start if start is None else start)
        node_events = "self" if schema.dummy is None else "dummy"
        parts, ids = list(snapshots), snapshots.log.ids
    else:
        parts, ids, schema = _numbered(snapshots, features, node_features)
    spacing, first = _positive(1 if delta is None else delta), start or 0
    whole = isinstance(spacing, int | np.integer) and isinstance(first, int | np.integer)
    spacing, first = (int(spacing), int(first)) if whole else (float(spacing), float(first))
    return _write(parts, ids, schema, initial, spacing, first, node_events == "dummy")


# -- events from graphs ------------------------------------------------------------------------------------


def _write(
    parts: list[GraphSnapshot], ids: IdMap, schema: Schema, initial: np.ndarray | None, delta: int | float,
    start: int | float, with_dummy: bool,
) -> EventLog:  # fmt: skip
    """Events of all snapshots: each one's edges in order, then its node events in order."""
    schema = dataclasses.replace(schema, grid=(start, delta, len(parts)))
    nodes = [np.asarray([] if part.nodes is None else part.nodes, np.int64) for part in parts]
    edges = [np.asarray(part.edges, np.int64).reshape(-1, 2) for part in parts]
    if any(map(len, nodes)):
        schema = dataclasses.replace(schema, op=schema.op or "op")
        if with_dummy and schema.dummy is None:
            ids = _with_dummy(ids)
            schema = dataclasses.replace(schema, dummy=len(ids) - 1)
    width, node_width = schema.feature_width, len(schema.node_updates)
    ends, op, number, features, updates, labels = [], [], [], [], [], []
    for k, (part, pairs, alone) in enumerate(zip(parts, edges, nodes, strict=True)):
        partner = alone if schema.dummy is None else np.full(len(alone), schema.dummy)
        ends += [pairs, np.stack([alone, partner], 1)]
        op += [np.full(len(pairs), ADD), np.full(len(alone), NODE)]
        number.append(np.full(len(pairs) + len(alone), k))
        features += [_matrix(part.features, len(pairs), width, k, "edges"), np.zeros((len(alone), width), np.float32)]
        updates.append(_matrix(part.node_features, len(alone), node_width, k, "nodes"))
        label = np.zeros(0, np.int8) if part.label is None else np.asarray(part.label)
        if schema.label and label.shape != (len(pairs),):
            raise BadInput(f"snapshot {k} has {len(pairs)} edges but {label.size} labels.")
        labels += [label, np.zeros(len(alone), label.dtype)]
    src, dst = np.concatenate([np.zeros((0, 2), np.int64), *ends]).T
    return EventLog(
        src,
        dst,
        start + np.concatenate([np.zeros(0, np.int64), *number]) * delta,
        features=np.concatenate([np.zeros((0, width)), *features]) if width else None,
        label=np.concatenate(labels or [np.zeros(0, np.int64)]) if schema.label else None,
        op=np.concatenate([np.zeros(0, np.int64), *op]) if schema.op else None,
        node_updates=np.concatenate([np.zeros((0, node_width)), *updates]) if node_width else None,
        node_features=initial,
        ids=ids,
        schema=schema,
    )


def _with_dummy(ids: IdMap) -> IdMap:
    if ids.separate_namespaces:
        raise BadInput("a log with two name spaces cannot have a dummy node. Pass node_events='self'.")
    known = ids.decode()
    taken = set(known.to_pylist())
    dummy: Any = -1 if pa.types.is_integer(known.type) else DUMMY
    while dummy in taken:
        dummy += -1 if isinstance(dummy, int) else DUMMY
    return IdMap(pa.concat_arrays([known, pa.array([dummy], known.type)]))


def _matrix(values: Any, count: int, width: int, number: int, what: str) -> np.ndarray:
    rows = np.zeros((count, 0), np.float32) if values is None else np.asarray(values, np.float32)
    if len(rows) == count == 0 or (values is None and not width):
        return np.zeros((count, width), np.float32)
    if rows.shape != (count, width):
        shape = (0, width) if values is None else rows.shape
        needed = f"({count}, {width}) is needed"
        raise BadInput(f"snapshot {number} has {count} {what} but features of shape {shape}; {needed}.")
    return rows


def _numbered(
    snapshots: Iterable[Any], features: Sequence[str] | None, node_features: Sequence[str] | None
) -> tuple[list[GraphSnapshot], IdMap, Schema]:
    """Users' ids become node numbers in order of first appearance; ids that are 0 … n-1 stay what they are."""
    given = [item if isinstance(item, GraphSnapshot) else GraphSnapshot(item) for item in snapshots]
    ends = [_flat_ids(part.edges, number, 2) for number, part in enumerate(given)]
    alone = [_flat_ids(part.nodes, number, 1) for number, part in enumerate(given)]
    columns = [column for both in zip(ends, alone, strict=True) for column in both if len(column)]
    if len({column.type for column in columns}) > 1:
        raise BadInput("node ids must be all whole numbers or all strings, alike in every snapshot.")
    everyone = pa.concat_arrays(columns) if columns else pa.array([], pa.int64())
    ids = IdMap(pc.unique(everyone))
    if pa.types.is_integer(ids.type) and np.array_equal(np.sort(ids.decode().to_numpy()), np.arange(len(ids))):
        ids = IdMap(size=len(ids))
    parts = []
    for part, pairs, nodes in zip(given, ends, alone, strict=True):
        edges = ids.encode(pairs).reshape(-1, 2) if len(pairs) else np.zeros((0, 2), np.int64)
        parts.append(dataclasses.replace(part, edges=edges, nodes=ids.encode(nodes) if len(nodes) else None))
    schema = Schema(
        label="label" if any(part.label is not None for part in given) else None,
        features=tuple(Feature(name) for name in _names(features, [p.features for p in given], "f")),
        node_updates=_names(node_features, [p.node_features for p in given], "x"),
    )
    return parts, ids, schema


def _flat_ids(values: Any, number: int, width: int) -> pa.Array:
    """One column of ids: the two ends of every edge in turn, or a list of nodes."""
    if values is None:
        return pa.array([], pa.int64())
    shape = "two ids for each edge" if width == 2 else "one id for each node"
    try:
        values = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if width == 2 and any(isinstance(edge, str) or len(edge) != 2 for edge in values):
            raise TypeError
        column = pa.array([end for edge in values for end in edge] if width == 2 else values)
    except (pa.ArrowException, TypeError) as error:
        raise BadInput(
            f"snapshot {number} cannot be read: {shape} are needed, all whole numbers or all strings. Of a networkx "
            "graph pass list(graph.edges); a table with a column of snapshots is read by read_events(table, t=COLUMN)."
        ) from error
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if len(column) and not pa.types.is_string(column.type):
        raise BadInput(f"snapshot {number} has ids of type {column.type}; whole numbers or strings are needed.")
    return column


def _names(given: Sequence[str] | None, matrices: list[Any], stem: str) -> tuple[str, ...]:
    width = next((np.shape(m)[1] for m in matrices if m is not None and np.ndim(m) == 2 and len(m)), 0)
    if given is None:
        return tuple(f"{stem}{column}" for column in range(width))
    if width and len(given) != width:
        raise BadInput(f"{len(given)} names for {width} feature columns: {', '.join(given)}.")
    return tuple(given)


# -- the grid of times -------------------------------------------------------------------------------------


def _positive(delta: int | float) -> int | float:
    if isinstance(delta, bool) or not isinstance(delta, int | float | np.number) or not 0 < delta < math.inf:
        raise BadInput(f"delta={delta!r}; a number above 0 is needed.")
    return delta


def _grid(t: np.ndarray, start: int | float, delta: int | float) -> np.ndarray:
    """k (e,) with t = start + k * delta; an error that names the first event for which there is none."""
    if t.dtype.kind == "i" and isinstance(start, int | np.integer) and isinstance(delta, int | np.integer):
        index, rest = np.divmod(t - start, delta)
        off = rest != 0
    else:
        index = np.rint((t - start) / delta).astype(np.int64)
        off = np.abs(start + index * delta - t) > 1e-6 * delta
    if (row := first_true(off | (index < 0))) >= 0:
        raise BadInput(
            f"event {row} has t={t[row]}, which is not start + k * delta with start={start}, delta={delta} and "
            "a whole k. Only uniformly spaced times make snapshots; pass a delta and start that fit."
        )
    return index


def _widest(t: np.ndarray, start: int | float) -> int | float:
    """The greatest common divisor of all times since the start; of decimal numbers, the smallest gap."""
    since = np.unique(t - start)
    since = since[since != 0]
    if not len(since):
        return 1
    if since.dtype.kind == "i":
        return int(np.gcd.reduce(since))
    smallest = np.diff(np.append(0.0, since)).min()
    return float(since[-1] / max(np.rint(since[-1] / smallest), 1))  # the last time says it most exactly
