"""Events that wait, outside the numbered log: for their turn (`--lateness`), or to be put in their place (`late`).

The watermark is the newest time that has been seen, less the lateness. An event waits until the watermark has reached
it, so one that comes late by less than that still takes its place. What is released goes to the store, numbered, in
order: the log stays sorted, and everything that reads it knows nothing of what waits.

Every event here has a key, its own or one that is made up, and is deleted only after the store has it. So whatever a
crash leaves in both is known by its key, and counts once.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.ingest.codec import EventBatch
from pintgn.serve.rows import Damaged, batch_of, checksums, columns
from pintgn.serve.store import Store, StoreFull, StoreLost
from pintgn.serve.waiting import WaitingFile, WaitingRows, mark_of

HELD, LATE = "held", "late"
"""What waits for its turn, and what came too late for that: `held.db` and `late.db`, or the tables `pintgn_…`."""
MADE_UP = "held-"
"""How keys begin that were made up for events without."""


Entry = tuple[Any, int, EventBatch, int]
"""Time and number of an event, the batch that holds it, and its row there."""


class Held:
    """The events that wait, by time and then by arrival.

    Events of one time are released in the order in which they came.

    Args:
        rows: where they are kept.
        width, dtype: feature columns and type of the times of an event.
        lateness: how long events wait, in the log's unit.
    """

    def __init__(self, rows: WaitingRows, width: int, dtype: np.dtype, lateness: float = math.inf):
        self.rows, self.width, self.dtype, self.lateness = rows, width, dtype, lateness
        self.newest: Any = None  # the newest time that was ever held
        self.arrivals = rows.arrived
        self._queue: list[Entry] = []  # a heap
        self._keys: dict[str, int] = {}  # of those that wait; the checksums of their events
        self._gone: list[int] = []  # arrivals that the store has
        self._read()

    def _read(self) -> None:
        after = -1
        while found := self.rows.read(after):
            try:
                self._push(batch_of(found, self.width, self.dtype), [row[0] for row in found])
            except Damaged as error:
                raise self.rows.damaged(error) from error
            after = found[-1][0]

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def watermark(self) -> Any:
        """Events up to here are released; None before the first, and where they wait for ever."""
        if self.newest is None or math.isinf(self.lateness):
            return None
        return self.newest - self.dtype.type(self.lateness)

    def known(self, keys: Iterable[str]) -> dict[str, int]:
        """The checksums of the events that wait under these keys."""
        return {key: self._keys[key] for key in keys if key in self._keys}

    def _push(self, batch: EventBatch, numbers: Iterable[int]) -> None:
        keys = batch.keys or []
        self._keys.update(zip(keys, checksums(columns(batch)), strict=True))  # type: ignore[arg-type]
        for row, (t, number) in enumerate(zip(batch.t.tolist(), numbers, strict=True)):
            heapq.heappush(self._queue, (t, number, batch, row))
            self.arrivals = max(self.arrivals, number)
        newest = batch.t.max()
        self.newest = newest if self.newest is None else max(self.newest, newest)

    def add(self, batches: list[EventBatch]) -> None:
        """Let events wait; they are on the disk after `settle`. Raises `StoreFull`, and keeps nothing then."""
        if not batches:
            return
        batch = EventBatch.concat(batches)
        keys: list[str | None] = [
            MADE_UP + uuid.uuid4().hex if key is None else key for key in batch.keys or [None] * len(batch)
        ]
        batch = EventBatch(batch.src, batch.dst, batch.t, batch.features, batch.op, keys)
        numbers = range(self.arrivals + 1, self.arrivals + 1 + len(batch))
        values = columns(batch)
        sums = [checksum ^ number for number, checksum in zip(numbers, checksums(values), strict=True)]
        self._change(zip(numbers, *values, sums, strict=True))
        self._push(batch, numbers)

    def settle(self) -> None:
        """Wait until what was added is on the disk."""
        self.rows.settle()

    def release(self, happen: Callable[[EventBatch], bool]) -> None:
        """Let the events happen that the watermark has reached, in order; those that cannot be taken wait on."""
        until, due = self.watermark, []
        while until is not None and self._queue and self._queue[0][0] <= until:
            due.append(heapq.heappop(self._queue))
        if not due:
            return
        if happen(self.batch_of(due)):
            self._has(due)
        else:
            for entry in due:
                heapq.heappush(self._queue, entry)

    def batch_of(self, entries: list[Entry]) -> EventBatch:
        """Entries as events that follow each other."""
        first = entries[0][2]

        def column(name: str) -> list[Any]:
            return [getattr(batch, name)[row] for _, _, batch, row in entries]

        features = None if first.features is None else np.stack(column("features"))
        op = None if first.op is None else np.array(column("op"), np.int8)
        t = np.array([entry[0] for entry in entries], self.dtype)
        return EventBatch(column("src"), column("dst"), t, features, op, column("keys"))

    def has(self, entries: list[Entry]) -> None:
        """The store has these of those that wait."""
        kept = {entry[1] for entry in entries}
        self._keep([entry for entry in self._queue if entry[1] not in kept])

    def waiting(self) -> list[Entry]:
        """All that wait, by time and then by arrival."""
        return sorted(self._queue, key=lambda entry: entry[:2])

    def take_back(self, after: int) -> None:
        """Forget what arrived after a number: the rest of its group could not be kept."""
        self._keep([entry for entry in self._queue if entry[1] <= after])
        self._change()

    def _has(self, entries: list[Entry]) -> None:
        """The store has these now; they are deleted with the next that come."""
        for _, number, batch, row in entries:
            self._gone.append(number)
            self._keys.pop(_key(batch, row))

    def facts(self) -> dict[str, Any]:
        """How much waits, and until when."""
        until = self.watermark
        return {"events": len(self), "watermark": None if until is None else until.item()}

    def _keep(self, entries: list[Entry]) -> int:
        """Go on with these alone; returns how many went."""
        kept = {entry[1] for entry in entries}
        gone = [entry for entry in self._queue if entry[1] not in kept]
        heapq.heapify(entries)
        self._queue = entries
        self._has(gone)
        return len(gone)

    def forget(self, keys: Iterable[str]) -> None:
        """The store has the events of these keys already: a crash came before they were deleted here."""
        known = set(keys)
        self._keep([entry for entry in self._queue if _key(*entry[2:]) not in known])

    def drop_after(self, t: Any) -> int:
        """Forget the events later than a time, for good; returns how many."""
        gone = self._keep([entry for entry in self._queue if entry[0] <= t])
        self._change()
        return gone

    def all_keys(self) -> list[str]:
        return list(self._keys)

    def _change(self, more: Iterable[tuple] = ()) -> None:
        """Add rows, and delete those that the store has."""
        gone = list(self._gone)
        self.rows.change(gone, more)
        del self._gone[: len(gone)]

    def close(self) -> None:
        with contextlib.suppress(StoreFull, StoreLost):
            if self._gone:
                self._change()
        self.rows.close()


def waiting_rows(where: str | Path, store: Store, kind: str, make: bool) -> WaitingRows | None:
    """Where events of a kind wait beside a store; None where none do and none are to."""
    if store.shared:
        from pintgn.serve.postgres import PostgresStore
        from pintgn.serve.postgres_held import WaitingTable

        assert isinstance(store, PostgresStore)
        return WaitingTable.of(store, kind, make)
    path = Path(where) / f"{kind}.db"
    return WaitingFile(path, store.log) if make or path.exists() or mark_of(path).exists() else None


def open_waiting(where: str | Path, store: Store, kind: str, make: bool, lateness: float = math.inf) -> Held | None:
    """The events of a kind that wait beside a store, those aside that it has already."""
    if (rows := waiting_rows(where, store, kind, make)) is None:
        return None
    held = Held(rows, store.width, store.dtype, lateness)
    held.forget(store.known(held.all_keys()))
    return held


def check_lateness(lateness: float | None) -> None:
    if lateness is not None and not lateness >= 0:
        raise BadInput(f"lateness={lateness}; it is 0 or more.")


def _key(batch: EventBatch, row: int) -> str:
    assert batch.keys is not None
    key = batch.keys[row]
    assert key is not None  # every event here has one
    return key
