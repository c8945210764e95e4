"""EventLog: a closed, immutable, columnar sequence of events, sorted by time."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.checks import (
    check_schema,
    checked_column,
    checked_known,
    checked_matrix,
    checked_nodes,
    checked_ops,
    checked_times,
    default_schema,
    frozen,
    same,
)
from pintgn.events.ids import IdMap
from pintgn.events.schema import ADD, NODE, OP_NAMES, Schema
from pintgn.formatting import plural
from pintgn.packages import need

if TYPE_CHECKING:
    import pyarrow as pa

    from pintgn.events.stats import Statistics


COLUMNS = ("src", "dst", "t", "features", "label", "known", "op", "node_updates", "node_features")


@dataclass(frozen=True)
class Query:
    """Would this happen? One question per row: src and dst at time t, scored by what came strictly before t.

    >>> query = Query(np.array([0, 0]), np.array([1, 2]), np.array([40, 40]))
    >>> len(query), query.toward([3, 3]).dst
    (2, array([3, 3]))
    """

    src: np.ndarray  # (q,) int64
    dst: np.ndarray  # (q,) int64
    t: np.ndarray  # (q,) int64 or float64
    given: np.ndarray | None = None  # (q, g) what else is known when the question is asked; see `Schema.asking`

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, rows: Any) -> Query:
        given = None if self.given is None else self.given[rows]
        return Query(self.src[rows], self.dst[rows], self.t[rows], given)

    def toward(self, dst: np.ndarray) -> Query:
        """The same question about other destinations, at the same times."""
        return dataclasses.replace(self, dst=np.asarray(dst, np.int64))


class EventLog:
    """A log of events between nodes 0 … n-1; events of equal time are simultaneous.

    Build one with `pintgn.read_events` (files, frames, arrays; any ids), or here from node numbers.
    `log[100:200]` cuts by event number and `log.between(t0, t1)` by time (half-open); both share memory
    with the log they were cut from and keep its nodes.

    Args:
        src, dst: node numbers (e,).
        t: times (e,), int64 or float64, sorted; never stored as float32.
        features: event features (e, f) float32, or none; float64 where float32 would lose something, as it does of
            100,000,001 or of small changes of a large number.
        label: a value per event (e,), such as a dynamic node label, or none.
        known: the time (e,) at which what is asked about each event becomes known, where that is later than the event.
        op: kind of each event: `ADD`, `DELETE` or `NODE`; none means that every event is an addition.
        node_updates: what the node events carry, one row for each event whose op is `NODE`, in order.
        node_features: initial features x_v (n, g) float32, or none.
        ids: the users' ids; none means that node i is called i.
        schema: column names and encodings; made from the widths when not given.

    >>> log = EventLog(src=[0, 1, 0], dst=[1, 2, 2], t=[10, 20, 30])
    >>> log, log[:2], log.between(20, 30)
    (EventLog: 3 events, 3 nodes, 10 to 30, EventLog: 2 events, 3 nodes, 10 to 20, EventLog: 1 event, 3 nodes, 20 to 20)
    """

    def __init__(
        self,
        src: Any,
        dst: Any,
        t: Any,
        *,
        features: Any = None,
        label: Any = None,
        known: Any = None,
        op: Any = None,
        node_updates: Any = None,
        node_features: Any = None,
        ids: IdMap | None = None,
        schema: Schema | None = None,
    ):
        self.first = 0
        self.t = frozen(checked_times(t))
        count = len(self.t)
        self.src = frozen(checked_nodes(src, "src", count))
        self.dst = frozen(checked_nodes(dst, "dst", count))
        self.features = checked_matrix(features, "features", count, wide=True)
        self.label = None if label is None else frozen(checked_column(label, "label", count))
        self.known = None if known is None else frozen(checked_known(known, self.t))
        self.op = None if op is None else frozen(checked_ops(op, count))
        self.node_features = checked_matrix(node_features, "node_features", None)
        largest = int(max(self.src.max(initial=-1), self.dst.max(initial=-1)))
        least = largest + 1 if self.node_features is None else max(largest + 1, len(self.node_features))
        self.ids = IdMap(size=least) if ids is None else ids
        if largest >= len(self.ids):
            raise BadInput(f"an event names node {largest}, but there are only {len(self.ids)} nodes.")
        if self.node_features is not None and len(self.node_features) != len(self.ids):
            raise BadInput(f"{len(self.node_features)} rows of node features for {len(self.ids)} nodes.")
        node_events = 0 if self.op is None else int((self.op == NODE).sum())
        self.node_updates = checked_matrix(node_updates, "node_updates", node_events)
        self._schema = default_schema(self) if schema is None else schema
        check_schema(self, self._schema)

    # -- size and looks ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.t)

    @property
    def nodes(self) -> int:
        """How many nodes the node table has (those without events included)."""
        return len(self.ids)

    def __repr__(self) -> str:
        parts = [plural(len(self), "event"), plural(self.nodes, "node")]
        if len(self):
            parts.append(f"{self._schema.time.show(self.t[0])} to {self._schema.time.show(self.t[-1])}")
        if self.features is not None:
            parts.append(plural(self.features.shape[1], "feature"))
        if self.node_features is not None:
            parts.append(plural(self.node_features.shape[1], "node feature"))
        if self.op is not None:
            kinds = [f"{int((self.op == code).sum()):,} {name}" for code, name in OP_NAMES.items() if code != ADD]
            parts.append("of which " + " and ".join(kinds))
        return "EventLog: " + ", ".join(parts)

    def _repr_html_(self) -> str:
        from pintgn.events.show import log_html

        return log_html(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventLog):
            return NotImplemented
        return (
            self.schema == other.schema
            and all(same(getattr(self, name), getattr(other, name)) for name in COLUMNS)
            and self.ids == other.ids
        )

    __hash__ = None  # type: ignore[assignment]

    # -- cuts ----------------------------------------------------------------------------------------------

    def __getitem__(self, rows: slice) -> EventLog:
        """Cut by event number. `first` of the result is the number of its first event in the whole log."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise BadInput("a log is cut by a plain slice, as in log[100:200]; for single rows index its columns.")
        start, stop, _ = rows.indices(len(self))
        return self._cut(start, max(start, stop))

    def between(self, t0: Any = None, t1: Any = None) -> EventLog:
        """Cut by time: the events with t0 <= t < t1, each a number, a date or a text; see `time`."""
        start = 0 if t0 is None else int(np.searchsorted(self.t, self.time(t0, bound=True)))
        stop = len(self) if t1 is None else int(np.searchsorted(self.t, self.time(t1, bound=True)))
        return self._cut(start, max(start, stop))

    def time(self, value: Any, *, bound: bool = False) -> Any:
        """A time in this log's own count; see `pintgn.events.moment.read_time` for the accepted forms."""
        from pintgn.events.moment import read_time

        return read_time(value, self._schema.time, self.t.dtype, bound=bound)

    def where(self, keep: np.ndarray) -> EventLog:
        """Only the events marked in a boolean column, in order (a copy; event numbers start anew)."""
        keep = np.asarray(keep, bool)
        if keep.shape != self.t.shape:
            raise BadInput(f"the mask has {keep.size} rows, the log {len(self)}.")
        return self._rows(keep, 0, None if self.op is None else keep[self.op == NODE])

    def batches(self, size: int) -> Iterator[EventLog]:
        """Consecutive cuts of `size` events (the last may be shorter)."""
        if size < 1:
            raise BadInput(f"a batch has at least one event, not {size}.")
        for start in range(0, len(self), size):
            yield self._cut(start, min(start + size, len(self)))

    def split(self, val: float = 0.15, test: float = 0.15) -> tuple[EventLog, EventLog, EventLog]:
        """Train, validation and test parts by time; simultaneous events stay together."""
        from pintgn.events.splits import split_points

        first, second = split_points(self.t, val, test)
        return self._cut(0, first), self._cut(first, second), self._cut(second, len(self))

    def _cut(self, start: int, stop: int) -> EventLog:
        updates = None
        if self.node_updates is not None and self.op is not None:
            skip = int((self.op[:start] == NODE).sum())
            updates = slice(skip, skip + int((self.op[start:stop] == NODE).sum()))
        return self._rows(slice(start, stop), self.first + start, updates)

    def _rows(self, rows: Any, first: int, updates: Any) -> EventLog:
        """Some of the events, and the rows of `node_updates` that go with them."""
        columns = {name: getattr(self, name) for name in COLUMNS}
        for name, column in columns.items():
            if column is not None and name != "node_features":
                columns[name] = column[updates if name == "node_updates" else rows]
        return EventLog.trusted(columns, self.ids, self.schema, first)

    @classmethod
    def trusted(cls, columns: Mapping[str, np.ndarray | None], ids: IdMap, schema: Schema, first: int = 0) -> EventLog:
        """A log of columns (some of `COLUMNS`) that were checked where they were made; they are not checked again."""
        log = object.__new__(cls)
        log.__dict__.update(dict.fromkeys(COLUMNS) | dict(columns), ids=ids, _schema=schema, first=first)
        for column in columns.values():
            if column is not None:
                column.flags.writeable = False
        return log

    def with_columns(self, schema: Schema, **columns: np.ndarray | None) -> EventLog:
        """The log with other columns, which have been checked, and their schema; the rest is shared."""
        held = {name: getattr(self, name) for name in COLUMNS}
        return EventLog.trusted(held | columns, self.ids, schema, self.first)

    # -- what models see -----------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        """Column names, encodings, widths and time scale: all that a model or a later file must agree with."""
        if self._schema.time_scale is not None:
            return self._schema
        from pintgn.events.splits import time_scale

        last = int(0.7 * len(self)) - 1
        # never a part of a group: which part would be up to the order of rows
        early = slice(0, int(np.searchsorted(self.t, self.t[last], "right")) if last >= 0 else 0)
        scale = time_scale(self.src[early], self.dst[early], self.t[early])
        return dataclasses.replace(self._schema, time_scale=scale)

    @cached_property
    def query(self) -> Query:
        """The events as questions: would each have been expected?"""
        asking = self._schema.asking
        given = self.features[:, list(asking.given)] if asking is not None and self.features is not None else None
        return Query(self.src, self.dst, self.t, given if given is not None and given.shape[1] else None)

    @cached_property
    def group_starts(self) -> np.ndarray:
        """Row of the first event of every group of simultaneous events."""
        if not len(self):
            return np.zeros(0, np.int64)
        return np.concatenate([[0], np.flatnonzero(self.t[1:] != self.t[:-1]) + 1])

    @cached_property
    def ties(self) -> np.ndarray:
        """A key (e,) that decides which of simultaneous events counts as the newer; see `pintgn.events.ties`."""
        from pintgn.events.kernels_order import ties

        return frozen(ties(self.src, self.dst, self.t, self.ids.marks, self.marked_features))

    @cached_property
    def learnable(self) -> np.ndarray:
        """Which events (e,) are worth predicting: new interactions, not deletions, node events or the dummy's."""
        learnable = np.ones(len(self), bool) if self.op is None else self.op == ADD
        if self._schema.dummy is not None:
            learnable &= (self.src != self._schema.dummy) & (self.dst != self._schema.dummy)
        learnable.flags.writeable = False
        return learnable

    @property
    def scored_events(self) -> EventLog:
        """The events that are worth predicting, which training and measuring ask about: `learnable`."""
        return self if self.learnable.all() else self.where(self.learnable)

    @cached_property
    def marked_features(self) -> np.ndarray | None:
        """Event features as models read them (e, schema.width): a deletion or node event is marked.

        Paper, Appendix "Deletion and node-level events": a deletion is a new event whose features say so; a
        node-feature update is a self-loop that carries the new features.
        """
        if not self._schema.width:
            return None
        features, late = self.features, self._schema.late
        features = None if features is None else features.astype(np.float32, copy=False)
        if features is not None and self.known is not None and late.start < late.stop:
            features = features.copy()
            features[self.known > self.t, late] = 0  # not known yet when the event happens
        if self.op is None:
            return features
        marked = np.zeros((len(self), self._schema.width), np.float32)
        width = self._schema.feature_width
        if features is not None:
            marked[:, :width] = features
        marked[:, width] = self.op == -1
        marked[:, width + 1] = self.op == NODE
        if self.node_updates is not None:
            marked[self.op == NODE, width + 2 :] = self.node_updates
        return marked

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the columns: equal data has the same one, whatever the ids are."""
        digest = hashlib.blake2b(digest_size=16)
        columns = ["src", "dst", "t", "features", "op", "node_updates", "node_features"]
        for name in columns if self.known is None else [*columns, "known"]:
            column = getattr(self, name)
            digest.update(f"{name} {None if column is None else (column.dtype.str, column.shape)}".encode())
            if column is not None:
                digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    # -- users' ids ----------------------------------------------------------------------------------------

    def node(self, id: Any, side: str | None = None) -> int:
        """The number of the node with this id (`side` where sources and destinations are named apart)."""
        return self.ids.node(id, side)

    def id(self, node: int) -> Any:
        """The users' id of a node number."""
        if not 0 <= node < self.nodes:
            raise BadInput(f"there is no node number {node}; this log has 0 to {self.nodes - 1}.")
        return self.ids.decode([node])[0].as_py()

    # -- elsewhere -----------------------------------------------------------------------------------------

    def statistics(self) -> Statistics:
        """Counts, repeats, simultaneous events and gaps."""
        from pintgn.events.stats import Statistics

        return Statistics.of(self)

    def to_table(self) -> pa.Table:
        """The log as an Arrow table in the users' own columns, ids, categories and times."""
        from pintgn.events.store import to_table

        return to_table(self)

    def to_pandas(self) -> Any:
        """The log as a pandas frame, in the users' own columns, ids, categories and times."""
        need("pandas", extra=None)
        return self.to_table().to_pandas()

    def save(self, path: str | Path) -> None:
        """Write one Parquet file that `EventLog.open` restores exactly and any Parquet reader can read."""
        from pintgn.events.store import save

        save(self, path)

    @classmethod
    def open(cls, path: str | Path) -> EventLog:
        """Read a log written by `save`."""
        from pintgn.events.store import open_log

        return open_log(path)
