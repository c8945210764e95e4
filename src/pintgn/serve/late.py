"""Events that came too late even for `--lateness`: accepted, and put in their place (`--too-late rewind`).

Such an event is durable when it is acknowledged, among those that wait. Beside the service, which goes on with the
state that it has, a thread rebuilds the state from the newest snapshot before the event, with the event in its place,
and follows until it has seen everything. Then, between two groups of events, the store gets the same order and the new
state takes over: that of a service to which all events had come in order of time, bit for bit. Late events that come
meanwhile are put in their places together, by the next rebuild.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadFile, BadInput, PintgnError
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.nodes import Search
from pintgn.serve.held import Entry, Held
from pintgn.serve.limits import NotWriter, Stopped
from pintgn.serve.snapshots import KEEP
from pintgn.serve.states import state_of
from pintgn.serve.store import StoreLost

if TYPE_CHECKING:
    from pintgn.serve.service import Service

log = logging.getLogger("pintgn.serve")
CHOICES = ("refuse", "rewind")
GATHER = 0.5
"""Seconds from the first late event to a rebuild: what comes meanwhile is put in its place with it."""
AGAIN = 30.0
"""Seconds after which a rebuild that failed is tried again."""


def check_choice(choice: str, run: Run) -> None:
    if choice not in CHOICES:
        raise BadInput(f"too_late={choice!r}; it is refuse or rewind.")
    if choice == "rewind" and run.folder is None:
        raise BadInput("--too-late rewind needs a run in a folder, to begin with it again. Save the run first.")


def horizon(service: Service) -> Any:
    """The earliest time at which an event can still be put in its place; None when there is none.

    To be called by the writer. A snapshot that is about to be dropped for a newer one does not count.
    """
    dropped, rewinder = service.store.dropped, service.unnumbered.rewinder
    if service.covered >= dropped:
        return service.run.log.t[-1].item()
    try:
        numbers = service.snapshots.numbers()
        on_its_way = {service.saver.at} if service.saver.busy else set()
        stay = sorted({*numbers, *on_its_way}, reverse=True)[:KEEP]
        clocks = [service.snapshots.clock(number) for number in numbers if number >= dropped and number in stay]
    except BadFile as error:  # snapshots in a database have a session of their own
        raise StoreLost(str(error)) from error
    earliest = min((clock for clock in clocks if clock is not None), default=None)
    floor = None if rewinder is None else rewinder.floor
    return earliest if earliest is None or floor is None else max(earliest, floor)


def base(service: Service, run: Run, dropped: int, fits: Callable[[int], bool]) -> Live:
    """A new state to rebuild from: that of the newest snapshot that fits, by the number of the last event that it has
    seen, or that of the run's own log."""
    for _, folder in service.snapshots.valid(lambda number: number >= dropped and fits(number)):
        return state_of(run, service.options, service.covered, folder)
    if service.covered < dropped:
        raise BadInput(f"no snapshot of before that time is left, and events up to {dropped:,} were dropped.")
    return state_of(again(run), service.options, service.covered)


def again(run: Run) -> Run:
    """The same run, whose stream has observed its own log and nothing else."""
    assert run.folder is not None
    return Run.open(run.folder.path, type(run.model), device=run.device)


def replace_state(service: Service, live: Live, upto: int) -> None:
    """Serve a rebuilt state, which differs from the one before in what came after a number."""
    with service.lock.writing:
        service.run, service.live = live.run, live
        service.search = Search(live.names)
    saver, left = service.saver, service.snapshots.numbers()
    saver.at, saver.everywhere = min(saver.at, upto), min(saver.everywhere, min(left, default=0))
    saver.tried = max(left, default=0)
    if service.candidate is not None:
        service.candidate.begin_again()


class Merge:
    """Stored events and late ones, by time: each late event after all that are not later."""

    def __init__(self, late: EventBatch):
        self.late, self.done = late, 0
        self.after: list[int] = []  # the number of the stored event that each late one comes after

    def __call__(self, first: int, batch: EventBatch) -> EventBatch:
        """Stored events, of which the first has this number, with the late ones that belong before the last of them."""
        upto = self.done + int(np.searchsorted(self.late.t[self.done :], batch.t[-1], side="left"))
        if upto == self.done or not len(batch):
            return batch
        some = self.late[self.done : upto]
        index = np.searchsorted(batch.t, some.t, side="right")
        self.after += (first - 1 + index).tolist()
        self.done = upto
        order = np.argsort(np.concatenate([np.arange(len(batch)), index - 0.5]), kind="stable")
        return EventBatch.concat([batch, some]).take(order.tolist())

    def before(self, batch: EventBatch) -> int:
        """How many of these stored events come before the first late one."""
        return len(batch) if self.done else int(np.searchsorted(batch.t, self.late.t[0], side="right"))

    def rest(self, last: int) -> EventBatch | None:
        """The late events that are not earlier than any stored one."""
        some = self.late[self.done :]
        self.after += [last] * len(some)
        self.done += len(some)
        return some if len(some) else None


