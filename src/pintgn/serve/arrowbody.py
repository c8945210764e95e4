"""Arrow bodies, counted before anything is made of them.

336 bytes of Arrow can say thirty million rows: of nulls, of one run, or packed. How many rows and bytes a stream will
have stands in the head of each message, and in the first eight bytes of each packed buffer. Both are read here before
Arrow is asked to unpack anything, and what is longer than it may be is refused.

The heads are flatbuffers (arrow.apache.org/docs/format/Columnar.html); Arrow has verified them when it hands them out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput
from pintgn.events.columns import plain
from pintgn.ingest.encode import only
from pintgn.serve.limits import TooMuch

FIELDS = ("src", "dst", "t", "op", "key")
MESSAGES = 1_000
"""Messages of a stream at most: each costs more than a few events do."""
RUN_END_ENCODED = 22
"""The only type with parts of its own that is taken (Schema.fbs, union Type)."""


def read(body: bytes | bytearray, known: Sequence[str], most: int, most_bytes: int) -> dict[str, Any]:
    """The columns of an Arrow stream as lists; columns that are no field of an event are features.

    Args:
        known: all columns that there can be.
        most: events at most.
        most_bytes: bytes that the stream may have when it is unpacked.
    """
    try:
        _count(body, known, most, most_bytes)
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        if sum(_text_bytes(column) for column in table.columns) > most_bytes:
            raise TooMuch(f"unpacked, the texts of the body take more than {most_bytes:,} bytes. Send less at once.")
        if not table.num_rows:
            raise BadInput("there are no events in the body.")
        columns: dict[str, Any] = {name: _listed(table.column(k)) for k, name in enumerate(table.schema.names)}
        features = {name: columns.pop(name) for name in list(columns) if name not in FIELDS}
        return columns | {"features": features} if features else columns
    except (pa.ArrowException, struct.error, OSError, ValueError, TypeError, UnicodeError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"the body is no Arrow stream: {str(error)[:200]}.") from None


# -- counting ----------------------------------------------------------------------------------------------------------


def _count(body: bytes | bytearray, known: Sequence[str], most: int, most_bytes: int) -> None:
    """Refuse a stream of too many messages, columns, rows or bytes, by what its messages say of themselves."""
    rows = size = 0
    for number, message in enumerate(pa.ipc.MessageReader.open_stream(pa.py_buffer(body))):
        if number >= MESSAGES:
            raise TooMuch(f"the Arrow stream has more than {MESSAGES:,} messages. Send larger batches, or fewer.")
        head = _Table.root(message.metadata.to_pybytes()).table(2)
        if head is None:
            raise BadInput("the body is no Arrow stream: a message is empty.")
        if message.type == "schema":
            _check_schema(message, head, known)
            continue
        if message.type == "dictionary":
            if head.number(2, "?"):
                raise BadInput("the Arrow stream has a dictionary in parts (deltas). Send each dictionary whole.")
            head = head.table(1)
        elif message.type == "record batch":
            rows += head.number(0, "<q")
        else:
            raise BadInput(f"the Arrow stream holds a {message.type}; it is made of record batches.")
        if head is not None:
            size += _unpacked(head, message.body)
        if rows > most:
            raise TooMuch(f"{rows:,} events at once; send at most {most:,}.")
        if size > most_bytes:
            raise TooMuch(f"unpacked, the body has more than {most_bytes:,} bytes. Send less at once.")


def _check_schema(message: pa.Message, head: _Table, known: Sequence[str]) -> None:
    """Refuse columns that are not known, or have parts of their own."""
    fields = head.tables(1, len(known))
    if fields is None:
        raise TooMuch(f"the Arrow stream has more columns than the {len(known):,} that an event of this run can have.")
    for field in fields:
        parts = field.length(5)
        if parts and (field.number(2, "<B") != RUN_END_ENCODED or parts != 2):
            raise BadInput("a column of the Arrow stream is nested; values are numbers and texts.")
    schema = pa.ipc.read_schema(message)
    names = schema.names
    if len(set(names)) < len(names):
        raise BadInput("two columns of the Arrow stream have the same name.")
    only(dict.fromkeys(names), known, "the Arrow stream", "column")
    for name in ("src", "dst", "t"):
        if name not in names:
            raise BadInput(f"there is no column {name!r}; src, dst and t are needed.")
    for field in schema:
        inner = _inner(field.type)
        unclear = pa.types.is_null(inner) and inner != field.type  # of any length without a byte
        if pa.types.is_nested(inner) or isinstance(inner, pa.BaseExtensionType) or unclear:
            raise BadInput(f"column {field.name!r} of the Arrow stream is {field.type}; values are numbers and texts.")


def _inner(kind: pa.DataType) -> pa.DataType:
    """The type of the values behind dictionaries and runs."""
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind


def _unpacked(batch: _Table, body: pa.Buffer) -> int:
    """Bytes of a batch's buffers when they are unpacked; no column of it may be longer than the batch."""
    longest = batch.number(0, "<q")
    if any(not 0 <= length <= longest for length, _ in batch.structs(1, "<qq")):
        raise BadInput("the body is no Arrow stream: a column is longer than its batch.")
    sizes = [(offset, length) for offset, length in batch.structs(2, "<qq") if length > 0]
    if batch.table(3) is None:
        return sum(length for _, length in sizes)
    data, total = memoryview(body), 0
    for offset, length in sizes:
        (said,) = struct.unpack_from("<q", data, offset)  # -1: this one is not packed
        if said < -1:
            raise BadInput("the body is no Arrow stream: a packed buffer has no length.")
        total += length - 8 if said == -1 else said
    return total


