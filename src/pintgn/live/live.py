"""A run in use: it observes what happens and answers in users' own ids."""

from __future__ import annotations

import copy
import dataclasses
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pintgn.display.progress import counting, shown
from pintgn.errors import BadInput, EventOrderError, PintgnWarning
from pintgn.events.columns import Growing
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import ADD, NODE
from pintgn.ingest.codec import Codec, EventBatch
from pintgn.ingest.late_targets import TargetBatch, are_targets
from pintgn.learn.calibration import Calibration
from pintgn.learn.run import Run
from pintgn.live.answers import Answers
from pintgn.live.names import Names
from pintgn.live.nodes import NodeTable
from pintgn.live.prequential import AnswerPrequential, prequential_of
from pintgn.live.retention import Retention
from pintgn.live.targets import apply_targets, asked_events, keep_answers, new_targets, read_targets
from pintgn.models.base import Model
from pintgn.models.history_view import Events
from pintgn.stream import Stream

if TYPE_CHECKING:
    from pintgn.live.snapshot import Snapshot

NO_LOCK = nullcontext()
BLOCK = 500
"""Events observed at once: what a question waits for at most."""


def open(run: Run | str | Path, model: type[Model] | None = None, *, device: str | None = None) -> Live:
    """A run, ready to observe and to answer. `model` is needed for a class of your own; `device` is where the run of a
    folder computes, the processor by default.

    >>> import pintgn
    >>> live = pintgn.open(pintgn.fit("heuristic", pintgn.simulate("shop", events=400, seed=0)))
    >>> [type(one).__name__ for one in live.recommend("user1", k=2)]
    ['Recommendation', 'Recommendation']
    """
    if isinstance(run, Run):
        if device is not None:
            raise BadInput("a run that is open computes where it does; device= is for a folder.")
        return Live(run, run.deployed.stream.fork())  # what it observes is no concern of the run's
    return Live(Run.open(run, model, device=device))


