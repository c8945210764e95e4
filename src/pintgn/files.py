"""Atomic writes of files and folders, and file locks that end with their process."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO

from pintgn.errors import BadFile

FULL = (27, 28, 122)
"""EFBIG, ENOSPC, EDQUOT: errors of a full disk or quota."""
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
"""Modes of files and folders that hold events, or say who asked for what: their owner's alone."""


def regular(path: str | PathLike[str]) -> Path:
    """The path, unless it is a pipe, a socket or a device: opening one of those may block for ever.

    Whatever is read back (runs, logs, snapshots, stores, backups) passes here before it is opened. What is missing, or
    a folder, is for the caller to explain.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise BadFile(f"{path} is a pipe, a socket or a device, and no file. Put the file itself in its place.")
    return Path(path)


def make_private(path: str | PathLike[str], deep: bool = True) -> None:
    """Make a file, or a folder and the files in it, readable by the owner only; with `deep`, all folders below, too.

    What belongs to somebody else, or lies on a disk without modes, stays as it is; links are not followed.
    """
    path = Path(path)
    found = [path, *(path.rglob("*") if deep else path.iterdir())] if path.is_dir() else [path]
    for one in found:
        with suppress(OSError):  # it may have gone meanwhile, too
            kind = os.lstat(one).st_mode
            if stat.S_ISDIR(kind) and (deep or one == path):
                os.chmod(one, PRIVATE_FOLDER)
            elif stat.S_ISREG(kind):
                os.chmod(one, PRIVATE)


@contextmanager
def replacing(path: str | PathLike[str], durable: bool = True) -> Iterator[Path]:
    """Context that gives a temporary name next to a file: on success it replaces the file, otherwise it is deleted.

    Whoever reads meanwhile sees the old file or the new one.

    Args:
        durable: flush the new file to the disk before it takes the old one's place.
    """
    path = Path(path)
    if path.is_dir():
        raise BadFile(f"{path} is a folder; name a file to write.")
    if not path.parent.is_dir():
        raise BadFile(f"cannot write {path}: there is no folder {path.parent}.")
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield part
        if durable:
            sync_file(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_file(path: str | PathLike[str], data: str | bytes, durable: bool = True, mode: int = 0o666) -> None:
    """Write a file atomically: all of it, or what was there remains."""
    with replacing(path, durable) as part:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with open(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)


def rename(source: Path, target: Path) -> None:
    """Put a finished file or folder in another's place; on the disk when this returns."""
    os.replace(source, target)
    sync_folder(target.parent)


def replace_folder(made: Path, folder: Path) -> None:
    """Put a finished folder in the place of an existing one, if any."""
    old = folder.with_name(f".{folder.name}-old-{uuid.uuid4().hex[:8]}")
    with suppress(FileNotFoundError):
        os.replace(folder, old)
    os.replace(made, folder)
    shutil.rmtree(old, ignore_errors=True)


def sync_file(path: Path) -> None:
    """Flush a file to the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make renames in a folder durable; systems that cannot open folders need not."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def write_errors(what: object, advice: str = "", when_full: str = "") -> Iterator[None]:
    """Context that reports disk failures in one line with advice; `when_full` is the advice for a full disk."""
    try:
        yield
    except BadFile:
        raise
    except OSError as error:
        more = when_full if error.errno in FULL and when_full else advice
        raise BadFile(f"cannot write {what}: {error.strerror or error}. {more}".strip()) from error


def try_lock(file: IO[bytes] | IO[str] | int) -> bool:
    """Lock an open file unless another process has; the lock goes when the file is closed or the process ends."""
    handle = file if isinstance(file, int) else file.fileno()
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            os.lseek(handle, 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
