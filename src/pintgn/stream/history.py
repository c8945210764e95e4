"""Which past a stream sees: the contacts and features of events, their clock, and positions read as they happen."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.kernels_order import NO_MARKS, ties
from pintgn.events.log import EventLog
from pintgn.models.history_view import Events, HistoryView, LateFeatures, Relations
from pintgn.neighbors.contents import renumber
from pintgn.neighbors.index import NeighborIndex
from pintgn.neighbors.relations import RelationIndex
from pintgn.neighbors.running_sums import RunningSums


class Positions(Protocol):
    """Source of relative positions; `RelativePositions`, unless something stands in for it. Arrays are checked."""

    def serve(
        self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray,
        transform: str,
    ) -> np.ndarray:  # fmt: skip
        """Positions (q, m, w, r) of nodes relative to roots, as of each query's time, while events happen."""

    def append(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> Any: ...

    def fork(self) -> Positions: ...


class History:
    """What has happened so far. A subclass may show another past, as long as it is strictly before each query.

    Args:
        width: feature columns of events.
        block: events that become visible together, counted from the first; simultaneous ones are never parted. 1: each
            as soon as it is past.
        late: feature columns that become known at a time of their own; the last says whether there is anything to know.
        relation: the feature column that is the number of a relation, and how many there are.
        summed: feature columns that running sums are kept of, and those that mark events which do not count.
    """

    def __init__(
        self,
        width: int = 0,
        block: int = 1,
        late: slice | None = None,
        relation: tuple[int, int] | None = None,
        summed: tuple[Sequence[int], slice] = ((), slice(0)),
    ):
        self.block, self.block_starts = block, np.zeros(0, np.int64)
        self.index = NeighborIndex()
        self.event_table = np.zeros((0, width), np.float32) if width else None
        self.node_marks = NO_MARKS  # by which simultaneous events are told apart; logs bring those of their ids
        self.clock: int | float | None = None
        self.events = 0
        self.group_start = 0  # number of the first event at the clock's own time
        self.late_columns = late
        self.late: LateFeatures | None = None  # made with the first events, which tell the type of the times
        self.relation = relation
        self.relations: Relations | None = None  # the same
        self.summed = summed
        self.sums: RunningSums | None = None  # the same

    def before(self, t: np.ndarray, events: Events) -> np.ndarray:
        """For each query time the number of the first event that is not in its past; the second lock beside time.

        `events` are about to be appended.
        """
        known = self.events if self.clock is None else np.where(t > self.clock, self.events, self.group_start)
        numbers = known + np.searchsorted(events.t, t, "left")
        if self.block == 1:
            return numbers
        return np.append(self._block_starts(events), self.events + len(events))[numbers // self.block]

    def _block_starts(self, events: Events) -> np.ndarray:
        """The first event of every block, with those that begin among events about to be appended."""
        rows = np.arange(len(self.block_starts) * self.block, self.events + len(events), self.block) - self.events
        left = np.searchsorted(events.t, events.t[rows], "left")
        goes_on = (left == 0) & (events.t[rows] == self.clock)  # of a group that has begun already
        return np.append(self.block_starts, np.where(goes_on, self.group_start, self.events + left))

    def append(self, events: Events) -> None:
        """Let events happen; there is at least one."""
        if self.block > 1:
            self.block_starts = self._block_starts(events)
        keys = ties(events.src, events.dst, events.t, self.node_marks, events.features)
        self.index.add(events.src, events.dst, events.t, ties=keys)
        if self.event_table is not None:
            self.event_table = _extended(self.event_table, self.events, events.features)
        if self.summed[0]:
            self._append_sums(events)
        if self.late_columns is not None:
            self._append_late(events)
        if self.relation is not None:
            self._append_relations(events)
        self._count(events)

    def _count(self, events: Events) -> None:
        """Move the clock over events."""
        changes = np.flatnonzero(events.t[1:] != events.t[:-1])
        if len(changes):
            self.group_start = self.events + int(changes[-1]) + 1
        elif events.t[0] != self.clock:
            self.group_start = self.events
        self.events += len(events.t)
        self.clock = events.t[-1].item()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        held = self.index.nbytes + (0 if self.event_table is None else self.event_table.nbytes)
        sums = [self.sums, None if self.late is None else self.late.index]
        return held + sum(one.nbytes for one in (self.relations, *sums) if one is not None)

    def known_sums(self, dtype: np.dtype | None = None) -> RunningSums | None:
        """Sums of features; empty before the first event, with times of this type."""
        if self.sums is not None or not self.summed[0]:
            return self.sums
        return RunningSums(len(self.summed[0]), dtype or np.dtype(np.int64))

    def _append_sums(self, events: Events) -> None:
        columns, marks = self.summed
        assert events.features is not None
        self.sums = self.known_sums(events.t.dtype)
        assert self.sums is not None
        src, dst, t, features = events.src, events.dst, events.t, events.features
        if (marked := features[:, marks].any(1)).any():
            src, dst, t, features = (column[~marked] for column in (src, dst, t, features))
        self.sums.add(src, dst, t, features[:, columns])

    def late_features(self, dtype: np.dtype | None = None) -> LateFeatures | None:
        """What becomes known after its event; empty before the first event, with times of this type."""
        if self.late is not None or self.late_columns is None:
            return self.late
        width, kind = self.late_columns.stop - self.late_columns.start, dtype or np.dtype(np.int64)
        none = RunningSums(width - 1, kind)
        return LateFeatures(self.late_columns, np.zeros(1, kind), np.zeros((1, width), np.float32), none)

    def _append_late(self, events: Events) -> None:
        assert self.late_columns is not None
        assert events.late is not None
        known = events.t if events.known is None else events.known
        if self.late is None:
            width, none = events.late.shape[1], np.zeros(0, events.t.dtype)
            values = np.zeros((0, width), np.float32)
            self.late = LateFeatures(self.late_columns, none, values, RunningSums(width - 1, none.dtype))
        late, there = self.late, events.late[:, -1] > 0
        late.known = _extended(late.known, self.events, known)
        late.values = _extended(late.values, self.events, events.late)
        late.index.add(events.src[there], events.dst[there], known[there], events.late[there, :-1])

    def known_relations(self, dtype: np.dtype | None = None) -> Relations | None:
        """What happened by relation; empty before the first event, with times of this type."""
        if self.relations is not None or self.relation is None:
            return self.relations
        column, kinds = self.relation
        return Relations(column, np.zeros(1, np.int64), RelationIndex(kinds, dtype or np.dtype(np.int64)))

    def _append_relations(self, events: Events) -> None:
        assert self.relation is not None
        assert events.features is not None
        if self.relations is None:
            self.relations = self.known_relations(events.t.dtype)
            assert self.relations is not None
        held = self.relations
        held.sources = _extended(held.sources, self.events, events.src)
        held.index.add(events.src, events.features[:, held.column].astype(np.int64), events.dst, events.t)

    def forget(self, keep_last: int | None, before_t: Any) -> int:
        """Drop all but each node's newest `keep_last` contacts, and those before a time; returns how many.

        Contacts at the clock's own time do not count: a query at t = clock does not see them. So a model that looks at
        no more than `keep_last` newest contacts gives the same scores as before, now and later. Positions and memory
        stay as they are. Where events have features, the rows of forgotten events are dropped and the others
        renumbered: `events` then counts what is held.
        """
        dropped = self.index.trim(keep_last=keep_last, before_t=before_t, spare_newest=True)
        if dropped and self.event_table is not None:
            kept = renumber(self.index)
            self.event_table = self.event_table[kept]
            if self.late is not None:
                self.late = replace(self.late, known=self.late.known[kept], values=self.late.values[kept])
            if self.relations is not None:
                self.relations = replace(self.relations, sources=self.relations.sources[kept])
            self.group_start = int(np.searchsorted(kept, self.group_start))
            self.events = len(kept)
        return dropped

    def fork(self) -> History:
        """An independent copy."""
        other = self.frozen()
        if self.relations is not None:
            other.relations = self.relations.fork()
        other.event_table = None if self.event_table is None else self.event_table.copy()
        return other

    def frozen(self) -> History:
        """A copy for reading only: it shares features, of which there are only ever more; targets may still come."""
        other = copy.copy(self)
        other.index = self.index.fork()
        if self.late is not None:
            known, values = self.late.known.copy(), self.late.values.copy()
            other.late = replace(self.late, known=known, values=values, index=self.late.index.fork())
        if self.relations is not None:
            other.relations = replace(self.relations, index=self.relations.index.fork())
        other.sums = None if self.sums is None else self.sums.fork()
        return other


class KnownHistory(History):
    """The past of a stream that has gone further, as of an earlier event: nothing is copied.

    Look-ups never see what came later than asked, so one index serves every earlier moment. Events that are appended
    must be those that the other stream observed then: they are counted, and held already.

    Args:
        whole: what the other stream has observed; it must not go on meanwhile, nor forget.
        observed: the first of its events, which are the past.
    """

    def __init__(self, whole: History, observed: EventLog):
        super().__init__()
        self.index, self.event_table, self.node_marks = whole.index, whole.event_table, whole.node_marks
        self.late_columns, self.late = whole.late_columns, whole.late
        self.relation, self.relations = whole.relation, whole.relations
        self.summed, self.sums = whole.summed, whole.sums
        self.events = len(observed)
        if self.events:
            self.clock = observed.t[-1].item()
            self.group_start = int(np.searchsorted(observed.t, observed.t[-1], "left"))

    def append(self, events: Events) -> None:
        if self.events + len(events) > self.index.events:
            raise BadInput(f"{self.events + len(events)} events, of which {self.index.events} are known.")
        self._count(events)


def _extended(table: np.ndarray, used: int, rows: np.ndarray | None) -> np.ndarray:
    """The table with rows written after the used ones; it doubles when it is full."""
    assert rows is not None
    if used + len(rows) > len(table):
        grown = np.zeros((max(2 * len(table), used + len(rows)), *table.shape[1:]), table.dtype)
        grown[:used] = table[:used]
        table = grown
    table[used : used + len(rows)] = rows
    return table


def serve_positions(positions: Positions, transform: str, views: list[HistoryView], events: Events) -> None:
    """Answer every read of a batch, each as of its own query's time, while the batch's events become visible."""
    reads, happening = [read for view in views for read in view.reads], (events.src, events.dst, events.t)
    if not reads:
        if len(events.t):
            positions.append(*happening)
        return
    if len(reads) == 1 or not len(events.t):
        for read in reads:
            read.answer = positions.serve(*happening, read.nodes, read.roots, read.t, transform)
        return
    nodes, roots = ([getattr(read, name) for read in reads] for name in ("nodes", "roots"))
    times = np.concatenate([read.t for read in reads])
    found, row = positions.serve(*happening, _stacked(nodes), _stacked(roots), times, transform), 0
    for read in reads:
        rows, slots = read.nodes.shape
        read.answer = found[row : row + rows, :slots, : read.roots.shape[1]]
        row += rows


def add_blocks(positions: Positions, blocks: list[Events]) -> None:
    for block in blocks:
        positions.append(block.src, block.dst, block.t)


def _stacked(columns: list[np.ndarray]) -> np.ndarray:
    """Rows of several widths, padded with -1."""
    width = max(column.shape[1] for column in columns)
    pads = (((0, 0), (0, width - column.shape[1])) for column in columns)
    return np.concatenate([np.pad(one, pad, constant_values=-1) for one, pad in zip(columns, pads, strict=True)])
