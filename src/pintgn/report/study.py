"""Measurements of a report: scores of every run on the same test events and the same negatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.display.progress import silent
from pintgn.errors import BadFile, BadInput
from pintgn.events.log import EventLog
from pintgn.learn.calibration import Calibration, first_choices
from pintgn.learn.measure import OnBatch, compare, evenly, observe_log, ranked_in_part, ranks_in_part
from pintgn.learn.metrics import Scores, ranks
from pintgn.learn.negatives import KINDS, Candidates, Drawn, Negatives, draw_each
from pintgn.learn.protocol import Parts
from pintgn.learn.run import Run
from pintgn.learn.tasks.link import compare_part, fit_next_slope
from pintgn.learn.train import reproducible
from pintgn.report.row_names import row_names

Progress = Callable[[int, int, str], None]

MOST = 10_000
"""Most test events to measure, taken in even stretches, so that a report costs less than training."""


@dataclass
class RunScores:
    """Scores of one model on the test events."""

    scores: dict[str, Scores]  # by kind of negatives
    ranks: np.ndarray  # (e,) among the candidates
    new: np.ndarray  # (e,) True if a node of the event was not seen in training
    run: Run | None = None  # None for training-free rows
    calibration: Calibration | None = None
    next_probability: np.ndarray | None = None  # (e,) of the first-ranked destination to be the next
    next_correct: np.ndarray | None = None  # (e,) bool, whether it was


@dataclass
class Row:
    """One row of every table: runs that differ only in their seed, or a training-free model."""

    name: str
    members: list[RunScores]

    @property
    def runs(self) -> list[Run]:
        return [one.run for one in self.members if one.run is not None]

    @property
    def is_trained(self) -> bool:
        return bool(self.runs)

    @property
    def scores_links(self) -> bool:
        """False for a model that only embeds nodes."""
        return bool(self.members[0].scores)


@dataclass
class Study:
    """All measurements of a report."""

    parts: Parts
    events: EventLog  # the measured events of the test part
    drawn: dict[str, Drawn]  # by kind of negatives, the leading kind first
    candidates: int  # destinations that each event is ranked against
    rows: list[Row] = field(default_factory=list)
    seed: int = 0
    of_events: int = 0  # events of the test part

    @property
    def log(self) -> EventLog:
        return self.parts.log

    @property
    def trained(self) -> list[Row]:
        return [row for row in self.rows if row.is_trained]

    @property
    def runs(self) -> list[tuple[Row, Run]]:
        """Every trained run, with its row."""
        return [(row, run) for row in self.rows for run in row.runs]

    @property
    def scoring(self) -> list[Row]:
        return [row for row in self.rows if row.scores_links]

    @property
    def models(self) -> list[Row]:
        """Trained rows that score links."""
        return [row for row in self.scoring if row.is_trained]

    @property
    def baselines(self) -> list[Row]:
        """Training-free rows."""
        return [row for row in self.rows if not row.is_trained]

    @property
    def main(self) -> str:
        """The leading kind of negatives."""
        return next(iter(self.drawn))

    def kinds(self, *others: str) -> list[str]:
        """The leading kind of negatives, and those of `others` that were drawn."""
        return [self.main, *(kind for kind in others if kind in self.drawn and kind != self.main)]


@dataclass
class Content:
    """Contents of a report about one kind of question; the sections by title."""

    study: Study
    headline: str
    summary: list[str]
    figures: dict[str, Any]
    sections: dict[str, str] = field(default_factory=dict)
    tiles: str = ""
    notes: str = ""


def open_runs(runs: Any) -> list[Run]:
    """Runs from runs, run folders and folders of `seed-*` runs, without repeats."""
    given = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    found: list[Run] = []
    for one in given:
        if isinstance(one, Run):
            found += [] if any(one is other for other in found) else [one]
            continue
        folder = Path(one)
        inside = [path.parent for path in sorted(folder.glob("seed-*/run.json"), key=_by_seed)]
        for path in inside if inside and not (folder / "run.json").exists() else [folder]:
            if path.resolve() in [run.folder.path.resolve() for run in found if run.folder is not None]:
                continue
            found.append(Run.open(path))
            if not (path / "last.safetensors").exists():
                raise BadFile(
                    f"the run in {path} was stopped before its first checkpoint, so there is nothing to report. "
                    f"Continue it: pintgn train {path} --resume."
                )
    if not found:
        raise BadInput("there is no run to report on; name at least one folder of a run.")
    return found


def _by_seed(path: Path) -> tuple[int, str]:
    name = path.parent.name.removeprefix("seed-")
    return (int(name) if name.isdecimal() else 0, name)


def study(
    runs: Sequence[Run],
    names: Sequence[str] | None = None,
    negatives: Mapping[str, Negatives] | None = None,
    rank: int | str = 20,
    seed: int = 0,
    progress: Progress = silent,
) -> Study:
    """Measure runs on the test part of the log that they share; arguments as of `write_report`.

    Runs that differ only in their seed share a row. Negatives and candidates are the same for every run.
    """
    _check_comparable(runs)
    parts, test = runs[0].parts, runs[0].parts.test
    before = parts.before(test)
    kinds: dict[str, str | Negatives] = {**(negatives or {}), **{kind: kind for kind in KINDS}}
    candidates = Candidates(parts.log, test, rank, seed)
    only = evenly(len(candidates.events), MOST)
    drawn = draw_each(kinds, parts.log, test, seed, before, only)
    rows: dict[str, list[RunScores]] = {}
    for name, run in zip(row_names(runs, names), runs, strict=True):
        with reproducible(run.settings.train.threads):
            rows.setdefault(name, []).append(
                _scored(run, drawn, candidates, only, Count(progress, f"measuring {name}"))
            )
    new = parts.is_new(candidates.events)[only]
    for name in runs[0].task.baselines:
        if name not in rows:
            stream = runs[0].task.baseline_stream(name, runs[0], parts, runs[0].schema, before)
            count = Count(progress, f"measuring {name}", 2 * len(test))
            scores = compare(stream.fork(), test, drawn, new, count.of(test), only).scores
            rows[name] = [RunScores(scores, ranks_in_part(stream, test, candidates, count.of(test), only), new)]
    found = [Row(name, members) for name, members in rows.items()]
    measured = candidates.events.where(only)
    return Study(parts, measured, drawn, candidates.count, found, seed, of_events=len(only))


def unscored(runs: Sequence[Run], names: Sequence[str] | None = None) -> Study:
    """The rows of runs that are measured already: those that predict something else than links."""
    _check_comparable(runs)
    parts = runs[0].parts
    rows: dict[str, Row] = {}
    for name, run in zip(row_names(runs, names), runs, strict=True):
        rows.setdefault(name, Row(name, [])).members.append(RunScores({}, np.zeros(0), np.zeros(0, bool), run))
    return Study(parts, parts.test, {}, 0, list(rows.values()))


def _check_comparable(runs: Sequence[Run]) -> None:
    first = runs[0]
    for other in runs[1:]:
        mine, theirs = first.parts.test, other.parts.test
        if other.log.fingerprint != first.log.fingerprint:
            problem = "were trained on different data"
        elif (mine.first, len(mine)) != (theirs.first, len(theirs)):
            problem = "were tested on different parts of the log (train.val, train.test)"
        else:
            continue
        names = [repr(run) if run.folder is None else str(run.folder.path) for run in (first, other)]
        raise BadInput(f"{' and '.join(names)} {problem}; write a report for each.")


class Count:
    """Progress over the passes that measure one row."""

    def __init__(self, progress: Progress, what: str, total: int = 0):
        self.progress, self.what, self.total, self.done = progress, what, total, 0

    def of(self, part: EventLog) -> OnBatch:
        """The callback of one pass over a part."""
        before = self.done
        self.done += len(part)
        return lambda done: self.progress(before + done, self.total, self.what)


def _scored(run: Run, drawn: dict[str, Drawn], candidates: Candidates, only: np.ndarray, count: Count) -> RunScores:
    """Scores of a run on its test part, by a stream that has observed all earlier events."""
    parts, test = run.parts, run.parts.test
    new = parts.is_new(test.scored_events)[only]
    if not run.scores_links:
        return RunScores({}, np.zeros(0), new, run)
    stream = run.new_stream()
    count.total = len(parts.train) + len(parts.val) + 2 * len(test)
    calibration, slope = run.calibration, run.next_slope
    observe_log(stream, parts.train, count.of(parts.train))
    if slope is None:  # stopped, or written by an earlier version
        slope = fit_next_slope(stream.fork(), run)
    if calibration is None:  # stopped
        calibration = Calibration.of(compare_part(stream, run, parts.val).scores["random"])
    else:
        observe_log(stream, parts.val)
    count.of(parts.val)
    scores = compare(stream.fork(), test, drawn, new, count.of(test), only).scores
    ranked = [
        (ranks(z[:, 0], z[:, 1:], valid), *first_choices(slope, z, valid))
        for z, valid in ranked_in_part(stream, test, candidates, count.of(test), only)
    ]
    found, next_probability, next_correct = map(np.concatenate, zip(*ranked, strict=True))
    return RunScores(scores, found, new, run, calibration, next_probability, next_correct)
