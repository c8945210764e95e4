"""The sections about everything but quality: the data, time and memory, settings, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from pintgn import __version__
from pintgn.formatting import count, plural, size, span
from pintgn.learn.run import Run, fingerprint
from pintgn.report import data as draw
from pintgn.report.charts import heads, series
from pintgn.report.html import card, card_or_why, cells, code, empty, facts, grid, legend, section, table, text, wide
from pintgn.report.study import Study
from pintgn.report.words import duration, percent

TIES = "Simultaneous events do not see each other."


def data(study: Study) -> str:
    log, parts = study.log, study.parts
    stats, unit = log.statistics(), log.schema.time
    repeated = percent(stats.repeated_links / max(stats.events, 1), 0)
    lead = (
        f"<strong>{plural(stats.events, 'event')}</strong> between <strong>{plural(stats.nodes, 'node')}</strong>, "
        f"from {text(unit.show(log.t[0]))} to {text(unit.show(log.t[-1]))}. {repeated} % repeat an earlier link"
        + ("; sources and destinations are different nodes." if stats.bipartite else ".")
    )
    if log.label is not None:
        labels = text(log.schema.label)
        lead += f" Its labels ({labels}) have figures of their own: <code>pintgn evaluate RUN --classify</code>."
    gaps = draw.gaps_between_events(log)
    groups = draw.simultaneous(log)
    key = legend([("k0", "repeated"), ("k1", "new, nodes known"), ("k2", "with a new node")])
    cards = [
        card("What is in it", facts(_facts(study, stats))),
        card("Events over time", draw.events_over_time(parts), "Learned from the left, tested on the right."),
        card("New and repeated links", draw.links_over_time(log), "What has to be remembered, and what foreseen.", key),
        card_or_why("How soon a node is back", gaps, _zero_gaps(log), "No node has two events at different times."),
        card_or_why("How much happens at once", groups, TIES, "No two events share a time."),
        card("How unevenly it is spread", draw.activity(log), draw.busiest_half(log)),
    ]
    return section("data", "The data", lead, grid(*cards))


def _zero_gaps(log: Any) -> str:
    gaps = draw.node_gaps(log)
    zero = float((gaps == 0).mean()) if len(gaps) else 0.0
    return "Logarithmic." + (f" {percent(zero, 1)} % of gaps are 0 and not drawn." if zero >= 0.0005 else "")


def _facts(study: Study, stats: Any) -> list[tuple[str, str]]:
    log, parts, unit = study.log, study.parts, study.log.schema.time

    def share(part: int) -> str:
        return f"{count(part)} <small>({percent(part / max(stats.events, 1), 1)} %)</small>"

    rows = [
        ("events", count(stats.events)),
        ("nodes", count(stats.nodes)),
        ("sources / destinations", f"{count(stats.sources)} / {count(stats.destinations)}"),
        ("distinct pairs", count(stats.distinct_pairs)),
        ("simultaneous events", share(stats.simultaneous)),
        ("self-loops", share(stats.self_loops)),
    ]
    if log.op is not None:
        rows += [("deletions", share(stats.deletions)), ("node events", share(stats.node_events))]
    if stats.node_gaps is not None:
        rows.append(("median gap of a node", duration(stats.node_gaps.median, unit)))
    columns = log.schema.feature_columns()
    shown = ", ".join(columns[:4]) + (f" and {len(columns) - 4} more" if len(columns) > 4 else "")
    rows.append(("event features", f"<span>{text(shown)}</span>" if columns else "none"))
    if log.schema.node_features:
        rows.append(("node features", count(len(log.schema.node_features))))
    rows.append(("label column", text(log.schema.label) if log.label is not None else "none"))
    sizes = [len(part) for part in (parts.train, parts.val, parts.test)]
    rows.append(("train / val / test", " / ".join(map(count, sizes))))
    return rows


def cost(study: Study) -> str:
    columns = ["", "parameters", "epochs", "training", "events per second", "testing", "peak memory", "threads"]
    body, odd = "", []
    for row in study.trained:
        for run in row.runs:
            body += _cost_row(row.name, run)
            if not run.finished:
                odd.append(f"{text(row.name)} was stopped in epoch {len(run.history) + 1} and is shown as it is.")
            if run.settings.train.protocol == "paper":
                odd.append(
                    f'{text(row.name)} was trained with <code>protocol = "paper"</code>, so its recorded figures are '
                    "measured that way; all else on this page is measured in the full stream."
                )
    lead = "As recorded when each run was trained; peak memory is that of the whole process. "
    return section(
        "cost",
        "Time and memory",
        lead + " ".join(dict.fromkeys(odd)),
        wide("", table(columns, body)),
        wide(
            "As recorded at the end of training",
            recorded(study),
            "What <code>result.json</code> holds: each run's own negatives, drawn with its own seed.",
        ),
    )


def _cost_row(name: str, run: Run) -> str:
    spent, history = run.spent, run.history
    parameters = sum(p.numel() for p in run.model.parameters())
    training = spent.get("training_seconds", sum(entry["seconds"] for entry in history))
    rates = [entry["events_per_second"] for entry in history]
    shown = [
        _of(name, run),
        count(parameters),
        count(len(history)),
        span(training) if history else "–",
        count(sorted(rates)[len(rates) // 2]) if rates else "–",
        span(spent["testing_seconds"]) if "testing_seconds" in spent else "–",
        size(spent["peak_memory_bytes"]) if "peak_memory_bytes" in spent else "–",
        str(run.settings.train.threads or "–"),
    ]
    return cells(shown)


def recorded(study: Study) -> str:
    """The figures that `fit` wrote down."""
    columns = [("all", "ap"), ("seen", "ap"), ("new", "ap"), ("all", "auc"), ("all", "chunked_ap")]
    body = ""
    for row in study.trained:
        for run in row.runs:
            values = [run.test[group][name] if run.test else None for group, name in columns]
            body += cells([_of(row.name, run), *map(percent, (*values, run.calibration_error))])
    return table([*heads(columns), "calibration error"], body)


def _of(name: str, run: Run) -> str:
    return f"{text(name)} <small>seed {run.seed}</small>"


def settings(study: Study) -> str:
    """One value where the rows agree, each row's own, in its color, where they do not."""
    rows, colors = study.trained, series(study)
    tables = [row.runs[0].settings.to_dict() for row in rows]
    cards, differ = [], []
    for name, title in (("model", "Model"), ("train", "Training"), ("stream", "Stream")):
        body = ""
        for key in dict.fromkeys(key for one in tables for key in one[name]):
            values = [_value(one[name].get(key, "–")) for one in tables]
            if len(set(values)) > 1:
                differ.append(key)
                pairs = zip(rows, values, strict=True)
                shown = "".join(f'<span><span class="{colors[row.name]}">{text(v)}</span></span>' for row, v in pairs)
                body += f'<tr><th>{text(key)}</th><td class="changed">{shown}</td></tr>'
            else:
                body += f"<tr><th>{text(key)}</th><td>{text(values[0])}</td></tr>"
        cards.append(card(title, f"<table><tbody>{body}</tbody></table>"))
    cards[2] = f'<div class="stack">{cards[2]}{card("Made with", made_with(study))}</div>'
    lead = "As resolved: what was left open has been decided by the training part of the log. "
    if len(rows) > 1:
        lead += f"The rows differ in {text(', '.join(differ))}." if differ else "The rows do not differ."
    key = legend([(colors[row.name], row.name) for row in rows]) if len(rows) > 1 else ""
    return section("settings", "Settings", lead, key, grid(*cards))


