"""Events in one SQLite file: append-only, durable before they are acknowledged, and never lost silently.

A commit is one transaction, flushed to the disk (WAL, synchronous=FULL) before anybody is told; a mark outside the
database (`high_water`) says how many events were acknowledged. Each event has a checksum. A file that is damaged, or
that holds fewer events than the mark says, is refused with what helps (`recovery`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadFile, BadInput
from pintgn.facts import check_format
from pintgn.files import PRIVATE, PRIVATE_FOLDER, make_private, regular
from pintgn.ingest.codec import EventBatch
from pintgn.learn.folder import Folder
from pintgn.serve import event_store
from pintgn.serve.event_store import COLUMNS, Chosen, Store, StoreFull, StoreGone, chunks, hashed
from pintgn.serve.high_water import HighWater, Mark

FORMAT = 5
FILE = "events.db"
MARK = "high-water"
TABLES = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, src, dst, t, op INTEGER, features BLOB, key TEXT, checksum INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS event_keys ON events (key) WHERE key IS NOT NULL;
CREATE TABLE IF NOT EXISTS dropped_keys (key BLOB PRIMARY KEY, number INTEGER, checksum INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held (
    number INTEGER PRIMARY KEY, src, dst, t, op INTEGER, features BLOB, key TEXT, checksum INTEGER
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT);
"""
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""SQLite's codes for a file that is not what it was; others are a full disk, a lock, a right that is missing."""


def connected(path: Path) -> sqlite3.Connection:
    with contextlib.suppress(OSError):  # SQLite says why, and gives its log and its index the mode of the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
    return db


