"""`pintgn evaluate` and `report`: how good runs are, against which negatives, as a table or as one HTML page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import AsJson, Bar, answer, say
from pintgn.errors import BadInput

RunFolder = Annotated[Path, Argument(metavar="RUN", help="The folder of a run, as `pintgn train` made it.")]
Runs = Annotated[list[Path], Argument(metavar="RUN…", help="Folders of runs on the same data, from `pintgn train`.")]


def evaluate(
    run: RunFolder,
    negatives: Annotated[
        str | None,
        Option(help="Kinds, separated by commas: random (default), historical, inductive, per-event; or 'all'."),
    ] = None,
    rank: Annotated[
        str | None, Option(help="Rank each destination among this many others, or 'all': MRR and Hits@k.")
    ] = None,
    part: Annotated[str, Option(help="Part of the log: test or val.")] = "test",
    on: Annotated[
        str | None, Option(metavar="FILE", help="Later events instead of a part; the run does not change.")
    ] = None,
    protocol: Annotated[
        str | None, Option(help="stream (what a deployed system knows) or paper; as trained by default.")
    ] = None,
    baselines: Annotated[
        str | None,
        Option(
            help="Other models to evaluate, separated by commas; those that learn are trained first. Or 'none'; "
            "training-free ones by default."
        ),
    ] = None,
    seed: Annotated[int, Option(help="Seed of the negatives; the same for every model.")] = 0,
    most: Annotated[
        int, Option(metavar="N", help="Maximum number of scored events; of more, an even sample.")
    ] = 1_000_000,
    device: Annotated[
        str | None, Option(help="Where to compute: cpu, cuda, cuda:1 or mps; as trained by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a run, or a folder of several: AP, AUC and ranks, for all, seen and new nodes."""
    from pintgn.learn.evaluate import evaluate as measure
    from pintgn.learn.negatives import KINDS
    from pintgn.workers.group import together

    kinds = None if negatives is None else [kind.strip() for kind in negatives.split(",")]
    kinds = list(KINDS) if kinds == ["all"] else kinds
    named = None if baselines is None else [name.strip() for name in baselines.split(",")]
    among, others = _rank(rank), [] if baselines == "none" else named
    if (run / "last.safetensors").exists() and not (run / "result.json").exists():
        say(f"note: the training of {run} has not ended; its best epoch so far is evaluated")
    with Bar("opening the run", "events") as bar, together():
        found = measure(
            run, kinds, among, part=part, on=on, protocol=protocol, baselines=others, seed=seed, most=most,
            device=device, progress=bar,
        )  # fmt: skip
    answer(as_json, found.to_dict(), found)


def _rank(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"--rank {text!r} is neither a number nor 'all'.") from None


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
    with Bar("reading", "events") as bar:
        made = write_report(list(runs), target, rank=others, seed=seed, progress=bar)
    answer(as_json, made.to_dict(), f"{made}\n\n{target}")
    if open_it:
        import webbrowser

        webbrowser.open(target.resolve().as_uri())


def after_training(made: list[Any], folder: Path) -> Path | None:
    """The report at the end of a training. It never fails the training: an error is one line on stderr."""
    from pintgn.report.write import write_report

    target = folder / "report.html"
    try:
        with Bar("reading", "events") as bar:
            write_report(made, target, progress=bar)
    except Exception as error:
        if os.environ.get("PINTGN_DEBUG"):
            raise
        say(f"note: the run is complete, but its report could not be written: {error} Try: pintgn report {folder}")
        return None
    return target
