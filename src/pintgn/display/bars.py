"""Progress bars on terminals and in notebooks."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from pintgn.formatting import number, size

REFRESH = 0.2
"""Seconds between two updates of a bar in a notebook."""


def console(stderr: bool = False) -> Any:
    """A rich console on stdout or stderr. Imported on demand: rich is slow to load."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=not (sys.stderr if stderr else sys.stdout).isatty())


class Bar:
    """A progress bar on a terminal, with rate and time left; silent elsewhere."""

    def __init__(self, what: str, unit: str = "", left: str = "left", terminal: Any = None):
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self.what, self.unit, self.left = what, unit, left
        self.terminal = terminal or console(stderr=True)
        small = self.terminal.width < 70
        columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(16 if small else 30)]
        columns += [DownloadColumn()] if unit == "bytes" else []
        columns += [TextColumn("{task.fields[rate]}"), TimeRemainingColumn(compact=True)]
        columns += [] if small else [TextColumn("{task.fields[left]}")]
        self.progress = Progress(
            *columns, console=self.terminal, disable=not self.terminal.is_terminal, transient=True, expand=False
        )
        self.task = self.progress.add_task(what, total=None, rate="", left="")

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()

    def doing(self, what: str) -> None:
        """Set the description."""
        self.progress.update(self.task, description=what, rate="", left="")

    def __call__(self, done: float, total: float | None = None, what: str | None = None) -> None:
        self.progress.update(
            self.task,
            completed=done,
            total=total,
            rate=per_second(self.progress.tasks[0].speed or 0.0, self.unit),
            left=self.left if total else "",
            description=self.what if what is None else what,
        )


class NotebookBar:
    """A progress bar in a notebook: one output that is updated. Needs no widgets."""

    def __init__(self, what: str, unit: str = "", left: str = "left"):
        self.what, self.unit, self.left = what, unit, left
        self.done, self.total, self.rate = 0.0, 0.0, 0.0
        self.begun: tuple[float, float] | None = None  # when, and with how many done
        self.drawn_at = 0.0

    def __enter__(self) -> NotebookBar:
        from IPython.display import HTML, display

        self.output = display(HTML(self.html()), display_id=True)
        return self

    def __exit__(self, *_: Any) -> None:
        self.done = self.total = 0
        self._draw()

    def doing(self, what: str) -> None:
        self.what, self.done, self.total, self.begun = what, 0, 0, None
        self._draw()

    def __call__(self, done: float, total: float | None = None, what: str | None = None) -> None:
        begun, before = self.begun = self.begun or (time.monotonic(), done)
        self.done, self.total, self.rate = done, total or 0, (done - before) / max(time.monotonic() - begun, 1e-9)
        self.what = self.what if what is None else what
        if time.monotonic() - self.drawn_at >= REFRESH:
            self._draw()

    def html(self) -> str:
        bar = speed = ""
        if self.total:
            bar = f'<progress max="{self.total:g}" value="{self.done:g}" style="width:16em"></progress> '
            speed = f" · {per_second(self.rate, self.unit)}" if self.rate else ""
        return f'<span style="font-variant-numeric:tabular-nums">{bar}{escape(self.what)}{speed}</span>'

    def _draw(self) -> None:
        from IPython.display import HTML

        self.output.update(HTML(self.html()))
        self.drawn_at = time.monotonic()


def per_second(speed: float, unit: str) -> str:
    """
    >>> per_second(1234.5, "events"), per_second(2e6, "bytes"), per_second(0, "events"), per_second(3, "")
    ('1,234 events/s', '2.0 MB/s', '', '')
    """
    if not speed or not unit:
        return ""
    return f"{size(speed)}/s" if unit == "bytes" else f"{number(round(speed))} {unit}/s"


def open_bar(what: str, unit: str = "", left: str = "left") -> Bar | NotebookBar:
    """A notebook bar in a notebook, otherwise a terminal bar."""
    terminal = console(stderr=True)
    return NotebookBar(what, unit, left) if terminal.is_jupyter else Bar(what, unit, left, terminal)
