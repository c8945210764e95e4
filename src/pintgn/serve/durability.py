"""What makes events durable: rows with checksums, SQLite's tables, and the mark of how many were acknowledged.

The mark is outside the database, so what is not in the database any more is noticed, not forgotten.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pintgn.errors import BadFile
from pintgn.files import PRIVATE
from pintgn.ingest.codec import TARGET, EventBatch
from pintgn.ingest.late_targets import WIDTH

FORMAT = 5
"""3 since stores belong to a log; 4 since the features of an event may have eight bytes each, where four would round a
target; 5 since events that wait are kept in the same database. Those of format 3 and 4 are read and become 5."""
FILE = "events.db"
DURABLE = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
TABLES = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, src, dst, t, op INTEGER, features BLOB, key TEXT, checksum INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS event_keys ON events (key) WHERE key IS NOT NULL;
CREATE TABLE IF NOT EXISTS dropped_keys (key BLOB PRIMARY KEY, number INTEGER, checksum INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held (
    number INTEGER PRIMARY KEY, src, dst, t, op INTEGER, features BLOB, key TEXT, checksum INTEGER
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT);
"""
COLUMNS = "number, src, dst, t, op, features, key, checksum"
INSERT = "INSERT INTO {} VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Damaged(BadFile):
    """Rows that are not what was written."""


def connected(path: Path) -> sqlite3.Connection:
    with contextlib.suppress(OSError):  # SQLite says why, and gives its log and its index the mode of the file
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    db.executescript(DURABLE)
    return db


def columns(batch: EventBatch) -> tuple[list, ...]:
    """src, dst, t, op, features and key, as they are stored."""
    none = [None] * len(batch.t)
    op = none if batch.op is None else batch.op.tolist()
    features = none if batch.features is None else _features_bytes(batch.features)
    return batch.src, batch.dst, batch.t.tolist(), op, features, none if batch.keys is None else batch.keys


def _features_bytes(matrix: np.ndarray) -> list[bytes]:
    """Four bytes for each number of a row where that holds all of them, else eight."""
    narrow = matrix.astype("<f4", copy=False)
    found = [row.tobytes() for row in narrow]
    if matrix.dtype == np.float64:
        for row in np.flatnonzero(((narrow != matrix) & ~np.isnan(matrix)).any(1)).tolist():
            found[row] = matrix[row].astype("<f8").tobytes()
    return found


def _features_of(rows: list[bytes], width: int) -> np.ndarray:
    """What `_features_bytes` wrote."""
    wide = 8 * width
    if not any(len(row) == wide for row in rows):
        return np.frombuffer(b"".join(rows), "<f4").astype(np.float32).reshape(len(rows), width)
    return np.stack([np.frombuffer(row, "<f8" if len(row) == wide else "<f4").astype(np.float64) for row in rows])


def checksums(columns: tuple[list, ...]) -> list[int]:
    """Of everything that each event is, its number aside; `columns` are those of the function of that name."""
    src, dst, t, op, features, keys = columns
    crc = zlib.crc32
    found = [
        crc(f"{s}\0{d}\0{when}\0{kind}\0{key}".encode("utf-8", "surrogatepass"))
        for s, d, when, kind, key in zip(src, dst, t, op, keys, strict=True)
    ]
    return found if not features or features[0] is None else list(map(crc, features, found))


def batch_of(rows: list[tuple], width: int, dtype: np.dtype) -> EventBatch:
    """Rows as events; refused when they are not what was written."""
    numbers, src, dst, t, op, features, keys, sums = map(list, zip(*rows, strict=True))
    width = WIDTH if op[0] == TARGET else width
    try:
        matrix = None
        if width:
            matrix = _features_of(features, width)
        ops = None if op[0] is None else np.array(op, np.int8)
        named = None if all(key is None for key in keys) else keys
        batch = EventBatch(src, dst, np.array(t, dtype), matrix, ops, named)
        found = checksums(columns(batch))
    except (ValueError, TypeError, OverflowError) as error:
        raise Damaged(f"rows {numbers[0]:,} to {numbers[-1]:,}: {error}") from error
    for number, checksum, expected in zip(numbers, found, sums, strict=True):
        if checksum ^ number != expected:
            raise Damaged(f"event {number:,} is not what was written")
    return batch


def batches_of(rows: list[tuple], width: int, dtype: np.dtype) -> Iterator[tuple[int, EventBatch]]:
    """Rows as batches, each with its first number: cut where a number is missing, and where events end and targets
    begin, or the other way."""
    ends = [
        k
        for k in range(1, len(rows))
        if rows[k][0] != rows[k - 1][0] + 1 or (rows[k][4] == TARGET) != (rows[k - 1][4] == TARGET)
    ]
    for begin, end in zip([0, *ends], [*ends, len(rows)], strict=True):
        if begin < end:
            yield rows[begin][0], batch_of(rows[begin:end], width, dtype)


def rows_of(batch: EventBatch, numbers: Sequence[int]) -> list[tuple]:
    """Events as rows of these numbers."""
    values = columns(batch)
    return list(zip(numbers, *values, map(int.__xor__, checksums(values), numbers), strict=True))


def hashed(key: str) -> bytes:
    """A key of an event that was dropped, in a few bytes."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


SLOT = 4096
"""Bytes between two slots: a page of the disk."""


RECORD = struct.Struct("<8s8sQQQ")  # magic, log, sequence, total, dropped


MAGIC = b"pintgn\x00\x01"


class Mark(NamedTuple):
    """How many events were acknowledged, numbered or waiting, and the number of the newest that was dropped."""

    total: int
    dropped: int


class HighWater:
    """The mark of one store. `advance` is written before an event is acknowledged, and flushed beside other work.

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
        """Make ready for writing: both slots are on the disk."""
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
