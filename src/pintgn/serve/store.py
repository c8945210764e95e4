"""Events on disk: append-only, in one SQLite file; acknowledged means durable.

A commit is one transaction, flushed to the disk (WAL, synchronous=FULL) before anybody is told. Each commit keeps a
digest of its rows, so that a damaged file is noticed even where SQLite does not: the tail that a start replays is
checked commit by commit, and what comes after the first damage is set aside, never overwritten.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pintgn.errors import BadFile, BadInput
from pintgn.learn.folder import Folder
from pintgn.serve.batch import Batch

FORMAT = 1
FILE = "events.db"
CHUNK = 10_000
"""Events read at once."""
KEYS = 5_000
"""Keys looked up at once."""
DURABLE = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
TABLES = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, src, dst, t, op INTEGER, features BLOB, key TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS event_keys ON events (key) WHERE key IS NOT NULL;
CREATE TABLE IF NOT EXISTS commits (last INTEGER PRIMARY KEY, first INTEGER, digest BLOB, at REAL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT);
"""


class StoreFull(BadFile):
    """Events could not be written: the disk is full or broken. Nothing of them was kept."""


class Damaged(BadFile):
    """Rows that are not what was written."""


class Store:
    """The events that a service has acknowledged, numbered from 1 in the order of arrival.

    `with Store(folder, fingerprint) as store`: the folder is locked for this process while it is open.

    Args:
        folder: where `events.db` and the snapshots live; made when it is not there.
        fingerprint: of the run that is served; a store of another run is refused.
        width: feature columns of an event, `schema.width`.
        dtype: type of the times.
    """

    def __init__(self, folder: str | Path, fingerprint: str, width: int, dtype: np.dtype):
        self.folder, self.fingerprint = Folder(folder), fingerprint
        self.width, self.dtype = width, np.dtype(dtype)
        self.path = self.folder / FILE
        self.reports: list[str] = []  # what was found damaged, for people to read
        self._open = contextlib.ExitStack()
        self._open.enter_context(self.folder.locked())
        try:
            self.db = self._connect(durable=False)
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if (connection := self.__dict__.pop("db", None)) is not None:
            connection.close()
        self._open.close()

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """The number of the newest event."""
        return self._total

    @property
    def dropped(self) -> int:
        """Events up to this number are no longer here: compacted, or lost with a damaged file but in a snapshot."""
        return int(self._fact("dropped") or 0)

    @property
    def nbytes(self) -> int:
        """Bytes on disk, without snapshots."""
        size = 0
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
            with contextlib.suppress(FileNotFoundError):
                size += (self.folder / name).stat().st_size
        return size

    def _fact(self, name: str) -> str | None:
        row = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def _set_fact(self, name: str, value: object) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, str(value)))

    # -- opening -------------------------------------------------------------------------------------------------------

    def _connect(self, durable: bool = True) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        if durable:
            db.executescript(DURABLE)
        return db

    def _prepare(self) -> None:
        try:
            self.db.executescript(DURABLE + TABLES)
            known = self._fact("run")
        except sqlite3.OperationalError as error:
            raise BadFile(f"cannot write {self.path}: {error}.") from error
        except sqlite3.DatabaseError as error:
            self._set_aside(0, f"{self.path} is no longer a database ({error})")
            known = self._fact("run")
        if known is None:
            with self._transaction():
                self._set_fact("run", self.fingerprint)
                self._set_fact("format", FORMAT)
        elif known != self.fingerprint:
            raise BadInput(
                f"the store in {self.folder.path} belongs to another run (its settings, seed or data differ). "
                "Serve that run, or choose another folder with --store."
            )
        elif int(self._fact("format") or 0) > FORMAT:
            raise BadFile(f"the store in {self.folder.path} was written by a newer pintgn. Update pintgn to read it.")
        self._total = self._last()

    def _last(self) -> int:
        newest = self.db.execute("SELECT max(number) FROM events").fetchone()[0]
        return max(int(newest or 0), self.dropped)

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

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        """Write events in one transaction; when this returns they are on the disk. Returns the number of the last.

        Raises `StoreFull` when that cannot be done; then none of them is kept.
        """
        first, last = self._total + 1, self._total + len(batch)
        rows = list(zip(range(first, last + 1), *_columns(batch), strict=True))
        try:
            with self._transaction():
                self.db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
                self.db.execute("INSERT INTO commits VALUES (?, ?, ?, ?)", (last, first, digest(batch), time.time()))
        except sqlite3.Error as error:
            self._recover()
            raise StoreFull(
                f"the events could not be written to {self.path.name}: {error}. Nothing of them was kept. "
                "Make room on the disk, then send them again."
            ) from error
        self._total = last
        return last

    def _recover(self) -> None:
        """After a failed write: a connection that still works, or none until the next attempt."""
        with contextlib.suppress(sqlite3.Error):
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self.db.execute("SELECT max(number) FROM events").fetchone()
            return
        with contextlib.suppress(sqlite3.Error):
            self.db.close()
            self.db = self._connect()

    # -- reading -------------------------------------------------------------------------------------------------------

    def known(self, keys: Iterable[str]) -> dict[str, tuple]:
        """What has been stored under these keys: (number, src, dst, t, op, features) by key."""
        found, left = {}, list(keys)
        for begin in range(0, len(left), KEYS):
            some = left[begin : begin + KEYS]
            marks = ",".join("?" * len(some))
            rows = self.db.execute(
                f"SELECT key, number, src, dst, t, op, features FROM events WHERE key IN ({marks})", some
            )
            found.update({row[0]: row[1:] for row in rows})
        return found

    def read(self, after: int = 0) -> Iterator[Batch]:
        """All events after a number, in order, checked against the digests of their commits.

        At the first damage, the file is set aside, the intact events are kept, a report is written, and the reading
        ends there.
        """
        upto = after
        try:
            for first, last, batch in self._checked(after):
                if first != upto + 1:
                    raise Damaged(f"events {upto + 1} to {first - 1} are missing")
                upto = last
                yield batch
            if upto < self._total:
                raise Damaged(f"events {upto + 1} to {self._total} are missing")
        except (sqlite3.DatabaseError, Damaged) as error:
            self._set_aside(upto, f"events after number {upto:,} in {self.path} are damaged ({error})")

    def _checked(self, after: int) -> Iterator[tuple[int, int, Batch]]:
        """First number, last number and events of consecutive commits, in chunks."""
        commits = self.db.execute("SELECT first, last, digest FROM commits WHERE last > ? ORDER BY last", (after,))
        waiting: list[tuple[int, int, bytes]] = []
        for commit in commits.fetchall():
            waiting.append(commit)
            if waiting[-1][1] - waiting[0][0] >= CHUNK:
                yield from self._chunk(waiting, after)
                waiting = []
        if waiting:
            yield from self._chunk(waiting, after)

    def _chunk(self, commits: list[tuple[int, int, bytes]], after: int) -> Iterator[tuple[int, int, Batch]]:
        first, last = commits[0][0], commits[-1][1]
        rows = self.db.execute(
            "SELECT number, src, dst, t, op, features, key FROM events WHERE number BETWEEN ? AND ? ORDER BY number",
            (first, last),
        ).fetchall()
        good: list[Batch] = []
        trouble = None
        begin, end, done = max(first, after + 1), first - 1, 0
        for one, two, expected in commits:
            mine = rows[done : done + two - one + 1]
            done += len(mine)
            try:
                if one != end + 1 or len(mine) != two - one + 1 or mine[0][0] != one or mine[-1][0] != two:
                    raise Damaged("rows are missing")
                batch = self._batch(mine)
                if digest(batch) != expected:
                    raise Damaged("what was read is not what was written")
            except (Damaged, ValueError, TypeError, OverflowError) as error:
                trouble = error if isinstance(error, Damaged) else Damaged(str(error))
                break
            skip = max(after + 1 - one, 0)
            good.append(batch[skip:] if skip else batch)
            end = two
        if good:
            yield begin, end, Batch.joined(good)
        if trouble is not None:
            raise trouble

    def _batch(self, rows: list[tuple]) -> Batch:
        _, src, dst, t, op, features, keys = map(list, zip(*rows, strict=True))
        matrix = None
        if self.width:
            matrix = np.frombuffer(b"".join(features), "<f4").astype(np.float32).reshape(len(rows), self.width)
        ops = None if op[0] is None else np.array(op, np.int8)
        named = None if all(key is None for key in keys) else keys
        return Batch(src, dst, np.array(t, self.dtype), matrix, ops, named)

    # -- damage --------------------------------------------------------------------------------------------------------

    def _set_aside(self, upto: int, report: str) -> None:
        """Keep the damaged file under another name, and go on with a new one that holds the intact events."""
        aside = self.folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.db"
        fresh = self.folder / f".{FILE}.new"
        for leftover in self.folder.path.glob(f".{FILE}.new*"):
            leftover.unlink()
        made = sqlite3.connect(fresh, isolation_level=None)
        made.executescript("PRAGMA synchronous = FULL;" + TABLES)
        lost = self.__dict__.get("_total")
        for table, order in (("events", "number"), ("commits", "last"), ("facts", "name")):
            where = "" if table == "facts" else f" WHERE {order} <= {int(upto)}"
            with contextlib.suppress(sqlite3.DatabaseError):  # what cannot be read is lost with the file
                rows = self.db.execute(f"SELECT * FROM {table}{where} ORDER BY {order}").fetchall()
                marks = ",".join("?" * (len(rows[0]) if rows else 1))
                made.execute("BEGIN")
                made.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)
                made.execute("COMMIT")
        kept = made.execute("SELECT count(*) FROM events").fetchone()[0]
        if kept == 0 and upto:
            made.execute("INSERT OR REPLACE INTO facts VALUES ('dropped', ?)", (str(upto),))
        made.execute("INSERT OR REPLACE INTO facts VALUES ('run', ?)", (self.fingerprint,))
        made.execute("INSERT OR REPLACE INTO facts VALUES ('format', ?)", (str(FORMAT),))
        made.close()
        for suffix in ("", "-wal", "-shm"):  # copied while it is open: closing would write into the damaged file
            source = Path(f"{self.path}{suffix}")
            if source.exists():
                shutil.copy2(source, f"{aside}{suffix}")
        with contextlib.suppress(sqlite3.Error):
            self.db.close()
        for suffix in ("-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        os.replace(fresh, self.path)
        sync_folder(self.folder.path)
        self.db = self._connect()
        self._total = max(upto, self._last())
        count = f"{lost - upto:,} events" if lost is not None and lost > upto else "whatever came after"
        self.reports.append(f"{report}. The file was kept as {aside.name}; {count} of it must be sent again.")

    def skip_to(self, number: int) -> None:
        """Events up to this number are known from a snapshot, but no longer here."""
        with self._transaction():
            self._set_fact("dropped", number)
        self._total = max(self._total, number)

    # -- room ----------------------------------------------------------------------------------------------------------

    def drop(self, upto: int) -> int:
        """Forget whole commits up to a number (a snapshot must hold them); later events take their room.

        Returns how many events.
        """
        end = self.db.execute("SELECT max(last) FROM commits WHERE last <= ?", (upto,)).fetchone()[0]
        if end is None:
            return 0
        with self._transaction():
            gone = self.db.execute("DELETE FROM events WHERE number <= ?", (end,)).rowcount
            self.db.execute("DELETE FROM commits WHERE last <= ?", (end,))
            self._set_fact("dropped", max(end, self.dropped))
        return gone

    def shrink(self) -> None:
        """Give unused room back to the disk; takes a while, and as much room again meanwhile."""
        self.db.execute("VACUUM")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _columns(batch: Batch) -> tuple[list, ...]:
    """src, dst, t, op, features and key, as they are stored."""
    none = [None] * len(batch)
    op = none if batch.op is None else batch.op.tolist()
    features = none if batch.features is None else [row.tobytes() for row in batch.features.astype("<f4", copy=False)]
    return batch.src, batch.dst, batch.t.tolist(), op, features, none if batch.keys is None else batch.keys


def digest(batch: Batch) -> bytes:
    """Of everything that a commit holds."""
    op = None if batch.op is None else batch.op.tolist()
    keys = None if batch.keys is None or not any(batch.keys) else batch.keys
    told = json.dumps([batch.src, batch.dst, batch.t.tolist(), op, keys], ensure_ascii=False)
    found = hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16)
    if batch.features is not None:
        found.update(np.ascontiguousarray(batch.features, "<f4").tobytes())
    return found.digest()


def sync_folder(path: Path) -> None:
    """Make renames in a folder durable; systems that cannot open folders need not."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
