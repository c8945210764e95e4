"""What `fit` says while it works: one callable that is told everything, and a bar for people."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from pintgn.display.bars import open_bar
from pintgn.errors import BadInput
from pintgn.formatting import plural
from pintgn.learn.tables import first_figure

Progress = Callable[[dict[str, Any]], None]
"""Called with one dict: {"phase": …} when something else begins, with "observed" and "of" where that is known; after
every batch {"epoch", "epochs", "done", "total", "loss", "events_per_second"}; after every epoch its entry of
`run.history`, which has "val". What it raises ends the training; a run with a folder can then be continued from its
last checkpoint."""
Fit = TypeVar("Fit", bound=Callable[..., Any])


def no_progress(entry: dict[str, Any]) -> None:
    """Keep quiet."""


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
            self.bar(done, total, text, entry["events_per_second"])
        elif entry["val"]["all"]["events"]:  # there are none while a refit learns from everything
            figure = first_figure(entry["val"], "all", entry.get("chosen_by"))
            self.done, self.figures = entry["epoch"], "  val " + " ".join(figure)


@contextmanager
def shown(progress: Progress | bool) -> Iterator[Progress]:
    """The callable that `progress` means: itself, a bar for True, nothing for False."""
    if callable(progress):
        yield progress
    elif progress:
        with EpochBar() as bar:
            yield bar
    else:
        yield no_progress


def for_people(check: Callable[[Any, Any, Any], None]) -> Callable[[Fit], Fit]:
    """Lets a function such as `fit` be called as people do: arguments in the wrong places get one line, and
    `progress` may be True or False."""

    def decorate(fit: Fit) -> Fit:
        @functools.wraps(fit)
        def called(model: Any = None, log: Any = None, *, progress: Any = True, **options: Any) -> Any:
            check(model, log, options.get("seed", 0))
            if not callable(progress) and not isinstance(progress, bool):
                raise BadInput(f"progress={progress!r}; it is True (a bar), False (nothing) or a function of a dict.")
            with shown(progress) as call:
                return fit(model, log, progress=call, **options)

        return cast(Fit, called)

    return decorate
