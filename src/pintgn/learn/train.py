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
from pintgn.display.progress import silent
from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.checks import same
from pintgn.events.log import EventLog, Query
from pintgn.facts import check
from pintgn.learn import paper
from pintgn.learn.arguments import check_arguments, warn_of_device
from pintgn.learn.checkpoint import Average, Cursor, load_last, load_memory, save_best, save_last
from pintgn.learn.defaults import resolved
from pintgn.learn.finish import finish
from pintgn.learn.folder import Folder
from pintgn.learn.later import Start
from pintgn.learn.loss import rate
from pintgn.learn.measure import observe_log
from pintgn.learn.metrics import Metrics
from pintgn.learn.negatives import Negatives
from pintgn.learn.progress import Progress, for_people
from pintgn.learn.protocol import scored_events
from pintgn.learn.reproducible import Interrupted, Stopper, interruptible, reproducible, seed_step, step_rng
from pintgn.learn.run import Run
from pintgn.learn.settings import (
    LEGACY_DEFAULTS,
    FitSettings,
    Settings,
    Streaming,
    TaskSettings,
    Training,
    check_names,
    dataclass_parameters,
)
from pintgn.learn.tables import epoch_line
from pintgn.learn.warm import continued
from pintgn.learn.worker import agree, unwritten
from pintgn.models.base import Model
from pintgn.positions import first_use
from pintgn.positions.capacity import give_back
from pintgn.stream import Stream
from pintgn.workers.gradients import Step, clip, joint_step
from pintgn.workers.group import current


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
    progress: Progress | bool | None = True,
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
        progress: True shows a bar in a terminal or a notebook, and nothing elsewhere; False or None shows none; a
            function is called with a dict, after every batch and every epoch: see `pintgn.learn.progress.Progress`.
        settings: fields of `Training` (epochs, learning_rate, …), of `Streaming` (memory_block, …) and of
            `TaskSettings`: `predict="fraud", given=["amount"]` asks about a column of events; see docs/tasks.md.

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
    warn_of_device(made, chosen)
    if made.positions:
        first_use.start()
    folder = current().writes(folder)
    run_folder = None if folder is None else Folder(folder)
    run = Run(chosen, seed, log, made, run_folder, start=start)
    run.task.check(run.parts)  # data that cannot be cut, or asked about, is refused before anything is written
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
    agree(run, refit)
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
    kinds = {"train": Training, "stream": Streaming, "task": TaskSettings}
    known = {table: dataclass_parameters(kind) for table, kind in kinds.items()}
    check_names(given, [name for names in known.values() for name in names], "fit")
    tables = {table: {key: given[key] for key in given if key in names} for table, names in known.items()}
    if isinstance(model, str):
        return Settings.of({"model": {"name": model}, **tables})
    return Settings.of_model(model, tables["train"], tables["stream"], tables["task"])


def resume(
    folder: str | Path,
    model: Model | None = None,
    progress: Progress = silent,
    negatives: Negatives | None = None,
    refit: bool = False,
) -> Run:
    """Continue the run in a folder to its end; at once when it has ended. A run with own negatives needs them again."""
    run_folder = Folder(folder)
    wanted = refit or run_folder.read_json("run.json").get("refit", False)
    if current().rank:
        return completed(unwritten(folder, model), negatives, wanted, progress)
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
            had = theirs.get(table, {})
            if key not in had and value == LEGACY_DEFAULTS.get(table, {}).get(key, value):
                continue
            if had.get(key) != value and key not in ("threads", "checkpoint_seconds"):
                raise BadInput(
                    f"{run_folder.path} holds a run with {table}.{key} = {had.get(key)!r}, not {value!r}. "
                    "Choose another folder."
                )
    if log.fingerprint != facts["data"]:
        raise BadInput(f"{run_folder.path} holds a run on other data. Choose another folder.")
    if facts.get("start") != (start and start.facts()):
        raise BadInput(f"{run_folder.path} holds a run that began with other weights. Choose another folder.")
    found = Run.open(run_folder.path, type(model))
    if not settings.task.scores_links and not same(found.log.label, log.label):
        raise BadInput(f"{run_folder.path} holds a run on other labels. Choose another folder.")
    return found


def train(run: Run, negatives: Negatives | None = None, progress: Progress = silent) -> Run:
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
KEPT = 2**28
"""Bytes of a stream after the training part that is kept from epoch to epoch; a larger one is built anew for each
validation, so that only one is held at a time."""


