"""`pintgn explain`: why a pair gets its score."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from pintgn.cli.common import AsJson, Bar, answer
from pintgn.cli.evaluate import RunFolder
from pintgn.cli.use import At, Observe, open_live


def explain(
    run: RunFolder,
    src: Annotated[str, Argument(metavar="SRC", help="The source.")],
    dst: Annotated[str, Argument(metavar="DST", help="The destination.")],
    at: At = None,
    steps: Annotated[int, Option(help="Longest walks to list, 1 to 3.")] = 3,
    limit: Annotated[int, Option(help="Number of reasons of each kind.")] = 5,
    replay: Annotated[
        bool, Option("--replay", help="Undo memory updates as well, by replaying the log for each reason. Slow.")
    ] = False,
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """Explain the score of a pair: the walks that join the two nodes, and the score without each.

    Walks go back in time: each step is an earlier contact than the one before. `logit without` is the model's score if
    those contacts had never happened; in brackets, what they add to the score as it is.
    """
    live = open_live(run, observe)
    ends = (live.codec.id_from_text(src), live.codec.id_from_text(dst))
    with Bar("replaying without each reason" if replay else "explaining") as bar:
        found = live.explain(*ends, at, steps=steps, limit=limit, replay=replay, progress=bar)
    answer(as_json, {"run": run, **found.as_dict()}, found)
