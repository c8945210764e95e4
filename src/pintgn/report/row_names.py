"""Names of rows: the model's name, with the settings that tell rows of one model apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pintgn.errors import BadInput
from pintgn.learn.run import Run

UNIMPORTANT = ("threads", "checkpoint_seconds")
"""Settings that are left out of names."""
MOST = 3
"""Settings in a name."""


def row_names(runs: Sequence[Run], names: Sequence[str] | None = None) -> list[str]:
    """The name of each run's row. Runs that differ only in their seed share a name."""
    if names is not None:
        if len(names) != len(runs):
            raise BadInput(f"{len(names)} names for {len(runs)} runs; give one for each.")
        return list(names)
    settings = [given_settings(run) for run in runs]
    keys = [json.dumps(one, sort_keys=True, default=str) for one in settings]
    twins = Counter(zip(keys, (run.seed for run in runs), strict=True))
    if max(twins.values()) > 1:  # one run copied, or trained twice: rows of their own
        keys = [f"{key} {folder_name(run)}" for key, run in zip(keys, runs, strict=True)]
    rows: dict[str, tuple[Run, dict[str, Any]]] = {}
    for key, run, one in zip(keys, runs, settings, strict=True):
        rows.setdefault(key, (run, one))
    found = dict(zip(rows, _distinct(list(rows.values())), strict=True))
    return [found[key] for key in keys]


def given_settings(run: Run) -> dict[str, Any]:
    """Settings as given to a run, before defaults that may depend on the seed were filled in."""
    stored = run.folder.read_json("run.json").get("asked") if run.asked is None and run.folder is not None else None
    tables: dict[str, dict[str, Any]] = stored or (run.asked or run.settings).to_dict()
    flat = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    return {key: value for key, value in flat.items() if key.split(".")[-1] not in UNIMPORTANT}


def folder_name(run: Run) -> str:
    """The name of a run's folder, or its seed."""
    return f"seed {run.seed}" if run.folder is None else run.folder.path.name or str(run.folder.path)


def _distinct(rows: list[tuple[Run, dict[str, Any]]]) -> list[str]:
    plain = [run.settings.name for run, _ in rows]
    found = []
    for name, (run, settings) in zip(plain, rows, strict=True):
        alike = [other for (_, other), called in zip(rows, plain, strict=True) if called == name]
        if len(alike) > 1:
            keys = [key for key in settings if len({json.dumps(other.get(key), default=str) for other in alike}) > 1]
            shown = ", ".join(f"{key.split('.')[-1]}={settings[key]}" for key in keys[:MOST])
            name = f"{name} ({shown or folder_name(run)})"
        found.append(name)
    counts = Counter(found)
    return [
        f"{name} [{folder_name(run)}]" if counts[name] > 1 else name for name, (run, _) in zip(found, rows, strict=True)
    ]
