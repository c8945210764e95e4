"""What is easy to learn, beside what is possible: how far simple counts of the past rank links.

A class that can separate two links need not find it easy: with distinct timestamps, trees name every node, and a model
could memorise names. So this asks what coarse, transferable facts say. Links before T, seen as of an earlier time T',
teach two sets of tables (how often each value occurs with true and with wrong links, naive Bayes): one of facts about
the two nodes on their own, as message passing sees them, and one of positions, which are facts about the pair. Links
after T, seen as of T, are then ranked. Nothing is trained by gradient and there is nothing to tune.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pintgn.theory.counts import position_vectors
from pintgn.theory.history import EventHistory

CHUNK = 256
"""Roots whose positions are counted in one pass over the log."""


@dataclass(frozen=True)
class Probe:
    """Chance to rank the true one of a pair of links first (ties count half), from coarse facts only.

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
        """Whether positions clearly add something: more than a hundredth, and more than two standard errors."""
        return self.gain > max(0.01, 2 * self.error)


def probe(
    earlier: EventHistory, taught: np.ndarray, history: EventHistory, asked: np.ndarray, d: int
) -> tuple[Probe, dict[str, np.ndarray]]:
    """Teach by links (q, 3) as of one past, ask about links as of a later one.

    Rows are source, true destination, wrong destination. Also returns whether each asked pair is ranked right (1),
    wrong (0) or tied (1/2), by what was used.
    """
    facts = [_facts(earlier, taught, d), _facts(history, asked, d)]
    right = {}
    for name in ("nodes", "positions", "both"):
        (true, wrong), (ask_true, ask_wrong) = (
            [_pick(side, name) for side in (known["true"], known["wrong"])] for known in facts
        )
        first, second = _score(true, wrong, ask_true), _score(true, wrong, ask_wrong)
        right[name] = np.where(np.isclose(first, second), 0.5, first > second)
    more = right["both"] - right["nodes"]
    error = float(more.std(ddof=1) / np.sqrt(len(more))) if len(more) > 1 else 1.0
    means = {name: float(values.mean()) for name, values in right.items()}
    return Probe(**means, gain=float(more.mean()), error=error), right


def _facts(history: EventHistory, links: np.ndarray, d: int) -> dict[str, dict[str, np.ndarray]]:
    """Integer facts (q, …) about the true and the wrong link of each row."""
    degree = np.diff(history.entries.start)
    last = np.full(history.nodes, -1, np.int64)
    seen = degree > 0
    age = history.t - history.entry_time[history.entries.start[1:][seen] - 1]
    last[seen] = np.frexp(np.asarray(age, np.float64))[1] + 1100
    roots, place = np.unique(links, return_inverse=True)
    place = place.reshape(links.shape)
    found: dict[str, dict[str, np.ndarray]] = {}
    u = links[:, 0]
    relative = _relative(history, links, roots, place, d)
    for side, name in ((1, "true"), (2, "wrong")):
        v = links[:, side]
        together = last[u] * (int(last.max()) + 2) + last[v] + 1
        nodes = np.stack([_octave(degree[v]), last[v], together, (u == v).astype(np.int64)], 1)
        found[name] = {"nodes": nodes, "positions": relative[name]}
    return found


def _relative(
    history: EventHistory, links: np.ndarray, roots: np.ndarray, place: np.ndarray, d: int
) -> dict[str, np.ndarray]:
    """Positions of each link's ends relative to each other, to a power of two: (q, 2 d)."""
    read = {name: np.zeros((len(links), 2 * d), np.int64) for name in ("true", "wrong")}
    for begin in range(0, len(roots), CHUNK):
        vectors = position_vectors(history, roots[begin : begin + CHUNK], d)
        for side, name in ((1, "true"), (2, "wrong")):
            for root, other, columns in ((0, side, slice(0, d)), (side, 0, slice(d, 2 * d))):
                rows = np.flatnonzero((place[:, root] >= begin) & (place[:, root] < begin + CHUNK))
                read[name][rows, columns] = _octave(vectors[place[rows, root] - begin, links[rows, other]])
    return read


def _octave(counts: np.ndarray) -> np.ndarray:
    return np.frexp(np.asarray(counts, np.float64))[1].astype(np.int64)


def _pick(facts: dict[str, np.ndarray], name: str) -> np.ndarray:
    return np.concatenate(list(facts.values()), 1) if name == "both" else facts[name]


def _score(true: np.ndarray, wrong: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Sum over facts of the log of how much more often their value came with true links than with wrong ones."""
    score = np.zeros(len(asked))
    for column in range(true.shape[1]):
        values = np.unique(np.concatenate([true[:, column], wrong[:, column]]))
        counts = [
            np.bincount(np.searchsorted(values, known[:, column]), minlength=len(values)) for known in (true, wrong)
        ]
        odds = np.log((counts[0] + 1) / (counts[1] + 1))
        place = np.minimum(np.searchsorted(values, asked[:, column]), len(values) - 1)
        score += np.where(values[place] == asked[:, column], odds[place], 0)
    return score
