"""`pintgn data` and `simulate`: inspect and convert events, download public sets, simulate worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from pintgn.cli.common import (
    STDOUT,
    AsJson,
    Bar,
    Grid,
    Overwrite,
    answer,
    check_output,
    parse_setting,
    say,
    write_log,
)  # fmt: skip
from pintgn.cli.source import Reader, reads_events
from pintgn.errors import BadInput
from pintgn.events.log import EventLog

OUTPUT = "Output file: .parquet, .csv, .csv.gz or .csv.zst; - writes CSV to standard output."
app = typer.Typer(help="Inspect and convert events, download public data sets.", no_args_is_help=True)


@app.command()
@reads_events
def info(load: Reader, as_json: AsJson = False) -> None:
    """Summarise a log: counts, repeats, self-loops, simultaneous events, gaps."""
    log = load()
    columns = {"features": log.schema.feature_columns()}
    answer(as_json, lambda: log.statistics().to_dict() | columns, lambda: describe(log))


def describe(log: EventLog, title: str = "") -> Grid:
    """A log's statistics as a table for people."""
    from pintgn.events.show import GAPS, log_facts

    rows = log_facts(log)
    return Grid(rows, title=title or "Event log", note=GAPS if any(name.endswith("*") for name, _ in rows) else "")


@app.command()
@reads_events
def convert(
    load: Reader,
    output: Annotated[Path, Option("--output", "-o", help=OUTPUT)],
    overwrite: Overwrite = False,
) -> None:
    """Write events in another format; ids and times are kept exactly."""
    check_output(output, overwrite)
    log = load()
    if write_log(log, output):
        say(f"{output}: {log!r}")


@app.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """List the public data sets, and which of them are downloaded."""
    from pintgn.datasets import public as datasets

    sets = datasets.DATASETS.values()
    facts = {s.name: {"events": s.events, "nodes": s.nodes, "cached": datasets.cached(s.name)} for s in sets}
    rows = [[s.name, s.about, f"{s.events:,}", f"{s.nodes:,}", "yes" if datasets.cached(s.name) else "-"] for s in sets]
    answer(as_json, facts, Grid(rows, ["name", "about", "events", "nodes", "downloaded"], left=2))
    if not as_json:
        missing = [name for name in facts if not facts[name]["cached"]]
        say(f"Fetch one: pintgn data fetch {(missing or list(facts))[0]}")


@app.command()
def fetch(
    name: Annotated[str, Argument(metavar="NAME", help="A name from `pintgn data list`.")],
    mirror: Annotated[str | None, Option(help="URL or folder to take the file from instead.")] = None,
    again: Annotated[bool, Option("--again", help="Download again, even if it is in the cache.")] = False,
) -> None:
    """Download a public data set into the cache folder, and check it against its published counts."""
    from pintgn.datasets import public as datasets

    with Bar(name, "bytes") as bar:
        path = datasets.fetch(name, mirror=mirror, again=again, progress=bar)
    print(path)


def simulate(
    world: Annotated[str, Argument(metavar="WORLD", help="repeat, twins or shop.")],
    output: Annotated[Path, Option("--output", "-o", help=OUTPUT)],
    events: Annotated[int, Option(help="Number of events.")] = 10_000,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    settings: Annotated[
        list[str] | None, Option("--set", help="A setting of the world, as in --set communities=5.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a world with known truth: repeat (recency), twins (only positions help), shop (drift, new users)."""
    from pintgn.datasets.simulate import simulate as simulated

    check_output(output, overwrite)
    if as_json and output == STDOUT:
        raise BadInput("-o - writes the events to standard output, where --json writes its answer. Choose one.")
    given = dict(parse_setting(text) for text in settings or [])
    for name in ("events", "seed"):
        if name in given:
            raise BadInput(f"--set {name}={given[name]}: that is an option of its own, --{name} {given[name]}.")
    if "world" in given:
        raise BadInput(f"--set world={given['world']}: name the world itself, as in `pintgn simulate shop`.")
    log = simulated(world, events, seed, **given)
    if write_log(log, output):
        facts = {"world": world, "seed": seed, "path": output} | log.statistics().to_dict()
        answer(as_json, facts, f"{output}: {log!r}")
