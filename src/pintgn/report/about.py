"""Sections of every report: data, learning, time and memory, settings, and commands to reproduce the runs."""

from __future__ import annotations

import platform
import shlex
from typing import Any

import numpy
import torch

from pintgn import __version__
from pintgn.events.show import GAPS, log_facts
from pintgn.formatting import count, size, span
from pintgn.learn.folder import Folder
from pintgn.learn.run import Run
from pintgn.report import charts
from pintgn.report.markup import card, cells, code, facts, grid, lead, legend, table, text, wide
from pintgn.report.study import Study


def data(study: Study) -> str:
    key = legend([("k0", "repeated"), ("k1", "new, between known nodes"), ("k2", "with a new node")])
    return grid(
        card("Overview", facts(_facts(study)), GAPS),
        card("Events over time", charts.events_over_time(study.parts)),
        card("New and repeated links", charts.links_over_time(study.log), legend=key),
    )


def learning(study: Study) -> str:
    """Loss and validation by epoch; nothing for a model that is not trained in epochs."""
    loss = charts.loss(study)
    if loss is None:
        return ""
    drawings = [card("Training loss", loss)]
    if (whole := charts.validation(study)) is not None:
        drawings.append(card("Validation, all events", whole, "A ring marks the best epoch, which is kept."))
    note = "Only events with a node that was not seen in training."
    why = "Every node of a validation event was seen in training."
    drawings.append(card("Validation, new nodes", charts.validation(study, "new"), note, why=why))
    colors = charts.series(study)
    key = legend([(colors[row.name], row.name) for row in study.trained if any(run.history for run in row.runs)])
    return key + grid(*drawings)


def _facts(study: Study) -> list[tuple[str, str]]:
    log, parts = study.log, study.parts
    columns = log.schema.feature_columns()
    shown = ", ".join(columns[:4]) + (f" and {len(columns) - 4} more" if len(columns) > 4 else "")
    sizes = " / ".join(count(len(part)) for part in (parts.train, parts.val, parts.test))
    rows = [(name, text(value)) for name, value in [*log_facts(log), ("train / val / test", sizes)]]
    return [*rows, ("event features", f"<span>{text(shown or 'none')}</span>")]


def cost(study: Study) -> str:
    columns = ["", "parameters", "best epoch", "training", "events per second", "testing", "peak memory", "threads"]
    body = ""
    for row, run in study.runs:
        marks = ["", "stopped"][not run.finished], ["", "paper protocol"][run.settings.train.protocol == "paper"]
        name = f"{text(row.name)} <small>{', '.join(filter(None, (f'seed {run.seed}', *marks)))}</small>"
        body += cells([name, *_spent(run)])
    words = "As recorded when each run was trained; peak memory is that of the whole process."
    return lead(words) + wide("", table(columns, body))


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
    """A column for each row of figures; settings in which they differ stand out."""
    rows, colors = study.trained, charts.series(study)
    tables = [row.runs[0].settings.to_dict() for row in rows]
    heads = ["", *(f'<span class="{colors[row.name]}"><i class="key"></i></span>{text(row.name)}' for row in rows)]
    cards = []
    for name, title in (("task", "Question"), ("model", "Model"), ("train", "Training"), ("stream", "Stream")):
        body = ""
        for key in dict.fromkeys(key for one in tables for key in one[name]):
            values = [_setting(one[name].get(key, "–")) for one in tables]
            body += cells([text(key), *map(text, values)], "changed" if len(set(values)) > 1 else "")
        if body:
            cards.append(card(title, table(heads if len(rows) > 1 else ["", ""], body)))
    versions: dict[str, Any] = {"pintgn": __version__, "Python": platform.python_version(), "torch": torch.__version__}
    versions |= {"numpy": numpy.__version__} | ({"seed of the negatives": study.seed} if study.drawn else {})
    checksum = f"<span><code>{study.runs[0][1].log.fingerprint}</code></span>"
    made_with = facts([*((name, text(value)) for name, value in versions.items()), ("data (BLAKE2b)", checksum)])
    words = "With defaults filled in; those that depend on the data come from the training part of the log."
    return lead(words) + grid(*cards, card("Made with", made_with))


def _setting(value: Any) -> str:
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
    words = "The same data, settings, seed and number of threads give the same figures, bit for bit, on one machine."
    page = f"pintgn report {shlex.join(folder for _, folder in runs)}"
    return lead(words) + wide("Train again", code(*lines)) + wide("This page", code(page))
