"""Run jobs, or show what they reached.

    python -m benchmarks.jobs --data-folder FOLDER [--only JOB ...] [--model pint ...] [--seeds 0 ...] [--round NAME]
    python -m benchmarks.jobs --show [--page docs/jobs.md]

A row for each job, model and seed is appended to results/jobs.jsonl when it is there, with the figures of validation
and test, 500 resamples of the test questions, settings, command, commit and seconds. `--model baselines` stands for the
job's own, of which those without chance are run once. A row that is there is not made again; `--round` names the
pintgn that answers, so that the rows of an earlier one stay. FOLDER has NAME.parquet for every log; ml-100k is in a
cache, see ml_100k.py. --show prints the table, and puts it into a page.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import time
from pathlib import Path
from typing import Any

import benchmarks.jobs as package
from benchmarks.jobs.common import FIGURES, Job, bootstrap, pintgn_answers
from benchmarks.jobs.table import Table, into
from paper.results import circumstances

RESULTS = Path(__file__).parents[2] / "results" / "jobs.jsonl"
WITHOUT_CHANCE = ("popular", "popular now", "ItemKNN", "ItemKNN, last ten", "Glicko")
Row = dict[str, Any]


def jobs() -> dict[str, Job]:
    """Every file of this folder that is a job."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.name != "__main__"]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return {module.JOB.name: module.JOB for module in modules if hasattr(module, "JOB")}


def rows(results: Path = RESULTS) -> dict[tuple[str, str, int, str], Row]:
    """What is there, by job, model, seed and round; of baselines the round is empty."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    found = [json.loads(line) for line in lines]
    return {(row["job"], row["model"], row["seed"], row["round"]): row for row in found}


def measured(job: Job, asked: Any, model: str, seed: int) -> Row:
    """A row: the figures of a model on both parts."""
    begin, settings = time.perf_counter(), dict(job.fit)
    if model in job.baselines:
        found = job.baselines[model](asked, seed)
    else:
        found, run = (job.answer or pintgn_answers)(job, asked, model, seed)
        settings = run.settings.to_dict() | {"epochs": len(run.history)}
    row: Row = {"job": job.name, "model": model, "seed": seed, "figure": job.figure, "questions": len(found["test"])}
    row |= {part: job.figures(asked, found[part]) for part in ("val", "test")}
    row["seconds"] = round(time.perf_counter() - begin)
    row["resampled"] = bootstrap(found["test"], FIGURES[job.figure])
    model = "baselines" if model in job.baselines else model
    command = f"python -m benchmarks.jobs --only {job.name} --model {model} --seeds {seed}"
    return row | {"settings": settings, "command": command} | circumstances()


def main() -> None:
    every = jobs()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-folder", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", nargs="+", choices=every, default=list(every))
    parser.add_argument("--model", nargs="+", default=["baselines", "pint"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--round", default="now")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    if options.show:
        table = Table(every, list(rows(options.results).values()))
        print(table.markdown())
        if options.page:
            into(options.page, table)
        return
    for name in options.only:
        job, asked = every[name], None
        models = [one for model in options.model for one in (job.baselines if model == "baselines" else [model])]
        for model in models:
            for seed in options.seeds[: 1 if model in WITHOUT_CHANCE else None]:
                turn = "" if model in job.baselines else options.round
                if (name, model, seed, turn) in rows(options.results):
                    continue
                asked = asked or job.ask(job, options.data_folder)
                row = {"round": turn} | measured(job, asked, model, seed)
                with open(options.results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                told = "  ".join(f"{part} {row[part][job.figure]:.4f}" for part in ("val", "test"))
                print(f"{name}  {model}  seed {seed}  {job.figure}: {told}  {row['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
