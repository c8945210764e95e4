"""Prequential evaluation (test, then learn): quality of the model on live events.

A fixed share of the events, chosen by their numbers alone, is scored just before it happens, each against one random
destination that was known by then. So the figures are a function of the log, like everything else: neither batches nor
restarts change which events are scored, or against whom.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.events.columns import scrambled
from pintgn.events.log import Query
from pintgn.learn.figures_text import HEADS
from pintgn.learn.metrics import Scores, drifted, standard_error
from pintgn.learn.run import Run
from pintgn.learn.tasks.task import Answers
from pintgn.live.arriving_targets import events_of_targets, pending_answers
from pintgn.live.difference import auc_of
from pintgn.live.pending import Event, PendingAnswer, PendingAnswers
from pintgn.models.history_view import Events

if TYPE_CHECKING:
    from pintgn.live.live import Live

EVERY = 10
"""One event in so many is scored."""
WINDOW = 1_000
"""The figures roll over so many scored events."""
STEP = 50
"""Scored events between two points of the history."""
HISTORY = 500
"""Points of the history that are kept."""
ENOUGH = 200
"""Scored events before anything is said about drift."""
MARGIN, ERRORS = 0.02, 4.0
"""Drift: the rolling AUC is below the reference by more than this margin and by more than so many standard errors."""


OnScored = Callable[[Sequence[int], Sequence[Sequence[float]]], None]
"""Called with the numbers of scored events, and for each the row that `value` takes."""


@dataclass
class Block:
    """Events that are observed together."""

    events: Events
    learnable: np.ndarray  # (e,) which are worth predicting
    numbers: np.ndarray  # (e,)
    before: np.ndarray  # (e,) how many destinations had been met before each event
    wanted: np.ndarray | None = None  # (e,) whose logits the caller wants


class Prequential:
    """Rolling figures of the live stream, with those of the run's test part; of links: AP and AUC.

    A scored event is a row of numbers, of which the figures are made: its logit and that of its negative.
    """

    name, measure = "ap", "AP"
    """The figure that is shown, and how it is called."""
    compared_by, compared_by_error = "AUC", False
    """Name of the figure that `value` computes; whether less of it is better."""

    def __init__(self, run: Run, every: int = EVERY, window: int = WINDOW):
        self.active = run.scores_links and every > 0
        self.every = every
        self.tested: dict[str, Any] = run.test.get("all", {})
        self.rows: deque[list[float]] = deque(maxlen=window)
        self.history: deque[tuple[Any, float]] = deque(maxlen=HISTORY)
        self.scored = 0
        self.on_scored: OnScored | None = None
        self._figures: tuple[int, dict[str, Any]] = (-1, {})

    def observe(self, live: Live, block: Block) -> np.ndarray:  # (e,)
        """Score some events and a negative for each, then observe all; returns the logits of the requested events, NaN
        for the others."""
        events, logits = block.events, np.full(len(block.numbers), np.nan, np.float32)
        rows, negative = self.draw(block, live.destinations.values)
        wanted = rows[:0] if block.wanted is None else np.flatnonzero(block.wanted & block.learnable)
        asked, drawn = np.concatenate([rows, rows, wanted]), len(rows)
        asking, given = live.stream.schema.asking, None
        if asking is not None and events.features is not None:
            given = events.features[asked][:, list(asking.given)]
        dst = np.concatenate([events.dst[rows], negative, events.dst[wanted]])
        found = live.stream.advance(events, Query(events.src[asked], dst, events.t[asked], given))
        if not len(asked):
            return logits
        scores = live.model.answer(found, "anyone").numpy(force=True)
        pairs = np.stack([scores[:drawn], scores[drawn : 2 * drawn]], 1).tolist()
        for number, pair, when in zip(block.numbers[rows].tolist(), pairs, events.t[rows].tolist(), strict=True):
            self.take(number, pair, when)
        logits[wanted] = scores[2 * drawn :]
        return logits

    def draw(self, block: Block, destinations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to score, and a negative for each: a destination met before it, drawn by the event's number."""
        rows = self.drawn(block.numbers, block.learnable & (block.before > 1))
        if not len(rows):
            return rows, rows
        before = block.before[rows]
        index = (scrambled(scrambled(block.numbers[rows])) % before.astype(np.uint64)).astype(np.int64)
        found = destinations[index]
        same = found == block.events.dst[rows]
        found[same] = destinations[(index[same] + 1) % before[same]]  # the next: no event is a negative of itself
        return rows, found

    def drawn(self, numbers: np.ndarray, learnable: np.ndarray) -> np.ndarray:
        """Rows of the events that are scored, by their numbers alone."""
        if not self.active:
            return np.zeros(0, np.int64)
        return np.flatnonzero(learnable & (scrambled(numbers) % np.uint64(self.every) == 0))

    def target_arrived(self, event: Event, truth: float, known: Any, clock: Any) -> None:
        """Observe a target that arrived as a message of its own; links have none."""

    def take(self, number: int, row: list[float], when: Any) -> None:
        """Add a scored event; scores that are not finite count as wrong."""
        if self.on_scored is not None:
            self.on_scored([number], [row])
        self.rows.append(row if np.isfinite(row).all() else [-1e9, 1e9])
        self.scored += 1
        if self.scored % STEP == 0 and (value := self.figures().get(self.name)) is not None:
            self.history.append((when, value))

    def figures(self) -> dict[str, Any]:
        """The figures of the window; None before anything was scored."""
        if self._figures[0] != self.scored:
            self._figures = (self.scored, self.figures_of(self.held()))
        return self._figures[1]

    def held(self) -> np.ndarray:  # (n, k)
        """The rows of the window."""
        return np.array(self.rows).reshape(len(self.rows), -1) if self.rows else np.zeros((0, 2))

    def figures_of(self, rows: np.ndarray) -> dict[str, Any]:
        return Scores(rows[:, 0], rows[:, 1]).metrics()

    def value(self, rows: np.ndarray) -> float | None:
        """The figure of rows by which two models are compared; None if there are too few."""
        return auc_of(rows)

    @property
    def drift(self) -> bool:
        """True if the stream has become harder than chance explains."""
        auc, reference = self.figures()["auc"], self.tested.get("auc")
        if auc is None or reference is None or len(self.rows) < ENOUGH:
            return False
        short = reference - auc
        return bool(short > MARGIN and short > ERRORS * standard_error(auc, len(self.rows)))

    def status(self) -> dict[str, Any]:
        """For the page and for machines."""
        figures = self.figures()
        return {
            "active": self.active,
            "measure": self.measure,
            "rolling": figures[self.name],
            "reference": self.tested.get(self.name),
            "ap_rolling": figures.get("ap"),
            "auc_rolling": figures.get("auc"),
            "reference_ap": self.tested.get("ap"),
            "reference_auc": self.tested.get("auc"),
            "scored": self.scored,
            "window": len(self.rows),
            "every": self.every,
            "history": [[t, value] for t, value in self.history],
            "drift": self.drift,
            "beside": type(self) is Prequential,  # each beside a random destination
            "waiting": 0,  # answers whose truth is not known yet
            "given_up": 0,  # those whose truth did not come in time
        }

    def facts(self) -> dict[str, Any]:
        """All figures as plain values, for a snapshot."""
        positive, negative = [row[0] for row in self.rows], [row[1] for row in self.rows]
        return self._counted() | {"positive": positive, "negative": negative}

    def _counted(self) -> dict[str, Any]:
        return {"scored": self.scored, "history": [list(point) for point in self.history]}

    def restore(self, facts: dict[str, Any]) -> None:
        self.scored = facts["scored"]
        self.history.extend((t, value) for t, value in facts["history"])
        self.rows.extend(map(list, zip(facts["positive"], facts["negative"], strict=True)))


