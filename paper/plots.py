"""The paper's figures as SVG; the same results give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from paper.jobs import DIMS, LAYOUT, MODELS, SETS
from paper.results import Row
from paper.tables import HALVES, Cell, Published, cell, columns_of, rows_of
from pintgn.drawing.plot import Axis, Key, Plot, Point, dot_plot, padded, sheet
from pintgn.files import write_file

OURS, PAPER = "s0", "h1"
CURVES = {
    "pint": ("s0", False),
    "pint-plain": ("s0", True),
    "tgn-positions": ("s3", False),
    "tgn": ("s3", True),
    "caw": ("s2", False),
    "tgat": ("s1", False),
    "jodie": ("h1", False),
    "dyrep": ("h1", True),
}
"""The rows whose learning is drawn, by series and whether dashed: with positions solid, without them dashed."""


def write_plots(folder: Path, newest: Mapping[str, Row], published: Published) -> dict[str, Path]:
    """Draw whatever there are results for; paths by figure."""
    drawn = {}
    for name, (table, draw) in DRAWN.items():
        columns = columns_of(table, newest)[0]
        if columns:
            folder.mkdir(parents=True, exist_ok=True)
            drawn[name] = folder / f"reproduce-{name}.svg"
            write_file(drawn[name], draw(columns, newest, published))
    return drawn


def draw_curves(columns: list[str], newest: Mapping[str, Row], published: Published) -> str:
    """Validation AP by epoch, seed 0: where a capped run stood, and whether it was still rising."""
    plots: dict[str, Plot] = {}
    shown: dict[str, Key] = {}
    for data in columns:
        curves = {}
        for model in CURVES:
            row = next(rows_of("links", model, data, newest), None)
            curves[model] = [100 * value for value in (row or {}).get("curve") or [] if value is not None]
        values = [value for curve in curves.values() for value in curve]
        if not values:
            continue
        last = max(map(len, curves.values()))
        y = Axis(*padded(min(values), max(values)), "validation AP (%)")
        plot = Plot(Axis(0.5, last + 0.5, "epoch"), y)
        for model, curve in curves.items():
            if curve:
                series, dash = CURVES[model]
                shown.setdefault(model, (series, "line dash" if dash else "line", MODELS[model]))
                plot.line(range(1, len(curve) + 1), curve, series, dash)
                plot.dot(len(curve), curve[-1], series, f"{MODELS[model]}, epoch {len(curve)}: {curve[-1]:.2f}")
        plots[SETS[data]] = plot
    return sheet("Validation AP by epoch", plots, [shown[model] for model in CURVES if model in shown])


def draw_dims(columns: list[str], newest: Mapping[str, Row], published: Published) -> str:
    """AP against the length of positions."""
    plots = {}
    for data in columns:
        cells = {
            (figure, d): cell(model, data, figure, newest, published) for figure in HALVES for d, model in DIMS.items()
        }
        points = [end for one in cells.values() for point in (ours(one), theirs(one)) if point for end in point[1:3]]
        ticks = [(float(d), str(d)) for d in DIMS]
        y = Axis(*padded(min(points), max(points)), "AP (%)")
        plot = Plot(Axis(min(DIMS) - 1, max(DIMS) + 1, "d", ticks), y)
        for figure in HALVES:
            inductive = figure != "all"
            ys = [one.mean if (one := cells[figure, d]).mean is not None else math.nan for d in DIMS]
            plot.line(list(DIMS), ys, OURS, dash=inductive)
            for d in DIMS:
                for series, point in ((OURS, ours(cells[figure, d])), (PAPER, theirs(cells[figure, d]))):
                    if point is not None:
                        plot.whisker((d, point[1]), (d, point[2]), series)
                        plot.dot(d, point[0], series, f"{HALVES[figure]}, d = {d}, {point[3]}", hollow=inductive)
        plots[SETS[data]] = plot
    legend = [(s, m, f"{who}, {half.lower()}") for s, who in ((OURS, "ours"), (PAPER, "paper")) for m, half in MARKS]
    return sheet("AP against the length of positions", plots, legend)


MARKS = tuple(zip(("dot", "ring"), HALVES.values(), strict=True))


def ours(one: Cell) -> Point | None:
    """Our figure, from where to where its spread goes, and what to say about it."""
    return None if one.mean is None else _point(one.mean, one.std or 0.0, f"ours: {one.ours()}")


def theirs(one: Cell) -> Point | None:
    return None if one.paper is None else _point(*one.paper, f"paper: {one.theirs()}")


def _point(value: float, spread: float, words: str) -> Point:
    return value, value - spread, value + spread, words


def draw_time(columns: list[str], newest: Mapping[str, Row], published: Published) -> str:
    """Processor seconds per epoch of every model, logarithmic; PINT's with and without updating positions."""
    plots = {}
    for data in columns:
        rows = {model: next(rows_of("time", model, data, newest), None) for model in reversed(LAYOUT["time"][0])}
        done = {MODELS[model]: row for model, row in rows.items() if row is not None and row["ended"] != "failed"}
        values = [row["epoch_processor"] for row in done.values()]
        low, high = 10.0 ** math.floor(math.log10(min(values))), max(values) * 2.5
        names = [(k + 0.5, name) for k, name in enumerate(done)]
        label = "processor seconds per epoch"
        x, y = Axis(low, high, label, log=True), Axis(0, len(done), ticks=names)
        plot = Plot(x, y, grid="x", left=142, height=24 * len(done) + 48, name=f"{SETS[data]}, {label}")
        for (at, name), row in zip(names, done.values(), strict=True):
            whole = row["epoch_processor"]
            rest = whole - row["positions_processor"]
            words = f"{name}: {whole:.3g} s" + (f", {rest:.3g} s without positions" if rest < whole else "")
            plot.bar(low, rest, at - 0.33, at + 0.33, OURS, words, gap=0)
            plot.bar(rest, whole, at - 0.33, at + 0.33, "s4", words, gap=0)
            plot.note(whole * 1.05, at, f"{whole:.3g}")
        plots[SETS[data]] = plot
    return sheet("Time per epoch", plots, [(OURS, "bar", "all the rest"), ("s4", "bar", "updating positions")])


def draw_nodes(columns: list[str], newest: Mapping[str, Row], published: Published) -> str:
    """AUC of node classification, the paper's beside ours."""
    plots = {}
    for data in columns:
        cells = [cell(model, data, "auc", newest, published) for model in LAYOUT["nodes"][0]]
        plots[SETS[data]] = dot_plot(
            [MODELS[one.model] for one in cells],
            [(OURS, list(map(ours, cells))), (PAPER, list(map(theirs, cells)))],
            x_label="AUC (%)",
            words="{:g}".format,
        )
    return sheet("AUC of node classification", plots, [(OURS, "dot", "ours"), (PAPER, "dot", "paper")])


Draw = Callable[[list[str], Mapping[str, Row], Published], str]
DRAWN: dict[str, tuple[str, Draw]] = {
    "curves": ("table1", draw_curves),
    "dims": ("dims", draw_dims),
    "time": ("time", draw_time),
    "nodes": ("nodes", draw_nodes),
}
"""Every figure: the table that it shows, and how."""
