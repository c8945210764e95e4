"""Running jobs: each continues where it was stopped, ends by itself or at its cap, and leaves one row of results.

A cap is processor time. A run that would pass it with the next epoch is measured with its best validation epoch so far
(or, within its first epoch, with the weights of its last checkpoint); its folder stays as it is, so that a higher cap
continues the same run instead of beginning again.
"""

from __future__ import annotations

import os
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paper import sets, timing
from paper.classify import classify
from paper.jobs import Job
from paper.results import Results, Row
from pintgn.errors import PintgnError
from pintgn.events.log import EventLog
from pintgn.learn import paper as protocol
from pintgn.learn.fit import fit
from pintgn.learn.folder import Folder
from pintgn.learn.metrics import Metrics
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.settings_files import read_settings
from pintgn.learn.train import reproducible
from pintgn.workers.jobs import Jobs

Told = Callable[[dict[str, Any]], None]


class Capped(Exception):
    """The cap is reached, or the next epoch would pass it."""


KEPT = ("processor", "wall", "loads", "begun")


@dataclass
class Meter:
    """What a run has cost so far, over all its continuations; kept beside the run, and stops it at its cap.

    Work that was lost to a kill, at most an epoch, is not counted.
    """

    folder: Path
    cap: float | None
    epochs: int  # at most so many
    patience: int
    told: Told = lambda entry: None
    processor: list[float] = field(default_factory=list)  # of each epoch
    wall: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    begun: list[float] = field(default_factory=lambda: [0.0, 0.0])  # processor and wall, of an epoch cut by the cap

    def __post_init__(self) -> None:
        if (self.folder / "spent.json").exists():
            told = Folder(self.folder).read_json("spent.json")
            for name in KEPT:
                setattr(self, name, told.get(name, getattr(self, name)))
        self._since = time.process_time(), time.perf_counter()

    def __call__(self, entry: dict[str, Any]) -> None:
        self.told(entry)
        if "val" in entry:
            self._epoch_ends(entry)
        elif "done" in entry and self._total() > self._limit and (self.folder / "last.safetensors").exists():
            self.begun = list(self._open_epoch())
            self._save()
            raise Capped

    @property
    def _limit(self) -> float:
        return float("inf") if self.cap is None else self.cap

    def _open_epoch(self) -> tuple[float, float]:
        """Processor and wall seconds since the last epoch ended."""
        now = time.process_time(), time.perf_counter()
        return self.begun[0] + now[0] - self._since[0], self.begun[1] + now[1] - self._since[1]

    def _total(self) -> float:
        return sum(self.processor) + self._open_epoch()[0]

    def _epoch_ends(self, entry: dict[str, Any]) -> None:
        number = entry["epoch"] - 1  # an epoch that a kill took back is counted once
        processor, wall = self._open_epoch()
        self.processor[number:], self.wall[number:], self.loads[number:] = [processor], [wall], [os.getloadavg()[0]]
        self.begun, self._since = [0.0, 0.0], (time.process_time(), time.perf_counter())
        self._save()
        ends = entry["epoch"] >= self.epochs or entry["epoch"] - entry["best_epoch"] >= self.patience
        if not ends and sum(self.processor) + self.processor[-1] > self._limit:
            raise Capped

    def _save(self) -> None:
        Folder(self.folder).write_json("spent.json", {name: getattr(self, name) for name in KEPT})

    def facts(self) -> Row:
        """The cost as it stands in a row of results; a first epoch also compiles, so the median is given."""
        return {
            "processor_seconds": round(sum(self.processor) + self.begun[0], 1),
            "wall_seconds": round(sum(self.wall) + self.begun[1], 1),
            "epoch_processor_seconds": round(statistics.median(self.processor), 2) if self.processor else None,
            "epoch_wall_seconds": round(statistics.median(self.wall), 2) if self.wall else None,
            "load": round(statistics.mean(self.loads or [os.getloadavg()[0]]), 1),
        }


