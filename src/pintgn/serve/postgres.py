"""Events in PostgreSQL: append-only, numbered without gaps by the one writer, read by any number of processes.

Whoever holds an advisory lock is the writer, and writes by the session that holds it alone: when that ends, the lock
and whatever had not been committed go with it. Each writer also has an epoch of its own, which every transaction
checks. So a process that was taken for dead can never commit again, and a commit whose answer did not arrive is never
acknowledged.

PostgreSQL looks after its own files (checksums, backups); what is read here is checked event by event all the same, and
a store that holds fewer events than it has acknowledged is refused.
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
from pintgn.serve import event_store
from pintgn.serve.event_store import COLUMNS, Store, StoreFull, StoreGone, StoreLost, checksums, chunks, columns, hashed
from pintgn.serve.postgres_session import connected, copied, escaped, first_line, psycopg, unescaped

FORMAT = 4
ROW = """
    number bigint PRIMARY KEY, src {id}, dst {id}, t {time} NOT NULL, op smallint, features bytea, key text,
    checksum bigint NOT NULL
"""
TABLES = f"""
CREATE TABLE pintgn_log (
    single boolean PRIMARY KEY DEFAULT true CHECK (single), format integer NOT NULL, log text NOT NULL,
    total bigint NOT NULL DEFAULT 0, dropped bigint NOT NULL DEFAULT 0, epoch bigint NOT NULL DEFAULT 0,
    rewound bigint NOT NULL DEFAULT 0, lost bigint NOT NULL DEFAULT 0, keyed bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE pintgn_events ({ROW});
CREATE TABLE pintgn_held ({ROW});
CREATE TABLE pintgn_keys (key bytea PRIMARY KEY, number bigint NOT NULL, checksum bigint NOT NULL);
CREATE TABLE pintgn_models (version bigint NOT NULL, facts text NOT NULL);
INSERT INTO pintgn_models VALUES (0, '');
CREATE TABLE pintgn_snapshots (
    run text, weights text, number bigint, path text, part integer, data bytea NOT NULL,
    PRIMARY KEY (run, weights, number, path, part)
);
"""
REMEDY = "Export it with that one (pintgn serve RUN --export all.parquet)."
LOCK = 0x70696E74
"""Half of the advisory lock's number; the other is the table's."""
MEASURED = 60.0
"""Seconds between two looks at how large the tables are."""


class PostgresStore(Store):
    """A store in a database (or in one of its schemas), of the process that holds its lock.

    Args:
        address: postgresql://…, with whatever libpq understands.
        fingerprint: `log_fingerprint` of the log that it continues; a store of another log is refused.
        width: feature columns of an event, `schema.width`.
        dtype: type of the times.
        text: whether ids are texts; whole numbers otherwise.
        follow: only read; the store must be there.
    """

    shared: ClassVar[bool] = True
    prefix: ClassVar[str] = "pintgn_"

    def __init__(self, address: str, fingerprint: str, width: int, dtype: np.dtype, text: bool, follow: bool = False):
        self.address, self.name, self.fingerprint = address, shown_address(address), fingerprint
        self.width, self.dtype, self.text = width, np.dtype(dtype), text
        self.reports, self.writes, self.follow = [], False, follow
        self.total = self.dropped = self.waiting = self.acknowledged = self.missing = 0
        self.epoch = -1
        self._rewound = self._nbytes = 0
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
            format, owner = db.execute("SELECT format, log FROM pintgn_log").fetchone()
            check_format(format, FORMAT, f"the store in {self.name}", REMEDY)
            if owner != self.fingerprint:
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
                    db.execute("INSERT INTO pintgn_log (format, log) VALUES (%s, %s)", (FORMAT, self.fingerprint))
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
        """Become the writer if there is none; `total` then counts all events of others."""
        with self.session() as db:
            if not db.execute("SELECT pg_try_advisory_lock(%s, %s)", (LOCK, self._table)).fetchone()[0]:
                return False
            db.execute("UNLISTEN *")
            (self.epoch,) = db.execute("UPDATE pintgn_log SET epoch = epoch + 1 RETURNING epoch").fetchone()
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
        """The process that writes."""
        with self.session() as db:
            found = db.execute(
                "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = "
                "'advisory' AND l.classid::int = %s AND l.objid::int = %s AND l.granted",
                (LOCK, self._table),
            ).fetchone()
        return found[0] if found and found[0] else "another process"

    def refresh(self, first: bool = False) -> None:
        """Read how far the store has come."""
        with self.session() as db:
            statement = "SELECT total, dropped, rewound, (SELECT count(*) FROM pintgn_held) FROM pintgn_log"
            total, dropped, rewound, self.waiting = db.execute(statement).fetchone()
            if first:
                statement = "SELECT total - dropped - lost - (SELECT count(*) FROM pintgn_events) FROM pintgn_log"
                self.acknowledged, self.missing = total + self.waiting, max(0, db.execute(statement).fetchone()[0])
            if time.monotonic() - self._measured > MEASURED:
                self._measured = time.monotonic()
                tables = "pg_total_relation_size('pintgn_events') + pg_total_relation_size('pintgn_keys')"
                self._nbytes = db.execute(f"SELECT {tables}").fetchone()[0]
        if not first and rewound != self._rewound:
            raise self._was_rewound()
        self.total, self.dropped, self._rewound = total, dropped, rewound

    def _was_rewound(self) -> StoreGone:
        return StoreGone(f"{self.name} was rewound by an operator. Restart the service, which replays what is left.")

    def _check_newest(self) -> None:
        """Refuse a database without events that this process has seen: an old backup, or another database in its
        place."""
        if self._newest is None:
            return
        number, checksum = self._newest
        with self.session() as db:
            row = db.execute("SELECT checksum FROM pintgn_events WHERE number = %s", (number,)).fetchone()
        if self.total < number or (row[0] != checksum if row else number > self.dropped):
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

    @property
    def nbytes(self) -> int:
        return self._nbytes

    # -- statements and transactions -----------------------------------------------------------------------------------

    def ask(self, statement: str, values: Sequence[Any] = ()) -> Any:
        with self.session() as db:
            return db.execute(statement.replace("?", "%s"), values)

    def fact(self, name: str) -> int:
        return self.ask(f"SELECT {name} FROM pintgn_log").fetchone()[0]

    def set_fact(self, name: str, value: int) -> None:
        self.ask(f"UPDATE pintgn_log SET {name} = ?", [value])

    @contextlib.contextmanager
    def changing(self, failed: str, more: int = 0) -> Iterator[Any]:
        if not self.writes:
            raise StoreLost(f"another process writes to {self.name}.")
        try:
            with self.session() as db, db.transaction():
                ours = (self.total + more, self.epoch, self.total)
                if db.execute("UPDATE pintgn_log SET total = %s WHERE epoch = %s AND total = %s", ours).rowcount != 1:
                    self._fenced()
                yield db
                db.execute("SELECT pg_notify(%s, '')", (self.channel,))
        except psycopg.errors.UniqueViolation:  # somebody else has used these numbers or keys
            self._fenced()
        except psycopg.Error as error:
            raise StoreFull(
                f"{failed}: {first_line(error)}. Nothing of them was kept. Look at the database, then try again."
            ) from error

    def insert(self, table: str, rows: list[tuple]) -> None:
        if not rows:
            return
        ids, times = self.kinds
        number, src, dst, t, op, features, keys, sums = map(list, zip(*rows, strict=True))
        ends = (escaped(src), escaped(dst)) if self.text else (src, dst)
        types = ["int8", ids, ids, times, "int2", "bytea", "text", "int8"]
        rows_now = zip(number, *ends, t, op, features, escaped(keys), sums, strict=True)
        copied(self.db, f"pintgn_{table}", types, rows_now)
        if table == "events":
            named = [(hashed(row[6]), row[0], row[7] ^ row[0]) for row in rows if row[6] is not None]
            if named:
                copied(self.db, "pintgn_keys", ["bytea", "int8", "int8"], named)

    def append(
        self, batch: EventBatch | None, hold: tuple[int, EventBatch] | None = None, release: Sequence[int] = ()
    ) -> int:
        last = super().append(batch, hold, release)
        if batch is not None:
            self._newest = last, checksums(columns(batch.take([len(batch) - 1])))[0] ^ last
        return last

    @property
    def kinds(self) -> tuple[str, str]:
        """The types of ids and times."""
        return "text" if self.text else "int8", "float8" if self.dtype.kind == "f" else "int8"

    # -- reading -------------------------------------------------------------------------------------------------------

    def known(self, keys: Iterable[str]) -> dict[str, int]:
        hashes = {hashed(key): key for key in keys}
        found = {}
        with self.session() as db, db.cursor(binary=True) as cursor:
            for some in chunks(hashes):
                rows = cursor.execute("SELECT key, checksum FROM pintgn_keys WHERE key = ANY(%s)", (some,))
                found.update({hashes[key]: checksum for key, checksum in rows})
        return found

    def rows(self, after: int, table: str = "events") -> list[tuple]:
        with self.session() as db, db.transaction(), db.cursor(binary=True) as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            dropped, rewound = cursor.execute("SELECT dropped, rewound FROM pintgn_log").fetchone()
            if rewound != self._rewound:
                raise self._was_rewound()
            if dropped > after and table == "events":
                raise StoreGone(
                    f"the events in {self.name} up to {dropped:,} were dropped before they were read here. Restart the "
                    "service."
                )
            statement = (
                f"SELECT {COLUMNS} FROM pintgn_{table} WHERE number > %s ORDER BY number LIMIT {event_store.CHUNK}"
            )
            rows = cursor.execute(statement, (after,)).fetchall()
        if table == "events" and rows and (self._newest is None or rows[-1][0] > self._newest[0]):
            self._newest = (rows[-1][0], rows[-1][-1])
        escaped = any("\\" in text for row in rows for text in (row[1], row[2], row[6]) if isinstance(text, str))
        return [unescaped(row) for row in rows] if escaped else rows

    # -- losses, taking events back, size ------------------------------------------------------------------------------

    def end_at(self, total: int) -> None:
        """Others see it by `rewound`. What was lost can be sent again."""
        kept = "SELECT 1 FROM pintgn_events e WHERE e.number = k.number"
        self.ask(f"DELETE FROM pintgn_keys k WHERE number > (SELECT dropped FROM pintgn_log) AND NOT EXISTS ({kept})")
        self.ask("UPDATE pintgn_log SET total = ?, rewound = rewound + 1", [total])
        self._newest, self._rewound = None, self._rewound + 1

    def forget(self, upto: int) -> int:
        return self.ask("DELETE FROM pintgn_events WHERE number <= ?", [upto]).rowcount
