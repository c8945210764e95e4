"""Hooks of the training loop: checkpoints, progress reports, and Ctrl-C between two steps."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import asdict
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn import compiled
from pintgn.display.progress import silent
from pintgn.facts import check
from pintgn.learn.figures_text import Progress, epoch_line
from pintgn.learn.folder import CURSOR
from pintgn.learn.measure import observe_log
from pintgn.learn.run import Run
from pintgn.learn.train import Cursor, Hook, Trainer


class Checkpoints(Hook):
    """Saves the state of training after every epoch and every so many seconds; restores it before the first step."""

    def __init__(self, progress: Progress):
        self.progress, self.saved_at = progress, time.monotonic()

    def on_start(self, trainer: Trainer) -> None:
        run = trainer.run
        there = trainer.group.from_first(lambda: run.folder is not None and (run.folder / "last.safetensors").exists())
        if there:
            self._restore(trainer)
        elif trainer.optimizer is None and not trainer.epochs:
            save_last(trainer)  # there is nothing to learn; what was prepared is kept

    def on_step(self, trainer: Trainer) -> None:
        if time.monotonic() - self.saved_at >= trainer.settings.checkpoint_seconds:
            save_last(trainer)
            self.saved_at = time.monotonic()

    def on_epoch(self, trainer: Trainer, entry: dict[str, Any]) -> None:
        folder, best = trainer.run.folder, trainer.best_weights
        if folder is not None and best is not None and trainer.cursor.best_epoch == entry["epoch"]:
            folder.write_weights("best.safetensors", best, trainer.run.fingerprint)
        save_last(trainer)
        self.saved_at = time.monotonic()

    def _restore(self, trainer: Trainer) -> None:
        run, at = trainer.run, trainer.cursor
        found = trainer.group.from_first(lambda: run.read_checkpoint("last.safetensors"))
        arrays, metadata = found
        check(metadata, CURSOR, "last.safetensors")
        run.take_weights(arrays, "last.safetensors")
        average, optimizer = trainer.average, trainer.optimizer
        average.steps = metadata["averaged"]
        average.weights = [torch.from_numpy(arrays[f"average.{k}"]) for k in range(len(average.weights))]
        if optimizer is not None:
            state = optimizer.state_dict()
            for key, value in _part(arrays, "optimizer.").items():
                k, name = key.split(".", 1)
                state["state"].setdefault(int(k), {})[name] = torch.from_numpy(np.array(value))
            optimizer.load_state_dict(state)
        at = trainer.cursor = Cursor(**{name: metadata[name] for name in Cursor.__dataclass_fields__})
        run.note(f"continued at epoch {at.epoch}, step {at.step}")
        if optimizer is None:  # begin the pass again
            at.step = at.events = 0
        if at.step:
            self._rebuild(trainer, at.step * trainer.settings.batch)
            # neighbors, positions and blocks are right now; memory depends on the weights of its time
            stream, memory, undo = trainer.stream, _part(arrays, "memory."), _part(arrays, "undo.")
            if stream.state is not None and memory:
                stream.state.load(memory)
                if undo and stream.blocks.undo is not None and stream.blocks.undo.rows is not None:
                    stream.blocks.undo.rows.load(undo)

    def _rebuild(self, trainer: Trainer, count: int) -> None:
        """Neighbors and positions, which the checkpoint does not hold: observing is many times as fast as training."""
        started, events = compiled.working_time(), trainer.parts.trained[:count]
        observe_log(
            trainer.stream,
            events,
            lambda done: self.progress({"phase": "rebuilding", "observed": done, "of": len(events)}),
        )
        seconds = max(compiled.working_time() - started, 1e-9)
        trainer.run.note(f"rebuilt the stream from {len(events):,} events, {len(events) / seconds:,.0f} a second")


def save_last(trainer: Trainer) -> None:
    """Weights, their mean, the optimizer, memory and cursor; neighbors and positions are rebuilt from the log."""
    run, average, stream = trainer.run, trainer.average, trainer.stream
    if run.folder is None:
        return
    arrays: dict[str, Tensor | np.ndarray] = {f"model.{name}": value for name, value in run.model.state_dict().items()}
    arrays |= {f"average.{k}": value for k, value in enumerate(average.weights)}
    if trainer.optimizer is not None:
        for k, state in trainer.optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer.{k}.{name}": value for name, value in state.items()}
    if stream.state is not None:
        arrays |= {f"memory.{name}": column for name, column in stream.state.arrays().items()}
        undo = stream.blocks.undo
        if undo is not None and undo.rows is not None:
            arrays |= {f"undo.{name}": column for name, column in undo.rows.arrays().items()}
    facts = {"run": run.fingerprint, "averaged": average.steps} | asdict(trainer.cursor)
    run.folder.write_tensors("last.safetensors", arrays, facts)


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


class Reports(Hook):
    """Reports progress to the caller, the run's log and its metrics file."""

    def __init__(self, progress: Progress):
        self.progress = progress

    def on_step(self, trainer: Trainer) -> None:
        if self.progress is silent:
            return
        at, total = trainer.cursor, len(trainer.parts.trained)
        state: dict[str, Any] = {
            "epoch": at.epoch,
            "epochs": trainer.epochs,
            "done": min(at.step * trainer.settings.batch, total),
        }
        state |= {"total": total, "loss": at.loss / max(at.events, 1)}
        self.progress(state)

    def on_epoch(self, trainer: Trainer, entry: dict[str, Any]) -> None:
        trainer.run.write_metrics()
        trainer.run.note(epoch_line(entry, trainer.epochs))
        self.progress(entry)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, received between two steps."""


class Interruptible(Hook):
    """Context that defers Ctrl-C to the end of the current step; a second one takes effect at once.

    Where Ctrl-C is ignored (`nohup`, a job that a script puts in the background) it stays ignored.
    """

    asked = False

    def __enter__(self) -> Interruptible:
        self.before: Any = signal.getsignal(signal.SIGINT)
        ours = threading.current_thread() is threading.main_thread()
        self.installed = ours and self.before not in (signal.SIG_IGN, None)  # None: a handler that is not Python's
        if self.installed:
            signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.installed:
            signal.signal(signal.SIGINT, self.before)

    def _remember(self, number: int, frame: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self.before)

    def on_step(self, trainer: Trainer) -> None:
        trainer.stop_asked = self.asked
        if trainer.last.stop if trainer.group.size > 1 else self.asked:  # workers agree with the next step
            self._stop(trainer)

    def on_epoch(self, trainer: Trainer, entry: dict[str, Any]) -> None:
        if trainer.group.any(self.asked):
            self._stop(trainer)

    def _stop(self, trainer: Trainer) -> None:
        save_last(trainer)
        trainer.run.note("stopped by the user")
        raise Interrupted(stop_message(trainer.run, f"in epoch {trainer.cursor.epoch}, step {trainer.cursor.step}"))


def stop_message(run: Run, where: str) -> str:
    if run.folder is None:
        return f"Stopped {where}."
    path = run.folder.path
    return f"Stopped {where}. {path} can be used as it is; `pintgn train {path} --resume` continues it."
