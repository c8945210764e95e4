"""How often, and with which values, sources, destinations and pairs had events: as of any time, within any window."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pintgn.neighbors import kernels_sums as kernels
from pintgn.neighbors.kernels_sums import ANY, FREE

CHAINS = ("u", "v", "u to v", "all", "u as destination", "v as source", "v to u")
"""Whose events: of the source u as a source, of the destination v as a destination, of the pair, of everyone; and of
both in the other role."""
NO_WINDOWS = np.zeros(0)


@dataclass
class Sums:
    """What was known of each query's chains; zeros where nothing was. Windows come first, then what was ever known."""

    count: np.ndarray  # (q, chains, windows + 1) int64
    dt: np.ndarray  # (q, chains) float64, time since the last
    sums: np.ndarray  # (q, chains, windows + 1, 2c) float64, of values, then of their squares
    last: np.ndarray  # (q, chains, newest, c) float64, means of the newest few moments

    @property
    def mean(self) -> np.ndarray:  # (q, chains, c)
        """Of what was ever known."""
        return self.sums[:, :, -1, : self.last.shape[-1]] / np.maximum(self.count[:, :, -1, None], 1)

    @classmethod
    def zeros(cls, queries: int, chains: int, windows: int, newest: int, width: int) -> Sums:
        shape = (queries, chains, windows + 1)
        last = np.zeros((queries, chains, newest, width))
        return cls(np.zeros(shape, np.int64), np.zeros(shape[:2]), np.zeros((*shape, 2 * width)), last)


