"""The nodes of a live state: ids and numbers, first and last event, contacts, destinations, search, notes."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.events.columns import Growing
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.ties import id_marks

COLUMNS = ("first", "last", "degree")


class Names:
    """Ids and numbers of all nodes; a look-up costs the same however many there are.

    Where sources and destinations are separate namespaces, `side` is 0 for sources and 1 for destinations.
    """

    def __init__(self, ids: IdMap):
        self.type, self.separate_namespaces = ids.type, ids.separate_namespaces
        self.ids: list[Any] = ids.decode().to_pylist()
        self.sides: list[int] = [] if ids.side is None else ids.side.tolist()
        src: dict[Any, int] = {}
        self.numbers = (src, {} if self.separate_namespaces else src)  # by side
        for number, (id, side) in enumerate(zip(self.ids, self.sides or repeat(0), strict=False)):
            self.numbers[side][id] = number
        self._marks = Growing(np.uint64)

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, ids: Iterable[Any], side: int) -> np.ndarray:
        """Node numbers. An unknown id gets a number of its own for this query."""
        known, ids = self.numbers[side], list(ids)
        found: list[Any] = list(map(known.get, ids))
        if None not in found:
            return np.array(found, np.int64)
        strangers: dict[Any, int] = {}
        found = [known[id] if id in known else strangers.setdefault(id, len(self.ids) + len(strangers)) for id in ids]
        return np.array(found, np.int64)

    def find_pairs(
        self, src: list[Any], dst: list[Any], inverted: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of both ends; an unknown id at both ends is one node, unless the sides have separate namespaces.
        Pairs that are `inverted` (q,) go from a destination to a source."""
        if inverted is not None and inverted.any() and self.separate_namespaces:
            back = inverted.tolist()
            acting = [there if b else here for here, there, b in zip(src, dst, back, strict=True)]
            acted_on = [here if b else there for here, there, b in zip(src, dst, back, strict=True)]
            one, other = self.find_pairs(acting, acted_on)
            return np.where(inverted, other, one), np.where(inverted, one, other)
        if not self.separate_namespaces:
            both = self.find([*src, *dst], 0)
            return both[: len(src)], both[len(src) :]
        one, other = self.find(src, 0), self.find(dst, 1)
        other[other >= len(self.ids)] += max(int(one.max(initial=0)) + 1 - len(self.ids), 0)
        return one, other

    def add_pairs(self, src: list[Any], dst: list[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Node numbers of the ends of events; new ids become nodes, in order, src before dst."""
        one, other = list(map(self.numbers[0].get, src)), list(map(self.numbers[1].get, dst))
        if None in one or None in other:
            for row in [row for row, ends in enumerate(zip(one, other, strict=True)) if None in ends]:
                one[row], other[row] = self.add(src[row], 0), self.add(dst[row], 1)
        return np.array(one, np.int64), np.array(other, np.int64)

    def add(self, id: Any, side: int = 0) -> int:
        """The number of one node; an unknown id becomes a new node."""
        known = self.numbers[side]
        if id not in known:
            known[id] = len(self.ids)
            self.ids.append(id)
            if self.separate_namespaces:
                self.sides.append(side)
        return known[id]

    @property
    def marks(self) -> np.ndarray:
        """`IdMap.marks` of all nodes so far."""
        known = len(self._marks)
        if known < len(self.ids):
            sides = np.array(self.sides[known:], np.int8) if self.separate_namespaces else None
            self._marks.extend(id_marks(pa.array(self.ids[known:], self.type), sides))
        return self._marks.values

    def id_map(self) -> IdMap:
        """All names, as logs keep them."""
        return IdMap(pa.array(self.ids, self.type), np.array(self.sides, np.int8) if self.separate_namespaces else None)


class NodeTable:
    """First and last event and number of contacts of every node, also of contacts that the index has forgotten."""

    def __init__(self, dtype: np.dtype):
        self.first, self.last, self.degree = Growing(dtype), Growing(dtype), Growing(np.int64)

    @classmethod
    def of(cls, log: EventLog) -> NodeTable:
        made = cls(log.t.dtype)
        made.observe(log.src, log.dst, log.t)
        return made

    def observe(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        """Observe events, in order of time. A self-loop is one contact."""
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
    """Destinations in the order of their first event, and the time of the first self-loop."""

    def __init__(self) -> None:
        self._met, self._is_met = Growing(np.int64), np.zeros(0, bool)
        self.clock: Any = None
        self.settled = 0  # how many were met before the clock: simultaneous events do not see each other
        self.first_loop: Any = None

    def __len__(self) -> int:
        return len(self._met)

    @property
    def values(self) -> np.ndarray:
        """Node numbers."""
        return self._met.values

    def as_of(self, at: Any) -> np.ndarray:
        """Node numbers of those met before a time, which is not before the clock."""
        return self.values if self.clock is None or at > self.clock else self.values[: self.settled]

    def loops_before(self, at: Any) -> bool:
        """True if there was a self-loop before a time."""
        return self.first_loop is not None and bool(self.first_loop < at)

    def observe(
        self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, learnable: np.ndarray, nodes: int
    ) -> np.ndarray:  # (e,)
        """Learnable events happen, in order of time; returns how many destinations had been met before each. `nodes` is
        how many nodes there are."""
        if self.first_loop is None and (loops := np.flatnonzero((src == dst) & learnable)).size:
            self.first_loop = t[loops[0]].item()
        before = self._add(dst, learnable, nodes)
        newest = int(np.searchsorted(t, t[-1])) if len(t) else 0  # the first event of the last group
        if newest or (len(t) and t[0] != self.clock):
            self.settled, self.clock = int(before[newest]), t[-1].item()
        return before

    def restore(self, met: np.ndarray, nodes: int, settled: int | None, clock: Any, first_loop: Any) -> None:
        """Those of a snapshot, which may lack how many were settled: then all are."""
        self._add(met, np.ones(len(met), bool), nodes)
        self.settled, self.clock, self.first_loop = len(self) if settled is None else settled, clock, first_loop

    def _add(self, dst: np.ndarray, learnable: np.ndarray, nodes: int) -> np.ndarray:  # (e,)
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
    """Search of ids by prefix, ignoring case; sorted on demand, so that observing costs nothing."""

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


def note_words(unknown_src: np.ndarray, unknown_dst: np.ndarray, about_run: str = "") -> list[str]:
    """Notes on each row: ids never seen, and the status of the run; empty for most."""
    words = [
        ", ".join(filter(None, ("unknown src" * src, "unknown dst" * dst, about_run)))
        for src in (False, True)
        for dst in (False, True)
    ]
    return [words[k] for k in (2 * unknown_src + unknown_dst).tolist()]
