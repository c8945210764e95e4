"""What every store of events does: numbers them, keeps them for good, knows their keys, reads them again.

A store belongs to the log that it continues, not to a run: any run of the same log can be served on it. There are two,
a SQLite file (`sqlite`), which is the default, and PostgreSQL (`postgres`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from pintgn.errors import BadFile, PintgnError
from pintgn.events.log import EventLog
from pintgn.ingest.codec import EventBatch
from pintgn.serve.durability import Damaged, batches_of


class StoreFull(BadFile):
    """Events could not be written: the disk is full or broken. Nothing of them was kept."""


class StoreGone(PintgnError):
    """What was stored is no longer where it was."""


class StoreLost(PintgnError):
    """The connection to the store has ended; whether the newest events were kept is not known."""


def check_no_leftovers(name: str, count: int) -> None:
    """Refuse events that wait in a file or a table of an older pintgn."""
    if count:
        raise BadFile(
            f"{name} holds {count:,} events that wait, as an older pintgn kept them. Start that one once, without "
            "--lateness: it lets them happen."
        )


def log_fingerprint(log: EventLog) -> str:
    """Of a log's events in users' own ids: what the live events of a store continue."""
    digest = hashlib.blake2b(log.fingerprint.encode(), digest_size=16)
    ids = log.ids.decode()
    digest.update(f"{ids.type} {len(ids)} {log.schema.time.unit} {log.schema.time.zone}".encode())
    digest.update("\0".join(map(str, ids.to_pylist())).encode("utf-8", "surrogatepass"))
    if log.ids.side is not None:
        digest.update(log.ids.side.data)
    return digest.hexdigest()


class Store(ABC):
    """The events that a service has acknowledged: numbered from 1 in the order in which they happened, or waiting.

    Used by one thread at a time, as a context that closes it.
    """

    name: str
    """Where it is, fit to be shown."""
    fingerprint: str
    """`log_fingerprint` of the log that the events continue."""
    width: int
    dtype: np.dtype
    total: int
    """Number of the newest event."""
    waiting: int
    """How many events wait until no earlier one can come."""
    acknowledged: int
    missing: int
    """How many events it should have, and how many of those it has lost; as it was opened."""
    reports: list[str]
    """What is wrong with it, for people to read."""
    writes: bool = True
    """Whether this process may append."""
    shared: ClassVar[bool] = False
    """Whether other processes can read it meanwhile, and take over: then it also has what stands at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @property
    @abstractmethod
    def dropped(self) -> int:
        """Events up to this number were dropped from the store, because snapshots hold them."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Its size, without snapshots."""

    @property
    @abstractmethod
    def keyed(self) -> bool:
        """Whether it was served with API keys: then it is not served without."""

    @abstractmethod
    def set_keyed(self, keyed: bool) -> None: ...

    # -- writing -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def append(
        self,
        batch: EventBatch | None,
        hold: tuple[int, EventBatch] | None = None,
        release: Sequence[int] = (),
    ) -> int:
        """Number events in one transaction; returns the number of the last. They may be acknowledged after `settle`.

        Raises `StoreFull` when that cannot be done; then nothing changes.

        Args:
            hold: events that begin to wait in the same transaction, and the arrival of the first.
            release: arrivals of events that wait no more.
        """

    def settle(self) -> None:
        """Wait until everything that was appended is on the disk; other work may be done meanwhile."""
        return

    # -- reading -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def known(self, keys: Iterable[str]) -> dict[str, int]:
        """The checksums of the events that have numbers under these keys, also of those that were dropped."""

    @abstractmethod
    def rows(self, after: int, table: str = "events") -> list[tuple]:
        """The next rows after a number, of events or of those that wait (`held`)."""

    def read(self, after: int = 0) -> Iterator[tuple[int, EventBatch]]:
        """All events after a number, in order: the number of the first, and events that follow each other."""
        while after < self.total and (rows := self.rows(after)):
            try:
                batches = list(batches_of(rows, self.width, self.dtype))
            except Damaged as error:
                raise Damaged(
                    f"{self.name} is damaged: {error}. The service says at its next start what helps."
                ) from error
            yield from batches
            after = rows[-1][0]
            self.total = max(self.total, after)  # another process may have written meanwhile

    def held(self) -> Iterator[tuple[int, EventBatch]]:
        """The events that wait: the arrival of the first, and those that arrived next."""
        after = 0
        while rows := self.rows(after, "held"):
            yield from batches_of(rows, self.width, self.dtype)
            after = rows[-1][0]

    @abstractmethod
    def newest_until(self, t: Any) -> int:
        """The number of the newest event here that is not later than a time; 0 when there is none."""

    # -- losses, and taking events back --------------------------------------------------------------------------------

    @property
    def loss(self) -> str | None:
        """What it has lost, in words."""
        return f"{self.missing:,} of {self.acknowledged:,} acknowledged events are missing" if self.missing else None

    def inspect(self) -> tuple[list[int], list[int]]:
        """Read everything: the numbers of events that are not what was written, and those where others are missing."""
        damaged, breaks, last = [], [], self.dropped
        while rows := self.rows(last):
            for row in rows:
                if row[0] != last + 1:
                    breaks.append(last + 1)
                last = row[0]
                try:
                    list(batches_of([row], self.width, self.dtype))
                except Damaged:
                    damaged.append(last)
        return damaged, sorted([*breaks, *damaged, last + 1])

    @abstractmethod
    def accept_loss(self, damaged: list[int], base: int) -> None:
        """Go on without what is missing, and without damaged events, which are moved aside; numbers stay as they are.

        Args:
            base: events up to here count by the snapshots that stay, whatever is missing of them.
        """

    @abstractmethod
    def undo(self, first: int, t: Any) -> tuple[int, str]:
        """Take back the events from a number on, and those that wait and are later than a time.

        Returns how many there were, and the name of what keeps them.
        """

    # -- size ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def drop(self, upto: int) -> int:
        """Forget events up to a number (a snapshot must hold them), but not their keys; later events reuse their space.

        Returns how many events.
        """

    @abstractmethod
    def shrink(self) -> None:
        """Give unused space back to the disk; takes a while, and as much space again meanwhile."""

    # -- shared with other processes -----------------------------------------------------------------------------------

    def connect(self) -> None:
        """A new session, to read by, after one that was lost. What this process has seen must still be there."""
        raise NotImplementedError

    def take(self) -> bool:
        """Become the writer, if nobody is; `total` then counts all that others wrote."""
        raise NotImplementedError

    def check(self) -> None:
        """That this process still is the writer; `StoreLost` otherwise."""
        raise NotImplementedError

    def refresh(self) -> None:
        """How far the store has come: another process may have written."""
        return

    def wait(self, timeout: float) -> None:
        """Until there may be more events, or so many seconds have passed."""
        raise NotImplementedError

    def holder(self) -> str:
        """Who writes."""
        raise NotImplementedError
