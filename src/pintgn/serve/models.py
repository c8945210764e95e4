"""Promotion: a new run is replayed, compared with the served one on the same live events, and takes over without a
stop.

A candidate begins with its run's own log, catches up on the stored events, and then observes what the service observes,
in a thread of its own. Events that the service scores before they happen are scored by both. When there are enough, the
candidate takes over between two groups of events, unless it is worse beyond chance (`model_history` remembers that).
The services that follow on a shared store take the same run over, each when it has caught up.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput, PintgnError
from pintgn.ingest.codec import EventBatch
from pintgn.learn.folder import holds_run
from pintgn.learn.run import Run
from pintgn.live.difference import Difference, compared
from pintgn.live.live import Live
from pintgn.live.prequential import ENOUGH
from pintgn.serve.limits import NotWriter
from pintgn.serve.states import state_of

if TYPE_CHECKING:
    from pintgn.serve.service import Service
    from pintgn.serve.writer import Writer

logger = logging.getLogger("pintgn.serve")
FORCE = 'To promote it all the same: `pintgn promote --force`, or "force": true.'
LOOK = 3.0
"""Seconds that a disk may take to say whether a folder holds a run."""


class Candidate(threading.Thread):
    """A run that is a candidate for promotion.

    Args:
        path: its folder.
        enough: scored events that decide.
        force: take over as soon as it has caught up, whatever its quality.
        follows: it was promoted by the service that writes to the same store.
    """

    def __init__(
        self, writer: Writer, path: str | Path, enough: int = ENOUGH, force: bool = False, follows: bool = False
    ):
        super().__init__(name="pintgn-candidate", daemon=True)
        self.writer, self.path, self.enough, self.force = writer, Path(path).absolute(), enough, force or follows
        self.follows = follows
        self.state, self.said, self.began = "opening", "", time.time()
        self.difference: Difference | None = None
        self.batches: queue.SimpleQueue[EventBatch | None] = queue.SimpleQueue()
        self.attached = False
        self.live: Live
        self._mine: dict[int, Sequence[float]] = {}
        self._theirs: dict[int, Sequence[float]] = {}

    @property
    def busy(self) -> bool:
        return self.state in ("opening", "catching up", "compared")

    def observe(self, batch: EventBatch) -> None:
        """Observe what the service has just observed."""
        if self.attached:
            self.batches.put(batch)

    def give_up(self) -> None:
        """Stop soon, without taking over."""
        self.batches.put(None)

    def facts(self) -> dict[str, Any]:
        shown = {"run": str(self.path), "state": self.state, "said": self.said, "began": round(self.began, 3)}
        shown |= {"events": self.live.total if hasattr(self, "live") else 0, "forced": self.force}
        shown |= {"scored": len(self._mine.keys() & self._theirs.keys()), "enough": self.enough}
        return shown | ({} if self.difference is None else self.difference.facts())

    def run(self) -> None:
        try:
            self._try()
        except PintgnError as error:
            self._end("failed", str(error))
        except Exception as error:
            logger.exception("a candidate failed")
            self._end("failed", f"{type(error).__name__}: {error}")

    def _try(self) -> None:
        """From the run's own log to the end."""
        opened = Run.open(self.path)
        self.live = state_of(opened, self.writer.options, self._covered(opened))
        self.live.prequential.on_scored = self._mine_scored
        self.state = "catching up"
        while (found := self.writer.call(self._next_or_attach).result()) is not None:
            first, batch = found
            self.live.skip_to(first - 1)
            self.live.observe_batch(batch)
        self.state = "compared"
        while not self.force and self.difference is None:
            if (more := self.batches.get()) is None:
                raise BadInput("it was given up: the service stopped, or writes no more.")
            self.live.observe_batch(more)
            paired = sorted(self._mine.keys() & self._theirs.keys())
            if len(paired) >= self.enough:
                old, new = (np.array([of[number] for number in paired]) for of in (self._theirs, self._mine))
                served = self.writer.live.prequential
                self.difference = compared(
                    old, new, served.value, served.compared_by, is_error=served.compared_by_error
                )
        if self.difference is not None and self.difference.worse:
            self._end("rejected", f"worse than what is served: {self.difference}")
            return
        self.writer.call(self._take_over).result()
        how = str(self.difference) if self.difference else "without comparison"
        self._end("promoted", f"serves since event {self.live.total:,}: {how}")

    # -- called by the writer, between two groups of events ------------------------------------------------------------

    def _next_or_attach(self) -> tuple[int, EventBatch] | None:
        """Stored events that the candidate has not seen; None when it has seen all: then it gets each as it happens."""
        if (found := _stored_after(self.writer, self.live.total)) is not None:
            return found
        self.live.skip_to(self.writer.live.total)
        self.writer.live.prequential.on_scored = self._theirs_scored
        self.attached = True
        return None

    def _take_over(self) -> None:
        self.attached = False
        while not self.batches.empty():
            if (batch := self.batches.get()) is not None:
                self.live.observe_batch(batch)
        if self.live.total != self.writer.live.total:
            raise BadInput("it has not seen the same events as the service.")
        if not self.follows:
            if not self.writer.store.writes:
                raise BadInput("the service does not write any more.")
            _choose(self.writer, self.live, self.path)
        self.writer.switch(self.live)

    # ------------------------------------------------------------------------------------------------------------------

    def _end(self, state: str, said: str) -> None:
        self.attached, self.said = False, said
        writer = self.writer
        for live in (writer.live, getattr(self, "live", writer.live)):
            live.prequential.on_scored = None
        logger.info("candidate %s: %s, %s", self.path, state, said)
        if self.follows:
            writer.other_model = None if state == "promoted" else _other(writer, self.path, said)
            self.state = state
            return
        entry = self.facts() | {"state": state, "said": said, "ended": round(time.time(), 3)}
        writer.models.entries.append(entry)
        try:
            writer.models.save()
        except PintgnError as error:
            logger.error("%s", error)
        self.state = state

    def _mine_scored(self, numbers: Sequence[int], rows: Sequence[Sequence[float]]) -> None:
        self._mine.update(zip(numbers, rows, strict=True))

    def _theirs_scored(self, numbers: Sequence[int], rows: Sequence[Sequence[float]]) -> None:
        self._theirs.update(zip(numbers, rows, strict=True))

    def _check_comparable(self, opened: Run) -> None:
        """Refuse a run that answers another question than the served one: nothing could be compared."""
        mine, others = _question(self.writer.state.run), _question(opened)
        if mine != others:
            raise BadInput(
                f"{self.path} predicts {others[0]}, and the served run {mine[0]}"
                f"{'' if mine[0] != others[0] else ', of other classes'}: they cannot be compared. {FORCE}"
            )

    def _covered(self, opened: Run) -> int:
        """How many stored events the run's own log holds, beyond the log that the store continues; else refused."""
        writer = self.writer
        old, new = writer.state.run.log, opened.log
        if not self.force:
            self._check_comparable(opened)
        for what in ("features", "op", "node_updates", "separate_namespaces", "width"):
            if getattr(writer.state.run.event_schema[0], what) != getattr(opened.event_schema[0], what):
                raise BadInput(
                    f"{self.path}: its log has other {what} than the served one, so it cannot read its events."
                )
        if (old.schema.time, old.t.dtype, old.ids.type) != (new.schema.time, new.t.dtype, new.ids.type):
            raise BadInput(f"{self.path}: its log counts time or names nodes otherwise than the served one.")
        own = len(old) - writer.live.covered  # of the log that the store continues
        more = len(new) - own
        ours, theirs = (np.array(one.ids.decode().to_pylist(), object) for one in (old, new))
        both = min(len(old), len(new))
        same = more >= 0 and (old.t[:both] == new.t[:both]).all()
        for end in ("src", "dst"):
            same = same and (ours[getattr(old, end)[:both]] == theirs[getattr(new, end)[:both]]).all()
        dropped = writer.call(lambda: writer.store.dropped).result()
        if dropped > max(more, 0):
            raise BadInput(
                f"{self.path}: the first {dropped:,} live events were dropped from the store, so they cannot be "
                "replayed. Train it on a log that holds them."
            )
        after = max(both - own, dropped)
        while same and after < more:  # the rest was sent to the service
            found = writer.call(functools.partial(_stored_after, writer, after)).result()
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


