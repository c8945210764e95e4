"""The training loop: batches, negatives, look-up, forward, loss, step, observe, validate.

Read `Trainer.learn` from top to bottom. Checkpoints, progress and Ctrl-C are hooks around it (`Hook`); `fit.py` puts
them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn import compiled
from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.learn.metrics import Metrics
from pintgn.learn.negatives import Negatives
from pintgn.learn.run import Run
from pintgn.learn.settings import Training
from pintgn.models.base import Model
from pintgn.positions.capacity import give_back
from pintgn.stream import Stream
from pintgn.workers.group import Step, current, joint_step

AT_ONCE = 500_000
"""The newest training events that a model which learns at once is given, to within a batch: their columns are held in
memory."""
KEPT = 2**28
"""Bytes of a stream after the training part that is kept from epoch to epoch; a larger one is built anew for each
validation, so that only one is held at a time."""
NO_FIGURES: dict[str, Metrics] = {group: {"events": 0} for group in ("all", "seen", "new")}
LEAST_RATE = 0.02
"""Share of the learning rate that is left at the end of the cosine schedule."""


@dataclass
class Cursor:
    """How far training has come. Randomness is a function of epoch and step, so this is all of it."""

    epoch: int = 1
    step: int = 0  # steps of this epoch that are done
    events: int = 0  # events trained on in them
    loss: float = 0.0  # their summed loss
    best_epoch: int = 0
    best_value: float = -1.0
    reference: float = -1.0  # the value that an epoch must clearly exceed to count as progress
    stale: int = 0  # epochs in a row without
    history: list[dict[str, Any]] = field(default_factory=list)


class Hook:
    """Something that happens around training. Every method may be left out."""

    def on_start(self, trainer: Trainer) -> None:
        """Before the first step."""

    def on_step(self, trainer: Trainer) -> None:
        """After every step."""

    def on_epoch(self, trainer: Trainer, entry: dict[str, Any]) -> None:
        """After validation, with the epoch's entry of `run.history`."""


