"""What every store of events does: numbers them without gaps, keeps them for good, knows their keys, reads them again.

A store belongs to the log that it continues, not to a run: any run of the same log can be served on it. There are two,
a SQLite file (`sqlite`), which is the default, and PostgreSQL (`postgres`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from pintgn.errors import BadFile, PintgnError
from pintgn.events.log import EventLog
from pintgn.ingest.codec import EventBatch
from pintgn.serve.rows import Gap


class StoreFull(BadFile):
    """Events could not be written: the disk is full or broken. Nothing of them was kept."""


class StoreGone(PintgnError):
    """What was stored is no longer where it was."""


class StoreRewound(StoreGone):
    """The writer has put late events in their places, from a number on."""

    def __init__(self, said: str, first: int):
        super().__init__(said)
        self.first = first


class StoreLost(PintgnError):
    """The connection to the store has ended; whether the newest events were kept is not known."""


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
    """The events that a service has acknowledged, numbered from 1 in the order of arrival.

    Used by one thread at a time, as a context that closes it.
    """

    name: str
    """Where it is, fit to be shown."""
    log: str
    """`log_fingerprint` of the log that the events continue."""
    width: int
    dtype: np.dtype
    total: int
    """Number of the newest event."""
    reports: list[str]
    """What was found damaged, for people to read."""
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

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def dropped(self) -> int:
        """Events up to this number were dropped from the store, because snapshots hold them."""

    @property
    def gaps(self) -> list[Gap]:
        """Events that were lost: accepted by an operator, or not yet."""
        return []

    @property
    def missing(self) -> list[Gap]:
        """Events that were lost and whose loss nobody has accepted: no new ones are taken until then."""
        return [gap for gap in self.gaps if not gap.accepted]

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
    def append(self, batch: EventBatch) -> int:
        """Write events in one transaction; returns the number of the last. They may be acknowledged after `settle`.

        Raises `StoreFull` when that cannot be done; then none of them is kept.
        """

    @abstractmethod
    def insert(self, batch: EventBatch, after: list[int]) -> None:
        """Put late events in their places, in one transaction: each after the event of a number, both in order.

        The numbers of all events after them move up. Raises `StoreFull` when that cannot be done; nothing changes then.
        """

    def settle(self) -> None:
        """Wait until everything that was appended is on the disk; other work may be done meanwhile."""
        return

    # -- reading -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def known(self, keys: Iterable[str]) -> dict[str, int]:
        """The checksums of the events that have been stored under these keys, also of those that were dropped."""

    @abstractmethod
    def read(self, after: int = 0) -> Iterator[tuple[int, EventBatch]]:
        """All intact events after a number, in order: the number of the first, and events that follow each other."""

    @abstractmethod
    def newest_until(self, t: Any) -> int:
        """The number of the newest event here that is not later than a time; 0 when there is none."""

    # -- losses, and the way back --------------------------------------------------------------------------------------

    @abstractmethod
    def know(self, number: int) -> None:
        """Events up to this number count in a state, whether they are here or not."""

    @abstractmethod
    def accept_loss(self) -> list[Gap]:
        """Go on without the events that are missing. Those at the end were never: their numbers are given again."""

    @abstractmethod
    def time_before(self, gap: Gap) -> Any:
        """A time after which everything has to be sent again to make a gap good: events of one time go together."""

    @abstractmethod
    def undo(self, first: int) -> tuple[int, str]:
        """Take back the events from a number on, as if they had never been sent.

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

    def count(self, table: str) -> int | None:
        """How many rows a table has; None where there is none of this name."""
        raise NotImplementedError

    def accept_rewind(self) -> None:
        """Go on with the order that the store has now, after `StoreRewound`."""
        raise NotImplementedError

    def wait(self, timeout: float) -> None:
        """Until there may be more events, or so many seconds have passed."""
        raise NotImplementedError

    def holder(self) -> str:
        """Who writes."""
        raise NotImplementedError
