"""Where events that wait are kept (`held`): rows as those of a store, numbered by arrival, until the store has them.

The file counts what arrived and what has left it, and a mark outside it (`highwater`) says how far it has come. So what
is missing from it is noticed: a file that is damaged, cut short or gone, or that has lost its log.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pintgn.errors import BadFile
from pintgn.facts import check_format
from pintgn.files import rename, write_errors
from pintgn.serve.highwater import HighWater, Mark
from pintgn.serve.repair import DAMAGE, size_of
from pintgn.serve.rows import COLUMNS, INSERT, TABLES, Damaged, batch_of, connected
from pintgn.serve.store import StoreFull

FORMAT = 2
"""2 since features may have eight bytes each, as in a store; 1 is read and becomes 2. Of `held.db`
and `late.db`. The tables in PostgreSQL have the format of the store that they belong to."""
CHUNK = 10_000
"""Rows read at once."""
COUNTS = ("arrived", "left")
READ = f"SELECT {COLUMNS} FROM events WHERE number > ? ORDER BY number LIMIT {CHUNK}"


class WaitingRows(ABC):
    """Where events that wait are kept."""

    name: str
    arrived: int = 0
    """The number of the newest that ever waited, where it is known."""

    @abstractmethod
    def read(self, after: int) -> list[tuple]:
        """The next rows after a number."""

    @abstractmethod
    def change(self, gone: list[int], more: Iterable[tuple]) -> None:
        """Delete and add rows in one transaction, which is on the disk after `settle`; `StoreFull` otherwise."""

    @abstractmethod
    def set_aside(self, stamp: str) -> None:
        """Keep a copy of everything under another name."""

    @abstractmethod
    def damaged(self, why: object) -> BadFile:
        """What to do when rows are not what was written."""

    def settle(self) -> None:
        """Wait until everything that was changed is on the disk; other work may be done meanwhile."""
        return

    def close(self) -> None:
        return


class WaitingFile(WaitingRows):
    """A SQLite file beside a store.

    Args:
        path: of the file; its mark is beside it.
        log: fingerprint of the log that the store continues.
    """

    def __init__(self, path: Path, log: str):
        self.path, self.name = path, path.name
        self.mark, self.left = HighWater(mark_of(path), log), 0
        try:
            known = self.mark.known
            if known is not None and known.total > known.dropped and not size_of(path):
                raise self.damaged("it is missing or empty")
            self.db = connected(path)
            self._open()
        except sqlite3.Error as error:
            self.close()
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
            if code & 0xFF not in DAMAGE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
                raise BadFile(f"cannot open {path}: {error}.") from error
            raise self.damaged(error) from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        found = self.db.execute("PRAGMA user_version").fetchone()[0]  # 0: nothing was written yet
        check_format(
            found or FORMAT, FORMAT, str(self.path), "Start the pintgn that wrote it, and let the events happen.", 1
        )
        if found:
            self.db.execute(f"PRAGMA user_version = {FORMAT}")
        else:
            self.db.executescript(f"{TABLES}; PRAGMA user_version = {FORMAT};")
        facts = dict(self.db.execute("SELECT name, value FROM facts"))
        count, newest = self.db.execute("SELECT count(*), max(number) FROM events").fetchone()
        known = self.mark.known
        if COUNTS[0] in facts:
            self.arrived, self.left = (int(facts.get(name, -1)) for name in COUNTS)
            check_counts(self, count, known)
        else:  # new, or of an older pintgn, which did not count
            if known is not None and count != known.total - known.dropped:
                raise self.damaged(f"{known.total - known.dropped:,} should be there, and {count:,} are")
            self.arrived = max(newest or 0, 0 if known is None else known.total)
            self.left = self.arrived - count
        if known != (self.arrived, self.left):
            with write_errors(self.mark.path):
                self.mark.write(Mark(self.arrived, self.left))  # first: a file that counts has a mark
        if COUNTS[0] not in facts:
            with self._transaction():
                self._count()

    def _count(self) -> None:
        values = zip(COUNTS, (str(self.arrived), str(self.left)), strict=True)
        self.db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", values)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            raise

    def read(self, after: int) -> list[tuple]:
        try:
            return self.db.execute(READ, (after,)).fetchall()
        except sqlite3.Error as error:
            raise self.damaged(error) from error

    def change(self, gone: list[int], more: Iterable[tuple]) -> None:
        before, rows = (self.arrived, self.left), list(more)
        try:
            with self._transaction():
                for number in gone:
                    self.left += self.db.execute("DELETE FROM events WHERE number = ?", (number,)).rowcount
                self.db.executemany(INSERT, rows)
                self.arrived += len(rows)
                self._count()
        except BaseException as error:
            self.arrived, self.left = before
            if not isinstance(error, sqlite3.Error):
                raise
            raise StoreFull(
                f"the events could not be written to {self.name}: {error}. Nothing of them was kept. "
                "Free space on the disk, then send them again."
            ) from error
        self.mark.advance(Mark(self.arrived, self.left))

    def settle(self) -> None:
        self.mark.settle()

    def set_aside(self, stamp: str) -> None:
        with contextlib.closing(sqlite3.connect(self.path.with_name(f"undone-{stamp}-{self.name}"))) as target:
            self.db.backup(target)

    def damaged(self, why: object) -> BadFile:
        return BadFile(
            f"{self.path} is damaged: {why}. Events wait in it that were acknowledged. Put back a backup, or go on "
            "with those that are intact (--accept-loss), and have the others sent again under their keys."
        )

    def close(self) -> None:
        if (connection := self.__dict__.pop("db", None)) is not None:
            connection.close()
        self.mark.close()


def check_counts(file: WaitingFile, count: int, known: Mark | None) -> None:
    """Refuse a file that has lost some of what it held."""
    if known is None:
        raise file.damaged(f"{file.mark.path.name} is gone or damaged, so whether more waited cannot be told")
    if file.arrived < known.total:
        raise file.damaged(f"{known.total - file.arrived:,} that were written last are missing")
    if count != file.arrived - file.left:
        raise file.damaged(f"{file.arrived - file.left:,} should be there, and {count:,} are")


def mark_of(path: Path) -> Path:
    """Where the mark of a file of events that wait is.

    >>> mark_of(Path("live/held.db")).as_posix()
    'live/held-high-water'
    """
    return path.with_name(f"{path.stem}-high-water")


def copy_waiting(source: Path, target: Path, log: str) -> None:
    """Copy such a file beside the service that has it open, with a mark for exactly what was copied."""
    with contextlib.closing(HighWater(mark_of(source), log)) as mark:
        known = mark.known
    if size_of(source):
        with contextlib.closing(connected(source)) as db, contextlib.closing(sqlite3.connect(target)) as copy:
            db.backup(copy)
            facts = dict(copy.execute("SELECT name, value FROM facts"))
        if known is not None and COUNTS[0] in facts:  # the file may be ahead of its mark, never behind it
            known = Mark(max(known.total, int(facts[COUNTS[0]])), int(facts[COUNTS[1]]))
    if known is not None:
        with contextlib.closing(HighWater(mark_of(target), log)) as mark:
            mark.write(known)
    try:
        WaitingFile(target, log).close()
    except BadFile as error:
        raise BadFile(str(error).replace(str(target), str(source))) from None


def keep_intact(path: Path, log: str, width: int, dtype: np.dtype) -> tuple[int, str | None] | None:
    """Where such a file is damaged, put one in its place that holds the rows that are intact and can be read.

    Returns how many there are, and the name under which the damaged file is kept; None where nothing is damaged.
    """
    if not path.exists() and not mark_of(path).exists():
        return None
    try:
        with contextlib.closing(WaitingFile(path, log)) as rows:
            found = rows.read(-1)
            while found:
                batch_of(found, width, dtype)
                found = rows.read(found[-1][0])
        return None
    except Damaged:
        pass
    except StoreFull:
        raise
    except BadFile as error:
        if "newer pintgn" in str(error):
            raise
    kept = {row[0]: row for row in _readable(path) if _intact(row, width, dtype)}
    stamp, aside = time.strftime("%Y%m%d-%H%M%S"), None
    fresh = path.with_name(f".new-{path.name}")
    for leftover in path.parent.glob(".new-*"):
        leftover.unlink()
    rows = WaitingFile(fresh, log)
    rows.arrived = rows.left = max(kept, default=0) - len(kept)  # they keep their numbers
    rows.change([], [kept[number] for number in sorted(kept)])
    rows.close()
    for suffix in ("", "-wal", "-shm"):
        file = Path(f"{path}{suffix}")
        if file.exists():
            aside = f"damaged-{stamp}-{path.name}"
            file.rename(path.with_name(aside + suffix))
    rename(fresh, path)
    rename(mark_of(fresh), mark_of(path))  # last: until then it is damaged still
    return len(kept), aside


def _readable(path: Path) -> Iterator[tuple]:
    """The rows up to where SQLite cannot read on, from either end."""
    for order in ("", "DESC"):
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as db:
            yield from db.execute(f"SELECT {COLUMNS} FROM events ORDER BY number {order}")


def _intact(row: tuple, width: int, dtype: np.dtype) -> bool:
    with contextlib.suppress(Damaged, TypeError):
        return len(batch_of([row], width, dtype)) == 1
    return False
