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


def _grown(array: np.ndarray, rows: int, fill: Any) -> np.ndarray:
    """At least so many rows, at amortised constant cost."""
    if rows <= len(array):
        return array
    grown = np.full((max(rows, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    grown[: len(array)] = array
    return grown
