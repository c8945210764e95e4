"""What a list of jobs would cost, from rows that were measured before: these results, or those that we committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paper import sets
from paper.jobs import ROOT, Job
from paper.results import Results, Row

if TYPE_CHECKING:
    from paper.runner import Runner

NO_DATA = "needs the data"
COMMITTED = ROOT / "results" / "paper.jsonl"


def plan(runner: Runner, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """For each job its state and the processor seconds that it may still take; None where nobody knows."""
    newest = runner.results.newest()
    known = {row["row"]: row for row in [*Results(COMMITTED).newest().values(), *newest.values()] if _cost(row)}
    found = []
    for job in jobs:
        row = newest.get(job.key)
        todo = not runner.is_done(job, newest)
        state = "to do"
        if sets.find(job.data, runner.data_folder) is None:
            state, todo = NO_DATA, False
        elif row is not None and row["ended"] == "failed":
            state = f"failed, to do again: {row['error']}"
        elif row is not None and row["ended"] == "capped":
            state = f"capped at epoch {row['epochs']}" + (", to go on" if todo else "")
        elif not todo:
            state = "done"
        seconds = _most(runner, job, known.get(job.row), row) if todo else None
        found.append(
            {"job": job.key, "task": job.task, "row": job.row, "seed": job.seed, "state": state}
            | {"estimated_seconds": seconds}
        )
    return found


def _cost(row: Row) -> float | None:
    return row.get("epoch_processor_seconds")


def _most(runner: Runner, job: Job, like: Row | None, so_far: Row | None) -> float | None:
    """At most: all epochs, or the cap, less what has been spent. An epoch under way at the cap is not counted."""
    if job.task != "links" or like is None:
        return None
    epoch = _cost(like) or 0.0
    limit = float("inf") if runner.cap is None else max(runner.cap, epoch)
    spent = 0.0 if so_far is None else so_far.get("processor_seconds") or 0.0
    return round(max(min(epoch * like["settings"]["train"]["epochs"], limit) - spent, 0.0), 1)
