"""The store of events: rows with checksums and permanent numbers, and everything that SQLite and PostgreSQL do alike.

A store belongs to the log that it continues, not to a run: any run of the same log can be served on it. There are two,
a SQLite file (`sqlite`), which is the default, and PostgreSQL (`postgres`). Both have the tables `events` and `held`,
for events that wait; they differ in sessions, transactions and what they know of keys.
"""

from __future__ import annotations

import hashlib
import secrets
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

import numpy as np

from pintgn.errors import BadFile, PintgnError
from pintgn.events.log import EventLog
from pintgn.ingest.codec import TARGET, EventBatch
from pintgn.ingest.late_targets import WIDTH

COLUMNS = "number, src, dst, t, op, features, key, checksum"
CHUNK = 10_000
"""Events read at once."""
KEYS = 5_000
"""Keys looked up at once."""
Chosen = tuple[str, str, Sequence[Any]]
"""Rows of a table: its name, a condition, the values in that."""


class Damaged(BadFile):
    """Rows that do not match their checksums."""


class StoreFull(BadFile):
    """Events could not be written: the disk is full or broken. None of them was kept."""


class StoreGone(PintgnError):
    """The files of the store are no longer where they were."""


class StoreLost(PintgnError):
    """The connection to the store has ended; whether the newest events were kept is not known."""


def log_fingerprint(log: EventLog) -> str:
    """Fingerprint of a log's events in users' own ids: the log that a store continues."""
    digest = hashlib.blake2b(log.fingerprint.encode(), digest_size=16)
    ids = log.ids.decode()
    digest.update(f"{ids.type} {len(ids)} {log.schema.time.unit} {log.schema.time.zone}".encode())
    digest.update("\0".join(map(str, ids.to_pylist())).encode("utf-8", "surrogatepass"))
    if log.ids.side is not None:
        digest.update(log.ids.side.data)
    return digest.hexdigest()


# -- rows --------------------------------------------------------------------------------------------------------------


def columns(batch: EventBatch) -> tuple[list, ...]:
    """src, dst, t, op, features and key, as they are stored."""
    none = [None] * len(batch.t)
    op = none if batch.op is None else batch.op.tolist()
    features = none if batch.features is None else _features_bytes(batch.features)
    return batch.src, batch.dst, batch.t.tolist(), op, features, none if batch.keys is None else batch.keys


def _features_bytes(matrix: np.ndarray) -> list[bytes]:
    """Four bytes for each number of a row where that holds all of them, else eight."""
    narrow = matrix.astype("<f4", copy=False)
    found = [row.tobytes() for row in narrow]
    if matrix.dtype == np.float64:
        for row in np.flatnonzero(((narrow != matrix) & ~np.isnan(matrix)).any(1)).tolist():
            found[row] = matrix[row].astype("<f8").tobytes()
    return found


def _features_of(rows: list[bytes], width: int) -> np.ndarray:
    """The inverse of `_features_bytes`."""
    wide = 8 * width
    if not any(len(row) == wide for row in rows):
        return np.frombuffer(b"".join(rows), "<f4").astype(np.float32).reshape(len(rows), width)
    return np.stack([np.frombuffer(row, "<f8" if len(row) == wide else "<f4").astype(np.float64) for row in rows])


def checksums(columns: tuple[list, ...]) -> list[int]:
    """A checksum of each event without its number; `columns` are those of the function of that name."""
    src, dst, t, op, features, keys = columns
    crc = zlib.crc32
    found = [
        crc(f"{s}\0{d}\0{when}\0{kind}\0{key}".encode("utf-8", "surrogatepass"))
        for s, d, when, kind, key in zip(src, dst, t, op, keys, strict=True)
    ]
    return found if not features or features[0] is None else list(map(crc, features, found))


def rows_of(batch: EventBatch, first: int) -> list[tuple]:
    """Events as rows, with numbers from the first on."""
    values, numbers = columns(batch), range(first, first + len(batch.t))
    return list(zip(numbers, *values, map(int.__xor__, checksums(values), numbers), strict=True))


