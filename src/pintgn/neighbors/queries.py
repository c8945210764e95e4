"""The questions of one call: checked at this door, then trusted by every kernel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pintgn.errors import BadInput
from pintgn.neighbors import inputs
from pintgn.neighbors.adjacency import Adjacency


class NeighborQuery:
    """Flat arrays with one value per query, as the kernels take them. A node of -1 is not to be looked at."""

    def __init__(
        self,
        index: Adjacency,
        nodes: ArrayLike,
        t: ArrayLike,
        before: ArrayLike | None = None,
        valid: ArrayLike | None = None,
        window: float | None = None,
    ) -> None:
        nodes = inputs.as_ids(nodes, "nodes")
        self.shape = shape = nodes.shape
        self.nodes = inputs.flat(nodes)
        self.t = inputs.per_query(inputs.as_times(t, index.time), shape, "t")
        gates = inputs.NO_GATE if before is None else inputs.as_ids(before, "before", what="event numbers")
        self.before = inputs.per_query(gates, shape, "before")
        seen = None if valid is None else inputs.per_query(inputs.as_mask(valid), shape, "valid")
        self.check(self.nodes, seen)
        if seen is not None:
            self.nodes = np.where(seen, self.nodes, -1)
        self.window = inputs.as_window(window, self.t.dtype)
        times = index._times if index._times.dtype == self.t.dtype else np.empty(0, self.t.dtype)  # still empty
        self.adjacency = index._heads, index._ids, times, index._numbers

    @classmethod
    def of_pairs(
        cls, index: Adjacency, u: ArrayLike, v: ArrayLike, t: ArrayLike, before: ArrayLike | None
    ) -> tuple[Self, np.ndarray]:
        """Queries about u (as `nodes`) and v, which broadcast together; and v, flat."""
        u, v = inputs.as_ids(u, "u"), inputs.as_ids(v, "v")
        try:
            shape = np.broadcast_shapes(u.shape, v.shape)
        except ValueError:
            raise BadInput(f"u and v do not fit together: shapes {u.shape} and {v.shape}.") from None
        u, v = (ids if ids.shape == shape else np.broadcast_to(ids, shape) for ids in (u, v))
        query, v = cls(index, u, t, before), inputs.flat(v)
        query.check(v)
        return query, v

    def check(self, nodes: np.ndarray, valid: np.ndarray | None = None) -> None:
        """Refuse the first query about no node, or at no time."""
        limit = inputs.LIMITS[self.t.dtype]
        good = (nodes >= 0) & (self.t >= -limit) & (self.t <= limit)
        if valid is not None:
            good |= ~valid
        if good.all():
            return
        first = int(np.argmin(good))
        if (node := nodes[first]) < 0:
            raise BadInput(f"query {first} asks about node {node}; node ids are 0 or more. Mask it with valid=.")
        raise BadInput(f"query {first} has t={self.t[first]}; times must be finite and within ±{limit:.3g}.")

    def keys(self, keys: ArrayLike) -> np.ndarray:
        return inputs.per_query(inputs.as_keys(keys), self.shape, "keys")

    def run(self, kernel: Any, threads: int, rows: tuple[np.ndarray, ...], *keys: np.ndarray) -> None:
        """Answer all queries into `rows`, in contiguous parts when there are several threads.

        Plain threads over kernels that release the GIL: unlike Numba's own parallel loops these may run while another
        thread computes. Answers do not depend on the number of threads.
        """

        def call(part: slice) -> None:
            asked, drawn = (x[part] for x in (self.nodes, self.t, self.before)), (x[part] for x in (*keys, *rows))
            kernel(*self.adjacency, *asked, *self.window, *drawn)

        threads, total = inputs.at_least(threads, 1, "threads"), self.nodes.size
        if threads == 1 or total < 2 * threads:
            return call(slice(None))
        bounds = [total * i // threads for i in range(threads + 1)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(call, [slice(a, b) for a, b in pairwise(bounds)]))