class Rewinder(threading.Thread):
    """Puts late events in their places, as long as there are any."""

    def __init__(self, service: Service, late: Held):
        super().__init__(name="pintgn-rewinder", daemon=True)
        self.service, self.late = service, late
        self.trouble: str | None = None
        self.rewinding = 0  # late events of the rebuild under way
        self.floor: Any = None  # the time of a snapshot on its way, which may take the place of an older one
        self.live: Live
        self._ending = threading.Event()
        self._batches: queue.SimpleQueue[EventBatch] = queue.SimpleQueue()
        self._attached = False

    def observe(self, batch: EventBatch) -> None:
        """What the service has just observed."""
        if self._attached:
            self._batches.put(batch)

    def give_up(self) -> None:
        self._ending.set()

    def run(self) -> None:
        try:
            self._ending.wait(GATHER)
            while not self._ending.is_set() and self._call(self._begin):
                try:
                    self._rebuild()
                except (Stopped, NotWriter, StoreLost):
                    raise
                except Exception as error:
                    told = str(error) if isinstance(error, PintgnError) else f"{type(error).__name__}: {error}"
                    self.trouble = f"{self.rewinding:,} late events wait, and could not be put in their places: {told}"
                    log.error("%s", self.trouble, exc_info=not isinstance(error, PintgnError))
                    self._ending.wait(AGAIN)
                self._attached, self.rewinding = False, 0
        except (Stopped, NotWriter, StoreLost):
            pass  # the service stops, or writes no more; what waits is durable

    def _call(self, work: Any) -> Any:
        return self.service.call(lambda: work() if self.service.unnumbered.rewinder is self else None).result()

    # -- called by the writer, between two groups of events ------------------------------------------------------------

    def _begin(self) -> bool:
        """Which events are to be put in their places; False when there are none left."""
        self._entries: list[Entry] = self.late.waiting()
        if not self._entries:
            self.service.unnumbered.rewinder = None
            return False
        self.rewinding = len(self._entries)
        self._run, self._dropped = self.service.run, self.service.store.dropped
        return True

    def _next_or_attach(self) -> tuple[int, EventBatch] | None:
        if (found := next(iter(self.service.store.read(self._seen)), None)) is None:
            self._attached = True
        return found

    def _may_advance(self) -> bool:
        """Whether a snapshot of the state just before the first late event may push out an older one."""
        if self._seen - self._since < self.service.options.snapshot_every or self.service.saver.busy:
            return False
        if any(entry[0] < self.live.clock for entry in self.late.waiting()):
            return False
        self.floor = self.live.clock
        return True

    def _drop_old(self) -> None:
        """Events go that the snapshots hold, if those that wait can do without."""
        service, waiting = self.service, self.late.waiting()
        if service.options.keep_events is not None and (numbers := service.snapshots.numbers()):
            clock = service.snapshots.clock(numbers[-1])
            if not waiting or (clock is not None and waiting[0][0] >= clock):
                service.drop_old(numbers[-1])

    def _swap(self) -> None:
        service = self.service
        while not self._batches.empty():
            self._observe(self._batches.get())
        self._attached = False
        if service.run is not self._run:
            raise BadInput("another run was promoted meanwhile; it is begun again.")
        if self.live.total != service.live.total + len(self._entries):
            raise BadInput("it has not seen the same events as the service.")
        upto = min(self._merge.after)
        service.saver.join()
        service.snapshots.forget_after(upto)  # first: what is killed now replays the order that there is
        service.store.insert(self._late_batch, self._merge.after)
        self.late.has(self._entries)
        replace_state(service, self.live, upto)
        service.metrics.rewinds.inc()
        service.metrics.events.inc(len(self._entries))
        self.trouble = None
        log.info("%d late events are in their places, the first after event %d", len(self._entries), upto)
        self._drop_old()

    # ------------------------------------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        self._late_batch = self.late.batch_of(self._entries)
        self._batches = queue.SimpleQueue()
        first, clock = self._late_batch.t[0], self.service.snapshots.clock
        self.live = base(self.service, self._run, self._dropped, lambda n: (at := clock(n)) is not None and at <= first)
        self._seen = self._since = self.live.total
        self._merge = Merge(self._late_batch)
        while not self._ending.is_set() and (found := self._call(self._next_or_attach)) is not None:
            first, batch = found
            self.live.skip_to(first - 1 + self._merge.done)
            head = self._merge.before(batch)
            if head < len(batch):  # the first late event is in here
                self._observe(batch[:head])
                first, batch, self._seen = first + head, batch[head:], first + head - 1
                self._advance()
            self._seen = first + len(batch) - 1
            self._observe(self._merge(first, batch))
        if self._ending.is_set() or not self._attached:
            raise Stopped("the service is going down.")
        if (rest := self._merge.rest(self._seen)) is not None:
            self._observe(rest)
        self._call(self._swap)

    def _advance(self) -> None:
        """A snapshot of the state just before the first late event: where some come all the time, none newer stays."""
        self.service.saver.join()  # no other begins while late events wait
        if self._call(self._may_advance):
            try:
                self.service.snapshots.write(self.live.snapshot())
            except (PintgnError, OSError) as error:
                log.error("no snapshot: %s", error)
            finally:
                self.floor = None

    def _observe(self, batch: EventBatch) -> None:
        if len(batch):
            self.live.observe_batch(batch)