class Trainer:
    """A run in training."""

    def __init__(self, run: Run, negatives: Negatives | None, progress: Progress, stopper: Stopper):
        self.run, self.negatives, self.progress, self.stopper = run, negatives, progress, stopper
        self.settings, self.model, self.parts = run.settings.train, run.model, run.parts
        self.group, self.stopping = current(), False
        self.stream = self._new_stream()  # builds the parameters
        run.load_start()
        self.optimizer = self._optimizer()
        self.epochs = 1 if self.model.learns_at_once else (self.settings.epochs or 0) if self.optimizer else 0
        self.average = Average(self.model, self.settings.average)
        self.cursor = Cursor()
        self.task, self.asker = run.task, run.task.asker(run, negatives)
        self.truths: dict[int, Any] = {}  # of the batches that are looked up, by their first event
        self.compute = self.model.columns if self.model.learns_at_once else self.model
        self.columns: list[list[Tensor]] = []  # what a model that learns at once will learn from
        self.learned: list[Any] = []  # and what that turned out to be
        self.best_weights: dict[str, Tensor] | None = None
        self.ready: Stream | None = None  # has observed the training part; for models without memory
        self.saved_at = time.monotonic()
        if self.group.from_first(lambda: run.folder is not None and (run.folder / "last.safetensors").exists()):
            self._restore()
        self.group.copy_first(self.model.state_dict().values())
        self.run.history = self.cursor.history

    def learn(self) -> None:
        """The loop."""
        at, settings = self.cursor, self.settings
        while at.epoch <= self.epochs and at.stale < (settings.patience or math.inf):
            started, events_before = compiled.working_time(), at.events
            self.model.train()
            seed_step(self.run.seed, at.epoch, at.step)
            left = self.parts.trained[at.step * settings.batch :]
            for batch, scores in self.stream.prefetch(left.batches(settings.batch), self._ask, self.compute):
                if scores:
                    loss, events, self.stopping, _ = self._step(scores, self.truths.pop(batch.first))
                    at.events, at.loss = at.events + events, at.loss + loss / self.task.loss_terms * events
                at.step += 1
                self._after_step(started, events_before)
            self._learn_at_once()
            seconds, trained = compiled.working_time() - started, at.events - events_before
            self.stream = self._new_stream()  # one stream at a time: validation has its own
            give_back()
            with self.average.applied():
                val = self._validate()
                self._keep_if_best(self.task.value(val["all"], settings))
            entry = {"epoch": at.epoch, "loss": at.loss / max(at.events, 1), "val": val, "best_epoch": at.best_epoch}
            entry["chosen_by"] = self.task.chosen_by(settings)
            entry |= {"events_per_second": trained / seconds, "seconds": compiled.working_time() - started}
            at.history.append(entry)
            at.epoch, at.step, at.events, at.loss = at.epoch + 1, 0, 0, 0.0
            self._save()
            self.run.write_metrics()
            self.run.note(epoch_line(entry, self.epochs))
            self.progress(entry)
            self._stop_if(self.group.any(self.stopper.asked))

    # -- one step ----------------------------------------------------------------------------------------------

    def _ask(self, batch: EventLog) -> list[Query]:
        """A batch's questions; nothing where it has none to learn from."""
        left = len(self.parts.trained) - (batch.first - self.parts.trained.first)
        if self.model.learns_at_once and left - len(batch) >= AT_ONCE:
            return []  # observed, as all are
        events = scored_events(batch)
        rng = step_rng(self.run.seed, self.cursor.epoch, batch.first // self.settings.batch)
        queries, truth = self.asker(events, rng) if len(events) else ([], None)
        if not queries:
            return []
        mine = slice(None) if self.optimizer is None else self.group.share(len(queries[0]))
        self.truths[batch.first] = None if truth is None else truth[mine]
        return [query[mine] for query in queries]

    def _step(self, scores: list[Tensor], truth: Any) -> Step:
        """Learn from the answers to a batch's questions: this worker's share of them, and that of all."""
        count = len(scores[0])
        if self.optimizer is None:
            self.columns.append(scores)
            self.learned.append(truth)
            return Step(0.0, count, self.stopper.asked)
        steps = -(-len(self.parts.trained) // self.settings.batch)
        done = (self.cursor.epoch - 1) * steps + self.cursor.step
        self.optimizer.param_groups[0]["lr"] = rate(self.settings, done, steps * (self.settings.epochs or 1))
        self.optimizer.zero_grad()
        loss = self.task.loss(scores, truth, self.settings) if count else None
        parameters, asked = self.average.parameters, self.stopper.asked
        step = joint_step(self.group, parameters, loss, count, asked, self.stream.look_ahead)
        if not math.isfinite(step.loss):
            raise BadInput(
                f"the loss became {step.loss} in epoch {self.cursor.epoch}, step {self.cursor.step}. "
                f"Use a smaller learning rate than {self.settings.learning_rate}."
            )
        if self.settings.clip:
            clip(step, parameters, self.settings.clip)
        self.optimizer.step()
        self.average.update()
        return step

    def _learn_at_once(self) -> None:
        """The end of the one pass of a model without gradients."""
        if self.columns:
            self.progress({"phase": "growing trees"})
            columns = [torch.cat(some) for some in zip(*self.columns, strict=True)]
            self.task.learn_at_once(self.model, columns, self.learned, self.run.seed)
            self.columns, self.learned = [], []

    def _after_step(self, started: float, events_before: int) -> None:
        at, total = self.cursor, len(self.parts.trained)
        done = min(at.step * self.settings.batch, total)
        rate = (at.events - events_before) / max(compiled.working_time() - started, 1e-9)
        loss = at.loss / max(at.events, 1)
        state = {"epoch": at.epoch, "epochs": self.epochs, "done": done, "total": total}
        self.progress(state | {"loss": loss, "events_per_second": rate})
        self._stop_if(self.stopping if self.group.size > 1 else self.stopper.asked)  # workers agree with the next step
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
            if not self.model.remembers and stream.nbytes <= KEPT:  # the same for all weights: seen once will do
                self.ready = stream
        return self.task.validate(stream if self.ready is None else self.ready.fork(), self.run, self.negatives)

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
        elif self.cursor.best_epoch and self.run.folder is not None:
            self.run.load_weights("best.safetensors")
        self.group.copy_first(self.model.state_dict().values())
        self.run.best_epoch = self.cursor.best_epoch

    # -- stopping and continuing -------------------------------------------------------------------------------

    def _save(self) -> None:
        save_last(self.run, self.cursor, self.optimizer, self.average, self.stream)
        self.saved_at = time.monotonic()

    def _new_stream(self) -> Stream:
        stream = self.run.new_stream()
        stream.reuse_states = self.group.size == 1
        return stream

    def _restore(self) -> None:
        read = self.group.from_first(lambda: self.run.read_checkpoint("last.safetensors"))
        self.cursor, memory, undo = load_last(self.run, self.optimizer, self.average, *read)
        self.run.note(f"continued at epoch {self.cursor.epoch}, step {self.cursor.step}")
        if self.optimizer is None:  # begin the pass again
            self.cursor.step = self.cursor.events = 0
        if self.cursor.step:
            self._rebuild(self.parts.trained[: self.cursor.step * self.settings.batch])
            load_memory(self.stream, memory, undo)

    def _rebuild(self, events: EventLog) -> None:
        """Neighbors and positions, which the checkpoint does not hold: observing is many times as fast as training."""
        started = compiled.working_time()
        observe_log(
            self.stream,
            events,
            lambda done: self.progress({"phase": "rebuilding", "observed": done, "of": len(events)}),
        )
        seconds = max(compiled.working_time() - started, 1e-9)
        self.run.note(f"rebuilt the stream from {len(events):,} events, {len(events) / seconds:,.0f} a second")

    def _optimizer(self) -> torch.optim.Adam | None:
        """Adam; nothing for a model without parameters, which is measured as it is."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        if not parameters:
            return None
        rate = self.settings.learning_rate
        assert rate is not None
        fused = all(p.device.type == "cpu" for p in parameters) or None  # elsewhere torch knows best
        return torch.optim.Adam(parameters, rate, weight_decay=self.settings.weight_decay, fused=fused)

    def _stop_if(self, asked: bool) -> None:
        if asked:
            self._save()
            self.run.note("stopped by the user")
            raise Interrupted(self.stop_message(f"in epoch {self.cursor.epoch}, step {self.cursor.step}"))

    def stop_message(self, where: str) -> str:
        if self.run.folder is None:
            return f"Stopped {where}."
        path = self.run.folder.path
        return f"Stopped {where}. {path} can be used as it is; `pintgn train {path} --resume` continues it."
