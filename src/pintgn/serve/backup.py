"""A run and its store in one file, also while it is being served; and the way back, verified.

The file is a tar archive, its manifest first: every file with its size and digest, and how many events there are. The
database is copied by SQLite's own backup, in one read transaction, so writers go on. The mark is written anew, for
exactly the events that were copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from pintgn.errors import BadFile, BadInput
from pintgn.facts import AtLeast, Each, check, check_format, parse
from pintgn.files import PRIVATE, make_private, regular, rename, replacing, sync_file, try_lock, write_errors
from pintgn.learn.run import Run
from pintgn.serve.held import HELD, LATE
from pintgn.serve.highwater import HighWater, Mark
from pintgn.serve.keys import BEFORE
from pintgn.serve.keys import FILE as KEYS
from pintgn.serve.limits import Options
from pintgn.serve.model_history import ModelHistory
from pintgn.serve.rows import FILE, connected
from pintgn.serve.service import Service
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.sqlite import MARK, SqliteStore
from pintgn.serve.store import log_fingerprint
from pintgn.serve.waiting import copy_waiting, mark_of

FORMAT = 1
MANIFEST = "manifest.json"
LONGEST = 1 << 24
"""Bytes of a manifest at most."""
SHAPE = {
    "format": AtLeast(1),
    "run": str,
    "events": AtLeast(0),
    "dropped": AtLeast(0),
    "files": Each([(AtLeast(0), str)]),
}
DEEPEST = 32
"""Folders in each other, of a file in a backup at most; ours are five."""
TRIES = 5
AGAIN = "Use another backup."
REPAIR = "Stop and start the service, which repairs it, then back it up."


def back_up(
    run: Path, store: Path, target: Path, progress: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Write a run and its store to one file; returns what is in it. Nothing is written where something is wrong.

    The run is the one that is served: another than the one that is named, where another was promoted.
    """
    if not (store / FILE).exists():
        raise BadInput(f"there is no store in {store}. Serve the run first, or name its store with --store.")
    models = ModelHistory(store)
    made, _, own_log = models.served(Run.open(run), progress)
    assert made.folder is not None
    run, log = made.folder.path, own_log or log_fingerprint(made.log)
    with write_errors(target, when_full="Free space, or write to another disk."), replacing(target) as part:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as name:
            facts = _staged(made, log, store, Path(name))
            models.write_for(Path(name), "..")
            files = {f"live/{path}": Path(name) / path for path in _inside(Path(name))}
            files |= {path: run / path for path in _inside(run) if _of_run(path)}
            manifest = {"format": FORMAT, "run": made.fingerprint, **facts}
            manifest["files"] = {path: _sealed(file) for path, file in sorted(files.items())}
            _write(part, manifest, files)
        _verify(part)
    return manifest | {"bytes": target.stat().st_size}


