"""A run and its store in one file, also while it is being served; and restored, verified by a replay.

The file is a tar archive; its manifest comes first and has every file's size and digest, and how many events there are.
The database is copied by SQLite's own backup, in one read transaction, so writers go on; the mark is written anew, for
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
from typing import Any

from pintgn.errors import BadFile, BadInput
from pintgn.facts import AtLeast, Each, check, check_format, parse
from pintgn.files import (
    PRIVATE,
    make_private,
    regular,
    rename,
    replacing,
    sync_file,
    try_lock,
    write_errors,
    write_file,
)
from pintgn.learn.run import Run
from pintgn.serve.api_keys import BEFORE
from pintgn.serve.api_keys import FILE as KEYS
from pintgn.serve.durability import FILE, connected
from pintgn.serve.event_store import log_fingerprint
from pintgn.serve.limits import Options
from pintgn.serve.model_history import ModelHistory
from pintgn.serve.recovery import check_whole
from pintgn.serve.service import Service
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.sqlite import MARK, SqliteStore

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
TAKEN = "backups.txt"
"""Where a store keeps the paths of its newest backups, so that a damaged one can name them."""
TRIES = 5
AGAIN = "Use another backup."


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
        _unpacked(part, None)
    taken = [name for name in _taken(store) if name != str(target.absolute())]
    write_file(store / TAKEN, "\n".join([*taken[-9:], str(target.absolute())]), mode=PRIVATE)
    return manifest | {"bytes": target.stat().st_size}


def _taken(store: Path) -> list[str]:
    """Where backups of a store were written, the newest last."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (store / TAKEN).read_text().splitlines()
    return []


def newest_backup(store: Path) -> tuple[Path, int] | None:
    """The newest intact backup of a store that can be found, and how many live events it holds."""
    for name in reversed(_taken(store)):
        with contextlib.suppress(BadFile, OSError):
            return Path(name), _unpacked(Path(name), None)["events"]
    return None


