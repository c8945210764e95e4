"""Stacking: boosted trees added to a trained network, fitted on the training part and weighted by validation."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from pintgn.learn.figures_text import Progress
from pintgn.learn.negatives import Negatives
from pintgn.learn.run import Run
from pintgn.learn.train import Trainer

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the trees in an answer that are tried on validation, besides 0."""


def grow_trees(run: Run, negatives: Negatives | None, share: Tensor | None = None) -> None:
    """Fit the trees of a stacked model on the training part, and set their share; the network stays as it is."""
    trees = copy.copy(run)
    trees.model, trees.folder, trees.start, trees.history = run.model.boosted, None, None, []
    Trainer(trees, negatives, epochs=1).learn()
    _set_share(run, torch.zeros(()) if share is None else share)


def add_trees(run: Run, trainer: Trainer, negatives: Negatives | None, progress: Progress) -> None:
    """Fit the trees of a run whose network is trained, and choose their share on validation."""
    progress({"phase": "growing trees"})
    grow_trees(run, negatives)
    task, settings = run.task, run.settings.train
    figures = {0.0: next(entry["val"]["all"] for entry in run.history if entry["epoch"] == run.best_epoch)}
    for share in SHARES:
        run.model.trees_share.fill_(share)
        figures[share] = task.validate(run, trainer.after_training, negatives)["all"]
    best = max(figures, key=lambda share: task.value(figures[share], settings))
    shares = torch.full_like(run.model.trees_share, best)
    if shares.ndim:  # of a value: its quantiles are chosen by the median
        shares[1:] = min(figures, key=lambda share: figures[share]["mae"])
    _set_share(run, shares)
    name = task.chosen_by(settings)
    found = {"network": figures[0.0][name], "trees": figures[1.0][name], "both": figures[best][name]}
    run.history[-1]["trees"] = {"share": best, "chosen_by": name} | found


def _set_share(run: Run, share: Tensor) -> None:
    """Set the share of the trees, and save it with the network's weights."""
    run.model.trees_share.copy_(share)
    if run.folder is not None:
        run.folder.write_weights("best.safetensors", run.model.state_dict(), run.fingerprint)
