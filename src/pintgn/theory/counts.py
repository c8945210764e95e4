"""Counts of backward walks without listing them: positions, and the number of walks of CAW.

Independent of `pintgn.positions`, which is tested against it; tests/theory/oracle.py counts by listing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pintgn.theory.event_history import Entries, EventHistory, accumulate, number_rows

EXACT = 2**53
"""Integers below this are exact in float64; beyond it counting starts over with Python's integers."""


def one_deeper(counts: np.ndarray) -> np.ndarray:
    """Counts by number of steps (…, k), every walk one step longer: the shift P of Eqs. 10-11."""
    shifted = np.zeros_like(counts)
    shifted[..., 1:] = counts[..., :-1]
    return shifted


def position_vectors(history: EventHistory, roots: Any, d: int) -> np.ndarray:
    """r_{i->u}(t) of every node i relative to each root u, exact: (roots, n, d), int64 or (if too large) object.

    Component k is the number of walks of k steps from u to i whose times strictly decrease (Lemma 2).
    """
    roots = np.asarray(roots, np.int64)
    for dtype in (np.float64, object):
        counts = np.zeros((history.nodes, len(roots), d), dtype)
        counts[roots, np.arange(len(roots)), 0] = 1
        counts = accumulate(history, counts, one_deeper, backward=True)
        if dtype is object or counts.max(initial=0) < EXACT:
            break
    counts = np.swapaxes(counts, 0, 1)
    return counts if dtype is object else counts.astype(np.int64)


def walk_totals(history: EventHistory, steps: int) -> np.ndarray:
    """The number of maximal walks of at most k steps from each node: (n, steps + 1) floats, exact below 2**53.

    A walk is maximal when it cannot go on, or has the most steps allowed (paper, App. A.3). A node without events has
    one, which stays where it is.
    """

    def grow(other: np.ndarray) -> np.ndarray:
        grown = np.maximum(one_deeper(other), 1)  # where the other end cannot go on, the walk ends there
        grown[..., 0] = 0
        return grown

    totals = accumulate(history, np.zeros((history.nodes, steps + 1)), grow)
    return np.maximum(totals, 1)


def rooted_copies(
    history: EventHistory, pairs: Sequence[Sequence[int]], vectors: Mapping[int, np.ndarray], state: np.ndarray
) -> tuple[np.ndarray, Entries, list[int]]:
    """A copy of the graph for each pair of roots, its nodes coloured by state and positions relative to both.

    Returns the colours, the entries of all copies, and where in each the pair's own root is.
    """
    rows = np.concatenate([np.concatenate([state[:, None], *(vectors[root] for root in pair)], 1) for pair in pairs])
    roots = [copy * history.nodes + pair[0] for copy, pair in enumerate(pairs)]
    return number_rows(rows, len(rows)), Entries.join([history.entries] * len(pairs)), roots