def _inside(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _of_run(path: str) -> bool:
    """Whether a file is part of a run: what is being written, locks and stores are not."""
    parts = path.split("/")
    return parts[0] not in ("live", "lock") and not any(part.startswith(".") for part in parts)


def _staged(run: Run, log: str, store: Path, folder: Path) -> dict[str, Any]:
    """A copy of a store that fits together: events, their mark, the newest snapshot that goes with them, keys."""
    snapshots = SnapshotFolder(store, run)
    width, dtype = run.event_schema[0].width, run.log.t.dtype
    for _ in range(TRIES):
        with open(store / "lock", "a") as lock:
            served = not try_lock(lock)
        with contextlib.ExitStack() as stack:
            if served:
                db = stack.enter_context(contextlib.closing(connected(store / FILE)))
            else:  # only the store itself may open what a crash has left, and compare it with its mark
                own = stack.enter_context(SqliteStore(store, log, width, dtype, max(snapshots.numbers(), default=0)))
                check_whole(own)
                db = own.db
            if (store / MARK).exists():
                shutil.copyfile(store / MARK, folder / MARK)  # first: the copy has no fewer events than it says
            copy = stack.enter_context(contextlib.closing(sqlite3.connect(folder / FILE)))
            try:
                db.backup(copy)
            except sqlite3.Error as error:
                raise BadFile(f"{store / FILE} could not be copied: {error}. Restart the service.") from None
        with SqliteStore(folder, log, width, dtype) as made:  # its mark now says what was copied
            check_whole(made, every_event=True)
            found = made.db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":  # rows are whole: an index is not
                raise BadFile(f"{store / FILE}: {found}. Stop the service, then: sqlite3 {store / FILE} REINDEX.")
            facts = {"events": made.total, "dropped": made.dropped, "held": made.waiting, "lost": made.lost}
        (folder / "lock").unlink(missing_ok=True)
        if _copy_snapshot(snapshots, folder, facts) or not facts["dropped"]:
            for name in (KEYS, BEFORE):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(store / name, folder / name)
            return facts | {"stored": facts["events"] - facts["dropped"] - facts["lost"]}
        for leftover in _inside(folder):
            (folder / leftover).unlink()
    raise BadFile(f"the store in {store} was compacted, and none of its snapshots can be used. Restart the service.")


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
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), PRIVATE)
    with open(handle, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        head = tarfile.TarInfo(MANIFEST)
        head.size = len(text)
        archive.addfile(head, io.BytesIO(text))
        for name in sorted(files):
            archive.add(files[name], name, recursive=False)


# -- restoring ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[tarfile.TarFile, dict[str, Any]]]:
    """A backup, and what its manifest says that it holds."""
    try:
        with tarfile.open(regular(path), "r:") as archive:
            head = archive.next()
            if head is None or head.name != MANIFEST or not head.isfile() or head.size > LONGEST:
                raise BadFile(f"{path} is no backup: it does not begin with a manifest. `pintgn backup` writes them.")
            text = archive.extractfile(head).read()  # type: ignore[union-attr]
            manifest: dict[str, Any] = parse(text, {"format": AtLeast(1)}, f"the manifest of {path}", AGAIN)
            check_format(manifest["format"], FORMAT, str(path), "Restore it with the pintgn that wrote it.")
            check(manifest, SHAPE, f"the manifest of {path}", AGAIN)
            yield archive, manifest
    except FileNotFoundError:
        raise BadFile(f"there is no file {path}.") from None
    except tarfile.TarError as error:
        raise BadFile(f"{path} is no backup, or is damaged ({error}). {AGAIN}") from None


def read_manifest(path: Path) -> dict[str, Any]:
    """What a backup says that it holds."""
    with _opened(path) as (_, manifest):
        return manifest


def _unpacked(path: Path, folder: Path | None) -> dict[str, Any]:
    """Compare every file of a backup with its manifest, and write it to a folder, if there is one."""
    with _opened(path) as (archive, manifest):
        left = dict(manifest["files"])
        for member in archive:
            if member.name == MANIFEST:
                continue
            pure = PurePosixPath(member.name)
            if not member.isfile() or member.name not in left or pure.is_absolute() or ".." in pure.parts:
                raise BadFile(f"{path} holds {member.name[:200]!r}, which its manifest does not name. {AGAIN}")
            if len(pure.parts) > DEEPEST + 1:
                raise BadFile(f"{path} names {member.name[:100]!r}…, more than {DEEPEST} folders deep. {AGAIN}")
            size, digest = left.pop(member.name)
            source, found = archive.extractfile(member), hashlib.sha256()
            assert source is not None
            with contextlib.ExitStack() as stack:
                copy = None
                if folder is not None:
                    (folder / pure).parent.mkdir(parents=True, exist_ok=True)
                    copy = stack.enter_context(open(folder / pure, "wb"))
                while piece := source.read(1 << 20):
                    found.update(piece)
                    if copy is not None:
                        copy.write(piece)
            if member.size != size or found.hexdigest() != digest:
                raise BadFile(f"{path} is damaged: {member.name[:200]} is not what was written. {AGAIN}")
        if left:
            raise BadFile(f"{path} is damaged: {min(left)[:200]} is missing. {AGAIN}")
    return manifest


def restore(path: Path, target: Path | None, progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Make a folder of a backup, that can be served as it is, and prove it: every digest, every event, a replay.

    Args:
        target: the run's new folder, with its store in `live`; only checked, and nothing kept, when not given.
    """
    if target is not None and target.exists():
        raise BadInput(f"{target} exists already. Name a new folder with -o.")
    parent = Path(tempfile.gettempdir()) if target is None else target.parent
    with write_errors(target or parent, when_full="Free space, or choose another disk."):
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=parent) as work:
            folder = Path(work) / "run"
            facts = _replayed(path, folder, _unpacked(path, folder), progress)
            if target is not None:
                for name in _inside(folder):
                    sync_file(folder / name)
                make_private(folder)
                rename(folder, target)
    return facts


def _replayed(path: Path, folder: Path, manifest: dict[str, Any], progress: Callable[[str], None]) -> dict[str, Any]:
    """Start a service on what was restored: it has to arrive where the backup says it was."""
    with Service.open(folder, options=Options(evaluate_every=0, lateness=math.inf), progress=progress) as service:
        found = (service.run.fingerprint, service.live.total, service.store.dropped, service.store.waiting)
        if found != (manifest["run"], manifest["events"], manifest["dropped"], manifest.get("held", found[3])):
            raise BadFile(
                f"{path} does not hold what it says, {manifest['events']:,} events: it has {found[1]:,} events. {AGAIN}"
            )
        service.saver.at = service.live.total  # no snapshot at the end: it would be of other options than the service's
        return {
            "events": manifest["events"],
            "replayed": service.replayed,
            "clock": service.live.clock,
            "files": len(manifest["files"]),
        }
