"""Opening a store's database, and making a new one of what is intact when it turns out to be damaged."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pintgn.errors import BadFile, BadInput
from pintgn.facts import check_format
from pintgn.files import rename
from pintgn.serve.rows import FILE, FORMAT, INSERT, TABLES, Damaged, Gap, batch_of, connected
from pintgn.serve.salvage import salvaged, salvaged_keys

if TYPE_CHECKING:
    from pintgn.serve.sqlite import SqliteStore

DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""SQLite's codes for a file that is not what it was; others are a full disk, a lock, a right that is missing."""
SHOWN = 20
"""Ranges of numbers, and keys, that a report names; /health has all of them."""


def open_database(store: SqliteStore) -> None:
    """Open the database of a store, checked against everything else that says what should be in it."""
    path, log = store.path, Path(f"{store.path}-wal")
    if (begun := _unfinished(store)) is not None:  # a repair was cut short: begin again, with what it began with
        return _replace(store, begun)
    if not size_of(path) and not size_of(log) and _nothing_known(store):
        return _make(store)
    kept = store.folder / f".{FILE}-wal.kept"
    try:
        if size_of(log):  # SQLite throws away what it cannot use
            shutil.copyfile(log, kept)
        trouble = _trouble(store)
        if trouble is not None:
            repair(store, trouble, kept if kept.exists() else None)
    except OSError as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"cannot open {path}: {error.strerror or error}. Free space on the disk.") from error
    finally:
        kept.unlink(missing_ok=True)


def _nothing_known(store: SqliteStore) -> bool:
    """Whether nobody says that there ever was an event."""
    return not store.seen and (store.mark.known is None or store.mark.known.total == 0)


def _make(store: SqliteStore) -> None:
    """A new, empty database."""
    try:
        store.db = connected(store.path)
        store.db.executescript(f"BEGIN; {TABLES}")
        store.set_fact("log", store.log)
        store.set_fact("format", FORMAT)
        store.db.execute("COMMIT")
    except sqlite3.Error as error:
        raise BadFile(f"cannot write {store.path}: {error}.") from error


def _trouble(store: SqliteStore) -> str | None:
    """What is wrong with the file, or None; opens it."""
    if not size_of(store.path):
        return f"{store.path.name} is missing or empty"
    try:
        store.db = connected(store.path)
        return _contradiction(store)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & 0xFF not in DAMAGE and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            raise BadFile(f"cannot open {store.path}: {error}.") from error
        return f"{store.path.name} is damaged ({error})"


def _contradiction(store: SqliteStore) -> str | None:
    """Where the file contradicts itself, the mark or the snapshots."""
    db, mark, name = store.db, store.mark.known, store.path.name
    if _nothing_known(store) and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        db.close()
        _make(store)  # nobody got further than this
        return None
    facts = dict(db.execute("SELECT name, value FROM facts"))
    format, dropped = facts.get("format", ""), facts.get("dropped", "0")
    if not format.isdecimal() or not dropped.isdecimal():
        return f"{name} is damaged (facts that are no numbers)"
    again = "Export it with that one (pintgn serve RUN --export all.parquet), or start an empty store with --store."
    check_format(int(format), FORMAT, f"the store in {store.name}", again, oldest=2)
    of_run = int(format) == 2
    owner = facts.get("run" if of_run else "log")
    if owner != (store.run if of_run else store.log):
        if mark is None and owner:
            raise BadInput(
                f"the store in {store.name} belongs to another {'run' if of_run else 'log'}. Serve "
                f"{'that run' if of_run else 'a run of that log'}, or choose another folder with --store."
            )
        return f"{name} does not say which log it continues"
    found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        return f"{name} is damaged ({' '.join(str(found).split())[:200]})"
    count, newest = db.execute("SELECT count(*), max(number) FROM events").fetchone()
    gaps, begin = store.gaps, int(dropped)
    newest = max(newest or 0, begin)
    known = sum(max(0, min(gap.last, newest) - max(gap.first, begin + 1) + 1) for gap in gaps)
    if count != newest - begin - known or (mark is not None and begin < mark.dropped):
        return f"{name} has lost rows"
    least = max(store.seen, 0 if mark is None else mark.total)
    if least > max(newest, *(gap.last for gap in gaps), 0):
        return f"{name} ends at event {newest:,}, but {least:,} were acknowledged"
    with store.transaction():
        if int(format) < FORMAT:
            store.set_fact("format", FORMAT)
        if mark is None and (newest or store.seen):
            _insert(db, [Gap(newest + 1, newest)])
        if of_run:
            store.set_fact("log", store.log)
            db.execute("DELETE FROM facts WHERE name = 'run'")
    return None


