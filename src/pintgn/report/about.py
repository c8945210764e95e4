"""The sections about everything but quality: the data, time and memory, settings, how to reproduce it."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from pintgn import __version__
from pintgn.events.stats import node_gaps
from pintgn.formatting import count, plural, size, span
from pintgn.learn.folder import Folder
from pintgn.learn.metrics import CHUNK
from pintgn.learn.run import Run
from pintgn.report import data as draw
from pintgn.report.charts import heads, series
from pintgn.report.html import card, cells, code, empty, facts, grid, legend, section, table, text, wide
from pintgn.report.labels import duration, percent
from pintgn.report.study import MOST, Study


def data(study: Study) -> str:
    log, stats, unit = study.log, study.log.statistics(), study.log.schema.time
    repeated = percent(stats.repeated_links / max(stats.events, 1), 0)
    lead = (
        f"<strong>{plural(stats.events, 'event')}</strong> between <strong>{plural(stats.nodes, 'node')}</strong>, "
        f"from {text(unit.show(log.t[0]))} to {text(unit.show(log.t[-1]))}. {repeated} % repeat an earlier link"
        + ("; sources and destinations are different nodes." if stats.bipartite else ".")
    )
    if log.label is not None:
        question = f"pintgn train DATA --predict {log.schema.label} --of src"
        lead += f" Labels are not evaluated here; to predict them: <code>{text(question)}</code>."
    key = legend([("k0", "repeated"), ("k1", "new, between known nodes"), ("k2", "with a new node")])
    gaps, groups = draw.gaps_between_events(log), draw.simultaneous(log)
    cards = [
        card("Overview", facts(_facts(study, stats))),
        card("Events over time", draw.events_over_time(study.parts), "Trained on the left, tested on the right."),
        card(
            "New and repeated links", draw.links_over_time(log), "What can be remembered, what must be predicted.", key
        ),
        card("Time between events of a node", gaps, _zero_gaps(log), why="No node has two events at different times."),
        card(
            "Simultaneous events",
            groups,
            "Simultaneous events do not see each other.",
            why="No two events share a time.",
        ),
        card("Events per node", draw.activity(log), draw.busiest_half(log)),
    ]
    return section("data", "The data", lead, grid(*cards))


def _zero_gaps(log: Any) -> str:
    gaps = node_gaps(log)
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
    figures = [("all", "ap"), ("seen", "ap"), ("new", "ap"), ("all", "auc"), ("all", "chunked_ap")]
    spent = recorded = ""
    notes = []
    for row, run in study.runs:
        name = f"{text(row.name)} <small>seed {run.seed}</small>"
        spent += cells([name, *_spent(run)])
        values = [run.test[group][metric] if run.test else None for group, metric in figures]
        recorded += cells([name, *map(percent, (*values, run.calibration_error))])
        if not run.finished:
            notes.append(
                f"{text(row.name)} was stopped in epoch {len(run.history) + 1}; its best epoch so far is shown."
            )
        if run.refit:
            seconds = span(run.refit.spent["training_seconds"])
            notes.append(f"{text(row.name)}, seed {run.seed}: training on the whole log took {seconds} more.")
        if run.settings.train.protocol == "paper":
            notes.append(
                f'{text(row.name)} was trained with <code>protocol = "paper"</code>, and its recorded figures follow '
                "that protocol; all others on this page are measured in the full stream."
            )
    lead = "As recorded when each run was trained; peak memory is that of the whole process. "
    return section(
        "cost",
        "Time and memory",
        lead + " ".join(dict.fromkeys(notes)),
        wide("", table(columns, spent)),
        wide(
            "Figures recorded at the end of training",
            table([*heads(figures), "calibration error"], recorded),
            "From <code>result.json</code>: against each run's own negatives, drawn with its own seed.",
        ),
    )


def _spent(run: Run) -> list[str]:
    spent, history = run.spent, run.history
    rates = [entry["events_per_second"] for entry in history]
    return [
        count(sum(p.numel() for p in run.model.parameters())),
        count(len(history)),
        span(spent.get("training_seconds", sum(entry["seconds"] for entry in history))) if history else "–",
        count(sorted(rates)[len(rates) // 2]) if rates else "–",
        span(spent["testing_seconds"]) if "testing_seconds" in spent else "–",
        size(spent["peak_memory_bytes"]) if "peak_memory_bytes" in spent else "–",
        str(run.settings.train.threads or "–"),
    ]


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
    versions: dict[str, Any] = {"pintgn": __version__, "Python": platform.python_version(), "torch": torch.__version__}
    versions |= {"numpy": numpy.__version__, "seed of the negatives": study.seed}
    checksum = f"<span><code>{study.runs[0][1].log.fingerprint}</code></span>"
    made_with = facts([*((name, text(value)) for name, value in versions.items()), ("data (BLAKE2b)", checksum)])
    cards[2] = f'<div class="stack">{cards[2]}{card("Made with", made_with)}</div>'
    lead = "With defaults filled in; those that depend on the data come from the training part of the log. "
    if len(rows) > 1:
        lead += f"The rows differ in {text(', '.join(differ))}." if differ else "The rows do not differ."
    key = legend([(colors[row.name], row.name) for row in rows]) if len(rows) > 1 else ""
    return section("settings", "Settings", lead, key, grid(*cards))


def _value(value: Any) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def reproduce(study: Study, commands: Sequence[str] | None = None) -> str:
    """Commands that make the same runs and the same page again; made from the runs' folders when none are given."""
    runs = [run for _, run in study.runs]
    folders = [str(run.folder.path) for run in runs if run.folder is not None]
    lead = (
        "The same data, settings, seed and number of threads give the same weights and figures, bit for bit, on the "
        "same machine."
    )
    if commands is not None:
        body = [wide("", code(*commands))]
    elif len(folders) < len(runs):
        how = "With <code>fit(…, folder=…)</code> a run is kept, and the commands to train it again appear here."
        body = [grid(empty("Train again", "These runs were not kept in a folder.", how))]
    else:
        lines = [
            f"pintgn train {shlex.quote(f'{folder}/{Folder(folder).events.name}')} "
            f"--config {shlex.quote(folder + '/settings.toml')} "
            f"--seed {run.seed}{' --refit' if run.refit else ''} -o {shlex.quote(folder + '-again')}"
            for run, folder in zip(runs, folders, strict=True)
        ]
        body = [wide("Train again", code(*lines)), wide("This page", code(f"pintgn report {shlex.join(folders)}"))]
    return section("reproduce", "Reproduce", lead, *body)