class SqliteStore(Store):
    """A store in a folder, which is locked for this process while it is open.

    Args:
        folder: where `events.db`, `high-water` and the snapshots live; made when it is not there.
        fingerprint: `log_fingerprint` of the log that it continues; a store of another log is refused.
        width: feature columns of an event, `schema.width`.
        dtype: type of the times.
        seen: the number of the newest event that a snapshot has seen.
    """

    def __init__(self, folder: str | Path, fingerprint: str, width: int, dtype: np.dtype, seen: int = 0):
        self.folder, self.fingerprint = Folder(folder), fingerprint
        self.name = str(self.folder.path)
        self.width, self.dtype = width, np.dtype(dtype)
        self.path = self.folder / FILE
        self._paths = [self.path, self.folder / f"{FILE}-wal", self.folder / MARK]
        self.reports: list[str] = []
        self.total = self.dropped = self.waiting = self.acknowledged = self.missing = 0
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
            self.mark = HighWater(self.folder / MARK, fingerprint)
            self._open.callback(self.mark.close)
            self._open_database(seen)
            if self.loss is None:
                if self.mark.known is None or self.mark.known < (self.total + self.waiting, self.dropped):
                    self._write_mark()
                with self.folder.errors(self.mark.path):
                    self.mark.open()
            self._files = self._identities()
        except BaseException:
            self.close()
            raise

    # -- opening -------------------------------------------------------------------------------------------------------

    def _open_database(self, seen: int) -> None:
        """Open the database, or create one, and count missing events."""
        try:
            self.db = connected(self.path)
            if not self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self.db.executescript(f"BEGIN; {TABLES}")
                self.db.executemany("INSERT INTO facts VALUES (?, ?)", [("log", self.fingerprint), ("format", FORMAT)])
                self.db.execute("COMMIT")
            found = self.db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise self._damaged(" ".join(str(found).split())[:200])
            self._check_facts()
            self._count(seen)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
            if code & 0xFF not in DAMAGE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
                raise BadFile(f"cannot open {self.path}: {error}. Free space on the disk.") from error
            raise self._damaged(error) from error

    def _damaged(self, why: object) -> BadFile:
        from pintgn.serve.recovery import refused

        kept: set[int] = set()  # what can be read from either end
        for order in ("", "DESC"):
            with contextlib.suppress(sqlite3.Error, AttributeError):
                kept.update(row[0] for row in self.db.execute(f"SELECT number FROM events ORDER BY number {order}"))
        most = max(0, self.mark.written.total - self.mark.written.dropped - len(kept))
        lost = f"at most {most:,} of {self.mark.written.total:,} acknowledged events are missing"
        return refused(self.name, f"{self.path.name} is damaged ({why}): {lost}", None)

    def _check_facts(self) -> None:
        """Check the store's log and format."""
        facts = dict(self.db.execute("SELECT name, value FROM facts"))
        format = facts.get("format", "")
        if not format.isdecimal() or not facts.get("dropped", "0").isdecimal():
            raise self._damaged("facts that are no numbers")
        again = "Export it with that one (pintgn serve RUN --export all.parquet), or start an empty store with --store."
        check_format(int(format), FORMAT, f"the store in {self.path.name}", again)
        if facts.get("log") != self.fingerprint:
            raise BadInput(
                f"the store in {self.path.name} belongs to another log. Serve a run of that log, or choose another "
                "folder with --store."
            )

    def _count(self, seen: int) -> None:
        """How many events there are, and how many there should be."""
        count, newest = self.db.execute("SELECT count(*), max(number) FROM events").fetchone()
        (self.waiting,) = self.db.execute("SELECT count(*) FROM held").fetchone()
        self.dropped = self.fact("dropped")
        self.total = max(newest or 0, self.dropped)
        within = self.total - self.dropped - self.fact("lost") - count
        after = max(self.mark.written.total - self.total - self.waiting, seen - self.total, 0)
        self.acknowledged, self.missing = self.total + self.waiting + after, max(0, within) + after

    @property
    def loss(self) -> str | None:
        if self.mark.known is None and (self.total or self.waiting or self.missing):
            return f"{MARK} is gone or damaged, so whether the newest acknowledged events are missing cannot be told"
        return super().loss

    def _write_mark(self) -> None:
        with self.folder.errors(self.mark.path):
            self.mark.write(Mark(self.total + self.waiting, self.dropped))

    def close(self) -> None:
        if (connection := self.__dict__.pop("db", None)) is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._open.close()

    # -- statements ----------------------------------------------------------------------------------------------------

    def ask(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self.db.execute(statement, values)

    def fact(self, name: str) -> int:
        row = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(row[0] or 0) if row else 0

    def set_fact(self, name: str, value: int) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, str(value)))

    def insert(self, table: str, rows: list[tuple]) -> None:
        self.db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    @contextlib.contextmanager
    def changing(self, failed: str, more: int = 0) -> Iterator[None]:
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield
            self.db.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            self._check_files()
            self._recover()
            raise StoreFull(
                f"{failed}: {error}. Nothing of them was kept. Free space on the disk, then try again."
            ) from error

    def _recover(self) -> None:
        """After a failed write: a connection that still works, or none until the next attempt."""
        with contextlib.suppress(sqlite3.Error):
            self.db.execute("SELECT max(number) FROM events").fetchone()
            return
        with contextlib.suppress(sqlite3.Error):
            self.db.close()
            self._files[1] = None  # the last to close the database takes its log along
            self.db = connected(self.path)

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(
        self, batch: EventBatch | None, hold: tuple[int, EventBatch] | None = None, release: Sequence[int] = ()
    ) -> int:
        super().append(batch, hold, release)
        self._check_files()
        self.mark.advance(Mark(self.total + self.waiting, self.dropped))
        return self.total

    def settle(self) -> None:
        """Wait until the mark is on the disk, too; other work may be done meanwhile."""
        self.mark.settle()

    def _identities(self) -> list[tuple[int, int] | None]:
        """The files that the names of the store stand for now."""
        found: list[tuple[int, int] | None] = []
        for path in self._paths:
            try:
                file = os.stat(path)
                found.append((file.st_dev, file.st_ino))
            except OSError:
                found.append(None)
        return found

    def _check_files(self) -> None:
        """Fail if a file of the store was deleted or moved: writes to it would be lost with this process."""
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
        found = {}
        for some in chunks(keys):
            marks = ",".join("?" * len(some))
            rows = self.db.execute(f"SELECT key, number, checksum FROM events WHERE key IN ({marks})", some)
            found.update({key: checksum ^ number for key, number, checksum in rows})
            if self.dropped:
                hashes = {hashed(key): key for key in some}
                statement = f"SELECT key, checksum FROM dropped_keys WHERE key IN ({marks})"
                found.update({hashes[key]: checksum for key, checksum in self.db.execute(statement, list(hashes))})
        return found

    def rows(self, after: int, table: str = "events") -> list[tuple]:
        statement = f"SELECT {COLUMNS} FROM {table} WHERE number > ? ORDER BY number LIMIT {event_store.CHUNK}"
        try:
            return self.db.execute(statement, (after,)).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    @property
    def nbytes(self) -> int:
        found = (Path(f"{self.path}{suffix}") for suffix in ("", "-wal", "-shm"))
        return sum(path.stat().st_size for path in found if path.exists())

    # -- losses, taking events back, size ------------------------------------------------------------------------------

    def end_at(self, total: int) -> None:
        """Counted at every start."""

    def take_out(self, kind: str, chosen: list[Chosen], base: int = 0) -> tuple[int, str | None]:
        found = super().take_out(kind, chosen, base)
        self._write_mark()
        return found

    def drop(self, upto: int) -> int:
        before, gone = self.dropped, super().drop(upto)
        if self.dropped > before:
            self._write_mark()
        return gone

    def forget(self, upto: int) -> int:
        keys = self.db.execute(
            "SELECT key, number, checksum FROM events WHERE number <= ? AND key IS NOT NULL", (upto,)
        )
        self.db.executemany(
            "INSERT OR REPLACE INTO dropped_keys VALUES (?, ?, ?)",
            sorted((hashed(key), number, checksum ^ number) for key, number, checksum in keys),
        )  # in the table's own order: each of its pages is written once, not once for each key
        return self.db.execute("DELETE FROM events WHERE number <= ?", (upto,)).rowcount