def batch_of(rows: list[tuple], width: int, dtype: np.dtype) -> EventBatch:
    """Rows as events; refused if their checksums do not match."""
    numbers, src, dst, t, op, features, keys, sums = map(list, zip(*rows, strict=True))
    width = WIDTH if op[0] == TARGET else width
    try:
        matrix = _features_of(features, width) if width else None
        ops = None if op[0] is None else np.array(op, np.int8)
        named = None if all(key is None for key in keys) else keys
        batch = EventBatch(src, dst, np.array(t, dtype), matrix, ops, named)
        found = checksums(columns(batch))
    except (ValueError, TypeError, OverflowError) as error:
        raise Damaged(f"rows {numbers[0]:,} to {numbers[-1]:,}: {error}") from error
    for number, checksum, expected in zip(numbers, found, sums, strict=True):
        if checksum ^ number != expected:
            raise Damaged(f"event {number:,} is not what was written")
    return batch


def batches_of(rows: list[tuple], width: int, dtype: np.dtype) -> Iterator[tuple[int, EventBatch]]:
    """Rows as batches, each with its first number: cut where a number is missing, and where events end and targets
    begin, or the other way."""
    ends = [
        k
        for k in range(1, len(rows))
        if rows[k][0] != rows[k - 1][0] + 1 or (rows[k][4] == TARGET) != (rows[k - 1][4] == TARGET)
    ]
    for begin, end in zip([0, *ends], [*ends, len(rows)], strict=True):
        if begin < end:
            yield rows[begin][0], batch_of(rows[begin:end], width, dtype)


def hashed(key: str) -> bytes:
    """A short hash of a key."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Chunks of a size that is looked up at once."""
    left = list(values)
    return (left[begin : begin + KEYS] for begin in range(0, len(left), KEYS))


