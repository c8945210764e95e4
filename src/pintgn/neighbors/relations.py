"""Relation index: how often and how recently a triple, a node with a relation, or the relation occurred before any
time."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pintgn.neighbors import kernels_relations as kernels

LEVELS = ("triple", "near", "far", "relation")
"""Of a question (u, relation, v): the triple itself, u with the relation, v with its inverse, the relation anywhere."""
ENTRIES = ("times", "before", "counts", "partners")


@dataclass
class RelationHistory:
    """History by relation before each question, by `LEVELS`; zeros where there is none."""

    count: np.ndarray  # (q, 4) float64, events
    dt: np.ndarray  # (q, 4) time since the last
    newest: np.ndarray  # (q, 4) events at that last moment
    partners: np.ndarray  # (q, 4) distinct other ends; of a relation, distinct triples


class RelationIndex:
    """Events with relations, each at its time; a look-up at t finds those strictly before t.

    Relations are numbers below `kinds`; a question may name r + kinds, the inverse: (v, r + kinds, u) asks what
    (u, r, v) says. Events are added in order of time.

    >>> index = RelationIndex(2, np.dtype(np.int64))
    >>> index.add(np.array([0, 0]), np.array([1, 1]), np.array([5, 6]), np.array([10, 20]))
    >>> found = index.look_up(np.array([0, 5]), np.array([1, 3]), np.array([5, 0]), np.array([21, 20]))
    >>> found.count[:, :3].tolist(), found.dt[:, 0].tolist()
    ([[1.0, 2.0, 1.0], [1.0, 1.0, 1.0]], [11.0, 10.0])

    Args:
        kinds: how many relations there are.
        dtype: of times.
    """

    def __init__(self, kinds: int, dtype: np.dtype):
        self.kinds = kinds
        self.used = self.filled = 0
        self.keys, self.heads = np.full((64, 3), kernels.FREE), np.full(64, -1)
        self.times = np.zeros(64, dtype)
        self.before, self.counts, self.partners = np.full(64, -1), np.zeros(64, np.int64), np.zeros(64, np.int64)

    def add(self, src: np.ndarray, relation: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        """Append events."""
        if not len(src):
            return
        self._reserve(4 * len(src))
        self.used, self.filled = kernels.add(
            src, relation, dst, t.astype(self.times.dtype, copy=False), self.kinds, self.keys, self.heads, self.times,
            self.before, self.counts, self.partners, self.used, self.filled,
        )  # fmt: skip

    def look_up(self, u: np.ndarray, relation: np.ndarray, v: np.ndarray, t: np.ndarray) -> RelationHistory:
        """History strictly before t; all arguments are (q,)."""
        found = RelationHistory(*(np.empty((len(u), len(LEVELS))) for _ in range(4)))
        kernels.look_up(
            u, relation, v, t.astype(self.times.dtype, copy=False), self.kinds, self.keys, self.heads, self.times,
            self.before, self.counts, self.partners, found.count, found.dt, found.newest, found.partners,
        )  # fmt: skip
        return found

    def moments(self, a: int, relation: int, b: int) -> Iterator[tuple[Any, int]]:
        """Moments of a key, the newest first, and the number of events at each; keys are those of the kernels."""
        entry = int(kernels.head_of(self.keys, self.heads, a, relation, b))
        while entry >= 0:
            older = int(self.before[entry])
            yield self.times[entry], int(self.counts[entry]) - (int(self.counts[older]) if older >= 0 else 0)
            entry = older

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(getattr(self, name).nbytes for name in ("keys", "heads", *ENTRIES))

    def fork(self) -> RelationIndex:
        """An independent copy."""
        other = copy.copy(self)
        for name in ("keys", "heads", *ENTRIES):
            setattr(other, name, getattr(self, name).copy())
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, for saving."""
        entries = {name: getattr(self, name)[: self.used] for name in ENTRIES}
        return {"keys": self.keys, "heads": self.heads} | entries

    @classmethod
    def of_arrays(cls, kinds: int, arrays: dict[str, np.ndarray]) -> RelationIndex:
        """Restore from `arrays`."""
        found = cls(kinds, arrays["times"].dtype)
        for name in ("keys", "heads", *ENTRIES):
            setattr(found, name, arrays[name].copy())
        found.used, found.filled = len(found.times), int((found.keys[:, 0] != kernels.FREE).sum())
        return found

    def _reserve(self, more: int) -> None:
        for name in ENTRIES:
            setattr(self, name, _grown(getattr(self, name), self.used + more, -1 if name == "before" else 0))
        size = len(self.keys)
        while size < 2 * (self.filled + more):
            size *= 2
        if size > len(self.keys):
            keys, heads = np.full((size, 3), kernels.FREE), np.full(size, -1)
            kernels.rehash(self.keys, self.heads, keys, heads)
            self.keys, self.heads = keys, heads


