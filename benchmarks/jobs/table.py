"""The table of docs/jobs.md, from the rows in results/jobs.jsonl.

python -m benchmarks.jobs --show [--page docs/jobs.md]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.jobs.common import Job
from pintgn.formatting import plural

Row = dict[str, Any]
BEGIN, END = "<!-- jobs:begin, drawn by python -m benchmarks.jobs --show --page docs/jobs.md -->", "<!-- jobs:end -->"
SHARES = {"ap": "AP", "auc": "AUC", "mrr": "MRR", "hits@10": "hit@10"}
"""Figures that are shown in percent; all others in thousandths."""
OTHERS = {"log_loss": "log loss", "mae": "MAE", "rmse": "RMSE"}


def ahead(mine: Sequence[Row], theirs: Sequence[Row], smaller: bool) -> tuple[float, float, float]:
    """By how much rows of a model are better than those of another, over the same resampled questions: the mean of the
    seeds, and a 95 % interval in which seeds are resampled, too."""
    rng, drawn = np.random.default_rng(0), []
    for rows in (mine, theirs):
        found = np.array([row["resampled"] for row in rows])  # (seeds, draws)
        drawn.append(np.take_along_axis(found, rng.integers(0, len(found), found.shape), 0).mean(0))
    middle = mean(row["test"][row["figure"]] for row in mine) - mean(row["test"][row["figure"]] for row in theirs)
    low, high = np.nanpercentile(drawn[0] - drawn[1], [2.5, 97.5])
    return (-middle, -high, -low) if smaller else (middle, low, high)


class Table:
    """Rows by job, and how they are shown."""

    def __init__(self, jobs: dict[str, Job], rows: Sequence[Row]):
        self.jobs, self.rows = jobs, [row for row in rows if row["job"] in jobs]
        turns = {(row["round"], row["model"]): None for row in self.rows if row["round"]}
        self.ours = sorted(turns, key=lambda turn: turn[0] != "before")  # columns of pintgn

    def of(self, job: Job, model: str, turn: str = "") -> list[Row]:
        wanted = (job.name, model, turn)
        return [row for row in self.rows if (row["job"], row["model"], row["round"]) == wanted]

    def best(self, job: Job) -> list[Row]:
        """The rows of the baseline that is best on test: to be ahead of all is to be ahead of it."""
        there = [found for name in job.baselines if (found := self.of(job, name))]
        sign = -1 if job.smaller else 1
        return max(there, key=lambda found: sign * mean(row["test"][job.figure] for row in found), default=[])

    def line(self, job: Job) -> list[str]:
        best = self.best(job)
        if not best:
            return []
        names = sorted((n for n in job.baselines if self.of(job, n)), key=lambda name: name != best[0]["model"])
        others = [f"{name} {figure(job, self.of(job, name))}" for name in names]
        cells = [f"**{others[0]}**" + "".join(f"; {one}" for one in others[1:])]
        for turn, model in self.ours:
            mine = self.of(job, model, turn)
            cells.append(f"{figure(job, mine)}<br>{shown(job, ahead(mine, best, job.smaller))}" if mine else "–")
        asked = f"{best[0]['questions']:,}"
        return [f"`{job.name}`: {job.asks}", (SHARES | OTHERS)[job.figure], asked, *cells]

    def markdown(self) -> str:
        heads = ["job", "figure", "questions", "baselines, the best first"]
        heads += [f"`{model}`, {turn}" for turn, model in self.ours]
        lines = [heads, ["---"] * len(heads), *filter(None, map(self.line, self.jobs.values()))]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def made_by(self) -> str:
        """Commits and seeds of the columns of pintgn."""
        found = []
        for turn, model in self.ours:
            rows = [row for row in self.rows if (row["round"], row["model"]) == (turn, model)]
            seeds = len({row["seed"] for row in rows})
            commits = ", ".join(sorted({str(row["versions"]["commit"]) for row in rows}))
            found.append(f"`{model}`, {turn}: {commits}, {plural(seeds, 'seed')}")
        return "; ".join(found) + "."


def figure(job: Job, rows: Sequence[Row]) -> str:
    """Mean and deviation over the seeds of a figure on test."""
    values = [row["test"][job.figure] for row in rows]
    scale, digits = (100, 1) if job.figure in SHARES else (1, 3)
    spread = f" ± {scale * stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{scale * mean(values):.{digits}f}{spread}"


def shown(job: Job, difference: tuple[float, float, float]) -> str:
    scale, digits = (100, 1) if job.figure in SHARES else (1, 3)
    middle, low, high = (f"{scale * value + 0.0:+.{digits}f}".replace("-", "−") for value in difference)
    return f"{middle} ({low} to {high})"


def into(page: Path, table: Table) -> None:
    """Replace what stands between the two marks of a page."""
    text = f"{BEGIN}\n{table.markdown()}\n\nMade by {table.made_by()}\n{END}"
    page.write_text(re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: text, page.read_text(), flags=re.S))
