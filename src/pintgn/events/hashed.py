"""Categories too many for a column each: every one is 32 numbers of +1 and -1, the bits of a hash of its name.

Two categories differ in about half of them, so a linear layer tells any few apart, which one column of codes (1, 2, 3,
…) does not: it would put them in an order that means nothing. No list of categories is needed to encode one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

BITS = 32


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
    """The hashes that `signs` was made of."""
    return np.packbits(block > 0, axis=1, bitorder="little").view("<u4")[:, 0].astype(np.uint32)


def category_codes(block: np.ndarray, hashed: np.ndarray) -> np.ndarray:  # (rows,) int64
    """Which category each row is, 1-based; 0 where it is none, or none of these."""
    order = np.argsort(hashed, kind="stable")
    found = from_signs(block)
    at = np.minimum(np.searchsorted(hashed[order], found), len(hashed) - 1)
    known = (hashed[order][at] == found) & block.any(1) if len(hashed) else np.zeros(len(block), bool)
    return np.where(known, order[at] + 1, 0) if len(hashed) else np.zeros(len(block), np.int64)
