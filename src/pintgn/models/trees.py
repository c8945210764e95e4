"""Temporal computation trees as arrays: every node that message passing of a given depth will touch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from pintgn.models.past import Past


@dataclass
class Trees:
    """The trees of w roots per query (two for a link, one for a node), level by level.

    Level l has w * k^l slots per query; the children of slot i are the slots i*k … i*k + k - 1 of the next level, so a
    query's first k^l slots belong to its first root. All depths look at times strictly before the query's own t, and dt
    is measured from it (paper, Section 2: the neighborhoods N(v, t) of every layer are taken at the same t).
    """

    nodes: list[np.ndarray]  # level l: (q, w * k^l)
    mask: list[np.ndarray]  # the same shape; False where there is no node
    dt: list[np.ndarray]  # from level 1 on: float32, in units of the log's time scale
    features: list[np.ndarray | None]  # from level 1 on: (q, w * k^l, f)
    node_features: list[np.ndarray | None]  # (q, w * k^l, g)
    positions: np.ndarray | None  # (q, all slots, w, r), levels one after the other

    @property
    def roots(self) -> int:
        return self.nodes[0].shape[1]

    @property
    def queries(self) -> int:
        return len(self.nodes[0])

    def bounds(self) -> list[tuple[int, int]]:
        """First and last slot of each level, when the levels stand one after the other."""
        ends = np.cumsum([0, *(level.shape[1] for level in self.nodes)]).tolist()
        return list(itertools.pairwise(ends))


def grow(roots: np.ndarray, past: Past, depth: int, k: int, time_unit: float, positions: bool) -> Trees:
    """Trees of `depth` levels below the roots (q, w), each node with its k newest contacts.

    With `positions`, every node of every tree is asked for relative to all roots of its query.
    """
    nodes, mask = [roots], [np.ones(roots.shape, bool)]
    dt: list[np.ndarray] = []
    features: list[np.ndarray | None] = []
    for level in range(depth):
        found = past.recent(nodes[level], k, valid=mask[level])
        flat = (len(roots), -1)
        nodes.append(found.ids.reshape(flat))
        mask.append(found.mask.reshape(flat))
        dt.append((found.dt.reshape(flat) / time_unit).astype(np.float32))
        features.append(past.event_features(found.events.reshape(flat), mask[-1]))
    read = None
    if positions:
        everyone = np.concatenate([np.where(m, level, -1) for level, m in zip(nodes, mask, strict=True)], axis=1)
        read = past.positions(everyone, roots)
    return Trees(nodes, mask, dt, features, [past.node_features(level) for level in nodes], read)
