"""Report sections on quality: results, differences, learning, scores, test time, positions, failures."""

from __future__ import annotations

from collections.abc import Sequence

from pintgn.formatting import plural, signed
from pintgn.report import charts, slices
from pintgn.report.figures import GROUPS, RANKING, Difference, Figure, Figures
from pintgn.report.headline import best_row, negatives_of
from pintgn.report.labels import percent
from pintgn.report.markup import card, cells, empty, grid, legend, section, table, text, wide
from pintgn.report.study import Row, Study

KINDS = {
    "random": "random: a destination drawn from all destinations of the log",
    "historical": "historical: a pair that met before, but not within these 200 events",
    "inductive": "inductive: a pair that first met during the test, but not within these 200 events",
    "per-event": "per-event: a destination that the same source met before, but not now",
}
PRECISION = [*((group, "ap") for group in GROUPS), *((group, "auc") for group in GROUPS), ("all", "chunked_ap")]
RANKS = [*((group, "mrr") for group in GROUPS), *(("all", f"hits@{k}") for k in (1, 3, 10))]
THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 0.99)
SPREAD = (
    "In percent; the best of each column is bold. ± is the standard deviation over the seeds of a row, or, for one "
    "run, the standard error of a bootstrap over blocks of test events, without the randomness of training."
)


def row_legend(figures: Figures, rows: Sequence[Row] | None = None) -> str:
    colors = charts.series(figures.study)
    return legend([(colors[row.name], row.name) for row in (figures.study.scoring if rows is None else rows)])


# -- results ---------------------------------------------------------------------------------------------------------


def results(figures: Figures) -> str:
    study = figures.study
    others = plural(study.candidates, "other destination")
    novelty = charts.by_novelty(figures, study.main, "ap")
    has_spread = any(figures.spread_of(row) != "none" for row in study.scoring)
    drawings = [
        card("By kind of negatives", charts.by_negatives(figures), "AP; further right is better."),
        card("Seen and new nodes", novelty, "New: one end of the link was not seen in training."),
        card("Ranking", charts.by_novelty(figures, RANKING, "mrr"), f"Mean reciprocal rank among {others}."),
    ]
    body = ""
    for kind, drawn in study.drawn.items():
        random = drawn.fallback_fraction
        note = f" · {percent(random, 1)} % random, where there was no such pair" if random else ""
        title = f"<span>{text(KINDS.get(kind, kind))}<small>{note}</small></span>"
        body += f'<tbody><tr class="block"><th colspan="{len(PRECISION) + 1}">{title}</th></tr>'
        body += _rows(figures, kind, PRECISION) + "</tbody>"
    return section(
        "results",
        "Results",
        SPREAD if has_spread else "In percent. The test part is too short for a spread.",
        row_legend(figures),
        grid(*drawings),
        wide("True links against negatives", table(charts.heads(PRECISION), body)),
        wide(f"Ranking among {others}", table(charts.heads(RANKS), _rows(figures, RANKING, RANKS))),
    )


def _rows(figures: Figures, kind: str, columns: list[tuple[str, str]]) -> str:
    rows, colors = figures.study.scoring, charts.series(figures.study)
    values = {row.name: [figures.table[row.name][kind][group][metric] for group, metric in columns] for row in rows}
    best = [max((values[row.name][k].value or -1.0 for row in rows), default=-1.0) for k in range(len(columns))]

    def cell(figure: Figure, top: float) -> str:
        if figure.value is None:
            return "<td>–</td>"
        spread = "" if figure.spread is None else f" <small>± {percent(figure.spread)}</small>"
        return (
            f"<td{' class=best' if len(rows) > 1 and figure.value >= top else ''}>{percent(figure.value)}{spread}</td>"
        )

    body = ""
    for row in rows:
        shown = "".join(map(cell, values[row.name], best))
        runs = f" <small>{len(row.members)} runs</small>" if len(row.members) > 1 else ""
        name = f'<span class="{colors[row.name]}"><i class="key"></i></span>{text(row.name)}{runs}'
        body += f"<tr{'' if row.is_trained else ' class=free'}><th>{name}</th>{shown}</tr>"
    return body


# -- differences -----------------------------------------------------------------------------------------------------


def differences(figures: Figures) -> str:
    pairs = list(dict.fromkeys((d.first, d.second) for d in figures.differences))
    if not pairs:
        return ""
    drawings = [card(f"{a} minus {b}", charts.differences(figures, a, b)) for a, b in pairs[:9]]
    lead = (
        "Paired differences in percentage points, on the same events and the same negatives; if the interval contains "
        "zero, this test part cannot tell which row is better."
    )
    kinds = [*figures.study.drawn, RANKING]
    heads = ["", *(f"{'AP' if kind != RANKING else 'MRR'}<br><small>{text(kind)}</small>" for kind in kinds)]
    body = ""
    for first, second in pairs:
        found = [figures.find(first, second, kind, "mrr" if kind == RANKING else "ap") for kind in kinds]
        body += cells([f"{text(first)} <small>minus</small> {text(second)}", *map(_difference, found)])
    return section("differences", "Differences", lead, grid(*drawings), wide("", table(heads, body)))


def _difference(d: Difference | None) -> str:
    if d is None:
        return "–"
    kind = "" if not d.is_clear else "good" if d.value > 0 else "bad"
    interval = "" if d.low is None else f"<small class=below>{signed(d.low)} to {signed(d.high)}</small>"
    return f'<span class="{kind}">{signed(d.value)}</span>{interval}'


# -- learning --------------------------------------------------------------------------------------------------------


