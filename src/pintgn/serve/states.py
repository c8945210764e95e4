"""The state that answers come from: its fair lock, its restoration at a start, its replacement."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pintgn.errors import BadFile, PintgnError
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.nodes import Search
from pintgn.live.observing import Retention
from pintgn.live.snapshot import restore
from pintgn.serve.event_store import Damaged, Store
from pintgn.serve.limits import Options
from pintgn.serve.recovery import check_intact
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.stream.core import WORTH_RANKING

logger = logging.getLogger("pintgn.serve")


class FairLock:
    """A fair lock: readers share (`with lock.reading`), a writer is alone (`with lock.writing`), and nobody overtakes.

    Whoever waits is let in as soon as those who came before have left, so a reader waits for one turn of the writer
    at most, and the writer for one turn of the readers; neither can starve the other.
    """

    def __init__(self) -> None:
        self.reading, self.writing = _Turn(self, writes=False), _Turn(self, writes=True)
        self.mutex = threading.Lock()
        self.waiting: deque[tuple[_Turn, threading.Event]] = deque()
        self.inside = 0  # readers, or -1 for a writer


class _Turn:
    """Inside the lock, as a reader or as the writer."""

    def __init__(self, lock: FairLock, *, writes: bool):
        self.lock, self.writes = lock, writes

    def __enter__(self) -> None:
        lock = self.lock
        with lock.mutex:
            if not lock.waiting and (lock.inside == 0 or (lock.inside > 0 and not self.writes)):
                lock.inside = -1 if self.writes else lock.inside + 1
                return
            admitted = threading.Event()
            lock.waiting.append((self, admitted))
        admitted.wait()

    def __exit__(self, *error: object) -> None:
        lock = self.lock
        with lock.mutex:
            lock.inside = 0 if self.writes else lock.inside - 1
            while lock.waiting and (lock.inside == 0 or (lock.inside > 0 and not lock.waiting[0][0].writes)):
                turn, admitted = lock.waiting.popleft()
                lock.inside = -1 if turn.writes else lock.inside + 1
                admitted.set()


class Rate:
    """Event rates of the last five minutes, by second, on a monotonic clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: deque[tuple[int, int]] = deque(maxlen=300)  # second of a clock that nobody sets, events

    def add(self, count: int) -> None:
        second = int(time.monotonic())
        with self._lock:
            if self._counts and self._counts[-1][0] == second:
                count += self._counts.pop()[1]
            self._counts.append((second, count))

    def per_second(self, over: int = 60) -> float:
        """Events per second over the last so many seconds."""
        since = time.monotonic() - over
        with self._lock:
            return sum(count for second, count in self._counts if second > since) / over

    def history(self) -> list[list[float]]:
        """[unix second, events per second], a point for every one of the last 120 seconds, quiet ones included."""
        end, now = int(time.monotonic()), int(time.time())
        with self._lock:
            known = dict(self._counts)
        return [[now - ago, known.get(end - ago, 0)] for ago in range(120, 0, -1)]


class State:
    """A run's live state, the ids to search in it, and the lock between readers and the writer."""

    def __init__(self, live: Live):
        self.live, self.run, self.search = live, live.run, Search(live.names)
        self.lock, self.searching = FairLock(), threading.Lock()

    def replace(self, live: Live) -> None:
        """Replace the live state by another one of the same events."""
        with self.lock.writing:
            self.live, self.run, self.search = live, live.run, Search(live.names)


class Start(NamedTuple):
    """A state, the number of the snapshot that it began with, and how many events were replayed for it."""

    live: Live
    snapshot: int
    replayed: int


def state_of(run: Run, options: Options, covered: int = 0, snapshot: Path | None = None) -> Live:
    """The state after a run's own log, which covers so many of the stored events, or that of a snapshot."""
    retention = Retention(options.keep_last, options.window, options.retain_every)
    if snapshot is None:
        live = Live(run, None, retention, options.evaluate_every, covered)
    else:
        live = restore(run, snapshot, retention, options.evaluate_every, covered)
    live.model.eval()
    return live


def started(
    run: Run,
    covered: int,
    store: Store,
    snapshots: SnapshotFolder,
    options: Options,
    progress: Callable[[str], None],
) -> Start:
    """The newest snapshot that can be used, else the run's own log; then every stored event after it."""
    check_intact(store)
    begin, dropped = time.perf_counter(), store.dropped
    live: Live | None = None
    for number, folder in snapshots.valid():
        try:
            if number < dropped:
                raise BadFile(f"events up to {dropped:,} are no longer in the store")
            live = state_of(run, options, covered, folder)
        except (PintgnError, KeyError, ValueError) as error:
            snapshots.discard(number, str(error))
        else:
            progress(f"snapshot after {number:,} events read in {time.perf_counter() - begin:.1f} s")
            break
    if live is None:
        if dropped > covered:
            raise BadFile(
                f"the store in {store.name} was compacted, and none of its snapshots can be used: "
                + (" ".join(snapshots.reports) or "they belong to another run, or there is none.")
                + " Put back a snapshot from a backup, or start an empty store with --store."
            )
        progress(f"the run's own log: {len(run.log):,} events")
        number, live = 0, state_of(run, options, covered)
    if live.total > store.total:
        store.refresh()  # the writer may have gone on since
    if live.total > store.total:
        raise BadFile(
            f"{store.name} ends at event {store.total:,}, but a snapshot has seen {live.total:,}. Put back the newest "
            "backup of the database."
        )
    first, replayed = live.total, 0
    try:
        for begin, batch in store.read(first):
            live.skip_to(begin - 1)
            live.observe_batch(batch)
            replayed += len(batch)
            progress(f"replayed {live.total - first:,} of {store.total - first:,} events")
    except Damaged:
        check_intact(store, every_event=True)
        raise
    live.skip_to(store.total)
    return Start(live, number, replayed)


def warm_up(live: Live) -> None:
    """Compile and load before the first query. Failures must not keep a service from starting: the queries concerned
    will report them."""
    if not live.run.scores_links:
        return
    live = live.reader()
    some, by = live.names.ids[: 2 * WORTH_RANKING], live.task.newest
    for ask in (
        lambda: live.score(some[0], some[-1:], relation=by),
        lambda: live.recommend(some[0], k=1, among=some, relation=by),
        lambda: live.explain(some[0], some[-1], relation=by),
    ):
        try:
            ask()
        except Exception as error:
            logger.warning("a question that was asked to warm up failed: %s: %s", type(error).__name__, error)
