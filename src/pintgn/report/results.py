"""The sections about how good the rows are: results, differences, learning, scores, test time, positions, failures."""

from __future__ import annotations

from pintgn.formatting import count, listed, plural, signed
from pintgn.report import charts, slices
from pintgn.report.figures import RANKING, Difference, Figure, Figures
from pintgn.report.html import card, card_or_why, cells, empty, grid, id_cells, legend, section, table, text, wide
from pintgn.report.study import Row
from pintgn.report.verdict import ablations, best_row, links, over_kinds, weakest
from pintgn.report.words import percent

KINDS = {
    "random": "random: a destination drawn from all destinations of the log",
    "historical": "historical: a pair that met before, but not in this stretch of 200 events",
    "inductive": "inductive: a pair that first met during the test, but not in this stretch",
    "per-event": "per-event: a destination that the same source met before, but not now",
}


def row_legend(figures: Figures, only: list[Row] | None = None) -> str:
    colors = charts.series(figures.study)
    return legend([(colors[row.name], row.name) for row in (figures.study.scoring if only is None else only)])


def figure_cell(figure: Figure, best: bool = False) -> str:
    if figure.value is None:
        return "<td>–</td>"
    spread = "" if figure.spread is None else f" <small>± {percent(figure.spread)}</small>"
    return f"<td{' class=best' if best else ''}>{percent(figure.value)}{spread}</td>"


# -- results ---------------------------------------------------------------------------------------------------------


def results(figures: Figures) -> str:
    study = figures.study
    drawings = [
        card("Against each kind of wrong link", charts.by_negatives(figures), "Further right is better. AP."),
        card(
            "For nodes it was trained on, and new ones",
            charts.by_novelty(figures, study.main, "ap"),
            "New: an end of the link was never trained on.",
        ),
        card(
            "Finding the right one among many",
            charts.by_novelty(figures, RANKING, "mrr"),
            f"Mean reciprocal rank among {plural(study.candidates, 'other destination')}.",
        ),
    ]
    return section(
        "results",
        "Results",
        spread_words(figures),
        row_legend(figures),
        grid(*drawings),
        wide("Telling true links from wrong ones", precision_table(figures)),
        wide(f"Ranking among {plural(study.candidates, 'other destination')}", ranking_table(figures)),
    )


def spread_words(figures: Figures) -> str:
    """What ± means on this page."""
    kinds = {figures.spread_of(row) for row in figures.study.scoring}
    said = []
    if "seeds" in kinds:
        most = max(len(row.members) for row in figures.study.scoring)
        said.append(f"the standard deviation over seeds where a row has several runs (up to {most})")
    if "blocks" in kinds:
        blocks = figures.blocks.count
        said.append(f"the standard error for one run, from a bootstrap over {blocks} blocks of consecutive test events")
    if not said:
        return "Percent. The test part is too short to say how far a figure might be off."
    covers = " That does not cover the randomness of training." if kinds == {"blocks"} else ""
    return f"Percent; the best of each column is bold. ± is {listed(said)}.{covers}"


EACH = ("all", "seen", "new")
PRECISION = [*((group, "ap") for group in EACH), *((group, "auc") for group in EACH), ("all", "chunked_ap")]
RANKS = [*((group, "mrr") for group in EACH), *(("all", f"hits@{k}") for k in (1, 3, 10))]


def precision_table(figures: Figures) -> str:
    body = ""
    for kind, drawn in figures.study.drawn.items():
        fell = drawn.fallback_fraction
        note = f" · {percent(fell, 1)} % random for want of others" if fell else ""
        title = f"<span>{text(KINDS.get(kind, kind))}<small>{note}</small></span>"
        body += f'<tbody><tr class="block"><th colspan="{len(PRECISION) + 1}">{title}</th></tr>'
        body += _rows(figures, kind, PRECISION) + "</tbody>"
    return table(charts.heads(PRECISION), body)


def ranking_table(figures: Figures) -> str:
    return table(charts.heads(RANKS), _rows(figures, RANKING, RANKS))