def _inside(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _of_run(path: str) -> bool:
    """Whether a file is part of a run: what is being written, locks and stores are not."""
    parts = path.split("/")
    return parts[0] not in ("live", "lock") and not any(part.startswith(".") for part in parts)


def _staged(run: Run, log: str, store: Path, folder: Path) -> dict[str, Any]:
    """A copy of a store that fits together: events, their mark, the newest snapshot that goes with them, keys."""
    snapshots = SnapshotFolder(store, run)
    for _ in range(TRIES):
        waiting = [f"{kind}.db" for kind in (HELD, LATE)]
        for leftover in (FILE, MARK, *waiting, *(mark_of(Path(name)).name for name in waiting)):
            (folder / leftover).unlink(missing_ok=True)
        try:
            for name in waiting:  # first: what is released meanwhile is in both, and known by its key
                if (store / name).exists() or mark_of(store / name).exists():
                    copy_waiting(store / name, folder / name, log)
            with _database(run, log, store, snapshots) as db:
                _copied(db, folder / FILE)
        except sqlite3.Error as error:
            raise BadFile(f"{store / FILE} could not be copied: {error}. {REPAIR}") from None
        facts = _counted(run, log, store, folder)
        if _copy_snapshot(snapshots, folder, facts) or not facts["dropped"]:
            for name in (KEYS, BEFORE):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(store / name, folder / name)
            return facts
    raise BadFile(f"the store in {store} was compacted, and none of its snapshots can be used. {REPAIR}")


@contextlib.contextmanager
def _database(run: Run, log: str, store: Path, snapshots: SnapshotFolder) -> Iterator[sqlite3.Connection]:
    """The database of a store: beside the service that has it open, or else opened as a service would.

    Nobody but the store itself may be the first to open what a crash has left: SQLite throws away what it cannot use.
    """
    with open(store / "lock", "a") as lock:
        served = not try_lock(lock)
    if served:
        with contextlib.closing(connected(store / FILE)) as db:
            yield db
    else:
        with _opened_store(run, log, store, max(snapshots.numbers(), default=0)) as opened:
            yield opened.db


def _opened_store(run: Run, log: str, folder: Path, seen: int = 0) -> SqliteStore:
    return SqliteStore(folder, log, run.event_schema[0].width, run.log.t.dtype, seen, run.fingerprint)


def _copied(db: sqlite3.Connection, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(target)) as copy:
        db.backup(copy)


def _counted(run: Run, log: str, store: Path, folder: Path) -> dict[str, Any]:
    """Read every event of a copy by its checksum, and say how many there are; the mark is written for these."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as db:
        try:
            facts = dict(db.execute("SELECT name, value FROM facts"))
            newest = db.execute("SELECT max(number) FROM events").fetchone()[0]
            accepted = db.execute("SELECT max(last) FROM lost WHERE accepted").fetchone()[0]
        except sqlite3.Error as error:
            raise BadFile(f"the store in {store} is damaged ({error}). {REPAIR}") from None
    if facts.get("log") != log:
        raise BadInput(f"the store in {store} belongs to another log. Name a run of that log, or another --store.")
    dropped = int(facts.get("dropped") or 0)
    total = max(newest or 0, accepted or 0, dropped)
    mark = HighWater(folder / MARK, log)
    mark.write(Mark(total, dropped))
    mark.close()
    with _opened_store(run, log, folder) as copy:
        found = sum(len(batch) for _, batch in copy.read(dropped))
        lost = sum(len(gap) for gap in copy.gaps if gap.last > dropped)
        if copy.reports:
            raise BadFile(f"the store in {store} is damaged: {copy.reports[0]} {REPAIR}")
    for leftover in ("lock", f"{FILE}-wal", f"{FILE}-shm"):
        (folder / leftover).unlink(missing_ok=True)
    return {"events": total, "dropped": dropped, "stored": found, "lost": lost}


def _copy_snapshot(snapshots: SnapshotFolder, folder: Path, facts: dict[str, Any]) -> bool:
    """The newest whole snapshot of what is in the copy. A service may drop one while it is read: then another."""
    for number, path in snapshots.valid():
        if facts["dropped"] <= number <= facts["events"]:
            target = folder / "snapshots" / path.name
            try:
                shutil.copytree(path, target)
                return True
            except (OSError, shutil.Error):
                shutil.rmtree(target, ignore_errors=True)
    return False


def _sealed(path: Path) -> tuple[int, str]:
    with open(path, "rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _write(part: Path, manifest: dict[str, Any], files: dict[str, Path]) -> None:
    text = json.dumps(manifest, indent=1).encode()
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), PRIVATE)
    with open(handle, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        head = tarfile.TarInfo(MANIFEST)
        head.size = len(text)
        archive.addfile(head, io.BytesIO(text))
        for name in sorted(files):
            archive.add(files[name], name, recursive=False)


# -- the way back ------------------------------------------------------------------------------------------------------


def read_manifest(path: Path) -> dict[str, Any]:
    """What a backup says that it holds."""
    with _opened(path) as archive:
        return _manifest(path, archive)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(regular(path), "r:") as archive:
            yield archive
    except FileNotFoundError:
        raise BadFile(f"there is no file {path}.") from None
    except tarfile.TarError as error:
        raise BadFile(f"{path} is no backup, or is damaged ({error}). {AGAIN}") from None


def _manifest(path: Path, archive: tarfile.TarFile) -> dict[str, Any]:
    head = archive.next()
    if head is None or head.name != MANIFEST or not head.isfile() or head.size > LONGEST:
        raise BadFile(f"{path} is no backup: it does not begin with a manifest. `pintgn backup` writes such files.")
    text = archive.extractfile(head).read()  # type: ignore[union-attr]
    manifest: dict[str, Any] = parse(text, {"format": AtLeast(1)}, f"the manifest of {path}", AGAIN)
    check_format(manifest["format"], FORMAT, str(path), "Restore it with the pintgn that wrote it.")
    check(manifest, SHAPE, f"the manifest of {path}", AGAIN)
    for name in manifest["files"]:
        if name.count("/") > DEEPEST:
            raise BadFile(f"{path} names {name[:100]!r}…, more than {DEEPEST} folders deep. {AGAIN}")
    return manifest


def _verify(path: Path, each: Callable[[str], IO[bytes] | None] = lambda name: None) -> dict[str, Any]:
    """Compare every file of a backup with the manifest; `each` opens where a copy of a file goes."""
    with _opened(path) as archive:
        manifest = _manifest(path, archive)
        left = dict(manifest["files"])
        for member in archive:
            if member.name == MANIFEST:
                continue
            pure = PurePosixPath(member.name)
            if not member.isfile() or member.name not in left or pure.is_absolute() or ".." in pure.parts:
                raise BadFile(f"{path} holds {member.name[:200]!r}, which its manifest does not name. {AGAIN}")
            size, digest = left.pop(member.name)
            source, found = archive.extractfile(member), hashlib.sha256()
            assert source is not None
            with contextlib.ExitStack() as stack:
                target = each(member.name)
                if target is not None:
                    stack.enter_context(target)
                while piece := source.read(1 << 20):
                    found.update(piece)
                    if target is not None:
                        target.write(piece)
            if member.size != size or found.hexdigest() != digest:
                raise BadFile(f"{path} is damaged: {member.name} is not what was written. {AGAIN}")
        if left:
            raise BadFile(f"{path} is damaged: {sorted(left)[0]} is missing. {AGAIN}")
    return manifest


def restore(path: Path, target: Path | None, progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Make a folder of a backup, that can be served as it is, and prove it: every digest, every event, a replay.

    Args:
        target: the run's new folder, with its store in `live`; only checked, and nothing kept, when not given.
    """
    if target is not None and target.exists():
        raise BadInput(f"{target} exists already. Name a new folder with -o.")
    beside = Path(tempfile.gettempdir()) if target is None else target.parent
    with write_errors(target or beside, when_full="Free space, or choose another disk."):
        beside.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".restore-", dir=beside))
        try:
            folder = work / "run"

            def opened(name: str) -> IO[bytes]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                return open(folder / name, "wb")

            manifest = _verify(path, opened)
            facts = _replayed(path, folder, manifest, progress)
            if target is not None:
                for name in _inside(folder):
                    sync_file(folder / name)
                make_private(folder)
                rename(folder, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return facts


def _replayed(path: Path, folder: Path, manifest: dict[str, Any], progress: Callable[[str], None]) -> dict[str, Any]:
    """Start a service on what was restored: it has to arrive where the backup says it was."""
    with Service.open(folder, options=Options(evaluate_every=0, lateness=math.inf), progress=progress) as service:
        found = (service.run.fingerprint, service.live.total, service.store.dropped)
        if found != (manifest["run"], manifest["events"], manifest["dropped"]) or service.store.reports:
            why = service.store.reports[0] if service.store.reports else f"it has {found[1]:,} events"
            raise BadFile(f"{path} does not hold what it says, {manifest['events']:,} events: {why}. {AGAIN}")
        service.saver.at = service.live.total  # no snapshot at the end: it would be of other options than the service's
        return {
            "events": manifest["events"],
            "replayed": service.replayed,
            "clock": service.live.clock,
            "missing": [str(gap) for gap in service.missing],
            "files": len(manifest["files"]),
        }