@dataclass
class RelationsWithout:
    """A `RelationIndex` without some of its events, or without their relations: answers look-ups about one question."""

    whole: RelationIndex
    src: np.ndarray  # of the events that are missing
    relation: np.ndarray
    dst: np.ndarray
    t: np.ndarray

    @property
    def kinds(self) -> int:
        return self.whole.kinds

    def look_up(self, u: np.ndarray, relation: np.ndarray, v: np.ndarray, t: np.ndarray) -> RelationHistory:
        """`RelationIndex.look_up`; all rows are the same question."""
        found = self.whole.look_up(u, relation, v, t)
        if not len(u):
            return found
        near, far, r = int(u[0]), int(v[0]), int(relation[0])
        back = r >= self.kinds
        inverse = r - self.kinds if back else r + self.kinds
        plain = min(r, inverse)
        gone = (self.t < t[0]) & (self.relation == plain)
        if not gone.any():
            return found
        src, dst = (far, near) if back else (near, far)
        here, there = (self.dst, self.src) if back else (self.src, self.dst)
        levels = (
            ((src, plain, dst), (self.src == src) & (self.dst == dst)),
            ((near, r, kernels.NONE), here == near),
            ((far, inverse, kernels.NONE), there == far),
            ((kernels.NONE, plain, kernels.NONE), np.ones(len(gone), bool)),
        )
        vanished = self._vanished(gone, plain, t[0])
        for level, (key, mine) in enumerate(levels):
            fewer = Counter(self.t[gone & mine].tolist())
            found.count[:, level] -= fewer.total()
            found.partners[:, level] -= (vanished & mine).sum() if level else 0
            past = ((when, count) for when, count in self.whole.moments(*key) if when < t[0])
            left = ((when, count - fewer[when.item()]) for when, count in past)
            when, newest = next(((when, count) for when, count in left if count), (t[0], 0))
            found.dt[:, level], found.newest[:, level] = t[0] - when, newest
        return found

    def _vanished(self, gone: np.ndarray, relation: int, t: Any) -> np.ndarray:  # (missing,) bool
        """One row of every triple that did not occur before t at all without what is gone."""
        rows = np.flatnonzero(gone)
        pairs, first, often = np.unique(
            np.stack([self.src[rows], self.dst[rows]]), axis=1, return_index=True, return_counts=True
        )
        asked = np.full(len(first), relation), np.full(len(first), t)
        found = self.whole.look_up(pairs[0].copy(), asked[0], pairs[1].copy(), asked[1])
        vanished = np.zeros(len(gone), bool)
        vanished[rows[first[found.count[:, 0] == often]]] = True
        return vanished


def _grown(array: np.ndarray, rows: int, fill: Any) -> np.ndarray:
    """At least so many rows, at amortised constant cost."""
    if rows <= len(array):
        return array
    grown = np.full(max(rows, 2 * len(array)), fill, array.dtype)
    grown[: len(array)] = array
    return grown