class Live(Answers):
    """The state of a run after its log, and after every event observed since; it answers in users' own ids.

    A function of the run and of the events, in order: whatever the batches were, the state is the same, bit for bit.
    Ids never seen before are new nodes. Nothing is written to the run's folder.

    Args:
        run: its log is where the state begins.
        stream: of the run; moves on. The run's own by default.
        retention: which contacts are kept; all by default.
        evaluate_every: one event in so many is scored just before it happens (`prequential`); 0 for none.
        covered: events that were numbered after the log of another run, and that the log of this one ends with.

    >>> import pintgn
    >>> live = pintgn.open(pintgn.fit("edgebank", pintgn.simulate("shop", events=400, seed=0)))
    >>> live.observe([("ann", "item1", "2024-02-01T08:00Z"), ("ann", "item2", "2024-02-02T08:00Z")])
    2
    >>> live
    Live: edgebank, 402 events, 1,201 nodes, up to 2024-02-02 08:00:00
    """

    def __init__(
        self,
        run: Run,
        stream: Stream | None = None,
        retention: Retention | None = None,
        evaluate_every: int = 0,
        covered: int = 0,
    ):
        log = run.log
        self.run, self.stream = run, run.deployed.stream if stream is None else stream
        self.model = self.stream.model
        self.calibration = run.calibration or Calibration()
        self.calibration_known = run.calibration_known or Calibration()
        self.schema = log.schema
        self.task = run.task
        self.codec, self.names, self.nodes = Codec.of(log, *run.event_schema), Names(log.ids), NodeTable.of(log)
        self.retention = retention or Retention()
        self.prequential = prequential_of(run, evaluate_every)
        self.covered = covered  # of the events that are numbered here, so many are in the run's own log
        self.targets = 0  # of the numbers so far, so many are targets that came by themselves
        self.total = covered  # the number of the newest event; the first after the log of the first run is 1
        self.self_loops = bool((log.src == log.dst)[log.learnable].any())
        self.destinations = Growing(np.int64)  # in the order in which they were first met
        self._is_destination = np.zeros(len(self.names), bool)
        self._met(log.dst, log.learnable)
        self._observed = [log]  # what has been observed, where deletions need to know
        self._own = threading.local()

    def __repr__(self) -> str:
        when = self.schema.time.show(self.clock)
        return f"Live: {self.run.settings.name}, {self.events:,} events, {len(self.names):,} nodes, up to {when}"

    @property
    def events(self) -> int:
        """All events ever observed, the run's log included."""
        return len(self.run.log) + self.total - self.covered - self.targets

    # -- observing ---------------------------------------------------------------------------------------------------

    def observe(self, events: Any, *, progress: Callable[[int, int], None] | bool | None = None) -> int:
        """Let events happen; returns how many.

        Args:
            events: (src, dst, t) or (src, dst, t, {feature: value}) each, in order of time; or a file, frame or table
                with the columns of the log that the run was trained on.
            progress: True for a bar, or a function that is called with how many events of a file, frame or table have
                happened, and of how many.
        """
        if isinstance(events, EventLog):
            raise BadInput("an EventLog has node numbers of its own; pass its file, or log.to_table().")
        if not isinstance(events, Sequence) or isinstance(events, str | bytes):
            with shown(progress, counting("observing", "events")) as told:
                return self._observe_table(events, told)
        if not len(events):
            return 0
        src, dst, t, given = map(list, zip(*(_parted(event, row) for row, event in enumerate(events)), strict=True))
        op = None
        if self.schema.op is not None:
            op = [one.pop(self.schema.op, None) for one in given]
            given = [one or None for one in given]
        one, other = ([None if id is None else self.codec.id(id) for id in ends] for ends in (src, dst))
        batch = self.codec.batch(one, other, t, given, op, unseen=_warn_unseen)
        self._check_order(batch.t)
        self.observe_batch(batch)
        return len(batch)

    def observe_targets(self, targets: Sequence[Any], at: Any = None) -> int:
        """Let targets become known of events that happened without: what is predicted is often known late.

        Args:
            targets: (src, dst, t, value) each: the event, and what its column turned out to be. Of several events of
                one pair at one time, the first that has no target yet.
            at: when they became known; right now by default. They are part of the past strictly after that time, and
                never before the newest event that was observed when they arrived.

        Returns how many were news; a target that is known already is left out, another one for the same event refused.
        """
        batch = read_targets(self, targets, at)
        new = batch.take(new_targets(self, batch))
        if len(new):
            self.observe_batch(new.as_events(self.clock))
        return len(new)

    def _observe_table(self, source: Any, progress: Callable[..., None]) -> int:
        """A file or frame, read like a later file of the run's own log."""
        from pintgn.ingest.read import read_events

        log = read_events(source, like=self._like())
        self._check_order(log.t)
        for number in range(len(self.names), log.nodes):
            self.names.add(log.id(number), 0 if log.ids.side is None else int(log.ids.side[number]))
        read, late = self.run.deployed.view(log), self.stream.schema.late
        asks = self.stream.schema.asking is not None and read.features is not None
        known = read.features[:, late] if asks else None  # type: ignore[index]
        events = Events(log.src, log.dst, log.t, read.marked_features, late=known, known=read.known)
        learnable = log.learnable

        def block(rows: slice) -> tuple[Events, np.ndarray]:
            progress(rows.stop, len(log))
            return events[rows], learnable[rows]

        self._observe(len(log), block)
        if self.schema.op is not None:
            self._observed.append(log)
        return len(log)

    def observe_batch(
        self, batch: EventBatch, turn: AbstractContextManager[Any] = NO_LOCK, scored: np.ndarray | None = None
    ) -> np.ndarray:  # (e,)
        """Let checked events happen, block by block; `turn` is entered for each block. Or targets become known.

        The events in the mask `scored` are scored just before they happen. Returns their logits; NaN for the others,
        and for deletions and node events.
        """
        if are_targets(batch):
            with turn:
                apply_targets(self, TargetBatch.of_events(batch))
                self.total, self.targets = self.total + len(batch), self.targets + len(batch)
            return np.full(len(batch), np.nan, np.float32)
        read, op = self._read(batch), batch.op

        def block(rows: slice) -> tuple[Events, np.ndarray]:
            src, dst = self.names.add_pairs(batch.src[rows], batch.dst[rows])
            learnable = np.ones(len(src), bool) if op is None else op[rows] == ADD
            if self.schema.dummy is not None:
                learnable &= (src != self.schema.dummy) & (dst != self.schema.dummy)
            features, late, known = (None if column is None else column[rows] for column in read)
            return Events(src, dst, batch.t[rows], features, late=late, known=known), learnable

        return self._observe(len(batch.t), block, turn, scored)

    def _observe(
        self,
        count: int,
        block: Callable[[slice], tuple[Events, np.ndarray]],
        turn: AbstractContextManager[Any] = NO_LOCK,
        scored: np.ndarray | None = None,
    ) -> np.ndarray:
        begin, logits = 0, np.full(count, np.nan, np.float32)
        while begin < count:
            end = min(begin + BLOCK, count, begin + self.retention.until_next(self.total))
            with turn, torch.no_grad():
                mask = None if scored is None else scored[begin:end]
                self._observe_block(*block(slice(begin, end)), logits[begin:end], mask)
                self.retention.apply(self.stream, self.total)
            begin = end
        return logits

    def _observe_block(
        self, events: Events, learnable: np.ndarray, logits: np.ndarray, scored: np.ndarray | None
    ) -> None:
        src, dst, t = events.src, events.dst, events.t
        if len(self.stream.history.node_marks) < len(self.names.ids):
            self.stream.history.node_marks = self.names.marks
        before = self._met(dst, learnable)
        numbers = np.arange(self.total + 1, self.total + 1 + len(t))
        if isinstance(self.prequential, AnswerPrequential):
            self._ask_and_observe(events, learnable, numbers, self.prequential)
        else:
            self._score_and_observe(events, learnable, before, numbers, logits, scored)
        self.nodes.observe(src, dst, t)
        self.self_loops |= bool((src == dst)[learnable].any())
        self.total += len(t)

    def _ask_and_observe(
        self, events: Events, learnable: np.ndarray, numbers: np.ndarray, prequential: AnswerPrequential
    ) -> None:
        """Ask about some events, then let all happen; answers are judged once their targets are known."""
        asking = self.stream.schema.asking
        assert asking is not None
        rows = prequential.rows(numbers, learnable)
        named = asked_events(self, events, rows)
        given = events.features[rows][:, list(asking.given)] if asking.given and events.features is not None else None
        asked = self.task.asked(events.src[rows], events.dst[rows], events.t[rows], given)
        answers = self.stream.advance(events, asked).numpy(force=True)
        if len(rows):
            said = self.task.calibrated(answers, self.run.answer_calibration)
            keep_answers(self, events, rows, named, numbers[rows], said)
        if prequential.active:
            prequential.judge(events.t[-1].item())

    def _score_and_observe(
        self,
        events: Events,
        learnable: np.ndarray,
        before: np.ndarray,
        numbers: np.ndarray,
        logits: np.ndarray,
        scored: np.ndarray | None,
    ) -> None:
        """Score some events beside others that do not happen, then let all happen."""
        src, dst, t = events.src, events.dst, events.t
        rows, negative = self.prequential.draw(numbers, dst, learnable, self.destinations.values, before)
        wanted = np.flatnonzero(scored & learnable) if scored is not None and scored.any() else rows[:0]
        all_rows, drawn = np.concatenate([rows, rows, wanted]), len(rows)
        asking, given = self.stream.schema.asking, None
        if asking is not None and events.features is not None:
            given = events.features[all_rows][:, list(asking.given)]
        asked = Query(src[all_rows], np.concatenate([dst[rows], negative, dst[wanted]]), t[all_rows], given)
        scores = self.model.answer(self.stream.advance(events, asked), "anyone").numpy(force=True)
        if drawn:
            self.prequential.add(scores[:drawn], scores[drawn : 2 * drawn], t[rows], numbers[rows])
        logits[wanted] = scores[2 * drawn :]

    def skip_to(self, number: int) -> None:
        """Go on after an event that is lost; the numbers of the others stay what they are."""
        self.total = max(self.total, number)

    def _met(self, dst: np.ndarray, learnable: np.ndarray) -> np.ndarray:
        """Remember new destinations; returns how many had been met before each event."""
        nodes = len(self.names.ids)
        if len(self._is_destination) < nodes:
            more = np.zeros(2 * nodes - len(self._is_destination), bool)
            self._is_destination = np.concatenate([self._is_destination, more])
        new = learnable & ~self._is_destination[dst]
        before = np.full(len(dst), len(self.destinations))
        if new.any():
            rows = np.flatnonzero(new)
            new[:] = False
            new[rows[np.unique(dst[rows], return_index=True)[1]]] = True
            before += np.cumsum(new) - new
            self.destinations.extend(dst[new])
            self._is_destination[dst[new]] = True
        return before

    def _read(self, batch: EventBatch) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Features as the model reads them: known categories and a common scale, by the run's training part; then what
        becomes known later about events, and when."""
        if batch.features is None:
            return None, None, None
        used, width = self.run.deployed, self.codec.schema.feature_width
        own, rest = batch.features[:, :width], batch.features[:, width:].copy()
        if used.scaling.node_updates is not None and self.schema.node_updates and batch.op is not None:
            rows = batch.op == NODE
            rest[rows, 2:] = used.scaling.node_updates(rest[rows, 2:])
        if self.stream.schema.asking is None:
            return np.concatenate([used.scaling.event_features(own), rest], 1, dtype=np.float32), None, None
        nobody = np.zeros(len(batch), np.int64)
        schema = dataclasses.replace(self.codec.schema, op=None, node_updates=(), node_features=(), dummy=None)
        columns = {"src": nobody, "dst": nobody, "t": batch.t.view(), "features": own.copy()}
        read = used.view(EventLog.trusted(columns, IdMap(size=1), schema))
        assert read.features is not None
        assert read.marked_features is not None
        found, late = read.marked_features.copy(), read.features[:, read.schema.late].copy()
        if batch.op is not None:
            late[batch.op != ADD] = 0
            found[batch.op != ADD, read.schema.late] = 0
        return np.concatenate([found, rest], 1, dtype=np.float32), late, read.known

    def _like(self) -> EventLog:
        """The log so far, as later files are read: with all its nodes, and its events where deletions refer to them."""
        logs = self._observed if self.schema.op is not None else [self.run.log[:0]]

        def column(name: str) -> Any:
            parts = [getattr(log, name) for log in logs]
            return None if parts[0] is None else np.concatenate(parts)

        columns = {name: column(name) for name in ("src", "dst", "t", "features", "op", "node_updates")}
        columns["node_features"] = self.all_node_features()
        return EventLog.trusted(columns, self.names.id_map(), self.schema)

    def all_node_features(self) -> np.ndarray | None:
        """The run's node features, with zeros for nodes that came later."""
        given = self.run.log.node_features
        return None if given is None else np.pad(given, ((0, len(self.names) - len(given)), (0, 0)))

    def _check_order(self, t: np.ndarray) -> None:
        if len(t) and t[0] < self.clock:
            show = self.schema.time.show
            raise EventOrderError(
                f"the first event is at {show(t[0])}; this run has already observed {show(self.clock)}."
            )

    # -- for a service -----------------------------------------------------------------------------------------------

    def reader(self) -> Live:
        """This very state for one question of one thread; many may ask at once, while nothing is observed."""
        view = copy.copy(self)
        view.stream = self.stream.reader()
        if not hasattr(self._own, "numbering"):
            self._own.numbering = view.stream._numbering
        view.stream._numbering = self._own.numbering
        return view

    def snapshot(self) -> Snapshot:
        """A copy of everything that cannot be told from the run; writing it can wait."""
        from pintgn.live.snapshot import Snapshot

        return Snapshot.of(self)


def _parted(event: Any, row: int) -> tuple[Any, Any, Any, dict[str, Any]]:
    features = event[3] or {} if isinstance(event, list | tuple) and len(event) == 4 else {}
    if not isinstance(event, list | tuple) or len(event) not in (3, 4) or not isinstance(features, Mapping):
        raise BadInput(f"event {row} is {event!r}; an event is (src, dst, t) or (src, dst, t, {{feature: value}}).")
    return *event[:3], dict(features)  # type: ignore[return-value]


def _warn_unseen(feature: str, value: Any) -> None:
    warnings.warn(
        f"{feature}={value!r} was not in the training data; it counts as none of the known categories.",
        PintgnWarning,
        stacklevel=7,
    )
