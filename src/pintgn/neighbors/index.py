"""A time-sorted adjacency that grows: who met whom, strictly before any time asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pintgn.errors import BadInput
from pintgn.neighbors import inputs, kernels, kernels_pairs
from pintgn.neighbors.adjacency import Adjacency
from pintgn.neighbors.queries import NeighborQuery

WAYS = ("u to v", "v to u", "u to anyone", "anyone else to u", "v to anyone", "anyone else to v")
"""Directions that are counted. A self-loop goes out and never comes in: it is one entry."""


class Neighbors(NamedTuple):
    """k slots for each query, newest first. `mask` decides: where it is False the other arrays hold 0 and mean nothing.

    The arrays have the shape of the asked nodes and one more axis of length k. `dt` is the query's t minus `t`.
    """

    ids: np.ndarray  # (…, k) int64
    t: np.ndarray  # (…, k) int64 or float64, as the index
    dt: np.ndarray  # (…, k) same type, always positive
    events: np.ndarray  # (…, k) int64 event numbers
    mask: np.ndarray  # (…, k) bool

    @classmethod
    def buffer(cls, shape: int | tuple[int, ...], k: int, time: DTypeLike = np.int64) -> Neighbors:
        """Room for one answer, to be passed as `out=` again and again."""
        shape = (*(shape if isinstance(shape, tuple) else (shape,)), k)
        time = np.dtype(time)
        kinds = (np.int64, time, time, np.int64, np.bool_)
        return cls(*(np.zeros(shape, kind) for kind in kinds))


class Last(NamedTuple):
    """The last event between two nodes: its time and event number where `mask` is True, else 0."""

    t: np.ndarray
    events: np.ndarray
    mask: np.ndarray


class PairHistory(NamedTuple):
    """How often two nodes had events with each other and with anyone, and how long ago the last was; by `WAYS`.

    A self-loop goes out of its node and does not come in. `dt` is 0 where there was no event. `within` counts the
    events not older than each window.
    """

    counts: np.ndarray  # (…, 6) int64
    dt: np.ndarray  # (…, 6) int64 or float64, as the index
    within: np.ndarray  # (…, 6, windows) int64


class RecentContacts(NamedTuple):
    """What the newest contacts of u and v say of the two."""

    ranks: np.ndarray  # (…, 2) contacts of u newer than that with v, and of v than that with u; -1 where there is none
    partners: np.ndarray  # (…, 2) distinct nodes among the newest contacts of u and of v
    held: np.ndarray  # (…, 2) how many contacts were looked at
    shared: np.ndarray  # (…, 3) contacts of u whose node is among those of v: how many, how recent to u and to v


class NeighborIndex(Adjacency):
    """Every node's past events, ready to be asked for as of any time.

    An event is one entry in the list of each endpoint; a self-loop is one entry in all; a deletion is an event like
    any other; repeats count each time. Every look-up sees the entries with time **strictly less** than the query's own
    t and, if given, event number less than `before` (the first event number of the query's own group: a second lock
    that does not depend on the times). What was appended later never changes an answer.

    `nodes` is a hint; the index grows for new nodes, and a node never seen has an empty neighborhood. `time` fixes
    the type of the times, "int64" or "float64"; by default the first events do. Times are never rounded.

    Reading is safe from several threads; appending needs the index to itself.

    >>> import pintgn
    >>> index = pintgn.NeighborIndex()
    >>> first = index.append([0, 0, 1], [1, 2, 2], [10, 20, 30])
    >>> index.recent(0, 25, 2).ids, index.count(2, 25)
    (array([2, 1]), array(1))
    """

    def recent(
        self,
        nodes: ArrayLike,
        t: ArrayLike,
        k: int,
        *,
        before: ArrayLike | None = None,
        window: float | None = None,
        valid: ArrayLike | None = None,
        out: Neighbors | None = None,
        threads: int = 1,
    ) -> Neighbors:
        """The k most recent entries of each node before its query's t, newest first.

        `nodes` may have any shape; `t`, `before` and `valid` broadcast to it. Where `valid` is False (a padded slot
        of an earlier answer) the neighborhood is empty. `window` keeps only entries with time >= t - window. `out`
        takes an earlier answer of the same shape and overwrites it, so that a hot loop allocates nothing.
        """
        query = NeighborQuery(self, nodes, t, before, valid, window)
        return self._answer(kernels.recent, query, k, out, threads)

    def uniform(
        self,
        nodes: ArrayLike,
        t: ArrayLike,
        k: int,
        keys: ArrayLike,
        *,
        before: ArrayLike | None = None,
        window: float | None = None,
        valid: ArrayLike | None = None,
        out: Neighbors | None = None,
        threads: int = 1,
    ) -> Neighbors:
        """k distinct entries of each node before its query's t, every choice equally likely, newest first.

        Without replacement: a node with at most k entries gives them all. `keys` (one, or one per query; see
        `query_keys`) decide the draw: the same key over the same past gives the same answer, whatever else is asked.
        Two queries with one key are drawn alike, so give the two ends of an event different keys.
        """
        query = NeighborQuery(self, nodes, t, before, valid, window)
        return self._answer(kernels.uniform, query, k, out, threads, query.keys(keys))

    def count(
        self,
        nodes: ArrayLike,
        t: ArrayLike,
        *,
        before: ArrayLike | None = None,
        window: float | None = None,
        valid: ArrayLike | None = None,
    ) -> np.ndarray:
        """How many entries each node has before its query's t: its degree with repeats."""
        query = NeighborQuery(self, nodes, t, before, valid, window)
        counts = np.empty(query.nodes.size, np.int64)
        query.run(kernels.count, 1, (counts,))
        return counts.reshape(query.shape)

    def last(self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None) -> Last:
        """The last event between u and v (either way round) before t. u and v broadcast together, t to them.

        Reads the shorter of the two lists from its newest end.
        """
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        found = [np.empty(v.size, kind) for kind in (query.t.dtype, np.int64, np.bool_)]
        kernel: Any = kernels_pairs.last
        kernel(*self._asked_of(query, v), *found)
        return Last(*(column.reshape(query.shape) for column in found))

    def count_pair(self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None) -> np.ndarray:
        """How many events there were between u and v (either way round) before t."""
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        counts = np.empty(v.size, np.int64)
        kernel: Any = kernels_pairs.count
        kernel(*self._asked_of(query, v), counts)
        return counts.reshape(query.shape)

    def pair_history(
        self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None, windows: ArrayLike = ()
    ) -> PairHistory:
        """How often u and v had events before t, and how long ago the last was, with each other and anyone (`WAYS`).

        Also how often within each of `windows`, lengths of time that increase.
        """
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        windows = np.asarray(windows).astype(query.t.dtype)
        counts, dt = np.zeros((v.size, len(WAYS)), np.int64), np.zeros((v.size, len(WAYS)), query.t.dtype)
        within = np.zeros((v.size, len(WAYS), len(windows)), np.int64)
        kernel: Any = kernels_pairs.pair_history
        kernel(*self._asked_of(query, v), self._sent, windows, counts, dt, within)
        return PairHistory(*(found.reshape(*query.shape, *found.shape[1:]) for found in (counts, dt, within)))

    def recent_contacts(
        self, u: ArrayLike, v: ArrayLike, t: ArrayLike, k: int, unit: float, *, before: ArrayLike | None = None
    ) -> RecentContacts:
        """What the k newest contacts of u and v before t say of the two; ages are measured in `unit`."""
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        found = [np.empty((v.size, width), np.float32) for width in (2, 2, 2, 3)]
        kernel: Any = kernels_pairs.recent_contacts
        kernel(*query.adjacency, query.nodes, v, query.t, query.before, inputs.at_least(k, 1, "k"), unit, *found)
        return RecentContacts(*(one.reshape(*query.shape, -1) for one in found))

    def _asked_of(self, query: NeighborQuery, v: np.ndarray) -> tuple[Any, ...]:
        """What kernels about two nodes take: where their entries are, and what is asked."""
        return *query.adjacency, *self._pairs[:2], self._hub, self._uneven, query.nodes, v, query.t, query.before

    def _answer(
        self, kernel: Any, query: NeighborQuery, k: int, out: Neighbors | None, threads: int, *keys: np.ndarray
    ) -> Neighbors:
        k, time = inputs.at_least(k, 1, "k"), query.t.dtype
        wanted = (inputs.INT64, time, time, inputs.INT64, np.dtype(np.bool_))
        shape = (*query.shape, k)
        if out is None:
            out = Neighbors(*(np.empty(shape, kind) for kind in wanted))
        for name, array, kind in zip(Neighbors._fields, out, wanted, strict=True):
            if array.shape != shape or array.dtype != kind or not array.flags.carray:
                raise BadInput(
                    f"out.{name} is {array.dtype} of shape {array.shape}; this answer needs contiguous {kind} "
                    f"of shape {shape}. Make it with Neighbors.buffer."
                )
        query.run(kernel, threads, tuple(array.reshape(-1, k) for array in out), *keys)
        return out
