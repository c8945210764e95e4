"""`pintgn simulate`: synthetic worlds with known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pintgn.cli.common import AsJson, console, emit_json, parse_setting


def simulate(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="repeat, twins or shop.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to: .parquet, .csv, .csv.gz or .csv.zst.")],
    events: Annotated[int, typer.Option(help="How many events.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same world.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the world, as in --set communities=5.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a world with known truth: repeat (recency), twins (only positions help), shop (drift, new users)."""
    from pintgn.events.ingest import write_events
    from pintgn.events.simulate import simulate as make

    log = make(world, events=events, seed=seed, **dict(parse_setting(text) for text in settings or []))
    write_events(log, output)
    if as_json:
        emit_json({"world": world, "seed": seed, "path": output} | log.statistics().to_dict())
    else:
        console().print(f"{output}: {log!r}")
