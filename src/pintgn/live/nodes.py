"""Node table: first and last event and number of contacts of each node; destinations; search of ids."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from pintgn.events.columns import Growing
from pintgn.events.log import EventLog
from pintgn.live.names import Names

COLUMNS = ("first", "last", "degree")


class NodeTable:
    """First and last event and number of contacts of every node; kept although the index may forget old contacts."""

    def __init__(self, dtype: np.dtype):
        self.first, self.last, self.degree = Growing(dtype), Growing(dtype), Growing(np.int64)

    @classmethod
    def of(cls, log: EventLog) -> NodeTable:
        made = cls(log.t.dtype)
        made.observe(log.src, log.dst, log.t)
        return made

    def observe(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        """Events, in order of time. A self-loop is one contact."""
        if not len(t):
            return
        more = int(max(src.max(), dst.max())) + 1 - len(self.degree)
        if more > 0:
            for column in (self.first, self.last, self.degree):
                column.allocate(more)[:] = 0
        keep = np.ones(2 * len(t), bool)
        keep[1::2] = src != dst
        nodes, when = np.stack([src, dst], 1).ravel()[keep], np.repeat(t, 2)[keep]
        fresh = self.degree[nodes] == 0
        self.first.values[nodes[fresh][::-1]] = when[fresh][::-1]  # of several, the last one stays: the earliest
        self.last.values[nodes] = when
        np.add.at(self.degree.values, nodes, 1)

    def known(self, node: int) -> bool:
        return bool(node < len(self.degree) and self.degree[node] > 0)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name).values.copy() for name in COLUMNS}

    @classmethod
    def restore(cls, arrays: dict[str, np.ndarray]) -> NodeTable:
        made = cls(arrays["first"].dtype)
        for name in COLUMNS:
            getattr(made, name).extend(arrays[name])
        return made


class Destinations:
    """Destinations in the order in which they were first met."""

    def __init__(self) -> None:
        self._met, self._is_met = Growing(np.int64), np.zeros(0, bool)

    def __len__(self) -> int:
        return len(self._met)

    @property
    def values(self) -> np.ndarray:
        """Node numbers."""
        return self._met.values

    def observe(self, dst: np.ndarray, learnable: np.ndarray, nodes: int) -> np.ndarray:  # (e,)
        """Add those of learnable events; returns how many had been met before each event. `nodes` is how many nodes
        there are."""
        if len(self._is_met) < nodes:
            self._is_met = np.concatenate([self._is_met, np.zeros(2 * nodes - len(self._is_met), bool)])
        new = learnable & ~self._is_met[dst]
        before = np.full(len(dst), len(self._met))
        if new.any():
            rows = np.flatnonzero(new)
            new[:] = False
            new[rows[np.unique(dst[rows], return_index=True)[1]]] = True
            before += np.cumsum(new) - new
            self._met.extend(dst[new])
            self._is_met[dst[new]] = True
        return before


class Search:
    """Ids by how they begin, whatever their case; sorted on demand, so that observing costs nothing."""

    def __init__(self, names: Names):
        self.names, self._taken = names, 0
        self._sorted: list[tuple[str, int]] = []

    def __call__(self, prefix: str, limit: int) -> list[Any]:
        """Up to `limit` ids that begin with the prefix, in order; each once."""
        ids = self.names.ids
        if self._taken < len(ids):
            new = [(str(ids[k]).casefold(), k) for k in range(self._taken, len(ids))]
            self._sorted = sorted(self._sorted + new)  # nearly sorted already: one merge
            self._taken += len(new)
        wanted = prefix.casefold()
        found: dict[Any, None] = {}
        for k in range(bisect.bisect_left(self._sorted, (wanted, -1)), len(self._sorted)):
            text, number = self._sorted[k]
            if not text.startswith(wanted) or len(found) >= limit:
                break
            found[ids[number]] = None
        return list(found)