def learning(figures: Figures) -> str:
    study = figures.study
    loss = charts.loss(study)
    if loss is None:
        why = "This model is not trained in epochs, so there is no learning curve."
        return section("learning", "Learning", "", grid(empty("Learning curves", why)))
    drawings = [card("Training loss", loss)]
    if (whole := charts.validation(study)) is not None:
        drawings.append(card("Validation, all events", whole, "A ring marks the best epoch, which is kept."))
    new = charts.validation(study, "new")
    note = "Only events with a node that was not seen in training."
    drawings.append(
        card("Validation, new nodes", new, note, why="Every node of a validation event was seen in training.")
    )
    trained = [row for row in study.trained if any(run.history for run in row.runs)]
    return section("learning", "Learning", "", row_legend(figures, trained), grid(*drawings))


# -- scores ----------------------------------------------------------------------------------------------------------


def scores(figures: Figures) -> str:
    study = figures.study
    key = [("yes", "true links"), ("no", negatives_of(study.main))]
    key += [("maybe", "historical negatives")] if len(study.kinds("historical")) > 1 else []
    rows = study.models[:5]
    drawings = [card(f"Scores of {row.name}", charts.score_histogram(study, row), legend=legend(key)) for row in rows]
    drawn = charts.reliability(study)
    if drawn is not None:
        recorded, following = [row.runs[0].calibration_error for row in rows], [figures.next_error(row) for row in rows]
        drawings.append(_calibration("against one random destination", drawn, rows, recorded, study))
        drawings.append(_calibration("of what comes next", charts.next_reliability(study), rows, following, study))
        drawings.append(threshold_table(figures))
    lead = "The less the histograms overlap, the better; each row is drawn by its first run."
    return section("scores", "Scores and probabilities", lead, grid(*drawings))


def _calibration(
    title: str, drawn: str | None, rows: Sequence[Row], errors: Sequence[float | None], study: Study
) -> str:
    colors = charts.series(study)
    key = legend([(colors[row.name], f"{row.name} {percent(e, 1)}") for row, e in zip(rows, errors, strict=True)])
    note = "On the diagonal, 80 % means 80 %. With each name, the expected calibration error in points."
    return card(f"Calibration {title}", drawn, note, key)


def threshold_table(figures: Figures) -> str:
    """Recall and false positives of a threshold on the probability."""
    study, row = figures.study, best_row(figures)
    one = row.members[0]
    assert one.calibration is not None
    kinds = study.kinds("historical")
    heads = ["against one<br>random", "recall", *(f"false positives,<br>{text(kind)}" for kind in kinds)]
    body = ""
    for least in THRESHOLDS:
        links = [one.scores[study.main].positive, *(one.scores[kind].negative for kind in kinds)]
        shares = [float((one.calibration(logits) >= least).mean()) for logits in links]
        body += cells([f"≥ {percent(least, 0)}", *(percent(share, 1) for share in shares)])
    note = f"Links at or above a probability by {text(row.name)}, in percent of true links and of negatives."
    return f'<div class="tables">{card("Choosing a threshold", table(heads, body), note)}</div>'


# -- test time -------------------------------------------------------------------------------------------------------


def over_time(figures: Figures) -> str:
    study = figures.study
    drawn = {kind: charts.through_test(study, kind) for kind in study.kinds("historical", "per-event")}
    drawings = [card(f"Against {negatives_of(kind)}", svg) for kind, svg in drawn.items() if svg is not None]
    if not drawings:
        why = "The test part is too short to be cut into stretches of 25 events."
        return section("time", "Over the test period", "", grid(empty("AUC over time", why)))
    edges = charts.stretches(len(study.events))
    events = plural(int(edges[1] - edges[0]), "consecutive event")
    lead = f"Each dot is the AUC over {events}; models observe the events but are not trained again."
    return section("time", "Over the test period", lead, row_legend(figures), grid(*drawings))


# -- positions -------------------------------------------------------------------------------------------------------


def positions(figures: Figures) -> str:
    title = "Effect of positions"
    drawings = []
    for row, other in figures.ablations:
        note = "Two models, trained with and without positions: what positions are worth."
        drawn = charts.differences(figures, row.name, other.name)
        drawings.append(card(f"{row.name} minus {other.name}", drawn, note))
    if not drawings:
        why = "What positions are worth takes two runs in one report, with and without them."
        how = "The second run: <code>pintgn train DATA --set model.positions=0</code>."
        drawings.append(empty("With and without positions", why, how))
    return section("positions", title, "", grid(*drawings))


# -- failures --------------------------------------------------------------------------------------------------------


def failures(figures: Figures) -> str:
    study = figures.study
    prior = slices.prior_history(study)
    times = {
        "How long ago the two last met": ("time since the two last met", prior.apart, "never met"),
        "How long the destination has been known": ("age of the destination", prior.dst_age, "new"),
        "How long the source has been known": ("age of the source", prior.src_age, "new"),
        "How long the source has been inactive": ("time since the source's last event", prior.src_idle, "new"),
    }
    groups = {
        "How active the destination has been": ("earlier events of the destination", slices.by_count(prior.dst_events)),
        "How active the source has been": ("earlier events of the source", slices.by_count(prior.src_events)),
    } | {title: (label, slices.by_time(values, study.log, never)) for title, (label, values, never) in times.items()}
    drawings = [
        card(title, charts.by_slice(study, parts, label, figures.blocks)) for title, (label, parts) in groups.items()
    ]
    lead = "Events grouped by what was known strictly before each of them; hover for numbers."
    return section("failures", "Where it fails", lead, row_legend(figures), grid(*drawings))
