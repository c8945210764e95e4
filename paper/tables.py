"""Results in the paper's layout: our figures, the paper's beside them, the difference, and what to know about a row."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paper import sets
from paper.jobs import LAYOUT, MODELS, SETS, TASKS, Job
from paper.results import Row
from pintgn.formatting import spread, text_table

Published = Mapping[str, Mapping[str, Sequence[float]]]
"""Figures in percent as (mean, std), by row and by all / new / auc."""
HALVES = {"all": "Transductive", "new": "Inductive"}


@dataclass(frozen=True)
class Cell:
    """One figure of one row: ours over all seeds that there are, and the paper's."""

    model: str
    data: str
    figure: str  # all, new or auc
    values: tuple[float, ...] = ()  # in percent, one per seed
    paper: tuple[float, float] | None = None
    capped: tuple[int, ...] = ()  # epochs of the seeds whose run was capped
    error: str | None = None

    @property
    def task(self) -> str:
        return "nodes" if self.figure == "auc" else "links"

    @property
    def mean(self) -> float | None:
        return statistics.mean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Of a sample, over seeds, as on every page; None for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.paper is None else self.mean - self.paper[0]

    @property
    def stands_out(self) -> bool:
        """Whether it differs from the paper by more than the paper's own spread."""
        return self.difference is not None and self.paper is not None and abs(self.difference) > self.paper[1]

    def ours(self) -> str:
        if self.mean is None:
            return "failed" if self.error else "-"
        mark = "*" if self.capped else ""
        return spread(self.mean, self.std) + mark

    def theirs(self) -> str:
        return "-" if self.paper is None else f"{self.paper[0]:.2f} ± {self.paper[1]:g}"

    def beside(self) -> str:
        return "-" if self.difference is None else f"{round(self.difference, 2) + 0.0:+.2f}"  # never -0.00


def cell(model: str, data: str, figure: str, newest: Mapping[str, Row], published: Published) -> Cell:
    """What there is to say in one place of a table."""
    task = "nodes" if figure == "auc" else "links"
    rows = list(rows_of(task, model, data, newest))
    done = [row for row in rows if row["ended"] != "failed"]
    paper = published.get(f"{model}/{data}", {}).get(figure)
    return Cell(
        model,
        data,
        figure,
        tuple(100 * value for row in done if (value := figure_of(row, figure)) is not None),
        None if paper is None else (float(paper[0]), float(paper[1])),
        tuple(row["epochs"] for row in done if row["ended"] == "capped"),
        next((row["error"] for row in rows if row["ended"] == "failed"), None),
    )


def rows_of(task: str, model: str, data: str, newest: Mapping[str, Row]) -> Iterator[Row]:
    """A row's results, one for each seed."""
    found = [row for row in newest.values() if (row["task"], row["model"], row["data"]) == (task, model, data)]
    yield from sorted(found, key=lambda row: row["seed"])


def figure_of(row: Row, figure: str) -> float | None:
    """The papers' figure: AP averaged over chunks of 200 rows, or AUC of node classification."""
    return row["test"]["auc"] if figure == "auc" else row["test"].get(figure, {}).get("chunked_ap")


def columns_of(table: str, newest: Mapping[str, Row]) -> tuple[list[str], list[str]]:
    """The data sets of a table that have results, and those that have none."""
    models, columns = LAYOUT[table]
    rows = [row for row in newest.values() if row["task"] == TASKS[table] and row["model"] in models]
    have = {row["data"] for row in rows if row["ended"] != "failed"}
    return [d for d in columns if d in have], [d for d in columns if d not in have]


def halves_of(table: str) -> dict[str, str]:
    return {"auc": ""} if table == "nodes" else HALVES


def cells_of(table: str, newest: Mapping[str, Row], published: Published) -> list[Cell]:
    """Every place of a table that has a figure of ours."""
    columns, _ = columns_of(table, newest)
    found = [
        cell(model, data, figure, newest, published)
        for figure in halves_of(table)
        for model in LAYOUT[table][0]
        for data in columns
    ]
    return [one for one in found if one.values or one.error]


def text(table: str, newest: Mapping[str, Row], published: Published, data_folder: Path | None = None) -> str:
    """A table for the terminal; below it what to do about data sets that have no column."""
    if table == "time":
        return time_text(newest)
    columns, absent = columns_of(table, newest)
    heads = ["", "", *(f"{SETS[data]}" if k == 0 else name for data in columns for k, name in enumerate(COLUMNS))]
    lines = []
    for figure, half in halves_of(table).items():
        for k, model in enumerate(LAYOUT[table][0]):
            cells = [cell(model, data, figure, newest, published) for data in columns]
            parts = [text for one in cells for text in (one.ours(), one.theirs(), one.beside())]
            lines.append([half if k == 0 else "", MODELS[model], *parts])
    title = TITLES[table]
    body = text_table(heads, lines, left=2) if columns else "No results yet."
    return "\n".join([title, "", body, *_notes(table, columns, absent, newest, data_folder)])


