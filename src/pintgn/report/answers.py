"""A page about runs that predict a column, or whether something happens in time: figures, learning, settings."""

from __future__ import annotations

from typing import Any

from pintgn.learn.run import Run
from pintgn.learn.show import run_picture
from pintgn.learn.tables import GROUPS, HEADS, count, figure, first_figure
from pintgn.report.html import card, cells, facts, section, table, text, wide


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
        section(f"run-{k}", _title(run, len(runs)), text(headline(run)) + ".", *_parts(run))
        for k, run in enumerate(runs)
    )
    return "".join(sections)


def figures(runs: list[Run]) -> dict[str, Any]:
    """Every figure on the page."""
    return {"runs": [run.result() for run in runs]}


def _title(run: Run, of: int) -> str:
    return f"{run.settings.name}, seed {run.seed}" if of > 1 else "Results"


def _parts(run: Run) -> list[str]:
    names = [name for name in run.test["all"] if name != "events"]
    rows = {run.settings.name: run.test} | run.heuristics
    lines = "".join(
        cells([text(f"{row}, {GROUPS[group]}"), count(metrics["events"]), *(figure(n, metrics[n]) for n in names)])
        for row, groups in rows.items()
        for group, metrics in groups.items()
    )
    found = [wide("Test part", table(["", "events", *(HEADS.get(name, name) for name in names)], lines))]
    if run.history:
        found.append(card("Learning", run_picture(run).svg))
    asked = run.settings.to_dict()
    settings = [(f"{one}.{key}", text(value)) for one, values in asked.items() for key, value in values.items()]
    return [*found, wide("Settings", facts(settings))]
