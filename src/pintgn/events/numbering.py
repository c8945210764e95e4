"""Numbering nodes: users' ids in, node numbers by first appearance out, batch by batch.

A table of our own, because Arrow's `dictionary_encode` keeps none between batches and is slower even at once: 0.78 s
for four million values of half a million texts (this table: 0.60 s, batch by batch), 0.24 s for whole numbers (0.16 s).
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, TooLarge
from pintgn.events.columns import NOTHING, Growing, is_text, null_rows, plain, readonly, text_parts
from pintgn.events.ids import IdMap
from pintgn.events.kernels import (
    LONGEST_TEXT,
    first_blank_edge,
    hash_texts,
    number_ints,
    number_texts,
    parse_ints,
    rehash_ints,
    rehash_texts,
)

MOST_NODES = 2**31 - 1
INTEGERS, TEXT = "whole numbers", "text"


class Ids(NamedTuple):
    """One column of ids of one batch."""

    kind: str  # INTEGERS or TEXT
    values: Any  # (rows,) int64, those of 64 unsigned bits by their bit pattern; or an Arrow array of text
    missing: np.ndarray = NOTHING  # mask; empty when no id is missing
    unsigned: bool = False

    def as_text(self) -> pa.Array:
        if self.kind == TEXT:
            return self.values
        return pa.array(self.values.view(np.uint64) if self.unsigned else self.values).cast(pa.string())


class UnfitIds(Exception):
    """A column that cannot hold ids; the caller knows its name."""


def as_ids(values: pa.Array, untyped: bool, text: bool = False) -> Ids:
    """A batch of ids in one of two forms.

    `untyped` text (from a CSV) becomes whole numbers where every value is written as Python would write it: one
    id such as 007, +1, 1.0 or 2**64 keeps the whole column text, so that no id changes its looks. With `text`
    it stays text anyhow.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    values = plain(values)
    kind = values.type
    missing = null_rows(values)
    if pa.types.is_null(kind):
        return Ids(TEXT, pa.nulls(len(values), pa.string()).fill_null(""), np.ones(len(values), bool))
    if pa.types.is_integer(kind):
        unsigned = pa.types.is_uint64(kind)
        numbers = (values.fill_null(0) if len(missing) else values).to_numpy(zero_copy_only=False)
        numbers = numbers.view(np.int64) if unsigned else numbers.astype(np.int64, copy=False)
        return Ids(INTEGERS, numbers, missing, unsigned)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        values = pa.array(
            [None if raw is None else str(uuid.UUID(bytes=raw)) for raw in values.to_pylist()], pa.string()
        )
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        try:
            values = values.cast(pa.large_string())
        except pa.ArrowInvalid as error:
            raise UnfitIds("bytes that are not text") from error
    elif not is_text(kind):
        # pandas makes floats of whole numbers when one is missing
        raise UnfitIds(f"{kind} with missing values" if len(missing) else f"{kind}")
    if len(missing):
        values = values.fill_null("")
    numbers = np.empty(len(values) if untyped and not text else 0, np.int64)
    if untyped and not text:
        data, offsets = text_parts(values)
        if not len(missing) and parse_ints(data, offsets, numbers) < 0:
            return Ids(INTEGERS, numbers)
        if first_blank_edge(data, offsets) < 0:
            return Ids(TEXT, values)
    if untyped:
        values = pc.ascii_trim_whitespace(values)
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False)
    missing = lengths == 0 if lengths.min(initial=1) == 0 else NOTHING
    if untyped and not text:
        # a missing id says nothing about the kind of the others
        filled = pc.if_else(pa.array(missing), "0", values) if len(missing) else values
        if parse_ints(*text_parts(filled), numbers) < 0:
            return Ids(INTEGERS, numbers, missing)
    return Ids(TEXT, values, missing)


