"""A new model without a stop: replayed beside the old one, compared on the same live events, put in its place.

A candidate begins with its run's own log, catches up on the stored events, and then observes what the service observes,
in a thread of its own. Events that the service scores before they happen are scored by both. When there are enough, the
candidate takes over between two groups of events, unless it is worse beyond chance. Which run a store is served with,
and what came of each candidate, is in `models.json` in the store's folder.
"""

from __future__ import annotations

import functools
import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadFile, BadInput, PintgnError
from pintgn.events.codec import EventBatch
from pintgn.events.facts import AtLeast, check_format, read_json
from pintgn.files import write_errors, write_file
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.nodes import Search
from pintgn.live.paired import Difference, compared
from pintgn.live.prequential import ENOUGH
from pintgn.serve.snapshots import SnapshotFolder
from pintgn.serve.states import state_of

if TYPE_CHECKING:
    from pintgn.serve.service import Service

log = logging.getLogger("pintgn.serve")
FILE = "models.json"
FORMAT = 1
KEPT = 100
"""Candidates whose history is kept."""


class ModelHistory:
    """Which run a store is served with, and what came of the others."""

    def __init__(self, folder: str | Path):
        self.path = Path(folder) / FILE
        self.active: dict[str, Any] | None = None  # run, log and covered, where a run was promoted
        self.before: dict[str, Any] | None = None  # what was active before it
        self.entries: list[dict[str, Any]] = []
        if self.path.exists():
            facts = read_json(self.path, {"format": AtLeast(1)})
            check_format(facts["format"], FORMAT, str(self.path), "Delete it to serve the run that you name.")
            self.active, self.before, self.entries = facts["active"], facts["before"], facts["history"]

    def save(self) -> None:
        facts = {"format": FORMAT, "active": self.active, "before": self.before, "history": self.entries[-KEPT:]}
        with write_errors(self.path):
            write_file(self.path, json.dumps(facts, indent=1))

    def served(self, given: Run, progress: Callable[[str], None]) -> tuple[Run, int, str | None]:
        """The run to serve: the one that is given, unless another was promoted. With it, how many stored events its log
        covers, and the fingerprint of the log that the store continues, where that is another."""
        if self.active is None:
            return given, 0, None
        path = Path(self.active["run"])
        if not (path / "run.json").exists():
            raise BadFile(
                f"{path}, which was promoted, is gone. Put it back, or delete {self.path} to serve the run that you "
                "name."
            )
        same = given.folder is not None and given.folder.path.absolute() == path
        if not same:
            progress(f"{path} was promoted, and is served")
        opened = given if same else Run.open(path, device=given.device)
        return opened, self.active["covered"], self.active["log"]

    def facts(self) -> dict[str, Any]:
        return {"active": self.active, "history": self.entries[-KEPT:]}


