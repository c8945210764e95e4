"""Runs of several seeds, trained one after another or by workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pintgn.display.progress import silent
from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.learn.figures_text import Progress, mean_of
from pintgn.learn.fit import fit
from pintgn.learn.folder import Folder
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.workers.group import current
from pintgn.workers.jobs import Jobs


def fit_seeds(
    settings: Settings,
    log: EventLog,
    seeds: Sequence[int],
    folder: str | Path | None = None,
    refit: bool = False,
    jobs: Jobs | None = None,
    **options: Any,
) -> list[Run]:
    """One run for each seed, in `folder/seed-N`; `figures_text.seeds_table` shows mean ± std. Options as of `fit`.

    With `jobs`, the runs are trained by its workers, which must see the folder.
    """
    runs = []
    folder = current().writes(folder)
    if folder is not None:
        Folder(folder).path.mkdir(parents=True, exist_ok=True)
        Folder(folder).write_json("runs.json", {"seeds": list(seeds), "asked": settings.to_dict(), "refit": refit})
    if jobs is not None:
        assert folder is not None
        _fit_on(jobs, settings, log, seeds, Path(folder), refit, **options)
    for seed in seeds:
        own = None if folder is None else Path(folder) / f"seed-{seed}"
        if jobs is not None:
            assert own is not None
            runs.append(Run.open(own))
            continue
        runs.append(fit(settings, log, folder=own, seed=seed, refit=refit, **options))
    if folder is not None:
        summary = {"runs": [run.result() for run in runs], "test": mean_of([run.test for run in runs])}
        Folder(folder).write_json("result.json", summary)
    return runs


def _fit_on(
    jobs: Jobs,
    settings: Settings,
    log: EventLog,
    seeds: Sequence[int],
    folder: Path,
    refit: bool,
    progress: Progress = silent,
    resume: bool = True,
) -> None:
    """One run for each seed, trained by workers. A run whose worker was lost continues from its last checkpoint."""
    path = folder.resolve() / "events.parquet"
    with Folder(folder).errors(path):
        log.save(path)
    if not resume and (found := [seed for seed in seeds if Folder(folder / f"seed-{seed}").holds_run]):
        raise BadInput(f"{folder} holds a run of seed {found[0]} already. Continue it with --resume.")
    progress({"phase": f"0 of {len(seeds)} runs done"})
    todo = [(settings.to_dict(), str(path), seed, str(path.parent / f"seed-{seed}"), refit) for seed in seeds]
    try:
        for done, _ in enumerate(jobs.run(fit_one, todo), 1):
            progress({"phase": f"{done} of {len(seeds)} runs done"})
    finally:
        path.unlink(missing_ok=True)


def fit_one(settings: dict[str, Any], log: str, seed: int, folder: str, refit: bool) -> None:
    """One of several runs, by a worker; one that was begun is continued."""
    fit(Settings.of(settings), EventLog.open(log), folder=folder, seed=seed, refit=refit, progress=False)


def resume_seeds(
    folder: str | Path, progress: Progress = silent, refit: bool = False, jobs: Jobs | None = None
) -> list[Run]:
    """Continue a folder of several runs to the end of the last."""
    metadata = Folder(folder).read_json("runs.json")
    log = EventLog.open(Folder(Folder(folder) / f"seed-{metadata['seeds'][0]}").events)
    refit = refit or metadata.get("refit", False)
    chosen = Settings.of(metadata["asked"])
    return fit_seeds(chosen, log, metadata["seeds"], folder, refit, jobs, progress=progress)
