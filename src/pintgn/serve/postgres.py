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
from pintgn.serve.durability import COLUMNS, hashed, rows_of
from pintgn.serve.event_store import Store, StoreFull, StoreGone, StoreLost, check_no_leftovers
from pintgn.serve.postgres_session import connected, copied, escaped, first_line, psycopg, unescaped

FORMAT = 3
"""2 since features may have eight bytes each, as in SQLite; 3 since events that wait belong to it. Older ones are read,
and become 3 with their next writer."""
HELD = """
CREATE TABLE IF NOT EXISTS pintgn_held (
    number bigint PRIMARY KEY, src {id}, dst {id}, t {time} NOT NULL, op smallint, features bytea, key text,
    checksum bigint NOT NULL
)
"""
TABLES = """
CREATE TABLE pintgn_log (
    single boolean PRIMARY KEY DEFAULT true CHECK (single), format integer NOT NULL, log text NOT NULL,
    total bigint NOT NULL DEFAULT 0, dropped bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0, rewound bigint NOT NULL DEFAULT 0, lost bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE pintgn_events (
    number bigint PRIMARY KEY, src {id}, dst {id}, t {time} NOT NULL, op smallint, features bytea, key text,
    checksum bigint NOT NULL
);
{held};
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
LOCK = 0x70696E74
"""Half of the advisory lock's number; the other is the table's."""
CHUNK = 10_000
"""Events read at once."""
KEYS = 5_000
"""Keys looked up at once."""
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

    def __init__(self, address: str, fingerprint: str, width: int, dtype: np.dtype, text: bool, follow: bool = False):
        self.address, self.name, self.fingerprint = address, shown_address(address), fingerprint
        self.width, self.dtype, self.text = width, np.dtype(dtype), text
        self.reports, self.writes, self.follow = [], False, follow
        self.total = self.waiting = self.acknowledged = self.missing = 0
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
            format, owner = db.execute("SELECT format, log FROM pintgn_log").fetchone()
            check_format(format, FORMAT, f"the store in {self.name}", "Export it with that one.", oldest=1)
            if format < FORMAT:  # a writer of an older one goes on meanwhile
                db.execute("ALTER TABLE pintgn_log ADD COLUMN IF NOT EXISTS lost bigint NOT NULL DEFAULT 0")
                ids, times = self.kinds
                db.execute(HELD.format(id=ids, time=times))
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
                    db.execute(TABLES.format(id=ids, time=times, held=HELD.format(id=ids, time=times)))
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
        """Become the writer, if nobody is; `total` then counts all that others wrote."""
        with self.session() as db:
            if not db.execute("SELECT pg_try_advisory_lock(%s, %s)", (LOCK, self._table)).fetchone()[0]:
                return False
            if db.execute("SELECT format FROM pintgn_log").fetchone()[0] < FORMAT:
                for table in ("pintgn_held", "pintgn_late"):
                    if db.execute("SELECT to_regclass(%s)", (table,)).fetchone()[0]:
                        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
                        check_no_leftovers(f"{table} in {self.name}", count)
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
            asked = "SELECT total, dropped, rewound, (SELECT count(*) FROM pintgn_held) FROM pintgn_log"
            total, dropped, rewound, self.waiting = db.execute(asked).fetchone()
            if first:
                asked = "SELECT total - dropped - lost - (SELECT count(*) FROM pintgn_events) FROM pintgn_log"
                self.acknowledged, self.missing = total + self.waiting, max(0, db.execute(asked).fetchone()[0])
            if time.monotonic() - self._measured > MEASURED:
                self._measured = time.monotonic()
                tables = "pg_total_relation_size('pintgn_events') + pg_total_relation_size('pintgn_keys')"
                self._nbytes = db.execute(f"SELECT {tables}").fetchone()[0]
        if not first and rewound != self._rewound:
            raise self._was_rewound()
        self.total, self._dropped, self._rewound = total, dropped, rewound

    def _was_rewound(self) -> StoreGone:
        return StoreGone(f"{self.name} was rewound by an operator. Restart the service, which replays what is left.")

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
        with self.session() as db:
            if db.execute("SELECT to_regclass('pintgn_keyed')").fetchone()[0] is None:
                return False
            return bool(db.execute("SELECT count(*) FROM pintgn_keyed").fetchone()[0])

    def set_keyed(self, keyed: bool) -> None:
        with self.changing(f"that there are keys could not be written to {self.name}") as db:
            db.execute("CREATE TABLE IF NOT EXISTS pintgn_keyed (single boolean PRIMARY KEY CHECK (single))")
            db.execute("DELETE FROM pintgn_keyed")
            if keyed:
                db.execute("INSERT INTO pintgn_keyed VALUES (true)")

    @property
    def nbytes(self) -> int:
        return self._nbytes

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(
        self,
        batch: EventBatch | None,
        hold: tuple[int, EventBatch] | None = None,
        release: Sequence[int] = (),
    ) -> int:
        rows = [] if batch is None else rows_of(batch, range(self.total + 1, self.total + 1 + len(batch)))
        last = self.total + len(rows)
        try:
            with self._writing() as db:
                ours = (last, self.epoch, self.total)
                if db.execute("UPDATE pintgn_log SET total = %s WHERE epoch = %s AND total = %s", ours).rowcount != 1:
                    self._fenced()
                self._copy(db, "pintgn_events", rows)
                named = [(hashed(row[6]), row[0], row[7] ^ row[0]) for row in rows if row[6] is not None]
                if named:
                    copied(db, "pintgn_keys", ["bytea", "int8", "int8"], named)
                if hold is not None:
                    held = rows_of(hold[1], range(hold[0], hold[0] + len(hold[1])))
                    self._copy(db, "pintgn_held", held)
                if release:
                    db.execute("DELETE FROM pintgn_held WHERE number = ANY(%s)", (list(release),))
                db.execute("SELECT pg_notify(%s, %s)", (self.channel, str(last)))
        except psycopg.errors.UniqueViolation:  # somebody else has used these numbers or keys
            self._fenced()
        except psycopg.Error as error:
            raise StoreFull(
                f"the events could not be written to {self.name}: {first_line(error)}. Nothing of them was kept. "
                "Look at the database, then send them again."
            ) from error
        self.total = last
        self.waiting += (0 if hold is None else len(hold[1])) - len(release)
        if rows:
            self._newest = (last, rows[-1][7])
        return last

    def _copy(self, db: Any, table: str, rows: list[tuple]) -> None:
        if rows:
            ids, times = self.kinds
            number, src, dst, t, op, features, keys, sums = map(list, zip(*rows, strict=True))
            ends = (escaped(src), escaped(dst)) if self.text else (src, dst)
            types = ["int8", ids, ids, times, "int2", "bytea", "text", "int8"]
            copied(db, table, types, zip(number, *ends, t, op, features, escaped(keys), sums, strict=True))

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
            asked = f"SELECT {COLUMNS} FROM pintgn_{table} WHERE number > %s ORDER BY number LIMIT {CHUNK}"
            rows = cursor.execute(asked, (after,)).fetchall()
        if table == "events" and rows and (self._newest is None or rows[-1][0] > self._newest[0]):
            self._newest = (rows[-1][0], rows[-1][-1])
        escaped = any("\\" in text for row in rows for text in (row[1], row[2], row[6]) if isinstance(text, str))
        return [unescaped(row) for row in rows] if escaped else rows

    def newest_until(self, t: Any) -> int:
        with self.session() as db:
            return db.execute("SELECT max(number) FROM pintgn_events WHERE t <= %s", (t,)).fetchone()[0] or 0

    # -- losses, and taking events back --------------------------------------------------------------------------------

    def accept_loss(self, damaged: list[int], base: int) -> None:
        with self.changing(f"the loss could not be written down in {self.name}") as db:
            if damaged:
                self._set_aside(db, "damaged", damaged[0], {"pintgn_events": ("number = ANY(%s)", damaged)})
            kept = "SELECT 1 FROM pintgn_events e WHERE e.number = k.number"
            asked = f"DELETE FROM pintgn_keys k WHERE number > %s AND NOT EXISTS ({kept})"
            db.execute(asked, (max(self._dropped, base),))  # lost events can be sent again
            dropped = max(self._dropped, base)
            db.execute("DELETE FROM pintgn_events WHERE number <= %s", (dropped,))
            count, newest = db.execute("SELECT count(*), max(number) FROM pintgn_events").fetchone()
            total = max(newest or 0, dropped)
            asked = "UPDATE pintgn_log SET total = %s, dropped = %s, lost = %s, rewound = rewound + 1"
            db.execute(asked, (total, dropped, total - dropped - count))
        self._newest = None
        self.refresh(first=True)

    def undo(self, first: int, t: Any) -> tuple[int, str]:
        chosen = {"pintgn_events": ("number >= %s", first), "pintgn_held": ("t > %s", t)}
        with self.changing(f"{self.name} was not rewound") as db:
            found = self._set_aside(db, "undone", first, chosen)
            db.execute("DELETE FROM pintgn_keys WHERE number >= %s", (first,))
            (left,) = db.execute("SELECT count(*) FROM pintgn_events").fetchone()
            asked = "UPDATE pintgn_log SET total = %s, lost = %s, rewound = rewound + 1"
            db.execute(asked, (first - 1, first - 1 - self._dropped - left))
        self._newest = None
        self.refresh(first=True)
        return found

    def _set_aside(self, db: Any, kind: str, first: int, chosen: dict[str, tuple[str, Any]]) -> tuple[int, str]:
        """Move rows of tables to a table of their own; returns how many, and its name."""
        aside, count = f"pintgn_{kind}_{time.strftime('%Y%m%d_%H%M%S')}_{first}", 0
        db.execute(f"CREATE TABLE {aside} (LIKE pintgn_held)")
        for table, (condition, value) in chosen.items():
            db.execute(f"INSERT INTO {aside} SELECT {COLUMNS} FROM {table} WHERE {condition}", (value,))
            count += db.execute(f"DELETE FROM {table} WHERE {condition}", (value,)).rowcount
        return count, f"the table {aside}"

    # -- size ----------------------------------------------------------------------------------------------------------

    def drop(self, upto: int) -> int:
        upto = min(upto, self.total)
        if upto <= self._dropped:
            return 0
        with self.changing(f"old events were not dropped from {self.name}") as db:
            gone = db.execute("DELETE FROM pintgn_events WHERE number <= %s", (upto,)).rowcount
            missed = upto - self._dropped - gone
            db.execute("UPDATE pintgn_log SET dropped = %s, lost = lost - %s", (upto, missed))
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
