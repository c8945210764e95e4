"""Categories as numbers: one-hot columns, codes, or the bits of a hash.

A category among many is 32 numbers of +1 and -1, the bits of a hash of its name. Two categories differ in about half of
them, so a linear layer tells any few apart, which one column of codes (1, 2, 3, …) does not: it would put them in an
order that means nothing. No list of categories is needed to encode one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

BITS = 32
PIECE = 1 << 20
"""Rows that are written at a time."""


def hashes(categories: Iterable[Any]) -> np.ndarray:  # (categories,) uint32
    """A hash of each, the same on every machine; a number and the text that looks like it have the same."""
    names = (str(one).lower() if isinstance(one, bool | np.bool_) else str(one) for one in categories)
    digests = b"".join(hashlib.blake2b(name.encode(), digest_size=4).digest() for name in names)
    return np.frombuffer(digests, "<u4").astype(np.uint32)


def signs(hashed: np.ndarray) -> np.ndarray:  # (rows, BITS) float32
    """The bits of hashes as +1 and -1.

    >>> signs(hashes(["x"]))[0, :6].tolist()
    [1.0, -1.0, -1.0, -1.0, 1.0, 1.0]
    """
    bits = np.unpackbits(np.ascontiguousarray(hashed, "<u4").view(np.uint8), bitorder="little").reshape(-1, BITS)
    return bits.astype(np.float32) * 2 - 1


def from_signs(block: np.ndarray) -> np.ndarray:  # (rows,) uint32
    """The inverse of `signs`."""
    return np.packbits(block > 0, axis=1, bitorder="little").view("<u4")[:, 0].astype(np.uint32)


def category_codes(block: np.ndarray, hashed: np.ndarray) -> np.ndarray:  # (rows,) int64
    """The 1-based category of each row; 0 if it has none, or another one."""
    order = np.argsort(hashed, kind="stable")
    found = from_signs(block)
    at = np.minimum(np.searchsorted(hashed[order], found), len(hashed) - 1)
    known = (hashed[order][at] == found) & block.any(1) if len(hashed) else np.zeros(len(block), bool)
    return np.where(known, order[at] + 1, 0) if len(hashed) else np.zeros(len(block), np.int64)


def word_array(words: Sequence[Any]) -> pa.Array:
    """Categories as an Arrow column: text where they are of several types."""
    kinds = {type(word) for word in words}
    return pa.array(
        [str(word) for word in words] if len(kinds) > 1 else words, None if len(kinds) == 1 else pa.string()
    )


def spread(matrix: np.ndarray, start: int, codes: np.ndarray, kind: str, words: Sequence[Any]) -> None:
    """Write 1-based codes of `words` (0: none) into the columns of a feature matrix that begin at `start`."""
    if kind == "code":
        matrix[:, start] = codes
        return
    if kind == "hash":
        bits = np.concatenate([np.zeros((1, BITS), np.float32), signs(hashes(words))])
        for first in range(0, len(codes), PIECE):
            matrix[first : first + PIECE, start : start + BITS] = bits[codes[first : first + PIECE]]
        return
    matrix[:, start : start + len(words)] = 0
    for first in range(0, len(codes), PIECE):
        rows = np.flatnonzero(codes[first : first + PIECE]) + first
        matrix[rows, start + codes[rows] - 1] = 1