class Numbering:
    """Numbers for ids, in order of first appearance, src before dst.

    With `separate_namespaces` the same id in src and dst means two different nodes. Ids that were whole numbers so far
    become text when a text arrives; the numbers they have stay.
    """

    def __init__(self, separate_namespaces: bool = False, known: IdMap | None = None):
        self.separate_namespaces = separate_namespaces
        self.kind: str | None = None
        self.unsigned = self.negative = False
        self.count = 0
        self.side = Growing(np.int8)
        self.integers = Growing(np.int64)
        self.text, self.ends = Growing(np.uint8), Growing(np.int64)  # node i is called text[ends[i] : ends[i + 1]]
        self.slots: list[np.ndarray] = []
        if known is not None and len(known):
            ids = as_ids(known.decode(), untyped=False)
            self.side.extend(np.zeros(len(known), np.int8) if known.side is None else known.side)
            self._store(ids)

    def add(self, src: Ids, dst: Ids, how: np.ndarray, out_src: np.ndarray, out_dst: np.ndarray) -> None:
        """Number a batch of events into `out_src` and `out_dst`; `how` (see kernels) may be empty."""
        text = TEXT in (src.kind, dst.kind, self.kind)
        if text and self.kind == INTEGERS:
            self._store(Ids(TEXT, Ids(INTEGERS, self.integers.values, unsigned=self.unsigned).as_text()))
        self.kind = TEXT if text else INTEGERS
        most = self.count + 2 * len(out_src)
        if most > MOST_NODES:
            raise TooLarge(f"there may be more than {MOST_NODES:,} nodes, which is as many as pintgn can number.")
        self.side.reserve(most)
        columns: list[np.ndarray] = []
        if text:
            self.ends.reserve(most + 1)
            size = self.text.length
            for ids in (src, dst):
                data, offsets = text_parts(ids.as_text())
                hashes = np.empty(len(offsets) - 1, np.uint64)
                if hash_texts(data, offsets, hashes) > LONGEST_TEXT:
                    raise BadInput(f"an id is longer than {LONGEST_TEXT:,} bytes. Use a shorter name.")
                columns += [data, offsets, hashes]
                size += int(offsets[-1] - offsets[0])
            self.text.reserve(size)
            self.ends.buffer[0] = 0
            number, stored = number_texts, [self.text.buffer, self.ends.buffer]
        else:
            self.integers.reserve(most)
            for ids in (src, dst):
                self._note_signs(ids)
                columns.append(readonly(ids.values))
            number, stored = number_ints, [self.integers.buffer]
        self.count, _ = number(
            *columns, readonly(how), *self._tables(most), *stored, self.side.buffer, self.count, out_src, out_dst
        )
        self.side.length = self.count
        if text:
            self.ends.length, self.text.length = self.count + 1, int(self.ends.buffer[self.count])
        else:
            self.integers.length = self.count

    def finish(self, order: np.ndarray | None = None) -> IdMap:
        """The id map, after which nothing can be added; `order` (n,) says which old number each new number had."""
        count, side = self.count, self.side.finish()
        if self.kind == TEXT:
            wide = self.text.length > 2**31 - 1
            offsets = self.ends.finish().astype(np.int64 if wide else np.int32)
            buffers = pa.py_buffer(offsets), pa.py_buffer(self.text.finish())
            ids = (pa.LargeStringArray if wide else pa.StringArray).from_buffers(count, *buffers)
        else:
            numbers = self.integers.finish()
            if self.unsigned and numbers.min(initial=0) < 0:
                if self.negative:
                    raise BadInput(
                        "ids go below 0 and beyond 2**63, which no whole number type holds. Cast them to strings."
                    )
                numbers = numbers.view(np.uint64)
            ids = pa.array(numbers)
        if order is not None:
            ids, side = ids.take(pa.array(order)), side[order]
        if self.separate_namespaces:
            return IdMap(ids, side)
        if pa.types.is_int64(ids.type) and np.array_equal(ids.to_numpy(), np.arange(count)):
            return IdMap(size=count)
        return IdMap(ids)

    def _store(self, ids: Ids) -> None:
        """Begin anew with these ids, of the first nodes."""
        self.kind, self.slots, self.count = ids.kind, [], len(ids.values)
        if ids.kind == INTEGERS:
            self._note_signs(ids)
            return self.integers.extend(ids.values)
        data, offsets = text_parts(ids.values)
        self.text.extend(data[offsets[0] : offsets[-1]])
        return self.ends.extend(offsets - offsets[0])

    def _note_signs(self, ids: Ids) -> None:
        self.unsigned |= ids.unsigned
        self.negative |= not ids.unsigned and len(ids.values) > 0 and int(ids.values.min()) < 0

    def _tables(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Hash tables of src and dst, at most half full with `most` ids; one for both, or one each."""
        size = 1 << max(10, (2 * most).bit_length())
        if not self.slots or len(self.slots[0]) < size:
            self.slots = [np.full((size, 2), -1, np.int64) for _ in range(2 if self.separate_namespaces else 1)]
            for side, slots in enumerate(self.slots) if self.count else ():
                which = side if self.separate_namespaces else -1
                if self.kind == TEXT:
                    rehash_texts(slots, self.text.buffer, self.ends.buffer, self.side.buffer, which, self.count)
                else:
                    rehash_ints(slots, self.integers.buffer, self.side.buffer, which, self.count)
        return self.slots[0], self.slots[-1]
