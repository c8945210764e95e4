"""Report sections on the data, time and memory, settings, and how to reproduce the runs."""

from __future__ import annotations

import platform
import shlex
from typing import Any

import numpy
import torch

from pintgn import __version__
from pintgn.formatting import count, plural, size, span
from pintgn.learn.folder import Folder
from pintgn.learn.metrics import CHUNK
from pintgn.learn.run import Run
from pintgn.report import data_charts
from pintgn.report.charts import series
from pintgn.report.labels import duration, percent
from pintgn.report.markup import card, cells, code, facts, grid, legend, section, table, text, wide
from pintgn.report.study import MOST, Study


def data(study: Study) -> str:
    log, stats = study.log, study.log.statistics()
    lead = ""
    if log.label is not None:
        question = f"pintgn train DATA --predict {log.schema.label} --of src"
        lead = f"Labels are not evaluated here; to predict them: <code>{text(question)}</code>."
    key = legend([("k0", "repeated"), ("k1", "new, between known nodes"), ("k2", "with a new node")])
    gaps = data_charts.gaps_between_events(log)
    cards = [
        card("Overview", facts(_facts(study, stats))),
        card("Events over time", data_charts.events_over_time(study.parts)),
        card("New and repeated links", data_charts.links_over_time(log), legend=key),
        card(
            "Time between events of a node", gaps, "Gaps of 0 are not drawn.",
            why="No node has two events at different times.",
        ),
        card("Events per node", data_charts.activity(log)),
    ]  # fmt: skip
    return section("data", "The data", lead, grid(*cards))


def _facts(study: Study, stats: Any) -> list[tuple[str, str]]:
    log, parts, unit = study.log, study.parts, study.log.schema.time

    def share(part: int) -> str:
        return _share(part, stats.events)

    rows = [
        ("events", count(stats.events)),
        ("first event", text(unit.show(log.t[0]))),
        ("last event", text(unit.show(log.t[-1]))),
        ("nodes", count(stats.nodes)),
        ("nodes with half of all activity", _share(data_charts.busiest_half(log), stats.nodes)),
        ("sources / destinations", f"{count(stats.sources)} / {count(stats.destinations)}"),
        ("distinct pairs", count(stats.distinct_pairs)),
        ("repeated links", share(stats.repeated_links)),
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


def _share(part: int, whole: int) -> str:
    return f"{count(part)} <small>({percent(part / max(whole, 1), 1)} %)</small>"


def cost(study: Study) -> str:
    columns = ["", "parameters", "best epoch", "training", "events per second", "testing", "peak memory", "threads"]
    body = ""
    for row, run in study.runs:
        marks = ["", "stopped"][not run.finished], ["", "paper protocol"][run.settings.train.protocol == "paper"]
        name = f"{text(row.name)} <small>{', '.join(filter(None, (f'seed {run.seed}', *marks)))}</small>"
        body += cells([name, *_spent(run)])
    lead = "As recorded when each run was trained; peak memory is that of the whole process."
    return section("cost", "Time and memory", lead, wide("", table(columns, body)))


def _spent(run: Run) -> list[str]:
    spent, history = run.spent, run.history
    rates = [entry["events_per_second"] for entry in history]
    training = spent.get("training_seconds", sum(entry["seconds"] for entry in history))
    refit = f" <small>+ {span(run.refit.spent['training_seconds'])} on all events</small>" if run.refit else ""
    return [
        count(sum(p.numel() for p in run.model.parameters())),
        f"{run.best_epoch} <small>of {len(history)}</small>" if history else "–",
        f"{span(training)}{refit}" if history else "–",
        count(sorted(rates)[len(rates) // 2]) if rates else "–",
        span(spent["testing_seconds"]) if "testing_seconds" in spent else "–",
        size(spent["peak_memory_bytes"]) if "peak_memory_bytes" in spent else "–",
        str(run.settings.train.threads or "–"),
    ]


def settings(study: Study) -> str:
    """One value if the rows agree, otherwise the value of each row in its color."""
    rows, colors = study.trained, series(study)
    tables = [row.runs[0].settings.to_dict() for row in rows]
    cards, differ = [], []
    for name, title in (("model", "Model"), ("train", "Training"), ("stream", "Stream")):
        body = ""
        for key in dict.fromkeys(key for one in tables for key in one[name]):
            values = [setting_text(one[name].get(key, "–")) for one in tables]
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


def setting_text(value: Any) -> str:
    return "none" if value is None or value == [] else f"{value:.4g}" if isinstance(value, float) else str(value)


def reproduce(study: Study) -> str:
    """Commands that train runs again and write the page; none for runs that are not in a folder."""
    runs = [(run, str(run.folder.path)) for _, run in study.runs if run.folder is not None]
    if len(runs) < len(study.runs):
        return ""
    lines = [
        f"pintgn train {shlex.quote(f'{folder}/{Folder(folder).events.name}')} "
        f"--config {shlex.quote(folder + '/settings.toml')} "
        f"--seed {run.seed}{' --refit' if run.refit else ''} -o {shlex.quote(folder + '-again')}"
        for run, folder in runs
    ]
    lead = "The same data, settings, seed and number of threads give the same figures, bit for bit, on one machine."
    page = f"pintgn report {shlex.join(folder for _, folder in runs)}"
    return section("reproduce", "Reproduce", lead, wide("Train again", code(*lines)), wide("This page", code(page)))


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
    return section("notes", "How it was measured", "", f'<div class="notes">{body}</div>')
