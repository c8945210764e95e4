"""Whom an event's destination is ranked against: all destinations or a fixed sample, filtered as tgbl-wiki is."""

from __future__ import annotations

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.learn.protocol import destinations, scored_events

BLOCK = 200
"""Rows drawn together; fixed, so that a sample does not depend on how a part is cut into batches."""


class Candidates:
    """Negative destinations of a part's scored events.

    The pool is every destination of the log. Left out for an event are its own destination and the other true
    destinations *of the same source at the same time*, as in the Temporal Graph Benchmark; not those of other times.

    Args:
        log: where destinations come from; usually all events up to the part's end.
        part: what is ranked.
        how_many: `"all"`, or a number of distinct ones for each event (all, where there are fewer).
        seed: of the sample; the same for every model.
    """

    def __init__(self, log: EventLog, part: EventLog, how_many: int | str, seed: int = 0):
        if how_many != "all" and (not isinstance(how_many, int) or how_many < 1):
            raise BadInput(f"rank={how_many!r}; it is 'all' or a number of destinations, at least 1.")
        self.pool = destinations(log)
        self.events = scored_events(part)
        self.count = len(self.pool) if how_many == "all" else min(int(how_many), len(self.pool))
        self.seed = [seed, part.first, self.count]
        # true destinations of each (source, time), by index in the pool; a part never cuts through simultaneous events
        order = np.lexsort((self.events.t, self.events.src))
        src, t = self.events.src[order], self.events.t[order]
        starts = np.flatnonzero(np.concatenate([[True], (src[1:] != src[:-1]) | (t[1:] != t[:-1])])[: len(order)])
        sizes = np.diff(np.append(starts, len(order)))
        group = np.empty(len(order), np.int64)
        group[order] = np.repeat(np.arange(len(starts)), sizes)
        self._start, self._size = starts[group], sizes[group]
        self._true = np.searchsorted(self.pool, self.events.dst[order])

    def __call__(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes (q, c) for the scored rows begin … end-1, and which of them count."""
        if self.count == len(self.pool):
            nodes = np.broadcast_to(self.pool, (end - begin, self.count))
            return nodes, ~self._is_true(begin, end)
        first = begin - begin % BLOCK
        blocks = [self._sample(start, min(start + BLOCK, len(self.events))) for start in range(first, end, BLOCK)]
        indices, valid = (np.concatenate(parts)[begin - first : end - first] for parts in zip(*blocks, strict=True))
        return self.pool[indices], valid

    def _is_true(self, begin: int, end: int) -> np.ndarray:  # (q, pool)
        mask = np.zeros((end - begin, len(self.pool)), bool)
        mask[self._true_indices(begin, end)] = True
        return mask

    def _true_indices(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        size = self._size[begin:end]
        row = np.repeat(np.arange(end - begin), size)
        within = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        return row, self._true[np.repeat(self._start[begin:end], size) + within]

    def _sample(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Distinct indices into the pool that are no true destination; masked where there are not enough."""
        rng = np.random.default_rng([*self.seed, begin])
        rows, pool = end - begin, len(self.pool)
        if 4 * self.count >= pool:
            keys = rng.random((rows, pool))
            keys[self._true_indices(begin, end)] = 2  # behind all others
            indices = np.argpartition(keys, self.count - 1, axis=1)[:, : self.count]
            return indices, np.take_along_axis(keys, indices, 1) < 2
        row, true = self._true_indices(begin, end)
        barred = np.unique(row * pool + true)
        indices = rng.integers(0, pool, (rows, self.count))
        for _ in range(200):
            again = np.isin(np.arange(rows)[:, None] * pool + indices, barred) | _repeats(indices)
            if not again.any():
                break
            indices[again] = rng.integers(0, pool, int(again.sum()))
        return indices, ~again


def _repeats(indices: np.ndarray) -> np.ndarray:
    """Which entries (q, c) occur earlier in their row."""
    order = np.argsort(indices, axis=1, kind="stable")
    ordered = np.take_along_axis(indices, order, 1)
    repeated = np.zeros(indices.shape, bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], 1)
    return repeated
