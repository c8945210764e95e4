"""A run's files: written when it begins, read when it is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pintgn import __version__
from pintgn.errors import BadFile, BadInput, PintgnError
from pintgn.events.log import EventLog
from pintgn.facts import check, check_format, reading
from pintgn.learn.calibration import Calibration
from pintgn.learn.folder import CURSOR, FORMAT, Folder
from pintgn.learn.newer_events import Start
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.models.base import Model, check_device

MAPPED = 1_000_000
"""Events from which on a run keeps its log as an Arrow file, which is mapped in seconds, instead of Parquet."""


def create_run(run: Run, own_negatives: bool = False, refit: bool = False) -> None:
    """Write what does not change: settings, seed, data, the weights that the run begins with, whether the negatives are
    the caller's own, and whether it is to be trained on the whole log at the end."""
    assert run.folder is not None
    run.folder.write("settings.toml", run.settings.to_toml())
    path = run.folder / ("events.arrow" if len(run.log) >= MAPPED else "events.parquet")
    with run.folder.errors(path):
        run.log.save(path)
    facts: dict[str, Any] = {"pintgn": __version__, "format": FORMAT, "seed": run.seed}
    facts |= {"asked": (run.asked or run.settings).to_dict(), "fingerprint": run.fingerprint}
    facts |= {"data": run.log.fingerprint, "events": len(run.log), "nodes": run.log.nodes}
    facts |= {"own_negatives": own_negatives, "refit": refit}
    if run.start is not None:
        run.folder.write_weights("start.safetensors", run.start.weights, run.fingerprint)
        facts["start"] = run.start.facts()
    run.folder.write_json("run.json", facts)


def open_run(folder: str | Path, model: type[Model] | Model | None, weights: bool, device: str | None) -> Run:
    """`Run.open`."""
    if device is not None:
        check_device(device)
    run_folder = Folder(folder)
    if (found := sorted(run_folder.path.glob("seed-*/run.json"))) and not run_folder.holds_run:
        raise BadInput(f"{folder} holds {len(found)} runs; name one of them, such as {found[0].parent}.")
    facts = run_folder.read_json("run.json")
    check_format(facts.get("format", 1), FORMAT, f"the run in {folder}", "Train again.")
    with reading(run_folder / "settings.toml"):
        settings = Settings.from_toml((run_folder / "settings.toml").read_text())
    try:
        log = EventLog.open(run_folder.events)
    except PintgnError as error:
        raise BadFile(f"the run in {folder} is damaged: {error}") from error
    if isinstance(model, type):
        model = model.from_settings(dict(settings.model))
    model = model or settings.make_model()
    run = Run(settings, facts["seed"], log, model, run_folder, device=device)
    if "asked" in facts:
        run.asked = replace(settings, model={k: v for k, v in facts["asked"]["model"].items() if k != "name"})
    run.refit_asked = facts.get("refit", False)
    if "start" in facts:
        run.start = Start(facts["start"]["rows"], facts["start"]["events"])
    if run.fingerprint != facts["fingerprint"]:
        raise BadFile(
            f"the run in {folder} is damaged: settings.toml, run.json and {run_folder.events.name} do not belong "
            "together. Train again."
        )
    if weights:
        restore(run)
    return run


def restore(run: Run) -> None:
    """The best weights so far, how training went, and the result if it has ended."""
    assert run.folder is not None
    path = run.folder / "last.safetensors"
    if path.exists():
        metadata = check(run.read_checkpoint(path.name)[1], CURSOR, str(path))
        run.history, run.best_epoch = metadata["history"], metadata["best_epoch"]
        run.load_weights("best.safetensors" if run.best_epoch else "last.safetensors")
    if (run.folder / "result.json").exists():
        found = run.folder.read_json("result.json")
        for name in ("test", "heuristics", "calibration_error"):
            setattr(run, name, found[name])
        for name in ("calibration", "calibration_known"):
            setattr(run, name, Calibration(**found[name]) if found.get(name) else None)
        run.spent, run.next_slope = found.get("spent", {}), found.get("next_slope")
        run.answer_calibration, run.finished = found.get("answer_calibration", {}), True
    if (run.folder / "refit.json").exists():
        from pintgn.learn.refit import open_refit

        run.refit = open_refit(run)