COLUMNS = ("ours", "paper", "difference")
TITLES = {
    "table1": "Table 1: average precision of link prediction, in percent, over chunks of 200 rows",
    "table2": "Table 2: TGN-Att with relative positional features, average precision in percent",
    "dims": "Figure: average precision of PINT by the length d of its positions (PINT is d = 4)",
    "time": "Figure: seconds of training per epoch",
    "nodes": "Node classification, AUC in percent",
}


def _notes(
    table: str, columns: Sequence[str], absent: Sequence[str], newest: Mapping[str, Row], data_folder: Path | None
) -> list[str]:
    lines = []
    if any(one.capped for one in cells_of(table, newest, {})):
        lines.append("* capped: measured with the best validation epoch so far; a higher --cap goes on.")
    if "wikipedia" in columns and not features_of("wikipedia", newest):
        lines.append("Wikipedia is without its edge features here; the paper has them.")
    for data in absent:
        here = sets.find(data, data_folder) is not None
        lines.append(f"{SETS[data]} {'has not been run yet' if here else sets.missing(data)}.")
    return ["", *lines] if lines else []


def features_of(data: str, newest: Mapping[str, Row]) -> int:
    """How many edge features a set had when it was measured."""
    return max((row.get("features") or 0 for row in newest.values() if row["data"] == data), default=0)


def time_text(newest: Mapping[str, Row]) -> str:
    """Seconds per epoch of every model."""
    columns, _ = columns_of("time", newest)
    heads = ["", *(f"{SETS[data]} {kind}" for data in columns for kind in ("wall", "processor"))]
    lines = []
    for model in LAYOUT["time"][0]:
        rows = [next(rows_of("time", model, data, newest), None) for data in columns]
        done = [row if row is not None and row["ended"] != "failed" else None for row in rows]
        parts = [
            seconds(None if row is None else row[name]) for row in done for name in ("epoch_wall", "epoch_processor")
        ]
        lines.append([MODELS[model], *parts])
    body = text_table(heads, lines) if columns else "No results yet."
    return f"{TITLES['time']}\n\n{body}"


def seconds(value: Any) -> str:
    """
    >>> seconds(0.1234), seconds(12.34), seconds(345.6), seconds(None)
    ('0.12', '12.3', '346', '-')
    """
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def row_line(row: Row, published: Published) -> str:
    """A row in one line, as soon as it is known."""
    name = str(Job(row["task"], row["model"], row["data"], row["seed"]))
    if row["ended"] == "failed":
        return f"{name}: failed. {row['error']}"
    if row["task"] == "time":
        return (
            f"{name}: {seconds(row['epoch_wall'])} s an epoch ({seconds(row['epoch_processor'])} s of processor time)"
        )
    parts = []
    for figure in ("auc",) if row["task"] == "nodes" else HALVES:
        value, paper = figure_of(row, figure), published.get(row["row"], {}).get(figure)
        if value is not None:
            beside = "" if paper is None else f" (paper {paper[0]:.2f}, {100 * value - paper[0]:+.2f})"
            parts.append(f"{NAMES[figure]} {100 * value:.2f}{beside}")
    return f"{name}: {', '.join([*parts, how_it_ended(row)])}"


NAMES = {"all": "AP", "new": "new-node AP", "auc": "AUC"}


def how_it_ended(row: Row) -> str:
    """
    >>> how_it_ended({"ended": "capped", "epochs": 4, "best_epoch": 4, "processor_seconds": 61.2})
    'capped at epoch 4, best epoch 4, 61 s'
    """
    return f"{end_of(row)}, best epoch {row['best_epoch']}, {row['processor_seconds']:.0f} s"


def end_of(row: Row) -> str:
    """
    >>> end_of({"ended": "capped", "epochs": 0, "first_epoch_share": 0.4}), end_of({"ended": "by itself", "epochs": 9})
    ('capped after 40 % of epoch 1', '9 epochs')
    """
    if row["ended"] != "capped":
        return f"{row['epochs']} epochs"
    if not row["epochs"]:
        return f"capped after {100 * row['first_epoch_share']:.0f} % of epoch 1"
    return f"capped at epoch {row['epochs']}"
