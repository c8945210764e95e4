"""Checksum over a whole saved log: a damaged file is refused before its own format reads it.

Page checksums of Parquet leave out the footer, where a flipped bit can change rows or bring the reader down. The seal
stands between the last data and the footer, where Parquet allows anything: a mark, and a digest of all other
bytes. Other readers pass over it; a program that writes the file anew leaves it out.
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
CHUNK = 1 << 20


def seal(path: Path) -> None:
    """Add a checksum to a Parquet file."""
    with open(path, "rb+") as file:
        footer = _footer(file)
        made = _digest(file, footer, footer)
        file.seek(footer)
        rest = file.read()
        file.seek(footer)
        file.write(MARK + made + rest)


def check_seal(path: Path) -> bool:
    """Whether a file has a checksum; an error if it does not match. Files that cannot be read are for others to
    report."""
    try:
        with open(regular(path), "rb") as file:
            if file.read(6) == b"ARROW1":  # sealed by older versions, and read by none
                return False
            footer = _footer(file)
            file.seek(max(footer - SEAL, 0))
            found = file.read(SEAL if footer >= SEAL else 0)
            # a mark that was hit itself is still a mark: half of it would not be there by chance
            marked = sum(a == b for a, b in zip(found, MARK, strict=False)) >= len(MARK) // 2
            if marked and found == MARK + _digest(file, footer - SEAL, footer):
                return True
            file.seek(max(file.seek(0, os.SEEK_END) - CHUNK, 0))
            if marked or MARK in file.read():  # a seal elsewhere: the footer's length is wrong, or bytes are missing
                raise BadFile(
                    f"{path.name} is cut off or damaged: it is not what pintgn wrote. Copy it again, or save it again."
                )
    except OSError as error:
        if isinstance(error, BadFile):
            raise
    return False


def _footer(file: BinaryIO) -> int:
    """Offset of the footer, by its own length; -1 if that is impossible."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    return max(size - 8 - int.from_bytes(tail[:4], "little"), -1) if size >= 12 and tail[4:] == b"PAR1" else -1


def _digest(file: BinaryIO, end: int, rest: int) -> bytes:
    """Digest of the bytes before `end` and from `rest` on."""
    digest = hashlib.blake2b(digest_size=DIGEST)
    file.seek(0)
    while end and (chunk := file.read(min(CHUNK, end))):
        digest.update(chunk)
        end -= len(chunk)
    file.seek(rest)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.digest()
