"""Candidate generation: likely destinations of a source, from walks and by popularity.

Among a million destinations, nearly all have nothing to do with a source. Candidates are its own contacts, whom these
met, and whom those met in turn (three steps reach from one user to what others like it use), newest first; and, for
everyone, destinations with many contacts or with recent ones. The model ranks the candidates as it would rank all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pintgn.live.live import Live

EXACT = 50_000
"""Destinations up to which all of them are ranked, unless it is said otherwise."""
CANDIDATES = 2_000
"""Candidates of a source: a quarter of them popular ones, the same for all; the rest from its walks."""
NEWEST, STEPS = 64, ((16, 16), (64, 16))
"""Newest contacts of a source that are candidates; and, for each further step, from how many nodes it goes on, to how
many contacts of each."""


class Candidates:
    """Candidates for sources, as of one time.

    Args:
        live: whose stream and node table are read. Nothing after the time is looked at.
        nodes: numbers of the destinations to choose from, sorted.
        when: in the log's count.
        count: candidates of a source at most.
    """

    def __init__(self, live: Live, nodes: np.ndarray, when: Any, count: int = CANDIDATES):
        self.index, self.when, self.count = live.stream.index, when, count
        self.allowed = np.zeros(int(nodes.max(initial=-1)) + 1, bool)
        self.allowed[nodes] = True
        nodes = nodes[nodes < len(live.nodes.degree)]
        common = [_largest(nodes, column, count // 8) for column in standing(live, nodes, when)]
        self.popular = np.unique(np.concatenate(common))

    def __call__(self, src: np.ndarray) -> np.ndarray:  # (s, c)
        """Candidates of each source, in the order of their numbers; rows are padded with -1."""
        rows, nodes, weights = self._walks(np.asarray(src, np.int64))
        inside = nodes < len(self.allowed)
        inside[inside] &= self.allowed[nodes[inside]]
        row, node, _ = _heaviest(rows[inside], nodes[inside], weights[inside], self.count - len(self.popular))
        every = np.repeat(np.arange(len(src)), len(self.popular))
        row, node = np.concatenate([row, every]), np.concatenate([node, np.tile(self.popular, len(src))])
        row, node, _ = _summed(row, node, np.zeros(len(row)))
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        found = np.full((len(src), int(rank.max(initial=-1)) + 1), -1)
        found[row, rank] = node
        return found

    def _walks(self, src: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes that walks reach: the source's row, the node, and how likely a walk is that prefers new contacts."""
        rows, nodes, weights = np.arange(len(src)), src, np.ones(len(src))
        found = []
        for most, contacts in ((len(src), NEWEST), *STEPS):
            rows, nodes, weights = _heaviest(rows, nodes, weights, most)
            near = self.index.recent(nodes, self.when, contacts)
            share = near.mask / np.arange(1, contacts + 1)
            share *= (weights / np.maximum(share.sum(1), 1e-300))[:, None]
            rows, nodes, weights = _summed(
                np.repeat(rows, contacts)[near.mask.ravel()], near.ids[near.mask], share[near.mask]
            )
            found.append((rows, nodes, weights))
        return _summed(*(np.concatenate(column) for column in zip(*found, strict=True)))


def standing(live: Live, nodes: np.ndarray, at: Any) -> tuple[np.ndarray, np.ndarray]:  # (n,) each
    """How many contacts nodes had before a time, which is not before the clock, and when the last was."""
    degree, last = live.nodes.degree.values[nodes], live.nodes.last.values[nodes]
    now = np.flatnonzero(last >= at)  # a question at the clock does not see the events at the clock
    if len(now):
        index, some = live.stream.index, nodes[now]
        degree[now] -= index.count(some, live.time_of()) - index.count(some, at)
        earlier = index.recent(some, at, 1)
        last[now] = np.where(earlier.mask, earlier.t, np.minimum(live.nodes.first.values[some], at))[:, 0]
    return degree, last


def _largest(nodes: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The nodes of the largest values; of equal ones, those of the smallest numbers."""
    if len(nodes) > count > 0:  # all that may be among them, in linear time
        keep = values >= np.partition(values, len(values) - count)[len(values) - count]
        nodes, values = nodes[keep], values[keep]
    return nodes[np.argsort(-values, kind="stable")[:count]]


def _summed(rows: np.ndarray, nodes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each node of each row once, in order, with the sum of its weights."""
    width = int(nodes.max(initial=0)) + 1
    keys, at = np.unique(rows * width + nodes, return_inverse=True)
    return keys // width, keys % width, np.bincount(at.ravel(), weights, len(keys))


def _heaviest(
    rows: np.ndarray, nodes: np.ndarray, weights: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The `most` nodes with the largest weights in each row; rows come in order."""
    order = np.lexsort((nodes, -weights, rows))
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = order[rank < most]
    return rows[kept], nodes[kept], weights[kept]