def _listed(column: pa.ChunkedArray) -> list[Any]:
    return [value for chunk in column.chunks for value in plain(chunk).to_pylist()]


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of a column's texts when each is written out."""
    if not any(word in str(_inner(column.type)) for word in ("string", "binary")):
        return 0
    return sum(int(_lengths(chunk).sum()) for chunk in column.chunks)


def _lengths(values: pa.Array) -> np.ndarray:
    """Bytes of each text."""
    kind = values.type
    if pa.types.is_run_end_encoded(kind):
        ends = np.clip(values.run_ends.to_numpy().astype(np.int64) - values.offset, 0, len(values))
        return _lengths(values.values) * np.diff(ends, prepend=0)
    if pa.types.is_dictionary(kind):
        lengths = _lengths(values.dictionary)
        return lengths[values.indices.drop_null().to_numpy()] if len(lengths) else np.zeros(1, np.int64)
    if str(kind) in ("string_view", "binary_view"):
        views = np.frombuffer(values.buffers()[1], np.int32)[::4]  # each begins with its length
        return views[values.offset : values.offset + len(values)].astype(np.int64)
    return pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)


class _Table:
    """A table of a flatbuffer. Whatever points out of the buffer is a `struct.error`."""

    def __init__(self, data: bytes, offset: int):
        self.data, self.offset = data, offset
        vtable = offset - self._at("<i", offset)
        if vtable < 0:
            raise struct.error("the head of a message is damaged")
        size = self._at("<H", vtable)
        self.offsets = [self._at("<H", vtable + k) for k in range(4, size, 2)]

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _at(self, form: str, offset: int) -> Any:
        return struct.unpack_from(form, self.data, offset)[0]

    def _field(self, number: int) -> int:
        """Where a field stands, or 0."""
        offset = self.offsets[number] if number < len(self.offsets) else 0
        return self.offset + offset if offset else 0

    def _target(self, number: int) -> int:
        """Where the table or vector that a field points to stands, or 0."""
        offset = self._field(number)
        return offset + self._at("<I", offset) if offset else 0

    def number(self, number: int, form: str) -> Any:
        offset = self._field(number)
        return self._at(form, offset) if offset else 0

    def table(self, number: int) -> _Table | None:
        offset = self._target(number)
        return _Table(self.data, offset) if offset else None

    def length(self, number: int) -> int:
        """How many elements a vector has."""
        offset = self._target(number)
        return self._at("<I", offset) if offset else 0

    def tables(self, number: int, most: int) -> list[_Table] | None:
        """A vector of tables; None when there are more than `most`."""
        first, count = self._target(number) + 4, self.length(number)
        if count > most:
            return None
        return [_Table(self.data, offset + self._at("<I", offset)) for offset in range(first, first + 4 * count, 4)]

    def structs(self, number: int, form: str) -> list[tuple[int, ...]]:
        first, size = self._target(number) + 4, struct.calcsize(form) * self.length(number)
        if first + size > len(self.data):
            raise struct.error("the head of a message is damaged")
        return list(struct.iter_unpack(form, self.data[first : first + size]))
