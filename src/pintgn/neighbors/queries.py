"""The questions of one call, as the kernels take them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pintgn.neighbors import inputs

if TYPE_CHECKING:
    from pintgn.neighbors.index import NeighborIndex


class Query:
    """The questions of one call as flat arrays, checked, with the index's arrays beside them."""

    def __init__(
        self,
        index: NeighborIndex,
        nodes: ArrayLike,
        t: ArrayLike,
        before: ArrayLike | None,
        valid: ArrayLike | None,
        window: float | None,
    ) -> None:
        nodes = inputs.as_ids(nodes, "nodes")
        self.index = index
        self.shape = shape = nodes.shape
        self.nodes = inputs.flat(nodes)
        self.t, self.t_step = inputs.per_query(inputs.as_times(t, index._time), shape, "t")
        self.before, self.before_step = inputs.NO_GATE, 0
        if before is not None:
            numbers = inputs.as_ids(before, "before", what="event numbers")
            self.before, self.before_step = inputs.per_query(numbers, shape, "before")
        self.valid, self.valid_step = inputs.ALL_VALID, 0
        if valid is not None:
            self.valid, self.valid_step = inputs.per_query(inputs.as_mask(valid), shape, "valid")
        self.window = inputs.as_window(window, self.t.dtype)

    def arrays(self, *, with_ids: bool = True) -> tuple[Any, ...]:
        """The adjacency, and the largest time it can hold."""
        index = self.index
        times = index._times if index._times.dtype == self.t.dtype else np.empty(0, self.t.dtype)  # still empty
        ids = (index._ids,) if with_ids else ()
        return index._heads, *ids, times, index._numbers, inputs.LIMITS[self.t.dtype]

    def arguments(self, part: slice | None = None) -> tuple[Any, ...]:
        """The queries, or a part of them, in the order the kernels take them."""
        if part is None:
            return (
                self.nodes, self.t, self.t_step, self.before, self.before_step, self.valid, self.valid_step,
                *self.window,
            )  # fmt: skip
        return (
            self.nodes[part],
            *_part(self.t, self.t_step, part),
            *_part(self.before, self.before_step, part),
            *_part(self.valid, self.valid_step, part),
            *self.window,
        )

    def run(
        self, kernel: Any, threads: int, rows: tuple[np.ndarray, ...], keys: tuple[np.ndarray, int] | None = None
    ) -> None:
        """Answer all queries into `rows`, in contiguous parts when there are several threads."""
        arrays = self.arrays()

        def call(part: slice | None) -> int:
            if part is None:
                return kernel(*arrays, *self.arguments(), *(keys or ()), *rows)
            drawn = _part(*keys, part) if keys else ()
            return kernel(*arrays, *self.arguments(part), *drawn, *(row[part] for row in rows))

        self.check(inputs.in_threads(inputs.at_least(threads, 1, "threads"), self.nodes.size, call))

    def shaped(self, rows: tuple[np.ndarray, ...]) -> Iterator[np.ndarray]:
        """The answers with the leading shape of the asked nodes."""
        return (row.reshape(*self.shape, *row.shape[1:]) for row in rows)

    def check(self, place: int, *other_nodes: np.ndarray) -> None:
        """Say why a kernel stopped, if it did."""
        inputs.refuse_query(place, (self.nodes, *other_nodes), self.t, self.t_step)


def _part(array: np.ndarray, step: int, part: slice) -> tuple[np.ndarray, int]:
    return (array[part], step) if step else (array, step)
