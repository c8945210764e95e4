"""What waits for the one thread that changes the state."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pintgn.ingest.codec import EventBatch
from pintgn.serve.saver import promise
from pintgn.serve.store import Store, StoreLost

GROUP = 20_000
"""Events that are committed together at most."""
BEAT = 1.0
"""Seconds after which an idle writer makes sure that it still is the one."""


@dataclass
class Job:
    """For the writer: observe a batch; without one, make a snapshot, drop old events, or call a function."""

    batch: EventBatch | None = None
    answer: Future = field(default_factory=promise)
    drop: bool = False
    call: Callable[[], Any] | None = None  # between two groups of events
    scored: bool = False  # the answer has a score of each event, as of just before it

    def do(self) -> None:
        """Call the function, and answer with what it returns."""
        assert self.call is not None
        try:
            self.answer.set_result(self.call())
        except StoreLost:  # the writer is one no more; whoever waits is told then
            raise
        except Exception as error:
            self.answer.set_exception(error)

    @property
    def count(self) -> int:
        return 0 if self.batch is None else len(self.batch.t)


class Jobs:
    """A queue of jobs; None ends it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.put = self._queue.put

    def groups(self, store: Store) -> Iterator[list[Job]]:
        """What is handled together: all that waits, up to so many events, or to the first job that has none."""
        while (job := self._next(store)) is not None:
            jobs = [job]
            while jobs[-1].batch is not None and sum(one.count for one in jobs) < GROUP and not self._queue.empty():
                if (more := self._queue.get()) is None:
                    yield jobs
                    return
                jobs.append(more)
            yield jobs

    def _next(self, store: Store) -> Job | None:
        """The next job. Meanwhile a store that others might write to is asked now and then who its writer is."""
        while store.shared:
            try:
                return self._queue.get(timeout=BEAT)
            except queue.Empty:
                store.check()
        return self._queue.get()

    def left(self) -> list[Job]:
        """Take out all that waits."""
        return [job for _ in range(self._queue.qsize()) if (job := self._queue.get_nowait()) is not None]


def spread(scores: np.ndarray, rows: Sequence[int], count: int) -> list[float | None]:
    """Scores of the new events of a batch, in the order of all; None for those that were known, or not scored."""
    found: list[float | None] = [None] * count
    for row, score in zip(rows, scores.tolist(), strict=True):
        found[row] = None if score != score else score
    return found