def _rows(figures: Figures, kind: str, columns: list[tuple[str, str]]) -> str:
    rows, colors = figures.study.scoring, charts.series(figures.study)
    values = {row.name: [figures.table[row.name][kind][group][metric] for group, metric in columns] for row in rows}
    best = [max((values[row.name][k].value or -1.0 for row in rows), default=-1.0) for k in range(len(columns))]
    body = ""
    for row in rows:
        shown = "".join(
            figure_cell(figure, len(rows) > 1 and figure.value is not None and figure.value >= best[k])
            for k, figure in enumerate(values[row.name])
        )
        several = f" <small>{len(row.members)} runs</small>" if len(row.members) > 1 else ""
        name = f'<span class="{colors[row.name]}"><i class="key"></i></span>{text(row.name)}{several}'
        body += f"<tr{'' if row.trained else ' class=free'}><th>{name}</th>{shown}</tr>"
    return body


# -- differences -----------------------------------------------------------------------------------------------------


def differences(figures: Figures) -> str:
    pairs = list(dict.fromkeys((d.first, d.second) for d in figures.differences))
    if not pairs:
        return ""
    drawings = [
        card(f"{first} minus {second}", charts.differences(figures, first, second)) for first, second in pairs[:9]
    ]
    lead = (
        "The same events, the same wrong links, drawn alike: <strong>paired</strong> differences in points. "
        "Right of zero the first row is better; a line that crosses zero means that this test part cannot tell. "
        "Where rows have several runs, they are averaged first."
    )
    return section("differences", "Side by side", lead, grid(*drawings), wide("", difference_table(figures, pairs)))


def difference_table(figures: Figures, pairs: list[tuple[str, str]]) -> str:
    kinds = [*figures.study.drawn, RANKING]
    heads = ["", *(f"{'AP' if kind != RANKING else 'MRR'}<br><small>{text(kind)}</small>" for kind in kinds)]
    body = ""
    for first, second in pairs:
        shown = []
        for kind in kinds:
            found = figures.find(first, second, kind, "mrr" if kind == RANKING else "ap")
            shown.append("–" if found is None else difference_words(found))
        body += cells([f"{text(first)} <small>minus</small> {text(second)}", *shown])
    return table(heads, body)


def difference_words(d: Difference) -> str:
    kind = "" if not d.clear else "good" if d.value > 0 else "bad"
    interval = "" if d.low is None else f"<small class=below>{signed(d.low)} to {signed(d.high)}</small>"
    return f'<span class="{kind}">{signed(d.value)}</span>{interval}'


# -- learning --------------------------------------------------------------------------------------------------------


def learning(figures: Figures) -> str:
    study = figures.study
    runs = [(row, run) for row in study.trained for run in row.runs]
    loss = charts.loss(study)
    if loss is None:
        why = "There is nothing to learn step by step in this model, so there is no learning curve."
        return section("learning", "Learning", "", grid(empty("Learning curves", why)))
    said = []
    for row, run in runs[:4]:
        if not run.history:
            continue
        name = text(row.name) + (f", seed {run.seed}" if len(row.runs) > 1 else "")
        last = run.history[-1]["epoch"]
        late = " – the last one, so more epochs may still help" if run.best_epoch == last else ""
        said.append(f"<strong>{name}</strong>: epoch {run.best_epoch} of {last} was best on validation{late}.")
    drawings = [card("Training loss", loss)]
    if (whole := charts.validation(study)) is not None:
        drawings.append(card("Validation, all events", whole, "A ring marks the epoch that was chosen and tested."))
    note, none = (
        "Only events with a node that was not trained on.",
        "No validation event touches a node that was not trained on.",
    )
    drawings.append(card_or_why("Validation, new nodes", charts.validation(study, "new"), note, none))
    trained = [row for row in study.trained if any(run.history for run in row.runs)]
    return section("learning", "Learning", " ".join(said), row_legend(figures, trained), grid(*drawings))


# -- scores ----------------------------------------------------------------------------------------------------------


