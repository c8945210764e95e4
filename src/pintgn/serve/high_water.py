"""The high-water mark: how many events were acknowledged, kept outside the database.

What is not in the database any more is noticed by it, not forgotten.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from pintgn.files import PRIVATE

SLOT = 4096
"""Bytes between two slots: a page of the disk."""
RECORD = struct.Struct("<8s8sQQQ")  # magic, log, sequence, total, dropped
MAGIC = b"pintgn\x00\x01"


class Mark(NamedTuple):
    """The number of acknowledged events, numbered or waiting, and the number of the newest dropped one."""

    total: int
    dropped: int


class HighWater:
    """The mark of one store. `advance` is written before an event is acknowledged, and flushed while other work is
    done.

    Two slots in pages of their own, written in turn, each with a checksum: a write that is torn leaves the other. The
    file is made once in its full size, so a full disk cannot keep it from being written.
    """

    def __init__(self, path: Path, fingerprint: str):
        self.path, self._owner = path, hashlib.blake2b(fingerprint.encode(), digest_size=8).digest()
        self._sequence, self._handle = 0, -1
        self._flushed: Future | None = None
        self._flusher = ThreadPoolExecutor(1, "pintgn-high-water")  # a thread comes with the first write
        self.known = self._read()
        """What the file says; None when there is none that can be read, and nothing has been written since."""

    @property
    def written(self) -> Mark:
        return self.known or Mark(0, 0)

    def _read(self) -> Mark | None:
        try:
            raw = self.path.read_bytes()
        except OSError:
            return None
        slots = []
        for begin in (0, SLOT):
            record = raw[begin : begin + RECORD.size]
            checksum = raw[begin + RECORD.size : begin + RECORD.size + 4]
            if checksum == zlib.crc32(record).to_bytes(4, "little"):
                magic, owner, sequence, total, dropped = RECORD.unpack(record)
                if magic == MAGIC and owner == self._owner:
                    slots.append((sequence, Mark(total, dropped)))
        if not slots:
            return None
        self._sequence, mark = max(slots)
        return mark

    def open(self) -> None:
        """Prepare for writing: both slots are on the disk."""
        if self._handle >= 0:
            return
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), PRIVATE)
        missing = 2 * SLOT - os.fstat(self._handle).st_size
        if missing > 0:
            os.lseek(self._handle, 0, os.SEEK_END)
            os.write(self._handle, bytes(missing))
            os.fsync(self._handle)

    def write(self, mark: Mark) -> None:
        """Write and flush; into both slots, so that nothing older is left."""
        for _ in range(2):
            self.advance(mark)
            self.settle()

    def advance(self, mark: Mark) -> None:
        """Write now; `settle` waits until it is on the disk."""
        self.settle()
        if self._handle < 0:
            self.open()
        self._sequence += 1
        self.known = mark
        record = RECORD.pack(MAGIC, self._owner, self._sequence, *mark)
        os.lseek(self._handle, self._sequence % 2 * SLOT, os.SEEK_SET)
        os.write(self._handle, record + zlib.crc32(record).to_bytes(4, "little"))
        self._flushed = self._flusher.submit(getattr(os, "fdatasync", os.fsync), self._handle)

    def settle(self) -> None:
        if self._flushed is not None:
            flushed, self._flushed = self._flushed, None
            flushed.result()

    def close(self) -> None:
        self._flusher.shutdown()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
