"""Arrow bodies, counted before anything is made of them.

A few hundred bytes of Arrow can mean thirty million rows: of nulls, of one run, or compressed. So buffers must come
uncompressed and columns plain (or dictionaries of texts): reading such a stream allocates nothing. How many rows it has
is read in the head of each message, a flatbuffer (arrow.apache.org/docs/format/Columnar.html) that Arrow has verified.
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
HEAD = 2**20
"""Bytes of a message's head at most: a small one can name a great many columns."""


def read(body: bytes | bytearray, known: Sequence[str], most: int, most_bytes: int) -> dict[str, Any]:
    """The columns of an Arrow stream as lists; columns that are no field of an event are features.

    Args:
        known: all columns that there can be.
        most: events at most.
        most_bytes: bytes of all texts, each counted as often as it is referenced.
    """
    try:
        _check(body, known, most)
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        if sum(_text_bytes(chunk) for column in table.columns for chunk in column.chunks) > most_bytes:
            raise TooMuch(f"the texts of the body take more than {most_bytes:,} bytes. Send less at once.")
        if not table.num_rows:
            raise BadInput("there are no events in the body.")
        columns: dict[str, Any] = {
            name: [value for chunk in column.chunks for value in plain(chunk).to_pylist()]
            for name, column in zip(table.schema.names, table.columns, strict=True)
        }
    except (pa.ArrowException, struct.error, OSError, ValueError, TypeError, UnicodeError, OverflowError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"the body is no Arrow stream: {str(error)[:200]}.") from None
    features = {name: columns.pop(name) for name in list(columns) if name not in FIELDS}
    return columns | {"features": features} if features else columns


def _check(body: bytes | bytearray, known: Sequence[str], most: int) -> None:
    """Refuse a stream of too many messages or rows, or of columns that may hold more than they take."""
    rows = 0
    for number, message in enumerate(pa.ipc.MessageReader.open_stream(pa.py_buffer(body))):
        if number >= MESSAGES or message.metadata.size > HEAD:
            raise TooMuch(f"the Arrow stream has more than {MESSAGES:,} messages, or one with too many columns.")
        if message.type == "schema":
            _check_schema(pa.ipc.read_schema(message), known)
            continue
        data = message.metadata.to_pybytes()
        head = _field(data, _at("<I", data, 0), 2)
        if message.type == "dictionary":
            if _field(data, head, 2, "<?"):
                raise BadInput("the Arrow stream has a dictionary in parts (deltas). Send each dictionary whole.")
            head = _field(data, head, 1)
        elif message.type == "record batch":
            rows += _field(data, head, 0, "<q")
        else:
            raise BadInput(f"the Arrow stream holds a {message.type}; it is made of record batches.")
        if rows > most:
            raise TooMuch(f"{rows:,} events at once; send at most {most:,}.")
        if _field(data, head, 3):
            raise BadInput("the Arrow stream is compressed. Send it uncompressed.")


def _check_schema(schema: pa.Schema, known: Sequence[str]) -> None:
    names = schema.names
    if len(set(names)) < len(names):
        raise BadInput("two columns of the Arrow stream have the same name.")
    only(dict.fromkeys(names), known, "the Arrow stream", "column")
    for name in ("src", "dst", "t"):
        if name not in names:
            raise BadInput(f"there is no column {name!r}; src, dst and t are needed.")
    for field in schema:
        kind, types = field.type, pa.types
        inner = kind.value_type if types.is_dictionary(kind) else kind
        unclear = types.is_nested(inner) or types.is_dictionary(inner) or types.is_run_end_encoded(inner)
        if unclear or isinstance(inner, pa.BaseExtensionType) or (types.is_null(inner) and inner != kind):
            raise BadInput(f"column {field.name!r} of the Arrow stream is {kind}; values are plain numbers and texts.")


def _text_bytes(values: pa.Array) -> int:
    """Bytes of a column's texts when each is written out."""
    if not pa.types.is_dictionary(values.type):
        return int(_lengths(values).sum())
    lengths = _lengths(values.dictionary)
    return int(lengths[values.indices.drop_null().to_numpy()].sum()) if len(lengths) else 0


def _lengths(values: pa.Array) -> np.ndarray:
    """Bytes of each text; nothing for numbers."""
    if str(values.type) in ("string_view", "binary_view"):
        views = np.frombuffer(values.buffers()[1], np.int32)[::4]  # each begins with its length
        return views[values.offset : values.offset + len(values)].astype(np.int64)
    if not any(word in str(values.type) for word in ("string", "binary")):
        return np.zeros(len(values), np.int64)
    return pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _at(form: str, data: bytes, offset: int) -> Any:
    return struct.unpack_from(form, data, offset)[0]


def _field(data: bytes, table: int, number: int, form: str | None = None) -> Any:
    """A number of a flatbuffer's table, or where the table that it refers to stands; 0 when there is none."""
    vtable = table - _at("<i", data, table)
    offset = _at("<H", data, vtable + 4 + 2 * number) if 4 + 2 * number < _at("<H", data, vtable) else 0
    if not offset:
        return 0
    return table + offset + _at("<I", data, table + offset) if form is None else _at(form, data, table + offset)
