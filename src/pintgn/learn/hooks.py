"""Hooks of the training loop: reports of progress, and Ctrl-C between two steps."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any

from pintgn.learn.checkpoint import save_last
from pintgn.learn.epoch_bar import Progress
from pintgn.learn.figures_text import epoch_line
from pintgn.learn.run import Run
from pintgn.learn.train import Hook, Trainer


class Reports(Hook):
    """Tells the caller, the run's own log and its metrics how training goes."""

    def __init__(self, progress: Progress):
        self.progress = progress

    def on_step(self, trainer: Trainer) -> None:
        at, total = trainer.cursor, len(trainer.parts.trained)
        state: dict[str, Any] = {
            "epoch": at.epoch,
            "epochs": trainer.epochs,
            "done": min(at.step * trainer.settings.batch, total),
        }
        state |= {"total": total, "loss": at.loss / max(at.events, 1), "events_per_second": trainer.rate}
        self.progress(state)

    def on_epoch(self, trainer: Trainer, entry: dict[str, Any]) -> None:
        trainer.run.write_metrics()
        trainer.run.note(epoch_line(entry, trainer.epochs))
        self.progress(entry)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, taken between two steps."""


class Interruptible(Hook):
    """Takes Ctrl-C between steps instead of in the middle of one, while it is entered; the second takes effect at once.

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
