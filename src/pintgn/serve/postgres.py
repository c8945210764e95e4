"""Events in PostgreSQL: append-only, numbered without gaps by the one writer, read by any number of processes.

Whoever holds an advisory lock is the writer, and writes by the session that holds it alone: when that ends, the lock
and whatever had not been committed go with it. Each writer also has an epoch of its own, which every transaction
checks. So a process that was taken for dead can never commit again, and a commit whose answer did not arrive is never
acknowledged.

PostgreSQL looks after its own files (checksums, backups); what is read here is checked event by event all the same.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pintgn.errors import BadFile, BadInput
from pintgn.facts import check_format
from pintgn.formatting import shown_address
from pintgn.ingest.codec import EventBatch
from pintgn.serve.postgres_session import connected, copied, escaped, first_line, psycopg, unescaped
from pintgn.serve.rows import COLUMNS, Damaged, Gap, batch_of, checksums, columns, hashed, moved, uniform
from pintgn.serve.store import Store, StoreFull, StoreGone, StoreLost, StoreRewound

FORMAT = 2
"""2 since features may have eight bytes each, as in SQLite; 1 is read, and becomes 2 with its next writer."""
TABLES = """
CREATE TABLE pintgn_log (
    single boolean PRIMARY KEY DEFAULT true CHECK (single), format integer NOT NULL, log text NOT NULL,
    total bigint NOT NULL DEFAULT 0, dropped bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0, rewound bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE pintgn_events (
    number bigint PRIMARY KEY, src {id}, dst {id}, t {time} NOT NULL, op smallint, features bytea, key text,
    checksum bigint NOT NULL
);
CREATE TABLE pintgn_keys (key bytea PRIMARY KEY, number bigint NOT NULL, checksum bigint NOT NULL);
CREATE TABLE pintgn_snapshots (
    run text, weights text, number bigint, manifest text NOT NULL, made timestamptz DEFAULT now(),
    PRIMARY KEY (run, weights, number)
);
CREATE TABLE pintgn_snapshot_parts (
    run text, weights text, number bigint, path text, part integer, data bytea NOT NULL,
    PRIMARY KEY (run, weights, number, path, part),
    FOREIGN KEY (run, weights, number) REFERENCES pintgn_snapshots ON DELETE CASCADE
);
"""
MOVE = """
UPDATE pintgn_events SET number = -(number + %(by)s), checksum = checksum # number # (number + %(by)s)
WHERE number > %(first)s AND number <= %(last)s
"""
"""Moves events up; their numbers are negative until all have been moved."""
MOVE_KEYS = "UPDATE pintgn_keys SET number = number + %(by)s WHERE number > %(first)s AND number <= %(last)s"
LOCK = 0x70696E74
"""Half of the advisory lock's number; the other is the table's."""
CHUNK = 10_000
"""Events read at once."""
KEYS = 5_000
"""Keys looked up at once."""
BACKUP = "Put back a backup of the database."
MEASURED = 60.0
"""Seconds between two looks at how large the tables are."""


class PostgresStore(Store):
    """A store in a database (or in one of its schemas), of the process that holds its lock.

    Args:
        address: postgresql://…, with whatever libpq understands.
        log: fingerprint of the log that it continues; a store of another log is refused.
        width: feature columns of an event, `schema.width`.
        dtype: type of the times.
        text: whether ids are texts; whole numbers otherwise.
        follow: only read; the store must be there.
    """

    shared: ClassVar[bool] = True

    def __init__(self, address: str, log: str, width: int, dtype: np.dtype, text: bool, follow: bool = False):
        self.address, self.name, self.log = address, shown_address(address), log
        self.width, self.dtype, self.text = width, np.dtype(dtype), text
        self.reports, self.total, self.writes, self.follow = [], 0, False, follow
        self.epoch = -1
        self._dropped = self._rewound = self._nbytes = 0
        self._measured = -MEASURED
        self._table: int | None = None  # number of a table; known once the store is
        self._newest: tuple[int, int] | None = None  # number and checksum of the newest event that was written or read
        self.db: Any = None
        self._turn = threading.RLock()
        try:
            self.connect()
            if not follow:
                self.take()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.db is not None:
            with contextlib.suppress(Exception):
                self.db.close()
        self.db, self.writes = None, False

    # -- sessions ------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """A new session, to read by. What this process has seen must still be there."""
        self.close()
        self.db, first = connected(self.address), self._table is None
        with self.session() as db:
            if not db.execute("SELECT to_regclass('pintgn_log')").fetchone()[0]:
                if not first:
                    raise StoreGone(f"there is no store in {self.name} any more. Put back a backup of the database.")
                self._make(db)
            format, log = db.execute("SELECT format, log FROM pintgn_log").fetchone()
            check_format(format, FORMAT, f"the store in {self.name}", "Export it with that one.", oldest=1)
            if log != self.log:
                raise BadInput(
                    f"the store in {self.name} belongs to another log. Serve a run of that log, or name another "
                    "database, or another schema: ?options=-csearch_path%3DNAME."
                )
            (self._table,) = db.execute("SELECT 'pintgn_log'::regclass::oid::int").fetchone()
            db.execute(f"LISTEN {self.channel}")
            if db.execute("SHOW fsync").fetchone()[0] != "on" and not self.reports:
                self.reports.append(
                    f"{self.name} runs with fsync=off: what is acknowledged can be lost when its machine fails"
                )
        self.refresh(first)
        self._check_newest()

    def _make(self, db: Any) -> None:
        if self.follow:
            raise BadInput(f"there is no store in {self.name} yet. Start the service that writes it, without --follow.")
        ids, times = self.kinds
        try:
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                if not db.execute("SELECT to_regclass('pintgn_log')").fetchone()[0]:
                    db.execute(TABLES.format(id=ids, time=times))
                    db.execute("INSERT INTO pintgn_log (format, log) VALUES (%s, %s)", (FORMAT, self.log))
        except psycopg.errors.DuplicateTable:
            pass  # another process was first, and a session learns of new tables only between two transactions
        except psycopg.Error as error:
            raise BadFile(f"cannot make a store in {self.name}: {first_line(error)}.") from error

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """The session, for one thread at a time; `StoreLost` when it has ended."""
        with self._turn:
            try:
                if self.db is None:
                    raise StoreLost(f"there is no connection to {self.name}.")
                yield self.db
            except psycopg.Error as error:
                if self.db is not None and not self.db.closed:
                    raise
                self.close()
                raise StoreLost(f"the connection to {self.name} was lost ({first_line(error)}).") from error

    @property
    def channel(self) -> str:
        assert self._table is not None
        return f"pintgn_{self._table & 0xFFFFFFFF}"

    def take(self) -> bool:
        """Become the writer, if nobody is; `total` then counts all that others wrote."""
        with self.session() as db:
            if not db.execute("SELECT pg_try_advisory_lock(%s, %s)", (LOCK, self._table)).fetchone()[0]:
                return False
            db.execute("UNLISTEN *")
            (self.epoch,) = db.execute(
                "UPDATE pintgn_log SET epoch = epoch + 1, format = %s RETURNING epoch", (FORMAT,)
            ).fetchone()
        self.refresh()
        self._check_newest()
        self.writes = True
        return True

    def check(self) -> None:
        """Whether the session of the writer is alive, and its own; `StoreLost` otherwise."""
        with self.session() as db:
            if db.execute("SELECT epoch FROM pintgn_log").fetchone()[0] != self.epoch:
                self._fenced()

    def _fenced(self) -> None:
        self.close()
        raise StoreLost(f"another process writes to {self.name} now.")

    def holder(self) -> str:
        """Who writes."""
        with self.session() as db:
            found = db.execute(
                "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = "
                "'advisory' AND l.classid::int = %s AND l.objid::int = %s AND l.granted",
                (LOCK, self._table),
            ).fetchone()
        return found[0] if found and found[0] else "another process"

    def refresh(self, first: bool = False) -> None:
        """How far the store has come."""
        with self.session() as db:
            total, dropped, rewound = db.execute("SELECT total, dropped, rewound FROM pintgn_log").fetchone()
            if time.monotonic() - self._measured > MEASURED:
                self._measured = time.monotonic()
                tables = "pg_total_relation_size('pintgn_events') + pg_total_relation_size('pintgn_keys')"
                self._nbytes = db.execute(f"SELECT {tables}").fetchone()[0]
        if not first and rewound != self._rewound:
            raise self._was_rewound(rewound)
        self.total, self._dropped, self._rewound = total, dropped, rewound

    def _was_rewound(self, rewound: int) -> StoreGone:
        """By its writer, for late events, or by an operator, who has taken events back."""
        with self.session() as db:
            found: tuple[int, int | None] = (0, None)
            if db.execute("SELECT to_regclass('pintgn_rewinds')").fetchone()[0]:
                asked = "SELECT count(*), min(first) FROM pintgn_rewinds WHERE rewound > %s AND rewound <= %s"
                found = db.execute(asked, (self._rewound, rewound)).fetchone()
        if found[1] is not None and found[0] == rewound - self._rewound:
            return StoreRewound(f"late events were put in their places in {self.name}, from {found[1]:,} on.", found[1])
        return StoreGone(f"{self.name} was rewound by an operator. Restart the service, which replays what is left.")

    def accept_rewind(self) -> None:
        """Go on with the order that the store has now."""
        self._newest = None
        self.refresh(first=True)

    def _check_newest(self) -> None:
        """A database that has lost what this process has seen was put back, or another took its place."""
        if self._newest is None:
            return
        number, checksum = self._newest
        with self.session() as db:
            row = db.execute("SELECT checksum FROM pintgn_events WHERE number = %s", (number,)).fetchone()
        if self.total < number or (row[0] != checksum if row else number > self._dropped):
            raise StoreGone(
                f"{self.name} has lost events that were acknowledged, up to {number:,} at least: it ends at "
                f"{self.total:,}. Put back the newest copy of the database, then restart the service."
            )

    def wait(self, timeout: float) -> None:
        """Until there may be more events, or so many seconds have passed."""
        with self.session() as db:
            for _ in db.notifies(timeout=timeout, stop_after=1):
                pass
        self.refresh()

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        return self._dropped

    @property
    def keyed(self) -> bool:
        return bool(self.count("pintgn_keyed"))

    def set_keyed(self, keyed: bool) -> None:
        with self.changing(f"that there are keys could not be written to {self.name}") as db:
            db.execute("CREATE TABLE IF NOT EXISTS pintgn_keyed (single boolean PRIMARY KEY CHECK (single))")
            db.execute("DELETE FROM pintgn_keyed")
            if keyed:
                db.execute("INSERT INTO pintgn_keyed VALUES (true)")

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def count(self, table: str) -> int | None:
        """How many rows a table has; None where there is none of this name."""
        with self.session() as db:
            if db.execute("SELECT to_regclass(%s)", (table,)).fetchone()[0] is None:
                return None
            return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, batch: EventBatch) -> int:
        first, last = self.total + 1, self.total + len(batch.t)
        rows, named, sums = self._rows(batch, range(first, last + 1))
        try:
            with self._writing() as db:
                ours = (last, self.epoch, self.total)
                if db.execute("UPDATE pintgn_log SET total = %s WHERE epoch = %s AND total = %s", ours).rowcount != 1:
                    self._fenced()
                self._copy(db, rows, named)
                db.execute("SELECT pg_notify(%s, %s)", (self.channel, str(last)))
        except psycopg.errors.UniqueViolation:  # somebody else has used these numbers or keys
            self._fenced()
        except psycopg.Error as error:
            raise StoreFull(
                f"the events could not be written to {self.name}: {first_line(error)}. Nothing of them was kept. "
                "Look at the database, then send them again."
            ) from error
        self.total, self._newest = last, (last, sums[-1] ^ last)
        return last

    def insert(self, batch: EventBatch, after: list[int]) -> None:
        numbers = [number + k for k, number in enumerate(after, 1)]
        rows, named, _ = self._rows(batch, numbers)
        last, first = self.total + len(after), numbers[0]
        with self.changing(f"late events could not be put in their places in {self.name}") as db:
            for begin, end, by in moved(after, self.total):
                db.execute(MOVE, {"first": begin, "last": end, "by": by})
                db.execute(MOVE_KEYS, {"first": begin, "last": end, "by": by})
            db.execute("UPDATE pintgn_events SET number = -number WHERE number < 0")
            self._copy(db, rows, named)
            newest = db.execute("SELECT checksum FROM pintgn_events WHERE number = %s", (last,)).fetchone()
            db.execute("UPDATE pintgn_log SET total = %s, rewound = rewound + 1", (last,))
            db.execute("CREATE TABLE IF NOT EXISTS pintgn_rewinds (rewound bigint PRIMARY KEY, first bigint NOT NULL)")
            db.execute("INSERT INTO pintgn_rewinds VALUES (%s, %s)", (self._rewound + 1, first))
            db.execute("SELECT pg_notify(%s, %s)", (self.channel, str(last)))
        self.total, self._rewound = last, self._rewound + 1
        self._newest = (last, newest[0]) if newest else None

    def _rows(self, batch: EventBatch, numbers: Sequence[int]) -> tuple[Iterator[tuple], list[tuple], list[int]]:
        """Events and keys as they are copied, and the events' checksums."""
        values = columns(batch)
        src, dst, t, op, features, keys = values
        sums = checksums(values)
        ends = (escaped(src), escaped(dst)) if self.text else (src, dst)
        rows = zip(numbers, *ends, t, op, features, escaped(keys), map(int.__xor__, sums, numbers), strict=True)
        given = () if batch.keys is None else zip(keys, numbers, sums, strict=True)
        return rows, [(hashed(key), number, one) for key, number, one in given if key is not None], sums

    def _copy(self, db: Any, rows: Iterable[tuple], named: list[tuple]) -> None:
        ids, times = self.kinds
        copied(db, "pintgn_events", ["int8", ids, ids, times, "int2", "bytea", "text", "int8"], rows)
        if named:
            copied(db, "pintgn_keys", ["bytea", "int8", "int8"], named)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Any]:
        """A transaction of the writer."""
        if not self.writes:
            raise StoreLost(f"another process writes to {self.name}.")
        with self.session() as db, db.transaction():
            yield db

    @property
    def kinds(self) -> tuple[str, str]:
        """The types of ids and times."""
        return "text" if self.text else "int8", "float8" if self.dtype.kind == "f" else "int8"

    # -- reading -------------------------------------------------------------------------------------------------------

    def known(self, keys: Iterable[str]) -> dict[str, int]:
        hashes = {hashed(key): key for key in keys}
        found, left = {}, list(hashes)
        with self.session() as db, db.cursor(binary=True) as cursor:
            for begin in range(0, len(left), KEYS):
                some = left[begin : begin + KEYS]
                rows = cursor.execute("SELECT key, checksum FROM pintgn_keys WHERE key = ANY(%s)", (some,))
                found.update({hashes[key]: checksum for key, checksum in rows})
        return found

    def read(self, after: int = 0) -> Iterator[tuple[int, EventBatch]]:
        while after < self.total:
            rows = self._chunk(after)
            if not rows or rows[0][0] != after + 1 or rows[-1][0] != after + len(rows):
                raise BadFile(f"events after {after:,} are missing from {self.name}. {BACKUP}")
            try:
                batches = [(part[0][0], batch_of(part, self.width, self.dtype)) for part in uniform(rows)]
            except Damaged as error:
                raise BadFile(f"{self.name} is damaged: {error}. {BACKUP}") from error
            yield from batches
            after = rows[-1][0]
            self.total = max(self.total, after)  # the writer may have gone on since
            if self._newest is None or after > self._newest[0]:
                self._newest = (after, rows[-1][-1])

    def _chunk(self, after: int) -> list[tuple]:
        with self.session() as db, db.transaction(), db.cursor(binary=True) as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            dropped, rewound = cursor.execute("SELECT dropped, rewound FROM pintgn_log").fetchone()
            if rewound != self._rewound:
                raise self._was_rewound(rewound)
            if dropped > after:
                raise StoreGone(
                    f"the events in {self.name} up to {dropped:,} were dropped before they were read here. Restart the "
                    "service."
                )
            rows = cursor.execute(
                f"SELECT {COLUMNS} FROM pintgn_events WHERE number > %s ORDER BY number LIMIT {CHUNK}", (after,)
            ).fetchall()
        escaped = any("\\" in text for row in rows for text in (row[1], row[2], row[6]) if isinstance(text, str))
        return [unescaped(row) for row in rows] if escaped else rows

    def newest_until(self, t: Any) -> int:
        with self.session() as db:
            return db.execute("SELECT max(number) FROM pintgn_events WHERE t <= %s", (t,)).fetchone()[0] or 0

    # -- losses, and the way back --------------------------------------------------------------------------------------

    def know(self, number: int) -> None:
        if number > self.total:
            self.refresh()  # the writer may have gone on since
        if number > self.total:
            raise BadFile(f"{self.name} ends at event {self.total:,}, but a snapshot has seen {number:,}. {BACKUP}")

    def accept_loss(self) -> list[Gap]:
        return []  # nothing is ever missing: what is damaged is refused

    def time_before(self, gap: Gap) -> Any:
        raise NotImplementedError

    def undo(self, first: int) -> tuple[int, str]:
        aside = f"pintgn_undone_{time.strftime('%Y%m%d_%H%M%S')}_{first}"
        with self.changing(f"{self.name} was not rewound") as db:
            db.execute(f"CREATE TABLE {aside} AS SELECT * FROM pintgn_events WHERE number >= {first:d}")
            count = db.execute("DELETE FROM pintgn_events WHERE number >= %s", (first,)).rowcount
            db.execute("DELETE FROM pintgn_keys WHERE number >= %s", (first,))
            db.execute("UPDATE pintgn_log SET total = %s, rewound = rewound + 1", (first - 1,))
        self.total, self._rewound, self._newest = first - 1, self._rewound + 1, None
        return count, f"the table {aside}"

    # -- size ----------------------------------------------------------------------------------------------------------

    def drop(self, upto: int) -> int:
        upto = min(upto, self.total)
        if upto <= self._dropped:
            return 0
        with self.changing(f"old events were not dropped from {self.name}") as db:
            gone = db.execute("DELETE FROM pintgn_events WHERE number <= %s", (upto,)).rowcount
            db.execute("UPDATE pintgn_log SET dropped = %s", (upto,))
        self._dropped = upto
        return gone

    def shrink(self) -> None:
        try:
            with self.session() as db:
                db.execute("VACUUM FULL pintgn_events")
        except psycopg.Error as error:
            raise StoreFull(f"{self.name} was not made smaller: {first_line(error)}. It is whole.") from None
        self._measured = -MEASURED
        self.refresh()

    @contextlib.contextmanager
    def changing(self, failed: str) -> Iterator[Any]:
        """A transaction of the writer, besides appending."""
        try:
            with self._writing() as db:
                if db.execute("UPDATE pintgn_log SET epoch = epoch WHERE epoch = %s", (self.epoch,)).rowcount != 1:
                    self._fenced()
                yield db
        except psycopg.Error as error:
            raise StoreFull(f"{failed}: {first_line(error)}.") from error
