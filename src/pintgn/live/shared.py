"""A run at work on many workers: each opens the run for itself and answers a share of the questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.events.log import Query
from pintgn.live.answers import NODES
from pintgn.live.live import Live
from pintgn.live.live import open as open_run
from pintgn.live.many import everyone
from pintgn.workers.jobs import Jobs

PIECES = 8
"""Jobs for each worker, so that one that is slow or lost does not hold up the rest for long."""


class Shared:
    """What a `Live` answers, computed by workers; everything else is the live's own.

    Args:
        live: the same run with the same events, here.
        folder: of the run, where every worker can read it.
        observe: files of newer events that the live has observed, in order.
        jobs: where to compute.
    """

    def __init__(self, live: Live, folder: str, observe: Sequence[str], jobs: Jobs):
        self.live, self.opened, self.jobs = live, (folder, tuple(observe)), jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.live, name)

    def score_nodes(self, query: Query, against: str) -> np.ndarray:
        """As of `Live.score_nodes`."""
        found = self._each(_scored, len(query), lambda rows: (query[rows], against))
        return np.concatenate(found) if found else self.live.score_nodes(query, against)

    def embed_each(self, pieces: Iterable[np.ndarray], when: Any) -> Iterator[np.ndarray]:
        """As of `Live.embed_each`; workers go on while what is ready is taken."""
        parts = [np.array_split(nodes, min(self.jobs.workers, -(-len(nodes) // NODES) or 1)) for nodes in pieces]
        jobs = ((*self.opened, some.astype(np.int32), when) for several in parts for some in several)  # half to send
        waiting, number = dict[int, np.ndarray](), 0  # those that came before their turn
        answers = self.jobs.run(_embedded, jobs, self.jobs.workers)
        for several in parts:
            numbers = range(number, number := number + len(several))
            while not waiting.keys() >= set(numbers):
                waiting.update([next(answers)])
            yield np.concatenate([waiting.pop(one) for one in numbers])

    def recommend_many(
        self,
        src: Iterable[Any] | str,
        k: int,
        at: Any,
        among: list[Any] | None,
        *,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> pa.Table:
        """As of `Live.recommend_many`."""
        side = self.live.side_of(options.get("relation"))
        ids = everyone(self.live, side) if isinstance(src, str) else list(dict.fromkeys(src))
        found = self._each(_recommended, len(ids), lambda rows: (ids[rows], k, at, among, options), progress)
        return pa.concat_tables(found) if found else self.live.recommend_many(src, k, at, among, **options)

    def _each(
        self,
        function: Callable[..., Any],
        count: int,
        arguments: Callable[[slice], tuple[Any, ...]],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Any]:
        """What a function answers about each piece of so many rows, in their order."""
        pieces = min(count, PIECES * self.jobs.workers)
        borders = [count * k // pieces for k in range(pieces + 1)] if pieces else [0]
        rows = [slice(*both) for both in pairwise(borders)]
        found: list[Any] = [None] * pieces
        done = 0
        jobs = [(*self.opened, *arguments(some)) for some in rows]
        for number, answer in self.jobs.run(function, jobs, self.jobs.workers):
            found[number] = answer
            done += rows[number].stop - rows[number].start
            if progress is not None:
                progress(done, count)
        return found


@lru_cache(1)
def opened_run(folder: str, observe: tuple[str, ...]) -> Live:
    """A run after newer events, in a worker: opened once."""
    live = open_run(folder)
    for path in observe:
        live.observe(path)
    return live


def _scored(folder: str, observe: tuple[str, ...], *arguments: Any) -> np.ndarray:
    return opened_run(folder, observe).score_nodes(*arguments)


def _embedded(folder: str, observe: tuple[str, ...], nodes: np.ndarray, when: Any) -> np.ndarray:
    return opened_run(folder, observe).embed_nodes(nodes.astype(np.int64), when)


def _recommended(
    folder: str, observe: tuple[str, ...], ids: list[Any], k: int, at: Any, among: Any, options: dict[str, Any]
) -> pa.Table:
    return opened_run(folder, observe).recommend_many(ids, k, at, among, **options)
