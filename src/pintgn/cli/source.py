"""The DATA argument and the options to read it, the same for every command that reads events."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import Bar, say
from pintgn.cli.help_format import READING
from pintgn.cli.option_groups import options_of
from pintgn.errors import BadFile, UnknownName, suggest
from pintgn.events.log import EventLog
from pintgn.formatting import shown_address
from pintgn.ingest.read_options import GROUPS, grouped

if TYPE_CHECKING:
    from pintgn.learn.settings import TaskSettings

Data = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A CSV, JSON-lines or Parquet file, a folder of Parquet files, a SQLite or DuckDB file, the address of "
        "a file or database (https://, s3://, postgresql://), the folder of a run, a data set's name, or - for "
        "standard input.",
    ),
]


def _option(name: str, kind: Any, default: Any, *flags: str, metavar: str, help: str) -> inspect.Parameter:
    about = Option(*flags, metavar=metavar, help=help, rich_help_panel=READING)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about])


COLUMN, COLUMNS = "COLUMN", "COLUMNS"
OPTIONS = {
    option.name: option
    for option in (
        _option("query", str | None, None, metavar="SQL", help="Of a database: a query, or the name of a table."),
        _option("src", str, "src", metavar=COLUMN, help="The source ids: who acts."),
        _option("dst", str, "dst", metavar=COLUMN, help="The destination ids: on whom."),
        _option("t", str, "t", "--time", "-t", metavar=COLUMN, help="The times: numbers, or ISO-8601 dates."),
        _option("features", str | None, None, metavar=COLUMNS,
                help="Event features, separated by commas; 'all' for every other column."),
        _option("label", str | None, None, metavar=COLUMN, help="Labels, such as a node's changing state."),
        _option("bipartite", bool | None, None, "--bipartite/--no-bipartite", metavar="",
                help="Source and destination ids are separate namespaces, or the same."),
        *(option for group in GROUPS.values() for option in options_of(group, READING)),
    )
}  # fmt: skip
"""Every option of reading by name: those that `read_events` takes by itself, then its groups."""
LARGE = 20_000_000
"""Bytes from which on reading a file is shown."""
FLAGS = {"src": "--src", "dst": "--dst", "t": "--time", "names": "--columns"}
DIRECT = ("src", "dst", "t", "features", "label", "bipartite")
"""What `read_events` takes by itself; everything else is in one of its groups."""
SHOWN = 8
"""Unused columns that are listed."""


NODES_ONLY, RELATION = "nodes_only", "relation"
"""Among the options: whether events need no destination; the column of relations, which is read as categories."""
LISTS = ("features", "node_updates", "categorical", "names")


class Reader:
    """Reads DATA, or a file like it, with the options of the command line."""

    def __init__(self, data: str, options: dict[str, Any]):
        self.data, self.shown, self.options, self.flags = data, shown_address(data), options, flags(options)

    def __call__(self, other: str | None = None) -> EventLog:
        return load(self.data, **self.options) if other is None else load(other, **self.options | {"query": None})

    def add_columns(self, task: TaskSettings) -> None:
        """Also read what a task asks about and is given; events need no destination where nothing is asked about it."""
        more = task.given if task.asks_column else [] if task.relation is None else [task.relation]
        if task.asks_column:
            self.options["predict"] = task.predict
        elif more:
            self.options[RELATION] = task.relation
        features = self.options["features"]
        if more and features != "all":
            named = [part.strip() for part in (features or "").split(",") if part.strip()]
            self.options["features"] = ",".join(dict.fromkeys([*named, *more]))
        if task.sides == (0,):
            self.options[NODES_ONLY] = True


def reads_events(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a DATA argument and every ingest option; it gets a `Reader` for `load`."""
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "load"]

    @wraps(command)
    def wrapped(data: str, **given: Any) -> None:
        command(load=Reader(data, {name: given.pop(name) for name in OPTIONS}), **given)

    signature = [inspect.Parameter("data", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Data)]
    signature += [*(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *OPTIONS.values()]
    wrapped.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in signature}
    return wrapped


