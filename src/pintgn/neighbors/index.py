"""Neighbor index: a growing time-sorted adjacency, queried strictly before any time, and causal walks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pintgn.errors import BadInput
from pintgn.neighbors import kernels_covisits, kernels_draws, kernels_lookups
from pintgn.neighbors.adjacency import Adjacency
from pintgn.neighbors.queries import as_keys, as_pairs, as_queries, at_least, per_query

kernels: Any = kernels_lookups  # compiled: their arguments are not for mypy to check
draws: Any = kernels_draws
covisits: Any = kernels_covisits

WAYS = ("u to v", "v to u", "u to anyone", "anyone else to u", "v to anyone", "anyone else to v")
"""Directions that are counted. A self-loop goes out and never comes in: it is one entry."""
CO_VISITS = (
    "visitors of both", "visitors of both, most", "cosine", "cosine, last first", "near", "near, last first",
    "near, most", "near, then v", "near, recent", "from the last to v",
)  # fmt: skip
"""Columns of `NeighborIndex.co_visits`."""


class Neighbors(NamedTuple):
    """k slots for each query, newest first. `mask` decides: where it is False the other arrays hold 0 and mean nothing.

    The arrays have the shape of the asked nodes and one more axis of length k. `dt` is the query's t minus `t`.
    """

    ids: np.ndarray  # (…, k) int64
    t: np.ndarray  # (…, k) int64 or float64, as the index
    dt: np.ndarray  # (…, k) same type, always positive
    events: np.ndarray  # (…, k) int64 event numbers
    mask: np.ndarray  # (…, k) bool


class Last(NamedTuple):
    """The last event between two nodes: its time and event number where `mask` is True, else 0."""

    t: np.ndarray
    events: np.ndarray
    mask: np.ndarray


class PairHistory(NamedTuple):
    """Counts and ages of two nodes' events with each other and with anyone, by `WAYS`.

    A self-loop goes out of its node and does not come in. `dt` is 0 where there was no event. `within` counts the
    events not older than each window.
    """

    counts: np.ndarray  # (…, 6) int64
    dt: np.ndarray  # (…, 6) int64 or float64, as the index
    within: np.ndarray  # (…, 6, windows) int64


class RecentContacts(NamedTuple):
    """Comparison of the newest contacts of u and v."""

    ranks: np.ndarray  # (…, 2) contacts of u newer than that with v, and of v than that with u; -1 where there is none
    partners: np.ndarray  # (…, 2) distinct nodes among the newest contacts of u and of v
    held: np.ndarray  # (…, 2) how many contacts were looked at
    shared: np.ndarray  # (…, 3) contacts of u whose node is among those of v: how many, how recent to u and to v


class Walks(NamedTuple):
    """M walks of up to L steps for each query, with the shape of the asked nodes in front.

    Position 0 is the asked node at the query's t. Step i goes from nodes[…, i] to nodes[…, i + 1] by event
    events[…, i] at times[…, i + 1]. Where `mask` is False the walk has ended and the other arrays hold 0;
    mask[…, 1:] is the mask of the steps.
    """

    nodes: np.ndarray  # (…, M, L + 1) int64
    times: np.ndarray  # (…, M, L + 1) int64 or float64, as the index
    events: np.ndarray  # (…, M, L) int64 event numbers
    mask: np.ndarray  # (…, M, L + 1) bool


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

    # --- look-ups: arguments are checked, and may have any shape ------------------------------------------

    def recent(
        self,
        nodes: ArrayLike,
        t: ArrayLike,
        k: int,
        *,
        before: ArrayLike | None = None,
        valid: ArrayLike | None = None,
    ) -> Neighbors:
        """The k most recent entries of each node before its query's t, newest first.

        `nodes` may have any shape; `t`, `before` and `valid` broadcast to it. Where `valid` is False (a padded slot
        of an earlier answer) the neighborhood is empty.
        """
        shape, *asked = as_queries(nodes, t, before, self.time, valid)
        found = self.recent_of(at_least(k, 1, "k"), *asked)
        return Neighbors(*(column.reshape(*shape, k) for column in found))

    def uniform(
        self,
        nodes: ArrayLike,
        t: ArrayLike,
        k: int,
        keys: ArrayLike,
        *,
        before: ArrayLike | None = None,
        valid: ArrayLike | None = None,
    ) -> Neighbors:
        """k distinct entries of each node before its query's t, every choice equally likely, newest first.

        Without replacement: a node with at most k entries gives them all. `keys` (one, or one per query; see
        `query_keys`) decide the draw: the same key over the same past gives the same answer, whatever else is asked.
        Two queries with one key are drawn alike, so give the two ends of an event different keys.
        """
        shape, *asked = as_queries(nodes, t, before, self.time, valid)
        found = self.uniform_of(at_least(k, 1, "k"), per_query(as_keys(keys), shape, "keys"), *asked)
        return Neighbors(*(column.reshape(*shape, k) for column in found))

    def count(
        self, nodes: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None, valid: ArrayLike | None = None
    ) -> np.ndarray:
        """How many entries each node has before its query's t: its degree with repeats."""
        shape, *asked = as_queries(nodes, t, before, self.time, valid)
        return self.count_of(*asked).reshape(shape)

    def last(self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None) -> Last:
        """The last event between u and v (either way round) before t. u and v broadcast together, t to them.

        Reads the shorter of the two lists from its newest end.
        """
        shape, *asked = as_pairs(u, v, t, before, self.time)
        return Last(*(column.reshape(shape) for column in self.last_of(*asked)))

    def count_pair(self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None) -> np.ndarray:
        """How many events there were between u and v (either way round) before t."""
        shape, *asked = as_pairs(u, v, t, before, self.time)
        return self.count_pair_of(*asked).reshape(shape)

    def pair_history(
        self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None, windows: ArrayLike = ()
    ) -> PairHistory:
        """Counts and ages of the events of u and v before t, with each other and with anyone, by `WAYS`.

        Also how often within each of `windows`, lengths of time that increase.
        """
        shape, *asked = as_pairs(u, v, t, before, self.time)
        found = self.pair_history_of(np.asarray(windows).astype(asked[2].dtype), *asked)
        return PairHistory(*(column.reshape(*shape, *column.shape[1:]) for column in found))

    def recent_contacts(
        self, u: ArrayLike, v: ArrayLike, t: ArrayLike, k: int, unit: float, *, before: ArrayLike | None = None
    ) -> RecentContacts:
        """Compare the k newest contacts of u and v before t; ages are measured in `unit`."""
        shape, *asked = as_pairs(u, v, t, before, self.time)
        found = self.recent_contacts_of(at_least(k, 1, "k"), unit, *asked)
        return RecentContacts(*(column.reshape(*shape, *column.shape[1:]) for column in found))

    def co_visits(
        self,
        u: ArrayLike,
        v: ArrayLike,
        t: ArrayLike,
        last: int,
        k: int,
        near: int,
        unit: float,
        *,
        before: ArrayLike | None = None,
    ) -> np.ndarray:  # (…, len(CO_VISITS))
        """How many others who went where u went lately also went to v: what goes with what, by `CO_VISITS`.

        A visit is an event, seen from its source; a self-loop is none. The last `last` distinct destinations i of u
        (among its k newest contacts) are compared with v: which other nodes are among the newest visitors (within the k
        newest contacts) of both? Their number is summed over i, and at its most; divided by the root of the number of
        visits to i and to v (`cosine`); weighted by 1, 1/2, 1/3, … from the newest i on (`last first`). `near` counts
        only those that went to both within `near` contacts of their own; of these, `then v`, who went to v after i,
        and `recent`, weighted by 1 / (1 + age of the later visit in `unit`). v itself is left out as an i.
        """
        shape, *asked = as_pairs(u, v, t, before, self.time)
        found = self.co_visits_of(
            at_least(last, 1, "last"), at_least(k, 1, "k"), at_least(near, 1, "near"), unit, *asked
        )
        return found.reshape(*shape, -1)

    # --- the same of what has been checked: flat arrays of the right types, one kernel each ---------------

    def recent_of(self, k: int, nodes: np.ndarray, t: np.ndarray, before: np.ndarray) -> Neighbors:
        """`recent` for checked arguments; a node of -1 is skipped."""
        ids, times, numbers, _ = self._arenas
        found = Neighbors(*(np.empty((len(nodes), k), kind) for kind in (np.int64, t.dtype, t.dtype, np.int64, bool)))
        kernels.recent(self._heads, ids, times, numbers, nodes, t, before, *found)
        return found

    def uniform_of(self, k: int, keys: np.ndarray, nodes: np.ndarray, t: np.ndarray, before: np.ndarray) -> Neighbors:
        ids, times, numbers, _ = self._arenas
        found = Neighbors(*(np.empty((len(nodes), k), kind) for kind in (np.int64, t.dtype, t.dtype, np.int64, bool)))
        draws.uniform(self._heads, ids, times, numbers, nodes, t, before, keys, *found)
        return found

    def count_of(self, nodes: np.ndarray, t: np.ndarray, before: np.ndarray) -> np.ndarray:
        ids, times, numbers, _ = self._arenas
        counts = np.empty(len(nodes), np.int64)
        kernels.count(self._heads, ids, times, numbers, nodes, t, before, counts)
        return counts

    def last_of(self, u: np.ndarray, v: np.ndarray, t: np.ndarray, before: np.ndarray) -> Last:
        found = Last(*(np.empty(len(u), kind) for kind in (t.dtype, np.int64, np.bool_)))
        kernels.last(*self._pair_lists(), u, v, t, before, *found)
        return found

    def count_pair_of(self, u: np.ndarray, v: np.ndarray, t: np.ndarray, before: np.ndarray) -> np.ndarray:
        counts = np.empty(len(u), np.int64)
        kernels.count_pairs(*self._pair_lists(), u, v, t, before, counts)
        return counts

    def pair_history_of(
        self, windows: np.ndarray, u: np.ndarray, v: np.ndarray, t: np.ndarray, before: np.ndarray
    ) -> PairHistory:
        shape = len(u), len(WAYS)
        found = np.zeros(shape, np.int64), np.zeros(shape, t.dtype), np.zeros((*shape, len(windows)), np.int64)
        kernels.pair_history(*self._pair_lists(), u, v, t, before, self._arenas[3], windows, *found)
        return PairHistory(*found)

    def recent_contacts_of(
        self, k: int, unit: float, u: np.ndarray, v: np.ndarray, t: np.ndarray, before: np.ndarray
    ) -> RecentContacts:
        ids, times, numbers, _ = self._arenas
        found = RecentContacts(*(np.empty((len(u), width), np.float32) for width in (2, 2, 2, 3)))
        kernels.recent_contacts(self._heads, ids, times, numbers, u, v, t, before, k, unit, *found)
        return found

    def co_visits_of(
        self, last: int, k: int, near: int, unit: float, u: np.ndarray, v: np.ndarray, t: np.ndarray, before: np.ndarray
    ) -> np.ndarray:  # (pairs, len(CO_VISITS))
        size = 2 << (last * k).bit_length()  # of the table: never more than half full
        found = np.empty((len(u), len(CO_VISITS)), np.float32)
        scratch = np.empty(last, np.int64), np.full(size, -1, np.int64), np.empty(size, np.int64)
        order = np.lexsort((t, u))  # an event and its negatives have their source and time in common
        covisits.co_visits(self._heads, *self._arenas, u, v, t, before, order, k, near, unit, *scratch, found)
        return found

    def walks_of(
        self, walks: int, length: int, keys: np.ndarray, bias: float, nodes: np.ndarray, t: np.ndarray,
        before: np.ndarray,
    ) -> Walks:  # fmt: skip
        """`causal_walks` for checked arguments."""
        ids, times, numbers, _ = self._arenas
        full, steps = (len(nodes), walks, length + 1), (len(nodes), walks, length)
        kinds = ((full, np.int64), (full, t.dtype), (steps, np.int64), (full, np.bool_))
        found = Walks(*(np.empty(shape, kind) for shape, kind in kinds))
        draws.causal_walks(self._heads, ids, times, numbers, nodes, t, before, keys, bias, *found)
        return found

    def _pair_lists(self) -> tuple[Any, ...]:
        """Heads of the entries of nodes and of busy pairs."""
        return self._heads, *self._arenas[:3], *self._pairs[:2], self._hub, self._uneven


