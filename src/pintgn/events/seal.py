"""A seal on the Parquet and Arrow files that pintgn writes: what was damaged since is refused before anything is made
of it.

Their own checks are not enough: a flipped bit in a footer, a page header or an embedded table can change rows, or bring
the reader down. The seal stands between the last row group or batch and the footer, where both formats allow anything:
a mark, and a digest of all other bytes of the file. Every reader passes over it; a program that writes the file anew
leaves it out, and so makes a file of its own.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from pintgn.errors import BadFile
from pintgn.files import regular

MARK = b"\0sealed:pintgn\0\1"
DIGEST = 16
SEAL = len(MARK) + DIGEST
ENDS = (b"PAR1", b"ARROW1")
"""How files end, after the length of their footers in four bytes."""
CHUNK = 1 << 20


def seal(path: Path) -> None:
    """Put a seal on a Parquet or Arrow file."""
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        footer = _footer(file, size)
        assert footer is not None
        made = _digest(file, footer, footer)
        file.seek(footer)
        rest = file.read()
        file.seek(footer)
        file.write(MARK + made + rest)


def check_seal(path: Path) -> bool:
    """Whether a file has a seal; an error if it does not fit the file. What cannot be read is for others to say."""
    try:
        with open(regular(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            footer = _footer(file, size)
            if footer is None or footer < SEAL:
                return _refuse_remains(file, size, path)
            file.seek(footer - SEAL)
            found = file.read(SEAL)
            # a mark that was hit itself is still a mark: half of it would not be there by chance
            if sum(a == b for a, b in zip(found, MARK, strict=False)) < len(MARK) // 2:
                return _refuse_remains(file, size, path)
            if found != MARK + _digest(file, footer - SEAL, footer):
                raise _damaged(path)
            return True
    except OSError as error:
        if isinstance(error, BadFile):
            raise
        return False


def _refuse_remains(file: BinaryIO, size: int, path: Path) -> bool:
    """A seal that is not where the footer's length says: then that is wrong, or bytes are missing."""
    file.seek(max(size - CHUNK, 0))
    if MARK in file.read():
        raise _damaged(path)
    return False


def _damaged(path: Path) -> BadFile:
    return BadFile(f"{path.name} is cut off or damaged: it is not what pintgn wrote. Copy it again, or save it again.")


def _footer(file: BinaryIO, size: int) -> int | None:
    """Where the footer begins, by its own length; None where that cannot be."""
    if size < 12:
        return None
    file.seek(size - 10)
    tail = file.read(10)
    for end in ENDS:
        begin = size - len(end) - 4
        length = int.from_bytes(tail[len(tail) - len(end) - 4 : len(tail) - len(end)], "little")
        if tail.endswith(end):
            return begin - length if begin - length >= 4 else None
    return None


def _digest(file: BinaryIO, end: int, rest: int) -> bytes:
    """Of the bytes before `end` and from `rest` on."""
    digest = hashlib.blake2b(digest_size=DIGEST)
    file.seek(0)
    left = end
    while left and (chunk := file.read(min(CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
    file.seek(rest)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.digest()
