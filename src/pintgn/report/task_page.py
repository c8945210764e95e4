"""Report on runs that predict a column or whether something happens in time: figures with training-free rows."""

from __future__ import annotations

from typing import Any

from pintgn.errors import BadInput
from pintgn.formatting import listed
from pintgn.learn.figures_text import GROUPS, HEADS, count, figure, first_figure
from pintgn.learn.run import Run
from pintgn.report.markup import cells, table, text, wide
from pintgn.report.study import Content, unscored


def content(runs: list[Run], names: Any = None) -> Content:
    """Contents of a report about answers that are compared with the truth."""
    if len({run.task.title() for run in runs}) > 1 or any(
        run.task.tells_from_negatives or not run.test for run in runs
    ):
        raise BadInput("a report compares runs that have ended and are asked the same; write one page for each.")
    study = unscored(runs, names)
    first = max(runs, key=lambda run: run.task.value(run.test["all"], run.settings.train))
    metric, value = first_figure(first.test)
    headline = f"{first.settings.name} predicts {first.task.title()} with {metric} {value} on the test part"
    rows = {f"{row.name}, seed {run.seed}" if len(runs) > 1 else row.name: run.test for row, run in study.runs}
    figures = {"runs": [run.result() for run in runs]}
    return Content(study, headline, [verdict(first)], figures, {"Results": results(rows | first.heuristics)})


def verdict(run: Run) -> str:
    """A comparison with the training-free rows, by the metric that chose the epoch."""
    value = run.task.value(run.test["all"], run.settings.train)
    others = [
        row for row, groups in run.heuristics.items() if run.task.value(groups["all"], run.settings.train) >= value
    ]
    if others:
        return f"Without training, {listed(others)} {'is' if len(others) == 1 else 'are'} as good or better."
    return f"{run.settings.name} is better than every training-free row." if run.heuristics else ""


def results(rows: dict[str, Any]) -> str:
    """A table of figures for each group of events."""
    first, tables = next(iter(rows.values())), ""
    for group in first:
        names = [name for name in first[group] if name != "events"]
        lines = "".join(
            cells([text(row), count(found["events"]), *(figure(name, found.get(name)) for name in names)])
            for row, found in ((row, groups[group]) for row, groups in rows.items())
        )
        heads = ["", "events", *(HEADS.get(name, name) for name in names)]
        tables += wide(f"Test part, {GROUPS[group]}", table(heads, lines))
    return tables