def notes(study: Study) -> str:
    others = plural(study.candidates, "other destination")
    definitions = {
        "Test part.": "The last events of the log, by time. Each is scored as of its own time, by what came strictly "
        "before it, and then observed; simultaneous events do not see each other. Of a part of more than "
        f"{MOST:,} events, stretches of {CHUNK} at even distances are scored; all are observed.",
        "AP, AUC.": "AUC is the probability that a true link scores above a negative. AP averages the precision over "
        "the true links, over all scores at once; “200-row chunks” is the mean over chunks, as papers report.",
        "MRR, Hits@k.": f"Each true destination is ranked among {others} of the log that its source does not meet at "
        "that time. MRR is the mean of 1 / rank; Hits@k: how often rank ≤ k.",
        "Seen and new.": "New events involve a node that the model did not see in training. Which nodes are hidden "
        "depends on a run's seed; differences are over events in the same group for both rows.",
        "Training-free rows.": "edgebank: has this pair met? heuristic: how often, how recently, how popular the "
        "destination is. A model that does not beat them has learned nothing.",
        "Against one random destination.": "The probability that is fitted on validation against as many random "
        "destinations: if this link and one to a random destination were equally likely beforehand, how likely is this "
        "the one that happens? It is no forecast.",
        "What comes next.": "Of all destinations that are ranked, how likely is each to be the next: a softmax of the "
        "logits, its slope fitted on validation. The error is that of the first choice, over ten equally filled bins.",
    }
    body = "".join(f"<p><strong>{text(name)}</strong> {text(words)}</p>" for name, words in definitions.items())
    return section("notes", "How it was measured", "", f'<div class="notes">{body}</div>')
