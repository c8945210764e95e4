"""Positions over the memory of several workers: each keeps a part of every row, and all answer each read together.

The update r_v <- r_v + P r_u (Eqs. 10-11) treats every node that a row counts alike, and each by itself. So rows are
shared out by what they count: every worker takes in all events, keeps of each row the nodes i with i % W equal to its
number, and needs nothing of the others for it. A read of node i goes to i's owner, which answers with the same bits as
a whole table. A sketch is shared out by columns: each worker has its term of the dot product, and the terms are summed,
which may differ from a whole sketch in the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pintgn.neighbors.partitioned import Exchange
from pintgn.positions.relative import WIDTH, RelativePositions


class PartitionedPositions:
    """Stands in for `RelativePositions` in a stream. Workers call `replay` with the same events, each with its own
    reads, of which there may be none.

    `auto` is `exact` here: what all workers hold together is more than what one would have given up at.
    """

    def __init__(
        self, exchange: Exchange, d: int, backend: str = "auto", *, width: int = WIDTH, time_unit: float | None = None
    ):
        part = exchange.rank, exchange.size
        self.exchange, self.backend = exchange, "sketch" if backend == "sketch" else "exact"
        self.own = RelativePositions(d, self.backend, width=width, time_unit=time_unit, part=part)

    @property
    def nbytes(self) -> int:
        """Bytes held here."""
        return self.own.nbytes

    @property
    def d(self) -> int:
        """Positional length."""
        return self.own.d

    def append(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        """Observe; nothing is swapped."""
        self.own.append(src, dst, t)

    def fork(self) -> PartitionedPositions:
        """An independent copy of this worker's part."""
        other = object.__new__(PartitionedPositions)
        other.exchange, other.backend, other.own = self.exchange, self.backend, self.own.fork()
        return other

    def replay(
        self,
        src: Any,
        dst: Any,
        t: Any,
        nodes: np.ndarray,
        roots: np.ndarray,
        at: np.ndarray,
        *,
        transform: str = "log1p",
    ) -> np.ndarray:
        """As `RelativePositions.replay`: (q, m, w, d)."""
        events = (src, dst, t)
        if self.backend == "sketch":
            return self._summed(events, nodes, roots, at, transform)
        return self._looked_up(events, nodes, roots, at, transform)

    def _looked_up(
        self, events: tuple, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray, transform: str
    ) -> np.ndarray:
        owner = np.where(nodes >= 0, nodes % self.exchange.size, -1)
        wanted = [np.nonzero(owner == one) for one in range(self.exchange.size)]  # row by row
        asked = self.exchange.swap([_by_row(nodes, roots, at, *entries) for entries in wanted])
        found = self._answered(events, asked, transform)
        back = self.exchange.swap([
            None if one is None else answer[one[0] >= 0] for one, answer in zip(asked, found, strict=True)
        ])  # fmt: skip
        kind = np.float64 if transform == "raw" else np.float32
        whole = np.zeros((*nodes.shape, roots.shape[1], self.d), kind)
        for entries, answer in zip(wanted, back, strict=True):
            if answer is not None:
                whole[entries] = answer
        return whole

    def _summed(
        self, events: tuple, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray, transform: str
    ) -> np.ndarray:
        mine = (nodes.astype(np.int32), roots.astype(np.int32), at) if len(at) else None
        asked = self.exchange.swap([mine] * self.exchange.size)
        found = self._answered(events, asked, "raw")
        terms = self.exchange.swap([
            None if one is None else answer[..., 1:] for one, answer in zip(asked, found, strict=True)
        ])  # fmt: skip
        if mine is None:
            return np.zeros((*nodes.shape, roots.shape[1], self.d), np.float32)
        raw = np.empty((*nodes.shape, roots.shape[1], self.d))
        raw[..., 0] = (nodes[:, :, None] == roots[:, None, :]) & (nodes[:, :, None] >= 0)
        raw[..., 1:] = terms[0]
        for term in terms[1:]:
            raw[..., 1:] += term
        return self.own.transformed(raw.transpose(0, 2, 1, 3), at, transform)

    def _answered(self, events: tuple, asked: list[Any], transform: str) -> list[Any]:
        """What is kept here of each worker's reads, in one pass over the events."""
        reads = [one for one in asked if one is not None]
        if not reads:
            if len(events[2]):
                self.append(*events)
            return [None] * len(asked)
        slots, width = (max(one[k].shape[1] for one in reads) for k in (0, 1))
        nodes, roots = (
            np.concatenate([_padded(one[k], wide) for one in reads]) for k, wide in ((0, slots), (1, width))
        )
        src, dst, t = events
        found = self.own.replay(src, dst, t, nodes, roots, np.concatenate([one[2] for one in reads]), transform)
        answers: list[Any] = []
        row = 0
        for one in asked:
            if one is None:
                answers.append(None)
                continue
            (rows, wide), roots_wide = one[0].shape, one[1].shape[1]
            answers.append(found[row : row + rows, :wide, :roots_wide])
            row += rows
        return answers


def _by_row(nodes: np.ndarray, roots: np.ndarray, at: np.ndarray, rows: np.ndarray, slots: np.ndarray) -> Any:
    """The reads at these entries as rows of their own: (nodes, roots, at), padded with -1; None for none."""
    if not len(rows):
        return None
    distinct, first, row = np.unique(rows, return_index=True, return_inverse=True)
    within = np.arange(len(rows)) - first[row]
    some = np.full((len(distinct), int(within.max()) + 1), -1, np.int32)
    some[row, within] = nodes[rows, slots]
    return some, roots[distinct].astype(np.int32), at[distinct]


def _padded(nodes: np.ndarray, width: int) -> np.ndarray:
    wide = np.full((len(nodes), width), -1, np.int64)
    wide[:, : nodes.shape[1]] = nodes
    return wide
