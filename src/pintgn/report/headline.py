"""Headline of a report: the best trained row, compared with the best training-free row."""

from __future__ import annotations

from functools import partial

from pintgn.formatting import plural, signed
from pintgn.learn.figures_text import refit_words
from pintgn.report.figures import Difference, Figures
from pintgn.report.labels import percent
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
    events = plural(len(study.events), "event")
    if len(study.events) < study.of_events:
        events = f"{len(study.events):,} of {study.of_events:,} events, evenly taken,"
    line = f"Measured on {events} after its training part"
    difference = None if other is None else figures.find(row.name, other.name, study.main, "auc")
    if other is not None and difference is not None:
        verb = "learning adds" if any(run.history for run in row.runs) else "it is better by"
        line += f"; without training, {other.name} gets {percent(_leading(figures, 'auc', other), 1)} %: "
        line += compared(difference, verb)
    return [f"{line}.", *(refit_words(run) for run in row.runs[:1] if run.refit)]


def compared(d: Difference, better: str) -> str:
    """A difference with its interval, and no difference if the interval contains zero.

    >>> compared(Difference("a", "b", "random", "all", "ap", 0.02, 0.01, 0.03, 500), "learning adds")
    'learning adds 2.0 points (95 % interval 1.0 to 3.0)'
    """
    if d.low is None or d.high is None:
        return f"a difference of {signed(d.value, 1)} points, on too few events for an interval"
    if not d.is_clear:
        return (
            f"the model is no better ({signed(d.value, 1)} points, 95 % interval {signed(d.low, 1)} to "
            f"{signed(d.high, 1)})"
        )
    verb, low, high = (better, d.low, d.high) if d.value > 0 else ("the model does worse by", -d.high, -d.low)
    return f"{verb} {percent(abs(d.value), 1)} points (95 % interval {percent(low, 1)} to {percent(high, 1)})"
