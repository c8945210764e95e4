"""The contract of a task: a question about some events of a part, and one answer to each.

A new kind of question is a subclass of `Task` in a file of its own; docs/your-own-question.md writes one. What it says:
the questions of a part and their labels, the loss, the metrics, what calibrates answers, how they are shown. Training,
validation, test and `evaluate` are built on these, here. Links, which are classified against negatives and ranked, have
their own (`link.py`, `relation.py`).
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pintgn.errors import BadInput
from pintgn.events.checks import checked_known
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Feature, Schema
from pintgn.learn.measure import OnBatch, evenly, score_part, train_baseline
from pintgn.learn.metrics import Metrics, by_novelty
from pintgn.learn.protocol import Parts
from pintgn.learn.settings import QUESTIONS, TaskSettings, Training
from pintgn.learn.tasks.values import without_column
from pintgn.models.base import Model
from pintgn.stream import Stream
from pintgn.stream.history import History, KnownHistory

if TYPE_CHECKING:
    from pintgn.learn.negatives import Negatives
    from pintgn.learn.run import Run

Labels = Any
"""Labels of a batch's questions, as the task's loss takes them."""
Sampler = Callable[[EventLog, np.random.Generator], tuple[list[Query], Labels]]
"""From a batch of training events to questions and their labels; no questions: nothing to learn from."""
Groups = dict[str, Metrics]
"""Figures of all / seen / new."""


@dataclass(frozen=True)
class Answers:
    """Answers about a part and their labels, row by row."""

    given: np.ndarray  # (q, outputs)
    truth: np.ndarray  # (q,)

    def __len__(self) -> int:
        return len(self.truth)

    def __getitem__(self, rows: Any) -> Answers:
        return Answers(self.given[rows], self.truth[rows])


@dataclass(frozen=True)
class Measurement:
    """What a run is evaluated on, and how."""

    part: str  # test, val or later
    parts: Parts
    events: EventLog
    protocol: str
    schema: Schema
    ready: Callable[[OnBatch], Stream]  # a stream of the run that has observed everything before the events
    negatives: Any
    rank: int | str | None
    baselines: Sequence[str]  # names of other models
    seed: int  # of the negatives
    most: int  # events that are scored
    progress: Any

    def on_batch(self, what: str, of: EventLog | None = None) -> OnBatch:
        """A callback that reports how many events are done."""
        total = len(self.events if of is None else of)
        return None if self.progress is None else lambda done: self.progress(done, total, what)


class Task:
    """A question. Subclasses define it; training and evaluation build on that."""

    scores_links = False
    """Whether an answer is the logit of a link, so that destinations can be ranked by it."""
    tells_from_negatives = False
    """Whether its figures are AP and AUC against negatives, of which the long report is made."""
    loss_terms = 1
    """How many means the loss is the sum of; what is shown is their mean."""
    baselines: tuple[str, ...] = ()
    """Names of the training-free rows in every result."""
    choices: tuple[str, ...] = ()
    """Figures that an epoch may be chosen by; the first where `choose_by` names another."""
    labels: tuple[str, ...] | None = None
    """Names of the classes that answers are logits of; None if answers are values."""
    column: str | None = None
    """The column of the log that is asked about, or that is part of the question; no feature then."""
    newest: str | None = None
    """A relation to ask by, for an example: that of the newest event; None where there are none."""

    def __init__(self, settings: TaskSettings, log: EventLog, train: EventLog):
        """A task from a run's settings, its log and the training part, which alone decides what can be asked."""
        self.settings = settings

    # -- what a question is ------------------------------------------------------------------------------------------

    def schema(self, schema: Schema) -> Schema:
        """The schema of a log without the target as that of one with it: `asking` says how wide an answer is."""
        return schema

    def target(self, log: EventLog) -> np.ndarray | None:  # (e, w)
        """The target of events, as columns behind the features; None where there is none."""
        return None

    def known_of(self, log: EventLog) -> np.ndarray | None:  # (e,)
        """The time at which the target of each event becomes known; with the event if None."""
        return None

    def questions(self, part: EventLog, parts: Parts) -> tuple[np.ndarray, Query, np.ndarray]:
        """A mask of a part's scored events that are questions, the questions, and their labels."""
        raise NotImplementedError

    def training_questions(self, events: EventLog, parts: Parts, rng: np.random.Generator) -> tuple[Query, np.ndarray]:
        """Questions about training events whose answers were known when training ended, and their labels."""
        raise NotImplementedError

    def asked(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, given: np.ndarray | None) -> Query:
        """A query about an event that may happen."""
        return Query(src, dst, t, given)

    def loss(self, answers: list[Tensor], labels: Labels, settings: Training) -> Tensor:
        """The loss of answers to a batch's questions."""
        raise NotImplementedError

    def figures(self, answers: Any) -> Metrics:
        """The metrics of answers; the first one leads."""
        raise NotImplementedError

    def calibrate(self, answers: Answers) -> dict[str, float]:
        """Fit the calibration of answers on validation."""
        return {}

    def calibrated(self, answers: np.ndarray, how: dict[str, float]) -> np.ndarray:
        """Answers after calibration."""
        return answers

    def title(self) -> str:
        """The subject of the figures, as in "random negatives"."""
        return self.settings.predict

    def shown(self, answers: np.ndarray) -> dict[str, Any]:
        """Answers (q, outputs) as columns that a person reads, by name: values, classes, probabilities."""
        raise NotImplementedError

    def baseline(self, name: str) -> Model:
        """A training-free row by its name, unbuilt."""
        raise NotImplementedError

    def check(self, parts: Parts) -> None:
        """Refuse parts that cannot be evaluated on, before anything is written."""

    # -- reading the log -----------------------------------------------------------------------------------------------

    def without_target(self, log: EventLog) -> EventLog:
        """The log without the column that is asked about."""
        return log if self.column is None else without_column(log, self.column)

    def with_target(self, scaled: EventLog, log: EventLog) -> EventLog:
        """A log without the target, its features scaled, with what becomes known about its events."""
        target = self.target(log)
        if target is None:
            return scaled
        # of values in 64 bits: truths are read from them
        features = target if scaled.features is None else np.concatenate([scaled.features, target], 1)
        known = scaled.known if (late := self.known_of(log)) is None else checked_known(late, log.t)
        return scaled.with_columns(self.schema(scaled.schema), features=features, known=known)

    def event_schema(self, schema: Schema) -> tuple[Schema, str | None]:
        """The schema of single events, and the feature that they may lack because it is not known yet."""
        features = [feature.name for feature in schema.features]
        if self.column is not None and self.column == schema.label and self.column not in features:
            schema = dataclasses.replace(schema, features=(*schema.features, Feature(self.column)))
        return schema, None if self.scores_links else self.column

    # -- training ------------------------------------------------------------------------------------------------------

    def sampler(self, run: Run, negatives: Negatives | None) -> Sampler:
        """The sampler of training questions."""
        if negatives is not None:
            raise BadInput(f"this run predicts {self.settings.predict!r}; negatives belong to links. Leave them out.")

        def sample(events: EventLog, rng: np.random.Generator) -> tuple[list[Query], Labels]:
            query, labels = self.training_questions(events, run.parts, rng)
            return ([query], labels) if len(query) else ([], None)

        return sample

    def learn_at_once(self, model: Model, columns: list[Tensor], labels: list[Labels], seed: int) -> None:
        """Fit a model without gradients on the columns of all questions and their labels, batch by batch."""
        model.learn_answers(columns[0], np.concatenate(labels), seed)

    def chosen_by(self, settings: Training) -> str:
        """The name of the figure that the epoch and the best trial are chosen by."""
        return settings.choose_by if settings.choose_by in self.choices else self.choices[0]

    def value(self, figures: Metrics, settings: Training) -> float:
        """The chosen figure as a number from 0 on; more is better."""
        return figures.get(self.chosen_by(settings)) or 0.0

    # -- measuring -----------------------------------------------------------------------------------------------------

    def answers(
        self,
        stream: Stream,
        part: EventLog,
        parts: Parts,
        how: dict[str, float],
        most: int | None = None,
        on_batch: OnBatch = None,
    ) -> tuple[Answers, np.ndarray]:
        """Answers to a part's questions while the stream moves through it, and which of them touch a new node; to so
        many at most, evenly taken, where that is said."""
        asked, query, truth = self.questions(part, parts)
        if most is not None and len(truth) > most:
            some = evenly(len(truth), most)
            asked[np.flatnonzero(asked)[~some]] = False
            query, truth = query[some], truth[some]
        found = score_part(stream, part, [query], on_batch, asked)[0]
        new = ~parts.seen[query.src] | ~parts.seen[query.dst]
        return Answers(self.calibrated(found.reshape(len(truth), -1), how), truth), new

    def measured(self, stream: Stream, part: EventLog, parts: Parts, how: dict[str, float], *rest: Any) -> Groups:
        """Figures of a part; arguments as of `answers`."""
        found, new = self.answers(stream, part, parts, how, *rest)
        return by_novelty(found, new, self.figures)

    def validate(self, run: Run, after_training: Callable[[], Stream], negatives: Negatives | None) -> Groups:
        """Figures on validation; `after_training` gives a stream that has observed the training part."""
        return self.measured(after_training(), run.parts.val, run.parts, {})

    def measure(self, run: Run, after_training: Callable[[], Stream], test: bool, negatives: Any = None) -> Stream:
        """Calibrate a run on validation and, with `test`, measure it on test; its stream at the log's end."""
        stream, parts = after_training(), run.parts
        run.answer_calibration = self.calibrate(self.answers(stream, parts.val, parts, {})[0])
        if test:
            run.test = self.measured(stream, parts.test, parts, run.answer_calibration)
        else:
            stream.observe(parts.test)
        return stream

    def measure_baselines(self, run: Run, negatives: Negatives | None) -> None:
        """Test figures of the training-free rows."""
        parts = run.parts
        for name in self.baselines:
            stream = self.baseline_stream(name, run, parts, run.schema, parts.before(parts.test))
            run.heuristics[name] = self.measured(stream, parts.test, parts, {})

    def baseline_stream(
        self, name: str, run: Run, parts: Parts, schema: Schema, observed: EventLog, known: History | None = None
    ) -> Stream:
        """A training-free row in a stream that has observed these events; `known` holds them and perhaps more."""
        model = self.baseline(name)
        model.prepare(parts.trained)
        stream = Stream(model, schema, node_features=parts.log.node_features)
        if known is not None:
            return stream.fork(history=KnownHistory(known, observed))
        stream.observe(observed)
        return stream

    def evaluate(self, run: Run, how: Measurement) -> dict[str, Any]:
        """Figures of a run and of its baselines: fields of `Evaluation`."""
        if how.negatives is not None or how.rank is not None:
            raise BadInput(f"this run predicts {self.settings.predict!r}, not links: leave out negatives and rank.")
        parts, events, name = how.parts, how.events, run.settings.name
        if how.progress is not None:
            how.progress(0, len(events), "observing what came before")
        stream, before = how.ready(None), parts.before(events)
        rows = {name: self.measured(stream, events, parts, run.answer_calibration, how.most, how.on_batch(name))}
        for other in how.baselines:
            calibration: dict[str, float] = {}
            if other in self.baselines:
                stream = self.baseline_stream(other, run, parts, how.schema, before)
            elif other != name:
                trained = train_baseline(run, other, how.progress, later=how.part == "later")
                stream, calibration = trained.stream_after(before), trained.answer_calibration
            else:
                continue
            rows[other] = self.measured(stream, events, parts, calibration, how.most, how.on_batch(other))
        return {"negatives": {self.title(): rows}}

    # -- relations: a question may name one ----------------------------------------------------------------------------

    def by(self, relation: Any, count: int) -> np.ndarray | None:  # (q, 1)
        """A relation, or one for each of so many questions, as `Query.given`."""
        if relation is not None:
            raise BadInput("this run knows no relations; leave out relation. Train with relation= (--relation).")
        return None

    @property
    def asked_by(self) -> dict[str, Any] | None:
        """The choices of a form for a relation: its column, the known relations, and the first to show."""
        return None

    def inverted(self, by: np.ndarray | None, count: int) -> np.ndarray:  # (q,) bool
        """Mask of the questions by an inverse relation, whose source is a destination of events."""
        return np.zeros(count, bool)


def as_tensor(labels: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(labels)).to(like.device)


def make_task(settings: TaskSettings, log: EventLog, train: EventLog) -> Task:
    """The task of a run on a log; the training part decides what can be asked."""
    kind = QUESTIONS.get(settings.predict, "pintgn.learn.tasks.column:column_task")
    if settings.relation is not None:
        if settings.predict != "link":
            raise BadInput(
                f"task.relation={settings.relation!r} asks who meets whom, predict={settings.predict!r} something "
                f"else: give one of them. Which {settings.relation} comes next is predict={settings.relation!r}."
            )
        kind = "pintgn.learn.tasks.relation:Related"
    for name in ("given", "known_after", "within") if settings.scores_links else ():
        if getattr(settings, name) and settings.relation is not None:
            raise BadInput(f"task.{name} does not go with task.relation: leave it out.")
        if getattr(settings, name):
            raise BadInput(f"task.{name} needs a column to predict: name it with predict= (--predict).")
    if isinstance(kind, str):
        module, _, name = kind.partition(":")
        kind = getattr(importlib.import_module(module), name)
    return kind(settings, log, train)
