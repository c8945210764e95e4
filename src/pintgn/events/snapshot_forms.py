"""The forms in which users have snapshots: edge arrays, networkx graphs, one table. All become `Parts`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import Feature, Schema


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

    @property
    def everyone(self) -> np.ndarray:
        """V(G): every node of an edge, and every node listed by itself."""
        ends = np.asarray(self.edges).reshape(-1)
        return np.unique(ends if self.nodes is None else np.concatenate([ends, np.asarray(self.nodes)]))


@dataclass(frozen=True)
class SnapshotParts:
    """Snapshots by number (ascending, empty ones may be missing) in node numbers, and what names them."""

    numbered: list[tuple[int, GraphSnapshot]]
    ids: IdMap
    schema: Schema


def from_table(
    source: Any,
    snapshot: str,
    src: str | None,
    dst: str | None,
    features: Sequence[str] | None,
    nodes: Any,
    node_features: Sequence[str] | None,
) -> SnapshotParts:
    """One row per edge and a column that numbers the snapshots; `nodes` lists nodes the same way."""
    from pintgn.events.ingest import read_events

    log = read_events(source, src or "src", dst or "dst", snapshot, features=features, sort=True)
    ids, schema = log.ids, dataclasses.replace(log.schema, time_scale=None)
    found = dict(_by_number(log, snapshot))
    if nodes is not None:
        listed = read_events(nodes, "node", "node", snapshot, features=node_features, sort=True)
        ids = ids.extended(listed.ids.decode())
        schema = dataclasses.replace(schema, node_updates=tuple(listed.schema.feature_columns()))
        for number, part in _by_number(listed, snapshot):
            here = found.get(number, GraphSnapshot(np.zeros((0, 2), np.int64)))
            alone = ids.encode(listed.ids.decode(part.edges[:, 0]))
            found[number] = dataclasses.replace(here, nodes=alone, node_features=part.features)
    return SnapshotParts(sorted(found.items()), ids, schema)


def is_table(source: Any) -> bool:
    return isinstance(source, str | Path | pa.Table | Mapping) or hasattr(source, "columns")


def _by_number(log: EventLog, column: str) -> Iterable[tuple[int, GraphSnapshot]]:
    if log.t.dtype.kind != "i" or log.schema.time.unit is not None:
        raise BadInput(f"column {column!r} must number the snapshots with whole numbers; it holds times.")
    for part in np.split(np.arange(len(log)), log.group_starts[1:]) if len(log) else ():
        rows = slice(part[0], part[-1] + 1)
        edges = np.stack([log.src[rows], log.dst[rows]], axis=1)
        yield int(log.t[part[0]]), GraphSnapshot(edges, None if log.features is None else log.features[rows])


def from_list(
    snapshots: Iterable[Any], features: Sequence[str] | None, node_features: Sequence[str] | None
) -> SnapshotParts:
    """Users' ids become node numbers in order of first appearance; ids that are 0 … n-1 stay what they are."""
    given = [_as_snapshot(item, number, features, node_features) for number, item in enumerate(snapshots)]
    ends = [_flat_ids(part.edges, number, pairs=True) for number, part in enumerate(given)]
    alone = [_flat_ids(part.nodes, number, pairs=False) for number, part in enumerate(given)]
    columns = [column for both in zip(ends, alone, strict=True) for column in both if len(column)]
    if len({column.type for column in columns}) > 1:
        raise BadInput("node ids must be all whole numbers or all strings, alike in every snapshot.")
    everyone = pa.concat_arrays(columns) if columns else pa.array([], pa.int64())
    ids = IdMap(everyone.slice(0, 0)).extended(everyone)
    if pa.types.is_integer(ids.type) and np.array_equal(np.sort(ids.decode().to_numpy()), np.arange(len(ids))):
        ids = IdMap(size=len(ids))
    numbered = []
    for number, part in enumerate(given):
        edges = ids.encode(ends[number]).reshape(-1, 2) if len(ends[number]) else np.zeros((0, 2), np.int64)
        nodes = ids.encode(alone[number]) if len(alone[number]) else None
        numbered.append((number, dataclasses.replace(part, edges=edges, nodes=nodes)))
    schema = Schema(
        label="label" if any(part.label is not None for part in given) else None,
        features=tuple(Feature(name) for name in _names(features, [p.features for p in given], "f")),
        node_updates=_names(node_features, [p.node_features for p in given], "x"),
    )
    return SnapshotParts(numbered, ids, schema)


