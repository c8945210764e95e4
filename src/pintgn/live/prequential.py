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
from pintgn.live.arriving_targets import asked_events, kept_answers
from pintgn.live.difference import auc_of
from pintgn.live.pending import Event, Kept, PendingAnswers
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
    """Rolling AP and AUC of the live stream, beside what the run reached on its test part."""

    def __init__(self, run: Run, every: int = EVERY, window: int = WINDOW):
        self.active = run.scores_links and every > 0
        self.measure = "AP"
        self.every, self.window = every, window
        figures: dict[str, Any] = run.test.get("all", {})
        self.reference_ap, self.reference_auc = figures.get("ap"), figures.get("auc")
        self.positive: deque[float] = deque(maxlen=window)
        self.negative: deque[float] = deque(maxlen=window)
        self.history: deque[tuple[Any, float]] = deque(maxlen=HISTORY)
        self.scored = 0
        self.on_scored: OnScored | None = None
        self._figures: tuple[int, dict[str, Any]] = (-1, {})

    def observe(self, live: Live, block: Block) -> np.ndarray:  # (e,)
        """Score some events beside destinations that they do not go to, then let all happen; the logits of those that
        are wanted, NaN for the others."""
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
        if drawn:
            self.add(scores[:drawn], scores[drawn : 2 * drawn], events.t[rows], block.numbers[rows])
        logits[wanted] = scores[2 * drawn :]
        return logits

    def draw(self, block: Block, destinations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to score, and a negative for each: a destination met before it, drawn by the event's number."""
        rows = self.rows(block.numbers, block.learnable & (block.before > 1))
        if not len(rows):
            return rows, rows
        before = block.before[rows]
        index = (scrambled(scrambled(block.numbers[rows])) % before.astype(np.uint64)).astype(np.int64)
        found = destinations[index]
        same = found == block.events.dst[rows]
        found[same] = destinations[(index[same] + 1) % before[same]]  # the next: no event is a negative of itself
        return rows, found

    def rows(self, numbers: np.ndarray, learnable: np.ndarray) -> np.ndarray:
        """Rows of the events that are scored, by their numbers alone."""
        if not self.active:
            return np.zeros(0, np.int64)
        return np.flatnonzero(learnable & (scrambled(numbers) % np.uint64(self.every) == 0))

    def target_arrived(self, event: Event, truth: float, known: Any, clock: Any) -> None:
        """Take in a target that arrived by itself; links have none."""

    def add(self, positive: np.ndarray, negative: np.ndarray, t: np.ndarray, numbers: np.ndarray) -> None:
        """Take in the logits of scored events and of their negatives; scores that are not finite count as wrong."""
        if self.on_scored is not None:
            self.on_scored(numbers.tolist(), np.stack([positive, negative], 1).tolist())
        for yes, no, when in zip(positive.tolist(), negative.tolist(), t.tolist(), strict=True):
            finite = np.isfinite(yes) and np.isfinite(no)
            self.positive.append(yes if finite else -1e9)
            self.negative.append(no if finite else 1e9)
            self.scored += 1
            if self.scored % STEP == 0:
                self.history.append((when, self.figures()["ap"]))

    def figures(self) -> dict[str, Any]:
        """AP and AUC over the window; None before anything was scored."""
        if self._figures[0] != self.scored:
            scores = Scores(np.array(self.positive), np.array(self.negative))
            self._figures = (self.scored, scores.metrics())
        return self._figures[1]

    compared_by = "AUC"
    """Name of the figure that `value` computes."""

    def value(self, rows: np.ndarray) -> float | None:
        """The figure by which two models are compared, more is better, of logits of events and their negatives (e, 2);
        None if there are too few."""
        return auc_of(rows)

    def rolling(self, figures: dict[str, Any]) -> float | None:
        """The figure that is shown."""
        return figures["ap"]

    @property
    def reference(self) -> float | None:
        """The figure on the test part."""
        return self.reference_ap

    @property
    def held(self) -> int:
        """Scored events in the window."""
        return len(self.positive)

    @property
    def drift(self) -> bool:
        """True if the stream has become harder than chance explains."""
        auc, count = self.figures()["auc"], len(self.positive)
        if auc is None or self.reference_auc is None or count < ENOUGH:
            return False
        short = self.reference_auc - auc
        return bool(short > MARGIN and short > ERRORS * standard_error(auc, count))

    def status(self) -> dict[str, Any]:
        """For the page and for machines."""
        figures = self.figures()
        return {
            "active": self.active,
            "measure": self.measure,
            "rolling": self.rolling(figures),
            "reference": self.reference,
            "ap_rolling": figures.get("ap"),
            "auc_rolling": figures.get("auc"),
            "reference_ap": self.reference_ap,
            "reference_auc": self.reference_auc,
            "scored": self.scored,
            "window": self.held,
            "every": self.every,
            "history": [[t, ap] for t, ap in self.history],
            "drift": self.drift,
            "beside": type(self) is Prequential,  # each beside a random destination
            "waiting": 0,  # answers whose truth is not known yet
            "given_up": 0,  # those whose truth did not come in time
        }

    def facts(self) -> dict[str, Any]:
        """All figures as plain values, for a snapshot."""
        return {
            "scored": self.scored,
            "positive": list(self.positive),
            "negative": list(self.negative),
            "history": [list(point) for point in self.history],
        }

    def restore(self, facts: dict[str, Any]) -> None:
        self.scored = facts["scored"]
        self.positive.extend(facts["positive"])
        self.negative.extend(facts["negative"])
        self.history.extend((t, ap) for t, ap in facts["history"])


class AnswerPrequential(Prequential):
    """Prequential evaluation of a run that predicts a column, by the task's figures: an answer is given just before its
    event, and evaluated once the target is known."""

    def __init__(self, run: Run, every: int = EVERY, window: int = WINDOW):
        super().__init__(run, every, window)
        self.task: Any = run.task
        self.training = run.settings.train
        choices: tuple[str, ...] = getattr(self.task, "choices", ())
        chosen = next((name for name in (self.training.choose_by, *choices) if name in choices), None)
        self.compared_by = "1 / (1 + RMSE / deviation)" if chosen is None else HEADS[chosen]
        asking = run.schema.asking
        self.active = every > 0 and asking is not None and asking.late > 0
        figures = run.test.get("all", {})
        self.name = next((name for name in figures if name != "events"), "ap")
        self.measure = HEADS.get(self.name, self.name)
        self.tested: dict[str, Any] = dict(figures)
        self.answers: deque[list[float]] = deque(maxlen=window)
        self.truth: deque[float] = deque(maxlen=window)
        self.pending = PendingAnswers()

    def observe(self, live: Live, block: Block) -> np.ndarray:
        """Ask about some events, then let all happen; answers are evaluated once their targets are known."""
        events, asking = block.events, live.stream.schema.asking
        assert asking is not None
        rows = self.rows(block.numbers, block.learnable)
        named = asked_events(live, events, rows)
        given = events.features[rows][:, list(asking.given)] if asking.given and events.features is not None else None
        asked = live.task.asked(events.src[rows], events.dst[rows], events.t[rows], given)
        found = live.stream.advance(events, asked).numpy(force=True)
        if len(rows):
            found = live.task.calibrated(found, live.run.answer_calibration)
            kept = kept_answers(live, events, rows, block.numbers[rows], found)
            for event, one in zip(named, kept, strict=True):
                self.add_answer(event, one)
        if self.active:
            self.evaluate(events.t[-1].item())
        return np.full(len(block.numbers), np.nan, np.float32)

    def add_answer(self, event: Event, kept: Kept) -> None:
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
        for number, said, true, when in self.pending.resolved(clock):
            if self.on_scored is not None:
                self.on_scored([number], [[*said, true]])
            self.answers.append(said)
            self.truth.append(true)
            self.scored += 1
            if self.scored % STEP == 0 and (value := self.figures().get(self.name)) is not None:
                self.history.append((when, value))

    def figures(self) -> dict[str, Any]:
        if self._figures[0] != self.scored:
            width = len(self.answers[0]) if self.answers else 1
            held = Answers(np.array(self.answers).reshape(-1, width), np.array(self.truth))
            self._figures = (self.scored, self.task.figures(held))
        return self._figures[1]

    def value(self, rows: np.ndarray) -> float | None:
        """The figure that chooses the task's epochs, of answers with the truth in the last column (e, outputs + 1)."""
        figures = self.task.figures(Answers(rows[:, :-1], rows[:, -1]))
        return None if figures.get(self.name) is None else self.task.value(figures, self.training)

    def rolling(self, figures: dict[str, Any]) -> float | None:
        return figures[self.name]

    @property
    def reference(self) -> float | None:
        return self.tested.get(self.name)

    @property
    def held(self) -> int:
        return len(self.truth)

    @property
    def drift(self) -> bool:
        if self.held < ENOUGH or not self.tested:
            return False
        return drifted(self.figures(), self.tested, np.array(self.truth))

    def status(self) -> dict[str, Any]:
        return super().status() | {"waiting": len(self.pending), "given_up": self.pending.given_up}

    def facts(self) -> dict[str, Any]:
        held = {"answers": list(self.answers), "truth": list(self.truth)}
        return super().facts() | held | self.pending.facts()

    def restore(self, facts: dict[str, Any]) -> None:
        super().restore(facts)
        self.pending.restore(facts.get("waiting") or [], facts.get("given_up") or 0)
        self.answers.extend(facts.get("answers", []))
        self.truth.extend(facts.get("truth", []))


def prequential_of(run: Run, every: int) -> Prequential:
    """Prequential evaluation for the task of a run."""
    return (Prequential if run.settings.task.scores_links else AnswerPrequential)(run, every)