def scores(figures: Figures) -> str:
    study = figures.study
    key = [("yes", "true links"), ("no", links(study.main))]
    key += [("maybe", "historical links")] if len(study.kinds("historical")) > 1 else []
    rows = [row for row in study.scoring if row.trained][:5]
    drawings = [card(f"Scores of {row.name}", charts.score_histogram(study, row), legend=legend(key)) for row in rows]
    said = "The further apart the shapes, the better."
    drawn = charts.reliability(study)
    if drawn is not None:
        note = "On the diagonal, 80 % means 80 %. Against as many negatives as true links."
        drawings.append(card("Calibration", drawn, note, row_legend(figures, rows)))
        errors = [
            f"{text(row.name)} {percent(run.calibration_error, 1)}"
            for row in rows
            for run in row.runs[:1]
            if run.calibration_error is not None
        ]
        if errors:
            said += (
                f" Expected gap between probability and frequency, as recorded in training: {listed(errors)} points."
            )
        drawings.append(threshold_table(figures))
    several = " Of several runs the first is drawn." if any(len(row.members) > 1 for row in rows) else ""
    return section("scores", "Scores and probabilities", said + several, grid(*drawings))


THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 0.99)


def threshold_table(figures: Figures) -> str:
    """What acting on links from some probability on would catch, and how often it would be a false alarm."""
    study, row = figures.study, best_row(figures)
    one = row.members[0]
    assert one.calibration is not None
    kinds = study.kinds("historical")
    heads = ["probability", "true links<br>caught", *(f"false alarms,<br>{text(kind)}" for kind in kinds)]
    body = ""
    for least in THRESHOLDS:
        caught = float((one.calibration(one.scores[study.main].positive) >= least).mean())
        alarms = [float((one.calibration(one.scores[kind].negative) >= least).mean()) for kind in kinds]
        body += cells([f"≥ {percent(least, 0)}", *(percent(share, 1) for share in (caught, *alarms))])
    note = f"If {text(row.name)} is trusted from some probability on, in percent of true and of wrong links."
    return f'<div class="tables">{card("Where to draw the line", table(heads, body), note)}</div>'


# -- test time -------------------------------------------------------------------------------------------------------