def _value(value: Any) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def made_with(study: Study) -> str:
    return facts(
        [
            ("pintgn", text(__version__)),
            *((name, text(version)) for name, version in _versions()),
            ("seed of the negatives", str(study.seed)),
            ("data (BLAKE2b)", f"<span><code>{fingerprint(study.trained[0].runs[0].log)}</code></span>"),
        ]
    )


def reproduce(study: Study, commands: Sequence[str] | None = None) -> str:
    """Commands that make the same runs and the same page again; made from the runs' folders when none are given."""
    runs = [run for row in study.trained for run in row.runs]
    kept = [str(run.folder.path) for run in runs if run.folder is not None]
    lead = (
        "The same data, settings, seed and number of threads give the same weights and figures, bit for bit, on the "
        "same machine."
    )
    if commands is not None:
        return section("reproduce", "Do it again", lead, wide("", code(*commands)))
    if len(kept) < len(runs):
        how = "<code>fit(…, folder=…)</code> keeps a run, and the commands to train it again will stand here."
        box = empty("Train again", "These runs were not kept in a folder.", how)
        return section("reproduce", "Do it again", lead, grid(box))
    lines = [
        f"pintgn train {_quoted(place + '/events.parquet')} --config {_quoted(place + '/settings.toml')} "
        f"--seed {run.seed} -o {_quoted(place + '-again')}"
        for run, place in zip(runs, kept, strict=True)
    ]
    page = "pintgn report " + " ".join(map(_quoted, kept))
    return section("reproduce", "Do it again", lead, wide("Train again", code(*lines)), wide("This page", code(page)))


def _quoted(path: str) -> str:
    return shlex.quote(path)


def _versions() -> list[tuple[str, str]]:
    import platform

    import numpy
    import torch

    return [("Python", platform.python_version()), ("torch", torch.__version__), ("numpy", numpy.__version__)]


def notes(study: Study) -> str:
    said = [
        (
            "Test part.",
            "The last events of the log, by time. Each is scored as of its own time, by what came strictly "
            "before it, and then observed; simultaneous events do not see each other.",
        ),
        (
            "AP, AUC.",
            "AUC is the chance that a true link scores above a wrong one. AP averages the precision over the "
            "true links, over all scores at once; “200-row chunks” is the mean over chunks, as papers report.",
        ),
        (
            "MRR, Hits@k.",
            f"Each true destination is ranked among {plural(study.candidates, 'other destination')} of the "
            "log that its source does not meet at that time. MRR is the mean of 1 / rank; Hits@k: how often rank ≤ k.",
        ),
        (
            "Seen and new.",
            "New events touch a node that no training event showed to the model. Which nodes are hidden "
            "depends on a run's seed; differences are over events in the same group for both rows.",
        ),
        (
            "Training-free rows.",
            "edgebank: has this pair met? heuristic: how often, how recently, how popular the "
            "destination is. A model that does not beat them has learned nothing.",
        ),
        (
            "Probabilities.",
            "Fitted on validation, against as many random destinations: if this link and a random one "
            "were equally likely beforehand, how likely is this the one that happens?",
        ),
    ]
    return section(
        "notes",
        "How it was measured",
        "",
        '<div class="notes">'
        + "".join(f"<p><strong>{text(name)}</strong> {text(words)}</p>" for name, words in said)
        + "</div>",
    )
