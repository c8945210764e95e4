"""What is known about each node besides its newest contacts: since when, until when, how much; and its name."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from pintgn.events.log import EventLog
from pintgn.learn.names import Names

COLUMNS = ("first", "last", "degree")


class NodeTable:
    """First and last event and number of contacts of every node; kept although the index may forget old contacts."""

    def __init__(self, dtype: np.dtype):
        self.size = 0
        self.first, self.last = np.zeros(0, dtype), np.zeros(0, dtype)
        self.degree = np.zeros(0, np.int64)

    @classmethod
    def of(cls, log: EventLog) -> NodeTable:
        made = cls(log.t.dtype)
        made.meet(log.src, log.dst, log.t)
        return made

    def meet(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        """Events, in order of time. A self-loop is one contact."""
        if not len(t):
            return
        self._grow(int(max(src.max(), dst.max())) + 1)
        other = dst != src
        nodes = np.concatenate([src, dst[other]])
        when = np.concatenate([t, t[other]])
        order = np.argsort(when, kind="stable")
        nodes, when = nodes[order], when[order]
        fresh = self.degree[nodes] == 0
        strangers, rows = np.unique(nodes[fresh], return_index=True)
        self.first[strangers] = when[fresh][rows]
        self.last[nodes] = when  # of several, the last one stays
        np.add.at(self.degree, nodes, 1)

    def _grow(self, size: int) -> None:
        self.size = max(self.size, size)
        if size > len(self.degree):
            for name in COLUMNS:
                column = getattr(self, name)
                grown = np.zeros(max(size, 2 * len(column)), column.dtype)
                grown[: len(column)] = column
                setattr(self, name, grown)

    def known(self, node: int) -> bool:
        return bool(node < len(self.degree) and self.degree[node] > 0)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name)[: self.size].copy() for name in COLUMNS}

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray]) -> NodeTable:
        made = cls(arrays["first"].dtype)
        made.first, made.last, made.degree = (arrays[name].copy() for name in COLUMNS)
        made.size = len(made.degree)
        return made


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
        for place in range(bisect.bisect_left(self._sorted, (wanted, -1)), len(self._sorted)):
            text, number = self._sorted[place]
            if not text.startswith(wanted) or len(found) >= limit:
                break
            found[ids[number]] = None
        return list(found)