# -- repair ------------------------------------------------------------------------------------------------------------


def repair(store: SqliteStore, why: str, log: Path | None = None) -> None:
    """Keep the damaged file under another name, and go on with a new one that holds every intact event.

    What is missing is written down there as lost, to be accepted or sent again.

    Args:
        log: the write-ahead log as it was before SQLite looked at it.
    """
    aside = f"damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.db"
    for source, target in ((store.path, aside), (log or Path(f"{store.path}-wal"), f"{aside}-wal")):
        if size_of(source):  # copied while it is open: closing would write into the damaged file
            shutil.copyfile(source, store.folder / target)
    begun = {"file": aside, "why": why, **_readable(store)}
    store.folder.write_json("repairing", begun)
    _replace(store, begun)


def _replace(store: SqliteStore, begun: dict[str, Any]) -> None:
    store.disconnect()
    fresh = store.folder / f".{FILE}.new"
    for leftover in store.folder.path.glob(f".{FILE}.new*"):
        leftover.unlink()
    try:
        with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as made:
            made.executescript(f"PRAGMA synchronous = FULL; BEGIN; {TABLES}")
            gaps = _filled(store, made, begun)
            made.execute("COMMIT")
    except sqlite3.Error as error:
        raise BadFile(
            f"{begun['why']}, and could not be repaired: {error}. Free space on the disk, then start again."
        ) from error
    for suffix in ("-wal", "-shm"):
        Path(f"{store.path}{suffix}").unlink(missing_ok=True)
    rename(fresh, store.path)
    store.db = connected(store.path)
    (store.folder / "repairing").unlink()
    done = "All other events are in place." if gaps else "Every acknowledged event was recovered; nothing is missing."
    copy = f" The damaged file is kept as {begun['file']}." if (store.folder / begun["file"]).exists() else ""
    store.reports.append(f"{begun['why']}. {done}{copy}")


def _unfinished(store: SqliteStore) -> dict[str, Any] | None:
    """What a repair that was interrupted had begun with."""
    try:
        begun = json.loads((store.folder / "repairing").read_text())
        return begun if {"file", "why"} <= begun.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _readable(store: SqliteStore) -> dict[str, Any]:
    """What SQLite can still read besides events."""
    found: dict[str, Any] = {"dropped": 0, "gaps": []}
    with contextlib.suppress(sqlite3.Error, ValueError, TypeError, AttributeError):
        found["dropped"] = store.dropped
    with contextlib.suppress(sqlite3.Error, ValueError, TypeError, AttributeError):
        found["gaps"] = [(gap.first, gap.last, gap.accepted, gap.keys) for gap in store.gaps]
    return found


