"""Columns that grow while a file streams in, without a second copy, and operations on whole columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput

Where = Callable[[int], str]
"""Says where a row of a batch, counted from 0, stands in its source."""
NARROWED = 1 << 20
"""Numbers that are rounded at a time."""
SKIP = "Correct it, or pass Cleaning(skip_bad=True) (--skip-bad)."
"""What to do about a bad row."""


class Growing:
    """A NumPy column (or matrix, with `width`) that grows.

    Capacity is reserved ahead with `np.empty`: pages that are never written cost no memory, so a generous guess is
    free. When the guess was too small the column moves into half as much again, one column at a time.
    """

    def __init__(self, dtype: Any, capacity: int = 0, width: int | None = None):
        rows = max(capacity, 1024)
        self.buffer = np.empty(rows if width is None else (rows, width), dtype)
        self.dtype, self.length = self.buffer.dtype, 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, rows: Any) -> Any:
        return self.values[rows]

    def allocate(self, count: int) -> np.ndarray:
        """The next `count` rows, to be written by the caller."""
        self.reserve(self.length + count)
        self.length += count
        return self.buffer[self.length - count : self.length].view(self.dtype)

    def extend(self, values: np.ndarray) -> None:
        self.allocate(len(values))[...] = values

    def reserve(self, capacity: int) -> None:
        """Make sure that rows below `capacity` can be written."""
        if capacity > len(self.buffer):
            rows = max(capacity, len(self.buffer) * 3 // 2)
            grown = np.empty((rows, *self.buffer.shape[1:]), self.buffer.dtype)
            grown[: self.length] = self.buffer[: self.length]
            self.buffer = grown

    def become_floats(self) -> None:
        """Whole numbers so far, float64 from now on; in place."""
        self.buffer[: self.length].view(np.float64)[:] = self.values
        self.dtype = np.dtype(np.float64)

    @property
    def values(self) -> np.ndarray:
        return self.buffer[: self.length].view(self.dtype)

    def finish(self) -> np.ndarray:
        """The finished column; the spare capacity is given back."""
        # shrinking in place: the allocator cuts the end off, nothing is copied
        self.buffer.resize((self.length, *self.buffer.shape[1:]), refcheck=False)
        column, self.buffer, self.length = self.buffer, np.empty(0, self.buffer.dtype), 0
        return column.view(self.dtype)

    def finish_narrow(self) -> np.ndarray:
        """`finish` of a float64 column as float32: in place, the other half is given back."""
        buffer, shape = self.buffer, (self.length, *self.buffer.shape[1:])
        wide, used = buffer.reshape(-1), int(np.prod(shape))
        narrow = wide.view(np.float32)
        for start in range(0, used, NARROWED):  # what is written ends before what is still to be read begins
            stop = min(start + NARROWED, used)
            narrow[start:stop] = wide[start:stop].copy()
        del wide, narrow
        buffer.resize((used + 1) // 2, refcheck=False)
        self.buffer, self.length = np.empty(0, buffer.dtype), 0
        return buffer.view(np.float32)[:used].reshape(shape)


def readonly(array: np.ndarray) -> np.ndarray:
    """A read-only view: native loops are compiled once, whether Arrow's memory happens to be writable or not."""
    view = array.view()
    view.flags.writeable = False
    return view


def text_parts(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and int64 offsets (length + 1) of a text or binary column, as it lies in memory."""
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, offsets, data = values.buffers()
    if not len(values):
        return readonly(np.zeros(0, np.uint8)), readonly(np.zeros(1, np.int64))
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[values.offset : values.offset + len(values) + 1]
    return (
        readonly(np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)),
        readonly(ends.astype(np.int64)),
    )


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, without chunks, dictionaries, views or extension types."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # more than fits one chunk
        raise BadInput("a column holds more text than one batch can take.")
    if pa.types.is_dictionary(values.type):
        values = plain(values.dictionary).take(values.indices)  # those of Polars hold views: dictionary_decode fails
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    if str(values.type) == "string_view":
        values = values.cast(pa.large_string())
    elif str(values.type) == "binary_view":
        values = values.cast(pa.large_binary())
    return values


def as_array(values: Any) -> pa.Array:
    """Values as Arrow, of the type they have; whole numbers may need all of 64 bits."""
    try:
        return pa.array(values)
    except OverflowError:
        return pa.array(values, pa.uint64())


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def first_true(mask: np.ndarray | pa.BooleanArray) -> int:
    """The first index at which a mask is true, or -1."""
    rows = np.flatnonzero(mask)
    return int(rows[0]) if len(rows) else -1


def null_rows(values: pa.Array) -> np.ndarray:
    """A mask of the missing values."""
    if not values.null_count:
        return np.zeros(len(values), bool)
    return values.is_null().to_numpy(zero_copy_only=False)


def empty_cells(values: pa.Array, trim: bool) -> np.ndarray:
    """Mask of empty cells: missing, or empty text."""
    values = plain(values)
    if not is_text(values.type):
        return null_rows(values)
    values = values.fill_null("")
    return pc.equal(pc.ascii_trim_whitespace(values) if trim else values, "").to_numpy(zero_copy_only=False)


def try_cast(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        return None


def first_uncastable(values: pa.Array, *kinds: pa.DataType) -> int:
    """The first value at which a column stops being of one of these types, or -1; found by halving."""
    low, high = 0, len(values)  # the first `low` values can be cast, the first `high` may not be
    if any(try_cast(values, kind) is not None for kind in kinds):
        return -1
    while low + 1 < high:
        middle = (low + high) // 2
        fits = any(try_cast(values.slice(0, middle), kind) is not None for kind in kinds)
        low, high = (middle, high) if fits else (low, middle)
    return low


def scrambled(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers (e,) as random-looking ones, each by itself (splitmix64).

    >>> scrambled(np.array([1, 2])).tolist()
    [10451216379200822465, 10905525725756348110]
    """
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
