"""`pintgn explain`: why a pair is scored as it is."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option

from pintgn.cli.common import AsJson, answer
from pintgn.cli.evaluate import RunFolder
from pintgn.cli.use import At, Observe, opened


def explain(
    run: RunFolder,
    src: Annotated[str, Argument(metavar="SRC", help="One end.")],
    dst: Annotated[str, Argument(metavar="DST", help="The other end.")],
    at: At = None,
    steps: Annotated[int, Option(help="Longest walks that are listed, 1 to 3.")] = 3,
    limit: Annotated[int, Option(help="How many reasons of each kind.")] = 5,
    replay: Annotated[
        bool, Option("--replay", help="Take back memory as well, by replaying the log for each reason. Slow.")
    ] = False,
    observe: Observe = None,
    as_json: AsJson = False,
) -> None:
    """Why is this pair scored as it is? The walks that join the two, and the score without each.

    Walks go back in time: each step is an earlier contact than the one before. `logit without` is the model's score if
    those contacts had never happened; in brackets, what they add to the score as it is.
    """
    live = opened(run, observe)
    ends = (live.codec.id_from_text(src), live.codec.id_from_text(dst))
    found = live.explain(*ends, at, steps=steps, limit=limit, replay=replay, progress=_counted)
    answer(as_json, {"run": run, **found.as_dict()}, found)


def _counted(done: int, count: int) -> None:
    """A line that counts, on a terminal."""
    if sys.stderr.isatty():
        print(f"\rreplaying without reason {min(done + 1, count)} of {count}", end="", file=sys.stderr, flush=True)
        if done == count:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
