"""Event numbers without gaps, after much has been forgotten."""

from __future__ import annotations

import numpy as np

from pintgn.neighbors.index import NeighborIndex


def renumber(index: NeighborIndex) -> np.ndarray:
    """Number the events that are still held 0, 1, 2, … in their order; returns their old numbers.

    Comparisons of event numbers come out as before; a table with a row for each event can drop all other rows.
    """
    index._rebuild(index._heads[:, 1].copy(), index._heads[:, 0].copy(), *index._arenas)
    _, _, _, numbers, _ = index._tight()
    kept = np.unique(numbers)
    # the arena has just been laid out anew: besides entries it holds nothing that is read
    index._numbers = np.searchsorted(kept, index._numbers)
    held = np.isin(index._open_numbers, kept)
    index._open_numbers = np.searchsorted(kept, index._open_numbers[held])
    index._open_ties = index._open_ties[held]
    index._events = len(kept)
    return kept
