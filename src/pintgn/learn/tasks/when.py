"""Questions about time: does a node act again, do two meet again, within a horizon?"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.moment import read_duration
from pintgn.events.schema import Asking, Schema
from pintgn.learn.calibration import calibrated_classes, class_calibration
from pintgn.learn.metrics import LEAST, Metrics, chance_metrics, probabilities
from pintgn.learn.protocol import Parts
from pintgn.learn.settings import TaskSettings, Training
from pintgn.learn.tasks.task import Answers, Labels, Task, as_tensor
from pintgn.models.base import Model
from pintgn.models.when_rows import ROWS, WhenRow


class Actors:
    """Nodes that acted in a log (`return`), or pairs that met (`meet`), and when each did so next."""

    def __init__(self, log: EventLog, pairs: bool):
        rows = np.flatnonzero(log.learnable)
        self.src, self.dst, self.t = log.src[rows], log.dst[rows] if pairs else log.src[rows], log.t[rows]
        self.width, self.times = np.int64(log.nodes), np.unique(self.t)
        key = self.src * self.width + self.dst
        distinct, first = np.unique(key, return_index=True)
        order = np.argsort(first, kind="stable")
        self.first = first[order]  # the first event of each, in order of time
        self.first_t = self.t[self.first]
        rank = np.searchsorted(self.times, self.t)
        numbered = np.searchsorted(distinct, key) * np.int64(len(self.times) + 1) + rank
        self.sorted, self.keys = np.sort(numbered), distinct

    def draw(self, t: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Someone who acted before each time, all equally likely; and for which times there was anyone."""
        earlier = np.searchsorted(self.first_t, t, "left")
        index = (rng.random(len(t)) * earlier).astype(np.int64)
        chosen = self.first[np.minimum(index, max(len(self.first) - 1, 0))]
        return self.src[chosen], self.dst[chosen], earlier > 0

    def within(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, horizon: float) -> np.ndarray:
        """Whether each acts from t on until the horizon has passed."""
        steps = np.int64(len(self.times) + 1)
        number = np.searchsorted(self.keys, src * self.width + dst)
        at = np.searchsorted(self.sorted, number * steps + np.searchsorted(self.times, t, "left"))
        there = at < len(self.sorted)
        found = self.sorted[np.minimum(at, len(self.sorted) - 1)]
        mine = there & (found // steps == number)
        return mine & (self.times[np.where(mine, found % steps, 0)] - t <= horizon)


class When(Task):
    """Will this node act, will these two meet, within a horizon? The answer is known once the horizon has passed.

    Asked at the time of every event about someone drawn from all who acted before, so the event itself tells nothing.
    """

    choices = ("ap", "auc")
    baselines = ROWS

    def __init__(self, settings: TaskSettings, log: EventLog, train: EventLog):
        super().__init__(settings, log, train)
        if settings.given or settings.known_after is not None:
            raise BadInput(f"predict={settings.predict!r} asks about time, so nothing can be given or known later.")
        if settings.within is None:
            raise BadInput(f"predict={settings.predict!r} needs a horizon: within='30d' (--within 30d).")
        self.horizon = read_duration(settings.within, train.schema.time)
        if not 0 < self.horizon < math.inf:
            raise BadInput(f"within={settings.within!r}; it is a length of time above 0.")
        self.pairs = settings.predict == "meet"
        self._trained: tuple[Parts, Actors] | None = None
        _, truth = self._ask(train, Actors(train, self.pairs), train.t[-1], np.random.default_rng(0))
        if not len(truth):
            show = train.schema.time.show
            raise BadInput(
                f"within={settings.within!r} is longer than the training part, which goes from {show(train.t[0])} to "
                f"{show(train.t[-1])}, so no answer would be known by its end."
            )
        self.share = float(truth.mean())
        if self.share in (0.0, 1.0):
            word = "yes" if self.share else "no"
            raise BadInput(f"every answer within {settings.within} is {word} in training: nothing to learn.")

    def schema(self, schema: Schema) -> Schema:
        return dataclasses.replace(schema, asking=Asking(2))

    def asked(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, given: np.ndarray | None) -> Query:
        return Query(src, dst if self.pairs else src, t)

    def _ask(
        self, events: EventLog, actors: Actors, end: Any, rng: np.random.Generator
    ) -> tuple[tuple[np.ndarray, Query], np.ndarray]:
        """Questions at the times of events whose horizon has passed by an end, which of the events these are, and what
        they turned out to be."""
        src, dst, anyone = actors.draw(events.t, rng)
        asked = anyone & (end - events.t >= self.horizon)
        query = Query(src[asked], dst[asked], events.t[asked])
        return (asked, query), actors.within(query.src, query.dst, query.t, self.horizon).astype(np.float64)

    def questions(self, part: EventLog, parts: Parts) -> tuple[np.ndarray, Query, np.ndarray]:
        events, actors = part.scored_events, Actors(parts.until(part), self.pairs)
        (asked, query), truth = self._ask(events, actors, part.t[-1], np.random.default_rng([7, part.first]))
        if asked.sum() < LEAST:
            show = parts.log.schema.time.show
            raise BadInput(
                f"the part from {show(part.t[0])} to {show(part.t[-1])} leaves {int(asked.sum())} questions whose "
                f"answer within {self.settings.within} is known by its end. It takes at least {LEAST}."
            )
        return asked, query, truth

    def check(self, parts: Parts) -> None:
        for part in (parts.val, parts.test):
            if len(part):
                self.questions(part, parts)

    def training_questions(self, events: EventLog, parts: Parts, rng: np.random.Generator) -> tuple[Query, np.ndarray]:
        actors = self._actors(parts)
        (_, query), truth = self._ask(events, actors, parts.trained[-1:].t[0], rng)
        return query, truth

    def _actors(self, parts: Parts) -> Actors:
        if self._trained is None or self._trained[0] is not parts:
            self._trained = parts, Actors(parts.trained, self.pairs)
        return self._trained[1]

    def loss(self, answers: list[Tensor], labels: Labels, settings: Training) -> Tensor:
        return cross_entropy(answers[0], as_tensor(labels.astype(np.int64), answers[0]))

    def figures(self, answers: Answers) -> Metrics:
        return chance_metrics(answers.given, answers.truth)

    def calibrate(self, answers: Answers) -> dict[str, float]:
        return class_calibration(answers.given, answers.truth)

    def calibrated(self, answers: np.ndarray, how: dict[str, float]) -> np.ndarray:
        return calibrated_classes(answers, how)

    def baseline(self, name: str) -> Model:
        return WhenRow(name, float(self.horizon), self.share, self.pairs)

    def title(self) -> str:
        return f"{self.settings.predict} within {self.settings.within}"

    def shown(self, answers: np.ndarray) -> dict[str, Any]:
        return {"probability": probabilities(answers)[:, 1]}

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        return f"no {self.title()}", self.title()
