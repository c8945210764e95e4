"""Users' own ids and node numbers, growing while new ids come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.events.columns import Growing
from pintgn.events.ids import IdMap
from pintgn.events.ties import id_marks


class Names:
    """The id of every node and back; a look-up costs the same however many there are.

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
        """Node numbers. An id never seen before is a new node: it gets a number of its own for this one question."""
        known, ids = self.numbers[side], list(ids)
        found: list[Any] = list(map(known.get, ids))
        if None not in found:
            return np.array(found, np.int64)
        strangers: dict[Any, int] = {}
        found = [known[id] if id in known else strangers.setdefault(id, len(self.ids) + len(strangers)) for id in ids]
        return np.array(found, np.int64)

    def find_pairs(
        self, src: list[Any], dst: list[Any], turned: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of both ends; one stranger at both ends is one node, unless the sides are named apart. Pairs that are
        `turned` (q,) go from a destination to a source."""
        if turned is not None and turned.any() and self.separate_namespaces:
            back = turned.tolist()
            acting = [there if b else here for here, there, b in zip(src, dst, back, strict=True)]
            acted_on = [here if b else there for here, there, b in zip(src, dst, back, strict=True)]
            one, other = self.find_pairs(acting, acted_on)
            return np.where(turned, other, one), np.where(turned, one, other)
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
        """The number of one node, which is new where its id is."""
        known = self.numbers[side]
        if id not in known:
            known[id] = len(self.ids)
            self.ids.append(id)
            if self.separate_namespaces:
                self.sides.append(side)
        return known[id]

    @property
    def marks(self) -> np.ndarray:
        """As `IdMap.marks`, of all names so far."""
        known = len(self._marks)
        if known < len(self.ids):
            sides = np.array(self.sides[known:], np.int8) if self.separate_namespaces else None
            self._marks.extend(id_marks(pa.array(self.ids[known:], self.type), sides))
        return self._marks.values

    def id_map(self) -> IdMap:
        """All names, as logs keep them."""
        return IdMap(pa.array(self.ids, self.type), np.array(self.sides, np.int8) if self.separate_namespaces else None)
