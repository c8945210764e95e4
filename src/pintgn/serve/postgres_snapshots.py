"""Snapshots in the database of a store, where every replica finds them; checked like those in a folder."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile
from pintgn.learn.run import Run
from pintgn.live.snapshot import Snapshot
from pintgn.serve.postgres import PostgresStore
from pintgn.serve.postgres_session import connected, copied, psycopg
from pintgn.serve.snapshots import KEEP, MANIFEST_FILE, SnapshotFolder

PIECE = 1 << 20
"""Bytes of a file in one row."""
PRUNE = """
DELETE FROM pintgn_snapshots WHERE run = %s AND (weights <> %s OR number NOT IN (
    SELECT DISTINCT number FROM pintgn_snapshots WHERE run = %s AND weights = %s ORDER BY number DESC LIMIT %s
))
"""
MINE = "run = %s AND weights = %s AND number = %s"


class PostgresSnapshots(SnapshotFolder):
    """The snapshots of one run in the database of a store. On disk they are only while they are written or read."""

    def __init__(self, store: PostgresStore, run: Run):
        super().__init__("", run)
        self.store, self.mine = store, (self.fingerprint, self.weights)

    def of(self, run: Run) -> PostgresSnapshots:
        return PostgresSnapshots(self.store, run)

    def path(self, number: int) -> Path:
        return Path(f"{number:012d}")  # a name to show

    @contextlib.contextmanager
    def _session(self, doing: str) -> Iterator[Any]:
        """A session of its own: a large snapshot must not keep events waiting."""
        try:
            with connected(self.store.address) as db, db.transaction():
                yield db
        except psycopg.Error as error:
            raise BadFile(f"{doing} in {self.store.name}: {' '.join(str(error).split())}.") from error

    def numbers(self) -> list[int]:
        statement = "SELECT DISTINCT number FROM pintgn_snapshots WHERE run = %s AND weights = %s ORDER BY number DESC"
        with self._session("no snapshots are found") as db:
            return [number for (number,) in db.execute(statement, self.mine)]

    def oldest(self) -> int:
        return min(self.numbers(), default=0)

    def write(self, captured: Snapshot) -> int:
        mine = (*self.mine, captured.total)
        with tempfile.TemporaryDirectory(prefix="pintgn-") as scratch:
            part = Path(scratch) / "snapshot"
            try:
                size = self._fill(part, captured)
            except OSError as error:
                raise BadFile(f"cannot write a snapshot to {scratch}: {error.strerror or error}.") from error
            with self._session("the snapshot could not be kept") as db:
                db.execute(f"DELETE FROM pintgn_snapshots WHERE {MINE}", mine)
                rows = ((*mine, *piece) for piece in _pieces(part))
                copied(db, "pintgn_snapshots", ["text", "text", "int8", "text", "int4", "bytea"], rows)
                db.execute(PRUNE, (*self.mine, *self.mine, KEEP))
                # last, and briefly: the writer changes the same row with every commit
                ours = db.execute("SELECT 1 FROM pintgn_log WHERE epoch = %s FOR SHARE", (self.store.epoch,))
                if ours.fetchone() is None:
                    raise BadFile(f"the snapshot was not kept: another process writes to {self.store.name} now.")
        return size

    def valid(self, wanted: Callable[[int], bool] = lambda number: True) -> Iterator[tuple[int, Path]]:
        """Snapshots that are whole, newest first; each is on the disk until the next is asked for."""
        for number in filter(wanted, self.numbers()):
            with tempfile.TemporaryDirectory(prefix="pintgn-") as scratch:
                folder = Path(scratch) / "snapshot"
                self._fetch(number, folder)
                trouble = self._trouble(number, folder)
                if trouble is None:
                    yield number, folder
                else:
                    self.discard(number, trouble)

    def _fetch(self, number: int, folder: Path) -> None:
        """Nothing of one that the writer has dropped meanwhile."""
        folder.mkdir()
        statement = f"SELECT path, data FROM pintgn_snapshots WHERE {MINE} ORDER BY path, part"
        with self._session("a snapshot cannot be read") as db, db.cursor("parts", binary=True) as cursor:
            cursor.itersize = 16
            for path, data in cursor.execute(statement, (*self.mine, number)):
                target = folder / path
                if not target.resolve().is_relative_to(folder.resolve()):
                    raise BadFile(f"the snapshot {number} in {self.store.name} names {path!r}.")
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "ab") as file:
                    file.write(data)

    def clock(self, number: int) -> Any:
        statement = f"SELECT data FROM pintgn_snapshots WHERE {MINE} AND path = %s ORDER BY part"
        with self._session("a snapshot cannot be read") as db:
            found = db.execute(statement, (*self.mine, number, MANIFEST_FILE)).fetchall()
        return json.loads(b"".join(data for (data,) in found)).get("clock") if found else None

    def prune(self) -> None:
        """Done with every write."""

    def forget_after(self, number: int) -> list[int]:
        with self._session("snapshots could not be dropped") as db:
            gone = db.execute("DELETE FROM pintgn_snapshots WHERE number > %s RETURNING number", (number,))
            return sorted({number for (number,) in gone})


def _pieces(folder: Path) -> Iterator[tuple[str, int, bytes]]:
    """Every file of a snapshot in pieces; an empty one in one."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                number, data = 0, file.read(PIECE)
                while data or not number:
                    yield path.relative_to(folder).as_posix(), number, data
                    number, data = number + 1, file.read(PIECE)
