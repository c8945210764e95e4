"""A page about runs that predict a column, or whether something happens in time: figures, learning, settings."""

from __future__ import annotations

from typing import Any

from pintgn.learn.run import Run
from pintgn.learn.show import run_picture
from pintgn.learn.tables import GROUPS, HEADS, count, figure, first_figure
from pintgn.report.html import card, cells, facts, grid, section, table, text, wide


def headline(run: Run) -> str:
    """The task's first figure, beside the training-free row that comes closest."""
    name, value = first_figure(run.test)
    return f"{run.settings.name} predicts {run.task.title()} with {name} {value} on the test part"


def summary(run: Run) -> list[str]:
    """Each training-free row in a sentence."""
    told = [f"{row}: {' '.join(first_figure(groups))}" for row, groups in run.heuristics.items()]
    return [f"Beside it, without training: {'; '.join(told)}."] if told else []


def body(runs: list[Run]) -> str:
    """All sections."""
    sections = (
        section(f"run-{k}", _title(run, len(runs)), text(_verdict(run)), *_parts(run)) for k, run in enumerate(runs)
    )
    return "".join(sections)


def figures(runs: list[Run]) -> dict[str, Any]:
    """Every figure on the page."""
    return {"runs": [run.result() for run in runs]}


def _title(run: Run, of: int) -> str:
    return f"{run.settings.name}, seed {run.seed}" if of > 1 else "Results"


def _verdict(run: Run) -> str:
    """Whether a run is ahead of every training-free row by the figure that its epoch was chosen by."""
    rows = {row: run.task.value(groups["all"], run.settings.train) for row, groups in run.heuristics.items()}
    ahead = [row for row, value in rows.items() if value >= run.task.value(run.test["all"], run.settings.train)]
    if not rows:
        return f"{headline(run)}."
    if not ahead:
        return f"{run.settings.name} is ahead of every row that needs no training."
    return f"Not ahead of every row that needs no training: as good, or better, is {' or '.join(ahead)}."


def _parts(run: Run) -> list[str]:
    names = [name for name in run.test["all"] if name != "events"]
    rows = {run.settings.name: run.test} | run.heuristics
    heads = ["", "events", *(HEADS.get(name, name) for name in names)]
    found = []
    for group in run.test:
        lines = "".join(
            cells([text(row), count(groups[group]["events"]), *(figure(n, groups[group][n]) for n in names)])
            for row, groups in rows.items()
        )
        found.append(wide(f"Test part, {GROUPS[group]}", table(heads, lines)))
    if run.history:
        found.append(wide("Learning", run_picture(run).svg))
    asked = run.settings.to_dict()
    cards = [
        card(f"Settings: {one}", facts([(key, text("automatic" if v is None else v)) for key, v in values.items()]))
        for one, values in asked.items()
        if values
    ]
    return [*found, grid(*cards)]
