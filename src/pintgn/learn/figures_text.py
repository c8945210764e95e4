"""Figures and the progress of training as text: the same on the command line and in a notebook."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pintgn.display.bars import open_bar
from pintgn.formatting import duration, percent, plural, text_table
from pintgn.learn.metrics import LEAST, Metrics, mean_and_std

if TYPE_CHECKING:
    from pintgn.learn.run import Run

Progress = Callable[[dict[str, Any]], None]
"""Called with one dict: {"phase": …} when something else begins, with "observed" and "of" where that is known; after
every batch {"epoch", "epochs", "done", "total", "loss"}; after every epoch its entry of `run.history`, which has "val".
What it raises ends the training; a run with a folder can then be continued from its last checkpoint."""

HEADS = {
    "ap": "AP", "chunked_ap": "AP (200-row chunks)", "auc": "AUC", "mrr": "MRR", "log_loss": "log loss",
    "macro_f1": "macro-F1", "calibration_error": "calibration error", "mae": "MAE", "rmse": "RMSE", "r2": "R²",
    "coverage": "within 90 %", "brier": "Brier",
}  # fmt: skip
SHORT = HEADS | {"chunked_ap": "AP/200", "calibration_error": "ECE", "coverage": "in 90 %", "macro_f1": "F1"}
AS_NUMBERS = ("log_loss", "mae", "rmse", "r2", "brier")
"""Figures that are no shares; all others are in percent."""
GROUPS = {"all": "all", "seen": "seen nodes", "new": "new nodes"}
FEW = f"Groups of fewer than {LEAST} events have no figures."
EMPTY = {"seen": "No event joins two seen nodes.", "new": "No event touches a new node."}


def figures_table(rows: Mapping[str, Mapping[str, Mapping[str, Any]]], width: int | None = None) -> str:
    """Figures by row, group and name, in percent; a pair is mean ± standard deviation, None is a dash.

    Groups without any event are left out, with a line that says so. `width` is what lines should fit into: by default
    the terminal, where there is one. A table that does not gets shorter heads, then loses the column of events.
    """
    first = next(iter(next(iter(rows.values())).values()))
    names = [name for name in first if name != "events"]
    empty = [
        group
        for group in next(iter(rows.values()))
        if group in EMPTY and all(count(groups[group]["events"]) == "0" for groups in rows.values())
    ]
    lines = []
    for model, groups in rows.items():
        for group, metrics in groups.items():
            if group not in empty:
                cells = [figure(name, metrics[name]) for name in names]
                lines.append([model, GROUPS.get(group, group), count(metrics["events"]), *cells])
    heads = ["", "", "events", *(HEADS.get(name, name.capitalize()) for name in names)]
    short = ["", "", "events", *(SHORT.get(name, name.replace("hits", "H")) for name in names)]
    wide = [[model if k == 0 or model != lines[k - 1][0] else "", *rest] for k, (model, *rest) in enumerate(lines)]
    within = [[f"{a}, {b}" if b == "all" else f"  {b}", *rest] for a, b, *rest in lines]
    width = screen_width() if width is None else width
    made = text_table(heads, wide, left=2)
    for fewer in (
        lambda: text_table(short, wide, left=2),
        lambda: text_table(short[1:], within),
        lambda: text_table([short[0], *short[3:]], [[row[0], *row[2:]] for row in within]),
    ):
        if width is None or _widest(made) <= width:
            break
        made = fewer()
    notes = [EMPTY[group] for group in empty]
    few = [group for groups in rows.values() for group in groups if group not in empty and _few(groups[group])]
    notes += [FEW] if few else []
    return "\n\n".join([made, *([" ".join(notes)] if notes else [])])


def figure(name: str, value: Any) -> str:
    """A figure as text, by what it is: most are in percent.

    >>> figure("ap", 0.9721), figure("rmse", 3.14159), figure("r2", (0.5, 0.01)), figure("ap", None)
    ('97.21', '3.142', '0.500 ± 0.010', '-')
    """
    if name not in AS_NUMBERS or value is None:
        return percent(value)
    if isinstance(value, tuple | list):
        return " ± ".join(figure(name, one) for one in value)
    return f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3f}"


def first_figure(
    groups: Mapping[str, Mapping[str, Any]], group: str = "all", name: str | None = None
) -> tuple[str, str]:
    """Name and value, as text, of the figure of this name, or of the task's main figure, which comes first."""
    name = name or next(name for name in groups[group] if name != "events")
    return HEADS.get(name, name), figure(name, groups[group].get(name))


def _few(metrics: Mapping[str, Any]) -> bool:
    """Whether there are events but no figure."""
    return all(value is None for name, value in metrics.items() if name != "events")


