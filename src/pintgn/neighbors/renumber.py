"""Event numbers without gaps, after much has been forgotten."""

from __future__ import annotations

import numpy as np

from pintgn.neighbors import kernels_storage as storage
from pintgn.neighbors.index import NeighborIndex


def renumber(index: NeighborIndex) -> np.ndarray:
    """Number the events that are still held 0, 1, 2, … in their order; returns their old numbers.

    Comparisons of event numbers come out as before; a table with a row for each event can drop all other rows.
    """
    lengths = index._heads[:, 1].copy()
    index._rebuild(lengths, index._heads[:, 0].copy(), index._ids, index._times, index._numbers)
    tight = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1)
    numbers = np.empty(index._entries, np.int64)
    storage.copy_entries(
        index._heads[:, 0].copy(), index._ids, index._times, index._numbers, tight,
        np.empty(index._entries, np.int32), np.empty(index._entries, index._times.dtype), numbers,
    )  # fmt: skip
    kept = np.unique(numbers)
    # the arena has just been laid out anew: besides entries it holds nothing that is read
    index._numbers = np.searchsorted(kept, index._numbers)
    index._events = len(kept)
    return kept
