"""Naive Bayes probe: how well simple counts of the past rank links.

A class that can separate two links need not find it easy: with distinct timestamps, trees identify every node, and a
model could memorise them. The probe uses coarse, transferable facts. Links before T, seen as of an earlier time T',
teach two sets of tables (how often each value occurs with true and with wrong links, naive Bayes): one of facts about
the two nodes on their own, as message passing sees them, and one of positions, which are facts about the pair. Links
after T, seen as of T, are then ranked. Nothing is trained by gradient and there is nothing to tune.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pintgn.theory.event_history import EventHistory
from pintgn.theory.walks import position_vectors

CHUNK = 256
"""Roots whose positions are counted in one pass over the log."""


@dataclass(frozen=True)
class Probe:
    """Probability to rank the true one of two links first (ties count half), from coarse facts only.

    Attributes:
        nodes: from both nodes' number of events and time since the last, each to a power of two.
        positions: from their positions relative to each other, to a power of two.
        both: from all of these.
        gain: what positions add to facts about nodes; `error` is its standard error.
    """

    nodes: float
    positions: float
    both: float
    gain: float
    error: float

    @property
    def useful(self) -> bool:
        """True if positions add more than a hundredth and more than two standard errors."""
        return self.gain > max(0.01, 2 * self.error)


def probe(earlier: EventHistory, train: np.ndarray, history: EventHistory, test: np.ndarray, d: int) -> Probe:
    """Learn from links (q, 3) as of one history, and rank links as of a second one after it.

    Rows are source, true destination, wrong destination.
    """
    learned, asked = _facts(earlier, train, d), _facts(history, test, d)
    width = learned[0].shape[1] - 2 * d
    right = {}
    for name, columns in (("nodes", slice(width)), ("positions", slice(width, None)), ("both", slice(None))):
        first, second = (_score(*(side[:, columns] for side in (*learned, links))) for links in asked)
        right[name] = np.where(np.isclose(first, second), 0.5, first > second)
    more = right["both"] - right["nodes"]
    error = float(more.std(ddof=1) / np.sqrt(len(more))) if len(more) > 1 else 1.0
    means = {name: float(values.mean()) for name, values in right.items()}
    return Probe(**means, gain=float(more.mean()), error=error)


def _facts(history: EventHistory, links: np.ndarray, d: int) -> list[np.ndarray]:
    """Integer facts (q, …) about the true and about the wrong link of each row: of nodes, then 2 d of positions."""
    degree = np.diff(history.entries.start)
    last = np.full(history.nodes, -1, np.int64)
    seen = degree > 0
    age = history.t - history.entry_time[history.entries.start[1:][seen] - 1]
    last[seen] = np.frexp(np.asarray(age, np.float64))[1] + 1100
    u = links[:, 0]
    found = []
    for v, positions in zip(links[:, 1:].T, _relative(history, links, d), strict=True):
        together = last[u] * (int(last.max()) + 2) + last[v] + 1
        found.append(np.column_stack([_octave(degree[v]), last[v], together, u == v, positions]))
    return found


def _relative(history: EventHistory, links: np.ndarray, d: int) -> np.ndarray:
    """Positions of both ends of the true and the wrong link relative to each other, to a power of two: (2, q, 2 d)."""
    roots, index = np.unique(links, return_inverse=True)
    index = index.reshape(links.shape)
    found = np.zeros((2, len(links), 2 * d), np.int64)
    for begin in range(0, len(roots), CHUNK):
        vectors = position_vectors(history, roots[begin : begin + CHUNK], d)
        for side in (1, 2):
            for root, other, columns in ((0, side, slice(0, d)), (side, 0, slice(d, 2 * d))):
                rows = np.flatnonzero((index[:, root] >= begin) & (index[:, root] < begin + CHUNK))
                found[side - 1, rows, columns] = _octave(vectors[index[rows, root] - begin, links[rows, other]])
    return found


def _octave(counts: np.ndarray) -> np.ndarray:
    return np.frexp(np.asarray(counts, np.float64))[1].astype(np.int64)


def _score(true: np.ndarray, wrong: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Sum over facts of the log of how much more often their value came with true links than with wrong ones."""
    score = np.zeros(len(asked))
    for column in range(true.shape[1]):
        values = np.unique(np.concatenate([true[:, column], wrong[:, column]]))
        first, second = (
            np.bincount(np.searchsorted(values, x[:, column]), minlength=len(values)) for x in (true, wrong)
        )
        odds = np.log((first + 1) / (second + 1))
        index = np.minimum(np.searchsorted(values, asked[:, column]), len(values) - 1)
        score += np.where(values[index] == asked[:, column], odds[index], 0)
    return score
