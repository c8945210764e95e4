"""Events from a damaged SQLite file, page by page, with no help of SQLite.

Every leaf of the table of events is a page of its own with whole rows in it, and every row has a checksum. So what is
intact can be read wherever it stands: below a damaged inner page, behind a damaged header, after a damaged frame of the
write-ahead log. See "Database File Format" at sqlite.org for the layout.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

HEADER, FRAME = 32, 24
"""Bytes before the first frame of a write-ahead log, and before the page in each."""
LEAF, INDEX_LEAF, INDEX_INNER = 0x0D, 0x0A, 0x02
SIZES = tuple(2**k for k in range(9, 17))
DAMAGE = (IndexError, ValueError, struct.error)
"""What reading a damaged cell raises; the next may be intact."""


def salvaged(database: Path, log: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Number and columns of everything that looks like a row of a table; the caller knows which are true."""
    images = _Images(database, log)
    for page, cell in images.cells(LEAF):
        with suppress(*DAMAGE):
            size, at = _varint(page, cell)
            number, at = _varint(page, at)
            yield number, _record(images.payload(page, at, size, images.size - 35))


def salvaged_keys(database: Path, log: Path) -> Iterator[tuple[Any, ...]]:
    """What looks like a row of an index: (key, event number), which is a second copy of the key; or of the table of
    keys whose events were dropped: (hash of the key, event number, checksum).
    """
    images = _Images(database, log)
    local = (images.size - 12) * 64 // 255 - 23
    for page, cell in images.cells(INDEX_LEAF, INDEX_INNER):
        with suppress(*DAMAGE):
            size, at = _varint(page, cell + (4 if page[0] == INDEX_INNER else 0))
            found = _record(images.payload(page, at, size, local))
            if tuple(map(type, found)) in ((str, int), (bytes, int, int)):
                yield found


class _Images:
    """All pages of a database and of its write-ahead log, as they stand in the files."""

    def __init__(self, database: Path, log: Path):
        self.raw, self.log = _mapped(database), _mapped(log)
        size = int.from_bytes(self.raw[16:18], "big") if self.raw[:6] == b"SQLite" else 0
        size = size or int.from_bytes(self.log[8:12], "big")
        self.size = size if size in SIZES else 65536 if size == 1 else 4096
        self.frames = self._frames()
        self.newest = dict(self.frames)  # by page number

    def _frames(self) -> list[tuple[int, bytes]]:
        """Page number and page of the committed frames of the log's newest run, whatever their checksums say."""
        step, salts = FRAME + self.size, self.log[16:24]
        heads = [self.log[at : at + FRAME] for at in range(HEADER, len(self.log) - FRAME + 1, step)]
        if heads and not any(head[8:16] == salts for head in heads):
            salts = next((head[8:16] for head in heads if any(head[8:16])), b"")  # the log's own header is damaged
        commits = [k for k, head in enumerate(heads) if head[8:16] == salts and any(head[4:8])]
        found = []
        for k in range(commits[-1] + 1 if commits else 0):
            page = self.log[HEADER + k * step + FRAME : HEADER + (k + 1) * step]
            if heads[k][8:16] == salts and len(page) == self.size:
                found.append((int.from_bytes(heads[k][:4], "big"), page))
        return found

    def cells(self, *kinds: int) -> Iterator[tuple[bytes, int]]:
        """The cells of all pages of some kinds: the page, and where it begins; offsets beyond the page are left out."""
        begins = range(self.size, len(self.raw) - self.size + 1, self.size)  # the first page holds no events
        in_file = (self.raw[begin : begin + self.size] for begin in begins)
        for page in chain(in_file, (page for _, page in self.frames)):
            if page[0] in kinds:
                header = 12 if page[0] == INDEX_INNER else 8
                pointers = page[header : header + 2 * int.from_bytes(page[3:5], "big")]
                for (at,) in struct.iter_unpack(">H", pointers[: len(pointers) & ~1]):
                    if header <= at < len(page):
                        yield page, at

    def payload(self, page: bytes, at: int, size: int, most: int) -> bytes:
        """A cell's payload; what does not fit its page goes on in others."""
        if size < 0 or size > 2**24:
            raise ValueError
        if size <= most:
            return _exactly(page[at : at + size], size)
        least = (self.size - 12) * 32 // 255 - 23
        here = least + (size - least) % (self.size - 4)
        here = here if here <= most else least
        found = [_exactly(page[at : at + here], here)]
        left, follow = size - here, int.from_bytes(page[at + here : at + here + 4], "big")
        while left > 0:
            other = self.newest.get(follow) or self.raw[(follow - 1) * self.size : follow * self.size]
            part = _exactly(other[4:], self.size - 4)[:left]
            found.append(part)
            left, follow = left - len(part), int.from_bytes(other[:4], "big")
        return b"".join(found)


def _mapped(path: Path) -> Any:
    """A file's bytes, read where they are looked at."""
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # not there, or empty
        return b""


def _exactly(part: bytes, size: int) -> bytes:
    if len(part) != size:
        raise ValueError
    return part


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where the next begins."""
    value = 0
    for k in range(at, at + 8):
        value = value << 7 | data[k] & 0x7F
        if data[k] < 0x80:
            return value, k + 1
    return value << 8 | data[at + 8], at + 9


def _record(data: bytes) -> tuple[Any, ...]:
    """The columns of a row.

    >>> _record(bytes([4, 0, 1, 15, 7]) + b"a")
    (None, 7, 'a')
    """
    end, at = _varint(data, 0)
    kinds = []
    while at < end:
        kind, at = _varint(data, at)
        kinds.append(kind)
    found: list[Any] = []
    for kind in kinds:
        size = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind] if kind < 10 else (kind - 12) // 2
        part = _exactly(data[at : at + size], size)
        at += size
        if kind == 0:
            found.append(None)
        elif kind < 7:
            found.append(int.from_bytes(part, "big", signed=True))
        elif kind == 7:
            found.append(struct.unpack(">d", part)[0])
        elif kind < 10:
            found.append(kind - 8)
        else:
            found.append(part.decode() if kind % 2 else part)
    if at != len(data):
        raise ValueError
    return tuple(found)
