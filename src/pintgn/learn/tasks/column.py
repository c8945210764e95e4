"""Prediction of a column: classes or values, which become part of the past once they are known."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pintgn.errors import BadInput, PintgnWarning, UnknownName, suggest
from pintgn.events.log import EventLog, Query
from pintgn.events.moment import read_duration
from pintgn.events.schema import LATEST, Asking, Feature, Schema
from pintgn.formatting import plural
from pintgn.learn.calibration import calibrated_classes, class_calibration, conformal
from pintgn.learn.metrics import LEAST, Metrics, class_metrics, probabilities, value_metrics
from pintgn.learn.protocol import Parts
from pintgn.learn.settings import TaskSettings, Training
from pintgn.learn.tasks.task import Answers, Labels, Task, as_tensor
from pintgn.learn.tasks.values import column_values, column_words
from pintgn.models.base import Model
from pintgn.models.question_features import QUANTILES
from pintgn.models.target_rows import ROWS, TargetRow

MOST_CLASSES = 256
"""Classes of a column; with more, an answer would be longer than what is known about the event."""
FINEST = 1e-3
"""Share of a column's deviation by which 64 bits have to tell its values apart."""
OF = ("event", "src", "dst")


class Column(Task):
    """Prediction of a column's value, just before each event that has one.

    Args:
        settings: the column, what is given, when it becomes known.
        log: all of it, for the users' words.
        train: the training part, which decides what can be answered.
    """

    baselines = ROWS
    values = False  # whether answers are values

    def __init__(self, settings: TaskSettings, log: EventLog, train: EventLog):
        super().__init__(settings, log, train)
        name, schema = settings.predict, train.schema
        self.column = name
        if settings.of not in OF:
            raise UnknownName(f"task.of={settings.of!r} does not exist.{suggest(settings.of, OF)}")
        if settings.within is not None:
            raise BadInput(f"task.within belongs to predict='return' and 'meet', not to a column such as {name!r}.")
        for role, column in (("source", schema.src), ("destination", schema.dst), ("time", schema.t)):
            if name == column:
                raise BadInput(
                    f"{name!r} is the {role} of every event, which a question names already. Predict another column, "
                    "or 'link': whether two meet."
                )
        self.delay = _delay(settings, train)
        self.given_names = tuple(settings.given)
        features = [feature.name for feature in schema.features]
        for one in self.given_names:
            if one == name:
                raise BadInput(f"{name!r} is what is predicted, so it cannot be given as well. Leave it out of given.")
            if one not in features:
                known = [other for other in features if other != name]
                listed = f" Features are: {', '.join(known)}." if known else " This log has no other features."
                raise UnknownName(f"given {one!r} is no feature of this log.{suggest(one, known)}{listed}")
        if settings.of != "event" and self.given_names:
            raise BadInput(f"of={settings.of!r} asks about a node, not an event, so nothing of an event can be given.")
        self.value_of(train[:0])  # a column that is not there is refused
        by_end = self._known_times(train) <= (train.t[-1] if len(train) else 0)
        target = self.value_of(train)[by_end]
        target = target[~np.isnan(target)]
        if not len(target):
            when = "" if self.delay is None and train.known is None else " and known by its end"
            raise BadInput(f"no event of the training part has a value of {name!r}{when}: nothing to learn.")
        if (target == target[0]).all():
            raise BadInput(
                f"{name!r} is the same in all {len(target):,} training events that have it: nothing to learn."
            )
        self.learn_from(target)

    # -- for subclasses --------------------------------------------------------------------------------------------

    def learn_from(self, target: np.ndarray) -> None:
        """Fit the encoding of the column on the training part."""
        raise NotImplementedError

    def encoded(self, target: np.ndarray) -> np.ndarray:  # (e, w)
        """The target as columns of the past; the last one says whether it is known."""
        raise NotImplementedError

    def target_features(self) -> tuple[Feature, ...]:
        """The names of these columns."""
        raise NotImplementedError

    @property
    def outputs(self) -> int:
        raise NotImplementedError

    # -- how the log is read ---------------------------------------------------------------------------------------

    def value_of(self, log: EventLog) -> np.ndarray:  # (e,)
        """The column as numbers: values, or numbers of categories from 0 on; NaN where it is missing."""
        found = column_values(log, self.settings.predict)
        return np.where(log.learnable, found, np.nan)

    def _known_times(self, log: EventLog) -> np.ndarray:  # (e,)
        if self.delay is not None:
            late = np.minimum(log.t.astype(np.float64) + float(self.delay), LATEST)
            exact = log.t + np.asarray(self.delay, log.t.dtype) if log.t.dtype.kind == "i" else late
            return np.where(late >= LATEST, LATEST, exact).astype(log.t.dtype)
        return log.t if log.known is None else log.known

    def known_of(self, log: EventLog) -> np.ndarray | None:
        return None if self.delay is None and log.known is None else self._known_times(log)

    def target(self, log: EventLog) -> np.ndarray:
        return self.encoded(self.value_of(log))

    def schema(self, schema: Schema) -> Schema:
        names = [feature.name for feature in schema.features]
        starts = np.cumsum([0, *(feature.width for feature in schema.features)]).tolist()
        given: list[int] = []
        for name in self.given_names:
            if name in names:  # a column that was empty in training is no feature
                at = names.index(name)
                given += range(starts[at], starts[at] + schema.features[at].width)
        late = self.target_features()
        asking = Asking(self.outputs, tuple(given), sum(feature.width for feature in late), self.values)
        return dataclasses.replace(schema, features=schema.features + late, asking=asking)

    # -- questions -------------------------------------------------------------------------------------------------

    def query(self, events: EventLog) -> Query:
        """The events as queries, with their given columns."""
        asking = events.schema.asking
        assert asking is not None
        assert events.features is not None
        given = events.features[:, list(asking.given)] if asking.given else None
        return self.asked(events.src, events.dst, events.t, given)

    def asked(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, given: np.ndarray | None) -> Query:
        node = {"src": src, "dst": dst}.get(self.settings.of)
        return Query(src, dst, t, given) if node is None else Query(node, node, t, given)

    def decoded(self, events: EventLog) -> np.ndarray:  # (e,)
        """The truth from the columns of a log as the model reads it; NaN where it is no question."""
        assert events.features is not None
        return self.truth_of(events.features[:, events.schema.late])

    def truth_of(self, late: np.ndarray) -> np.ndarray:  # (e,)
        """The truth from the target's columns (e, w)."""
        raise NotImplementedError

    def questions(self, part: EventLog, parts: Parts) -> tuple[np.ndarray, Query, np.ndarray]:
        events = part.scored_events
        truth = self.decoded(events)
        asked = ~np.isnan(truth)
        if events.known is not None and part.first + len(part) < parts.log.first + len(parts.log):
            asked &= events.known <= part.t[-1]  # what is known before the next part begins
        if asked.sum() < LEAST:
            show = parts.log.schema.time.show
            span = f"from {show(part.t[0])} to {show(part.t[-1])}" if len(part) else "that is empty"
            raise BadInput(
                f"{plural(int(asked.sum()), 'event')} of the part {span} can be measured by: with a "
                f"{self.settings.predict!r} that is known in time and that training has met. It takes at least {LEAST}."
            )
        return asked, self.query(events)[asked], truth[asked]

    def training_questions(self, events: EventLog, parts: Parts, rng: np.random.Generator) -> tuple[Query, np.ndarray]:
        truth = self.decoded(events)
        asked = ~np.isnan(truth)
        if events.known is not None:
            asked &= events.known <= parts.train.t[-1]
        return self.query(events)[asked], truth[asked]

    def baseline(self, name: str) -> Model:
        return TargetRow(name)

    def title(self) -> str:
        return f"{self.settings.predict}" + ("" if self.settings.of == "event" else f" of {self.settings.of}")


