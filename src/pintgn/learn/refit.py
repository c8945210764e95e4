"""Refit: after the test a run's model is trained once more, on the whole log.

The run stays as it is: its weights, its figures and its calibration come from the honest split. The refit has the same
settings and seed, as many epochs as validation chose, nothing hidden and nothing held back, so that there is nothing
left to measure it by. It is what is used; `Run.deployed`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property

from torch import Tensor

from pintgn import compiled
from pintgn.events.log import EventLog
from pintgn.facts import reading
from pintgn.learn.figures_text import Progress
from pintgn.learn.folder import Folder
from pintgn.learn.hooks import Checkpoints, Interruptible, Reports
from pintgn.learn.negatives import Negatives
from pintgn.learn.protocol import Parts
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.stack import grow_trees
from pintgn.learn.train import Trainer, reproducible


class Refit(Run):
    """A run's model on the whole log. Where the run began with the weights of an earlier one, so does this."""

    measured: Run

    @cached_property
    def basis(self) -> EventLog:
        return self.log if self.start is None else self.log[: self.start.rows]

    @cached_property
    def parts(self) -> Parts:
        return Parts.unsplit(self.view(self.log))

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.blake2b(f"refit {self.measured.fingerprint}".encode(), digest_size=16).hexdigest()

    def start_weights(self) -> dict[str, Tensor]:
        return self.measured.start_weights()

    def note(self, line: str) -> None:
        self.measured.note(line)


def train_on_everything(run: Run, negatives: Negatives | None, progress: Progress) -> None:
    """Train a run's model on its whole log, or continue where that was stopped."""
    run.refit_requested = True
    if run.folder is not None and not (facts := run.folder.read_json("run.json")).get("refit"):
        run.folder.write_json("run.json", facts | {"refit": True})  # also when it had ended without
    started = compiled.working_time()
    again = _refit_of(run, run.asked or run.settings)
    progress({"phase": "training on the whole log"})
    with reproducible(run.settings.train.threads):
        if again.folder is not None:
            again.folder.path.mkdir(exist_ok=True)
        again.prepare()
        with Interruptible() as stop:
            hooks = [Checkpoints(progress), Reports(progress), stop]
            Trainer(again, negatives, hooks, epochs=run.best_epoch).learn()
        if again.model.with_trees:
            grow_trees(again, negatives, run.model.trees_share)
        again._stream = again.stream_after(again.parts.log)
    _take_calibration(again, run)
    again.spent = {"training_seconds": compiled.working_time() - started}
    if again.folder is not None and run.folder is not None:
        progress({"phase": "saving"})
        again.folder.write("settings.toml", again.settings.to_toml())
        with again.folder.errors(again.folder / "stream"):
            again._stream.save(again.folder / "stream")
        facts = {"epochs": again.best_epoch, "events": len(again.log), "seconds": again.spent["training_seconds"]}
        run.folder.write_json("refit.json", facts)
    run.note(f"trained on the whole log: {again.best_epoch} epochs, {len(again.log)} events")
    run.refit = again


def open_refit(run: Run) -> Run:
    """The refit that a run's folder holds."""
    assert run.folder is not None
    facts = run.folder.read_json("refit.json")
    path = run.folder / "refit"
    with reading(path / "settings.toml"):
        settings = Settings.from_toml((path / "settings.toml").read_text())
    again = _refit_of(run, settings)
    again.prepared = True
    again.restore()
    again.spent = {"training_seconds": facts["seconds"]}
    _take_calibration(again, run)
    return again


def _refit_of(run: Run, settings: Settings) -> Refit:
    folder = None if run.folder is None else Folder(run.folder / "refit")
    model = type(run.model).from_settings(dict(settings.model))
    again = Refit(replace(run.settings, model=settings.model), run.seed, run.log, model, folder)
    again.measured, again.start, again.device = run, run.start, run.device
    return again


def _take_calibration(again: Run, run: Run) -> None:
    """Copy what the tested model has and the whole log cannot provide: its calibration."""
    for name in ("calibration", "calibration_known", "next_slope", "answer_calibration"):
        setattr(again, name, getattr(run, name))
    again.finished = True
