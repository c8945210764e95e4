"""`pintgn keys`: who may use a service, and how; a running one notices at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from pintgn.cli.common import AsJson, Grid, answer
from pintgn.cli.evaluation import RunFolder
from pintgn.errors import BadInput

app = typer.Typer(help="Make and remove the API keys of a service, also while it runs.", no_args_is_help=True)
StoreFolder = Annotated[
    str | None, Option("--store", help="Folder of the events; RUN/live by default, also of a PostgreSQL store.")
]
Name = Annotated[str, Argument(metavar="NAME", help="Who uses the key: a client, a team, a dashboard.")]


def store_of(run: Path, store: str | None) -> Path:
    """The folder of a run's store; of one in a database, that of its service's own files."""
    from pintgn.serve.stores import home_of

    if store is None and not (run / "run.json").exists():
        raise BadInput(f"{run} holds no run. Name the folder that `pintgn train` made.")
    return home_of(run, store)


@app.command()
def add(
    run: RunFolder,
    name: Name,
    scope: Annotated[
        str, Option(help="read: ask; write: send events, too; admin: also look after the service.")
    ] = "read",
    rate: Annotated[float | None, Option(help="Requests per second at most; any number by default.")] = None,
    store: StoreFolder = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it once; only its hash is kept."""
    from pintgn.serve.api_keys import add_key

    text = add_key(store_of(run, store), name, scope, rate)
    answer(as_json, {"key": text, "name": name, "scope": scope}, f"API key {name}, {scope} (shown only now): {text}")


@app.command("list")
def list_keys(run: RunFolder, store: StoreFolder = None, as_json: AsJson = False) -> None:
    """List the keys: names, scopes and rates."""
    from pintgn.serve.api_keys import FILE, stored

    keys = stored(store_of(run, store) / FILE)
    facts = [{"name": key.name, "scope": key.scope, "rate": key.rate, "made": key.made} for key in keys]
    rows = [(key.name, key.scope, f"{key.rate:g}/s" if key.rate else "any", key.made) for key in keys]
    answer(as_json, {"keys": facts}, Grid(rows, ("name", "scope", "rate", "made"), left=4) if rows else "no keys")


@app.command()
def remove(run: RunFolder, name: Name, store: StoreFolder = None, as_json: AsJson = False) -> None:
    """Remove a key: a running service refuses it from the next request on."""
    from pintgn.serve.api_keys import remove_key

    left = remove_key(store_of(run, store), name)
    answer(as_json, {"removed": name, "left": left}, f"removed the key {name}; {left} left")