def _as_snapshot(
    item: Any, number: int, features: Sequence[str] | None, node_features: Sequence[str] | None
) -> GraphSnapshot:
    if isinstance(item, GraphSnapshot):
        return item
    if isinstance(item, Mapping):
        fields = [field.name for field in dataclasses.fields(GraphSnapshot)]
        for name in item:
            if name not in fields:
                raise UnknownName(f"snapshot {number} has {name!r}.{suggest(name, fields)}")
        return GraphSnapshot(**({"edges": []} | dict(item)))
    if not hasattr(item, "is_directed"):
        return GraphSnapshot(item)
    edges = list(item.edges(data=True))
    bare = node_features is None
    nodes = [(v, data) for v, data in item.nodes(data=True) if not bare or not item.degree(v)]
    where = f"snapshot {number}: "
    return GraphSnapshot(
        [(u, v) for u, v, _ in edges],
        _attributes([(f"{where}edge {u!r} to {v!r}", data) for u, v, data in edges], features),
        [v for v, _ in nodes],
        _attributes([(f"{where}node {v!r}", data) for v, data in nodes], node_features),
    )


def _attributes(owners: list[tuple[str, dict]], names: Sequence[str] | None) -> np.ndarray | None:
    if not names:
        return None
    rows = np.zeros((len(owners), len(names)), np.float32)
    for row, (owner, data) in enumerate(owners):
        for column, name in enumerate(names):
            if name not in data:
                raise UnknownName(f"{owner} has no attribute {name!r}.{suggest(name, data)}")
            try:
                rows[row, column] = data[name]
            except (TypeError, ValueError) as error:
                raise BadInput(f"{owner} has {name}={data[name]!r}; one number is needed.") from error
    return rows


def _flat_ids(values: Any, number: int, pairs: bool) -> pa.Array:
    """One column of ids: the two ends of every edge in turn, or a list of nodes."""
    if values is None:
        return pa.array([], pa.int64())
    if not isinstance(values, np.ndarray):
        values = list(values)
    shape = "two ids for each edge" if pairs else "one id for each node"
    try:
        if isinstance(values, np.ndarray):
            if values.size and values.shape[1:] != ((2,) if pairs else ()):
                raise BadInput(f"snapshot {number} has an array of shape {values.shape}; {shape} are needed.")
            column = pa.array(values.reshape(-1))
        elif pairs:
            column = pa.array([end for edge in values for end in _two(edge)])
        else:
            column = pa.array(values)
    except (pa.ArrowException, TypeError) as error:
        raise BadInput(
            f"snapshot {number} cannot be read: {shape} are needed, all whole numbers or all strings."
        ) from error
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if len(column) and not pa.types.is_string(column.type):
        raise BadInput(f"snapshot {number} has ids of type {column.type}; whole numbers or strings are needed.")
    return column


def _two(edge: Any) -> Any:
    if isinstance(edge, str) or len(edge) != 2:
        raise TypeError
    return edge


def _names(given: Sequence[str] | None, matrices: list[Any], stem: str) -> tuple[str, ...]:
    width = next((np.shape(m)[1] for m in matrices if m is not None and np.ndim(m) == 2 and len(m)), 0)
    if given is None:
        return tuple(f"{stem}{column}" for column in range(width))
    if width and len(given) != width:
        raise BadInput(f"{len(given)} names for {width} feature columns: {', '.join(given)}.")
    return tuple(given)
