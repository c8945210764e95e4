"""Headline of a report: the best trained row, compared with the best training-free row."""

from __future__ import annotations

from functools import partial

from pintgn.formatting import plural, signed
from pintgn.learn.figures_text import refit_text
from pintgn.report.figures import RANKING, Difference, Figures
from pintgn.report.labels import percent
from pintgn.report.markup import text
from pintgn.report.study import Row

NEGATIVES = {
    "random": "a random one",
    "historical": "one that happened before but not now",
    "inductive": "one that first happened during the test",
    "per-event": "one to a destination that its source met before",
}


def negatives_of(kind: str) -> str:
    """The name of a kind of negatives."""
    return f"{kind} negatives" if kind in NEGATIVES else f"“{kind}”"


def best_row(figures: Figures) -> Row:
    """The trained row with the best AP against the leading kind of negatives."""
    return max(figures.study.models, key=partial(_leading, figures, "ap"))


def baseline(figures: Figures) -> Row | None:
    """The training-free row with the best AP."""
    return max(figures.study.baselines, key=partial(_leading, figures, "ap"), default=None)


def _leading(figures: Figures, metric: str, row: Row) -> float:
    return figures.table[row.name][figures.study.main]["all"][metric].value or 0.0


def headline(figures: Figures) -> str:
    """AUC of the best row, as a sentence."""
    row, main = best_row(figures), figures.study.main
    other = NEGATIVES.get(main, f"a negative ({main})")
    return f"{row.name} ranks the true link above {other} {percent(_leading(figures, 'auc', row), 1)} % of the time"


def summary(figures: Figures) -> list[str]:
    """The paired difference to the best training-free row, and which model is in use if it was trained again."""
    study, row, other = figures.study, best_row(figures), baseline(figures)
    line = f"Measured on {plural(len(study.events), 'event')}"
    if len(study.events) < study.of_events:
        line = f"Measured on {len(study.events):,} of {study.of_events:,} events, evenly taken,"
    line += " after its training part"
    difference = None if other is None else figures.find(row.name, other.name, study.main, "auc")
    if other is not None and difference is not None:
        theirs = percent(_leading(figures, "auc", other), 1)
        line += f"; without training, {other.name} gets {theirs} %, a difference of {compared(difference)}"
    return [f"{line}.", *(refit_text(run) for run in row.runs[:1] if run.refit)]


def compared(d: Difference) -> str:
    """A difference with its interval, and whether that contains zero.

    >>> compared(Difference("a", "b", "random", "all", "ap", 0.02, -0.01, 0.03, 500))
    '+2.0 points (95 % interval −1.0 to +3.0): the model is no better'
    """
    shown = f"{signed(d.value, 1)} points"
    if d.low is None or d.high is None:
        return f"{shown}, on too few events for an interval"
    verdict = "" if d.low > 0 else ": the model is worse" if d.high < 0 else ": the model is no better"
    return f"{shown} (95 % interval {signed(d.low, 1)} to {signed(d.high, 1)}){verdict}"


def tiles(figures: Figures) -> str:
    """Four figures of the best row, with those of the best training-free row."""
    row, other, study = best_row(figures), baseline(figures), figures.study
    has_new = figures.table[row.name][study.main]["new"]["ap"].value is not None
    second = ("AP, new nodes", "new", "ap") if has_new else (f"AUC, {negatives_of(study.main)}", "all", "auc")
    made = ""
    for title, kind, group, metric in (
        (f"AP, {negatives_of(study.main)}", study.main, "all", "ap"),
        (second[0], study.main, *second[1:]),
        ("AP, historical negatives", "historical", "all", "ap"),
        (f"MRR among {study.candidates}", RANKING, "all", "mrr"),
    ):
        if kind in study.drawn and study.drawn[kind].fallback_fraction == 1:
            continue  # no such pair: these are random ones
        figure = figures.table[row.name][kind][group][metric]
        spread = "" if figure.spread is None else f" <small>± {percent(figure.spread, 1)}</small>"
        theirs = None if other is None else figures.table[other.name][kind][group][metric]
        below = "" if theirs is None or other is None else f"<span>{text(other.name)} {percent(theirs.value, 1)}</span>"
        shown = f"<b>{percent(figure.value, 1)}{spread}</b>{below}"
        made += f'<div class="tile"><span class="what">{text(title)}</span>{shown}</div>'
    return f'<div class="tiles">{made}</div>'