def _filled(store: SqliteStore, made: sqlite3.Connection, begun: dict[str, Any]) -> list[Gap]:
    """Write all that is intact into a new database; returns what is missing."""
    database = store.folder / begun["file"]
    log, mark = Path(f"{database}-wal"), store.mark.known
    before = [Gap(a, b, c, {int(n): key for n, key in keys.items()}) for a, b, c, keys in begun.get("gaps", [])]
    dropped = begun.get("dropped", 0) if mark is None else mark.dropped
    made.executemany(
        INSERT.replace("INTO", "OR IGNORE INTO"), (row for row in _true(store, database, log) if row[0] > dropped)
    )
    if (
        begun.get("dropped", 0) > dropped
        and not made.execute("SELECT 1 FROM events WHERE number <= ?", (begun["dropped"],)).fetchone()
    ):
        dropped = begun["dropped"]  # dropped before the mark could say so
    keys = {number: key for gap in before for number, key in gap.keys.items()}
    for found in salvaged_keys(database, log):
        if len(found) == 2:
            keys[found[1]] = found[0]
        elif found[1] <= dropped:
            made.execute("INSERT OR IGNORE INTO dropped_keys VALUES (?, ?, ?)", found)
    facts = {"log": store.log, "format": FORMAT, "dropped": dropped}
    made.executemany("INSERT INTO facts VALUES (?, ?)", [(name, str(value)) for name, value in facts.items()])
    accepted = [gap for gap in before if gap.accepted]
    last = max(0 if mark is None else mark.total, store.seen, dropped, *(gap.last for gap in before), 0)
    present = made.execute("SELECT number FROM events ORDER BY number").fetchall()
    numbers = heapq.merge((number for (number,) in present), *(range(gap.first, gap.last + 1) for gap in accepted))
    gaps = [
        Gap(first, end, keys={number: key for number, key in sorted(keys.items()) if first <= number <= end})
        for first, end in _holes(numbers, dropped, last)
    ]
    if mark is None or any(not len(gap) for gap in before):
        last = max(last, present[-1][0] if present else 0)
        gaps.append(Gap(last + 1, last))
    _insert(made, accepted + gaps)
    return gaps


def _true(store: SqliteStore, database: Path, log: Path) -> Iterator[tuple[Any, ...]]:
    """The rows whose checksums are right."""
    for number, columns in salvaged(database, log):
        if len(columns) == 8:
            row = (number, *columns[1:])
            with contextlib.suppress(Damaged, TypeError):
                batch_of([row], store.width, store.dtype)
                yield row


def _holes(numbers: Iterator[int], begin: int, last: int) -> Iterator[tuple[int, int]]:
    """Ranges that are not among sorted numbers, from the one after `begin` to `last`."""
    for number in numbers:
        if number > begin + 1:
            yield begin + 1, number - 1
        begin = number
    if last > begin:
        yield begin + 1, last


def _insert(db: sqlite3.Connection, gaps: list[Gap]) -> None:
    rows = [(gap.first, gap.last, int(gap.accepted), json.dumps(gap.keys)) for gap in gaps]
    db.executemany("INSERT OR REPLACE INTO lost VALUES (?, ?, ?, ?)", rows)


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# -- in words ----------------------------------------------------------------------------------------------------------


def described(gaps: list[Gap]) -> str:
    """Which events are missing.

    >>> described([Gap(3, 3), Gap(5, 9, keys={6: "order-6"})])
    "events 3, 5 to 9 (6 in all) are missing; the keys of 1 of them are known: 'order-6'"
    """
    surely = [gap for gap in gaps if len(gap)]
    said = []
    if surely:
        ranges = [str(gap) for gap in surely[:SHOWN]] + (["…"] if len(surely) > SHOWN else [])
        said.append(f"events {', '.join(ranges)} ({sum(map(len, surely)):,} in all) are missing")
        keys = [key for gap in surely for key in gap.keys.values()]
        if keys:
            shown = ", ".join(map(repr, keys[:SHOWN])) + (", …" if len(keys) > SHOWN else "")
            said.append(f"the keys of {len(keys):,} of them are known: {shown}")
    if len(surely) < len(gaps):
        end = max(gap.last for gap in gaps)
        said.append(f"the high-water mark is lost, so whether more events came after number {end:,} cannot be told")
    return "; ".join(said)


def advice(gaps: list[Gap], known: int, between: bool, since: str) -> str:
    """What an operator can do about events that are missing.

    Args:
        known: events up to this number count all the same, by a snapshot.
        between: whether others that came after those that are missing count already.
        since: the time of the newest event before the first that is missing and does not count.
    """
    said = f"Those up to {known:,} still count, by a snapshot. " if gaps[0].first <= known else ""
    again = "then send again what came after that"
    if between:
        again = f"or go back, to send again what came after that: --undo-after '{since}'"
    return (
        f"{said}The newest event before what is missing is at {since}. No new events are taken. Stop the service, and "
        f"accept the loss with --accept-loss, {again}."
    )
