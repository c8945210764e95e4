"""Order of simultaneous events: which one counts as the newer, whatever the order of rows and the node numbers.

A model that looks at a node's k newest contacts has to choose where more than k share one time. Each event has a key,
a hash of its time, of the users' ids of its ends and of its features; the larger key counts as the newer event. Events
with equal keys are equal in everything, so it does not matter which of them is taken. `kernels_order.ties` computes the
keys; here are the hashes of ids that go into them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pintgn.events.columns import is_text, text_parts
from pintgn.events.kernels import hash_texts, mix

OTHER_SIDE = np.uint64(0x9E3779B97F4A7C15)


def id_marks(ids: pa.Array, side: np.ndarray | None = None) -> np.ndarray:
    """A hash (n,) of each id. A plain number i hashes as node i does where no mark is known."""
    if not is_text(ids.type) and not pa.types.is_integer(ids.type):  # made by hand: bytes, say, or decimal numbers
        ids = pa.array(map(repr, ids.to_pylist()))
    if is_text(ids.type):
        marks = np.empty(len(ids), np.uint64)
        hash_texts(*text_parts(ids), marks)
    else:
        marks = ids.to_numpy(zero_copy_only=False).astype(np.uint64 if pa.types.is_uint64(ids.type) else np.int64)
        marks = marks.view(np.uint64)
    marks = mix.py_func(marks)  # of a whole column at once
    if side is not None:
        marks += OTHER_SIDE * np.asarray(side, np.uint64)
    return marks
