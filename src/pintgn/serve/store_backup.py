"""Backups: a run and its store in one tar file, also while it is being served; restored, and verified by a replay.

The database is copied by SQLite's own backup, in one read transaction, so writers go on. The manifest comes first, and
has the SHA-256 of every file and how many events there are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from pintgn.errors import BadFile, BadInput
from pintgn.facts import AtLeast, DictOf, Maybe, check, check_format, parse
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
from pintgn.serve.api_keys import FILE as KEYS
from pintgn.serve.event_store import log_fingerprint
from pintgn.serve.limits import Options
from pintgn.serve.model_history import ModelHistory
from pintgn.serve.recovery import check_intact
from pintgn.serve.service import Service
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.sqlite import FILE, MARK, SqliteStore, connected

FORMAT = 1
MANIFEST = "manifest.json"
LONGEST = 1 << 24
"""Bytes of a manifest at most."""
SHAPE = {
    "format": AtLeast(1),
    "run": str,
    "events": AtLeast(0),
    "dropped": AtLeast(0),
    "held": Maybe(AtLeast(0)),
    "files": DictOf([(AtLeast(0), str)]),
}
DEEPEST = 32
"""Folders in each other, of a file in a backup at most; ours are five."""
TAKEN = "backups.txt"
"""Where a store keeps the paths of its newest backups, so that a damaged one can name them."""
TRIES = 5
REMEDY = "Use another backup."


def back_up(
    run: Path, store: Path, target: Path, progress: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Write a run and its store to one file; returns its contents. Nothing is written if something is wrong.

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
            copy = Path(name) / "store"
            facts = _copied(made, log, store, copy)
            models.write_for(copy, "..")
            files = {f"live/{path}": copy / path for path in _inside(copy)}
            files |= {path: run / path for path in _inside(run) if _of_run(path)}
            manifest = {"format": FORMAT, "run": made.fingerprint, **facts}
            manifest["files"] = {path: _sealed(file) for path, file in sorted(files.items())}
            (Path(name) / MANIFEST).write_text(json.dumps(manifest, indent=1))
            part.touch(PRIVATE)
            with tarfile.open(part, "w") as archive:
                for path, file in [(MANIFEST, Path(name) / MANIFEST), *sorted(files.items())]:
                    archive.add(file, path, recursive=False)
        read_manifest(part)
    taken = [name for name in _taken(store) if name != str(target.absolute())]
    write_file(store / TAKEN, "\n".join([*taken[-9:], str(target.absolute())]), mode=PRIVATE)
    return manifest | {"bytes": target.stat().st_size}


def _copied(run: Run, log: str, store: Path, folder: Path) -> dict[str, Any]:
    """A consistent copy of a store: events, their mark, the newest matching snapshot, keys.

    A service may drop a snapshot while it is read, and old events before the next one is: then it is tried again.
    """
    snapshots = SnapshotFolder(store, run)
    width, dtype = run.event_schema[0].width, run.log.t.dtype
    with open(store / "lock", "a") as lock:
        served = not try_lock(lock)
    if not served:  # what a crash has left is compared with its mark first
        with SqliteStore(store, log, width, dtype, max(snapshots.numbers(), default=0)) as own:
            check_intact(own)
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if (store / MARK).exists():
            shutil.copyfile(store / MARK, folder / MARK)  # first: the copy has no fewer events than it says
        try:
            with (
                contextlib.closing(connected(store / FILE)) as db,
                contextlib.closing(sqlite3.connect(folder / FILE)) as copy,
            ):
                db.backup(copy)
        except sqlite3.Error as error:
            raise BadFile(f"{store / FILE} could not be copied: {error}. Restart the service.") from None
        with SqliteStore(folder, log, width, dtype) as made:  # its mark now says what was copied
            made.name = str(store)
            check_intact(made, every_event=True)
            found = made.db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":  # rows are whole: an index is not
                raise BadFile(f"{store / FILE}: {found}. Stop the service, then: sqlite3 {store / FILE} REINDEX.")
            facts = {"events": made.total, "dropped": made.dropped, "held": made.waiting, "lost": made.fact("lost")}
        (folder / "lock").unlink()
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(store / KEYS, folder / KEYS)
        for path in snapshots.valid(lambda number: facts["dropped"] <= number <= facts["events"]):  # noqa: B023
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(path[1], folder / "snapshots" / path[1].name)
                break
            shutil.rmtree(folder / "snapshots", ignore_errors=True)
        if not facts["dropped"] or (folder / "snapshots").exists():
            return facts | {"stored": facts["events"] - facts["dropped"] - facts["lost"]}
    raise BadFile(f"the store in {store} was compacted, and none of its snapshots can be used. Restart the service.")


def _taken(store: Path) -> list[str]:
    """Paths of the backups of a store, the newest last."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (store / TAKEN).read_text().splitlines()
    return []