def _question(run: Run) -> tuple[Any, ...]:
    """The question that a run answers: its text, then the classes that it knows."""
    if not run.answers:
        return "nothing, as it only embeds nodes", ()
    if run.scores_links:
        return "links", ()
    return run.task.title(), getattr(run.task, "target_features", tuple)()


def _why_unscored(writer: Writer) -> str:
    """Why a service scores no events before they happen."""
    run = writer.state.run
    if not writer.options.evaluate_every:
        return "the service scores no events (--evaluate-every 0)"
    if not run.answers:
        return "the served run embeds nodes, and no event says how well"
    return (
        f"the served run predicts {run.task.title()!r}, and no single event says whether that came true (`pintgn "
        "evaluate` measures both runs on later events)"
    )


def _stored_after(writer: Writer, number: int) -> tuple[int, EventBatch] | None:
    return next(iter(writer.store.read(number)), None)


def promote(service: Service, run: str | Path | None, enough: int = ENOUGH, force: bool = False) -> Candidate:
    """Start the promotion of a run; without a run, of the previous one."""
    writer = service.writer
    if not writer.store.writes:
        raise NotWriter(f"another service writes to {writer.store.name}; this one is a {writer.role}. Ask that one.")
    if writer.candidate is not None and writer.candidate.busy:
        raise BadInput(f"{writer.candidate.path} is a candidate already; wait for what comes of it.")
    if run is None:
        if writer.models.before is None:
            raise BadInput("no run was promoted, so there is none to go back to.")
        run, force = writer.models.before["run"], True
    if not _seen(run):
        raise BadInput(
            f"{str(run)[:200]} holds no run, as the service sees it. Name a folder that `pintgn train` made."
        )
    if not force and not writer.live.prequential.active:
        raise BadInput(f"{_why_unscored(writer)}, so nothing can be compared. {FORCE}")
    writer.candidate = Candidate(writer, run, enough, force)
    writer.candidate.start()
    return writer.candidate


