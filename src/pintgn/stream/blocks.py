"""Memory is updated in blocks of events: where blocks end, and how one that ended too early is undone."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from pintgn.models.base import Model
from pintgn.models.history_view import Events, HistoryView
from pintgn.models.state import StaleView, State


@dataclass
class Span:
    """A slice of a batch between two updates of memory: queries that see the same state, then events."""

    rows: np.ndarray  # which queries
    events: Events  # what then happens
    closes: bool = False  # whether a block ends with these events
    behind: bool = False  # whether the queries stand before a refresh that has been made already
    resumes: bool = False  # whether that refresh must be taken back first, because its block goes on


@dataclass
class Undo:
    """What a memory update changed, kept while events of the clock's own time may still prolong its block."""

    block: list[Events]
    nodes: np.ndarray
    rows: State | None


@dataclass
class Gathered:
    """The inputs of a batch's queries, looked up and ready to compute."""

    spans: list[Span]
    views: list[HistoryView]
    inputs: list[Any]
    pure: bool


class MemoryBlocks:
    """Updates memory at every multiple of `size` events, or where the time next changes after it.

    Multiples are counted from the first event on, so that a block which had to wait for the time to change does not
    shift all later ones: batches of the same size keep meeting one block each.

    The last event seen may be such an end, until another event of the same time arrives; then the refresh is taken
    back. `plan` only counts, so it may run ahead; `happen` does what was planned, in the same order.
    """

    def __init__(self, size: int):
        self.size = size
        self.planned = 0  # events since the last multiple of the size that ended a block, as planned
        self.ended_with: int | None = None  # events of the block that ended at the clock, as planned
        self.unfinished: list[Events] = []  # as happened
        self.undo: Undo | None = None  # of the block that ended at the clock, as happened

    def plan(self, t: np.ndarray, events: Events, clock: Any) -> list[Span]:
        """Cut a batch, and its queries at times t, into spans at the ends of blocks."""
        resumes = self.ended_with is not None and len(events) > 0 and events.t[0] == clock
        if resumes:
            assert self.ended_with is not None
            self.planned, self.ended_with = self.ended_with, None
        spans, left = [], np.ones(len(t), bool)
        if self.ended_with is not None:
            left = t != clock
            spans.append(Span(np.flatnonzero(~left), events[:0], behind=True))
        begin = 0
        ends = [*(np.flatnonzero(events.t[1:] != events.t[:-1]) + 1).tolist(), len(events)]  # where a block may end
        while (at := bisect_left(ends, max(begin + 1, begin + self.size - self.planned))) < len(ends):
            end = ends[at]
            mine = left & (t <= events.t[end - 1])
            spans.append(Span(np.flatnonzero(mine), events[begin:end], closes=True))
            self.ended_with = self.planned + end - begin
            self.planned = self.ended_with % self.size
            begin, left = end, left & ~mine
        if begin < len(events):
            self.planned, self.ended_with = self.planned + len(events) - begin, None
        spans.append(Span(np.flatnonzero(left), events[begin:]))
        spans[0].resumes = resumes
        return spans

    def happen(self, span: Span, model: Model, state: Any) -> Events | None:
        """Let memory observe a span's events; returns the block that they complete."""
        if not len(span.events):
            return None
        self.undo = None  # time has moved on: the last refresh stands
        self.unfinished.append(span.events)
        if not span.closes:
            return None
        block = Events.joined(self.unfinished)
        nodes, _ = block.ends
        self.undo = Undo(self.unfinished, nodes, None if state is None else state.rows(nodes))
        if model.remembers:
            model.observe(block, state)
        self.unfinished = []
        return block

    def resume(self, state: Any) -> None:
        """Undo the update at the clock, so that its block goes on."""
        assert self.undo is not None
        if self.undo.rows is not None:
            state.put(self.undo.nodes, self.undo.rows)
        self.unfinished, self.undo = list(self.undo.block), None  # a fork may hold the same list

    def stale(self, state: Any) -> Any:
        """The state before the update at the clock."""
        if self.undo is None or self.undo.rows is None:
            return state
        return StaleView(state, self.undo.nodes, self.undo.rows)

    def fork(self) -> MemoryBlocks:
        other = MemoryBlocks(self.size)
        other.__dict__.update(self.__dict__)
        other.unfinished = list(self.unfinished)
        return other
