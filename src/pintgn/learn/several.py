"""Runs that differ in nothing but their seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pintgn.events.log import EventLog
from pintgn.learn.folder import Folder
from pintgn.learn.progress import Progress, no_progress
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.tables import mean_of
from pintgn.learn.train import fit


def fit_several(
    settings: Settings,
    log: EventLog,
    seeds: Sequence[int],
    folder: str | Path | None = None,
    refit: bool = False,
    **options: Any,
) -> list[Run]:
    """One run for each seed, in `folder/seed-N`; `tables.several_table` shows mean ± std. Options as of `fit`."""
    runs = []
    if folder is not None:
        Folder(folder).path.mkdir(parents=True, exist_ok=True)
        Folder(folder).write_json("runs.json", {"seeds": list(seeds), "asked": settings.to_dict(), "refit": refit})
    for seed in seeds:
        own = None if folder is None else Path(folder) / f"seed-{seed}"
        runs.append(fit(settings, log, folder=own, seed=seed, refit=refit, **options))
    if folder is not None:
        summary = {"runs": [run.result() for run in runs], "test": mean_of([run.test for run in runs])}
        Folder(folder).write_json("result.json", summary)
    return runs


def resume(folder: str | Path, progress: Progress = no_progress, refit: bool = False) -> list[Run]:
    """Continue a folder of several runs to the end of the last."""
    metadata = Folder(folder).read_json("runs.json")
    first = Folder(folder) / f"seed-{metadata['seeds'][0]}" / "events.parquet"
    log = EventLog.open(first)
    refit = refit or metadata.get("refit", False)
    return fit_several(Settings.of(metadata["asked"]), log, metadata["seeds"], folder, refit, progress=progress)