class Candidate(threading.Thread):
    """A run on its way to be served.

    Args:
        path: its folder.
        enough: scored events that decide.
        force: take over as soon as it has caught up, whatever its quality.
    """

    def __init__(self, service: Service, path: str | Path, enough: int = ENOUGH, force: bool = False):
        super().__init__(name="pintgn-candidate", daemon=True)
        self.service, self.path, self.enough, self.force = service, Path(path).absolute(), enough, force
        self.state, self.said, self.began = "opening", "", time.time()
        self.difference: Difference | None = None
        self.batches: queue.SimpleQueue[EventBatch | None] = queue.SimpleQueue()
        self.attached = False
        self.live: Live
        self._mine: dict[int, tuple[float, float]] = {}
        self._theirs: dict[int, tuple[float, float]] = {}

    @property
    def busy(self) -> bool:
        return self.state in ("opening", "catching up", "compared")

    def observe(self, batch: EventBatch) -> None:
        """What the service has just observed."""
        if self.attached:
            self.batches.put(batch)

    def give_up(self) -> None:
        self.batches.put(None)
        self.join()

    def facts(self) -> dict[str, Any]:
        shown = {"run": str(self.path), "state": self.state, "said": self.said, "began": round(self.began, 3)}
        shown |= {"events": self.live.total if hasattr(self, "live") else 0, "forced": self.force}
        shown |= {"scored": len(self._mine.keys() & self._theirs.keys()), "enough": self.enough}
        return shown | ({} if self.difference is None else self.difference.facts())

    def run(self) -> None:
        try:
            opened = Run.open(self.path)
            covered = self._covered(opened)
            self.live = state_of(opened, self.service.options, covered)
            self.live.prequential.on_scored = self._mine_scored
            self.state = "catching up"
            while (found := self.service.call(self._next_or_attach).result()) is not None:
                first, batch = found
                self.live.skip_to(first - 1)
                self.live.observe_batch(batch)
            self.state = "compared"
            while not self.force and self.difference is None:
                if (more := self.batches.get()) is None:
                    raise BadInput("it was given up.")
                self.live.observe_batch(more)
                paired = sorted(self._mine.keys() & self._theirs.keys())
                if len(paired) >= self.enough:
                    old, new = (np.array([of[number] for number in paired]) for of in (self._theirs, self._mine))
                    self.difference = compared(old, new)
            if self.difference is not None and self.difference.worse:
                self._end("rejected", f"worse than what is served: {self.difference}")
            else:
                self.service.call(self._take_over).result()
                how = str(self.difference) if self.difference else "without comparison"
                self._end("promoted", f"serves since event {self.live.total:,}: {how}")
        except PintgnError as error:
            self._end("failed", str(error))
        except Exception as error:
            log.exception("a candidate failed")
            self._end("failed", f"{type(error).__name__}: {error}")

    # -- called by the writer, between two groups of events ------------------------------------------------------------

    def _next_or_attach(self) -> tuple[int, EventBatch] | None:
        """Stored events that the candidate has not seen; None when it has seen all: then it gets each as it happens."""
        if (found := _stored_after(self.service, self.live.total)) is not None:
            return found
        self.live.skip_to(self.service.live.total)
        self.service.live.prequential.on_scored = self._theirs_scored
        self.attached = True
        return None

    def _take_over(self) -> None:
        self.attached = False
        while not self.batches.empty():
            if (batch := self.batches.get()) is not None:
                self.live.observe_batch(batch)
        if self.live.total != self.service.live.total:
            raise BadInput("it has not seen the same events as the service.")
        switch(self.service, self.live, self.path)

    # ------------------------------------------------------------------------------------------------------------------

    def _end(self, state: str, said: str) -> None:
        self.attached, self.said = False, said
        service = self.service
        for live in (service.live, getattr(self, "live", service.live)):
            live.prequential.on_scored = None
        log.info("candidate %s: %s, %s", self.path, state, said)
        entry = self.facts() | {"state": state, "said": said, "ended": round(time.time(), 3)}
        service.models.entries.append(entry)
        try:
            service.models.save()
        except PintgnError as error:
            log.error("%s", error)
        self.state = state

    def _mine_scored(self, *scored: np.ndarray) -> None:
        self._mine.update((n, (yes, no)) for n, yes, no in zip(*(one.tolist() for one in scored), strict=True))

    def _theirs_scored(self, *scored: np.ndarray) -> None:
        self._theirs.update((n, (yes, no)) for n, yes, no in zip(*(one.tolist() for one in scored), strict=True))

    def _covered(self, opened: Run) -> int:
        """How many stored events the run's own log holds, beyond the log that the store continues; else refused."""
        service = self.service
        old, new = service.run.log, opened.log
        if not opened.scores_links or not service.run.scores_links:
            raise BadInput("only runs that score links can be compared.")
        for what in ("features", "op", "node_updates", "separate_namespaces", "width"):
            if getattr(service.run.written[0], what) != getattr(opened.written[0], what):
                raise BadInput(
                    f"{self.path}: its log has other {what} than the served one, so it cannot read its events."
                )
        if (old.schema.time, old.t.dtype, old.ids.type) != (new.schema.time, new.t.dtype, new.ids.type):
            raise BadInput(f"{self.path}: its log counts time or names nodes otherwise than the served one.")
        own = len(old) - service.live.covered  # of the log that the store continues
        more = len(new) - own
        ours, theirs = (np.array(one.ids.decode().to_pylist(), object) for one in (old, new))
        both = min(len(old), len(new))
        same = more >= 0 and (old.t[:both] == new.t[:both]).all()
        for end in ("src", "dst"):
            same = same and (ours[getattr(old, end)[:both]] == theirs[getattr(new, end)[:both]]).all()
        after = both - own
        while same and after < more:  # the rest was sent to the service
            found = service.call(functools.partial(_stored_after, service, after)).result()
            if found is None or found[0] != after + 1:
                same = False
                break
            batch = found[1][: more - after]
            rows = slice(own + after, own + after + len(batch))
            same = (batch.t == new.t[rows]).all() and batch.src == theirs[new.src[rows]].tolist()
            same = same and batch.dst == theirs[new.dst[rows]].tolist()
            after += len(batch)
        if not same:
            raise BadInput(
                f"{self.path}: its log is not the one that is served, followed by the first events that were sent. "
                "Train it on the same log, or on what `pintgn serve --export` wrote."
            )
        return more


def _stored_after(service: Service, number: int) -> tuple[int, EventBatch] | None:
    return next(iter(service.store.read(number)), None)


def promote(service: Service, run: str | Path | None, enough: int = ENOUGH, force: bool = False) -> Candidate:
    """Begin to put a run in the place of the one that is served; without a run, go back to the one before."""
    if service.store.shared:
        raise BadInput("a store in PostgreSQL is served by several processes; restart them with the new run.")
    if service.candidate is not None and service.candidate.busy:
        raise BadInput(f"{service.candidate.path} is a candidate already; wait for what comes of it.")
    if run is None:
        if service.models.before is None:
            raise BadInput("no run was promoted, so there is none to go back to.")
        run, force = service.models.before["run"], True
    if not (Path(run) / "run.json").exists():
        raise BadInput(f"{run} holds no run, as the service sees it. Name a folder that `pintgn train` made.")
    if not force and not service.options.evaluate_every:
        raise BadInput("the service scores no events (--evaluate-every 0), so nothing can be compared. Force it.")
    service.candidate = Candidate(service, run, enough, force)
    service.candidate.start()
    return service.candidate


def switch(service: Service, live: Live, path: Path) -> None:
    """Serve another state of the same events; called by the writer. What is written comes first: after a kill the store
    is served with the one or the other."""
    models, old = service.models, service.run
    before = models.active
    if before is None and old.folder is not None:
        before = {"run": str(old.folder.path.absolute()), "covered": service.covered, "log": service.store.log}
    models.before = before
    models.active = {"run": str(path), "covered": live.covered, "log": service.store.log}
    models.save()
    service.saver.join()  # a snapshot of the old state must not be taken for one of the new
    live.codec.sorts = service.live.codec.sorts
    with service.lock.writing:
        service.run, service.live, service.covered = live.run, live, live.covered
        service.search = Search(live.names)
    snapshots = SnapshotFolder(service.snapshots.folder.parent, live.run)
    service.snapshots = service.saver.snapshots = snapshots
    service.saver.at = service.saver.everywhere = 0
    service.saver.tried = live.total - service.options.snapshot_every  # one is due now
