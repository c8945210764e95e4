"""What every job shares: its questions as pintgn asks them, trees, sums up to a time, and rows with a bootstrap.

A job is a log, a question and baselines. The log is cut as `pintgn.fit` cuts it, and the questions and their truths are
taken from pintgn's own task, so that whoever answers answers the same. A baseline is trained on the whole training
part, may stop early by validation as pintgn does, and sees at a question's time exactly what happened, and what became
known, strictly before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl

import pintgn
from pintgn.events.log import EventLog
from pintgn.learn.metrics import area_under_curve, average_precision
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.tasks.task import Answers

DRAWS = 500
"""Resamples of the test questions; the same for every model of a job, so that differences are paired."""
DAY = 86_400
Found = dict[str, Any]
"""Answers to the validation and to the test part."""


@dataclass(frozen=True)
class Part:
    """Questions of a part, in order of time."""

    rows: np.ndarray  # (q,) rows of the log; of a question in time those of the events at whose times it is asked
    src: np.ndarray  # (q,) node numbers
    dst: np.ndarray
    t: np.ndarray
    truth: np.ndarray  # (q,) numbers of classes, or values


class Asked:
    """A job's log and its questions."""

    def __init__(self, job: Job, folder: Path):
        self.frame, self.log = job.read(folder)
        chosen = Settings.of({"model": {"name": "edgebank"}, "train": {"hidden": 0.0}, "task": job.fit})
        self.run = Run(chosen, 0, self.log, chosen.make_model())
        self.parts, self.task = self.run.parts, self.run.task

    @functools.cached_property
    def val(self) -> Part:
        return self._part(self.parts.val)

    @functools.cached_property
    def test(self) -> Part:
        return self._part(self.parts.test)

    @property
    def later(self) -> dict[str, Part]:
        return {"val": self.val, "test": self.test}

    @functools.cached_property
    def train(self) -> Part:
        """The training part's questions whose truth is known by its end."""
        return self._part(self.parts.train)

    def several(self, seed: int, draws: int = 5) -> dict[str, Part]:
        """The parts of a question in time, with several draws of training questions; nothing asks for their rows."""
        rng, events = np.random.default_rng(seed), self.parts.train
        drawn = [self.task.training_questions(events, self.parts, rng) for _ in range(draws)]
        src, dst, t = (np.concatenate([getattr(query, name) for query, _ in drawn]) for name in ("src", "dst", "t"))
        train = Part(np.zeros(0, np.int64), src, dst, t, np.concatenate([truth for _, truth in drawn]))
        return {"train": train, **self.later}

    def trees(self, x: np.ndarray, seed: int, begin: np.ndarray | None = None, **options: Any) -> Found:
        """`trees` on columns (e, w) that are known of each event of the log just before it; and on the answers that
        trees begin with (e,), where there are any."""
        parts = {name: getattr(self, name) for name in ("train", "val", "test")}
        rows, truth = ({name: getattr(part, what) for name, part in parts.items()} for what in ("rows", "truth"))
        first = {name: np.zeros(len(mine)) if begin is None else begin[mine] for name, mine in rows.items()}
        truth = {name: some - first[name] for name, some in truth.items()}
        found = trees({name: x[mine] for name, mine in rows.items()}, truth, seed, **options)
        return {name: Answers(a.given + first[name][:, None], a.truth + first[name]) for name, a in found.items()}

    def _part(self, events: EventLog) -> Part:
        asked, query, truth = self.task.questions(events, self.parts)
        return Part(events.first + np.flatnonzero(asked), query.src, query.dst, query.t, truth)


@dataclass(frozen=True)
class Job:
    """A question about a log, and what answers it."""

    name: str
    asks: str  # one sentence for the page
    read: Callable[[Path], tuple[pl.DataFrame, EventLog]]  # from the data folder
    fit: dict[str, Any]  # what `pintgn.fit` is told besides model and log
    figure: str
    baselines: dict[str, Callable[[Any, int], Found]]  # from the questions and a seed
    ask: Callable[[Job, Path], Any] = Asked
    answer: Callable[[Any, str, int], Found] | None = None  # pintgn's side: questions, model, seed
    figures: Callable[[Any, Any], dict[str, float | None]] = lambda asked, found: asked.task.figures(found)
    smaller: bool = False  # whether less of the figure is better


def pintgn_answers(job: Job, asked: Asked, model: str, seed: int) -> tuple[Found, Run]:
    """pintgn as it comes: fit, and the answers to both parts."""
    run = pintgn.fit(model, asked.log, seed=seed, progress=False, **job.fit)
    stream = run.stream_after(run.parts.train)
    found = {}
    for part in ("val", "test"):
        how = run.answer_calibration
        found[part] = run.task.answers(stream, run.parts.named(part), run.parts, how)[0]
    return found, run


# -- baselines -----------------------------------------------------------------------------------------------------