class Classes(Column):
    """Classification of a column."""

    choices = ("ap", "auc", "macro_f1")

    def learn_from(self, target: np.ndarray) -> None:
        self.codes = np.unique(target)
        if len(self.codes) > MOST_CLASSES:
            raise BadInput(
                f"{self.settings.predict!r} has {len(self.codes):,} classes in training; at most {MOST_CLASSES} can be "
                "told apart."
            )

    def __init__(self, settings: TaskSettings, log: EventLog, train: EventLog):
        super().__init__(settings, log, train)
        words = column_words(log, self.settings.predict)
        self.words = [words[int(code)] if words is not None else self._number(code) for code in self.codes]
        later = np.unique(value := self.value_of(log))
        fresh = [code for code in later[~np.isnan(later)] if code not in self.codes]
        if fresh:
            count = int(np.isin(value, fresh).sum())
            shown = ", ".join(repr(words[int(c)] if words is not None else self._number(c)) for c in fresh[:3])
            warnings.warn(
                f"the training part has no {self.settings.predict}={shown}{', …' if len(fresh) > 3 else ''}; "
                f"{plural(count, 'event')} of a class that was never met {'happens' if count == 1 else 'happen'}, but "
                f"{'is no question' if count == 1 else 'are no questions'}.",
                PintgnWarning,
                stacklevel=2,
            )

    @staticmethod
    def _number(code: float) -> Any:
        return int(code) if float(code).is_integer() else float(code)

    @property
    def outputs(self) -> int:
        return len(self.codes)

    def numbers(self, target: np.ndarray) -> np.ndarray:
        """The number of each target's class; NaN where it is missing or was never met."""
        at = np.minimum(np.searchsorted(self.codes, np.nan_to_num(target, nan=self.codes[0])), len(self.codes) - 1)
        return np.where(self.codes[at] == target, at, np.nan)

    def encoded(self, target: np.ndarray) -> np.ndarray:
        number = self.numbers(target)
        columns = (number[:, None] == np.arange(len(self.codes))).astype(np.float32)
        return np.concatenate([columns, ~np.isnan(number)[:, None]], 1)

    def target_features(self) -> tuple[Feature, ...]:
        name = self.settings.predict
        return Feature(name, "onehot", tuple(self.codes.astype(np.int64).tolist())), Feature(f"{name}, known")

    def truth_of(self, late: np.ndarray) -> np.ndarray:
        return np.where(late[:, -1] > 0, late[:, :-1].argmax(1), np.nan)

    def loss(self, answers: list[Tensor], labels: Labels, settings: Training) -> Tensor:
        return cross_entropy(answers[0], as_tensor(labels.astype(np.int64), answers[0]))

    def figures(self, answers: Answers) -> Metrics:
        return class_metrics(answers.given, answers.truth)

    def calibrate(self, answers: Answers) -> dict[str, float]:
        return class_calibration(answers.given, answers.truth)

    def calibrated(self, answers: np.ndarray, how: dict[str, float]) -> np.ndarray:
        return calibrated_classes(answers, how)

    def shown(self, answers: np.ndarray) -> dict[str, Any]:
        p = probabilities(answers)
        best = [self.words[k] for k in p.argmax(1)] if len(p) else []
        columns = {f"{self.settings.predict}={word}": p[:, k] for k, word in enumerate(self.words)}
        return {self.settings.predict: best, "probability": p.max(1) if len(p) else p[:, 0]} | columns

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"{self.settings.predict}={word}" for word in self.words)