def newest_backup(store: Path) -> tuple[Path, int] | None:
    """The newest intact backup of a store that can be found, and how many live events it holds."""
    for name in reversed(_taken(store)):
        with contextlib.suppress(BadFile, OSError):
            return Path(name), read_manifest(Path(name))["events"]
    return None


def _inside(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _of_run(path: str) -> bool:
    """Whether a file is part of a run: temporary files, locks and stores are not."""
    parts = path.split("/")
    return parts[0] not in ("live", "lock") and not any(part.startswith(".") for part in parts)


def _sealed(path: Path) -> tuple[int, str]:
    """Size and digest."""
    with open(path, "rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(path: Path, folder: Path | None = None) -> dict[str, Any]:
    """The manifest of a backup, once every file matches it; unpacked into a folder, if given."""
    try:
        with tarfile.open(regular(path), "r:") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            head = archive.next()
            if head is None or head.name != MANIFEST or not head.isfile() or head.size > LONGEST:
                raise BadFile(f"{path} is no backup: it does not begin with a manifest. `pintgn backup` writes them.")
            text = archive.extractfile(head).read()  # type: ignore[union-attr]
            manifest: dict[str, Any] = parse(text, {"format": AtLeast(1)}, f"the manifest of {path}", REMEDY)
            check_format(manifest["format"], FORMAT, str(path), "Restore it with the pintgn that wrote it.")
            check(manifest, SHAPE, f"the manifest of {path}", REMEDY)
            left = dict(manifest["files"])
            for member in archive.getmembers()[1:]:
                pure = PurePosixPath(member.name)
                if not member.isfile() or member.name not in left or pure.is_absolute() or ".." in pure.parts:
                    raise BadFile(f"{path} holds {member.name[:200]!r}, which its manifest does not name. {REMEDY}")
                if len(pure.parts) > DEEPEST + 1:
                    raise BadFile(f"{path} names {member.name[:100]!r}…, more than {DEEPEST} folders deep. {REMEDY}")
                digest = hashlib.file_digest(archive.extractfile(member), "sha256").hexdigest()  # type: ignore
                if [member.size, digest] != left.pop(member.name):
                    raise BadFile(f"{path} is damaged: {member.name[:200]} is not what was written. {REMEDY}")
                if folder is not None:
                    archive.extract(member, folder)
    except FileNotFoundError:
        raise BadFile(f"there is no file {path}.") from None
    except tarfile.TarError as error:
        raise BadFile(f"{path} is no backup, or is damaged ({error}). {REMEDY}") from None
    if left:
        raise BadFile(f"{path} is damaged: {min(left)[:200]} is missing. {REMEDY}")
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
            facts = _replayed(path, folder, read_manifest(path, folder), progress)
            if target is not None:
                for name in _inside(folder):
                    sync_file(folder / name)
                make_private(folder)
                rename(folder, target)
    return facts


def _replayed(path: Path, folder: Path, manifest: dict[str, Any], progress: Callable[[str], None]) -> dict[str, Any]:
    """Start a service on the restored copy: it must arrive where the backup says it was."""
    with Service.open(folder, options=Options(evaluate_every=0, lateness=math.inf), progress=progress) as service:
        found = (service.run.fingerprint, service.live.total, service.store.dropped, service.store.waiting)
        if found != (manifest["run"], manifest["events"], manifest["dropped"], manifest.get("held", found[3])):
            raise BadFile(
                f"{path} does not hold what it says, {manifest['events']:,} events: it has {found[1]:,} events. "
                + REMEDY
            )
        service.saver.at = service.live.total  # no snapshot at the end: it would be of other options than the service's
        return {
            "events": manifest["events"],
            "replayed": service.replayed,
            "clock": service.live.clock,
            "files": len(manifest["files"]),
        }
