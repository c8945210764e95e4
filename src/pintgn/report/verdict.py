"""The page's findings in plain words, computed from its numbers."""

from __future__ import annotations

from functools import partial
from itertools import permutations

from pintgn.formatting import listed, plural, signed
from pintgn.learn.tables import refit_words
from pintgn.report.figures import RANKING, Difference, Figure, Figures
from pintgn.report.labels import percent
from pintgn.report.names import given_settings
from pintgn.report.slices import Slice, in_slice
from pintgn.report.study import Row

NEGATIVES = {
    "random": "a random one",
    "historical": "one that happened before but not now",
    "inductive": "one that first happened during the test",
    "per-event": "one to a destination that its source met before",
}


def negatives_of(kind: str) -> str:
    """What negatives of a kind are called."""
    return f"{kind} negatives" if kind in NEGATIVES else f"“{kind}”"


def best_row(figures: Figures) -> Row:
    """The trained row with the best AP against the leading kind of negatives."""
    return max(figures.study.models, key=partial(_leading_ap, figures))


def baseline(figures: Figures) -> Row | None:
    """The training-free row with the best AP."""
    return max(figures.study.baselines, key=partial(_leading_ap, figures), default=None)


def _leading_ap(figures: Figures, row: Row) -> float:
    return figures.table[row.name][figures.study.main]["all"]["ap"].value or 0.0


def headline(figures: Figures) -> str:
    """One line: how often the true link comes out on top."""
    row, main = best_row(figures), figures.study.main
    other = NEGATIVES.get(main, f"a negative ({main})")
    return f"{row.name} ranks the true link above {other} {percent(_auc(figures, row, main).value, 1)} % of the time"


def summary(figures: Figures) -> list[str]:
    """The paragraph below it: compared with what, how sure, how hard, for whom."""
    row, other = best_row(figures), baseline(figures)
    study = figures.study
    events = plural(len(study.events), "event")
    if len(study.events) < study.of_events:
        events = f"{len(study.events):,} of {study.of_events:,} events, evenly taken,"
    found = [f"Measured on {events} that came after everything it was trained on."]
    if other is not None:
        found.append(_beside(figures, row, other))
    found += [*_other_trained(figures, row), *_harder(figures, row), *_novelty(figures, row)]
    return [*found, *(refit_words(run) for run in row.runs[:1] if run.refit)]


def _auc(figures: Figures, row: Row, kind: str, group: str = "all") -> Figure:
    return figures.table[row.name][kind][group]["auc"]


def _beside(figures: Figures, row: Row, other: Row) -> str:
    main = figures.study.main
    theirs = percent(_auc(figures, other, main).value, 1)
    difference = figures.find(row.name, other.name, main, "auc")
    if difference is None:
        return ""
    learned = any(run.history for run in row.runs)
    words = ("learning adds" if learned else "it is better by", "the model does worse by", "the model is no better")
    return f"Without any training, {other.name} gets {theirs} %: {compared(difference, *words)}."


def compared(d: Difference, better: str, worse: str, neither: str) -> str:
    """A difference in words, with its interval, and plainly nothing where the interval holds zero.

    >>> d = Difference("a", "b", "random", "all", "ap", 0.02, 0.01, 0.03, 500)
    >>> compared(d, "a is better by", "a is worse by", "a is no better")
    'a is better by 2.0 points (95 % interval 1.0 to 3.0)'
    """
    if d.low is None or d.high is None:
        return f"a difference of {signed(d.value, 1)} points, on too few events to say more"
    low, high = (d.low, d.high) if d.value >= 0 else (-d.high, -d.low)
    if not d.clear:
        return f"{neither} ({signed(d.value, 1)} points, 95 % interval {signed(d.low, 1)} to {signed(d.high, 1)})"
    verb = better if d.value > 0 else worse
    return f"{verb} {abs(100 * d.value):.1f} points (95 % interval {percent(low, 1)} to {percent(high, 1)})"


