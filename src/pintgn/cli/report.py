"""`pintgn report`: one HTML page about runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import AsJson, answer, console, say
from pintgn.cli.evaluate import _rank

Runs = Annotated[list[Path], Argument(metavar="RUN…", help="Folders of runs on the same data, from `pintgn train`.")]


def report(
    runs: Runs,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="HTML file; RUN/report.html by default, report.html for several runs."),
    ] = None,
    open_it: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    rank: Annotated[str, Option(help="Rank each test event's destination among this many others, or 'all'.")] = "20",
    seed: Annotated[int, Option(help="Seed of the negatives; the same for every run.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write one page about a run, or several side by side: results with spread, data, learning, failures, cost."""
    from pintgn.report.write import write_report

    target = output or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    others: Any = _rank(rank)
    with show_phase() as progress:
        made = write_report(list(runs), target, rank=others, seed=seed, progress=progress)
    answer(as_json, made.to_dict(), f"{made}\n\n{target}")
    if open_it:
        import webbrowser

        webbrowser.open(target.resolve().as_uri())


@contextmanager
def show_phase() -> Iterator[Any]:
    """A callback that shows on stderr what is being done: in one line on a terminal, elsewhere a line for each."""
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield lambda phase: terminal.print(phase, markup=False)
        return
    with terminal.status("reading") as status:
        yield lambda phase: status.update(phase)


def after_training(made: list[Any], folder: Path) -> Path | None:
    """The report at the end of a training. It never fails the training: an error is one line on stderr."""
    from pintgn.report.write import write_report

    target = folder / "report.html"
    try:
        with show_phase() as progress:
            write_report(made, target, progress=progress)
    except Exception as error:
        if os.environ.get("PINTGN_DEBUG"):
            raise
        say(f"note: the run is complete, but its report could not be written: {error} Try: pintgn report {folder}")
        return None
    return target
