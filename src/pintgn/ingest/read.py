"""Files, frames and arrays become an EventLog, by column name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pintgn.display.progress import counting, shown
from pintgn.errors import BadInput, suggest
from pintgn.events.log import EventLog
from pintgn.events.store import open_log, saved_by_pintgn, write_events
from pintgn.events.timeformat import check_format
from pintgn.ingest.builder import Plan, build
from pintgn.ingest.clean import without_duplicates
from pintgn.ingest.predicted import read_predicted
from pintgn.ingest.sources import ParquetSource, SavedSource, Source, open_source

__all__ = ["read_events", "write_events"]

ENCODINGS = ("auto", "onehot", "hash", "code")
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
    op: str | int | None = None,
    known_at: str | int | None = None,
    predict: str | int | None = None,
    node_updates: Sequence[str | int] | None = None,
    bipartite: bool | None = None,
    sort: bool | None = None,
    strict: bool = False,
    skip_bad: bool = False,
    max_bad: float = 0.1,
    drop_duplicates: bool = False,
    nodes: Any = None,
    like: EventLog | None = None,
    categorical: Sequence[str | int] = (),
    encoding: str | Mapping[str, str] = "auto",
    fill: float | None = None,
    decimal: str | None = None,
    time_format: str | None = None,
    assume_zone: str | None = None,
    query: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    columns: Sequence[str] | None = None,
    skip_lines: int = 0,
    comment: str | None = None,
    charset: str = "utf-8",
    progress: Callable[[int, int | None], None] | bool | None = None,
) -> EventLog:
    """Read events by column name; nodes are numbered by first appearance in time, src before dst.

    Args:
        source: a CSV file (any delimiter) or JSON lines, also compressed with gzip, zstd, bz2 or lz4; a Parquet file, a
            folder of Parquet files (in the order of their names), a pandas frame, an Arrow table or reader, anything
            with `__arrow_c_stream__` (Polars), a dict of arrays (two axes: one column each), a list of dicts, or a
            structured array. A file written by `EventLog.save` is restored exactly. Also `https://` and `s3://`
            addresses of such files; a SQLite or DuckDB file, or `postgresql://user@host/database`.
        src, dst, t: columns, by name or by position from 0. Ids are whole numbers, text or UUIDs; times are
            numbers, timestamps or ISO-8601 text. `dst=None` where events have no destination, as purchases in one
            shop: each is then a self-loop of its source.
        features: columns of event features, or "all" for all others. Numbers become float32; text, bools and
            dictionaries are categories.
        label: a column of numbers kept beside the events.
        op: a column that says what an event does: add (1), delete (-1), node (0: the node changes, and carries
            `node_updates`), or remove (the node goes, and all its living edges are deleted).
        known_at: a column of times at which what is to be predicted becomes known about each event, as that of a
            chargeback; empty where it never does. See docs/tasks.md.
        predict: the column that is to be predicted, which may be missing: an event without it is no question. Numbers
            become the label, which is kept in full; all else a feature in codes. Name it in `fit` as well.
        node_updates: columns that node events carry.
        bipartite: True where the same id in src and dst means two different nodes. When not given, it means one, and a
            warning says so where columns seem to name two kinds of things.
        sort: events that are not in order of time are sorted, with a note; simultaneous ones keep their order. True
            leaves out the note, False makes it an error.
        strict: refuse to delete what was never added or is already gone.
        skip_bad: leave out rows that cannot be used (no id, no time, no number where one is needed, too few or too
            many values) instead of ending with an error; a warning counts each kind and names the first ones.
        max_bad: how many rows may be skipped: a number, or, below 1, a share of all.
        drop_duplicates: of rows that are equal in every column that is read, keep the first.
        nodes: a table of nodes (any source): their ids in a column `id` (or one called as in the events), with
            `bipartite` also `side` (src or dst), and features: numbers, or text, which is categories.
        like: an earlier log. Its nodes keep their numbers and new ones follow; columns, encodings and units are
            the same; categories it did not have count as none, with a warning. If this source begins where
            `like` ends, edges still alive there can be deleted here.
        categorical: feature columns that are categories although they look like numbers.
        encoding: "onehot" (a 0/1 column for each category), "hash" (32 columns of ±1, the bits of a hash), "code" (1,
            2, … in one column), or "auto": one-hot up to 32 categories, else hash. A mapping says it for each column.
        fill: what a missing feature counts as; otherwise it is an error.
        decimal: "," where text writes numbers as 1.234,50, "." where as 1,234.50. Signs of a currency are left out.
        time_format: how times are written, where not as ISO-8601: a format of strptime such as "%d.%m.%Y %H:%M", or
            "s", "ms", "us" or "ns" for numbers that count since 1970 and are then shown as dates.
        assume_zone: the time zone of dates that are written without one, such as "Europe/Berlin" or "+02:00". Later
            files, and times that are asked about, are read so, too.
        query: of a database: the name of a table, or a query in its SQL. `"shop.db#orders"` says the same in one text.
        delimiter, header, columns, skip_lines, comment, charset: the layout of a text file; found out when not given.
            `columns` names the columns of a file without a header, or instead of it. Lines that begin with `comment`
            are left out; where a file begins with # or %, these are.
        progress: True for a bar, or a function that is called with how many rows have been read, and of about how many
            where that is known.

    Raises:
        BadInput: a value that cannot be used; the message names its row (counted from 0) or, in a text file, its
            line (counted from 1, with the header).
        EventOrderError: events are not sorted by time, with `sort=False`.
        UnknownName: a column that does not exist.
        BadFile: a file that is missing, damaged or of another kind.

    >>> import pintgn
    >>> trades = {"buyer": ["ann", "bob"], "seller": ["cay", "ann"], "when": ["2024-01-01", "2024-01-03"]}
    >>> pintgn.read_events(trades | {"eur": [5, 7]}, "buyer", "seller", "when", features=["eur"])
    EventLog: 2 events, 3 nodes, 2024-01-01 to 2024-01-03, 1 feature
    """
    written = None if time_format is None else check_format(time_format)
    if assume_zone is not None:
        _check_zone(assume_zone, written)
    if decimal not in (None, ".", ","):
        raise BadInput(f"decimal={decimal!r}; the decimal mark is ',' or '.'.")
    if not max_bad >= 0:
        raise BadInput(f"max_bad={max_bad}; give a number of rows, or a share below 1 such as 0.1.")
    if dst is None and bipartite:
        raise BadInput("bipartite=True names sources and destinations apart, and dst=None says that there are none.")
    dst = src if dst is None else dst
    roles: dict[str, str | int | None] = {
        "src": src, "dst": dst, "t": t, "label": label, "op": op, "known": known_at
    }  # fmt: skip
    if like is not None:
        known = like.schema
        if op is not None and known.op is None:
            raise BadInput("the earlier log was read without an op column, so this one cannot have one.")
        names = [feature.name for feature in known.features]
        if features is not None and features != "all" and [str(name) for name in features] != names:
            raise BadInput(f"the earlier log has the features {names}, so this one has them too; leave out features=.")
        features, bipartite = names, known.separate_namespaces
        node_updates = list(known.node_updates) if node_updates is None else node_updates
        roles = {role: getattr(known, role) if name in (role, None) else name for role, name in roles.items()}
        roles["dst"] = roles["src"] if known.alone else roles["dst"]
    wanted = [
        name for role, name in roles.items() if name is not None and (like is None or role in ("src", "dst", "t"))
    ]
    opened = open_source(
        source, wanted, roles["t"], skip_bad, query=query,
        delimiter=delimiter, header=header, columns=columns, skip_lines=skip_lines, comment=comment, charset=charset,
    )  # fmt: skip
    asked = any((features, label, op, known_at, node_updates, bipartite, categorical, written, assume_zone))
    asked = asked or nodes is not None or like is not None
    log = None if asked else _saved(opened)
    if log is not None and all(roles[role] in (role, getattr(log.schema, role)) for role in ("src", "dst", "t")):
        return without_duplicates(log) if drop_duplicates else log
    if predict is not None and like is None:
        roles["label"], features, categorical, encoding = read_predicted(
            opened, predict, roles["label"], features, categorical, encoding
        )
    plan = Plan(
        bipartite=bipartite, sort=sort, strict=strict, fill=fill, decimal=decimal, like=like, time_format=written,
        written=written, assume_zone=assume_zone, skip_bad=skip_bad, max_bad=max_bad,
    )  # fmt: skip
    if like is not None:
        plan.written = written or like.schema.time.written
        plan.assume_zone = assume_zone or like.schema.time.assumed
    _assign(plan, opened, roles, features, node_updates)
    plan.categorical = opened.columns(categorical)
    encodings = dict.fromkeys(plan.features, encoding) if isinstance(encoding, str) else encoding
    plan.encoding = {opened.column(name): kind for name, kind in encodings.items()}
    for kind in [encoding] if isinstance(encoding, str) else encoding.values():
        if kind not in ENCODINGS:
            raise BadInput(f"there is no encoding {kind!r}.{suggest(kind, ENCODINGS)}")
    with shown(progress, counting("reading", "events")) as told:
        built = build(opened, plan, told)
    log = built.finish(None if nodes is None else open_source(nodes, ["id"], charset=charset))
    return without_duplicates(log) if drop_duplicates else log


def _saved(source: Source) -> EventLog | None:
    """The log that a file is, where it was saved by pintgn."""
    if isinstance(source, SavedSource):
        return source.log
    if isinstance(source, ParquetSource) and len(source.paths) == 1 and saved_by_pintgn(source.paths[0]):
        return open_log(source.paths[0], checked=True)
    return None


def _check_zone(zone: str, written: str | None) -> None:
    from pintgn.events.timeformat import UNITS
    from pintgn.events.timeformat import zone_of

    zone_of(zone)
    if written in UNITS:
        raise BadInput(f"time_format={written!r} counts since 1970 UTC, whatever the zone. Leave out assume_zone.")


def _assign(
    plan: Plan,
    source: Source,
    roles: Mapping[str, str | int | None],
    features: str | Sequence[str | int] | None,
    node_updates: Sequence[str | int] | None,
) -> None:
    """Find the columns that play each part."""
    for what, names in (("features", features), ("node_updates", node_updates)):
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
    plan.node_updates = source.columns(node_updates or ())
    if plan.node_updates and plan.op is None:
        raise BadInput("node_updates belong to node events; name the column that marks those with op= (--op).")
    if features == "all":
        taken = set(plan.columns)
        plan.features = [name for name in source.names if name not in taken]
    else:
        plan.features = list(dict.fromkeys(source.columns(features or ())))  # type: ignore[arg-type]
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
