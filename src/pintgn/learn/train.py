"""Training: the loop is one screen (`Trainer.learn`); the rest is what it needs to be stopped and continued."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from pintgn import compiled
from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.facts import check
from pintgn.events.log import EventLog, Query
from pintgn.learn import paper
from pintgn.learn.arguments import check_arguments
from pintgn.learn.checkpoint import Average, Cursor, load_last, load_memory, save_best, save_last
from pintgn.learn.defaults import resolved
from pintgn.learn.finish import finish, replay
from pintgn.learn.folder import Folder
from pintgn.learn.later import Start
from pintgn.learn.loss import loss_of, rate
from pintgn.learn.metrics import Metrics
from pintgn.learn.negatives import Negatives, earlier_pairs, random_destination
from pintgn.learn.progress import Progress, for_people, no_progress
from pintgn.learn.protocol import scored_events
from pintgn.learn.reproducible import Interrupted, Stopper, interruptible, reproducible, seed_step, step_rng
from pintgn.learn.run import Run, fingerprint
from pintgn.learn.settings import (
    LEGACY_DEFAULTS,
    FitSettings,
    Settings,
    Streaming,
    Training,
    check_names,
    dataclass_parameters,
)
from pintgn.learn.tables import epoch_line
from pintgn.learn.warm import continued
from pintgn.models.base import Model
from pintgn.positions import first_use
from pintgn.stream import Stream


@for_people(check_arguments)
def fit(
    model: Model | str | Settings | Run,
    log: EventLog,
    *,
    folder: str | Path | None = None,
    seed: int = 0,
    resume: bool = True,
    negatives: Negatives | None = None,
    refit: bool = False,
    progress: Progress | bool = True,
    **settings: Unpack[FitSettings],
) -> Run:
    """Train on the first 70 % of a log, choose the epoch on the next 15 %, measure on the last.

    Args:
        model: a new model, taken as it is; or a name such as "pint", whose sizes are then chosen by the log; or
            `Settings`, which say all of it; or a run, with whose weights training begins and after whose log it is
            measured. A model is trained in place and ends with its best weights; a run that is continued has its own:
            `run.model`.
        log: everything there is; cut by time here. With a run, what came after its log, or both together.
        folder: where the run is kept. A run of the same settings and data that is already there is continued to a
            bit-identical end, or returned if it has ended.
        seed: of hidden nodes, parameters and negatives.
        resume: whether a run in `folder` may be continued; otherwise it is an error that there is one.
        negatives: what to tell events from; random destinations by default.
        refit: after the measurement, train on the whole log for as many epochs as validation chose. That model is then
            used (`run.deployed`); the figures stay those of the one that was measured.
        progress: True shows a bar in a terminal or a notebook, and nothing elsewhere; False shows none; a function is
            called with a dict, after every batch and every epoch: see `pintgn.learn.progress.Progress`.
        settings: fields of `Training` (epochs, learning_rate, …) and of `Streaming` (memory_block, …).

    >>> import pintgn
    >>> log = pintgn.simulate("shop", events=400, seed=0)
    >>> run = pintgn.fit(pintgn.PINT(dim=8), log, epochs=1)
    >>> run
    Run(pint, seed 0, best epoch 1 of 1)
    >>> sorted(run.test["all"])
    ['ap', 'auc', 'chunked_ap', 'events']
    """
    assert callable(progress)  # by `for_people`
    if seed < 0:
        raise BadInput(f"seed={seed}; it is a whole number from 0 on.")
    start = None
    if isinstance(model, Run):
        model, log, start = continued(model, log, settings)
        settings = {}
    chosen = resolved(_settings_of(model, settings), log)
    made = model if isinstance(model, Model) else chosen.make_model()
    if made.positions:
        first_use.start()
    run_folder = None if folder is None else Folder(folder)
    run = Run(chosen, seed, log, made, run_folder, start=start)
    run.parts  # noqa: B018 - data that cannot be cut is refused before anything is written
    if run.scaling.vocabulary is not None:
        warnings.warn(str(run.scaling.vocabulary), PintgnWarning, stacklevel=3)
    if run_folder is None:
        return completed(run, negatives, refit, progress)
    with run_folder.locked():
        if run_folder.holds_run:
            run = resumed(run_folder, chosen, seed, log, made, resume, start)
        else:
            run.prepare()
            run.create(own_negatives=negatives is not None, refit=refit)
            run.note(f"started: {chosen.name}, seed {seed}, {log!r}")
        return completed(run, negatives, refit, progress)


def completed(run: Run, negatives: Negatives | None, refit: bool, progress: Progress) -> Run:
    """A run brought to its end: trained, measured, and trained on the whole log if that is wanted."""
    refit = refit and run.refit is None
    if run.folder is not None and (refit or not run.finished):
        check_negatives(run.folder, negatives)
    if not run.finished:
        train(run, negatives, progress)
    if refit:
        run.ask_refit()
        from pintgn.learn.refit import refit as train_on_everything

        train_on_everything(run, negatives, progress)
    return run


def _settings_of(model: Model | str | Settings, given: Mapping[str, Any]) -> Settings:
    """What `fit` was given, as settings."""
    if isinstance(model, Settings):
        if given:
            raise BadInput(f"fit was given Settings and {', '.join(given)} besides; put them into the Settings.")
        return model
    check_names(given, dataclass_parameters(Training) | dataclass_parameters(Streaming), "fit")
    train = {key: value for key, value in given.items() if key in dataclass_parameters(Training)}
    stream = {key: value for key, value in given.items() if key not in train}
    if isinstance(model, str):
        return Settings.of({"model": {"name": model}, "train": train, "stream": stream})
    return Settings.of_model(model, train, stream)


def resume(
    folder: str | Path,
    model: Model | None = None,
    progress: Progress = no_progress,
    negatives: Negatives | None = None,
    refit: bool = False,
) -> Run:
    """Continue the run in a folder to its end; at once when it has ended. A run with own negatives needs them again."""
    run_folder = Folder(folder)
    wanted = refit or run_folder.read_json("run.json").get("refit", False)
    with run_folder.locked():
        return completed(Run.open(folder, model), negatives, wanted, progress)


def check_negatives(run_folder: Folder, negatives: Negatives | None) -> None:
    """A run that was begun with own negatives goes on with them, and one without goes on without."""
    own = negatives is not None
    if run_folder.read_json("run.json").get("own_negatives", own) != own:
        begun, what = ("random negatives", "leave out") if own else ("your own negatives", "from Python, pass the same")
        raise BadInput(f"the run in {run_folder.path} was begun with {begun}; {what} `negatives`.")


def resumed(
    run_folder: Folder, settings: Settings, seed: int, log: EventLog, model: Model, resume: bool, start: Start | None
) -> Run:
    """The run that a folder holds, if it is the one that was asked for."""
    if not resume:
        raise BadInput(f"{run_folder.path} holds a run already. Continue it with --resume, or choose another folder.")
    path = run_folder / "run.json"
    facts = check(run_folder.read_json(path.name), {"asked": dict, "data": str}, str(path), "Train again.")
    if facts["seed"] != seed:
        raise BadInput(f"{run_folder.path} holds a run of seed {facts['seed']}, not {seed}. Choose another folder.")
    mine, theirs = settings.to_dict(), facts["asked"]
    for table in mine:
        for key, value in mine[table].items():
            if key not in theirs[table] and value == LEGACY_DEFAULTS.get(table, {}).get(key, value):
                continue
            if theirs[table].get(key) != value and key not in ("threads", "checkpoint_seconds"):
                raise BadInput(
                    f"{run_folder.path} holds a run with {table}.{key} = {theirs[table].get(key)!r}, not {value!r}. "
                    "Choose another folder."
                )
    if fingerprint(log) != facts["data"]:
        raise BadInput(f"{run_folder.path} holds a run on other data. Choose another folder.")
    if facts.get("start") != (start and start.facts()):
        raise BadInput(f"{run_folder.path} holds a run that began with other weights. Choose another folder.")
    return Run.open(run_folder.path, type(model))


def train(run: Run, negatives: Negatives | None = None, progress: Progress = no_progress) -> Run:
    """Train a run from its last step to its end."""
    with reproducible(run.settings.train.threads):
        if run.folder is None or not (run.folder / "last.safetensors").exists():
            progress({"phase": "preparing"})
            run.prepare()
        with interruptible() as stopper:
            trainer = Trainer(run, negatives, progress, stopper)
            trainer.learn()
        trainer.load_best()
        run.note(f"testing the weights of epoch {run.best_epoch}")
        try:
            finish(run, trainer.ready, negatives, progress)
        except KeyboardInterrupt:
            raise Interrupted(trainer.stop_message("while testing")) from None
    return run


AT_ONCE = 250_000
"""The newest training events that a model which learns at once is given, to within a batch: their columns are held in
memory."""


class Trainer:
    """A run in training."""

    def __init__(self, run: Run, negatives: Negatives | None, progress: Progress, stopper: Stopper):
        self.run, self.negatives, self.progress, self.stopper = run, negatives, progress, stopper
        self.settings, self.model, self.parts = run.settings.train, run.model, run.parts
        self.stream = run.new_stream()  # builds the parameters
        run.load_start()
        self.optimizer = self._optimizer()
        self.epochs = 1 if self.model.learns_at_once else (self.settings.epochs or 0) if self.optimizer else 0
        self.average = Average(self.model, self.settings.average)
        self.cursor = Cursor()
        self.negatives_in_training = [
            negatives or random_destination(self.parts.train)
        ] * self.settings.negatives_per_event
        if len(self.model.questions) > 1:
            self.negatives_in_training.append(earlier_pairs(self.parts.trained))
        self.compute = self.model.columns if self.model.learns_at_once else self.model
        self.columns: list[list[Tensor]] = []  # what a model that learns at once will learn from
        self.best_weights: dict[str, Tensor] | None = None
        self.ready: Stream | None = None  # has observed the training part; for models without memory
        self.saved_at = time.monotonic()
        if run.folder is not None and (run.folder / "last.safetensors").exists():
            self._restore()
        self.run.history = self.cursor.history

    def learn(self) -> None:
        """The loop."""
        at, settings = self.cursor, self.settings
        while at.epoch <= self.epochs and at.stale < (settings.patience or math.inf):
            started, events_before = compiled.working_time(), at.events
            self.model.train()
            seed_step(self.run.seed, at.epoch, at.step)
            left = self.parts.trained[at.step * settings.batch :]
            for _, scores in self.stream.prefetch(left.batches(settings.batch), self._ask, self.compute):
                if scores:
                    at.events, at.loss = at.events + len(scores[0]), at.loss + self._step(scores) / 2 * len(scores[0])
                at.step += 1
                self._after_step(started, events_before)
            self._learn_at_once()
            seconds, trained = compiled.working_time() - started, at.events - events_before
            with self.average.applied():
                val = self._validate()
                self._keep_if_best(val["all"][settings.choose_by] or 0.0)
            entry = {"epoch": at.epoch, "loss": at.loss / max(at.events, 1), "val": val, "best_epoch": at.best_epoch}
            entry |= {"events_per_second": trained / seconds, "seconds": compiled.working_time() - started}
            at.history.append(entry)
            at.epoch, at.step, at.events, at.loss = at.epoch + 1, 0, 0, 0.0
            self.stream = self.run.new_stream()
            self._save()
            self.run.write_metrics()
            self.run.note(epoch_line(entry, self.epochs))
            self.progress(entry)
            self._stop_if_asked()

    # -- one step ----------------------------------------------------------------------------------------------

    def _ask(self, batch: EventLog) -> list[Query]:
        """A batch's events and the negatives of each; nothing where it has none to learn from."""
        left = len(self.parts.trained) - (batch.first - self.parts.trained.first)
        if self.model.learns_at_once and left - len(batch) >= AT_ONCE:
            return []  # observed, as all are
        events = scored_events(batch)
        rng = step_rng(self.run.seed, self.cursor.epoch, batch.first // self.settings.batch)
        return [events.query, *(draw(events, rng) for draw in self.negatives_in_training)] if len(events) else []

    def _step(self, scores: list[Tensor]) -> float:
        """Learn from the scores of events and of their negatives; returns the loss."""
        if self.optimizer is None:
            self.columns.append(scores)
            return 0.0
        loss = loss_of(scores[0], scores[1:], self.settings)
        if not torch.isfinite(loss):
            raise BadInput(
                f"the loss became {loss.item()} in epoch {self.cursor.epoch}, step {self.cursor.step}. "
                f"Use a smaller learning rate than {self.settings.learning_rate}."
            )
        steps = -(-len(self.parts.trained) // self.settings.batch)
        done = (self.cursor.epoch - 1) * steps + self.cursor.step
        self.optimizer.param_groups[0]["lr"] = rate(self.settings, done, steps * (self.settings.epochs or 1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(self.average.parameters, self.settings.clip)
        self.optimizer.step()
        self.average.update()
        return loss.item()

    def _learn_at_once(self) -> None:
        """The end of the one pass of a model without gradients."""
        if self.columns:
            self.progress({"phase": "growing trees"})
            self.model.learn([torch.cat(some) for some in zip(*self.columns, strict=True)], self.run.seed)
            self.columns = []

    def _after_step(self, started: float, events_before: int) -> None:
        at, total = self.cursor, len(self.parts.trained)
        done = min(at.step * self.settings.batch, total)
        rate = (at.events - events_before) / max(compiled.working_time() - started, 1e-9)
        loss = at.loss / max(at.events, 1)
        state = {"epoch": at.epoch, "epochs": self.epochs, "done": done, "total": total}
        self.progress(state | {"loss": loss, "events_per_second": rate})
        self._stop_if_asked()
        if time.monotonic() - self.saved_at >= self.settings.checkpoint_seconds:
            self._save()
        seed_step(self.run.seed, at.epoch, at.step)

    # -- one epoch ---------------------------------------------------------------------------------------------

    def _validate(self) -> dict[str, Metrics]:
        """The validation part, by a stream that knows what a deployed system would: the whole training part."""
        if self.settings.protocol == "paper":
            stream = self.run.new_stream()
            stream.observe(self.parts.trained)
            kinds: list[str | Negatives] = [self.negatives or "random"]
            return next(iter(paper.measure(stream, self.parts, self.parts.val, kinds, self.run.seed).figures.values()))
        if self.ready is None:
            stream = self.run.new_stream()
            stream.observe(self.parts.train)
            if not self.model.remembers:  # what it has seen does not depend on the weights: seen once is enough
                self.ready = stream
        return replay(
            stream if self.ready is None else self.ready.fork(), self.run, self.parts.val, self.negatives
        ).figures["random"]

    def _keep_if_best(self, value: float) -> None:
        at = self.cursor
        at.stale += 1
        if value > at.reference + self.settings.tolerance:
            at.reference, at.stale = value, 0
        if value > at.best_value:
            at.best_value, at.best_epoch = value, at.epoch
            self.best_weights = {name: w.detach().clone() for name, w in self.model.state_dict().items()}
            save_best(self.run)
        self.run.best_epoch = at.best_epoch

    def load_best(self) -> None:
        """End with the weights that validation chose."""
        if not self.cursor.best_epoch and self.optimizer is None:
            self._save()  # there was nothing to learn; what was prepared is kept
        elif self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)
        elif self.cursor.best_epoch:
            self.run.load_weights("best.safetensors")
        self.run.best_epoch = self.cursor.best_epoch

    # -- stopping and continuing -------------------------------------------------------------------------------

    def _save(self) -> None:
        save_last(self.run, self.cursor, self.optimizer, self.average, self.stream)
        self.saved_at = time.monotonic()

    def _restore(self) -> None:
        self.cursor, memory, undo = load_last(self.run, self.optimizer, self.average)
        self.run.note(f"continued at epoch {self.cursor.epoch}, step {self.cursor.step}")
        if self.optimizer is None:  # begin the pass again
            self.cursor.step = self.cursor.events = 0
        if self.cursor.step:
            self.stream.observe(self.parts.trained[: self.cursor.step * self.settings.batch])
            load_memory(self.stream, memory, undo)

    def _optimizer(self) -> torch.optim.Optimizer | None:
        """Adam; nothing for a model without parameters, which is measured as it is."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        if not parameters:
            return None
        rate = self.settings.learning_rate
        assert rate is not None
        fused = all(p.device.type == "cpu" for p in parameters)
        return torch.optim.Adam(parameters, rate, weight_decay=self.settings.weight_decay, fused=fused)

    def _stop_if_asked(self) -> None:
        if self.stopper.asked:
            self._save()
            self.run.note("stopped by the user")
            raise Interrupted(self.stop_message(f"in epoch {self.cursor.epoch}, step {self.cursor.step}"))

    def stop_message(self, where: str) -> str:
        if self.run.folder is None:
            return f"Stopped {where}."
        path = self.run.folder.path
        return f"Stopped {where}. {path} can be used as it is; `pintgn train {path} --resume` continues it."