# -- the store ---------------------------------------------------------------------------------------------------------


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
    dropped: int
    """Events up to this number were dropped from the store, because snapshots hold them."""
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
    prefix: ClassVar[str] = ""
    """What the names of its tables begin with."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    # -- what a database does its own way ------------------------------------------------------------------------------

    @abstractmethod
    def ask(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """The cursor of a statement, in which `?` stands for each value."""

    @abstractmethod
    def changing(self, failed: str, more: int = 0) -> AbstractContextManager[Any]:
        """A transaction of the writer, which may number so many more events; `StoreFull` when it cannot be made."""

    @abstractmethod
    def insert(self, table: str, rows: list[tuple]) -> None:
        """Write rows of events to `events` or `held`."""

    @abstractmethod
    def fact(self, name: str) -> int:
        """A number stored about the store: dropped, lost, keyed."""

    @abstractmethod
    def set_fact(self, name: str, value: int) -> None: ...

    @abstractmethod
    def end_at(self, total: int) -> None:
        """Record that the events end earlier from now on; in a transaction that has removed later ones."""

    @abstractmethod
    def known(self, keys: Iterable[str]) -> dict[str, int]:
        """The checksums of the events that have numbers under these keys, also of those that were dropped."""

    @abstractmethod
    def rows(self, after: int, table: str = "events") -> list[tuple]:
        """The next rows after a number, of events or of those that wait (`held`)."""

    @abstractmethod
    def forget(self, upto: int) -> int:
        """Keep only the keys of events up to a number, in a transaction; returns how many events that were."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Its size, without snapshots."""

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(
        self, batch: EventBatch | None, hold: tuple[int, EventBatch] | None = None, release: Sequence[int] = ()
    ) -> int:
        """Number events in one transaction; returns the number of the last. They may be acknowledged after `settle`.

        Raises `StoreFull` when that cannot be done; then nothing changes.

        Args:
            hold: events that begin to wait in the same transaction, and the arrival of the first.
            release: arrivals of events that wait no more.
        """
        rows = [] if batch is None else rows_of(batch, self.total + 1)
        held = [] if hold is None else rows_of(hold[1], hold[0])
        with self.changing(f"the events could not be written to {self.name}", len(rows)):
            self.insert("events", rows)
            if held or release:
                self.insert("held", held)
                for some in chunks(release):
                    self.ask(f"DELETE FROM {self.prefix}held WHERE number IN ({_marks(some)})", some)
        self.total += len(rows)
        self.waiting += len(held) - len(release)
        return self.total

    def settle(self) -> None:
        """Wait until everything appended is on the disk; other work may be done meanwhile."""
        return

    @property
    def keyed(self) -> bool:
        """Whether the store was served with API keys; then it is not served without."""
        return bool(self.fact("keyed"))

    def set_keyed(self, keyed: bool) -> None:
        with self.changing(f"that there are keys could not be written to {self.name}"):
            self.set_fact("keyed", int(keyed))

    # -- reading -------------------------------------------------------------------------------------------------------

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

    def newest_until(self, t: Any) -> int:
        """The number of the newest event here that is not later than a time; 0 when there is none."""
        return self.ask(f"SELECT max(number) FROM {self.prefix}events WHERE t <= ?", [t]).fetchone()[0] or 0

    # -- losses, and taking events back --------------------------------------------------------------------------------

    @property
    def loss(self) -> str | None:
        """What the store has lost, as text."""
        return f"{self.missing:,} of {self.acknowledged:,} acknowledged events are missing" if self.missing else None

    def inspect(self) -> tuple[list[int], list[int]]:
        """Check everything: the numbers of damaged events, and those of missing ones."""
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

    def take_out(self, kind: str, chosen: list[Chosen], base: int = 0) -> tuple[int, str | None]:
        """Continue without some rows, and without missing ones; numbers do not change, and lost keys are free again.

        Returns how many rows that were, and the name of the table that keeps them.

        Args:
            kind: what the name of that table begins with.
            chosen: rows of `events` and `held`.
            base: events up to here count by the snapshots that stay, whatever is missing of them.
        """
        dropped, events, held = max(self.dropped, base), f"{self.prefix}events", f"{self.prefix}held"
        moved, aside = 0, f"{self.prefix}{kind}_{time.strftime('%Y%m%d_%H%M%S')}_{secrets.token_hex(3)}"
        with self.changing(f"{self.name} was not changed"):
            if chosen:
                self.ask(f"CREATE TABLE {aside} AS SELECT {COLUMNS} FROM {held} WHERE number < 0")
            for name, condition, values in chosen:
                rows = f"FROM {self.prefix}{name} WHERE {condition}"
                self.ask(f"INSERT INTO {aside} SELECT {COLUMNS} {rows}", values)
                moved += self.ask(f"DELETE {rows}", values).rowcount
            self.forget(dropped)
            count, newest = self.ask(f"SELECT count(*), max(number) FROM {events}").fetchone()
            (waiting,) = self.ask(f"SELECT count(*) FROM {held}").fetchone()
            total = max(newest or 0, dropped)
            self.set_fact("dropped", dropped)
            self.set_fact("lost", total - dropped - count)
            self.end_at(total)
        self.total, self.dropped, self.waiting, self.missing = total, dropped, waiting, 0
        return moved, aside if chosen else None

    def accept_loss(self, damaged: list[int], base: int) -> None:
        """Continue without missing events, and without damaged ones, which are moved to a table of their own."""
        chosen: list[Chosen] = [("events", f"number IN ({_marks(some)})", some) for some in chunks(damaged)]
        self.take_out("damaged", chosen, base)

    def undo(self, t: Any) -> tuple[int, str | None]:
        """Undo the events later than a time, waiting or not, as `take_out` does."""
        return self.take_out("undone", [("events", "t > ?", [t]), ("held", "t > ?", [t])])

    def drop(self, upto: int) -> int:
        """Forget events up to a number (a snapshot must hold them), but not their keys; later events reuse their space.

        Returns how many events.
        """
        upto = min(upto, self.total)
        if upto <= self.dropped:
            return 0
        with self.changing(f"old events were not dropped from {self.name}"):
            gone = self.forget(upto)
            self.set_fact("lost", self.fact("lost") - (upto - self.dropped - gone))
            self.set_fact("dropped", upto)
        self.dropped = upto
        return gone

    # -- shared with other processes -----------------------------------------------------------------------------------

    def connect(self) -> None:
        """A new session, to read by, after one that was lost. What this process has seen must still be there."""
        raise NotImplementedError

    def take(self) -> bool:
        """Become the writer if there is none; `total` then counts all events of others."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise `StoreLost` unless this process still is the writer."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Read how far the store has come: another process may have written."""
        return

    def wait(self, timeout: float) -> None:
        """Until there may be more events, or so many seconds have passed."""
        raise NotImplementedError

    def holder(self) -> str:
        """The process that writes."""
        raise NotImplementedError


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))
