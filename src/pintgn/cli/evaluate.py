"""`pintgn evaluate`: how good a run is, against which negatives, compared with which baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import AsJson, Bar, answer, say
from pintgn.errors import BadInput

RunFolder = Annotated[Path, Argument(metavar="RUN", help="The folder of a run, as `pintgn train` made it.")]


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
    protocol: Annotated[
        str | None, Option(help="stream (what a deployed system knows) or paper; as trained by default.")
    ] = None,
    classify: Annotated[
        bool, Option("--classify", help="Instead, predict the label column from frozen embeddings (AUC).")
    ] = False,
    heuristics: Annotated[bool, Option(help="Evaluate the training-free baselines, too.")] = True,
    seed: Annotated[int, Option(help="Seed of the negatives; the same for every model.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Evaluate a run, or a folder of several: AP, AUC and ranks, for all, seen and new nodes."""
    if classify:
        from pintgn.learn.classify import classify as measure_labels

        found: Any = measure_labels(run, seed=seed)
    else:
        from pintgn.learn.evaluate import evaluate as measure
        from pintgn.learn.negatives import KINDS

        kinds = None if negatives is None else [kind.strip() for kind in negatives.split(",")]
        kinds = list(KINDS) if kinds == ["all"] else kinds
        among = _rank(rank)
        if (run / "last.safetensors").exists() and not (run / "result.json").exists():
            say(f"note: the training of {run} has not ended; its best epoch so far is evaluated")
        with Bar("opening the run", "events") as bar:
            found = measure(
                run, kinds, among, part=part, protocol=protocol, heuristics=heuristics, seed=seed, progress=bar
            )
    answer(as_json, found.to_dict(), found)


def _rank(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"--rank {text!r} is neither a number nor 'all'.") from None
