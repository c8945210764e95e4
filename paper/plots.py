"""The paper's figures as SVG; the same results give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paper.jobs import DIMS, LAYOUT, MODELS, SETS
from paper.results import Row
from paper.tables import HALVES, Published, cell, columns_of, rows_of
from pintgn.errors import BadInput
from pintgn.files import replacing

OURS, PAPER, ACCENT = "#1f6feb", "#6e7781", "#d1242f"
STYLE: Any = {
    "svg.hashsalt": "pintgn",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "figure.facecolor": "white",
}


def write_plots(folder: Path, newest: Mapping[str, Row], published: Published) -> dict[str, Path]:
    """Draw whatever there are results for; paths by figure."""
    drawn = {}
    for name, (table, draw) in DRAWN.items():
        if not columns_of(table, newest)[0]:
            continue
        with _figure() as pyplot:
            figure = draw(pyplot, newest, published)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"reproduce-{name}.svg"
            with replacing(path) as part:
                figure.savefig(part, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            pyplot.close(figure)
            drawn[name] = path
    return drawn


@contextmanager
def _figure() -> Iterator[Any]:
    try:
        import matplotlib
    except ImportError as error:
        raise BadInput("plots need matplotlib: pip install matplotlib, or leave out --page.") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(STYLE):
        yield pyplot


CURVES = {
    "pint": (OURS, "-"),
    "pint-plain": (OURS, "--"),
    "tgn-positions": ("#8250df", "-"),
    "tgn": ("#8250df", "--"),
    "caw": ("#1a7f37", "-"),
    "tgat": ("#bf8700", "-"),
    "jodie": (PAPER, "-"),
    "dyrep": (PAPER, ":"),
}
"""The rows whose learning is drawn: with positions solid, without them dashed."""


def draw_curves(pyplot: Any, newest: Mapping[str, Row], published: Published) -> Any:
    """Validation AP by epoch, seed 0: where a capped run stood, and whether it was still rising."""
    columns, _ = columns_of("table1", newest)
    figure, axes = pyplot.subplots(1, len(columns), figsize=(3.6 * len(columns), 3.2), squeeze=False)
    shown: dict[str, Any] = {}
    for axis, data in zip(axes[0], columns, strict=True):
        for model, (color, style) in CURVES.items():
            row = next(rows_of("links", model, data, newest), None)
            curve = [100 * value for value in (row or {}).get("curve") or [] if value is not None]
            if curve:
                line = axis.plot(range(1, len(curve) + 1), curve, color=color, linestyle=style, marker=".")[0]
                shown.setdefault(MODELS[model], line)
        axis.set(title=SETS[data], xlabel="epoch", ylabel="validation AP (%)")
        axis.xaxis.get_major_locator().set_params(integer=True)
    figure.tight_layout()
    figure.legend(shown.values(), shown, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=4, fontsize=9)
    return figure


def draw_dims(pyplot: Any, newest: Mapping[str, Row], published: Published) -> Any:
    """AP against the length of positions."""
    columns, _ = columns_of("dims", newest)
    figure, axes = pyplot.subplots(1, len(columns), figsize=(4.2 * len(columns), 3.2), squeeze=False)
    for axis, data in zip(axes[0], columns, strict=True):
        for figure_name, half in HALVES.items():
            cells = {d: cell(model, data, figure_name, newest, published) for d, model in DIMS.items()}
            solid = figure_name == "all"
            have = [d for d, one in cells.items() if one.mean is not None]
            axis.errorbar(
                have,
                [cells[d].mean for d in have],
                yerr=[cells[d].std or 0.0 for d in have],
                color=OURS,
                marker="o",
                markerfacecolor=OURS if solid else "white",
                linestyle="-" if solid else "--",
                capsize=3,
                label=f"ours, {half.lower()}",
            )
            told = {d: one.paper for d, one in cells.items() if one.paper is not None}
            axis.errorbar(
                list(told),
                [mean for mean, _ in told.values()],
                yerr=[std for _, std in told.values()],
                color=PAPER,
                marker="s",
                markerfacecolor=PAPER if solid else "white",
                linestyle="none",
                capsize=3,
                label=f"paper, {half.lower()}",
            )
        axis.set(title=SETS[data], xlabel="d", ylabel="AP (%)", xticks=list(DIMS))
    _legend_below(figure, axes[0][0])
    return figure


def draw_time(pyplot: Any, newest: Mapping[str, Row], published: Published) -> Any:
    """Processor seconds per epoch of every model, logarithmic; PINT's with and without updating positions."""
    columns, _ = columns_of("time", newest)
    figure, axes = pyplot.subplots(1, len(columns), figsize=(3.6 * len(columns), 3.2), squeeze=False)
    for axis, data in zip(axes[0], columns, strict=True):
        names, values, rest = [], [], []
        for model in reversed(LAYOUT["time"][0]):
            row = next(rows_of("time", model, data, newest), None)
            if row is not None and row["ended"] != "failed":
                names.append(MODELS[model])
                values.append(row["epoch_processor"])
                rest.append(row["epoch_processor"] - row["positions_processor"])
        axis.barh(names, values, color=ACCENT, label="updating positions")
        axis.barh(names, rest, color=OURS, label="all the rest")
        for place, value in enumerate(values):
            axis.text(value * 1.05, place, f"{value:.3g}", va="center", fontsize=8)
        axis.set(title=SETS[data], xlabel="processor seconds per epoch", xscale="log")
        axis.set_xlim(10 ** math.floor(math.log10(min(values))), max(values) * 2.5)
        axis.grid(axis="y", visible=False)
    figure.tight_layout()
    _legend_below(figure, axes[0][0])
    return figure


def _legend_below(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=4, fontsize=9)


def draw_nodes(pyplot: Any, newest: Mapping[str, Row], published: Published) -> Any:
    """AUC of node classification, the paper's beside ours."""
    columns, _ = columns_of("nodes", newest)
    figure, axes = pyplot.subplots(1, len(columns), figsize=(5.2 * len(columns), 3.0), squeeze=False)
    for axis, data in zip(axes[0], columns, strict=True):
        cells = [cell(model, data, "auc", newest, published) for model in reversed(LAYOUT["nodes"][0])]
        places = range(len(cells))
        style = {"height": 0.38, "capsize": 3}
        axis.barh(
            [k + 0.2 for k in places], [one.mean or 0.0 for one in cells], xerr=[one.std or 0.0 for one in cells],
            color=OURS, label="ours", **style,
        )  # fmt: skip
        axis.barh(
            [k - 0.2 for k in places], [one.paper[0] if one.paper else 0.0 for one in cells],
            xerr=[one.paper[1] if one.paper else 0.0 for one in cells], color="#d0d7de", label="paper", **style,
        )  # fmt: skip
        axis.set(title=SETS[data], xlabel="AUC (%)", xlim=(50, 100), yticks=list(places))
        axis.set_yticklabels([MODELS[one.model] for one in cells])
        axis.grid(axis="y", visible=False)
    _legend_below(figure, axes[0][0])
    return figure


DRAWN = {
    "curves": ("table1", draw_curves),
    "dims": ("dims", draw_dims),
    "time": ("time", draw_time),
    "nodes": ("nodes", draw_nodes),
}
"""Every figure: the table that it shows, and how."""
