"""`pintgn explain`: why a pair is scored as it is."""

from __future__ import annotations

from typing import Annotated

import typer

from pintgn.cli.common import AsJson, emit_json
from pintgn.cli.evaluate import RunFolder
from pintgn.cli.use import At, Observe, opened, parsed_id, parsed_time


def explain(
    run: RunFolder,
    src: Annotated[str, typer.Argument(metavar="SRC", help="One end.")],
    dst: Annotated[str, typer.Argument(metavar="DST", help="The other end.")],
    at: At = None,
    steps: Annotated[int, typer.Option(help="Longest walks that are listed, 1 to 3.")] = 3,
    limit: Annotated[int, typer.Option(help="How many reasons of each kind.")] = 5,
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """Why is this pair scored as it is? The walks that join the two, and the score without each.

    Walks go back in time: each step is an earlier contact than the one before. `logit without` is the model's score if
    those contacts had never happened; in brackets, what they add to the score as it is.
    """
    live = opened(run, observe)
    ends = (parsed_id(live, src), parsed_id(live, dst))
    found = live.explain(*ends, None if at is None else parsed_time(live, at), steps=steps, limit=limit)
    if as_json:
        emit_json({"run": run, **found.as_dict()})
    else:
        print(found)
