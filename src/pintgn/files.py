"""Files that are whole or not there, and locks that go with their process."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO

from pintgn.errors import BadFile

FULL = (27, 28, 122)
"""EFBIG, ENOSPC, EDQUOT: errors of a full disk or quota."""


@contextmanager
def replacing(path: str | PathLike[str], durable: bool = True) -> Iterator[Path]:
    """A name beside a file to write to: it becomes the file when all went well, and vanishes otherwise.

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
    """Write a whole file, or leave what was there."""
    with replacing(path, durable) as part:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with open(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)


def rename(source: Path, target: Path) -> None:
    """Put a finished file or folder in another's place; that it is there is on the disk when this returns."""
    os.replace(source, target)
    sync_folder(target.parent)


def replace_folder(made: Path, folder: Path) -> None:
    """Put a finished folder in the place of one that may be there."""
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
    """Failures of the disk in one line, with advice; another piece of it where the disk is full."""
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
