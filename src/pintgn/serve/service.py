"""The service behind the HTTP interface: one writer, many readers, nothing acknowledged that could be lost.

Events travel: checked by the request's own thread, queued (a full queue refuses), then by the one writer thread
ordered, freed of duplicates, committed together with everything else that waits (one flush to the disk for all),
observed block by block, and only then acknowledged. So an acknowledged event is durable and already counts in answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.display.progress import phases, takes_progress
from pintgn.errors import BadInput, PintgnError
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.nodes import Search
from pintgn.models.base import Model
from pintgn.serve.admission import Admitted, span_of
from pintgn.serve.fair_lock import FairLock
from pintgn.serve.follow import Follower
from pintgn.serve.jobs import Job, Jobs, spread
from pintgn.serve.limits import Busy, Degraded, Limits, NotWriter, Options, Stopped
from pintgn.serve.metrics import Metrics, Rate
from pintgn.serve.model_history import open_models
from pintgn.serve.models import Candidate, follow
from pintgn.serve.repair import described
from pintgn.serve.requests import Requests
from pintgn.serve.rows import Gap
from pintgn.serve.saver import Saver, promise
from pintgn.serve.starting import started
from pintgn.serve.states import warm_up
from pintgn.serve.store import StoreFull, StoreGone, StoreLost
from pintgn.serve.stores import home_of, open_store
from pintgn.serve.unnumbered import Unnumbered

log = logging.getLogger("pintgn.serve")
Progress = Callable[[str], None]
STOP = 60.0
"""Seconds that a stop waits for its threads. One that still waits then, for a disk say, ends with the process."""


class Service:
    """A run at work: what `pintgn serve` puts behind HTTP.

        with pintgn.Service.open("runs/pint") as service:
            service.observe([{"src": "alice", "dst": "bob", "t": 1700000000, "key": "order-17"}])
            with service.asking() as live:
                live.recommend("alice", k=10)

    Args:
        run: an opened run; used up, its stream moves on.
        store: folder of the events and snapshots, locked while the service is open; or postgresql://…, which services
            share: one writes, the others follow, and one of them takes over.
        options, limits: how it runs, and how much at once.
        progress: called with what a start is doing; True for a bar, False for nothing.
    """

    @takes_progress(phases)
    def __init__(self, run: Run, store: str | Path, options: Options | None = None, limits: Limits | None = None,
                 *, progress: Progress | bool | None = log.info):  # fmt: skip
        assert callable(progress)  # by `takes_progress`
        self.run, self.options, self.limits = run, options or Options(), limits or Limits()
        self.max_ahead = span_of(run.log.t) if self.options.max_ahead is None else self.options.max_ahead
        if not self.max_ahead > 0:
            raise BadInput(f"max_ahead={self.max_ahead}; it is more than 0, or inf for any time.")
        self.metrics, self.rate = Metrics(), Rate()
        self.started = time.time()
        self.lock, self.searching = FairLock(), threading.Lock()
        self._jobs = Jobs()
        self._mutex = threading.Lock()
        self.waiting = 0  # events that wait for the writer
        self._seats = threading.Semaphore(self.limits.asking)  # for those who ask
        self._failure: str | None = None
        self._full: str | None = None  # why the newest events could not be written
        self.closed = False
        self.where, self.unnumbered = store, Unnumbered(self)
        self.home = None if run.folder is None else home_of(run.folder.path, store)  # of the run that is named
        self.models = open_models(store)
        self.candidate: Candidate | None = None
        self.other_model: str | None = None  # why this service does not serve the run that was promoted
        self.run, self.covered, own_log = self.models.served(run, progress)
        self.store, self.snapshots = open_store(store, self.run, self.options.follow, own_log)
        self.follower = Follower(self, takes_over=not self.options.follow)
        try:
            self.saver = Saver(self.snapshots, self.metrics, self._snapshot_done)
            self.models.attach(self.store)
            self._loss = ""
            self.live, self.replayed, self.missing, self._loss = started(self, progress)
            for report in self.reports:
                log.warning("%s", report)
            self.requests, self.search = Requests(self.live.codec, self.limits), Search(self.live.names)
            if self.store.writes:
                self.unnumbered.begin()
            if self.store.shared:
                follow(self)
            warm_up(self.live)
        except BaseException:
            self.store.close()
            raise
        self._writer = threading.Thread(target=self._write, name="pintgn-writer", daemon=True)
        self._writer.start()

    @classmethod
    def open(
        cls,
        run: str | Path,
        store: str | Path | None = None,
        options: Options | None = None,
        model: type[Model] | None = None,
        limits: Limits | None = None,
        *,
        progress: Progress | bool | None = log.info,
        device: str | None = None,
    ) -> Service:
        """Start from a run's folder: the newest valid snapshot, then the events after it; else the run's own log.

        `model` is needed for a class of your own. The store is RUN/live when not given. It computes on `device`, the
        processor by default.
        """
        made = Run.open(run, model, device=device)
        return cls(made, Path(run) / "live" if store is None else store, options, limits, progress=progress)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what was accepted, write a snapshot, let go of the store."""
        with self._mutex:  # who has put a job in the queue before is answered, whoever comes later is refused
            if self.closed:
                return
            self.closed = True
        end = time.monotonic() + STOP
        self._jobs.put(None)
        if not _ended(self._writer, end):
            return  # what it holds is its own: the process ends without it, and nothing acknowledged is lost
        if self.candidate is not None:
            self.candidate.give_up()
            _ended(self.candidate, end)
        _ended(self.saver.thread, end)
        self._refuse_the_rest()
        final = self.store.writes and self.live.total > self.saver.at and not self.unnumbered.late
        if self._failure is None and not self.missing and final:
            try:
                self.snapshots.write(self.live.snapshot())
            except Exception as error:  # a full disk has many names; the next start replays instead
                log.warning("no snapshot at the end: %s", error)
        _ended(self.unnumbered.end(), end)
        self.store.close()

    # -- starting, and what is found then ------------------------------------------------------------------------------

    @property
    def reports(self) -> list[str]:
        """What is wrong, for people to read: damage that was found, events that are missing, a disk that is full."""
        own = (self._loss, self._full, self.other_model, self.unnumbered.trouble)
        troubles = (*own, self.saver.trouble, self.follower.trouble, self._failure)
        return [*self.snapshots.reports, *self.store.reports, *filter(None, troubles)]

    def check_writes(self) -> None:
        """Refuse what only the writer may do."""
        if not self.store.writes:
            raise BadInput(f"{self.store.name} is in use by {self.store.holder()}. Stop that first.")

    def accept_loss(self) -> list[Gap]:
        """Go on without the events that are missing, for good."""
        self.snapshots.forget_after(self.live.total)
        gaps = self.store.accept_loss()
        self.missing, self._loss, self.saver.tried = [], "", self.saver.at
        return gaps

    # -- events --------------------------------------------------------------------------------------------------------

    def submit(self, batch: EventBatch, scored: bool = False) -> Future:
        """Queue checked events; the future has the acknowledgement, when they are durable and observed.

        With `scored` it has the probability of each event, as of just before it. Raises `Busy` when too many wait
        already.
        """
        if scored and not self.run.scores_links:
            raise BadInput("this run embeds nodes and scores no links. Send events without asking for scores.")
        with self._mutex:
            self._check_taking()
            if self.waiting and self.waiting + len(batch.t) > self.limits.waiting:
                raise Busy(f"{self.waiting:,} events are waiting to be written already.")
            self.waiting += len(batch.t)
            self._jobs.put(job := Job(batch, scored=scored))
            return job.answer

    def observe(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        """Let events happen, as `POST /events` does; returns the acknowledgement."""
        return self.submit(self.requests.rows(events)).result()

    def snapshot(self) -> Future:
        """Ask for a snapshot of the state after everything accepted so far."""
        with self._mutex:
            self._check_taking()
            self._jobs.put(job := Job())
            return job.answer

    def call(self, work: Callable[[], Any]) -> Future:
        """Have a function called by the writer, between two groups of events: nothing is observed meanwhile."""
        with self._mutex:
            if self._failure is not None or self.closed:
                raise Stopped(self._failure or "the service is going down.")
            self._jobs.put(job := Job(call=work))
            return job.answer

    def _check_taking(self) -> None:
        if self._failure is not None:
            raise Stopped(self._failure)
        if self.closed:
            raise Stopped("the service is going down.")
        if not self.store.writes:
            raise NotWriter(f"another service writes to {self.store.name}; this one is a {self.role}.")
        if self.missing:
            raise Degraded(f"{described(self.missing)}. No new events are taken until an operator has decided.")

    def _write(self) -> None:
        """The thread of everything that changes the state: the writer's, or one that follows until it may write."""
        jobs: list[Job] = []
        try:
            while self.store.writes or self.follower.until_writer():
                try:
                    if not self.unnumbered.begun:  # it has just become the writer
                        self.unnumbered.begin()
                        self.follow_model()
                    for jobs in self._jobs.groups(self.store):
                        self._handle(jobs)
                    break
                except StoreLost as error:
                    self._demoted(jobs, error)
        except BaseException as error:  # never leave anybody waiting
            gone, kind = isinstance(error, StoreGone), type(error).__name__
            log.error("the writer has failed: %s", error, exc_info=not gone)
            said = f"the writer has failed ({kind}). Restart the service: what was acknowledged is safe."
            with self._mutex:
                self._failure = str(error) if gone else said
            for job in jobs:
                if not job.answer.done():
                    job.answer.set_exception(Stopped(self._failure))
        self._refuse_the_rest()

    def _demoted(self, jobs: list[Job], error: StoreLost) -> None:
        """The store is not ours to write any more. Nobody is told that events were kept which may not have been."""
        log.error("%s", error)
        self.follower.trouble = str(error)
        self.unnumbered.end()
        if self.candidate is not None:
            self.candidate.give_up()
        for job in jobs:
            if not job.answer.done():
                self._done(job, StoreLost(f"{error} Whether these events were kept is not known."))
        with self._mutex:
            left = self._jobs.left()
        for job in left:
            self._done(job, NotWriter(f"another service may write to {self.store.name} now."))

    def do_calls(self) -> None:
        """What waits for this thread while it follows: calls are made, everything else is refused."""
        for job in self._jobs.left():
            if job.call is not None:
                job.do()
            else:
                self._done(job, NotWriter(f"another service writes to {self.store.name}; this one is a {self.role}."))

    def follow_model(self) -> None:
        """Serve what the service that writes serves."""
        if self.models.reload():
            follow(self)

    def _refuse_the_rest(self) -> None:
        for job in self._jobs.left():
            job.answer.set_exception(Stopped(self._failure or "the service is going down."))

    def _handle(self, jobs: list[Job]) -> None:
        """Commit a group of batches together, observe them, answer."""
        accepted: list[tuple[Job, Admitted]] = []
        admit = self.unnumbered.admission()
        for job in jobs:
            if job.batch is not None:
                try:
                    accepted.append((job, admit(job.batch)))
                except StoreLost:
                    raise
                except PintgnError as error:
                    self._done(job, error)
        try:
            with self.unnumbered.keeping([one.late for _, one in accepted if len(one.late)]):
                scores = self.unnumbered.let_in([(one.batch, job.scored) for job, one in accepted if len(one.batch)])
        except StoreFull as error:
            self.store_failed(error)
            for job, _ in accepted:
                self._done(job, error)
        else:
            now = {"clock": self.live.clock, "total": self.live.events, "event": self.live.total}
            now |= self.unnumbered.acknowledged()
            begin = 0
            for job, (batch, rows, late_ones) in accepted:
                own, begin = scores[begin : begin + len(batch)], begin + len(batch)
                self.metrics.duplicates.inc(job.count - len(rows))
                told = {"accepted": len(rows), "duplicates": job.count - len(rows)} | now
                own = np.concatenate([np.full(len(late_ones), np.nan), own])
                self._done(job, told | {"scores": spread(own, rows, job.count)} if job.scored else told)
        self._look_after(jobs)

    def _look_after(self, jobs: list[Job]) -> None:
        """What is done between two groups of events: snapshots, room, calls."""
        snapshots = [job.answer for job in jobs if job.batch is None and not job.drop and job.call is None]
        if late := self.unnumbered.late:  # the snapshots that there are may be what the state is rebuilt from
            for answer in snapshots:
                answer.set_exception(Busy(f"{len(late):,} late events have to be put in their places first."))
        elif snapshots or self.live.total - self.saver.tried >= self.options.snapshot_every:
            self.saver.save(self.live, snapshots)
        if jobs[-1].drop and not late:
            self.drop_old(self.saver.everywhere)
        if jobs[-1].call is not None:
            jobs[-1].do()

    def happen(self, batches: list[tuple[EventBatch, bool]]) -> np.ndarray:
        """Events that were let in: on the disk first, then observed. The probabilities of those to be scored."""
        if not batches:
            return np.zeros(0)
        together = batches[0][0] if len(batches) == 1 else EventBatch.concat([batch for batch, _ in batches])
        scored = np.concatenate([np.full(len(batch), wanted) for batch, wanted in batches])
        with self.metrics.commit_seconds.time():
            self.store.append(together)
        self._full = None
        with self.metrics.observe_seconds.time():
            logits = self.live.observe_batch(together, self.lock.writing, scored)
        for beside in (self.candidate, self.unnumbered.rewinder):
            if beside is not None:
                beside.observe(together)
        self.store.settle()
        self.rate.add(len(together.t))
        self.metrics.events.inc(len(together.t))
        return self.live.calibration(logits) if scored.any() else logits

    def store_failed(self, error: StoreFull) -> None:
        """Events could not be written."""
        self.metrics.store_failures.inc()
        self._full = str(error)
        log.error("%s", error)

    def _done(self, job: Job, answer: Any) -> None:
        with self._mutex:
            self.waiting -= job.count
        if isinstance(answer, BaseException):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def _snapshot_done(self, again: list[Future] | None) -> None:
        """Called by the saver: others may have asked meanwhile, and old events may go now."""
        if not self.store.writes:
            for answer in again or []:
                answer.set_exception(NotWriter(f"another service may write to {self.store.name} now."))
        elif again is not None:
            for answer in again or [promise()]:
                self._jobs.put(Job(None, answer))
        elif self.options.keep_events is not None:
            self._jobs.put(Job(drop=True))

    def drop_old(self, everywhere: int) -> None:
        """Keep the store at the size that was asked for; only what every snapshot holds may go."""
        assert self.options.keep_events is not None
        if self.options.too_late == "rewind" and self.store.total - everywhere < self.options.snapshot_every:
            return  # it is of the newest state: nothing could be put in its place before it
        upto = min(everywhere, self.store.total - self.options.keep_events)
        try:
            self.metrics.dropped.inc(self.store.drop(upto))
        except StoreFull as error:  # the store stays larger than it might be
            log.error("%s", error)

    def compact(self) -> int:
        """Drop the stored events that every snapshot holds, and shrink the file; returns how many."""
        if self.live.total > self.saver.at:
            self.snapshot().result()
        gone = self.store.drop(self.snapshots.oldest())
        self.store.shrink()
        return gone

    # -- questions -----------------------------------------------------------------------------------------------------

    @contextmanager
    def asking(self) -> Iterator[Live]:
        """The run, for a question; nothing is observed meanwhile. Keep it short."""
        if not self._seats.acquire(blocking=False):
            raise Busy(f"{self.limits.asking} questions are being answered already.")
        try:
            with self.lock.reading:
                yield self.live.reader()
        finally:
            self._seats.release()

    @property
    def healthy(self) -> bool:
        """Whether the writer is at work."""
        return self._failure is None and not self.closed

    @property
    def taking(self) -> bool:
        """Whether events are taken."""
        return self.healthy and self.store.writes and not self.missing and self._full is None

    @property
    def role(self) -> str:
        """`writer`; `standby`, which follows until it may write; or `follower`."""
        return "writer" if self.store.writes else "follower" if self.options.follow else "standby"


def _ended(thread: threading.Thread | None, end: float) -> bool:
    """Wait for a thread until a time; whether it has ended."""
    if thread is None:
        return True
    thread.join(max(0.0, end - time.monotonic()))
    if thread.is_alive():
        log.error("%s has not ended in %.0f s; the service stops without it", thread.name, STOP)
    return not thread.is_alive()
