"""Events on disk: append-only, in one SQLite file; acknowledged means durable, and damage is never silent.

A commit is one transaction, flushed to the disk (WAL, synchronous=FULL) before anybody is told; a mark outside the
database (`highwater`) says how far the store has come. Each event has a checksum. What turns out to be damaged or
missing is set aside, what is intact is kept, event by event (`repair`), and the events that are missing are known by
their numbers until an operator accepts the loss.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadFile
from pintgn.files import PRIVATE_FOLDER, make_private, regular, sync_folder
from pintgn.ingest.codec import EventBatch
from pintgn.learn.folder import Folder
from pintgn.serve.highwater import HighWater, Mark
from pintgn.serve.repair import open_database, repair, size_of
from pintgn.serve.rows import (
    COLUMNS,
    FILE,
    INSERT,
    TABLES,
    Damaged,
    Gap,
    batch_of,
    checksums,
    columns,
    connected,
    hashed,
    moved,
    uniform,
)
from pintgn.serve.store import Store, StoreFull, StoreGone

MARK = "high-water"
CHUNK = 10_000
"""Events read at once."""
KEYS = 5_000
"""Keys looked up at once."""


XOR = "(({0} | {1}) - ({0} & {1}))"
MOVE = f"""
UPDATE events SET number = -(number + :by), checksum = {XOR.format(XOR.format("checksum", "number"), "(number + :by)")}
WHERE number > :first AND number <= :last
"""
"""Moves events up; their numbers are negative until all have been moved."""


class SqliteStore(Store):
    """A store in a folder, which is locked for this process while it is open.

    Args:
        folder: where `events.db`, `high-water` and the snapshots live; made when it is not there.
        log: fingerprint of the log that it continues; a store of another log is refused.
        width: feature columns of an event, `schema.width`.
        dtype: type of the times.
        seen: how many events a snapshot has seen: so many there were at least.
        run: fingerprint of the run that is served: until format 2 a store said only to which run it belongs.
    """

    def __init__(
        self, folder: str | Path, log: str, width: int, dtype: np.dtype, seen: int = 0, run: str | None = None
    ):
        self.folder, self.log, self.run = Folder(folder), log, run
        self.name = str(self.folder.path)
        self.width, self.dtype = width, np.dtype(dtype)
        self.path = self.folder / FILE
        self._paths = [self.path, self.folder / f"{FILE}-wal", self.folder / MARK]
        self.seen = seen
        self.reports: list[str] = []  # what was found damaged, for people to read
        self.total = 0  # the number of the newest event
        self._counted = 0  # events up to this number count in a state, whether they can still be read or not
        self.db: sqlite3.Connection
        self._open = contextlib.ExitStack()
        with self.folder.errors(self.folder.path):
            self.folder.path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        for path in self._paths:
            regular(path)
        self._open.enter_context(self.folder.locked())
        make_private(self.folder.path, deep=False)
        make_private(self.folder / "snapshots")
        try:
            self.mark = HighWater(self.folder / MARK, log, run)
            self._open.callback(self.mark.close)
            open_database(self)
            self.total = self.newest()
            with self.folder.errors(self.mark.path):
                if self.mark.known is None or self.mark.known < (self.total, self.dropped) or self.mark.outdated:
                    self.mark.write(Mark(max(self.total, self.mark.written.total), self.dropped))
                else:
                    self.mark.open()
            self._files = self._identities()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.disconnect()
        self._open.close()

    def disconnect(self) -> None:
        """Let go of the database, if there is one."""
        if (connection := self.__dict__.pop("db", None)) is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        row = self.db.execute("SELECT value FROM facts WHERE name = 'dropped'").fetchone()
        return int(row[0] or 0) if row else 0

    @property
    def gaps(self) -> list[Gap]:
        rows = self.db.execute("SELECT first, last, accepted, keys FROM lost ORDER BY first")
        return [
            Gap(a, b, bool(c), {int(n): key for n, key in json.loads(keys or "{}").items()}) for a, b, c, keys in rows
        ]

    @property
    def keyed(self) -> bool:
        return self.db.execute("SELECT value FROM facts WHERE name = 'keyed'").fetchone() is not None

    def set_keyed(self, keyed: bool) -> None:
        try:
            if keyed:
                self.set_fact("keyed", 1)
            else:
                self.db.execute("DELETE FROM facts WHERE name = 'keyed'")
        except sqlite3.Error as error:
            raise StoreFull(f"that there are keys could not be written to {self.path}: {error}.") from error

    @property
    def nbytes(self) -> int:
        return sum(size_of(Path(f"{self.path}{suffix}")) for suffix in ("", "-wal", "-shm"))

    def newest(self) -> int:
        """The number of the newest event in the file."""
        newest = self.db.execute("SELECT max(number) FROM events").fetchone()[0]
        return max(int(newest or 0), self.dropped, *(gap.last for gap in self.gaps if gap.accepted), 0)

    def set_fact(self, name: str, value: object) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, str(value)))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            raise

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, batch: EventBatch) -> int:
        first, last = self.total + 1, self.total + len(batch.t)
        values = columns(batch)
        sums = [checksum ^ number for number, checksum in enumerate(checksums(values), first)]
        rows = list(zip(range(first, last + 1), *values, sums, strict=True))
        try:
            with self.transaction():
                self.db.executemany(INSERT, rows)
        except sqlite3.Error as error:
            self._check_files()
            self._recover()
            raise StoreFull(
                f"the events could not be written to {self.path.name}: {error}. Nothing of them was kept. "
                "Free space on the disk, then send them again."
            ) from error
        self._check_files()
        self.know(last)
        self.mark.advance(Mark(last, self.mark.written.dropped))
        return last

    def insert(self, batch: EventBatch, after: list[int]) -> None:
        values = columns(batch)
        numbers = [number + k for k, number in enumerate(after, 1)]
        sums = [checksum ^ number for number, checksum in zip(numbers, checksums(values), strict=True)]
        last = self.total + len(after)
        try:
            self.db.execute("PRAGMA secure_delete = ON")  # numbers are given again: nothing of the old may be found
            with self.transaction():
                for first, end, by in moved(after, self.total):
                    self.db.execute(MOVE, {"first": first, "last": end, "by": by})
                self.db.execute("UPDATE events SET number = -number WHERE number < 0")
                self._move_gaps(after)
                self.db.executemany(INSERT, zip(numbers, *values, sums, strict=True))
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.db.execute("PRAGMA secure_delete = OFF")
        except sqlite3.Error as error:
            self._check_files()
            self._recover()
            if self.newest() != last:
                raise StoreFull(f"late events could not be put in their places in {self.name}: {error}.") from error
        self._check_files()
        self.know(last)
        self.mark.write(Mark(last, self.mark.written.dropped))

    def _move_gaps(self, after: list[int]) -> None:
        """A gap moves up with the events after it."""
        gaps = self.gaps
        self.db.execute("DELETE FROM lost")
        for gap in gaps:
            by = bisect.bisect_left(after, gap.first)
            keys = json.dumps({number + by: key for number, key in gap.keys.items()})
            row = (gap.first + by, gap.last + by, int(gap.accepted), keys)
            self.db.execute("INSERT INTO lost VALUES (?, ?, ?, ?)", row)

    def settle(self) -> None:
        """Wait until the mark is on the disk, too; other work may be done meanwhile."""
        self.mark.settle()

    def _recover(self) -> None:
        """After a failed write: a connection that still works, or none until the next attempt."""
        with contextlib.suppress(sqlite3.Error):
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self.db.execute("SELECT max(number) FROM events").fetchone()
            return
        with contextlib.suppress(sqlite3.Error):
            self.db.close()
            self._files[1] = None  # the last to close the database takes its log along
            self.db = connected(self.path)

    def _identities(self) -> list[tuple[int, int] | None]:
        """Which files the names of the store stand for."""
        found: list[tuple[int, int] | None] = []
        for path in self._paths:
            try:
                file = os.stat(path)
                found.append((file.st_dev, file.st_ino))
            except OSError:
                found.append(None)
        return found

    def _check_files(self) -> None:
        """What is written to a file that was deleted or moved away is lost with this process, however well it goes."""
        now = self._identities()
        if self._files[1] is None:  # the log of the database is made with the first write
            self._files[1] = now[1]
        if None in now or now != self._files:
            raise StoreGone(
                f"the files in {self.folder.path} were deleted, moved or replaced while the service was running. "
                "Put them back if you can, and restart the service; what it acknowledged before may be lost."
            )

    # -- reading -------------------------------------------------------------------------------------------------------

    def known(self, keys: Iterable[str]) -> dict[str, int]:
        found, left = {}, list(keys)
        for begin in range(0, len(left), KEYS):
            some = left[begin : begin + KEYS]
            marks = ",".join("?" * len(some))
            rows = self.db.execute(f"SELECT key, number, checksum FROM events WHERE key IN ({marks})", some)
            found.update({key: checksum ^ number for key, number, checksum in rows})
            if self.mark.written.dropped:
                hashes = {hashed(key): key for key in some}
                asked = f"SELECT key, checksum FROM dropped_keys WHERE key IN ({marks})"
                found.update({hashes[key]: checksum for key, checksum in self.db.execute(asked, list(hashes))})
        return found

    def read(self, after: int = 0) -> Iterator[tuple[int, EventBatch]]:
        """All intact events after a number, in order: the number of the first, and events that follow each other.

        At the first damage the file is set aside and what is intact of it is kept; reports say what is missing.
        """
        upto, repaired = after, False
        while True:
            try:
                for first, batch in self._checked(upto):
                    yield first, batch
                    upto = first + len(batch) - 1
                return
            except (sqlite3.DatabaseError, Damaged) as error:
                if repaired:
                    raise BadFile(f"{self.path} cannot be read: {error}.") from error
                repair(self, f"{self.path.name} is damaged ({error})")
                self.total, repaired = max(self.newest(), upto, self._counted), True
                self._files = self._identities()

    def _checked(self, after: int) -> Iterator[tuple[int, EventBatch]]:
        gaps = self.gaps
        while after < self.total:
            rows = self.db.execute(
                f"SELECT {COLUMNS} FROM events WHERE number > ? ORDER BY number LIMIT {CHUNK}", (after,)
            ).fetchall()
            if not rows:
                _check_gap(after + 1, self.total, gaps)
                return
            begin = 0
            for row, (number, *_) in enumerate(rows):
                if number != after + 1:
                    _check_gap(after + 1, number - 1, gaps)
                    if row > begin:
                        yield from self._batches(rows[begin:row])
                    begin = row
                after = number
            yield from self._batches(rows[begin:])

    def _batches(self, rows: list[tuple]) -> Iterator[tuple[int, EventBatch]]:
        """Rows that follow each other, as batches of events or of targets."""
        for part in uniform(rows):
            yield part[0][0], batch_of(part, self.width, self.dtype)

    # -- losses, and the way back --------------------------------------------------------------------------------------

    def know(self, number: int) -> None:
        self.total, self._counted = max(self.total, number), max(self._counted, number)

    def accept_loss(self) -> list[Gap]:
        gaps = self.missing
        self.mark.write(Mark(self.total, self.dropped))  # first: a mark that is too low does no harm
        with self.transaction():
            self.db.execute("DELETE FROM lost WHERE first > ?", (self.total,))
            self.db.execute("UPDATE lost SET accepted = 1, last = min(last, ?)", (self.total,))
        return gaps

    def newest_until(self, t: Any) -> int:
        return self.db.execute("SELECT max(number) FROM events WHERE t <= ?", (t,)).fetchone()[0] or 0

    def time_before(self, gap: Gap) -> Any:
        after = self.db.execute("SELECT min(t) FROM events WHERE number > ?", (gap.last,)).fetchone()[0]
        return self.db.execute("SELECT max(t) FROM events WHERE number < ? AND t < ?", (gap.first, after)).fetchone()[0]

    def undo(self, first: int) -> tuple[int, str]:
        aside = f"undone-{time.strftime('%Y%m%d-%H%M%S')}-{first}.db"
        try:
            return self._undone(first, self.folder / aside), aside
        except (OSError, sqlite3.Error) as error:
            raise StoreFull(f"{self.name} was not rewound: {error}. Free space on the disk, then try again.") from error

    def _undone(self, first: int, aside: Path) -> int:
        aside.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(aside, isolation_level=None)) as kept:
            kept.executescript("PRAGMA synchronous = FULL;" + TABLES)
            kept.execute("BEGIN")
            rows = self.db.execute(f"SELECT {COLUMNS} FROM events WHERE number >= ? ORDER BY number", (first,))
            count = kept.executemany(INSERT, rows).rowcount
            kept.execute("INSERT INTO facts VALUES ('log', ?)", (self.log,))
            kept.execute("COMMIT")
        sync_folder(self.folder.path)
        self.mark.write(Mark(first - 1, self.dropped))
        self.db.execute("PRAGMA secure_delete = ON")  # numbers are given again: nothing of the old may be found
        with self.transaction():
            self.db.execute("DELETE FROM events WHERE number >= ?", (first,))
            self.db.execute("DELETE FROM lost WHERE first >= ?", (first,))
            self.db.execute("UPDATE lost SET last = min(last, ?)", (first - 1,))
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.db.execute("PRAGMA secure_delete = OFF")
        self.total = self._counted = first - 1
        return count

    # -- size ----------------------------------------------------------------------------------------------------------

    def drop(self, upto: int) -> int:
        upto = min(upto, self.total)
        if upto <= self.dropped:
            return 0
        try:
            gone = self._dropped(upto)
        except sqlite3.Error as error:
            raise StoreFull(f"old events were not dropped from {self.path}: {error}.") from error
        self.mark.write(Mark(self.total, upto))
        return gone

    def _dropped(self, upto: int) -> int:
        with self.transaction():
            keys = self.db.execute(
                "SELECT key, number, checksum FROM events WHERE number <= ? AND key IS NOT NULL", (upto,)
            )
            self.db.executemany(
                "INSERT OR REPLACE INTO dropped_keys VALUES (?, ?, ?)",
                sorted((hashed(key), number, checksum ^ number) for key, number, checksum in keys),
            )  # in the table's own order: each of its pages is written once, not once for each key
            gone = self.db.execute("DELETE FROM events WHERE number <= ?", (upto,)).rowcount
            self.db.execute("DELETE FROM lost WHERE last <= ? AND accepted", (upto,))
            self.set_fact("dropped", upto)
        return gone

    def shrink(self) -> None:
        try:
            self.db.execute("VACUUM")
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise StoreFull(
                f"{self.path} was not made smaller: {error}. It is whole; free space, then try again."
            ) from None


def _check_gap(first: int, last: int, gaps: list[Gap]) -> None:
    for gap in gaps:
        if gap.first <= first <= gap.last:
            first = gap.last + 1
    if first <= last:
        raise Damaged(f"events {Gap(first, last)} are missing")