def _seen(run: str | Path) -> bool:
    """Whether a folder holds a run; a disk that does not answer (one of a network, say) is not waited for."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(holds_run(run)), name="pintgn-look", daemon=True)
    thread.start()
    thread.join(LOOK)
    if not found:
        raise BadInput(f"{str(run)[:200]} cannot be read: its disk has not answered in {LOOK:g} s. Try again later.")
    return found[0]


def follow(writer: Writer) -> None:
    """Serve the run that the writer of a shared store serves, if its folder is on this machine."""
    wanted, own = writer.models.active, writer.state.run.folder
    if wanted is None or (own is not None and str(own.path.absolute()) == wanted["run"]):
        writer.other_model = None
        return
    if writer.candidate is not None and writer.candidate.busy:
        return
    path = Path(wanted["run"])
    if not holds_run(path):
        writer.other_model = _other(writer, path, "it is not on this machine.")
        return
    writer.candidate = Candidate(writer, path, follows=True)
    writer.candidate.start()


def _other(writer: Writer, path: Path, why: str) -> str:
    own = "another run" if writer.state.run.folder is None else writer.state.run.folder.path
    return f"{path} was promoted, and is not served here: {why} Answers are of {own}"


def _choose(writer: Writer, live: Live, path: Path) -> None:
    """Record that a store is served with another run from now on; called by the writer before it switches, so that
    after a kill the store is served with one or the other."""
    models, old, log = writer.models, writer.state.run, writer.store.fingerprint
    before = models.active
    if before is None and old.folder is not None:
        before = {
            "run": str(old.folder.path.absolute()),
            "covered": writer.live.covered,
            "log": writer.store.fingerprint,
        }
    models.before = before
    models.active = {"run": str(path), "covered": live.covered, "log": log}
    models.save()
