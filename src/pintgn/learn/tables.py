"""Figures as text: the same table on the command line and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pintgn.learn.metrics import Metrics, mean_and_std

if TYPE_CHECKING:
    from pintgn.learn.run import Run

HEADS = {"ap": "AP", "chunked_ap": "AP (200-row chunks)", "auc": "AUC", "mrr": "MRR"}
GROUPS = {"all": "all", "seen": "seen nodes", "new": "new nodes"}


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns of text, the first `left` of them aligned left.

    >>> print(text_table(["model", "AP"], [["pint", "97.20"], ["edgebank", "7.1"]]))
    model        AP
    ────────  ─────
    pint      97.20
    edgebank    7.1
    """
    widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.ljust(w) if k < left else cell.rjust(w) for k, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join([line(heads), "  ".join("─" * w for w in widths), *map(line, rows)])


def figures_table(rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Figures by row, group and name, in percent; a pair is mean ± standard deviation, None is a dash."""
    first = next(iter(next(iter(rows.values())).values()))
    names = [name for name in first if name != "events"]
    lines = []
    for model, groups in rows.items():
        for k, (group, metrics) in enumerate(groups.items()):
            cells = [percent(metrics[name]) for name in names]
            lines.append([model if k == 0 else "", GROUPS.get(group, group), count(metrics["events"]), *cells])
    heads = ["", "", "events", *(HEADS.get(name, name.capitalize()) for name in names)]
    return text_table(heads, lines, left=2)


def percent(value: Any) -> str:
    """A share in percent.

    >>> percent(0.97213), percent((0.9, 0.012)), percent(None)
    ('97.21', '90.00 ± 1.20', '-')
    """
    if value is None:
        return "-"
    return " ± ".join(f"{100 * v:.2f}" for v in value) if isinstance(value, tuple) else f"{100 * value:.2f}"


def count(value: Any) -> str:
    value = value[0] if isinstance(value, tuple) else value
    return "-" if value is None else f"{round(value):,}"


def epoch_line(entry: Mapping[str, Any], epochs: int) -> str:
    """An epoch in one line."""
    val = entry["val"]

    def figure(value: float | None) -> str:
        return "  -  " if value is None else f"{value:.3f}"

    return (
        f"epoch {entry['epoch']}/{epochs}  loss {entry['loss']:.3f}  val AP {figure(val['all']['ap'])}  "
        f"new-node AP {figure(val['new']['ap'])}  {entry['events_per_second']:,.0f} events/s  {entry['seconds']:.1f} s"
    )


def run_table(run: Run) -> str:
    """A run's result, with the training-free rows beside it."""
    if not run.test:
        return repr(run) if run.judges_links else f"{run!r} embeds nodes: pintgn evaluate RUN --classify"
    rows = {run.settings.name: run.test} | run.heuristics
    paper = ", measured as in the paper" if run.settings.train.protocol == "paper" else ""
    title = f"Test part, random negatives{paper}; epoch {run.best_epoch} of {len(run.history)} chosen on validation"
    return f"{title}\n\n{figures_table(rows)}"


def several_table(runs: Sequence[Run]) -> str:
    """Mean and standard deviation over runs that differ in their seed."""
    first = runs[0]
    rows: dict[str, Any] = {first.settings.name: mean_of([run.test for run in runs])} | first.heuristics
    return f"Test part, random negatives; mean ± standard deviation of {len(runs)} runs\n\n{figures_table(rows)}"


def mean_of(several: Sequence[Mapping[str, Metrics]]) -> dict[str, Any]:
    """Mean and standard deviation of every figure, by group."""
    return {group: mean_and_std([one[group] for one in several]) for group in several[0]}
