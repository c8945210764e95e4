"""Events in one SQLite file: append-only, durable before they are acknowledged, and never lost without a word.

A commit is one transaction, flushed to the disk (WAL, synchronous=FULL) before anybody is told; a mark outside the
database (`durability`) says how many events were acknowledged. Each event has a checksum. A file that is damaged, or
that holds fewer events than the mark says, is refused with what helps (`recovery`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadFile, BadInput
from pintgn.facts import check_format
from pintgn.files import PRIVATE_FOLDER, make_private, regular, sync_folder
from pintgn.ingest.codec import EventBatch
from pintgn.learn.folder import Folder
from pintgn.serve.durability import COLUMNS, FILE, FORMAT, INSERT, TABLES, HighWater, Mark, connected, hashed, rows_of
from pintgn.serve.event_store import Store, StoreFull, StoreGone, check_no_leftovers

MARK = "high-water"
CHUNK = 10_000
"""Events read at once."""
KEYS = 5_000
"""Keys looked up at once."""
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""SQLite's codes for a file that is not what it was; others are a full disk, a lock, a right that is missing."""


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
        self.total = self.waiting = self.acknowledged = self.missing = 0
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
                with self.folder.errors(self.mark.path):
                    if self.mark.known is None or self.mark.known < (self.total + self.waiting, self.dropped):
                        self._write_mark()
                    else:
                        self.mark.open()
            self._files = self._identities()
        except BaseException:
            self.close()
            raise

    # -- opening -------------------------------------------------------------------------------------------------------

    def _open_database(self, seen: int) -> None:
        """Open the database, or make a new one, and count what is missing."""
        try:
            self.db = connected(self.path)
            if not self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self.db.executescript(f"BEGIN; {TABLES}")
                self.set_fact("log", self.fingerprint)
                self.set_fact("format", FORMAT)
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
        """Whose store this is, and of which format; an older one is completed."""
        facts = dict(self.db.execute("SELECT name, value FROM facts"))
        format = facts.get("format", "")
        if not format.isdecimal() or not facts.get("dropped", "0").isdecimal():
            raise self._damaged("facts that are no numbers")
        again = "Export it with that one (pintgn serve RUN --export all.parquet), or start an empty store with --store."
        check_format(int(format), FORMAT, f"the store in {self.path.name}", again, oldest=3)
        if facts.get("log") != self.fingerprint:
            raise BadInput(
                f"the store in {self.path.name} belongs to another log. Serve a run of that log, or choose another "
                "folder with --store."
            )
        if int(format) < FORMAT:
            self._complete()

    def _complete(self) -> None:
        """Add what older formats had not: events that wait, and how many were accepted as lost."""
        for name in ("held.db", "late.db"):  # where events waited until format 4
            path = self.folder / name
            if path.exists():
                with contextlib.closing(sqlite3.connect(path)) as db:
                    (count,) = db.execute("SELECT count(*) FROM events").fetchone()
                check_no_leftovers(str(path), count)
                path.unlink()
        with self.transaction():
            lost = 0
            if self.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'lost'").fetchone():
                begin = self.dropped
                for first, last in self.db.execute("SELECT first, last FROM lost WHERE accepted"):
                    lost += max(0, last - max(first, begin + 1) + 1)
                self.db.execute("DROP TABLE lost")
            self.db.execute(next(one for one in TABLES.split(";") if " held " in one))
            self.set_fact("lost", lost)
            self.set_fact("format", FORMAT)

    def _count(self, seen: int) -> None:
        """How many events there are, and how many should be."""
        count, newest = self.db.execute("SELECT count(*), max(number) FROM events").fetchone()
        (self.waiting,) = self.db.execute("SELECT count(*) FROM held").fetchone()
        self.total = max(newest or 0, self.dropped)
        within = self.total - self.dropped - self.lost - count
        after = max(self.mark.written.total - self.total - self.waiting, seen - self.total, 0)
        self.acknowledged, self.missing = self.total + self.waiting + after, max(0, within) + after

    @property
    def loss(self) -> str | None:
        if self.mark.known is None and (self.total or self.waiting or self.missing):
            return f"{MARK} is gone or damaged, so whether the newest acknowledged events are missing cannot be told"
        return super().loss

    def _write_mark(self) -> None:
        self.mark.write(Mark(self.total + self.waiting, self.dropped))

    def close(self) -> None:
        if (connection := self.__dict__.pop("db", None)) is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._open.close()

    # -- what there is -------------------------------------------------------------------------------------------------

    def _fact(self, name: str) -> int:
        row = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(row[0] or 0) if row else 0

    @property
    def dropped(self) -> int:
        return self._fact("dropped")

    @property
    def lost(self) -> int:
        """How many events after those that were dropped are missing, and an operator has accepted that."""
        return self._fact("lost")

    @property
    def keyed(self) -> bool:
        return bool(self._fact("keyed"))

    def set_keyed(self, keyed: bool) -> None:
        try:
            self.set_fact("keyed", int(keyed))
        except sqlite3.Error as error:
            raise StoreFull(f"that there are keys could not be written to {self.path}: {error}.") from error

    @property
    def nbytes(self) -> int:
        found = (Path(f"{self.path}{suffix}") for suffix in ("", "-wal", "-shm"))
        return sum(path.stat().st_size for path in found if path.exists())

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

    def append(
        self,
        batch: EventBatch | None,
        hold: tuple[int, EventBatch] | None = None,
        release: Sequence[int] = (),
    ) -> int:
        rows = [] if batch is None else rows_of(batch, range(self.total + 1, self.total + 1 + len(batch)))
        held = [] if hold is None else rows_of(hold[1], range(hold[0], hold[0] + len(hold[1])))
        try:
            with self.transaction():
                self.db.executemany(INSERT.format("events"), rows)
                if held or release:
                    self.db.executemany(INSERT.format("held"), held)
                    self.db.executemany("DELETE FROM held WHERE number = ?", [(number,) for number in release])
        except sqlite3.Error as error:
            self._check_files()
            self._recover()
            raise StoreFull(
                f"the events could not be written to {self.path.name}: {error}. Nothing of them was kept. "
                "Free space on the disk, then send them again."
            ) from error
        self._check_files()
        self.total += len(rows)
        self.waiting += len(held) - len(release)
        self.mark.advance(Mark(self.total + self.waiting, self.mark.written.dropped))
        return self.total

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

    def rows(self, after: int, table: str = "events") -> list[tuple]:
        asked = f"SELECT {COLUMNS} FROM {table} WHERE number > ? ORDER BY number LIMIT {CHUNK}"
        try:
            return self.db.execute(asked, (after,)).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def newest_until(self, t: Any) -> int:
        return self.db.execute("SELECT max(number) FROM events WHERE t <= ?", (t,)).fetchone()[0] or 0

    # -- losses, and taking events back --------------------------------------------------------------------------------

    def accept_loss(self, damaged: list[int], base: int) -> None:
        if damaged:
            chosen = ("number IN (SELECT value FROM json_each(?))", json.dumps(damaged))
            self._set_aside("damaged", damaged[0], {"events": chosen})
        with self.transaction():
            if base > self.total:  # only the snapshots have seen so many
                self.total = base
            self._forget_upto(base)
            (count,) = self.db.execute("SELECT count(*) FROM events").fetchone()
            newest = self.db.execute("SELECT max(number) FROM events").fetchone()[0]
            self.total = max(newest or 0, self.dropped)
            self.set_fact("lost", self.total - self.dropped - count)
        self.missing = 0
        self._write_mark()

    def undo(self, first: int, t: Any) -> tuple[int, str]:
        try:
            count, aside = self._set_aside("undone", first, {"events": ("number >= ?", first), "held": ("t > ?", t)})
        except (OSError, sqlite3.Error) as error:
            raise StoreFull(f"{self.name} was not rewound: {error}. Free space on the disk, then try again.") from error
        return count, aside

    def _set_aside(self, kind: str, first: int, chosen: dict[str, tuple[str, Any]]) -> tuple[int, str]:
        """Move rows of tables to a file of their own; returns how many, and its name."""
        path = self.folder / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}-{first}.db"
        path.unlink(missing_ok=True)
        with contextlib.closing(connected(path)) as kept:
            kept.executescript(f"BEGIN; {TABLES}")
            for table, (condition, value) in chosen.items():
                rows = self.db.execute(f"SELECT {COLUMNS} FROM {table} WHERE {condition} ORDER BY number", (value,))
                kept.executemany(INSERT.format(table), rows)
            kept.execute("INSERT INTO facts VALUES ('log', ?)", (self.fingerprint,))
            kept.execute("COMMIT")
        sync_folder(self.folder.path)
        if kind == "undone":  # the mark goes first: one that is too low does no harm
            self.mark.write(Mark(0, self.dropped))
        count = 0
        with self.transaction():
            for table, (condition, value) in chosen.items():
                count += self.db.execute(f"DELETE FROM {table} WHERE {condition}", (value,)).rowcount
            if kind == "undone":
                left = self.db.execute("SELECT count(*) FROM events").fetchone()[0]
                self.set_fact("lost", first - 1 - self.dropped - left)
        (self.waiting,) = self.db.execute("SELECT count(*) FROM held").fetchone()
        if kind == "undone":
            self.total = first - 1
            self._write_mark()
        return count, path.name

    # -- size ----------------------------------------------------------------------------------------------------------

    def drop(self, upto: int) -> int:
        upto = min(upto, self.total)
        if upto <= self.dropped:
            return 0
        try:
            with self.transaction():
                gone = self._forget_upto(upto)
        except sqlite3.Error as error:
            raise StoreFull(f"old events were not dropped from {self.path}: {error}.") from error
        self._write_mark()
        return gone

    def _forget_upto(self, upto: int) -> int:
        """Keep only the keys of events up to a number."""
        before = self.dropped
        if upto <= before:
            return 0
        keys = self.db.execute(
            "SELECT key, number, checksum FROM events WHERE number <= ? AND key IS NOT NULL", (upto,)
        )
        self.db.executemany(
            "INSERT OR REPLACE INTO dropped_keys VALUES (?, ?, ?)",
            sorted((hashed(key), number, checksum ^ number) for key, number, checksum in keys),
        )  # in the table's own order: each of its pages is written once, not once for each key
        gone = self.db.execute("DELETE FROM events WHERE number <= ?", (upto,)).rowcount
        self.set_fact("lost", self.lost - (upto - before - gone))
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
