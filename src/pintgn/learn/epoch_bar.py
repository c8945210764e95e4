"""Progress of a training: callbacks, and a bar over all epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pintgn.display.bars import open_bar
from pintgn.formatting import plural
from pintgn.learn.figures_text import first_figure

Progress = Callable[[dict[str, Any]], None]
"""Called with one dict: {"phase": …} when something else begins, with "observed" and "of" where that is known; after
every batch {"epoch", "epochs", "done", "total", "loss"}; after every epoch its entry of `run.history`, which has "val".
What it raises ends the training; a run with a folder can then be continued from its last checkpoint."""


class EpochBar:
    """A bar over all epochs, with the loss so far and the last figure on validation."""

    def __init__(self, epochs: int | None = None):
        self.epochs, self.done, self.figures = epochs, 0, ""
        self.bar: Any = None

    def __enter__(self) -> EpochBar:
        self.bar = open_bar("preparing", "events", "at most").__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if error == (None, None, None):
            self.bar.doing(f"{plural(self.done, 'epoch')}{self.figures}")  # what a notebook keeps
        self.bar.__exit__(*error)

    def __call__(self, entry: dict[str, Any]) -> None:
        self.epochs = entry.get("epochs", self.epochs)
        if "phase" in entry:
            self.bar.doing(entry["phase"] + self.figures)
            if "observed" in entry:
                self.bar(entry["observed"], entry["of"], entry["phase"] + self.figures)
        elif "done" in entry:
            text = f"epoch {entry['epoch']}/{self.epochs}  loss {entry['loss']:.3f}{self.figures}"
            done, total = entry["done"] + (entry["epoch"] - 1) * entry["total"], (self.epochs or 1) * entry["total"]
            self.bar(done, total, text)
        elif entry["val"]["all"]["events"]:  # there are none while a refit learns from everything
            figure = first_figure(entry["val"], "all", entry.get("chosen_by"))
            self.done, self.figures = entry["epoch"], "  val " + " ".join(figure)
