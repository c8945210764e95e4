"""Batch answers on a Ray cluster: each worker opens the run for itself and answers a share of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.display.progress import counting, takes_progress
from pintgn.events.log import Query
from pintgn.live.live import Live
from pintgn.live.live import open as open_run
from pintgn.live.many import sources
from pintgn.workers.jobs import Jobs

SHARES = 4
"""Shares for each worker, so that one that is slow or lost does not hold up the rest for long."""


class OnRay(Live):
    """A `Live` whose answers about many rows are computed by workers.

    Args:
        live: the same run with the same events, here.
        folder: of the run, where every worker can read it.
        observe: files of newer events that the live has observed, in order.
        jobs: where to compute.
    """

    def __init__(self, live: Live, folder: str, observe: Sequence[str], jobs: Jobs):
        self.__dict__.update(live.__dict__)
        self._opened, self._jobs = (folder, tuple(observe)), jobs

    def score_nodes(self, query: Query, against: str) -> np.ndarray:
        return np.concatenate([*self._each(Live.score_nodes, ((query[rows], against) for rows in self._rows(query)))])

    def answer_nodes(self, query: Query) -> np.ndarray:
        return np.concatenate([*self._each(Live.answer_nodes, ((query[rows],) for rows in self._rows(query)))])

    def embed_each(self, pieces: Iterable[np.ndarray], when: Any) -> Iterator[np.ndarray]:
        return self._each(Live.embed_nodes, ((nodes, when) for nodes in pieces))

    @takes_progress(counting("ranking", "sources"))
    def recommend_many(
        self,
        src: Iterable[Any] | str = "all",
        k: int = 10,
        at: Any = None,
        among: Iterable[Any] | None = None,
        *,
        progress: Callable[[int, int], None] | bool | None = None,
        **filters: Any,
    ) -> pa.Table:
        assert callable(progress)  # by `takes_progress`
        ids = sources(self, src, self.side_of(filters.get("relation")))
        rows = self._rows(ids)
        found = []
        for one in self._each(Live.recommend_many, ((ids[some], k, at, among) for some in rows), **filters):
            found.append(one)
            progress(rows[len(found) - 1].stop, len(ids))
        return pa.concat_tables(found)

    def _rows(self, asked: Query | list[Any]) -> list[slice]:
        """Shares of what is asked; one that is empty where nothing is."""
        shares = max(1, min(len(asked), SHARES * self._jobs.workers))
        return [slice(len(asked) * k // shares, len(asked) * (k + 1) // shares) for k in range(shares)]

    def _each(self, method: Callable[..., Any], asked: Iterable[tuple[Any, ...]], **options: Any) -> Iterator[Any]:
        """What a method answers to each of the questions, in their order."""
        early: dict[int, Any] = {}  # answers that came before their turn
        turn = 0
        for number, answer in self._jobs.run(
            _answer, ((*self._opened, method.__name__, one, options) for one in asked)
        ):
            early[number] = answer
            while turn in early:
                yield early.pop(turn)
                turn += 1


@lru_cache(1)
def opened_run(folder: str, observe: tuple[str, ...]) -> Live:
    """A run after newer events, in a worker: opened once."""
    live = open_run(folder)
    for path in observe:
        live.observe(path)
    return live


def _answer(folder: str, observe: tuple[str, ...], method: str, asked: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return getattr(opened_run(folder, observe), method)(*asked, **options)
