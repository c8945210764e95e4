"""Symmetries of a temporal graph: no equivariant model can separate what a symmetry exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pintgn.errors import TooLarge
from pintgn.theory.colors import refinement
from pintgn.theory.event_history import Entries, EventHistory

LARGEST = 300
"""Nodes in the largest graph that is searched."""


def automorphism(
    history: EventHistory, a: Sequence[int], b: Sequence[int], most: int = LARGEST, budget: int = 2000
) -> dict[int, int] | None:
    """A permutation of nodes that keeps features, events and times and maps the nodes a to b in order, or None.

    Individualise and refine: pin a to b, refine the colours, and if nodes still share a colour try them
    one after another. The permutation found is checked event by event, so it is a proof; None is one too.
    """
    if history.present.sum() > most:
        raise TooLarge(f"symmetries are searched in graphs of at most {most} nodes; this has {history.present.sum()}.")
    graph = Entries.join([history.entries] * 2)
    n = history.nodes
    take = np.flatnonzero(history.present | np.isin(np.arange(n), [*a, *b]))
    base = refinement(np.tile(history.state, 2), graph)[-1]
    left = [budget]

    def search(color: np.ndarray, pins: list[tuple[int, int]]) -> dict[int, int] | None:
        left[0] -= 1
        if left[0] < 0:
            raise TooLarge(f"no answer after {budget} attempts: this graph is too regular to search.")
        color = color.copy()
        for x, y in pins:
            if color[x] != color[y + n]:
                return None
            color[x] = color[y + n] = color.max() + 1
        color = refinement(color, graph)[-1]
        mine, theirs = color[take], color[take + n]
        if not np.array_equal(np.sort(mine), np.sort(theirs)):
            return None
        values, counts = np.unique(mine, return_counts=True)
        if (counts == 1).all():
            image = dict(zip(take[np.argsort(mine)].tolist(), take[np.argsort(theirs)].tolist(), strict=True))
            return image if _keeps_events(history, image) else None
        shared = values[counts > 1][np.argmin(counts[counts > 1])]
        x = int(take[np.flatnonzero(mine == shared)[0]])
        for y in take[np.flatnonzero(theirs == shared)].tolist():
            found = search(color, [(x, y)])
            if found is not None:
                return found
        return None

    return search(base, list(dict.fromkeys(zip(a, b, strict=True))))


def _keeps_events(history: EventHistory, image: dict[int, int]) -> bool:
    def rows(src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        table = np.stack([np.minimum(src, dst), np.maximum(src, dst), history.event_label], 1)
        return table[np.lexsort(table.T)]

    to = np.arange(history.nodes)
    to[list(image)] = list(image.values())
    same_states = np.array_equal(history.state[list(image)], history.state[list(image.values())])
    return same_states and np.array_equal(rows(history.src, history.dst), rows(to[history.src], to[history.dst]))
