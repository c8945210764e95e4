"""Ids: the users' own ids and the node numbers 0 … n-1 that index arrays."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.columns import as_array, is_text, plain

SIDES = {"src": 0, "dst": 1}


class IdMap:
    """The users' id of every node, and back.

    `ids=None` means that node i is simply called i. In a log whose sources and destinations are two
    name spaces (`bipartite=True` on ingest), `side` says for each node which one it belongs to (0 source,
    1 destination), and the same id may stand once on each side. Immutable.
    """

    def __init__(self, ids: pa.Array | None = None, side: np.ndarray | None = None, size: int | None = None):
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        self.ids = ids
        self.side = None if side is None else np.ascontiguousarray(side, np.int8)
        self.size = len(ids) if ids is not None else int(size or 0)
        if self.side is not None and len(self.side) != self.size:
            raise BadInput(f"{self.size} ids but {len(self.side)} sides.")

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdMap) or len(self) != len(other):
            return False
        same_sides = other.side is None if self.side is None else np.array_equal(self.side, other.side)  # type: ignore[arg-type]
        return bool(same_sides) and self.decode().equals(other.decode())

    __hash__ = None  # type: ignore[assignment]

    @property
    def separate_namespaces(self) -> bool:
        """Whether sources and destinations are named independently."""
        return self.side is not None

    @property
    def type(self) -> pa.DataType:
        return pa.int64() if self.ids is None else self.ids.type

    @cached_property
    def marks(self) -> np.ndarray:
        """A hash (n,) of each node's id, which tells simultaneous events apart; empty where node i is called i."""
        from pintgn.events.kernels_order import NO_MARKS
        from pintgn.events.ties import id_marks

        if self.ids is None and self.side is None:
            return NO_MARKS
        return id_marks(self.decode(), self.side)

    def decode(self, nodes: Any = None) -> pa.Array:
        """The users' ids of these nodes (of all, in order, when none are named)."""
        if self.ids is None:
            return pa.array(np.arange(self.size) if nodes is None else np.asarray(nodes, np.int64))
        return self.ids if nodes is None else self.ids.take(pa.array(np.asarray(nodes, np.int64)))

    def encode(self, ids: Any, side: str | None = None, missing: str = "error") -> np.ndarray:
        """The node numbers of users' ids; unknown ones raise, or become -1 with `missing="mark"`."""
        values = self.as_ids(ids)
        numbers = self._lookup(values, side)
        if missing == "error" and (numbers < 0).any():
            unknown = values[int(np.argmin(numbers))].as_py()
            near = suggest(unknown, self.decode()[:50_000].to_pylist()) if isinstance(unknown, str) else ""
            raise UnknownName(f"node {unknown!r} is not in this log.{near}")
        return numbers

    def node(self, id: Any, side: str | None = None) -> int:
        """The number of one node."""
        return int(self.encode([id], side)[0])

    def as_ids(self, ids: Any) -> pa.Array:
        """Anything id-like as an Arrow array of this map's id type."""
        given: object = type(ids).__name__
        try:
            values = plain(ids if isinstance(ids, pa.Array | pa.ChunkedArray) else as_array(ids))
            given = values.type
            if isinstance(values, pa.ExtensionArray):  # UUIDs, which logs keep as text
                values = pa.array([None if one is None else str(one) for one in values.to_pylist()], pa.string())
            if not values.type.equals(self.type):
                if not pa.types.is_null(values.type) and _kind(values.type) != _kind(self.type):
                    raise pa.ArrowInvalid("different kinds of id")
                values = values.cast(self.type)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise BadInput(f"node ids of this log are {self.type}, given {given}. Pass ids of that type.") from error
        return values

    def _lookup(self, values: pa.Array, side: str | None) -> np.ndarray:
        if self.ids is None and not self.separate_namespaces:
            numbers = values.to_numpy(zero_copy_only=False).astype(np.int64)
            return np.where((numbers >= 0) & (numbers < self.size), numbers, -1)
        if side is not None and side not in SIDES:
            raise UnknownName(f"side {side!r} does not exist.{suggest(side, SIDES)}")
        if self.separate_namespaces and side is None:
            raise BadInput("this log has two name spaces; say side='src' or side='dst'.")
        value_set, numbers = self._spaces[SIDES[str(side)] if self.separate_namespaces else 0]
        found = pc.index_in(values, value_set=value_set).fill_null(-1).to_numpy().astype(np.int64)
        return np.where(found >= 0, numbers[found], -1) if len(numbers) else found

    @cached_property
    def _spaces(self) -> list[tuple[pa.Array, np.ndarray]]:
        everyone = np.arange(self.size)
        if self.side is None:
            return [(self.decode(), everyone)]
        return [(self.decode(everyone[self.side == s]), everyone[self.side == s]) for s in (0, 1)]


def _kind(kind: pa.DataType) -> str:
    """The kind of id in an Arrow type; widths do not matter."""
    if pa.types.is_integer(kind):
        return "whole number"
    return "text" if is_text(kind) else str(kind)
