"""What became known about sources, destinations and pairs, and when: look-ups as of any time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from pintgn.neighbors import kernels_targets as kernels

CHAINS = ("src", "dst", "pair")


@dataclass
class TargetHistory:
    """What was known about the source, the destination and the pair of each query; zeros where nothing was."""

    count: np.ndarray  # (q, 3) int64, values known
    dt: np.ndarray  # (q, 3) float64, time since the last became known
    mean: np.ndarray  # (q, 3, c) float64
    last: np.ndarray  # (q, 3, c) of those that became known last, at one moment


class TargetIndex:
    """Values that become known about events, each at its own time; a look-up at t finds those strictly before t.

    They may be added in any order of the times at which they become known. The values of events are also kept by
    event number, for whoever looks at single events.

    Args:
        width: columns of a value.
        dtype: of times.
    """

    def __init__(self, width: int, dtype: np.dtype):
        self.width = width
        self.used = self.pairs = 0
        self.heads = {"src": np.full(16, -1), "dst": np.full(16, -1), "pair": np.full(32, -1)}
        self.keys = np.full((32, 2), -1)
        self.times = np.zeros(64, dtype)
        self.before, self.counts = np.full(64, -1), np.zeros(64, np.int64)
        self.sums = np.zeros((64, width))

    def add(self, src: np.ndarray, dst: np.ndarray, when: np.ndarray, values: np.ndarray) -> None:
        """Let values (e, c) of events become known, each at its time."""
        if not len(src):
            return
        self._reserve(int(src.max()) + 1, int(dst.max()) + 1, len(src))
        heads = self.heads
        self.used, self.pairs = kernels.add(
            src, dst, when.astype(self.times.dtype), values.astype(np.float64), heads["src"], heads["dst"], self.keys,
            heads["pair"], self.times, self.before, self.counts, self.sums, self.used, self.pairs,
        )  # fmt: skip

    def look_up(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> TargetHistory:
        """What was known strictly before t about each source, destination and pair."""
        shape, heads = (len(src), len(CHAINS)), self.heads
        found = TargetHistory(
            np.zeros(shape, np.int64),
            np.zeros(shape),
            np.zeros((*shape, self.width)),
            np.zeros((*shape, self.width)),
        )
        kernels.look_up(
            src, dst, t.astype(self.times.dtype), heads["src"], heads["dst"], self.keys, heads["pair"], self.times,
            self.before, self.counts, self.sums, found.count, found.dt, found.mean, found.last,
        )  # fmt: skip
        return found

    def chain(self, which: str, src: int, dst: int) -> Chain:
        """All that ever became known about a source, a destination or a pair, oldest moment first."""
        at = {"src": src, "dst": dst}.get(which)
        if at is None:
            found = np.flatnonzero((self.keys[:, 0] == src) & (self.keys[:, 1] == dst))
            at = int(found[0]) if len(found) else len(self.keys)
        entry, rows = int(self.heads[which][at]) if at < len(self.heads[which]) else -1, []
        while entry >= 0:
            rows.append(entry)
            entry = int(self.before[entry])
        return Chain(self.times[rows[::-1]], self.counts[rows[::-1]], self.sums[rows[::-1]])

    def fork(self) -> TargetIndex:
        """An independent copy."""
        other = copy.copy(self)
        other.heads = {name: column.copy() for name, column in self.heads.items()}
        for name in ("keys", "times", "before", "counts", "sums"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, for saving."""
        entries = {name: getattr(self, name)[: self.used] for name in ("times", "before", "counts", "sums")}
        return {f"heads.{name}": column for name, column in self.heads.items()} | {"keys": self.keys} | entries

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> TargetIndex:
        """What `arrays` gave."""
        found = cls(arrays["sums"].shape[1], arrays["times"].dtype)
        found.heads = {name: arrays[f"heads.{name}"].copy() for name in CHAINS}
        for name in ("keys", "times", "before", "counts", "sums"):
            setattr(found, name, arrays[name].copy())
        found.used, found.pairs = len(found.times), int((found.keys[:, 0] >= 0).sum())
        return found

    def _reserve(self, sources: int, destinations: int, events: int) -> None:
        for name, needed in (("src", sources), ("dst", destinations)):
            self.heads[name] = _grown(self.heads[name], needed, -1)
        for name in ("times", "before", "counts", "sums"):
            setattr(self, name, _grown(getattr(self, name), self.used + 3 * events, -1 if name == "before" else 0))
        size = len(self.keys)
        while size < 2 * (self.pairs + events):
            size *= 2
        if size > len(self.keys):
            keys, heads = np.full((size, 2), -1), np.full(size, -1)
            kernels.rehash(self.keys, self.heads["pair"], keys, heads)
            self.keys, self.heads["pair"] = keys, heads


@dataclass
class Chain:
    """Moments at which values became known, how many there were by the end of each, and their sum."""

    times: np.ndarray  # (m,)
    counts: np.ndarray  # (m,)
    sums: np.ndarray  # (m, c)

    def without(self, when: np.ndarray, values: np.ndarray) -> Chain:
        """As if some values (e, c), which became known at these times, never had."""
        if not len(when):
            return self
        moments = np.searchsorted(self.times, when)
        fewer, less = np.zeros(len(self.times), np.int64), np.zeros(self.sums.shape)
        np.add.at(fewer, moments, 1)
        np.add.at(less, moments, values)
        counts = self.counts - fewer.cumsum()
        stays = np.diff(counts, prepend=0) > 0
        return Chain(self.times[stays], counts[stays], (self.sums - less.cumsum(0))[stays])

    def as_of(self, t: np.ndarray) -> tuple[np.ndarray, ...]:
        """Count, time since the last, mean and last value strictly before each time, as `TargetHistory` has them."""
        at = np.searchsorted(self.times, t, "left")
        there, rows = at > 0, np.maximum(at - 1, 0)
        if not there.any():
            nothing = np.zeros((len(t), self.sums.shape[1]))
            return np.zeros(len(t), np.int64), np.zeros(len(t)), nothing, nothing
        older = np.maximum(rows - 1, 0)
        fresh = self.counts[rows] - np.where(rows > 0, self.counts[older], 0)
        last = (self.sums[rows] - np.where((rows > 0)[:, None], self.sums[older], 0)) / fresh[:, None]
        mean = self.sums[rows] / self.counts[rows][:, None]
        count, dt = np.where(there, self.counts[rows], 0), np.where(there, t - self.times[rows], 0)
        return count, dt.astype(np.float64), mean * there[:, None], last * there[:, None]


@dataclass
class FewTargets:
    """What a `TargetIndex` knows about one source, one destination and their pair: answers look-ups about these."""

    chains: tuple[Chain, ...]  # in the order of CHAINS

    @classmethod
    def of(cls, index: TargetIndex, src: int, dst: int) -> FewTargets:
        return cls(tuple(index.chain(which, src, dst) for which in CHAINS))

    def look_up(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> TargetHistory:
        """As `TargetIndex.look_up`; all queries are about the one pair."""
        parts = zip(*(chain.as_of(t) for chain in self.chains), strict=True)
        return TargetHistory(*(np.stack(part, 1) for part in parts))


def _grown(array: np.ndarray, rows: int, fill: Any) -> np.ndarray:
    """At least so many rows, at amortised constant cost."""
    if rows <= len(array):
        return array
    grown = np.full((max(rows, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    grown[: len(array)] = array
    return grown
