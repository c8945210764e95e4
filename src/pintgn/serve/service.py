"""The service behind the HTTP interface: one writer, many readers, nothing acknowledged that could be lost.

Events travel: checked by the request's own thread, queued (a full queue refuses), then by the one writer thread
ordered, freed of duplicates, committed together with everything else that waits (one flush to the disk for all),
observed block by block, and only then acknowledged. So an acknowledged event is durable and already counts in answers.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile, BadInput, PintgnError
from pintgn.events.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.nodes import Search
from pintgn.live.retention import NEVER, Retention
from pintgn.live.snapshot import restore
from pintgn.models.base import Model
from pintgn.serve.admission import Admission, span_of
from pintgn.serve.fair_lock import FairLock
from pintgn.serve.limits import Busy, Degraded, Limits, Options, Stopped
from pintgn.serve.metrics import Metrics, Rate
from pintgn.serve.repair import advice, described
from pintgn.serve.requests import Requests
from pintgn.serve.rows import Gap
from pintgn.serve.saver import Saver, promise
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.store import Store, StoreFull, StoreGone
from pintgn.stream.core import WORTH_RANKING

log = logging.getLogger("pintgn.serve")
GROUP = 20_000
"""Events that are committed together at most."""
Progress = Callable[[str], None]


@dataclass
class _Job:
    """For the writer: observe a batch; without one, make a snapshot, or drop old events."""

    batch: EventBatch | None = None
    answer: Future = field(default_factory=promise)
    drop: bool = False

    @property
    def count(self) -> int:
        return 0 if self.batch is None else len(self.batch.t)


class Service:
    """A run at work: what `pintgn serve` puts behind HTTP.

        with pintgn.Service.open("runs/pint") as service:
            service.observe([{"src": "alice", "dst": "bob", "t": 1700000000, "key": "order-17"}])
            with service.asking() as live:
                live.recommend("alice", k=10)

    Args:
        run: an opened run; used up, its stream moves on.
        store: folder of the events and snapshots; locked while the service is open.
        options, limits: how it runs, and how much at once.
        progress: called with what a start is doing.
    """

    def __init__(self, run: Run, store: str | Path, options: Options | None = None, limits: Limits | None = None,
                 progress: Progress = log.info):  # fmt: skip
        self.run, self.options, self.limits = run, options or Options(), limits or Limits()
        self.max_ahead = span_of(run.log.t) if self.options.max_ahead is None else self.options.max_ahead
        if not self.max_ahead > 0:
            raise BadInput(f"max_ahead={self.max_ahead}; it is more than 0, or inf for any time.")
        self.metrics, self.rate = Metrics(), Rate()
        self.started = time.time()
        self.lock, self.searching = FairLock(), threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self.waiting = 0  # events that wait for the writer
        self._seats = threading.Semaphore(self.limits.asking)  # for those who ask
        self._failure: str | None = None
        self._full: str | None = None  # why the newest events could not be written
        self._closed = False
        self.snapshots = SnapshotFolder(store, run)
        seen = max(self.snapshots.numbers(), default=0)
        self.store = Store(store, run.fingerprint, run.log.schema.width, run.log.t.dtype, seen)
        try:
            self.saver = Saver(self.snapshots, self.metrics, self._snapshot_done)
            self.live = self._started(progress)
            self.requests, self.search = Requests(self.live.codec, self.limits), Search(self.live.names)
            self._warm_up()
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
        progress: Progress = log.info,
    ) -> Service:
        """Start from a run's folder: the newest valid snapshot, then the events after it; else the run's own log.

        `model` is needed for a class of your own. The store is RUN/live when not given.
        """
        return cls(Run.open(run, model), Path(run) / "live" if store is None else store, options, limits, progress)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what was accepted, write a snapshot, let go of the store."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._writer.join()
        self.saver.join()
        self._refuse_the_rest()
        if self._failure is None and not self.missing and self.live.total > self.saver.at:
            try:
                self.snapshots.write(self.live.snapshot())
            except Exception as error:  # a full disk has many names; the next start replays instead
                log.warning("no snapshot at the end: %s", error)
        self.store.close()

    # -- starting, and what is found then ------------------------------------------------------------------------------

    def _started(self, progress: Progress) -> Live:
        begin = time.perf_counter()
        for number, folder in self.snapshots.valid():
            try:
                if number < self.store.dropped:
                    raise BadFile(f"events up to {self.store.dropped:,} are no longer in the store")
                live = self._state(folder)
            except (PintgnError, KeyError, ValueError) as error:
                self.snapshots.discard(number, str(error))
                continue
            self.saver.at = self.saver.tried = number
            progress(f"snapshot after {number:,} events read in {time.perf_counter() - begin:.1f} s")
            break
        else:
            if self.store.dropped:
                raise BadFile(
                    f"the store in {self.store.folder.path} was compacted, and none of its snapshots can be used: "
                    + " ".join(self.snapshots.reports)
                    + " Put back a snapshot from a backup, or start an empty store with --store."
                )
            live = self._state(None)
            progress(f"the run's own log: {len(self.run.log):,} events")
        self.store.know(live.total)
        first, clock, self.replayed = live.total, live.clock, 0
        for number, batch in self.store.read(live.total):
            live.skip_to(number - 1)
            live.observe_batch(batch)
            self.replayed += len(batch)
            progress(f"replayed {live.total - first:,} of {self.store.total - first:,} events")
        live.skip_to(self.store.total)
        self.store.know(live.total)
        self.missing, self._loss = self.store.missing, ""
        if self.missing:
            self.saver.tried = NEVER  # the snapshots that there are stay
            between = [gap for gap in self.missing if gap.last > first and gap.first <= live.total]
            since = self.store.time_before(between[0]) if between else live.clock
            show = self.run.log.schema.time.show(clock if since is None else since)
            self._loss = f"{described(self.missing)}. {advice(self.missing, first, bool(between), show)}"
        for report in self.reports:
            log.warning("%s", report)
        return live

    @property
    def reports(self) -> list[str]:
        """What is wrong, for people to read: damage that was found, events that are missing, a disk that is full."""
        troubles = (self._loss, self._full, self.saver.trouble, self._failure)
        return [*self.snapshots.reports, *self.store.reports, *filter(None, troubles)]

    def accept_loss(self) -> list[Gap]:
        """Go on without the events that are missing, for good."""
        self.snapshots.forget_after(self.live.total)
        gaps = self.store.accept_loss()
        self.missing, self._loss, self.saver.tried = [], "", self.saver.at
        return gaps

    def _state(self, snapshot: Path | None) -> Live:
        """The state after the run's own log, or that of a snapshot."""
        options = self.options
        retention = Retention(options.keep_last, options.window, options.retain_every)
        if snapshot is None:
            live = Live(self.run, None, retention, options.evaluate_every)
        else:
            live = restore(self.run, snapshot, retention, options.evaluate_every)
        live.model.eval()
        return live

    def _warm_up(self) -> None:
        """Compile and load before the first question comes. What goes wrong here must not keep a service from starting:
        the questions that meet it will say so."""
        if not self.run.scores_links:
            return
        live = self.live.reader()
        some = live.names.ids[: 2 * WORTH_RANKING]
        for ask in (
            lambda: live.score(some[0], some[-1:]),
            lambda: live.recommend(some[0], k=1, among=some),
            lambda: live.explain(some[0], some[-1]),
        ):
            try:
                ask()
            except Exception as error:
                log.warning("a question that was asked to warm up failed: %s: %s", type(error).__name__, error)

    # -- events --------------------------------------------------------------------------------------------------------

    def submit(self, batch: EventBatch) -> Future:
        """Queue checked events; the future has the acknowledgement, when they are durable and observed.

        Raises `Busy` when too many wait already.
        """
        with self._mutex:
            self._check_taking()
            if self.waiting and self.waiting + len(batch.t) > self.limits.waiting:
                raise Busy(f"{self.waiting:,} events are waiting to be written already.")
            self.waiting += len(batch.t)
            self._jobs.put(job := _Job(batch))
            return job.answer

    def observe(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        """Let events happen, as `POST /events` does; returns the acknowledgement."""
        return self.submit(self.requests.rows(events)).result()

    def snapshot(self) -> Future:
        """Ask for a snapshot of the state after everything accepted so far."""
        with self._mutex:
            self._check_taking()
            self._jobs.put(job := _Job())
            return job.answer

    def _check_taking(self) -> None:
        if self._failure is not None:
            raise Stopped(self._failure)
        if self._closed:
            raise Stopped("the service is going down.")
        if self.missing:
            raise Degraded(f"{described(self.missing)}. No new events are taken until an operator has decided.")

    def _write(self) -> None:
        """The writer thread."""
        for jobs in self._groups():
            try:
                self._handle(jobs)
            except BaseException as error:  # never leave anybody waiting
                gone, kind = isinstance(error, StoreGone), type(error).__name__
                log.error("the writer has failed: %s", error, exc_info=not gone)
                said = f"the writer has failed ({kind}). Restart the service: what was acknowledged is safe."
                with self._mutex:
                    self._failure = str(error) if gone else said
                for job in jobs:
                    if not job.answer.done():
                        job.answer.set_exception(Stopped(self._failure))
                break
        self._refuse_the_rest()

    def _groups(self) -> Iterator[list[_Job]]:
        """What is handled together: all that waits, up to so many events, or to the first job that has none."""
        for job in iter(self._jobs.get, None):
            jobs = [job]
            while jobs[-1].batch is not None and sum(one.count for one in jobs) < GROUP and not self._jobs.empty():
                if (more := self._jobs.get()) is None:
                    yield jobs
                    return
                jobs.append(more)
            yield jobs

    def _refuse_the_rest(self) -> None:
        with suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.answer.set_exception(Stopped(self._failure or "the service is going down."))

    def _handle(self, jobs: list[_Job]) -> None:
        """Commit a group of batches together, observe them, answer."""
        accepted: list[tuple[_Job, EventBatch, int]] = []
        admit = Admission(self.store, self.live.clock, self.run.log.schema.time, self.max_ahead)
        for job in jobs:
            if job.batch is not None:
                try:
                    accepted.append((job, *admit(job.batch)))
                except PintgnError as error:
                    self._done(job, error)
        try:
            self._happen([batch for _, batch, _ in accepted if len(batch.t)])
        except StoreFull as error:
            self.metrics.store_failures.inc()
            self._full = str(error)
            log.error("%s", error)
            for job, _, _ in accepted:
                self._done(job, error)
        else:
            now = {"clock": self.live.clock, "total": self.live.events}
            for job, batch, duplicates in accepted:
                self.metrics.duplicates.inc(duplicates)
                self._done(job, {"accepted": len(batch.t), "duplicates": duplicates} | now)
        snapshots = [job.answer for job in jobs if job.batch is None and not job.drop]
        if snapshots or self.live.total - self.saver.tried >= self.options.snapshot_every:
            self.saver.save(self.live, snapshots)
        if jobs[-1].drop:
            self._drop_old()

    def _happen(self, batches: list[EventBatch]) -> None:
        """Events that were let in: on the disk first, then observed."""
        if not batches:
            return
        together = batches[0] if len(batches) == 1 else EventBatch.concat(batches)
        with self.metrics.commit_seconds.time():
            self.store.append(together)
        self._full = None
        with self.metrics.observe_seconds.time():
            self.live.observe_batch(together, self.lock.writing)
        self.store.settle()
        self.rate.add(len(together.t))
        self.metrics.events.inc(len(together.t))

    def _done(self, job: _Job, answer: Any) -> None:
        with self._mutex:
            self.waiting -= job.count
        if isinstance(answer, BaseException):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def _snapshot_done(self, again: list[Future] | None) -> None:
        """Called by the saver: others may have asked meanwhile, and old events may go now."""
        if again is not None:
            for answer in again or [promise()]:
                self._jobs.put(_Job(None, answer))
        elif self.options.keep_events is not None:
            self._jobs.put(_Job(drop=True))

    def _drop_old(self) -> None:
        """Keep the store at the size that was asked for; only what every snapshot holds may go."""
        assert self.options.keep_events is not None
        upto = min(self.saver.everywhere, self.store.total - self.options.keep_events)
        try:
            self.metrics.dropped.inc(self.store.drop(upto))
        except sqlite3.Error as error:  # the store stays larger than it might be
            log.error("old events were not dropped: %s", error)

    def compact(self) -> int:
        """Drop the stored events that every snapshot holds, and shrink the file; returns how many."""
        if self.live.total > self.saver.at:
            self.snapshot().result()
        gone = self.store.drop(min((number for number, _ in self.snapshots.valid()), default=0))
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
        return self._failure is None and not self._closed

    @property
    def taking(self) -> bool:
        """Whether events are taken."""
        return self.healthy and not self.missing and self._full is None
