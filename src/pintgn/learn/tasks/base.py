"""The interface of a task. Training, measuring and use know a run's question through it alone.

A task says how the log is read for it, which questions there are and what they turned out to be, what training makes
small, what is measured and beside which training-free rows, and how an answer is shown. `link` is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.learn.metrics import Metrics, by_novelty, standard_error
from pintgn.learn.settings import TaskSettings, Training
from pintgn.learn.tasks.words import Told
from pintgn.models.base import Model

if TYPE_CHECKING:
    from pintgn.learn.evaluate import Evaluation, Target
    from pintgn.learn.negatives import Negatives
    from pintgn.learn.protocol import Parts
    from pintgn.learn.run import Run
    from pintgn.stream import Stream

Truth = Any
"""What a batch's questions turned out to be, as the task's loss takes it."""
Asker = Callable[[EventLog, np.random.Generator], tuple[list[Query], Truth]]
"""From a batch of scored training events to questions and what they turned out to be; none: nothing to learn from."""
Groups = dict[str, Metrics]
"""Figures of all / seen / new."""


@dataclass(frozen=True)
class Answers:
    """Answers about a part and what they turned out to be, row by row."""

    given: np.ndarray  # (q, outputs)
    truth: np.ndarray  # (q,)

    def __len__(self) -> int:
        return len(self.truth)

    def __getitem__(self, rows: Any) -> Answers:
        return Answers(self.given[rows], self.truth[rows])


@dataclass(frozen=True)
class Measuring:
    """How a run is measured, as `evaluate` has it from its caller."""

    negatives: Any
    rank: int | str | None
    beside: Sequence[str]  # names of other models
    seed: int  # of the negatives
    most: int  # events that are scored
    progress: Any


class Task:
    """What every task can do. The base asks about the log as it is."""

    scores_links = False
    """Whether an answer is the logit of a link, so that destinations can be ranked by it."""
    tells_from_negatives = False
    """Whether its figures are AP and AUC against negatives, of which the long report is made."""
    loss_terms = 1
    """How many means the loss is the sum of; what is shown is their mean."""
    rows: tuple[str, ...] = ()
    """Names of the training-free rows that stand beside every result."""
    newest: str | None = None
    """A relation to ask by, for an example: that of the newest event; None where there are none."""
    measure = "logit"
    """What the answers of `told` are compared in."""

    def __init__(self, settings: TaskSettings):
        self.settings = settings

    # -- how the log is read ---------------------------------------------------------------------------------------

    def bare(self, log: EventLog) -> EventLog:
        """The log without what the model may not read as a feature."""
        return log

    def complete(self, scaled: EventLog, log: EventLog) -> EventLog:
        """The bare log, features to scale, with what becomes known about its events (`Schema.asking`)."""
        return scaled

    def schema(self, schema: Schema) -> Schema:
        """The schema of a bare log as that of a complete one."""
        return schema

    def written(self, schema: Schema) -> tuple[Schema, str | None]:
        """The schema of events that come one by one, and the feature that they may lack."""
        return schema, None

    def check(self, parts: Parts) -> None:
        """Refuse parts that cannot be measured by, before anything is written."""

    # -- training --------------------------------------------------------------------------------------------------

    def asker(self, run: Run, negatives: Negatives | None) -> Asker:
        """How training asks."""
        raise NotImplementedError

    def loss(self, answers: list[Tensor], truth: Truth, settings: Training) -> Tensor:
        """What training makes small, of the answers to what `asker` asked."""
        raise NotImplementedError

    def learn_at_once(self, model: Model, columns: list[Tensor], truths: list[Truth], seed: int) -> None:
        """Let a model without gradients learn from the columns of all questions, batch by batch what they turned out to
        be."""
        model.learn_answers(columns[0], np.concatenate(truths), seed)

    def chosen_by(self, settings: Training) -> str:
        """The name of the figure that the epoch and the best trial are chosen by."""
        raise NotImplementedError

    def value(self, figures: Metrics, settings: Training) -> float:
        """That figure as a number from 0 on of which more is better."""
        return figures[self.chosen_by(settings)] or 0.0

    # -- measuring -------------------------------------------------------------------------------------------------

    def nothing(self) -> Groups:
        """The figures where there is nothing to measure."""
        raise NotImplementedError

    def validate(self, stream: Stream, run: Run, negatives: Negatives | None) -> Groups:
        """Figures on validation; the stream, which has observed the training part, moves through it."""
        raise NotImplementedError

    def catch_up(
        self, run: Run, after_training: Callable[[], Stream], negatives: Negatives | None, measure_test: bool
    ) -> Any:
        """Calibrate a run on validation and, with `measure_test`, measure it on test. `after_training` gives the run's
        stream after the training part, which moves to the log's end. Returns what `measure_beside` needs."""
        raise NotImplementedError

    def measure_beside(self, run: Run, found: Any, negatives: Negatives | None) -> None:
        """What is measured once more at the end: calibration on test, and the training-free rows."""
        raise NotImplementedError

    def evaluate(self, run: Run, target: Target, how: Measuring) -> Evaluation:
        """Figures of a run and of the rows beside it."""
        raise NotImplementedError

    def row(self, name: str) -> Model:
        """A training-free row by its name, unbuilt."""
        raise NotImplementedError

    def by(self, relation: Any, count: int) -> np.ndarray | None:  # (q, 1)
        """What a relation, or one for each of so many questions, is given as; see `Query.given`."""
        if relation is not None:
            raise BadInput("this run knows no relations; leave out relation. Train with relation= (--relation).")
        return None

    @property
    def asked_by(self) -> dict[str, Any] | None:
        """What a form for a relation has to know: its column, the relations there are, and one to begin with."""
        return None

    def turned(self, by: np.ndarray | None, count: int) -> np.ndarray:  # (q,) bool
        """Which of so many questions are by an inverse relation: their source is a destination of events."""
        return np.zeros(count, bool)

    # -- in words --------------------------------------------------------------------------------------------------

    def title(self) -> str:
        """What the figures are about, as in "random negatives"."""
        raise NotImplementedError

    def shown(self, answers: np.ndarray) -> dict[str, Any]:
        """Answers (q, outputs) as columns that a person reads, by name: values, classes, probabilities."""
        raise NotImplementedError

    def told(self, answers: np.ndarray) -> list[Told]:
        """Answers (w, outputs) to one question in several worlds, in words; for explanations."""
        raise NotImplementedError

    def told_known(self, late: np.ndarray) -> str:
        """What became known about some events, by the target's columns (n, w), in words."""
        return ""


