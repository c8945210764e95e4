"""Events that wait beside a store in PostgreSQL: a table of their own, written by the store's own session and epoch."""

from __future__ import annotations

from collections.abc import Iterable

from pintgn.errors import BadFile
from pintgn.serve.postgres import BACKUP, PostgresStore
from pintgn.serve.postgres_session import copied, escaped, unescaped
from pintgn.serve.rows import COLUMNS
from pintgn.serve.waiting import CHUNK, WaitingRows

TABLE = """
CREATE TABLE IF NOT EXISTS {name} (
    number bigint PRIMARY KEY, src {id}, dst {id}, t {time} NOT NULL, op smallint, features bytea, key text,
    checksum bigint NOT NULL
)
"""


class WaitingTable(WaitingRows):
    """A table in the database of a store; only the store's writer has it."""

    def __init__(self, store: PostgresStore, name: str):
        self.store, self.name = store, name

    @classmethod
    def of(cls, store: PostgresStore, kind: str, make: bool) -> WaitingTable | None:
        """The table of a kind of events; made where it is not there and is to be."""
        found = cls(store, f"pintgn_{kind}")
        if store.count(found.name) is None:
            if not make:
                return None
            ids, times = store.kinds
            with store.changing(f"{found.name} could not be made in {store.name}") as db:
                db.execute(TABLE.format(name=found.name, id=ids, time=times))
        return found

    def read(self, after: int) -> list[tuple]:
        asked = f"SELECT {COLUMNS} FROM {self.name} WHERE number > %s ORDER BY number LIMIT {CHUNK}"
        with self.store.session() as db, db.cursor(binary=True) as cursor:
            return [unescaped(row) for row in cursor.execute(asked, (after,)).fetchall()]

    def change(self, gone: list[int], more: Iterable[tuple]) -> None:
        ids, times = self.store.kinds
        failed = f"the events could not be written to {self.store.name}, and nothing of them was kept"
        with self.store.changing(failed) as db:
            if gone:
                db.execute(f"DELETE FROM {self.name} WHERE number = ANY(%s)", (gone,))
            if rows := list(more):
                number, src, dst, t, op, features, keys, sums = map(list, zip(*rows, strict=True))
                ends = (escaped(src), escaped(dst)) if self.store.text else (src, dst)
                types = ["int8", ids, ids, times, "int2", "bytea", "text", "int8"]
                copied(db, self.name, types, zip(number, *ends, t, op, features, escaped(keys), sums, strict=True))

    def set_aside(self, stamp: str) -> None:
        with self.store.changing(f"{self.name} was not copied") as db:
            db.execute(f"CREATE TABLE pintgn_undone_{stamp.replace('-', '_')}_{self.name} AS TABLE {self.name}")

    def damaged(self, why: object) -> BadFile:
        return BadFile(f"{self.name} in {self.store.name} is damaged: {why}. {BACKUP}")
