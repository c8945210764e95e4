"""Runs and evaluations in notebooks: tables, frames and curves of what `figures_text` prints as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pintgn.display.html import folded, paragraph, table
from pintgn.drawing.curves import Curve, Picture, curves
from pintgn.drawing.plot import Plot, sheet
from pintgn.errors import BadInput
from pintgn.formatting import duration, percent, short
from pintgn.learn.figures_text import AS_NUMBERS, GROUPS, HEADS, count, figure, first_figure, refit_text, run_title
from pintgn.packages import data_frame

if TYPE_CHECKING:
    from pintgn.learn.run import Run

Rows = Mapping[str, Mapping[str, Mapping[str, Any]]]


def figures_html(rows: Rows) -> str:
    """Figures by row, group and name, in percent; groups without any event are left out."""
    names = [name for name in next(iter(next(iter(rows.values())).values())) if name != "events"]
    heads = ["", "", "events", *(HEADS.get(name, name.capitalize()) for name in names)]
    lines = []
    for model, groups in rows.items():
        some = {group: metrics for group, metrics in groups.items() if count(metrics["events"]) != "0"}
        for k, (group, metrics) in enumerate(some.items()):
            cells = [figure(name, metrics[name]) for name in names]
            lines.append(["" if k else model, GROUPS.get(group, group), count(metrics["events"]), *cells])
    return table(heads, lines, left=2)


def figures_frame(rows: Rows, **more: Any) -> list[dict[str, Any]]:
    """One row for each model and group: figures as fractions, a pair as mean and standard deviation in two columns."""
    found = []
    for model, groups in rows.items():
        for group, metrics in groups.items():
            line: dict[str, Any] = {**more, "model": model, "group": group}
            for name, value in metrics.items():
                if isinstance(value, tuple):
                    line[name], line[f"{name}_std"] = value
                else:
                    line[name] = value
            found.append(line)
    return found


def run_html(run: Run) -> str:
    """A run's result, its settings and epochs folded below."""
    parts = [paragraph(repr(run), strong=True)]
    if run.test:
        parts += [paragraph(run_title(run)), figures_html({run.settings.name: run.test} | run.heuristics)]
        parts += [paragraph(refit_text(run))] if run.refit else []
    by = run.task.chosen_by(run.settings.train)
    epochs = [
        [e["epoch"], f"{e['loss']:.3f}", first_figure(e["val"], "all", by)[1], first_figure(e["val"], "new", by)[1],
         duration(e["seconds"])]
        for e in run.history
    ]  # fmt: skip
    name = HEADS.get(by, by)
    heads = ["epoch", "loss", f"val {name}", f"new-node {name}", "took"]
    tables = run.settings.to_dict()
    settings = [[f"{name}.{key}", value] for name, values in tables.items() for key, value in values.items()]
    parts.append(folded("Epochs", table(heads, epochs, left=0) if epochs else ""))
    parts.append(folded("Settings", table(["", ""], settings, left=2)))
    return "".join(parts)


def history_frame(run: Run) -> Any:
    """One row for each epoch: loss, figures on validation, time."""
    rows = []
    for entry in run.history:
        val = {f"val_{name}": v for name, v in entry["val"]["all"].items() if name != "events"}
        new = {f"val_new_{name}": v for name, v in entry["val"]["new"].items() if name != "events"}
        rest = {name: value for name, value in entry.items() if name not in ("val", "best_epoch")}
        rows.append(rest | val | new | {"chosen": entry["epoch"] == run.best_epoch})
    return data_frame(rows)


def run_picture(run: Run) -> Picture:
    """Loss and validation AP by epoch; a ring marks the epoch that was chosen."""
    if not run.history:
        raise BadInput(f"{run.settings.name} has no epochs to draw; it is not trained step by step, or not yet.")
    legend = [("s0", "line", "all events"), ("s1", "line", "new nodes")]
    legend += [("ink", "ring", f"epoch {run.best_epoch}, chosen")]
    return Picture(sheet(f"{run.settings.name}, seed {run.seed}", run_plots(run), legend))


def run_plots(run: Run) -> dict[str, Plot]:
    """Plots of a run's epochs by title: its loss, and its first metric on validation."""
    epochs = [entry["epoch"] for entry in run.history]

    def curve(series: str, name: str, *keys: str, chosen: int | None = None) -> Curve:
        found: list[Any] = run.history
        for key in keys:
            found = [entry[key] for entry in found]
        return Curve(series, name, epochs, [math.nan if v is None else v for v in found], chosen)

    shown = next(name for name in run.history[0]["val"]["all"] if name != "events")
    share = shown not in AS_NUMBERS
    in_percent: Any = partial(percent, digits=1) if share else short
    exact: Any = percent if share else "{:.4f}".format
    by_group = [
        curve(f"s{k}", GROUPS[group], "val", group, shown, chosen=run.best_epoch)
        for k, group in enumerate(("all", "new"))
    ]
    drawn: dict[str, Plot | None] = {
        "Training": curves([curve("h1", "loss", "loss")], "loss", short, "{:.4f}".format),
        "Validation": curves(by_group, HEADS.get(shown, shown) + (" (%)" if share else ""), in_percent, exact),
    }
    return {name: plot for name, plot in drawn.items() if plot is not None}
