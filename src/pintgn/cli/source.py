"""The options that say where events come from; the same for every command that reads some."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from pintgn.events.log import EventLog

Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A CSV or Parquet file, a folder of Parquet files, or a data set's name."),
]
OPTIONS: dict[str, Any] = {
    "src": Annotated[str, typer.Option(help="Column of the source ids.")],
    "dst": Annotated[str, typer.Option(help="Column of the destination ids.")],
    "t": Annotated[str, typer.Option("--time", "-t", help="Column of the times: numbers, or ISO-8601 dates.")],
    "features": Annotated[
        str | None, typer.Option(help="Feature columns, separated by commas, or 'all' for every other column.")
    ],
    "categorical": Annotated[
        str | None, typer.Option(help="Feature columns that are categories although they look like numbers.")
    ],
    "fill": Annotated[float | None, typer.Option(help="What a missing feature counts as; otherwise it is an error.")],
    "label": Annotated[str | None, typer.Option(help="Column of labels, such as a node's changing state.")],
    "op": Annotated[str | None, typer.Option(help="Column that says add, delete, node or remove.")],
    "node_updates": Annotated[str | None, typer.Option(help="Columns that node events carry, separated by commas.")],
    "nodes": Annotated[str | None, typer.Option(help="A file of node features: a column 'id' and numbers.")],
    "bipartite": Annotated[bool, typer.Option("--bipartite", help="Source and destination ids are named apart.")],
    "sort": Annotated[bool, typer.Option("--sort", help="Sort the events by time (stable).")],
    "strict": Annotated[bool, typer.Option("--strict", help="Refuse a deletion of something never added.")],
    "delimiter": Annotated[str | None, typer.Option(help="What separates CSV columns; found out when not given.")],
    "charset": Annotated[str, typer.Option(help="How the text of a CSV is encoded, such as latin-1.")],
    "no_header": Annotated[
        bool, typer.Option("--no-header", help="The CSV has no header; name columns by position, from 0.")
    ],
}
DEFAULTS: dict[str, Any] = {"src": "src", "dst": "dst", "t": "t", "charset": "utf-8"}


def reads_events(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a DATA argument and every ingest option; it gets a `load` that reads DATA or a file like it."""
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "load"]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=DEFAULTS.get(name, False if kind.__origin__ is bool else None),
            annotation=kind,
        )
        for name, kind in OPTIONS.items()
    ]

    @wraps(command)
    def wrapped(data: str, **given: Any) -> None:
        options = {name: given.pop(name) for name in OPTIONS}

        def read(other: str | None = None) -> EventLog:
            return load(other or data, **options)

        read.data = data  # type: ignore[attr-defined]
        command(load=read, **given)

    signature = [inspect.Parameter("data", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Data)]
    signature += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + added
    wrapped.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in signature}
    return wrapped


def load(data: str, no_header: bool = False, **options: Any) -> EventLog:
    """Events from a file, a folder or a named data set."""
    from pintgn.events import datasets
    from pintgn.events.ingest import read_events

    if not Path(data).exists() and data in datasets.DATASETS:
        return datasets.load(data)
    options["categorical"] = options["categorical"] or ""
    for name in ("features", "node_updates", "categorical"):
        if options[name] not in (None, "all"):
            options[name] = [part.strip() for part in options[name].split(",") if part.strip()]
    return read_events(data, header=False if no_header else None, **options)
