"""What an index knows about two nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pintgn.errors import BadInput
from pintgn.neighbors import inputs, kernels_pairs
from pintgn.neighbors.queries import Query

if TYPE_CHECKING:
    from pintgn.neighbors.index import NeighborIndex

WAYS = ("u to v", "v to u", "u to anyone", "anyone to u", "v to anyone", "anyone to v")


class Last(NamedTuple):
    """The last event between two nodes: its time and event number where `mask` is True, else 0."""

    t: np.ndarray
    events: np.ndarray
    mask: np.ndarray


class Acquaintance(NamedTuple):
    """How often two nodes had events with each other and with anyone, and how long ago the last was; by `WAYS`.

    A self-loop goes out of its node. `dt` is 0 where there was no event.
    """

    counts: np.ndarray  # (…, 6) int64
    dt: np.ndarray  # (…, 6) int64 or float64, as the index


def last(index: NeighborIndex, u: ArrayLike, v: ArrayLike, t: ArrayLike, before: ArrayLike | None) -> Last:
    """See `NeighborIndex.last`."""
    shape, times, numbers, counts = _meetings(index, u, v, t, before, counting=False)
    return Last(times.reshape(shape), numbers.reshape(shape), counts.reshape(shape) > 0)


def count(index: NeighborIndex, u: ArrayLike, v: ArrayLike, t: ArrayLike, before: ArrayLike | None) -> np.ndarray:
    """See `NeighborIndex.count_pair`."""
    shape, _, _, counts = _meetings(index, u, v, t, before, counting=True)
    return counts.reshape(shape)


def acquaintance(
    index: NeighborIndex, u: ArrayLike, v: ArrayLike, t: ArrayLike, before: ArrayLike | None
) -> Acquaintance:
    """See `NeighborIndex.acquaintance`."""
    query, v, shape = _asked(index, u, v, t, before)
    counts, dt = np.empty((v.size, len(WAYS)), np.int64), np.empty((v.size, len(WAYS)), query.t.dtype)
    kernel: Any = kernels_pairs.acquaintance
    place = kernel(
        *query.arrays(), index._ways, index._uneven, query.nodes, v, query.t, query.t_step,
        query.before, query.before_step, counts, dt,
    )  # fmt: skip
    query.check(place, v)
    return Acquaintance(counts.reshape(*shape, -1), dt.reshape(*shape, -1))


def _meetings(
    index: NeighborIndex, u: ArrayLike, v: ArrayLike, t: ArrayLike, before: ArrayLike | None, *, counting: bool
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray]:
    query, v, shape = _asked(index, u, v, t, before)
    times = np.empty(v.size, query.t.dtype)
    numbers, counts = np.empty(v.size, np.int64), np.empty(v.size, np.int64)
    kernel: Any = kernels_pairs.meetings
    place = kernel(
        *query.arrays(), index._uneven, query.nodes, v, query.t, query.t_step, query.before, query.before_step,
        counting, times, numbers, counts,
    )  # fmt: skip
    query.check(place, v)
    return shape, times, numbers, counts


def _asked(
    index: NeighborIndex, u: ArrayLike, v: ArrayLike, t: ArrayLike, before: ArrayLike | None
) -> tuple[Query, np.ndarray, tuple[int, ...]]:
    u, v = inputs.as_ids(u, "u"), inputs.as_ids(v, "v")
    try:
        shape = np.broadcast_shapes(u.shape, v.shape)
    except ValueError:
        raise BadInput(f"u and v do not fit together: shapes {u.shape} and {v.shape}.") from None
    query = Query(index, np.broadcast_to(u, shape), t, before, None, None)
    return query, inputs.flat(np.broadcast_to(v, shape)), shape