def _other_trained(figures: Figures, row: Row) -> list[str]:
    main = figures.study.main
    others = [other for other in figures.study.models if other.name != row.name]
    if not others:
        return []
    results = [f"{other.name} gets {percent(_auc(figures, other, main).value, 1)} %" for other in others]
    return [f"By comparison, {listed(results)}."]


def _harder(figures: Figures, row: Row) -> list[str]:
    study, found = figures.study, []
    if "historical" in study.drawn and study.drawn["historical"].fallback_fraction < 0.5:
        values = {one.name: _auc(figures, one, "historical").value or 0.0 for one in study.scoring}
        mine, top = values[row.name], max(values, key=lambda name: values[name])
        harder = " (a harder test)" if mine < (_auc(figures, row, study.main).value or 0.0) else ""
        better = f"; {top} gets {percent(values[top], 1)} %" if values[top] > mine else ""
        found.append(f"Against pairs that met before but not at that time{harder} it is {percent(mine, 1)} %{better}.")
    first = figures.table[row.name][RANKING]["all"]["hits@1"].value
    if first is not None:
        found.append(
            f"Among {plural(study.candidates, 'other destination')} the true one comes first "
            f"{percent(first, 0)} % of the time."
        )
    return found


def _novelty(figures: Figures, row: Row) -> list[str]:
    seen, new = (_auc(figures, row, figures.study.main, group) for group in ("seen", "new"))
    if not new.events:
        return ["Every node of a test event was seen in training."]
    if not seen.events:
        return ["Every test event involves a node that was not seen in training."]
    if new.value is None or seen.value is None:
        few, what = (seen, "two seen nodes") if seen.value is None else (new, "a node that was not seen in training")
        return [f"Only {plural(few.events, 'test event')} with {what}: too few for a figure of their own."]
    share = percent(new.events / len(figures.study.events), 0)
    return [
        f"For the {share} % of events with a node that was not seen in training it is {percent(new.value, 1)} %, "
        f"for the others {percent(seen.value, 1)} %."
    ]


def over_kinds(found: dict[str, Difference], main: str, better: str, worse: str, neither: str) -> str:
    """A difference against the leading kind of negatives, and against those where it is clearly the other way round."""
    words = f"against {negatives_of(main)} {compared(found[main], better, worse, neither)}"
    turned = [d for kind, d in found.items() if kind != main and d.clear and d.value * found[main].value < 0]
    if not turned:
        return words
    verb = better if turned[0].value > 0 else worse
    kinds = listed([d.kind for d in turned])
    return f"{words}, but against {kinds} negatives {verb} {listed([f'{abs(100 * d.value):.1f}' for d in turned])}"


def ablations(figures: Figures) -> list[tuple[Row, Row]]:
    """Pairs of rows whose settings differ in nothing but that the second has no positions."""
    found = []
    for row, other in permutations(figures.study.models, 2):
        mine, theirs = given_settings(row.runs[0]), given_settings(other.runs[0])
        differ = {key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)}
        if differ == {"model.positions"} and mine["model.positions"] and not theirs["model.positions"]:
            found.append((row, other))
    return found


def weakest(figures: Figures, row: Row, slices: dict[str, list[Slice]]) -> str:
    """The slice that is ranked worst: the lowest MRR among slices with at least a twentieth of the events."""
    least = max(len(figures.study.events) / 20, 1)
    found = [
        (in_slice(row, part, figures.blocks)[0], label, part)
        for label, parts in slices.items()
        if len(parts) > 1
        for part in parts
        if part.events >= least
    ]
    if not found:
        return ""
    value, label, part = min(found, key=lambda one: one[0])
    whole = figures.table[row.name][RANKING]["all"]["mrr"].value
    return (
        f"{row.name} is weakest where “{label}” is {part.label}: MRR {percent(value, 1)} % over "
        f"{plural(part.events, 'event')}, against {percent(whole, 1)} % over all."
    )
