"""The service behind the HTTP interface: many readers, one writer, nothing acknowledged that could be lost.

It reads requests and answers questions; everything that changes the state is the work of its `Writer`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pintgn.display.progress import phases, takes_progress
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.live.arriving_targets import new_targets, read_targets
from pintgn.live.live import Live
from pintgn.models.base import Model
from pintgn.serve.event_store import Store
from pintgn.serve.limits import Limits, Options
from pintgn.serve.requests import Requests
from pintgn.serve.saver import Saver
from pintgn.serve.stores import home_of
from pintgn.serve.writer import Writer

logger = logging.getLogger("pintgn.serve")
Progress = Callable[[str], None]


class Service:
    """A run behind HTTP, as `pintgn serve` starts it.

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
                 *, progress: Progress | bool | None = logger.info):  # fmt: skip
        assert callable(progress)  # by `takes_progress`
        self.options, self.limits = options or Options(), limits or Limits()
        self.started = time.monotonic()
        self.home = None if run.folder is None else home_of(run.folder.path, store)  # of the run that is named
        self.writer = Writer(run, store, self.options, self.limits, progress)
        self.requests = Requests(self.live.codec, self.limits)

    @classmethod
    def open(
        cls,
        run: str | Path,
        store: str | Path | None = None,
        options: Options | None = None,
        model: type[Model] | None = None,
        limits: Limits | None = None,
        *,
        progress: Progress | bool | None = logger.info,
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
        """Finish accepted requests, write a snapshot, release the store."""
        self.writer.close()

    # -- events --------------------------------------------------------------------------------------------------------

    def submit(self, batch: EventBatch, scored: bool = False) -> Future:
        """Queue checked events; the future has the acknowledgement, when they are durable and observed.

        With `scored` it has the probability of each event, as of just before it. Raises `Busy` when too many wait
        already.
        """
        return self.writer.submit(batch, scored)

    def submit_targets(self, targets: list[tuple[Any, ...]], at: Any = None) -> Future:
        """Queue targets of earlier events; the future has the acknowledgement.

        They are rows of the store, between the events that came before them and those that came after. What is known
        already is left out; a batch with anything that cannot be is refused whole.
        """
        writer = self.writer
        writer.check_taking()

        def known() -> dict[str, Any]:
            live = writer.live
            batch = read_targets(live, targets, at)
            new = batch.take(new_targets(live, batch))
            if len(new):
                writer.happen([(new.as_events(live.clock), False)])
            answer = writer.acknowledged(len(new), len(batch) - len(new))
            answer.pop("held", None)
            return answer

        return writer.call(known)

    def observe(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        """Observe events, as `POST /events` does; returns the acknowledgement."""
        return self.submit(self.requests.rows(events)).result()

    def snapshot(self) -> Future:
        """Queue a snapshot of the state after everything accepted so far."""
        return self.writer.submit()

    def call(self, work: Callable[[], Any]) -> Future:
        """Call a function in the writer's thread, between two groups of events."""
        return self.writer.call(work)

    # -- questions -----------------------------------------------------------------------------------------------------

    @contextmanager
    def asking(self) -> Iterator[Live]:
        """Context in which the run can be queried: nothing is observed meanwhile. Keep it short."""
        state = self.writer.state
        with state.lock.reading:
            yield state.live.reader()

    # -- what it serves, and how it is ---------------------------------------------------------------------------------

    @property
    def live(self) -> Live:
        return self.writer.state.live

    @property
    def run(self) -> Run:
        return self.writer.state.run

    @property
    def store(self) -> Store:
        return self.writer.store

    @property
    def saver(self) -> Saver:
        return self.writer.saver

    @property
    def replayed(self) -> int:
        """How many events were replayed at the start."""
        return self.writer.replayed

    def held_facts(self) -> dict[str, Any]:
        """How many events wait until no earlier one can come, and until when."""
        held, count = self.writer.held, self.store.waiting
        if self.store.writes:
            return {"held": None if held is None else held.facts()}
        return {"held": {"events": count, "watermark": None} if count else None}

    @property
    def reports(self) -> list[str]:
        """Problems, as text for people."""
        return self.writer.reports

    @property
    def healthy(self) -> bool:
        """Whether the writer is at work."""
        return self.writer.failure is None and not self.writer.closed

    @property
    def taking(self) -> bool:
        """Whether events are accepted."""
        return self.writer.taking

    @property
    def role(self) -> str:
        """`writer`; `standby`, which follows until it may write; or `follower`."""
        return self.writer.role
