"""Batch answers on a Ray cluster: each worker opens the run for itself and answers a share of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.events.log import Query
from pintgn.live.answerer import Answerer
from pintgn.live.live import Live
from pintgn.live.live import open as open_run
from pintgn.live.recommend import RecommendRequest
from pintgn.workers.jobs import Jobs

SHARES = 4
"""Shares for each worker, so that one that is slow or lost does not hold up the rest for long."""


class RayAnswerer(Answerer):
    """Computes answers about many rows on Ray workers, in place of a `Live`'s answerer.

    Args:
        live: the same run with the same events, here.
        folder: of the run, where every worker can read it.
        observe: files of newer events that the live has observed, in order.
        jobs: where to compute.
    """

    def __init__(self, live: Live, folder: str, observe: Sequence[str], jobs: Jobs):
        super().__init__(live.stream)
        self._opened, self._jobs = (folder, tuple(observe)), jobs

    def scores(self, query: Query, against: str) -> np.ndarray:
        asked = ((query[rows], against) for rows in self._rows(query))
        return np.concatenate([*self._map("answerer.scores", asked)])

    def answers(self, query: Query) -> np.ndarray:
        return np.concatenate([*self._map("answerer.answers", ((query[rows],) for rows in self._rows(query)))])

    def embeddings_of_each(self, pieces: Iterable[np.ndarray], when: Any) -> Iterator[np.ndarray]:
        return self._map("answerer.embeddings", ((nodes, when) for nodes in pieces))

    def recommendations(
        self, live: Live, ids: list[Any], request: RecommendRequest, progress: Callable[[int, int], None]
    ) -> pa.Table:
        rows, found = self._rows(ids), []
        for one in self._map("recommend_many", ((ids[some],) for some in rows), **vars(request)):
            found.append(one)
            progress(rows[len(found) - 1].stop, len(ids))
        return pa.concat_tables(found)

    def _rows(self, asked: Query | list[Any]) -> list[slice]:
        """Shares of the rows; one empty share if there are no rows."""
        shares = max(1, min(len(asked), SHARES * self._jobs.workers))
        return [slice(len(asked) * k // shares, len(asked) * (k + 1) // shares) for k in range(shares)]

    def _map(self, method: str, asked: Iterable[tuple[Any, ...]], **options: Any) -> Iterator[Any]:
        """The answers of a method of `Live` to each of the questions, in their order."""
        early: dict[int, Any] = {}  # answers that came before their turn
        turn = 0
        for number, answer in self._jobs.run(_answer, ((*self._opened, method, one, options) for one in asked)):
            early[number] = answer
            while turn in early:
                yield early.pop(turn)
                turn += 1


@lru_cache(1)
def opened_run(folder: str, observe: tuple[str, ...]) -> Live:
    """A run after newer events, opened once in each worker."""
    live = open_run(folder)
    for path in observe:
        live.observe(path)
    return live


def _answer(folder: str, observe: tuple[str, ...], method: str, asked: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return attrgetter(method)(opened_run(folder, observe))(*asked, **options)
