"""Pending answers: given just before their events, kept until the truth is known.

What is kept, and the order in which it is evaluated, are functions of the log alone: events are gone through one by
one, whatever batches they come in, and truths that become known between two of them are taken by time, then by number.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MOST, NUMBERS = 10_000, 200_000
"""Answers that are kept, and numbers in them; of more, the oldest are dropped."""


class Event(NamedTuple):
    """An event by what a target names it by, and which of several alike it is."""

    src: int
    dst: int
    t: Any
    rank: int


@dataclass
class PendingAnswer:
    """An answer whose truth is not known yet."""

    number: int  # of its event
    answer: list[float]
    known: Any = None  # when the truth becomes known; None while it has not come
    truth: float | None = None


class Resolved(NamedTuple):
    """An answer by its event's number, the truth, and when that became known."""

    number: int
    answer: list[float]
    truth: float
    when: Any


class PendingAnswers:
    """Answers by event, the oldest first."""

    def __init__(self) -> None:
        self.kept: dict[Event, PendingAnswer] = {}
        self.given_up = 0
        self._due: list[tuple[Any, int, Event]] = []

    def __len__(self) -> int:
        return len(self.kept)

    def keep(self, event: Event, kept: PendingAnswer) -> None:
        """Add an answer; its event is newer than those of all others."""
        self.kept[event] = kept
        if kept.known is not None:
            heapq.heappush(self._due, (kept.known, kept.number, event))
        if len(self.kept) > max(1, min(MOST, NUMBERS // len(kept.answer))):
            self.kept.pop(next(iter(self.kept)))
            self.given_up += 1

    def set_truth(self, event: Event, truth: float, known: Any) -> None:
        """Set the truth about an event, and when that becomes known."""
        kept = self.kept.get(event)
        if kept is not None and kept.known is None:
            kept.truth, kept.known = truth, known
            heapq.heappush(self._due, (known, kept.number, event))

    def resolved(self, clock: Any) -> Iterator[Resolved]:
        """Remove all whose truth is known by a time, in order."""
        while self._due and self._due[0][0] <= clock:
            known, number, event = heapq.heappop(self._due)
            kept = self.kept.pop(event, None)
            if kept is not None and kept.truth is not None:
                yield Resolved(number, kept.answer, kept.truth, known)

    def facts(self) -> dict[str, Any]:
        """All answers as plain values, for a snapshot."""
        rows = [[*event, one.number, one.known, one.truth, *one.answer] for event, one in self.kept.items()]
        return {"waiting": rows, "given_up": self.given_up}

    def restore(self, rows: Sequence[Sequence[Any]], given_up: int) -> None:
        """Restore the result of `facts`."""
        self.given_up = given_up
        for src, dst, t, rank, number, known, truth, *answer in rows:
            self.kept[Event(src, dst, t, rank)] = kept = PendingAnswer(number, answer, known, truth)
            if kept.known is not None:
                self._due.append((kept.known, number, Event(src, dst, t, rank)))
        heapq.heapify(self._due)