@dataclass
class Runner:
    """Runs jobs one after the other, or on workers.

    Args:
        folder: where the runs are kept.
        results: where their rows go.
        config: the settings of every row.
        data_folder: where data sets are looked for first.
        cap: processor seconds per run; none by default.
        told: is told of every batch and epoch.
    """

    folder: Path
    results: Results
    config: Path
    data_folder: Path | None = None
    cap: float | None = None
    told: Told = lambda entry: None
    _logs: dict[str, EventLog] = field(default_factory=dict)

    def open_jobs(self, jobs: Sequence[Job]) -> list[Job]:
        """Those without a row that would stay as it is."""
        newest = self.results.newest()
        return [job for job in jobs if not self.is_done(job, newest)]

    def is_done(self, job: Job, newest: dict[str, Row]) -> bool:
        row = newest.get(job.key)
        if row is None or row["ended"] == "failed":
            return False
        if job.task == "nodes":  # stands on the run for links, which may have gone on since
            links = newest.get(replace(job, task="links").key)
            if links is not None:
                return self.is_done(replace(job, task="links"), newest) and links["epochs"] == row["epochs"]
        if row["ended"] != "capped":
            return True
        return self.cap is not None and row["cap"] is not None and row["cap"] >= self.cap

    def run(self, jobs: Sequence[Job], workers: Jobs | None = None) -> Iterator[Row]:
        """A row for each open job whose data is here, as soon as it is known and on disk.

        A job that fails leaves its error in a row of its own, and the trace in its folder. With `workers`, they compute
        and this process writes the rows: each once, whatever was lost and done again.
        """
        with Folder(self.folder).locked():
            todo = [job for job in self.open_jobs(jobs) if sets.find(job.data, self.data_folder) is not None]
            if workers is None:
                timed = {
                    data: [j for j in todo if (j.task, j.data) == ("time", data)] for data in {j.data for j in todo}
                }
                for job in todo:
                    unit = [job] if job.task != "time" else timed.pop(job.data, [])
                    yield from self.attempt(unit) if unit else ()
                return
            folder, config = self.folder.resolve(), self.config.resolve()  # workers may be anywhere
            data = None if self.data_folder is None else self.data_folder.resolve()
            found = Collected(self.results.newest())
            alone = replace(self, results=found, told=_silent, data_folder=data, folder=folder, config=config, _logs={})
            for _, made in workers.run(_attempted, [(alone, unit) for unit in units_of(todo)]):
                for job, facts in made:
                    yield self.results.append(job, facts)

    def attempt(self, unit: Sequence[Job]) -> Iterator[Row]:
        """The rows of jobs that belong together, or their failure."""
        try:
            if unit[0].task == "time":
                yield from self.time(unit)
            else:
                for job in unit:
                    yield from self.one(job)
        except Exception as error:  # one row, be it our fault or the data's, must not cost the others
            if not isinstance(error, PintgnError):
                place = self.folder / unit[0].place
                place.mkdir(parents=True, exist_ok=True)
                (place / "error.txt").write_text(traceback.format_exc())
            for failed in self.open_jobs(unit):
                told = {"ended": "failed", "error": f"{type(error).__name__}: {error}"}
                yield self.results.append(failed, told)

    def one(self, job: Job) -> Iterator[Row]:
        """The rows of one job: a nodes job stands on the run of links, whose row comes first."""
        self.told({"job": job})
        links = replace(job, task="links")
        known = self.results.newest()
        row = known.get(links.key)
        if row is None or not self.is_done(links, known):
            run, facts = self.train(links)
            if run.scores_links or job.task == "links":
                row = self.results.append(links, facts)
                yield row
            else:
                row = facts
        else:
            run = Run.open(self.folder / job.place)
        if job.task == "nodes":
            yield self.results.append(job, self.nodes(run, row, job.seed))

    def log(self, name: str) -> EventLog:
        if name not in self._logs:
            self._logs = {name: sets.read(name, self.data_folder)}  # one at a time: they may be large
        return self._logs[name]

    def settings(self, job: Job) -> Settings:
        return Settings.of(read_settings(self.config, job.row))

    # -- links -------------------------------------------------------------------------------------------------------

    def train(self, job: Job) -> tuple[Run, Row]:
        """Begin or continue a job's run until it ends or meets its cap, and measure it."""
        settings, log, place = self.settings(job), self.log(job.data), self.folder / job.place
        assert settings.train.epochs is not None
        assert settings.train.patience is not None
        meter = Meter(place, self.cap, settings.train.epochs, settings.train.patience, self.told)
        try:
            run = fit(settings, log, folder=place, seed=job.seed, progress=meter)
            ended, test = "by itself", run.test
        except Capped:
            run = Run.open(place)
            self.told({"phase": "test"})
            ended, test = "capped", measure(run)
        best = run.history[run.best_epoch - 1]["val"] if run.history else {}
        facts: Row = {
            "ended": ended,
            "cap": self.cap if ended == "capped" else None,
            "first_epoch_share": None if run.history or ended != "capped" else first_epoch_share(run),
            "epochs": len(run.history),
            "best_epoch": run.best_epoch,
            "test": rounded(test),
            "val": rounded(best),
            "curve": [_short(entry["val"]["all"]["chunked_ap"]) for entry in run.history],
            "threads": run.settings.train.threads,
            "settings": run.settings.to_dict(),
            "events": len(log),
            "nodes": log.nodes,
            "features": log.schema.feature_width,
        }
        return run, facts | meter.facts()

    # -- time --------------------------------------------------------------------------------------------------------

    def time(self, jobs: Sequence[Job]) -> Iterator[Row]:
        """The rows of all time jobs of a data set, which take turns."""
        if not jobs:
            return
        self.told({"job": jobs[0], "phase": "timing"})
        pint = self.settings(replace(jobs[0], model="pint"))
        settings = {job.model: timing.same_sizes(self.settings(job), pint) for job in jobs}
        found = timing.time_models(settings, self.log(jobs[0].data))
        for job in jobs:
            yield self.results.append(job, found[job.model])

    # -- nodes -------------------------------------------------------------------------------------------------------

    def nodes(self, run: Run, links: Row, seed: int) -> Row:
        """Node classification on the frozen embeddings of a job's run."""
        self.told({"phase": "classifying nodes"})
        began = time.process_time(), time.perf_counter()
        found = classify(run, seed=seed)
        kept = ("epochs", "best_epoch", "threads", "settings", "events", "nodes", "features", "load")
        return {
            "ended": links["ended"],
            "cap": links["cap"],
            "test": {"auc": _short(found.test_auc)},
            "val": {"auc": _short(found.val_auc)},
            "decoder_epochs": found.best_epoch,
            "positives": found.positives,
            "processor_seconds": round(time.process_time() - began[0], 1),
            "wall_seconds": round(time.perf_counter() - began[1], 1),
        } | {name: links[name] for name in kept}


