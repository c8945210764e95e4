"""Train on everything: after a run has been measured, its model once more on the whole log.

The run stays as it is: its weights, its figures and its calibration come from the honest split. The refit has the same
settings and seed, as many epochs as validation chose, nothing hidden and nothing held back, so that there is nothing
left to measure it by. It is what is used; `Run.deployed`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from functools import cached_property

from torch import Tensor

from pintgn import compiled
from pintgn.events.log import EventLog
from pintgn.facts import reading
from pintgn.learn.folder import Folder
from pintgn.learn.metrics import Metrics
from pintgn.learn.negatives import Negatives
from pintgn.learn.progress import Progress
from pintgn.learn.protocol import Parts
from pintgn.learn.reproducible import interruptible, reproducible
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.train import Trainer
from pintgn.stream import Stream


class Refit(Run):
    """A run's model on the whole log. Where the run began with the weights of an earlier one, so does this."""

    measured: Run

    @cached_property
    def basis(self) -> EventLog:
        return self.log if self.start is None else self.log[: self.start.rows]

    @cached_property
    def parts(self) -> Parts:
        return Parts.whole(self.view(self.log))

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.blake2b(f"refit {self.measured.fingerprint}".encode(), digest_size=16).hexdigest()

    @property
    def stream(self) -> Stream:
        if self._stream is None:
            assert self.folder is not None
            self._stream = Stream.open(self.folder / "stream", type(self.model), device=self.device or "cpu")
            self.model = self._stream.model
        return self._stream

    def start_weights(self) -> dict[str, Tensor]:
        return self.measured.start_weights()

    def note(self, line: str) -> None:
        self.measured.note(line)


class Refitter(Trainer):
    """The training loop without validation: it ends where validation ended it the first time."""

    run: Refit

    def __init__(self, run: Refit, negatives: Negatives | None, progress: Progress, stopper: object):
        super().__init__(run, negatives, progress, stopper)  # type: ignore[arg-type]
        self.epochs = run.measured.best_epoch

    def _validate(self) -> dict[str, Metrics]:
        return self.run.task.nothing()

    def _keep_if_best(self, value: float) -> None:
        self.cursor.best_value = -1.0  # the newest is kept
        super()._keep_if_best(value)
        self.cursor.stale = 0


def refit(run: Run, negatives: Negatives | None, progress: Progress) -> Run:
    """Train a run's model on its whole log, or continue where that was stopped."""
    started = compiled.working_time()
    again = _refit_of(run, (run.asked or run.settings))
    progress({"phase": "training on the whole log"})
    with reproducible(run.settings.train.threads):
        if again.folder is not None:
            again.folder.path.mkdir(exist_ok=True)
        again.prepare()
        with interruptible() as stopper:
            trainer = Refitter(again, negatives, progress, stopper)
            trainer.learn()
        trainer.load_best()
        again._stream = again.new_stream()
        again.stream.observe(again.parts.log)
    _measured_by(again, run)
    again.spent = {"training_seconds": compiled.working_time() - started}
    if again.folder is not None and run.folder is not None:
        progress({"phase": "saving"})
        again.folder.write("settings.toml", again.settings.to_toml())
        with again.folder.errors(again.folder / "stream"):
            again.stream.save(again.folder / "stream")
        facts = {"epochs": again.best_epoch, "events": len(again.log), "seconds": again.spent["training_seconds"]}
        run.folder.write_json("refit.json", facts)
    run.note(f"trained on the whole log: {again.best_epoch} epochs, {len(again.log)} events")
    run.refit = again
    return run


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
    _measured_by(again, run)
    return again


def _refit_of(run: Run, settings: Settings) -> Refit:
    folder = None if run.folder is None else Folder(run.folder / "refit")
    model = type(run.model).from_settings(dict(settings.model))
    again = Refit(dataclasses.replace(run.settings, model=settings.model), run.seed, run.log, model, folder)
    again.measured, again.start, again.device = run, run.start, run.device
    return again


def _measured_by(again: Run, run: Run) -> None:
    """What the honest split found out about the model, and the whole log cannot."""
    again.calibration, again.calibration_known = run.calibration, run.calibration_known
    again.next_slope, again.answer_calibration = run.next_slope, run.answer_calibration
    again.finished = True