class Average:
    """A running mean of the weights; what is measured and kept.

    Its decay grows from 0.1 to its full value over the first steps, so that early weights are soon forgotten. It makes
    up for a schedule of the learning rate, without having to know how long training will last.
    """

    def __init__(self, model: Model, decay: float):
        self.parameters: list[Tensor] = list(model.parameters())
        self.decay, self.steps = decay, 0
        self.weights = [p.detach().clone() for p in self.parameters] if decay else []

    @torch.no_grad()
    def update(self) -> None:
        self.steps += 1
        if self.weights:
            decay = min(self.decay, self.steps / (self.steps + 9))
            torch._foreach_lerp_(self.weights, self.parameters, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with its mean weights."""
        if not self.weights:
            yield
            return
        own = [p.detach().clone() for p in self.parameters]
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.weights)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, own)


class Trainer:
    """A run in training.

    Args:
        run: a run that is prepared. Its model ends with the best weights.
        negatives: as of `fit`.
        hooks: called in this order.
        epochs: so many, without validation: the newest weights are kept. By the settings and validation when not given.
    """

    def __init__(
        self,
        run: Run,
        negatives: Negatives | None = None,
        hooks: Iterable[Hook] = (),
        epochs: int | None = None,
    ):
        self.run, self.negatives, self.hooks = run, negatives, tuple(hooks)
        self.settings, self.model, self.parts, self.task = run.settings.train, run.model, run.parts, run.task
        self.group, self.validates, self.cursor = current(), epochs is None, Cursor()
        self.stream = self._new_stream()  # builds the parameters
        if run.start is not None and any(p.requires_grad for p in self.model.parameters()):
            self.model.load_state_dict(run.start_weights())
        self.optimizer = make_optimizer(self.model, self.settings)
        self.average = Average(self.model, self.settings.average)
        wanted = (self.settings.epochs or 0) if self.optimizer else 0
        self.epochs = epochs if epochs is not None else 1 if self.model.learns_at_once else wanted
        self.sample = self.task.sampler(run, negatives)
        self.labels: dict[int, Any] = {}  # of the batches that are looked up, by their first event
        self.compute = self.model.columns if self.model.learns_at_once else self.model
        self.collected: list[tuple[list[Tensor], Any]] = []  # what a model that learns at once will learn from
        self.best_weights: dict[str, Tensor] | None = None
        self.kept: Stream | None = None  # after the training part; of a model without memory
        self.last = Step(0.0, 0, False)
        self.stop_asked = False  # by a hook; workers agree on it with the next step

    def learn(self) -> None:
        """Train to the end, from wherever a hook has restored the cursor to."""
        for hook in self.hooks:
            hook.on_start(self)
        self.group.copy_first(self.model.state_dict().values())
        at, settings, trained = self.cursor, self.settings, self.parts.trained
        self.run.history = at.history
        while at.epoch <= self.epochs and at.stale < (settings.patience or math.inf):
            started, before = compiled.working_time(), at.events
            self.model.train()
            seed_step(self.run.seed, at.epoch, at.step)
            batches = trained[at.step * settings.batch :].batches(settings.batch)
            # For each batch the stream asks for questions, looks them up as of their own times (one batch ahead),
            # computes the answers and observes the events.
            for batch, answers in self.stream.prefetch(batches, self.questions, self.compute):
                if answers:
                    self.last = self.step(answers, self.labels.pop(batch.first))
                    at.events += self.last.events
                    at.loss += self.last.loss / self.task.loss_terms * self.last.events
                at.step += 1
                for hook in self.hooks:
                    hook.on_step(self)
                seed_step(self.run.seed, at.epoch, at.step)
            if self.collected:
                self._learn_at_once()
            rate = (at.events - before) / max(compiled.working_time() - started, 1e-9)
            self.stream = self._new_stream()  # one at a time: validation has its own
            give_back()
            with self.average.applied():
                figures = NO_FIGURES
                if self.validates:
                    figures = self.task.validate(self.run, self.after_training, self.negatives)
                self._keep_if_best(self.task.value(figures["all"], settings))
            entry = {"epoch": at.epoch, "loss": at.loss / max(at.events, 1), "val": figures}
            entry |= {"best_epoch": at.best_epoch, "chosen_by": self.task.chosen_by(settings)}
            entry |= {"events_per_second": rate, "seconds": compiled.working_time() - started}
            at.history.append(entry)
            at.epoch, at.step, at.events, at.loss = at.epoch + 1, 0, 0, 0.0
            for hook in self.hooks:
                hook.on_epoch(self, entry)
        self._load_best()
        self.model.eval()

    def questions(self, batch: EventLog) -> list[Query]:
        """A batch's questions: its events and their negatives. Nothing where it has none to learn from."""
        left = len(self.parts.trained) - (batch.first - self.parts.trained.first)
        if self.model.learns_at_once and left - len(batch) >= AT_ONCE:
            return []  # observed, as all are
        events = batch.scored_events
        rng = step_rng(self.run.seed, self.cursor.epoch, batch.first // self.settings.batch)
        queries, labels = self.sample(events, rng) if len(events) else ([], None)
        if not queries:
            return []
        alone = self.optimizer is None or self.group.size == 1
        mine = slice(None) if alone else self.group.share(len(queries[0]))
        self.labels[batch.first] = None if labels is None else labels[mine]
        return [query[mine] for query in queries]

    def step(self, answers: list[Tensor], labels: Any) -> Step:
        """One step of the optimizer: loss and gradients of this worker's share of the questions, and of all."""
        at, settings, count = self.cursor, self.settings, len(answers[0])
        if self.optimizer is None:
            self.collected.append((answers, labels))
            return Step(0.0, count, self.stop_asked)
        steps = -(-len(self.parts.trained) // settings.batch)
        done = (at.epoch - 1) * steps + at.step
        self.optimizer.param_groups[0]["lr"] = learning_rate(settings, done, steps * (settings.epochs or 1))
        self.optimizer.zero_grad()
        loss = self.task.loss(answers, labels, settings) if count else None
        parameters, stop = self.average.parameters, self.stop_asked
        if self.group.size > 1:
            step = joint_step(self.group, parameters, loss, count, stop, self.stream.prefetch_next, settings.clip)
        else:
            assert loss is not None
            loss.backward()
            step = Step(loss.item(), count, stop)
        if not math.isfinite(step.loss):
            raise BadInput(
                f"the loss became {step.loss} in epoch {at.epoch}, step {at.step}. "
                f"Use a smaller learning rate than {settings.learning_rate}."
            )
        if settings.clip and self.group.size == 1:
            torch.nn.utils.clip_grad_norm_(parameters, settings.clip)
        self.optimizer.step()
        self.average.update()
        return step

    def after_training(self) -> Stream:
        """A stream that knows what a deployed system would: the whole training part, hidden events included."""
        if self.kept is not None:
            return self.kept.fork()
        stream = self.run.new_stream()
        stream.observe(self.parts.train)
        if not self.model.remembers and stream.nbytes <= KEPT:  # the same for all weights: seen once will do
            self.kept = stream
            return stream.fork()
        return stream

    def _keep_if_best(self, value: float) -> None:
        at = self.cursor
        at.stale = at.stale + 1 if self.validates else 0
        if self.validates and value > at.reference + self.settings.tolerance:
            at.reference, at.stale = value, 0
        if value > at.best_value or not self.validates:
            at.best_value, at.best_epoch = value, at.epoch
            self.best_weights = {name: w.detach().clone() for name, w in self.model.state_dict().items()}
        self.run.best_epoch = at.best_epoch

    def _load_best(self) -> None:
        if self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)
        elif self.cursor.best_epoch and self.run.folder is not None:
            self.run.load_weights("best.safetensors")
        self.group.copy_first(self.model.state_dict().values())
        self.run.best_epoch = self.cursor.best_epoch

    def _learn_at_once(self) -> None:
        """The end of the one pass of a model without gradients."""
        columns = [torch.cat(some) for some in zip(*(one for one, _ in self.collected), strict=True)]
        self.task.learn_at_once(self.model, columns, [labels for _, labels in self.collected], self.run.seed)
        self.collected = []

    def _new_stream(self) -> Stream:
        stream = self.run.new_stream()
        stream.reuse_states = self.group.size == 1
        return stream


def make_optimizer(model: torch.nn.Module, settings: Training) -> torch.optim.Adam | None:
    """Adam; nothing for a model without parameters, which is measured as it is."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        return None
    assert settings.learning_rate is not None
    fused = all(p.device.type == "cpu" for p in parameters) or None  # elsewhere torch knows best
    return torch.optim.Adam(parameters, settings.learning_rate, weight_decay=settings.weight_decay, fused=fused)


def learning_rate(settings: Training, done: int, total: int) -> float:
    """The learning rate when so many of all steps are done."""
    assert settings.learning_rate is not None
    if settings.schedule != "cosine":
        return settings.learning_rate
    fallen = (1 + math.cos(math.pi * min(done / max(total, 1), 1))) / 2
    return settings.learning_rate * (LEAST_RATE + (1 - LEAST_RATE) * fallen)


# -- reproducibility: the same run twice is the same to the last bit ---------------------------------------------------


@contextmanager
def reproducible(threads: int | None) -> Iterator[None]:
    """Deterministic algorithms and a fixed number of threads while it lasts; torch is left as it was found.

    The second of several threads looks up the next batch (`Stream.prefetch`), so torch computes with one less: with as
    many, each of its steps would wait for the one that the look-ups displace. Sums over threads depend on their number,
    so a run keeps the one that it began with. Global randomness (dropout) is reseeded before every step by `seed_step`
    and restored at the end.
    """
    before, mode, fill = torch.get_num_threads(), torch.get_deterministic_debug_mode(), torch.utils.deterministic
    filled = fill.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        if threads is not None and max(threads - 1, 1) != before:
            torch.set_num_threads(max(threads - 1, 1))
        # `torch.use_deterministic_algorithms` would do the same, and load torch's compiler: a second, and 70 MB
        torch.set_deterministic_debug_mode("error")
        fill.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        fill.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def step_rng(seed: int, epoch: int, step: int) -> np.random.Generator:
    """The randomness of one step is a function of its number, so that a checkpoint need not hold any."""
    return np.random.default_rng([seed, epoch, step])


def seed_step(seed: int, epoch: int, step: int) -> None:
    """Seed torch for one step; inside `reproducible` only."""
    number = int(np.random.SeedSequence([seed, epoch, step, 1]).generate_state(1, np.uint64)[0] >> 1)
    torch.default_generator.manual_seed(number)  # torch.manual_seed also writes down a stack trace for later, each time
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
