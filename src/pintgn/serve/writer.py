"""The one thread that changes a service's state: it orders, stores, observes and acknowledges events.

It owns the queue, the store with its snapshots, and the state that answers come from. Everything that waits is
committed together (one flush to the disk for all), observed block by block, and only then acknowledged. So an
acknowledged event is durable and already counts in answers. On a shared store it follows until it may write.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadInput, PintgnError
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.serve.admission import Admission, span_of
from pintgn.serve.event_store import StoreFull, StoreGone, StoreLost
from pintgn.serve.follow import Follower
from pintgn.serve.held import Held
from pintgn.serve.limits import Busy, Limits, NotWriter, Options, Stopped
from pintgn.serve.model_history import open_models
from pintgn.serve.models import Candidate, follow
from pintgn.serve.prometheus import Metrics
from pintgn.serve.saver import Saver
from pintgn.serve.states import Rate, State, started, warm_up
from pintgn.serve.stores import open_store

logger = logging.getLogger("pintgn.serve")
GROUP = 20_000
"""Events that are committed together at most."""
BEAT = 1.0
"""Seconds after which an idle writer makes sure that it still is the one."""
STOP = 60.0
"""Seconds that a stop waits for its threads. One that still waits then, for a disk say, ends with the process."""
GIVE_UP = 10.0
"""Seconds of them that a candidate gets: nothing depends on it, and a snapshot is to be written yet."""


def promise() -> Future:
    """A future that cannot be cancelled."""
    answer: Future = Future()
    answer.set_running_or_notify_cancel()
    return answer


@dataclass
class Job:
    """For the writer: observe a batch; without one, call a function, or else make a snapshot."""

    batch: EventBatch | None = None
    call: Callable[[], Any] | None = None  # between two groups of events
    scored: bool = False  # the answer has a score of each event, as of just before it
    answer: Future = field(default_factory=promise)

    @property
    def count(self) -> int:
        return 0 if self.batch is None else len(self.batch.t)


class Writer:
    """The writer of one service; `Service` describes the arguments."""

    def __init__(self, run: Run, where: str | Path, options: Options, limits: Limits, progress: Callable[[str], None]):
        self.options, self.limits = options, limits
        self.max_ahead = span_of(run.log.t) if options.max_ahead is None else options.max_ahead
        if not self.max_ahead > 0:
            raise BadInput(f"max_ahead={self.max_ahead}; it is more than 0, or inf for any time.")
        self.metrics, self.rate = Metrics(), Rate()
        self.waiting = 0  # events in the queue
        self.closed = False
        self.failure: str | None = None
        self._full: str | None = None  # why the newest events could not be written
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self._jobs: list[Job] = []  # that are being handled
        self.held: Held | None = None  # events that wait until no earlier one can come
        self.begun = False  # as the writer
        self.candidate: Candidate | None = None
        self.other_model: str | None = None  # why this service does not serve the run that was promoted
        self.models = open_models(where)
        run, covered, own_log = self.models.served(run, progress)
        self.store, self.snapshots = open_store(where, run, options.follow, own_log)
        self.follower = Follower(self, takes_over=not options.follow)
        try:
            self.models.attach(self.store)
            live, snapshot, self.replayed = started(run, covered, self.store, self.snapshots, options, progress)
            self.state, self.codec = State(live), live.codec
            self.saver = Saver(self.snapshots, self.metrics, self._snapshot_done, snapshot)
            for report in self.reports:
                logger.warning("%s", report)
            if self.store.writes:
                self._begin()
            if self.store.shared:
                follow(self)
            warm_up(self.live)
        except BaseException:
            self.store.close()
            raise
        self._thread = threading.Thread(target=self._work, name="pintgn-writer", daemon=True)
        self._thread.start()

    @property
    def live(self) -> Live:
        return self.state.live

    @property
    def reports(self) -> list[str]:
        """Problems, as text for people: unusable snapshots, a full disk, a lost connection."""
        troubles = (self._full, self.other_model, self.saver.trouble, self.follower.trouble, self.failure)
        return [*self.snapshots.reports, *self.store.reports, *filter(None, troubles)]

    @property
    def taking(self) -> bool:
        """Whether events are accepted."""
        return self.failure is None and not self.closed and self.store.writes and self._full is None

    @property
    def role(self) -> str:
        """`writer`; `standby`, which follows until it may write; or `follower`."""
        return "writer" if self.store.writes else "follower" if self.options.follow else "standby"

    # -- for other threads ---------------------------------------------------------------------------------------------

    def submit(self, batch: EventBatch | None = None, scored: bool = False) -> Future:
        """Queue a batch of events; without one, a snapshot."""
        if scored and not self.state.run.scores_links:
            raise BadInput("this run embeds nodes and scores no links. Send events without asking for scores.")
        job = Job(batch, scored=scored)
        with self._mutex:
            self.check_taking()
            if self.waiting and self.waiting + job.count > self.limits.waiting:
                raise Busy(f"{self.waiting:,} events are waiting to be written already.")
            self.waiting += job.count
            self._queue.put(job)
        return job.answer

    def call(self, work: Callable[[], Any]) -> Future:
        """Have a function called between two groups of events: nothing is observed meanwhile."""
        with self._mutex:
            self._check_at_work()
            self._queue.put(job := Job(call=work))
        return job.answer

    def _stopped(self) -> Stopped:
        return Stopped(self.failure or "the service is going down.")

    def _check_at_work(self) -> None:
        if self.failure is not None or self.closed:
            raise self._stopped()

    def check_taking(self) -> None:
        self._check_at_work()
        if not self.store.writes:
            raise self._not_writer()

    def _not_writer(self) -> NotWriter:
        return NotWriter(f"another service writes to {self.store.name}; this one is a {self.role}.")

    def close(self) -> None:
        """Finish accepted requests, write a snapshot, release the store."""
        with self._mutex:  # who has put a job in the queue before is answered, whoever comes later is refused
            if self.closed:
                return
            self.closed = True
        end = time.monotonic() + STOP
        if self.candidate is not None:
            self.candidate.give_up()
        self._queue.put(None)
        if not _ended(self._thread, end):
            return  # what it holds is its own: the process ends without it, and nothing acknowledged is lost
        _ended(self.candidate, min(end, time.monotonic() + GIVE_UP))
        _ended(self.saver.thread, end)
        self._refuse(self._left(), self._stopped())
        if self.failure is None and self.store.writes and self.live.total > self.saver.at:
            try:
                self.snapshots.write(self.live.snapshot())
            except Exception as error:  # a full disk has many names; the next start replays instead
                logger.warning("no snapshot at the end: %s", error)
        self.store.close()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """The thread's work: to write, or to follow until it may write."""
        try:
            while self.store.writes or self.follower.until_writer():
                try:
                    if not self.begun:  # it has just become the writer
                        self._begin()
                        self.follow_model()
                    for jobs in self._groups():
                        self._jobs = jobs
                        self._handle(jobs)
                    break
                except StoreLost as error:
                    self._demoted(error)
        except BaseException as error:  # never leave anybody waiting
            gone, kind = isinstance(error, StoreGone), type(error).__name__
            logger.error("the writer has failed: %s", error, exc_info=not gone)
            said = f"the writer has failed ({kind}). Restart the service: what was acknowledged is safe."
            with self._mutex:
                self.failure = str(error) if gone else said
            self._refuse(self._jobs, self._stopped())
        self._refuse(self._left(), self._stopped())

    def _begin(self) -> None:
        """Read the waiting events, as the writer. Without a lateness they are due at once."""
        self.held = Held(self.store, self.options.lateness)
        try:
            self._observe(self.held.append())
        except StoreFull as error:
            self.store_failed(error)
        if self.options.lateness is None and not len(self.held):  # nothing waits any more
            self.held = None
        self.codec.sorts = self.held is not None
        self.begun = True

    def _demoted(self, error: StoreLost) -> None:
        """Another process writes to the store now. Nothing is acknowledged that may not have been kept."""
        logger.error("%s", error)
        self.follower.trouble = str(error)
        self.held, self.begun = None, False
        if self.candidate is not None:
            self.candidate.give_up()
        self._refuse(self._jobs, StoreLost(f"{error} Whether these events were kept is not known."))
        with self._mutex:
            left = self._left()
        self._refuse(left, NotWriter(f"another service may write to {self.store.name} now."))

    def do_calls(self) -> None:
        """Handle queued jobs while this process follows: calls are made, everything else is refused."""
        for job in self._left():
            if job.call is not None:
                _do(job)
            else:
                self._refuse([job], self._not_writer())

    def follow_model(self) -> None:
        """Serve the run that the writing service serves."""
        if self.models.reload():
            follow(self)

    def _groups(self) -> Iterator[list[Job]]:
        """Groups of jobs that are handled together: all that wait, up to so many events, or to the first job that has
        none."""
        while (job := self._next()) is not None:
            jobs = [job]
            while jobs[-1].batch is not None and sum(one.count for one in jobs) < GROUP and not self._queue.empty():
                if (more := self._queue.get()) is None:
                    yield jobs
                    return
                jobs.append(more)
            yield jobs

    def _next(self) -> Job | None:
        """The next job. Meanwhile a store that others might write to is asked now and then who its writer is."""
        while self.store.shared:
            try:
                return self._queue.get(timeout=BEAT)
            except queue.Empty:
                self.store.check()
        return self._queue.get()

    def _left(self) -> list[Job]:
        """Empty the queue."""
        return [job for _ in range(self._queue.qsize()) if (job := self._queue.get_nowait()) is not None]

    def _refuse(self, jobs: list[Job], error: PintgnError) -> None:
        for job in jobs:
            if not job.answer.done():
                self._done(job, error)

    def _done(self, job: Job, answer: Any) -> None:
        with self._mutex:
            self.waiting -= job.count
        if isinstance(answer, BaseException):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)

    def _handle(self, jobs: list[Job]) -> None:
        """Commit a group of batches together, observe them, answer; then do the work that waits for the gap between two
        groups."""
        accepted: list[tuple[Job, EventBatch, Sequence[int]]] = []
        admit = Admission(self.store, self.live.clock, self.live.schema.time, self.max_ahead, self.held)
        for job in jobs:
            if job.batch is not None:
                try:
                    accepted.append((job, *admit(job.batch)))
                except StoreLost:
                    raise
                except PintgnError as error:
                    self._done(job, error)
        try:
            scores = self.happen([(new, job.scored) for job, new, _ in accepted if len(new)], self.held)
        except StoreFull as error:
            self._refuse([job for job, *_ in accepted], error)
        else:
            begin = 0
            for job, new, rows in accepted:
                own, begin = scores[begin : begin + len(new)], begin + len(new)
                self.metrics.duplicates.inc(job.count - len(rows))
                answer = self.acknowledged(len(rows), job.count - len(rows))
                self._done(job, answer | {"scores": _spread(own, rows, job.count)} if job.scored else answer)
        snapshots = [job.answer for job in jobs if job.batch is None and job.call is None]
        if snapshots or self.live.total - self.saver.tried >= self.options.snapshot_every:
            self.saver.save(self.live, snapshots)
        if jobs[-1].call is not None:
            _do(jobs[-1])

    def acknowledged(self, accepted: int, duplicates: int) -> dict[str, Any]:
        """The answer to a batch whose events are durable, and count."""
        answer = {"accepted": accepted, "duplicates": duplicates, "clock": self.live.clock, "total": self.live.events}
        answer["event"] = self.live.total
        return answer if self.held is None else answer | {"held": len(self.held)}

    def happen(self, batches: list[tuple[EventBatch, bool]], held: Held | None = None) -> np.ndarray:
        """Commit admitted events, then observe them; returns the probabilities of those to be scored."""
        if not batches:
            return np.zeros(0)
        together = batches[0][0] if len(batches) == 1 else EventBatch.concat([batch for batch, _ in batches])
        scored = np.concatenate([np.full(len(batch), wanted) for batch, wanted in batches])
        try:
            with self.metrics.commit_seconds.time():
                if held is None:
                    self.store.append(together)
                else:
                    released = held.append(together)
        except StoreFull as error:
            self.store_failed(error)
            raise
        self._full = None
        if held is not None:
            self._observe(released)
            return np.full(len(together), np.nan)
        logits = self._observe(together, scored)
        return self.live.calibration(logits) if scored.any() else logits

    def _observe(self, batch: EventBatch | None, scored: np.ndarray | None = None) -> np.ndarray:
        """Observe numbered events; afterwards they may be acknowledged."""
        logits = np.zeros(0)
        if batch is not None:
            before = self.live.events
            with self.metrics.observe_seconds.time():
                logits = self.live.observe_batch(batch, self.state.lock.writing, scored)
            if self.candidate is not None:
                self.candidate.observe(batch)
            count = self.live.events - before  # targets are none
            self.rate.add(count)
            self.metrics.events.inc(count)
        self.store.settle()
        return logits

    def store_failed(self, error: StoreFull) -> None:
        """Events could not be written."""
        self.metrics.store_failures.inc()
        self._full = str(error)
        logger.error("%s", error)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def _snapshot_done(self, again: list[Future] | None) -> None:
        """Called by the saver: others may have asked meanwhile, and old events may go now."""
        if not self.store.writes:
            for answer in again or []:
                answer.set_exception(NotWriter(f"another service may write to {self.store.name} now."))
        elif again is not None:
            for answer in again or [promise()]:
                self._queue.put(Job(answer=answer))
        elif self.options.keep_events is not None:
            self._queue.put(Job(call=self._drop_old))

    def _drop_old(self) -> None:
        """Keep the store at the requested size; only events that every snapshot holds may go."""
        assert self.options.keep_events is not None
        upto = min(self.saver.everywhere, self.store.total - self.options.keep_events)
        try:
            self.metrics.dropped.inc(self.store.drop(upto))
        except StoreFull as error:  # the store stays larger than it might be
            logger.error("%s", error)

    def switch(self, live: Live) -> None:
        """Serve another state of the same events."""
        self.saver.join()  # a snapshot of the old state must not be taken for one of the new
        self.state.replace(live)
        self.snapshots = self.saver.snapshots = self.snapshots.of(live.run)
        self.saver.at = self.saver.everywhere = 0
        self.saver.tried = live.total - self.options.snapshot_every  # one is due now


def _do(job: Job) -> None:
    """Call the function of a job, and answer with what it returns."""
    assert job.call is not None
    try:
        job.answer.set_result(job.call())
    except StoreLost:  # the writer is one no more; whoever waits is told then
        raise
    except Exception as error:
        job.answer.set_exception(error)


def _spread(scores: np.ndarray, rows: Sequence[int], count: int) -> list[float | None]:
    """Scores of the new events of a batch, in the order of all; None for those that were known, or not scored."""
    found: list[float | None] = [None] * count
    for row, score in zip(rows, scores.tolist(), strict=True):
        found[row] = None if score != score else score
    return found


def _ended(thread: threading.Thread | None, end: float) -> bool:
    """Wait for a thread until a time; whether it has ended."""
    if thread is None:
        return True
    thread.join(limit := max(0.0, end - time.monotonic()))
    if thread.is_alive():
        logger.error("%s has not ended in %.0f s; the service stops without it", thread.name, limit)
    return not thread.is_alive()