def units_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that one worker does in turn: links and nodes of one run, and all that are timed on one data set."""
    units: dict[object, list[Job]] = {}
    for job in jobs:
        units.setdefault(job.data if job.task == "time" else job.place, []).append(job)
    return list(units.values())


class Collected(Results):
    """Rows of a worker, which writes none: what was known when it began, and what it found."""

    def __init__(self, known: dict[str, Row]):
        self.known, self.found = known, list[tuple[Job, Row]]()

    def append(self, job: Job, facts: Row) -> Row:
        self.found.append((job, facts))
        row = {"job": job.key, "task": job.task, "row": job.row, "model": job.model, "data": job.data, "seed": job.seed}
        self.known = self.known | {job.key: row | facts}
        return self.known[job.key]

    def newest(self) -> dict[str, Row]:
        return self.known


def _silent(entry: dict[str, Any]) -> None:
    """Workers say nothing: rows are told of where they are written."""


def _attempted(runner: Runner, unit: list[Job]) -> list[tuple[Job, Row]]:
    """In a worker: what the jobs of a unit found."""
    assert isinstance(runner.results, Collected)
    for _ in runner.attempt(unit):
        pass
    return runner.results.found


def first_epoch_share(run: Run) -> float:
    """How much of the first epoch the checkpoint of a run holds."""
    steps = -(-len(run.parts.trained) // run.settings.train.batch)
    return round(run.read_checkpoint("last.safetensors")[1]["step"] / steps, 3)


def measure(run: Run) -> dict[str, Metrics]:
    """The test figures of a run that has not ended, by the paper's protocol and its best weights so far."""
    with reproducible(run.settings.train.threads):
        stream = run.new_stream()
        stream.observe(run.parts.trained)
        return protocol.measure(stream, run.parts, run.parts.test, ["random"], run.seed).figures["random"]


def rounded(figures: dict[str, Metrics]) -> dict[str, Any]:
    """Figures with six digits behind the point: more than any of them is worth."""
    return {group: {name: _short(value) for name, value in one.items()} for group, one in figures.items()}


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
