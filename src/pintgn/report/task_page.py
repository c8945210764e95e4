"""Report on runs that predict a column or whether something happens in time: figures, learning, settings."""

from __future__ import annotations

from typing import Any

from pintgn.formatting import listed
from pintgn.learn.figures_text import GROUPS, HEADS, count, figure, first_figure
from pintgn.learn.notebook import run_plots
from pintgn.learn.run import Run
from pintgn.report.about import setting_text
from pintgn.report.markup import card, cells, facts, grid, legend, section, table, text, wide


def headline(run: Run) -> str:
    """The first metric of the task."""
    name, value = first_figure(run.test)
    return f"{run.settings.name} predicts {run.task.title()} with {name} {value} on the test part"


def verdict(run: Run) -> str:
    """A comparison with the training-free rows, by the metric that chose the epoch."""
    value = run.task.value(run.test["all"], run.settings.train)
    others = [
        row for row, groups in run.heuristics.items() if run.task.value(groups["all"], run.settings.train) >= value
    ]
    if others:
        return f"Without training, {listed(others)} {'is' if len(others) == 1 else 'are'} as good or better."
    return f"{run.settings.name} is better than every training-free row." if run.heuristics else ""


def figures(runs: list[Run]) -> dict[str, Any]:
    """Every figure on the page."""
    return {"runs": [run.result() for run in runs]}


def body(runs: list[Run]) -> str:
    """A section for each run; one run alone is compared in the header."""
    if len(runs) == 1:
        return section("run-0", "Results", "", *_parts(runs[0]))
    return "".join(
        section(f"run-{k}", f"{run.settings.name}, seed {run.seed}", text(verdict(run)), *_parts(run))
        for k, run in enumerate(runs)
    )


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
        key = legend([("s0", GROUPS["all"]), ("s1", GROUPS["new"])])
        plots = run_plots(run).items()
        found.append(grid(*(card(name, plot.svg(), legend=key * (name == "Validation")) for name, plot in plots)))
    tables = run.settings.to_dict()
    cards = [
        card(f"Settings: {name}", facts([(key, text(setting_text(v))) for key, v in values.items()]))
        for name, values in tables.items()
        if values
    ]
    return [*found, grid(*cards)]