class Values(Column):
    """Regression of a column: its mean, its median, and an interval that holds nine values in ten."""

    values = True
    choices = ("rmse",)

    def learn_from(self, target: np.ndarray) -> None:
        # from a value of the column on: its differences are exact where the column is far from 0, such as ids of money
        self.middle = float(np.partition(target, len(target) // 2)[len(target) // 2])
        near = target - self.middle
        self.mean, self.deviation = float(near.mean()), float(near.std())
        step = float(np.spacing(np.abs(target).max()))
        if step > FINEST * self.deviation:
            raise BadInput(
                f"{self.settings.predict!r} holds numbers such as {target[0]:.3g}, which 64 bits tell apart by "
                f"{step:.3g}; their deviation is {self.deviation:.3g}. Predict how far they are from one of them."
            )

    def _scaled(self, target: np.ndarray) -> np.ndarray:
        """In units of the training part's deviation, from its mean."""
        return (target - self.middle - self.mean) / self.deviation

    def _unscaled(self, scaled: np.ndarray) -> np.ndarray:
        return scaled.astype(np.float64) * self.deviation + self.mean + self.middle

    @property
    def outputs(self) -> int:
        return 1 + len(QUANTILES)

    def encoded(self, target: np.ndarray) -> np.ndarray:
        there = ~np.isnan(target)
        return np.stack([np.where(there, self._scaled(target), 0), there], 1)

    def target_features(self) -> tuple[Feature, ...]:
        return Feature(self.settings.predict), Feature(f"{self.settings.predict}, known")

    def truth_of(self, late: np.ndarray) -> np.ndarray:
        return np.where(late[:, 1] > 0, self._unscaled(late[:, 0]), np.nan)

    def loss(self, answers: list[Tensor], labels: Labels, settings: Training) -> Tensor:
        """Squared error of the mean, and pinball loss of the quantiles, in units of the training part's deviation."""
        found = answers[0]
        y = as_tensor(labels.astype(np.float32), found)[:, None]
        above = y - found[:, 1:]
        levels = torch.tensor(QUANTILES, device=found.device)
        return ((found[:, :1] - y) ** 2).mean() / 2 + torch.maximum(levels * above, (levels - 1) * above).mean()

    def training_questions(self, events: EventLog, parts: Parts, rng: np.random.Generator) -> tuple[Query, np.ndarray]:
        query, truth = super().training_questions(events, parts, rng)
        return query, self._scaled(truth)

    def value(self, figures: Metrics, settings: Training) -> float:
        rmse = figures.get("rmse")
        return 0.0 if rmse is None else 1 / (1 + rmse / self.deviation)

    def figures(self, answers: Answers) -> Metrics:
        return value_metrics(answers.given, answers.truth)

    def calibrate(self, answers: Answers) -> dict[str, float]:
        """The width to add to intervals so that they hold nine values in ten (conformalised quantile regression)."""
        said, y = answers.given, answers.truth
        missed = np.maximum(said[:, 1] - y, y - said[:, 3])
        return {"widen": conformal(missed, QUANTILES[2] - QUANTILES[0])}

    def calibrated(self, answers: np.ndarray, how: dict[str, float]) -> np.ndarray:
        """Answers in the column's own unit."""
        found = self._unscaled(answers)
        if found.shape[1] > 1:
            found[:, 1:] = np.sort(found[:, 1:], 1)
            half = np.maximum(how.get("widen", 0.0), (found[:, 1] - found[:, 3]) / 2)
            found[:, 1], found[:, 3] = found[:, 1] - half, found[:, 3] + half
        return found

    def shown(self, answers: np.ndarray) -> dict[str, Any]:
        mean, low, middle, high = answers.T
        return {self.settings.predict: mean, "median": middle, "low": low, "high": high}


def column_task(settings: TaskSettings, log: EventLog, train: EventLog) -> Column:
    """Classes for categories, booleans and a column of 0 and 1 alone; values for numbers. The training part decides."""
    categories = column_words(log, settings.predict) is not None
    if not categories:
        values = column_values(train, settings.predict)
        found = values[~np.isnan(values) & train.learnable]
        categories = bool(np.isin(found, (0, 1)).all()) and len(found) > 0
    if not categories:
        return Values(settings, log, train)
    return Classes(settings, log, train)


def _delay(settings: TaskSettings, train: EventLog) -> int | float | None:
    if settings.known_after is None:
        return None
    if train.known is not None:
        raise BadInput("known_after and a column of times at which targets become known exclude each other. Give one.")
    delay = read_duration(settings.known_after, train.schema.time)
    if not 0 <= delay < math.inf:
        raise BadInput(f"known_after={settings.known_after!r}; it is a length of time from 0 on.")
    if len(train) and delay > train.t[-1] - train.t[0]:
        span = train.schema.time
        raise BadInput(
            f"known_after={settings.known_after!r} is longer than the training part, which goes from "
            f"{span.show(train.t[0])} to {span.show(train.t[-1])}, so nothing would be known by its end."
        )
    return math.ceil(delay) if train.t.dtype.kind == "i" else delay