class Sums:
    """Sums of values over the events of a key within a span of time, open at its end: what was strictly before."""

    def __init__(self, key: np.ndarray, t: np.ndarray, *values: np.ndarray):
        self.begin, self.span = int(t.min()), np.int64(int(t.max()) - int(t.min()) + 2)
        order = np.lexsort((t, key))
        self.code = (key.astype(np.int64) * self.span + (t - self.begin))[order]
        columns = np.stack([np.ones(len(key)), *values], 1)[order]
        self.total = np.concatenate([np.zeros((1, columns.shape[1])), np.cumsum(columns, 0)])

    def __call__(self, key: np.ndarray, until: np.ndarray, since: np.ndarray | None = None) -> np.ndarray:  # (q, 1 + w)
        """Count and sums of each key's events at `since` <= t < `until`; from the beginning when not given."""
        low = np.zeros(len(key), np.int64) if since is None else since - self.begin
        ends = [np.clip(edge, 0, self.span - 1) for edge in (until - self.begin, low)]
        at = [np.searchsorted(self.code, key.astype(np.int64) * self.span + edge) for edge in ends]
        return self.total[at[0]] - self.total[at[1]]

    def newest(self, key: np.ndarray, until: np.ndarray, back: int = 1) -> np.ndarray:  # (q,) rows as sorted by key
        """The index, in order of key and time, of the back-th newest event of each key before a time; -1: none."""
        code = key.astype(np.int64) * self.span + np.clip(until - self.begin, 0, self.span - 1)
        at = np.searchsorted(self.code, code) - back
        return np.where((at >= 0) & (self.code[np.maximum(at, 0)] // self.span == key), at, -1)

    def since(self, key: np.ndarray, until: np.ndarray, back: int = 1) -> np.ndarray:  # (q,)
        """How long ago the back-th newest event of each key was; NaN: never."""
        at = self.newest(key, until, back)
        return np.where(at >= 0, until - self.begin - self.code[at] % self.span, np.nan)


def mean(sums: np.ndarray, column: int = 1, prior: float = np.nan, weight: float = 0.0) -> np.ndarray:
    """The mean of a column of `Sums`, drawn towards a prior."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return (sums[:, column] + (weight * prior if weight else 0)) / (sums[:, 0] + weight)


def trees(x: dict[str, Any], y: dict[str, np.ndarray], seed: int, **options: Any) -> Found:
    """LightGBM on the columns of the parts, stopped by validation: what it says about validation and test."""
    settings = {
        "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 50, "feature_fraction": 0.5,
        "bagging_fraction": 0.8, "bagging_freq": 1, "num_threads": 1, "verbosity": -1, "seed": seed,
    }  # fmt: skip
    data = {part: lightgbm.Dataset(x[part], y[part]) for part in ("train", "val")}
    stop = lightgbm.early_stopping(50, verbose=False)
    booster = lightgbm.train(settings | options, data["train"], 3_000, [data["val"]], callbacks=[stop])
    found = {}
    for part in ("val", "test"):
        said = np.asarray(booster.predict(x[part], raw_score=True))
        if options["objective"] == "binary":
            said = np.stack([np.zeros(len(said)), said], 1)
        found[part] = Answers(said.reshape(len(y[part]), -1), y[part])
    return found


def classes(share: np.ndarray, truth: np.ndarray) -> Answers:
    """Chances of each class (q, k), or of the second of two (q,), as a task's answers: logits."""
    share = np.c_[1 - share, share] if share.ndim == 1 else share
    return Answers(np.log(np.clip(share, 1e-9, 1)), truth)


# -- intervals -----------------------------------------------------------------------------------------------------


def _margin(found: Answers) -> tuple[np.ndarray, np.ndarray]:
    return found.truth == 1, found.given[:, 1].astype(np.float64) - found.given[:, 0]


def _missed(found: Answers, column: int) -> np.ndarray:
    return found.given[:, column if found.given.shape[1] > 1 else 0] - found.truth


def _log_loss(found: Answers) -> float:
    z = found.given.astype(np.float64)
    z = z - z.max(1, keepdims=True)
    return float((np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), found.truth.astype(np.int64)]).mean())


FIGURES: dict[str, Callable[[Any], float]] = {
    "ap": lambda found: average_precision(*_margin(found)),
    "auc": lambda found: area_under_curve(*_margin(found)),
    "log_loss": _log_loss,
    "mae": lambda found: float(np.abs(_missed(found, 2)).mean()),
    "rmse": lambda found: float(np.sqrt((_missed(found, 0) ** 2).mean())),
    "mrr": lambda found: float((1 / found).mean()),
    "hits@10": lambda found: float((found[:, 0] <= 10).mean()),
}
"""The figures that jobs are led by, alone and quickly; as pintgn defines them."""


def bootstrap(found: Any, figure: Callable[[Any], float]) -> list[float]:
    """The figure of each of many resamples of questions, drawn alike for every model that answered the same ones."""
    rng = np.random.default_rng(0)
    return [round(figure(found[rng.integers(0, len(found), len(found))]), 5) for _ in range(DRAWS)]
