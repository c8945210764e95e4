"""Files, frames and arrays become an EventLog, by column name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pintgn.display.progress import counting, progress_callback
from pintgn.errors import BadInput
from pintgn.events.columns import is_text, plain, try_cast
from pintgn.events.log import EventLog
from pintgn.events.stats import drop_repeats
from pintgn.events.store import open_log, write_events
from pintgn.ingest.builder import Plan, build
from pintgn.ingest.feature_columns import trimmed
from pintgn.ingest.read_options import GROUPS, Cleaning, Columns, FileFormat
from pintgn.ingest.sources import open_source
from pintgn.ingest.table_source import ParquetSource, Source

__all__ = ["read_events", "write_events"]

MOST_FEATURES = 20_000
"""Feature columns of a log at most; a file may have any number of others."""


def read_events(
    source: Any,
    src: str | int = "src",
    dst: str | int | None = "dst",
    t: str | int = "t",
    *,
    features: str | Sequence[str | int] | None = None,
    label: str | int | None = None,
    bipartite: bool | None = None,
    like: EventLog | None = None,
    columns: Columns = Columns(),
    cleaning: Cleaning = Cleaning(),
    format: FileFormat = FileFormat(),
    progress: Callable[[int, int | None], None] | bool | None = None,
) -> EventLog:
    """Read events by column name; nodes are numbered by first appearance in time, src before dst.

    Args:
        source: a CSV file (any delimiter) or JSON lines, also compressed with gzip, zstd, bz2 or lz4; a Parquet file, a
            folder of Parquet files (in the order of their times), an Excel sheet, a pandas frame, an Arrow table or
            reader, anything with `__arrow_c_stream__` (Polars), a dict of arrays (two axes: one column each), a list of
            dicts, or a structured array. A file written by `EventLog.save` is restored exactly. Also `https://` and
            `s3://` addresses of such files; a SQLite or DuckDB file, or `postgresql://user@host/database`, with a table
            or a query behind a `#`: `"shop.db#orders"`.
        src, dst, t: columns, by name or by position from 0. Ids are whole numbers, text or UUIDs; times are
            numbers, timestamps or ISO-8601 text. `dst=None` where events have no destination, as purchases in one
            shop: each is then a self-loop of its source.
        features: columns of event features, or "all" for all others. Numbers become float32; text, bools and
            dictionaries are categories.
        label: a column of numbers kept beside the events.
        bipartite: True where the same id in src and dst means two different nodes. When not given, it means one, and a
            warning says so where columns seem to name two kinds of things.
        like: an earlier log. Its nodes keep their numbers and new ones follow; columns, encodings and units are
            the same; categories it did not have count as none, with a warning. If this source begins where
            `like` ends, edges still alive there can be deleted here.
        columns: what further columns mean: deletions, what is predicted, categories, the node table; see `Columns`.
        cleaning: what happens to bad, late or repeated rows and missing values; see `Cleaning`.
        format: how a text file is laid out, and how numbers and times are written; see `FileFormat`.
        progress: True for a bar, or a function that is called with how many rows have been read, and of about how many
            where that is known.

    Raises:
        BadInput: a value that cannot be used; the message names its row (counted from 0) or, in a text file, its
            line (counted from 1, with the header).
        EventOrderError: events are not sorted by time, with `Cleaning(sort=False)`.
        UnknownName: a column that does not exist.
        BadFile: a file that is missing, damaged or of another kind.

    >>> import pintgn
    >>> trades = {"buyer": ["ann", "bob"], "seller": ["cay", "ann"], "when": ["2024-01-01", "2024-01-03"]}
    >>> pintgn.read_events(trades | {"eur": [5, 7]}, "buyer", "seller", "when", features=["eur"])
    EventLog: 2 events, 3 nodes, 2024-01-01 to 2024-01-03, 1 feature
    """
    for name, given in (("columns", columns), ("cleaning", cleaning), ("format", format)):
        if not isinstance(given, GROUPS[name]):
            raise BadInput(f"{name}={given!r}; it takes a pintgn.{GROUPS[name].__name__}(…).")
    if dst is None and bipartite:
        raise BadInput("bipartite=True names sources and destinations apart, and dst=None says that there are none.")
    roles: dict[str, str | int | None] = {
        "src": src, "dst": src if dst is None else dst, "t": t, "label": label, "op": columns.op,
        "known": columns.known_at,
    }  # fmt: skip
    if like is not None:
        features, bipartite, columns = _as_before(like, roles, features, columns)
    wanted = [
        name for role, name in roles.items() if name is not None and (like is None or role in ("src", "dst", "t"))
    ]
    opened = open_source(source, wanted, roles["t"], cleaning.skip_bad, format)
    chosen = (label, columns.op, columns.known_at, columns.nodes, like, format.time_format, format.assume_zone)
    plain = not (features or bipartite or columns.node_updates or columns.categorical)
    log = _saved(opened) if plain and all(one is None for one in chosen) else None
    if log is not None and all(roles[role] in (role, getattr(log.schema, role)) for role in ("src", "dst", "t")):
        return drop_repeats(log) if cleaning.drop_duplicates else log
    if columns.predict is not None and like is None:
        roles["label"], features, columns = _read_predicted(opened, roles["label"], features, columns)
    plan = Plan(bipartite=bipartite, like=like, cleaning=cleaning, format=format)
    _assign(plan, opened, roles, features, columns)
    with progress_callback(progress, counting("reading", "events")) as report:
        built = build(opened, plan, report)
    nodes = (
        None if columns.nodes is None else open_source(columns.nodes, ["id"], format=FileFormat(charset=format.charset))
    )
    log = built.finish(nodes)
    return drop_repeats(log) if cleaning.drop_duplicates else log


def _as_before(
    like: EventLog, roles: dict[str, str | int | None], features: Any, columns: Columns
) -> tuple[list[str], bool, Columns]:
    """Features, name spaces and node updates of an earlier log, and its names for columns with the usual ones."""
    known = like.schema
    if columns.op is not None and known.op is None:
        raise BadInput("the earlier log was read without an op column, so this one cannot have one.")
    names = [feature.name for feature in known.features]
    if features is not None and features != "all" and [str(name) for name in features] != names:
        raise BadInput(f"the earlier log has the features {names}, so this one has them too; leave out features=.")
    for role, name in roles.items():
        roles[role] = getattr(known, role) if name in (role, None) else name
    roles["dst"] = roles["src"] if known.alone else roles["dst"]
    return (
        names,
        known.separate_namespaces,
        dataclasses.replace(columns, node_updates=columns.node_updates or known.node_updates),
    )


def _read_predicted(
    source: Source, label: str | int | None, features: Any, columns: Columns
) -> tuple[str | int | None, Any, Columns]:
    """Label, features and columns with the one to be predicted: numbers are the label, which may be missing and is kept
    in full, all else is a feature in codes."""
    name = source.column(columns.predict)  # type: ignore[arg-type]
    named = list(source.names if features == "all" else features or ())
    if label is not None and source.column(label) == name:
        label = None
    values = plain(next(iter(source.batches([name]))).column(0))
    text = is_text(values.type)
    numbers = any(kind(values.type) for kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null))
    if text:  # also where nothing is filled in
        numbers = try_cast(trimmed(values), pa.float64()) is not None
    if numbers and name not in source.columns(columns.categorical) and label is None:
        others = features if features == "all" else [one for one in named if source.column(one) != name]
        return name, others, columns
    if features != "all" and name not in source.columns(named):
        named.append(name)
    encoding, categorical = columns.encoding, columns.categorical
    if isinstance(encoding, str):
        encoding = dict.fromkeys(source.columns(named), encoding) | {name: "code"}
    if not numbers and not text and not pa.types.is_boolean(values.type):
        categorical = [*categorical, name]
    columns = dataclasses.replace(columns, categorical=categorical, encoding={name: "code"} | dict(encoding))
    return label, features if features == "all" else named, columns


def _saved(source: Source) -> EventLog | None:
    """The log that a file is, where it was saved by pintgn."""
    return open_log(source.paths[0], checked=True) if isinstance(source, ParquetSource) and source.saved else None


def _assign(plan: Plan, source: Source, roles: dict[str, str | int | None], features: Any, columns: Columns) -> None:
    """Find the columns that play each part."""
    for what, names in (("features", features), ("node_updates", columns.node_updates)):
        if isinstance(names, str | int) and (what, names) != ("features", "all"):
            raise BadInput(f"{what} is a list of columns, as in {what}=[{names!r}].")
    for role, name in roles.items():
        if name is None:
            continue
        if plan.like is not None and str(name) not in source.name_set:
            if role in ("label", "known"):
                continue  # events to be scored later have no labels yet
            # a later file may use the default names where the earlier log had its own
            name = role if role in source.name_set and role != "op" else name
        setattr(plan, role, source.column(name))
    plan.node_updates = source.columns(columns.node_updates)
    if plan.node_updates and plan.op is None:
        raise BadInput(
            "node_updates belong to node events; name the column that marks those with Columns(op=…) (--op)."
        )
    if features == "all":
        taken = set(plan.columns)
        plan.features = [name for name in source.names if name not in taken]
    else:
        plan.features = list(dict.fromkeys(source.columns(features or ())))
    if plan.known is not None and plan.known in plan.features:
        raise BadInput(
            f"{plan.known!r} says when something becomes known, which is not known before, so it is no feature. "
            "Leave it out of features= (--features)."
        )
    if len(plan.features) > MOST_FEATURES:
        raise BadInput(
            f"{len(plan.features):,} columns of {source.title} would be features; at most {MOST_FEATURES:,} can be. "
            "Name those that matter with features=[…] (--features)."
        )
    plan.categorical = source.columns(columns.categorical)
    encoding = columns.encoding
    encodings = dict.fromkeys(plan.features, encoding) if isinstance(encoding, str) else encoding
    plan.encoding = {source.column(name): kind for name, kind in encodings.items()}
