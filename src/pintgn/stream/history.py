"""Which past a stream sees: the contacts and features of events, and the clock up to which they go."""

from __future__ import annotations

import copy

import numpy as np

from pintgn.events.ties import NO_MARKS, ties
from pintgn.models.history_view import Events
from pintgn.neighbors.index import NeighborIndex


class History:
    """What has happened so far. A subclass may show another past, as long as it is strictly before each query.

    Args:
        width: feature columns of events.
        block: events that become visible together, counted from the first; simultaneous ones are never parted. 1: each
            as soon as it is past.
    """

    def __init__(self, width: int = 0, block: int = 1):
        self.block, self.block_starts = block, np.zeros(0, np.int64)
        self.index = NeighborIndex()
        self.event_table = np.zeros((0, width), np.float32) if width else None
        self.node_marks = NO_MARKS  # by which simultaneous events are told apart; logs bring those of their ids
        self.clock: int | float | None = None
        self.events = 0
        self.group_start = 0  # number of the first event at the clock's own time

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
        changes = np.flatnonzero(events.t[1:] != events.t[:-1])
        if len(changes):
            self.group_start = self.events + int(changes[-1]) + 1
        elif events.t[0] != self.clock:
            self.group_start = self.events
        self.events += len(events.t)
        self.clock = events.t[-1].item()

    def fork(self) -> History:
        """An independent copy."""
        other = self.frozen()
        other.event_table = None if self.event_table is None else self.event_table.copy()
        return other

    def frozen(self) -> History:
        """A copy for reading only: it shares the features, of which there are only ever more."""
        other = copy.copy(self)
        other.index = self.index.fork()
        return other


def _extended(table: np.ndarray, used: int, rows: np.ndarray | None) -> np.ndarray:
    """The table with rows written after the used ones; it doubles when it is full."""
    assert rows is not None
    if used + len(rows) > len(table):
        grown = np.zeros((max(2 * len(table), used + len(rows)), table.shape[1]), np.float32)
        grown[:used] = table[:used]
        table = grown
    table[used : used + len(rows)] = rows
    return table