def over_time(figures: Figures) -> str:
    study = figures.study
    drawn = {kind: charts.through_test(study, kind) for kind in study.kinds("historical", "per-event")}
    drawings = [card(f"Against {links(kind)}", svg) for kind, svg in drawn.items() if svg is not None]
    if not drawings:
        why = "The test part is too short to be cut into stretches of 25 events."
        return section("time", "Through the test period", "", grid(empty("AUC over time", why)))
    row = best_row(figures)
    edges = charts.stretches(len(study.events))
    values = charts.over_time(study, row, study.main, edges)
    third = max(len(values) // 3, 1)
    first, last = float(values[:third].mean()), float(values[-third:].mean())
    lead = (
        f"Each dot is the AUC over {plural(int(edges[1] - edges[0]), 'consecutive event')}. "
        f"<strong>{text(row.name)}</strong> goes from {percent(first, 1)} % in the first third to "
        f"{percent(last, 1)} % in the last, without being trained again; it keeps observing."
    )
    return section("time", "Through the test period", lead, row_legend(figures), grid(*drawings))


# -- positions -------------------------------------------------------------------------------------------------------


def positions(figures: Figures) -> str:
    pairs, blind = ablations(figures), figures.blindness
    if not blind and not any(run.model.positions for row in figures.study.trained for run in row.runs):
        why = "No model here reads positions: who can be reached from whom, in how many ways, back in time."
        how = "Try <code>pintgn train DATA</code> with the default model, and name both runs in one report."
        return section("positions", "What positions do", "", grid(empty("Positions", why, how)))
    drawings, said = [], []
    main = figures.study.main
    for row, other in pairs:
        found = {kind: figures.difference(row, other, kind)[0] for kind in figures.study.drawn}
        words = over_kinds(found, main, "positions are worth", "positions cost", "positions make no clear difference")
        said.append(f"<strong>{text(other.name)}, trained without them</strong>: {text(words)}, in AP.")
        drawings.append(
            card(
                f"{row.name} minus {other.name}",
                charts.differences(figures, row.name, other.name),
                "Two models, each trained its own way: what positions are worth.",
            )
        )
    for name, kinds in list(blind.items())[:4]:
        words = over_kinds(kinds, main, "it would lose", "it would gain", "it would not clearly change")
        said.append(f"<strong>{text(name)}, its positions read as zero</strong>: {text(words)}.")
        key = legend([(charts.series(figures.study)[name], "as it is"), ("maybe", "positions read as zero")])
        note = "The same trained model, not allowed to look: what it relies on."
        drawings.append(card(f"{name}, with and without looking", charts.with_and_without(figures, name), note, key))
    note = (
        "Reading zeros shows how much a trained model <em>uses</em> its positions. What they are <em>worth</em> takes "
        "a second model that was trained without: "
        + ("both are here." if pairs else "<code>--set model.positions=0</code>, and both runs in one report.")
    )
    return section("positions", "What positions do", '</p><p class="lead">'.join([*said, note]), grid(*drawings))


# -- failures --------------------------------------------------------------------------------------------------------


def failures(figures: Figures) -> str:
    study, row = figures.study, best_row(figures)
    known = slices.known_before(study)
    groups = {
        "earlier events of the destination": slices.by_count(known.dst_events),
        "earlier events of the source": slices.by_count(known.src_events),
        "time since the two last met": slices.by_time(known.apart, study.log, "never met"),
        "age of the destination": slices.by_time(known.dst_age, study.log, "stranger"),
        "age of the source": slices.by_time(known.src_age, study.log, "stranger"),
        "time since the source's last event": slices.by_time(known.src_idle, study.log, "stranger"),
    }
    titles = (
        "How busy the destination has been",
        "How busy the source has been",
        "How long ago the two last met",
        "How long the destination is known",
        "How long the source is known",
        "How long the source was silent",
    )
    drawings = [
        card(title, charts.by_slice(study, parts, label, figures.blocks))
        for title, (label, parts) in zip(titles, groups.items(), strict=True)
    ]
    lead = f"<strong>{text(weakest(figures, row, groups))}</strong> " if weakest(figures, row, groups) else ""
    lead += "All as known strictly before each event; hover for numbers."
    tables = [
        card(f"{word} ranked worst", *node_table(figures, row, known, side))
        for side, word in (("src", "Sources"), ("dst", "Destinations"))
    ]
    tables.append(surprise_table(figures, row, known))
    return section("failures", "Where it fails", lead, row_legend(figures), grid(*drawings), tall(*tables))


def tall(*cards: str) -> str:
    return f'<div class="grid tables">{"".join(cards)}</div>'


def node_table(figures: Figures, row: Row, known: slices.Known, side: str) -> tuple[str, str]:
    found, least = slices.worst_nodes(figures.study, row, known, side)
    schema = figures.study.log.schema
    heads = [text(getattr(schema, side)), "test<br>events", "MRR", "heu-<br>ristic", "never<br>met", "events<br>before"]
    if found and found[0].beside is None:
        heads.pop(3)
    body = ""
    for one in found:
        beside = [] if one.beside is None else [percent(one.beside, 0)]
        rest = [count(one.events), percent(one.mrr, 0), *beside, percent(one.first_meetings, 0), count(one.before)]
        body += id_cells([one.id], rest)
    note = f"By {text(row.name)}, among those with at least {plural(least, 'test event')}; shares in percent."
    return table(heads, body), note


def surprise_table(figures: Figures, row: Row, known: slices.Known) -> str:
    schema = figures.study.log.schema
    heads = [text(schema.src), text(schema.dst), text(schema.t), "proba-<br>bility", "met<br>before"]
    body = ""
    for one in slices.least_expected(figures.study, row, known):
        day, _, hour = text(one.t).partition(" ")
        when = f"{day}<small class=below>{hour}</small>" if hour else day
        body += id_cells([one.src, one.dst], [when, percent(one.probability, 1), f"{count(one.meetings)} ×"])
    note = f"Test events that {text(row.name)} thought least likely: its blind spots, or the log’s oddities."
    return card("Least expected events", table(heads, body), note)