def screen_width() -> int | None:
    """The width of the terminal that stdout is, or None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def _widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def count(value: Any) -> str:
    value = value[0] if isinstance(value, tuple) else value
    return "-" if value is None else f"{round(value):,}"


def epoch_line(entry: Mapping[str, Any], epochs: int, width: int | None = None) -> str:
    """An epoch in one line, shorter where that would not fit into `width`."""
    val, took = entry["val"], duration(entry["seconds"])
    begin = f"epoch {entry['epoch']}/{epochs}  loss {entry['loss']:.3f}"
    rate = f"{entry['events_per_second']:,.0f} events/s"
    if val["all"].get("events") == 0:  # on the whole log, with nothing left to validate on
        return f"refit, {begin}  {rate}  {took}"
    by = entry.get("chosen_by")  # not in what an older pintgn wrote
    (name, value), (_, new) = first_figure(val, "all", by), first_figure(val, "new", by)
    begin = f"{begin}  val {name} {value}"
    line = f"{begin}  new-node {name} {new}  {rate}  {took}"
    return line if width is None or len(line) < width else f"{begin}  new {new}  {took}"


class EpochBar:
    """Progress bar over all epochs, with the loss so far and the last validation figure."""

    def __init__(self, epochs: int | None = None):
        self.epochs, self.done, self.figures = epochs, 0, ""
        self.bar: Any = None

    def __enter__(self) -> EpochBar:
        self.bar = open_bar("preparing", "events", "at most").__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if error == (None, None, None):
            self.bar.doing(f"{plural(self.done, 'epoch')}{self.figures}")  # what a notebook keeps
        self.bar.__exit__(*error)

    def __call__(self, entry: dict[str, Any]) -> None:
        self.epochs = entry.get("epochs", self.epochs)
        if "phase" in entry:
            self.bar.doing(entry["phase"] + self.figures)
            if "observed" in entry:
                self.bar(entry["observed"], entry["of"], entry["phase"] + self.figures)
        elif "done" in entry:
            text = f"epoch {entry['epoch']}/{self.epochs}  loss {entry['loss']:.3f}{self.figures}"
            done, total = entry["done"] + (entry["epoch"] - 1) * entry["total"], (self.epochs or 1) * entry["total"]
            self.bar(done, total, text)
        elif entry["val"]["all"]["events"]:  # there are none while a refit learns from everything
            figure = first_figure(entry["val"], "all", entry.get("chosen_by"))
            self.done, self.figures = entry["epoch"], "  val " + " ".join(figure)


def run_table(run: Run) -> str:
    """Result of a run, with its training-free rows."""
    if not run.test:
        return repr(run) if run.answers else f"{run!r} embeds nodes: pintgn embed RUN -o vectors.parquet"
    rows = {run.settings.name: run.test} | run.heuristics
    notes = [trees_text(run)] if run.history and "trees" in run.history[-1] else []
    if 1 < run.best_epoch == run.settings.train.epochs:
        more = f"`--epochs {2 * run.best_epoch}` goes on"
        notes += [f"Validation was still rising in the last of {run.best_epoch} epochs; {more}."]
    notes += [refit_text(run)] if run.refit else []
    return "\n\n".join([run_title(run), figures_table(rows), *notes])


def trees_text(run: Run) -> str:
    """The share of the trees of a stacked model, and what the network and the trees reach alone."""
    found = run.history[-1]["trees"]
    network, trees, both = (figure(found["chosen_by"], found[what]) for what in ("network", "trees", "both"))
    name = HEADS.get(found["chosen_by"], found["chosen_by"])
    return (
        f"Trees are {found['share']:.0%} of an answer, chosen on validation: {name} {both}; "
        f"the network alone {network}, trees alone {trees}."
    )


def run_title(run: Run) -> str:
    """Title of the figures of a run."""
    paper = ", measured as in the paper" if run.settings.train.protocol == "paper" else ""
    by = run.task.chosen_by(run.settings.train)
    chosen = f"epoch {run.best_epoch} of {len(run.history)} chosen on validation by {HEADS.get(by, by)}"
    return f"Test part, {run.task.title()}{paper}; {chosen}"


def refit_text(run: Run) -> str:
    """Text on which model was tested, and which is used."""
    assert run.refit is not None
    trained, events = len(run.parts.train), len(run.log)
    return (
        f"These figures belong to the model trained on the first {trained:,} events. The one that is used was then "
        f"trained on all {events:,}, for {plural(run.refit.best_epoch, 'epoch')}; nothing is left to measure it by."
    )


def seeds_table(runs: Sequence[Run]) -> str:
    """Mean and standard deviation over runs that differ in their seed."""
    first = runs[0]
    rows: dict[str, Any] = {first.settings.name: mean_of([run.test for run in runs])} | first.heuristics
    title = f"Test part, {first.task.title()}; mean ± standard deviation of {len(runs)} runs"
    return f"{title}\n\n{figures_table(rows)}" + (f"\n\n{refit_text(first)}" if first.refit else "")


def mean_of(runs: Sequence[Mapping[str, Metrics]]) -> dict[str, Any]:
    """Mean and standard deviation of every figure, by group."""
    return {group: mean_and_std([run[group] for run in runs]) for group in runs[0]}