class Questioning(Task):
    """A task with one question for some of a part's scored events, and one answer to each."""

    choices: tuple[str, ...] = ()
    """Figures that an epoch may be chosen by; the first where `choose_by` names another."""

    def questions(self, part: EventLog, parts: Parts) -> tuple[np.ndarray, Query, np.ndarray]:
        """Which of a part's scored events are questions (a mask), the questions, and what they turned out to be."""
        raise NotImplementedError

    def trainable(self, events: EventLog, parts: Parts, rng: np.random.Generator) -> tuple[Query, np.ndarray]:
        """Questions about training events, of which only is asked what was known when training ended."""
        raise NotImplementedError

    def asked(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, given: np.ndarray | None) -> Query:
        """A question about an event that may happen."""
        return Query(src, dst, t, given)

    def figures(self, answers: Answers) -> Metrics:
        """The task's measures."""
        raise NotImplementedError

    def drifted(self, figures: Metrics, tested: Metrics, truth: np.ndarray) -> bool:
        """Whether figures of recent events are worse than those of the test part by more than chance explains: the AUC
        by two points and four standard errors."""
        now, then = figures.get("auc"), tested.get("auc")
        few = int(min(truth.sum(), len(truth) - truth.sum())) if len(truth) else 0
        return bool(now and then and few > 1 and then - now > max(0.02, 4 * standard_error(now, few)))

    def calibrate(self, answers: Answers) -> dict[str, float]:
        """What makes answers honest, by validation."""
        return {}

    def calibrated(self, answers: np.ndarray, how: dict[str, float]) -> np.ndarray:
        """Answers as calibration has them."""
        return answers

    # -- by these --------------------------------------------------------------------------------------------------

    def asker(self, run: Run, negatives: Negatives | None) -> Asker:
        self._refuse(negatives)

        def ask(events: EventLog, rng: np.random.Generator) -> tuple[list[Query], Truth]:
            query, truth = self.trainable(events, run.parts, rng)
            return ([query], truth) if len(query) else ([], None)

        return ask

    def chosen_by(self, settings: Training) -> str:
        return settings.choose_by if settings.choose_by in self.choices else self.choices[0]

    def nothing(self) -> Groups:
        none = Answers(np.zeros((0, 1)), np.zeros(0))
        return by_novelty(none, np.zeros(0, bool), self.figures)

    def answers(
        self,
        stream: Stream,
        part: EventLog,
        parts: Parts,
        how: dict[str, float],
        on_batch: Callable[[int], None] | None = None,
        most: int | None = None,
    ) -> tuple[Answers, np.ndarray]:
        """Answers to a part's questions while the stream moves through it, and which of them touch a new node; to so
        many at most, evenly taken, where that is said."""
        from pintgn.learn.measure import evenly, score_part

        asked, query, truth = self.questions(part, parts)
        if most is not None and len(truth) > most:
            some = evenly(len(truth), most)
            asked[np.flatnonzero(asked)[~some]] = False
            query, truth = query[some], truth[some]
        found = score_part(stream, part, [query], on_batch, asked)[0]
        new = ~parts.seen[query.src] | ~parts.seen[query.dst]
        shaped = found.reshape(len(truth), -1)
        return Answers(self.calibrated(shaped, how), truth), new

    def validate(self, stream: Stream, run: Run, negatives: Negatives | None) -> Groups:
        found, new = self.answers(stream, run.parts.val, run.parts, {})
        return by_novelty(found, new, self.figures)

    def catch_up(
        self, run: Run, after_training: Callable[[], Stream], negatives: Negatives | None, measure_test: bool
    ) -> Any:
        stream = after_training()
        found, _ = self.answers(stream, run.parts.val, run.parts, {})
        run.answer_calibration = self.calibrate(found)
        if measure_test:
            tested, new = self.answers(stream, run.parts.test, run.parts, run.answer_calibration)
            run.test = by_novelty(tested, new, self.figures)
        else:
            stream.observe(run.parts.test)
        return None

    def measure_beside(self, run: Run, found: Any, negatives: Negatives | None) -> None:
        parts = run.parts
        for name in self.rows:
            stream = self.row_stream(name, run, parts, run.schema, parts.before(parts.test))
            answers, new = self.answers(stream, parts.test, parts, {})
            run.heuristics[name] = by_novelty(answers, new, self.figures)

    def row_stream(self, name: str, run: Run, parts: Parts, schema: Schema, observed: EventLog) -> Stream:
        """A training-free row in a stream that has observed these events."""
        from pintgn.stream import Stream

        model = self.row(name)
        model.prepare(parts.trained)
        stream = Stream(model, schema, node_features=parts.log.node_features)
        stream.observe(observed)
        return stream

    def evaluate(self, run: Run, target: Target, how: Measuring) -> Evaluation:
        from pintgn.learn.evaluate import Evaluation

        if how.negatives is not None or how.rank is not None:
            raise BadInput(f"this run predicts {self.settings.predict!r}, not links: leave out negatives and rank.")
        parts, events = target.parts, target.events
        name, progress, most = run.settings.name, how.progress, how.most

        def on_batch(what: str) -> Callable[[int], None] | None:
            return None if progress is None else lambda done: progress(done, len(events), what)

        if progress is not None:
            progress(0, len(events), "observing what came before")
        found, new = self.answers(target.ready(None), events, parts, run.answer_calibration, on_batch(name), most)
        rows = {name: by_novelty(found, new, self.figures)}
        before = parts.before(events)
        for other, (stream_after, calibration) in self.streams_beside(run, how.beside, target, progress).items():
            if other != name:
                answers, new = self.answers(stream_after(before), events, parts, calibration, on_batch(other), most)
                rows[other] = by_novelty(answers, new, self.figures)
        return Evaluation(target.part, target.protocol, {self.title(): rows}, {}, settings=run.settings.to_dict())

    def streams_beside(self, run: Run, names: Sequence[str], target: Target, progress: Any) -> dict[str, Any]:
        """For each row a function that gives its stream after some events, and its calibration; a model that learns is
        trained now, as in `beside.streams_beside`."""
        from functools import partial

        from pintgn.learn.beside import trained_beside

        found: dict[str, Any] = {}
        for name in names:
            if name in self.rows:
                found[name] = partial(self.row_stream, name, run, target.parts, target.schema), {}
            else:
                other = trained_beside(run, name, progress, later=target.part == "later")

                def after(observed: EventLog, other: Run = other) -> Stream:
                    stream = other.new_stream()
                    stream.observe(observed)
                    return stream

                found[name] = after, other.answer_calibration
        return found

    def _refuse(self, negatives: Any) -> None:
        if negatives is not None:
            raise BadInput(f"this run predicts {self.settings.predict!r}; negatives belong to links. Leave them out.")


def as_tensor(truth: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(truth)).to(like.device)
