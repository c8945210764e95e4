"""A neighbor index of which every worker keeps the lists of its own nodes, and asks the others for the rest.

Node v belongs to worker v % W. Every worker takes in all events, and keeps the entries of its nodes. A look-up is a
round: questions go to the owners of the nodes, answers come back. A worker that has no more questions goes on answering
until nobody has any (`settle`). So workers need not ask the same number of questions, nor the same ones; they must
append the same events, and settle equally often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pintgn.neighbors import inputs, kernels_pairs
from pintgn.neighbors.index import Last, NeighborIndex, Neighbors, PairHistory, RecentContacts
from pintgn.neighbors.queries import NeighborQuery


class Exchange(Protocol):
    """How workers swap parcels; see `pintgn.workers.exchange`."""

    rank: int
    size: int

    def swap(self, parcels: Any) -> list[Any]:
        """What each worker has for this one."""


class PartitionedIndex(NeighborIndex):
    """`NeighborIndex` over the memory of several workers, with the same answers, bit for bit.

    It cannot be saved, trimmed or walked (`causal_walks`).
    """

    def __init__(self, exchange: Exchange):
        super().__init__(part=(exchange.rank, exchange.size))
        self.exchange = exchange

    # -- look-ups about one node -----------------------------------------------------------------------------------

    def recent(self, nodes: ArrayLike, t: ArrayLike, k: int, **given: Any) -> Neighbors:
        return self._one_by_one("recent", nodes, t, k, given)

    def uniform(self, nodes: ArrayLike, t: ArrayLike, k: int, keys: ArrayLike, **given: Any) -> Neighbors:
        return self._one_by_one("uniform", nodes, t, k, given, keys)

    def count(self, nodes: ArrayLike, t: ArrayLike, **given: Any) -> np.ndarray:
        return self._one_by_one("count", nodes, t, 0, given)

    def _one_by_one(self, name: str, nodes: ArrayLike, t: ArrayLike, k: int, given: dict, *keys: ArrayLike) -> Any:
        window, out, _ = given.pop("window", None), given.pop("out", None), given.pop("threads", 1)
        query = NeighborQuery(self, nodes, t, given.get("before"), given.get("valid"))
        valid = np.ones(len(query.asked), bool)
        if given.get("valid") is not None:
            valid = inputs.per_query(inputs.as_mask(given["valid"]), query.shape, "valid")
        rows = np.flatnonzero(valid)
        columns = [query.asked, query.t, query.before, *(query.keys(one) for one in keys)]
        found = self._asked(name, query.asked, rows, columns, (k, window))
        whole = [np.zeros((len(query.asked), *one.shape[1:]), one.dtype) for one in found]
        for column, one in zip(whole, found, strict=True):
            column[rows] = one
        shaped = [column.reshape(*query.shape, *column.shape[1:]) for column in whole]
        if name == "count":
            return shaped[0]
        if out is not None:
            for column, one in zip(out, shaped, strict=True):
                column[...] = one
        return Neighbors(*shaped) if out is None else out

    # -- look-ups about two ----------------------------------------------------------------------------------------

    def last(self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None) -> Last:
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        found = self._asked("last", query.asked, np.arange(len(v)), [query.asked, v, query.t, query.before])
        return Last(*(column.reshape(query.shape) for column in found))

    def count_pair(self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None) -> np.ndarray:
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        (found,) = self._asked("count_pair", query.asked, np.arange(len(v)), [query.asked, v, query.t, query.before])
        return found.reshape(query.shape)

    def pair_history(
        self, u: ArrayLike, v: ArrayLike, t: ArrayLike, *, before: ArrayLike | None = None, windows: ArrayLike = ()
    ) -> PairHistory:
        """As of a whole index. u's owner knows what the two had with each other and what u had with anyone; v's owner
        is asked about v to u, in one round with the other."""
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        windows, pairs = np.asarray(windows).astype(query.t.dtype), len(v)
        about, other = np.concatenate([query.asked, v]), np.concatenate([v, query.asked])
        columns = [about, other, np.tile(query.t, 2), np.tile(query.before, 2)]
        found = self._asked("pair_history", about, np.arange(2 * pairs), columns, (windows,))
        whole = [np.concatenate([one[:pairs], one[pairs:, 2:]], 1) for one in found]  # v's first two are known from u
        return PairHistory(*(one.reshape(*query.shape, *one.shape[1:]) for one in whole))

    def recent_contacts(
        self, u: ArrayLike, v: ArrayLike, t: ArrayLike, k: int, unit: float, *, before: ArrayLike | None = None
    ) -> RecentContacts:
        """As of a whole index: the newest contacts of both are fetched and compared here."""
        query, v = NeighborQuery.of_pairs(self, u, v, t, before)
        pairs, k = len(v), inputs.at_least(k, 1, "k")
        nodes = np.concatenate([query.asked, v])
        found = self._one_by_one("recent", nodes, np.tile(query.t, 2), k, {"before": np.tile(query.before, 2)})
        lengths = found.mask.sum(1)
        heads = np.stack([np.arange(2 * pairs) * k, lengths], 1)
        lists = (heads, found.ids.ravel(), found.t.ravel(), found.events.ravel())
        answers = [np.empty((pairs, width), np.float32) for width in (2, 2, 2, 3)]
        at = np.arange(2 * pairs)
        kernel: Any = kernels_pairs.recent_contacts
        kernel(*lists, at[:pairs], at[pairs:], query.asked, v, query.t, query.before, k, unit, *answers)
        return RecentContacts(*(one.reshape(*query.shape, -1) for one in answers))

    # -- rounds ----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Answer the others until none of them has a question left."""
        if self.exchange.size > 1:
            while self._round([None] * self.exchange.size) is not None:
                pass

    def _asked(
        self, name: str, owners: np.ndarray, rows: np.ndarray, columns: list[np.ndarray], more: tuple = ()
    ) -> list[np.ndarray]:
        """Answers to questions about the nodes `owners`, of which `rows` count; an array for each column of answers."""
        owner = owners[rows] % self.exchange.size
        split = [rows[owner == one] for one in range(self.exchange.size)]
        parcels = [(name, [_narrow(column[some]) for column in columns], more) for some in split]
        answers = self._round(parcels)
        assert answers is not None
        order = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
        return [np.concatenate(parts)[order] for parts in zip(*map(_widened, answers), strict=True)]

    def _round(self, questions: list[Any]) -> list[Any] | None:
        """Answers from each worker; None when nobody had a question."""
        asked = self.exchange.swap(questions)
        if all(one is None for one in asked):
            return None
        return self.exchange.swap([None if one is None else self._answers(*one) for one in asked])

    def _answers(self, name: str, columns: list[np.ndarray], more: tuple) -> list[np.ndarray]:
        """From the lists that are kept here."""
        nodes, *rest = _widened(columns)
        found: Any
        if name in ("recent", "uniform", "count"):
            (t, before, *keys), (k, window) = rest, more
            look_up: Callable[..., Any] = getattr(super(), name)
            found = look_up(nodes, t, *((k,) if k else ()), *keys, before=before, window=window)
        else:
            (other, t, before), look_up = rest, getattr(super(), name)
            found = look_up(nodes, other, t, before=before, **({"windows": more[0]} if more else {}))
            if name == "pair_history":
                found = tuple(one[:, :4] for one in found)
        return [_narrow(one) for one in (found if isinstance(found, tuple) else (found,))]


def _narrow(column: np.ndarray) -> np.ndarray:
    """Whole numbers in four bytes where they fit: half of what goes over the wire."""
    if column.dtype != np.int64 or not column.size or not -(2**31) <= column.min() <= column.max() < 2**31:
        return column
    return column.astype(np.int32)


def _widened(columns: list[np.ndarray]) -> list[np.ndarray]:
    return [column.astype(np.int64) if column.dtype == np.int32 else column for column in columns]
