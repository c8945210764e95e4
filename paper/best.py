"""Our best: the rows of paper/best.toml, each trained once per seed (where there is something to train) and measured on
the test part in several ways."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paper import sets
from paper.jobs import Job, check_among
from paper.results import Results, Row
from paper.runner import Told, rounded
from paper.training_free import TRAINING_FREE, untrained
from pintgn.events.log import EventLog
from pintgn.learn import paper as protocol
from pintgn.learn.fit import fit
from pintgn.learn.folder import Folder
from pintgn.learn.measure import Compared, compare, rank_part
from pintgn.learn.negatives import Candidates, Negatives, draw
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings, Streaming
from pintgn.learn.settings_files import published_rows, read_settings
from pintgn.learn.train import reproducible
from pintgn.stream import Stream

FEW_SEEDS = 3
"""How many seeds are run of a row, and at most on logs that we are not compared on."""
SEEDS = dict.fromkeys(["default", *TRAINING_FREE], 10)
"""Rows of more seeds: the headline, and what costs nothing. Five seeds were too few: the sixth was three deviations
away."""
COMPARED = ("uci", "enron", "wikipedia")
"""Logs that others have published figures on."""
RANKED = ("default/wikipedia", "blocks/wikipedia", "stale/wikipedia")
"""Rows that are also ranked against all destinations, as tgbl-wiki does."""
KINDS: list[str | Negatives] = ["random", "historical", "inductive"]
VIEWS = {
    "papers": {"positions_refresh": "event", "history_refresh": "event"},
    "blocks": {"positions_refresh": "block", "history_refresh": "event"},
    "stale": {"positions_refresh": "block", "history_refresh": "block"},
}
"""How fresh is what a model looks up in the papers' protocol: as of each query's own time; positions as of the start of
its block of 200 events; everything as of the start of the block."""


def best_jobs(
    config: Path, models: Sequence[str] | None, data: Sequence[str] | None, seeds: Sequence[int] | None
) -> list[Job]:
    """Every row with its seeds: all rows of a seed before the next seed, ranking after them."""
    rows = [row.partition("/") for row in published_rows(config)]
    check_among("--models", models, {model for model, _, _ in rows})
    check_among("--data", data, {name for _, _, name in rows})
    found = []
    for model, _, name in rows:
        if model in (models or [model]) and name in (data or [name]):
            most = SEEDS.get(model, FEW_SEEDS) if name in COMPARED else FEW_SEEDS
            for seed in seeds if seeds is not None else range(most):
                found.append(Job("best", model, name, seed))
                if f"{model}/{name}" in RANKED:
                    found.append(Job("rank", model, name, seed))
    return sorted(found, key=lambda job: (job.task == "rank", job.seed))


def run_best(
    jobs: Sequence[Job], folder: Path, results: Results, config: Path, data_folder: Path | None, told: Told
) -> Iterator[Row]:
    """A row for each job that has none yet and whose data is here; runs are kept, and continued when stopped."""
    with Folder(folder).locked():
        for job in jobs:
            if job.key in results.newest() or sets.find(job.data, data_folder) is None:
                continue
            told({"job": job})
            began = time.process_time(), time.perf_counter()
            run = _run_of(job, read_settings(config, job.row), sets.read(job.data, data_folder), folder, told)
            told({"phase": "measuring"})
            with reproducible(run.settings.train.threads):
                found = ranked(run) if job.task == "rank" else every_way(run)
            facts = {"ended": "by itself", "epochs": len(run.history), "best_epoch": run.best_epoch} | found
            facts |= {"training_seconds": round(sum(entry["seconds"] for entry in run.history), 1)}
            facts |= {"val": rounded(run.history[run.best_epoch - 1]["val"])} if run.history else {}
            facts |= {"settings": run.settings.to_dict()}
            facts |= {"processor_seconds": round(time.process_time() - began[0], 1)}
            facts |= {"wall_seconds": round(time.perf_counter() - began[1], 1), "load": round(os.getloadavg()[0], 1)}
            yield results.append(job, facts)


def _run_of(job: Job, given: dict[str, Any], log: EventLog, folder: Path, told: Told) -> Run:
    """The row's model, trained unless it is one that nothing trains; its folder holds what was learned."""
    if given["model"]["name"] in TRAINING_FREE:
        return untrained(given, log, job.seed)
    return fit(Settings.of(given), log, folder=folder / job.place, seed=job.seed, progress=told)


def every_way(run: Run) -> Row:
    """Test figures against each kind of negatives, by the score of the question that it asks; `one_score` has those of
    the score against anyone.

    `papers`, `blocks`, `stale`: the papers' protocol (see `learn.paper`), by `VIEWS`. `stream`: ours, in a stream that
    knows what a deployed one would.
    """
    parts, test = run.parts, run.parts.test
    found: dict[str, Compared] = {}
    for name in VIEWS:
        trained = _stream(run, name)
        trained.observe(parts.trained)
        found[name] = protocol.measure(trained, parts, test, KINDS, run.seed)
    ready = run.new_stream()
    ready.observe(parts.before(test))
    drawn = {str(kind): draw(kind, parts.until(test), test, run.seed, parts.before(test)) for kind in KINDS}
    found["stream"] = compare(ready, test, drawn, parts.is_new(test.scored_events))

    def figures(name: str) -> dict[str, Any]:
        return {view: {kind: rounded(one) for kind, one in getattr(all_, name).items()} for view, all_ in found.items()}

    return {"test": figures("figures"), "one_score": figures("one_score")}


def ranked(run: Run) -> Row:
    """MRR and Hits@k on the test part against all destinations, by `VIEWS`, in a stream that has observed
    everything before.

    What was trained stale is measured as stale, and in no other way.
    """
    parts, test = run.parts, run.parts.test
    among = Candidates(parts.log, test, "all", run.seed)
    own = dataclasses.asdict(run.settings.stream)
    fresh = VIEWS["papers"].items() <= own.items()
    found = {}
    for name, refresh in VIEWS.items():
        if fresh or refresh.items() <= own.items():
            ready = _stream(run, name)
            ready.observe(parts.before(test))
            found[name] = rounded(rank_part(ready, test, among, parts.is_new(test.scored_events)))
    return {"ranking": found, "candidates": among.count}


def _stream(run: Run, view: str) -> Stream:
    """An empty stream of a run that looks things up as fresh as one of `VIEWS` says."""
    stream = Streaming(**dataclasses.asdict(run.settings.stream) | VIEWS[view])
    return dataclasses.replace(run, settings=dataclasses.replace(run.settings, stream=stream)).new_stream()