class AnswerPrequential(Prequential):
    """Prequential evaluation of a run that predicts a column, by the task's figures: an answer is given just before its
    event, and evaluated once the target is known. A row is the answer, then the truth."""

    def __init__(self, run: Run, every: int = EVERY, window: int = WINDOW):
        super().__init__(run, every, window)
        self.task: Any = run.task
        self.chosen_by = self.task.chosen_by(run.settings.train)
        self.compared_by, self.compared_by_error = HEADS[self.chosen_by], self.chosen_by == "rmse"
        asking = run.schema.asking
        self.active = every > 0 and asking is not None and asking.late > 0
        self.name = next((name for name in self.tested if name != "events"), "ap")
        self.measure = HEADS.get(self.name, self.name)
        self.pending = PendingAnswers()

    def observe(self, live: Live, block: Block) -> np.ndarray:
        """Answer questions about some events, then observe all; answers are evaluated once their targets are known."""
        events, asking = block.events, live.stream.schema.asking
        assert asking is not None
        rows = self.drawn(block.numbers, block.learnable)
        named = events_of_targets(live, events, rows)
        given = events.features[rows][:, list(asking.given)] if asking.given and events.features is not None else None
        asked = live.task.asked(events.src[rows], events.dst[rows], events.t[rows], given)
        found = live.stream.advance(events, asked).numpy(force=True)
        if len(rows):
            found = live.task.calibrated(found, live.run.answer_calibration)
            kept = pending_answers(live, events, rows, block.numbers[rows], found)
            for event, one in zip(named, kept, strict=True):
                self.add_answer(event, one)
        if self.active:
            self.evaluate(events.t[-1].item())
        return np.full(len(block.numbers), np.nan, np.float32)

    def add_answer(self, event: Event, kept: PendingAnswer) -> None:
        """Take in the answer about an event, after those about earlier ones; it is kept until its truth is known."""
        self.evaluate(event.t)
        if np.isfinite(kept.answer).all():
            self.pending.keep(event, kept)
            self.evaluate(event.t)

    def target_arrived(self, event: Event, truth: float, known: Any, clock: Any) -> None:
        self.pending.set_truth(event, truth, known)
        self.evaluate(clock)

    def evaluate(self, clock: Any) -> None:
        """Take in all answers whose truth is known by a time."""
        for number, answer, truth, when in self.pending.resolved(clock):
            self.take(number, [*answer, truth], when)

    def figures_of(self, rows: np.ndarray) -> dict[str, Any]:
        return self.task.figures(Answers(rows[:, :-1], rows[:, -1]))

    def value(self, rows: np.ndarray) -> float | None:
        """The figure that chooses the task's epochs."""
        return self.figures_of(rows).get(self.chosen_by)

    @property
    def drift(self) -> bool:
        if len(self.rows) < ENOUGH or not self.tested:
            return False
        return drifted(self.figures(), self.tested, self.held()[:, -1])

    def status(self) -> dict[str, Any]:
        return super().status() | {"waiting": len(self.pending), "given_up": self.pending.given_up}

    def facts(self) -> dict[str, Any]:
        answers, truth = [row[:-1] for row in self.rows], [row[-1] for row in self.rows]
        nothing: dict[str, Any] = {"positive": [], "negative": []}
        return self._counted() | nothing | {"answers": answers, "truth": truth} | self.pending.facts()

    def restore(self, facts: dict[str, Any]) -> None:
        super().restore(facts)
        self.pending.restore(facts.get("waiting") or [], facts.get("given_up") or 0)
        self.rows.extend(
            [*answer, truth] for answer, truth in zip(facts.get("answers") or [], facts.get("truth") or [], strict=True)
        )


def prequential_of(run: Run, every: int) -> Prequential:
    """Prequential evaluation for the task of a run."""
    return (Prequential if run.settings.task.scores_links else AnswerPrequential)(run, every)