def causal_walks(
    index: NeighborIndex,
    nodes: ArrayLike,
    t: ArrayLike,
    *,
    walks: int,
    length: int,
    keys: ArrayLike,
    bias: float = 0.0,
    before: ArrayLike | None = None,
    valid: ArrayLike | None = None,
) -> Walks:
    """Draw M = `walks` walks of up to L = `length` steps back in time from each node, starting before its query's t.

    Paper Section 2 and its appendix on CAW: W = ((w_1, t_1), (w_2, t_2), …) with t_1 = t > t_2 > …, each step an event
    between w_i and w_{i+1}. A step picks one of the current node's entries strictly before the last time, with
    probability proportional to exp(bias * (time of the entry - last time)); bias >= 0 in units of 1/time, 0 is
    uniform over entries. A walk ends early at a node with no such entry.

    Walk w of a query is a function of its key, w, and the past before t: order, batching and `walks` do not
    change it. `nodes` may have any shape; `t`, `before`, `valid` and `keys` broadcast to it. Give the two
    ends of an event different keys.
    A step costs the logarithm of the node's degree, not the degree (`kernels_draws.block_table`).
    """
    walks, length = at_least(walks, 1, "walks"), at_least(length, 1, "length")
    try:
        bias = float(bias)
    except (TypeError, ValueError):
        raise BadInput(f"bias must be a number, got {bias!r}.") from None
    if not 0 <= bias < math.inf:
        raise BadInput(
            f"bias must be finite and at least 0, got {bias}. 0 draws uniformly; larger prefers recent events."
        )
    shape, *asked = as_queries(nodes, t, before, index.time, valid)
    found = index.walks_of(walks, length, per_query(as_keys(keys), shape, "keys"), bias, *asked)
    return Walks(*(column.reshape(*shape, *column.shape[1:]) for column in found))
