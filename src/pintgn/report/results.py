"""Report on runs that score links: results, differences, scores, test time, failures."""

from __future__ import annotations

from collections.abc import Sequence

from pintgn.formatting import plural, signed
from pintgn.learn.metrics import CHUNK
from pintgn.report import charts, slices
from pintgn.report.figures import GROUPS, RANKING, Difference, Figure, Figures
from pintgn.report.headline import best_row, headline, negatives_of, summary, tiles
from pintgn.report.labels import percent
from pintgn.report.markup import card, cells, grid, lead, legend, table, text, wide
from pintgn.report.study import MOST, Content, Row, Study

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


def content(figures: Figures) -> Content:
    """Contents of a report about links; a model that only embeds nodes has no figures."""
    study = figures.study
    if not study.models:
        names = ", ".join(row.name for row in study.trained)
        advice = ["It does not score links. Its embeddings: pintgn embed RUN -o vectors.parquet."]
        return Content(study, f"{names} embeds nodes", advice, figures.to_dict())
    sections = {
        "Results": results(figures),
        "Differences": differences(figures),
        "Scores": scores(figures),
        "Over time": over_time(figures),
        "Where it fails": failures(figures),
    }
    return Content(
        study, headline(figures), summary(figures), figures.to_dict(), sections, tiles(figures), notes(study)
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
    return (
        lead(SPREAD if has_spread else "In percent. The test part is too short for a spread.")
        + row_legend(figures)
        + grid(*drawings)
        + wide("True links against negatives", table(charts.heads(PRECISION), body))
        + wide(f"Ranking among {others}", table(charts.heads(RANKS), _rows(figures, RANKING, RANKS)))
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
    words = (
        "Paired differences in percentage points, on the same events and the same negatives; if the interval contains "
        "zero, this test part cannot tell which row is better."
    )
    kinds = [*figures.study.drawn, RANKING]
    heads = ["", *(f"{'AP' if kind != RANKING else 'MRR'}<br><small>{text(kind)}</small>" for kind in kinds)]
    body = ""
    for first, second in pairs:
        found = [figures.find(first, second, kind, "mrr" if kind == RANKING else "ap") for kind in kinds]
        body += cells([f"{text(first)} <small>minus</small> {text(second)}", *map(_difference, found)])
    return lead(words) + grid(*drawings) + wide("", table(heads, body))


def _difference(d: Difference | None) -> str:
    if d is None:
        return "–"
    kind = "" if not d.is_clear else "good" if d.value > 0 else "bad"
    interval = "" if d.low is None else f"<small class=below>{signed(d.low)} to {signed(d.high)}</small>"
    return f'<span class="{kind}">{signed(d.value)}</span>{interval}'


# -- scores ----------------------------------------------------------------------------------------------------------


def scores(figures: Figures) -> str:
    study = figures.study
    key = [("yes", "true links"), ("no", negatives_of(study.main))]
    key += [("maybe", "historical negatives")] if len(study.kinds("historical")) > 1 else []
    rows = study.models[:5]
    drawings = [card(f"Scores of {row.name}", charts.score_histogram(study, row), legend=legend(key)) for row in rows]
    drawn = charts.reliability(study, following=False)
    if drawn is not None:
        recorded, following = [row.runs[0].calibration_error for row in rows], [figures.next_error(row) for row in rows]
        drawings.append(_calibration("against one random destination", drawn, rows, recorded, study))
        drawings.append(
            _calibration("of what comes next", charts.reliability(study, following=True), rows, following, study)
        )
        drawings.append(threshold_table(figures))
    return lead("The less the histograms overlap, the better; each row is drawn by its first run.") + grid(*drawings)


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
        return ""
    edges = charts.stretches(len(study.events))
    events = plural(int(edges[1] - edges[0]), "consecutive event")
    words = f"Each dot is the AUC over {events}; models observe the events but are not trained again."
    return lead(words) + row_legend(figures) + grid(*drawings)


# -- failures --------------------------------------------------------------------------------------------------------


def failures(figures: Figures) -> str:
    study = figures.study
    prior = slices.prior_history(study)
    times = {
        "How long ago the two last met": ("time since the two last met", prior.apart, "never met"),
        "How long the source has been inactive": ("time since the source's last event", prior.src_idle, "new"),
    }
    groups = {
        "How active the destination has been": ("earlier events of the destination", slices.by_count(prior.dst_events)),
        "How active the source has been": ("earlier events of the source", slices.by_count(prior.src_events)),
    } | {title: (label, slices.by_time(values, study.log, never)) for title, (label, values, never) in times.items()}
    drawings = [
        card(title, charts.by_slice(study, parts, label, figures.blocks)) for title, (label, parts) in groups.items()
    ]
    words = "Events grouped by what was known strictly before each of them; hover for numbers."
    return lead(words) + row_legend(figures) + grid(*drawings)


def notes(study: Study) -> str:
    others = plural(study.candidates, "other destination")
    definitions = {
        "Test part.": "The last events of the log. Each is scored by what came strictly before it, and then observed. "
        f"Of more than {MOST:,} events, stretches of {CHUNK} at even distances are scored.",
        "AP, AUC.": "AUC: how often a true link scores above a negative. AP: precision averaged over all true links.",
        "MRR, Hits@k.": f"Each true destination is ranked among {others} that its source does not meet at that time. "
        "MRR is the mean of 1 / rank; Hits@k is the share of ranks ≤ k.",
        "Seen and new.": "New events have a node that was not seen in training; which are hidden depends on the seed.",
        "Against one random destination.": "The probability of this link if it and one to a random destination were "
        "equally likely beforehand. It is no forecast.",
        "What comes next.": "A softmax over the ranked destinations, its slope fitted on validation.",
    }
    body = "".join(f"<p><strong>{text(name)}</strong> {text(words)}</p>" for name, words in definitions.items())
    return f'<div class="notes">{body}</div>'
