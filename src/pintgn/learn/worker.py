"""A run that several workers train: the first one writes, and all begin alike."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from pintgn import __version__
from pintgn.learn.run import Run
from pintgn.models.base import Model
from pintgn.workers.group import current


def agree(run: Run, refit: bool) -> None:
    """Before the first step: refuse workers with other data, settings or versions; take over how far the run has come.

    What the first worker reads from the run's folder it passes on, so the others need no access to it.
    """
    group = current()
    if group.size == 1:
        return
    asked = run.asked or run.settings
    train = replace(asked.train, threads=None, checkpoint_seconds=0.0)
    group.check_same({
        "versions": f"pintgn {__version__}, torch {torch.__version__}, numpy {np.__version__}",
        "Python": platform.python_version(),
        "data": run.log.fingerprint,
        "settings": replace(asked, train=train).to_toml(),
        "seed": f"{run.seed}",
        "weights to begin with": "none" if run.start is None else f"those after {run.start.events} events",
        "use of --refit": f"{refit}",
    })  # fmt: skip
    found = group.from_first(lambda: (run.finished, run.refit is not None, run.best_epoch))
    if group.rank:
        run.finished, refitted, run.best_epoch = found
        run.refit = run if refitted else None


def unwritten(folder: str | Path, model: type[Model] | Model | None) -> Run:
    """The run in a folder for a worker that will write nothing."""
    run = Run.open(folder, model, weights=False)
    if run.start is not None:
        run.start = replace(run.start, weights=run.start_weights())
    run.folder = None
    return run