class RunningSums:
    """Values that happen, or become known, each at its own time; a look-up at t finds those strictly before t.

    They may be added in any order of their times. A window of length w holds the times from t - w on. Sums are exact:
    they depend neither on the order nor on batches.

    Args:
        width: columns of a value.
        dtype: of times.
    """

    def __init__(self, width: int, dtype: np.dtype):
        self.width = width
        self.used = self.filled = 0
        self.keys, self.lists = np.full((16, 2), FREE), np.zeros((16, 3), np.int64)
        self.pieces = np.full(64, -1)  # of each size, the first that is free; its count is the next
        self.times, self.counts = np.zeros(16, dtype), np.zeros(16, np.int64)
        self.sums = np.zeros((16, 2 * width))

    def add(self, src: np.ndarray, dst: np.ndarray, when: np.ndarray, values: np.ndarray) -> None:
        """Let values (e, c) of events become known, each at its time."""
        when, values, done = when.astype(self.times.dtype), values.astype(np.float64), 0
        while True:
            done, self.used, self.filled = kernels.add(
                src, dst, when, values, self.keys, self.lists, self.pieces, self.times, self.counts, self.sums, done,
                self.used, self.filled,
            )  # fmt: skip
            if done == len(src):
                return
            self._grow()

    def look_up(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        t: np.ndarray,
        windows: np.ndarray = NO_WINDOWS,
        newest: Sequence[int] = (1,),
        chains: Sequence[int] = (0, 1, 2),
    ) -> Sums:
        """What was known strictly before t of each source and destination, by chains of `CHAINS`."""
        found, dtype = Sums.zeros(len(src), len(chains), len(windows), len(newest), self.width), self.times.dtype
        kernels.look_up(
            src, dst, t.astype(dtype), windows.astype(dtype), np.array(newest), np.array(chains), self.keys, self.lists,
            self.times, self.counts, self.sums, found.count, found.dt, found.sums, found.last,
        )  # fmt: skip
        return found

    def chain(self, number: int, src: int, dst: int) -> Chain:
        """A whole chain of `CHAINS` of a source and a destination."""
        key = ((src, ANY), (ANY, dst), (src, dst), (ANY, ANY), (ANY, src), (dst, ANY), (dst, src))[number]
        slot = np.flatnonzero((self.keys == key).all(1))
        begin, used, _ = self.lists[slot[0]] if len(slot) else (0, 0, 0)
        rows = slice(begin, begin + used)
        return Chain(self.times[rows], self.counts[rows], self.sums[rows])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(column.nbytes for column in (self.keys, self.lists, self.times, self.counts, self.sums))

    def fork(self) -> RunningSums:
        """An independent copy."""
        other = copy.copy(self)
        for name in ("keys", "lists", "pieces", "times", "counts", "sums"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, for saving."""
        entries = {name: getattr(self, name)[: self.used] for name in ("times", "counts", "sums")}
        return {"keys": self.keys, "lists": self.lists, "pieces": self.pieces} | entries

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> RunningSums:
        """What `arrays` gave."""
        found = cls(arrays["sums"].shape[1] // 2, arrays["times"].dtype)
        for name, column in arrays.items():
            setattr(found, name, column.copy())
        found.used, found.filled = len(found.times), int((found.keys[:, 0] != FREE).sum())
        return found

    def _grow(self) -> None:
        """Twice as many slots if they are half full; otherwise a quarter more entries."""
        if 2 * (self.filled + 4) > len(self.keys):
            keys, lists = np.full((2 * len(self.keys), 2), FREE), np.zeros((2 * len(self.keys), 3), np.int64)
            kernels.rehash(self.keys, self.lists, keys, lists)
            self.keys, self.lists = keys, lists
            return
        for name in ("times", "counts", "sums"):
            column = getattr(self, name)
            grown = np.zeros((len(column) + len(column) // 4 + 16, *column.shape[1:]), column.dtype)
            grown[: self.used] = column[: self.used]
            setattr(self, name, grown)


@dataclass
class Chain:
    """Moments, the oldest first; how many values there were by the end of each, and their sums."""

    times: np.ndarray  # (m,)
    counts: np.ndarray  # (m,)
    sums: np.ndarray  # (m, 2c)

    def without(self, when: np.ndarray, values: np.ndarray) -> Chain:
        """As if some values (e, c), at these times, had never been added."""
        if not len(when):
            return self
        moments, steps, values = np.searchsorted(self.times, when), kernels.STEPS, values.astype(np.float64)
        fewer, less = np.zeros(len(self.times), np.int64), np.zeros(self.sums.shape)
        np.add.at(fewer, moments, 1)
        np.add.at(less, moments, np.rint(np.concatenate([values, values**2], 1) * steps) / steps)
        counts = self.counts - fewer.cumsum()
        stays = np.diff(counts, prepend=0) > 0
        return Chain(self.times[stays], counts[stays], (self.sums - less.cumsum(0))[stays])


@dataclass
class FewSums:
    """What `RunningSums` knows of one source and one destination: answers look-ups about these."""

    src: int
    dst: int
    chains: list[Chain]  # by the numbers of CHAINS

    @classmethod
    def of(cls, index: RunningSums, src: int, dst: int) -> FewSums:
        return cls(src, dst, [index.chain(number, src, dst) for number in range(len(CHAINS))])

    def without(self, src: np.ndarray, dst: np.ndarray, when: np.ndarray, values: np.ndarray) -> FewSums:
        """As if some values (e, c) of events had never been added."""
        u, v = self.src, self.dst
        theirs = (src == u, dst == v, (src == u) & (dst == v), np.ones(len(src), bool), dst == u, src == v)
        rows = (*theirs, (src == v) & (dst == u))
        chains = zip(self.chains, rows, strict=True)
        return FewSums(u, v, [chain.without(when[mine], values[mine]) for chain, mine in chains])

    def look_up(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        t: np.ndarray,
        windows: np.ndarray = NO_WINDOWS,
        newest: Sequence[int] = (1,),
        chains: Sequence[int] = (0, 1, 2),
    ) -> Sums:
        """As `RunningSums.look_up`; all queries are about the one pair."""
        width = self.chains[0].sums.shape[1] // 2
        found = Sums.zeros(len(t), len(chains), len(windows), len(newest), width)
        for at, number in enumerate(chains):
            chain = self.chains[number]
            counts = np.append(chain.counts, 0)  # before the first moment there is nothing: row -1
            sums = np.concatenate([chain.sums, np.zeros((1, 2 * width))])
            end = np.searchsorted(chain.times, t, "left")
            some = end > 0
            if not some.any():
                continue
            found.dt[some, at] = t[some] - chain.times[end[some] - 1]
            starts = [np.searchsorted(chain.times, t - w.astype(t.dtype), "left") for w in windows]
            for w, begin in enumerate([*starts, np.zeros(len(t), np.int64)]):
                found.count[:, at, w] = counts[end - 1] - counts[begin - 1]
                found.sums[:, at, w] = sums[end - 1] - sums[begin - 1]
            for k, moments in enumerate(newest):
                begin = np.maximum(end - moments, 0)
                few, total = counts[end - 1] - counts[begin - 1], sums[end - 1] - sums[begin - 1]
                found.last[some, at, k] = total[some, :width] / few[some, None]
        return found
