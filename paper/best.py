"""Our best: the rows of paper/best.toml, each trained once per seed and measured on the test part in several ways."""

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
from pintgn.learn import paper as protocol
from pintgn.learn.folder import Folder
from pintgn.learn.measure import compare, rank_part
from pintgn.learn.negatives import Negatives, draw
from pintgn.learn.protocol import scored_events
from pintgn.learn.ranking import Candidates
from pintgn.learn.reproducible import reproducible
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings, published_rows, read_settings
from pintgn.learn.train import fit

FIVE = ("default", "ranking", "historical")
"""Rows that five seeds are run of; one of all others, which say what a part is worth."""
RANKED = ("ranking/wikipedia", "default/wikipedia")
"""Rows that are also ranked against all destinations, as tgbl-wiki does."""
KINDS: list[str | Negatives] = ["random", "historical"]


def best_jobs(
    config: Path, models: Sequence[str] | None, data: Sequence[str] | None, seeds: Sequence[int] | None
) -> list[Job]:
    """Every row with its seeds: what is measured against negatives first, in order of seeds, then what is ranked."""
    rows = [row.partition("/") for row in published_rows(config)]
    check_among("--models", models, {model for model, _, _ in rows})
    check_among("--data", data, {name for _, _, name in rows})
    found = []
    for model, _, name in rows:
        if model in (models or [model]) and name in (data or [name]):
            for seed in seeds if seeds is not None else range(5 if model in FIVE else 1):
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
            settings = Settings.of(read_settings(config, job.row))
            run = fit(
                settings, sets.read(job.data, data_folder), folder=folder / job.place, seed=job.seed, progress=told
            )
            told({"phase": "measuring"})
            with reproducible(run.settings.train.threads):
                found = ranked(run) if job.task == "rank" else every_way(run)
            facts = {"ended": "by itself", "epochs": len(run.history), "best_epoch": run.best_epoch} | found
            facts |= {"training_seconds": round(sum(entry["seconds"] for entry in run.history), 1)}
            facts |= {"val": rounded(run.history[run.best_epoch - 1]["val"]), "settings": run.settings.to_dict()}
            facts |= {"processor_seconds": round(time.process_time() - began[0], 1)}
            facts |= {"wall_seconds": round(time.perf_counter() - began[1], 1), "load": round(os.getloadavg()[0], 1)}
            yield results.append(job, facts)


def every_way(run: Run) -> Row:
    """Test figures against random and historical negatives.

    `papers`: the papers' protocol (see `learn.paper`), positions as of each query's own time. `blocks`: the same with
    positions that are refreshed once per 200 events, as theirs are. `stream`: ours, in a stream that knows what a
    deployed one would.
    """
    parts, test = run.parts, run.parts.test
    blockwise = dataclasses.replace(run.settings.stream, positions_refresh="block")
    later = dataclasses.replace(run, settings=dataclasses.replace(run.settings, stream=blockwise))
    found: dict[str, Any] = {}
    for name, one in (("papers", run), ("blocks", later)):
        trained = one.new_stream()
        trained.observe(parts.trained)
        found[name] = protocol.measure(trained, parts, test, KINDS, run.seed).figures
    ready = run.new_stream()
    ready.observe(parts.before(test))
    drawn = {str(kind): draw(kind, parts.log, test, run.seed, parts.before(test)) for kind in KINDS}
    found["stream"] = compare(ready, test, drawn, parts.is_new(scored_events(test))).figures
    return {"test": {name: {kind: rounded(one) for kind, one in kinds.items()} for name, kinds in found.items()}}


def ranked(run: Run) -> Row:
    """MRR and Hits@k on the test part against all destinations."""
    parts, test = run.parts, run.parts.test
    ready = run.new_stream()
    ready.observe(parts.before(test))
    among = Candidates(parts.log, test, "all", run.seed)
    return {
        "ranking": rounded(rank_part(ready, test, among, parts.is_new(scored_events(test)))),
        "candidates": among.count,
    }
