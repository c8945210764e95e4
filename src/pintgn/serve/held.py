"""Late events within `--lateness`: they wait in the store until no earlier one can come, then are observed in order.

The watermark is the newest time that has been seen, less the lateness. An event waits until the watermark has reached
it, so one that comes late by less than that still takes its place. One transaction of the store takes in those that
begin to wait and numbers those whose turn has come: an event is in one of the two, whatever is killed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.ingest.codec import EventBatch
from pintgn.serve.event_store import Store, StoreFull, checksums, columns

Entry = tuple[Any, int, EventBatch, int]
"""Time and arrival of an event, the batch that holds it, and its row there."""


class Held:
    """The events of a store that wait, by time and then by arrival.

    Args:
        store: where they wait; this process is its writer.
        lateness: how long, in the log's unit; without, all are due.
    """

    def __init__(self, store: Store, lateness: float | None):
        if lateness is not None and not lateness >= 0:
            raise BadInput(f"lateness={lateness}; it is 0 or more.")
        self.store, self.lateness = store, lateness or 0.0
        self.newest: Any = None  # the newest time that has waited
        self._arrived = 0
        self._queue: list[Entry] = []  # a heap
        self._keys: dict[str, int] = {}  # the checksums of the events that wait
        for number, batch in store.held():
            self._push(self._entries(batch, number))

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def watermark(self) -> Any:
        """Events up to here are released; None before the first, and where they wait for ever."""
        if self.newest is None or math.isinf(self.lateness):
            return None
        return self.newest - self.store.dtype.type(self.lateness)

    def known(self, keys: Iterable[str]) -> dict[str, int]:
        """The checksums of the events that wait under these keys."""
        return {key: self._keys[key] for key in keys if key in self._keys}

    def facts(self) -> dict[str, Any]:
        """How many events wait, and until when."""
        until = self.watermark
        return {"events": len(self), "watermark": None if until is None else until.item()}

    def append(self, new: EventBatch | None = None) -> EventBatch | None:
        """Store new events together with waiting ones that are due, all or none of them; `StoreFull` otherwise.

        Returns those that now have numbers, in order.
        """
        arriving: list[Entry] = [] if new is None else self._entries(new, self._arrived + 1)
        before = self.newest
        self._note(arriving)
        until, due = self.watermark, []
        while until is not None and self._queue and self._queue[0][0] <= until:
            due.append(heapq.heappop(self._queue))
        waiting = [entry for entry in arriving if until is None or entry[0] > until]
        happening = sorted(due + [entry for entry in arriving if until is not None and entry[0] <= until], key=_order)
        batch = self._batch(happening)
        later = self._batch(waiting)
        try:
            if batch is not None or later is not None:
                hold = None if later is None else (self._arrived + 1, later)
                self.store.append(batch, hold, [entry[1] for entry in due])
        except StoreFull:
            for entry in due:
                heapq.heappush(self._queue, entry)
            self.newest = before
            raise
        for _, _, known, row in due:
            if known.keys is not None and (key := known.keys[row]) is not None:
                self._keys.pop(key)
        self._push([(t, self._arrived + k, one, row) for k, (t, _, one, row) in enumerate(waiting, 1)])
        return batch

    def _entries(self, batch: EventBatch, first: int) -> list[Entry]:
        return [(t, first + row, batch, row) for row, t in enumerate(batch.t.tolist())]

    def _note(self, entries: list[Entry]) -> None:
        for t, *_ in entries:
            self.newest = self.store.dtype.type(t if self.newest is None else max(self.newest, t))

    def _push(self, entries: list[Entry]) -> None:
        if not entries:
            return
        self._note(entries)
        batch = self._batch(entries)
        sums = checksums(columns(batch)) if batch is not None else []
        for entry, checksum in zip(entries, sums, strict=True):
            _, number, one, row = entry
            heapq.heappush(self._queue, entry)
            self._arrived = max(self._arrived, number)
            if one.keys is not None and (key := one.keys[row]) is not None:
                self._keys[key] = checksum

    def _batch(self, entries: list[Entry]) -> EventBatch | None:
        """Entries as events that follow each other."""
        if not entries:
            return None
        first = entries[0][2]

        def column(name: str) -> list[Any]:
            return [getattr(batch, name)[row] for _, _, batch, row in entries]

        features = None if first.features is None else np.stack(column("features"))
        op = None if first.op is None else np.array(column("op"), np.int8)
        t = np.array([entry[0] for entry in entries], self.store.dtype)
        keys = [None if batch.keys is None else batch.keys[row] for _, _, batch, row in entries]
        return EventBatch(column("src"), column("dst"), t, features, op, keys if any(keys) else None)


def _order(entry: Entry) -> tuple[Any, int]:
    return entry[:2]