def flags(options: dict[str, Any]) -> str:
    """Options as they are written on a command line; those with their default are left out."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or (name in OPTIONS and value == OPTIONS[name].default):
            continue
        flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
        words += [flag.replace("--", "--no-", 1) if value is False else flag]
        words += [] if isinstance(value, bool) else [shlex.quote(str(value))]
    return " ".join(words)


def load(data: str, **options: Any) -> EventLog:
    """Events from a file, a folder, a database or a named data set."""
    from pintgn.datasets import public as datasets
    from pintgn.events.stats import repeats
    from pintgn.ingest.read import read_events
    from pintgn.ingest.sources import spool_stdin

    if data == "-":
        data = str(spool_stdin())
    path = Path(shown_address(data)).expanduser()
    if not path.exists() and data in datasets.DATASETS:
        if datasets.cached(data):
            return datasets.load(data)
        with Bar(data, "bytes") as bar:
            return datasets.load(data, progress=bar)
    if not path.exists() and not path.suffix and "/" not in data:
        siblings = sorted(one.name for one in path.parent.iterdir()) if path.parent.is_dir() else []
        known = [*(name for name in siblings if not name.startswith(".")), *datasets.DATASETS]
        raise BadFile(f"{data} is neither a file nor a data set's name.{suggest(data, known)}")
    if (path / "run.json").exists():  # the log that a run was trained on
        from pintgn.learn.folder import Folder

        data = str(Folder(path).events)
    for name in LISTS:
        if options[name] not in (None, "all"):
            options[name] = [part.strip() for part in options[name].split(",") if part.strip()]
    if "=" in options["encoding"]:
        options["encoding"] = dict(part.strip().split("=", 1) for part in options["encoding"].split(",") if "=" in part)
    relation = options.pop(RELATION, None)
    source, is_saved = _with_columns(data, options, options.pop(NODES_ONLY, False))
    if is_saved:
        options["predict"] = None
    elif relation is not None:
        options["categorical"] = [*(options["categorical"] or []), source.column(relation)]
        encoding = options["encoding"]
        others = dict.fromkeys(options["features"] if options["features"] != "all" else [], encoding)
        options["encoding"] = (others if isinstance(encoding, str) else encoding) | {relation: "code"}
    direct = {name: options[name] for name in DIRECT}
    far = "://" in data or (path.is_file() and path.stat().st_size >= LARGE)
    with Bar(f"reading {path.name}", "events") if sys.stderr.isatty() and far else nullcontext() as bar:
        log = read_events(source, progress=bar, **direct, **_groups(options))
    if unused := _unused(source, log):
        more = f" and {len(unused) - SHOWN} more" if len(unused) > SHOWN else ""
        say(f"note: not used: {', '.join(unused[:SHOWN])}{more} (--features takes some, or 'all')")
    if not is_saved and (again := int(repeats(log).sum())):
        say(f"note: {again:,} of {len(log):,} events repeat an earlier one exactly, and count (--drop-duplicates)")
    return log


def _groups(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `read_events` besides columns, by their groups."""
    given = {name: value for name, value in options.items() if name not in (*DIRECT, "query")}
    return grouped(**{name: () if value is None and name in LISTS[1:3] else value for name, value in given.items()})


def _unused(source: Any, log: EventLog) -> list[str]:
    """Columns that have no part in a log."""
    schema = log.schema
    parts = [schema.src, schema.dst, schema.t, schema.label, schema.op, schema.known, *schema.node_updates]
    used = {*parts, *(feature.name for feature in schema.features)}
    return [name for name in source.names if name not in used and name.partition("=")[0] not in used]


def _with_columns(data: str, options: dict[str, Any], nodes_only: bool) -> tuple[Any, bool]:
    """The opened source, and whether it is a saved log. Columns that are not given, nor called src, dst and t, are
    found by usual names; with `nodes_only` there may be no destination."""
    from pintgn.ingest.guess import by_name, konect
    from pintgn.ingest.sources import open_source

    wanted, web = [options[role] for role in ("src", "dst", "t")], data.startswith(("http://", "https://"))
    query, form = options["query"], _groups(options)["format"]
    with Bar(f"fetching {Path(shown_address(data)).name}", "bytes") if web else nullcontext() as bar:
        source = open_source(data, wanted, options["t"], options["skip_bad"], form, query=query, progress=bar)
    missing = [role for role in ("src", "dst", "t") if options[role] == role and role not in source.names]
    if not missing or source.saved:
        return source, source.saved
    given = {options[role] for role in ("src", "dst", "t") if role not in missing}
    listed = ", ".join(map(repr, source.names[:12])) + (", …" if len(source.names) > 12 else "")
    headless = getattr(source, "looks_headless", False)
    if headless:
        source = open_source(data, format=dataclasses.replace(form, header=False), query=query)
        found = konect(source) if len(missing) == 3 else {}
    else:
        for name in given:  # a mistyped name is an error before anything is guessed
            source.column(name)
        found = {role: name for role, name in by_name(source.names).items() if role in missing and name not in given}
    alone = nodes_only and "dst" in missing and "dst" not in found
    if all(role in found for role in missing if role != "dst" or not alone):
        options |= found | ({"header": False} if headless else {}) | ({"dst": None} if alone else {})
        taken = ", ".join(f"{found[role]!r} as {FLAGS[role]}" for role in missing if role in found)
        says = [f"taking {taken}" if taken else "", "no column of destinations: events have none" if alone else ""]
        says += ["with --bipartite: KONECT says 'bip'" if "bipartite" in found else ""]
        say(f"note: {', '.join(filter(None, says))}")
        return source, False
    if headless:
        advice = " The first line looks like data. If it is, name columns by position, from 0: "
        advice += "--no-header --src N --dst N --time N"
    else:
        advice = " Say which is which: " + " ".join(
            f"{FLAGS[role]} {shlex.quote(found.get(role, 'COLUMN'))}" for role in missing
        )
        if "dst" in missing and "dst" not in found:
            whose = shlex.quote(found.get("src", "COLUMN") if "src" in missing else options["src"])
            advice += f". If events have no destination, name the source again: --dst {whose}"
    raise UnknownName(f"{source.title} has no column {missing[0]!r}. There are: {listed}.{advice}")
