"""`pintgn simulate`: synthetic worlds with known ground truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from pintgn.cli.common import AsJson, answer, parse_setting
from pintgn.errors import BadInput


def simulate(
    world: Annotated[str, Argument(metavar="WORLD", help="repeat, twins or shop.")],
    output: Annotated[Path, Option("--output", "-o", help="Output file: .parquet, .csv, .csv.gz or .csv.zst.")],
    events: Annotated[int, Option(help="Number of events.")] = 10_000,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    settings: Annotated[
        list[str] | None, Option("--set", help="A setting of the world, as in --set communities=5.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a world whose truth is known: repeat (recency), twins (only positions help), shop (drift, new users)."""
    from pintgn.events.ingest import write_events
    from pintgn.events.simulate import make_world

    given = dict(parse_setting(text) for text in settings or [])
    for name in ("events", "seed"):
        if name in given:
            raise BadInput(f"--set {name}={given[name]}: that is an option of its own, --{name} {given[name]}.")
    if "world" in given:
        raise BadInput(f"--set world={given['world']}: name the world itself, as in `pintgn simulate shop`.")
    log = make_world(world, **given).simulate(events, seed)
    write_events(log, output)
    answer(as_json, {"world": world, "seed": seed, "path": output} | log.statistics().to_dict(), f"{output}: {log!r}")
