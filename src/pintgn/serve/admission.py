"""Which events of a batch are let in: none twice under its key, none from before the clock."""

from __future__ import annotations

from typing import Any

from pintgn.events.schema import TimeUnit
from pintgn.serve.batch import Batch
from pintgn.serve.limits import KeyReused, LateEvent
from pintgn.serve.store import Store


class Admission:
    """For the batches of one group, which are committed together, one after the other."""

    def __init__(self, store: Store, clock: Any, time: TimeUnit):
        self.store, self.clock, self.show = store, clock, time.show
        self._fresh: dict[str, tuple] = {}  # events of this group by their keys

    def __call__(self, batch: Batch) -> tuple[Batch, int]:
        """The events that are new, and how many are known already. Refuses the whole batch or lets it in."""
        new = self._without_duplicates(batch)
        if len(new):
            self._check_order(batch, new)
            self.clock = new.t[-1]
            if new.keys is not None:
                self._fresh.update((key, (new, row)) for row, key in enumerate(new.keys) if key is not None)
        return new, len(batch) - len(new)

    def _without_duplicates(self, batch: Batch) -> Batch:
        if batch.keys is None:
            return batch
        named = {key for key in batch.keys if key is not None}
        known = self.store.known(named)
        if not known and len(named) + batch.keys.count(None) == len(batch) and named.isdisjoint(self._fresh):
            return batch
        kept: list[int] = []
        own: dict[str, tuple] = {}
        for row, key in enumerate(batch.keys):
            before = None if key is None else (known.get(key) or own.get(key) or self._fresh.get(key))
            if before is None:
                kept.append(row)
                if key is not None:
                    own[key] = (batch, row)
            elif _content(batch, row) != (_content(*before) if len(before) == 2 else before[1:]):
                raise KeyReused(
                    f"event {row} has the key {key!r}, under which another event was sent before. "
                    "A key names one event for good. Nothing of this batch was applied."
                )
        return batch if len(kept) == len(batch) else batch.take(kept)

    def _check_order(self, whole: Batch, new: Batch) -> None:
        if new.t[0] >= self.clock:
            return
        row = 0
        if new is not whole and new.keys is not None and whole.keys is not None:
            row = whole.keys.index(new.keys[0])
        raise LateEvent(
            f"event {row} ({new.src[0]!r} → {new.dst[0]!r}) is at {self.show(new.t[0])}; "
            f"{self.show(self.clock)} has been observed already. Nothing of this batch was applied."
        )


def _content(batch: Batch, row: int) -> tuple:
    """What an event is, as the store has it."""
    op = None if batch.op is None else int(batch.op[row])
    features = None if batch.features is None else batch.features[row].astype("<f4").tobytes()
    return batch.src[row], batch.dst[row], batch.t[row].item(), op, features
