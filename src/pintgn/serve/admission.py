"""Checks of a batch of events: none twice under its key, none from before the clock, none from far after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pintgn.events.schema import TimeUnit
from pintgn.ingest.codec import EventBatch
from pintgn.serve.event_store import Store, checksums, columns
from pintgn.serve.held import Held
from pintgn.serve.limits import FarAhead, KeyReused, LateEvent


class Admission:
    """Checks of the batches of one group, which are committed together, one after the other.

    Args:
        clock: the time of the newest event that was observed; `time` says how it is shown.
        ahead: how far an event may be after the one before it.
        held: events that wait for their turn, where they do.
    """

    def __init__(
        self,
        store: Store,
        clock: Any,
        time: TimeUnit,
        ahead: float = math.inf,
        held: Held | None = None,
    ):
        self.store, self.clock, self.show, self.ahead, self.held = store, clock, time.show, ahead, held
        self.newest = clock if held is None or held.newest is None else max(clock, held.newest)
        self._fresh: dict[str, tuple[EventBatch, int]] = {}  # events of this group by their keys

    def __call__(self, batch: EventBatch) -> tuple[EventBatch, Sequence[int]]:
        """The new events of a batch, and their rows. Refuses or accepts the whole batch."""
        rows = range(len(batch.t)) if batch.keys is None else self._new_rows(batch, batch.keys)
        new = batch if len(rows) == len(batch.t) else batch.take(list(rows))
        if len(new.t):
            self._check_order(new, rows)
            self.newest = max(self.newest, new.t[-1])
            if self.held is None:  # else they wait, and others may come before them
                self.clock = self.newest
            if new.keys is not None:
                self._fresh.update((key, (new, row)) for row, key in enumerate(new.keys) if key is not None)
        return new, rows

    def _new_rows(self, batch: EventBatch, keys: list[str | None]) -> Sequence[int]:
        named = {key for key in keys if key is not None}
        known = self.store.known(named) | ({} if self.held is None else self.held.known(named))
        if not known and len(named) + keys.count(None) == len(keys) and named.isdisjoint(self._fresh):
            return range(len(keys))
        kept: list[int] = []
        sums, own = checksums(columns(batch)), dict(self._fresh)
        for row, key in enumerate(keys):
            if key is None or (key not in known and key not in own):
                kept.append(row)
                if key is not None:
                    own[key] = (batch, row)
            elif sums[row] != (known[key] if key in known else _checksum(*own[key])):
                raise KeyReused(
                    f"event {row} has the key {key!r}, under which another event was sent before. "
                    "A key names one event for good. Nothing of this batch was applied."
                )
        return kept

    def _check_order(self, new: EventBatch, rows: Sequence[int]) -> None:
        """`rows` are the indices of the new events in the batch that was sent."""

        def named(row: int) -> str:
            return f"event {rows[row]} ({new.src[row]!r} → {new.dst[row]!r}) is at {self.show(new.t[row])}"

        if new.t[0] < self.clock:
            raise LateEvent(
                f"{named(0)}; {self.show(self.clock)} has been observed already. Nothing of this batch was applied."
            )
        if new.t[-1] - self.newest <= self.ahead:
            return
        steps = np.diff(np.maximum(new.t, self.newest), prepend=self.newest)  # each moves the clock for the next
        far = np.flatnonzero(steps > self.ahead)
        if len(far):
            raise FarAhead(
                f"{named(far[0])}, {steps[far[0]]} after the event before it; at most {self.ahead:g} is allowed "
                "(--max-ahead). Nothing of this batch was applied."
            )


def span_of(t: np.ndarray) -> float:
    """The default of `--max-ahead`: a hundred times the time that a run's log spans.

    Milliseconds sent as seconds are a thousand times too far. A log of a single moment has no scale to go by.

    >>> span_of(np.array([10, 20, 40])), span_of(np.array([7, 7]))
    (3000.0, inf)
    """
    span = float(t[-1] - t[0]) if len(t) else 0.0
    return 100 * span if span > 0 else math.inf


def _checksum(batch: EventBatch, row: int) -> int:
    return checksums(columns(batch.take([row])))[0]
