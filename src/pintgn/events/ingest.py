"""Files, frames and arrays become an EventLog, by column name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pintgn.errors import BadInput, suggest
from pintgn.events.builder import Plan, build
from pintgn.events.log import EventLog
from pintgn.events.sources import ParquetSource, Source, open_source
from pintgn.events.store import open_log, saved_by_pintgn, write_events
from pintgn.events.timeformat import check_format

__all__ = ["read_events", "write_events"]

ENCODINGS = ("auto", "onehot", "code")
MOST_FEATURES = 20_000
"""Feature columns of a log at most; a file may have any number of others."""


def read_events(
    source: Any,
    src: str | int = "src",
    dst: str | int = "dst",
    t: str | int = "t",
    *,
    features: str | Sequence[str | int] | None = None,
    label: str | int | None = None,
    op: str | int | None = None,
    node_updates: Sequence[str | int] | None = None,
    bipartite: bool = False,
    sort: bool = False,
    strict: bool = False,
    nodes: Any = None,
    like: EventLog | None = None,
    categorical: Sequence[str | int] = (),
    encoding: str | Mapping[str, str] = "auto",
    fill: float | None = None,
    time_format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    columns: Sequence[str] | None = None,
    skip_lines: int = 0,
    charset: str = "utf-8",
) -> EventLog:
    """Read events by column name; nodes are numbered by first appearance in time, src before dst.

    Args:
        source: a CSV file (any delimiter) or JSON lines, also packed with gzip, zstd, bz2 or lz4; a Parquet file, a
            folder of Parquet files (in the order of their names), a pandas frame, an Arrow table or reader, anything
            with `__arrow_c_stream__` (Polars), a dict of arrays (two axes: one column each), a list of dicts, or a
            structured array. A file written by `EventLog.save` is restored exactly.
        src, dst, t: columns, by name or by position from 0. Ids are whole numbers, text or UUIDs; times are
            numbers, timestamps or ISO-8601 text.
        features: columns of event features, or "all" for all others. Numbers become float32; text, bools and
            dictionaries are categories.
        label: a column of numbers kept beside the events.
        op: a column that says what an event does: add (1), delete (-1), node (0: the node changes, and carries
            `node_updates`), or remove (the node goes, and all its living edges are deleted).
        node_updates: columns that node events carry.
        bipartite: the same id in src and dst means two different nodes.
        sort: sort by time, keeping the order of simultaneous events; otherwise unsorted input is an error.
        strict: refuse to delete what was never added or is already gone.
        nodes: a table of nodes (any source): column `id`, with `bipartite` also `side` (src or dst), and numbers.
        like: an earlier log. Its nodes keep their numbers and new ones follow; columns, encodings and units are
            the same; categories it did not have count as none, with a warning. If this source begins where
            `like` ends, edges still alive there can be deleted here.
        categorical: feature columns that are categories although they look like numbers.
        encoding: "onehot" (a 0/1 column for each category), "code" (1, 2, … in one column), or "auto": one-hot
            up to 32 categories. A mapping says it for each column.
        fill: what a missing feature counts as; otherwise it is an error.
        time_format: how times are written, where not as ISO-8601: a format of strptime such as "%d.%m.%Y %H:%M", or
            "s", "ms", "us" or "ns" for numbers that count since 1970 and are then shown as dates.
        delimiter, header, columns, skip_lines, charset: the layout of a text file; found out when not given.
            `columns` names the columns of a file without a header, or instead of it.

    Raises:
        BadInput: a value that cannot be used; the message names its row (counted from 0) or, in a text file, its
            line (counted from 1, with the header).
        EventOrderError: events are not sorted by time.
        UnknownName: a column that does not exist.
        BadFile: a file that is missing, damaged or of another kind.
    """
    written = check_format(time_format)
    given = {"src": src, "dst": dst, "t": t}
    roles = {"label": label, "op": op}
    if like is not None:
        known = like.schema
        given = {role: getattr(known, role) if name == role else name for role, name in given.items()}
        roles = {"label": label if label is not None else known.label, "op": op if op is not None else known.op}
        if op is not None and known.op is None:
            raise BadInput("the earlier log was read without an op column, so this one cannot have one.")
        node_updates = list(known.node_updates) if node_updates is None else node_updates
        features = _as_known(features, [feature.name for feature in known.features])
        bipartite = known.separate_namespaces
    wanted = [*given.values(), *(name for name in roles.values() if name is not None and like is None)]
    layout = {
        "delimiter": delimiter, "header": header, "columns": columns, "skip_lines": skip_lines, "charset": charset,
    }  # fmt: skip
    opened = open_source(source, wanted, given["t"], **layout)
    asked = (
        any((features, label, op, node_updates, bipartite, categorical, written))
        or nodes is not None
        or like is not None
    )
    if not asked and isinstance(opened, ParquetSource) and len(opened.paths) == 1 and saved_by_pintgn(opened.paths[0]):
        log = open_log(opened.paths[0], checked=True)
        if all(name in (role, getattr(log.schema, role)) for role, name in given.items()):
            return log
    plan = _plan(opened, given, roles, features, node_updates, like)
    plan.bipartite, plan.sort, plan.strict, plan.fill, plan.like = bipartite, sort, strict, fill, like
    plan.time_format = written
    plan.categorical = opened.columns(categorical)
    _set_encoding(plan, opened, encoding)
    builder = build(opened, plan)
    return builder.finish(None if nodes is None else open_source(nodes, ["id"], charset=charset))


def _plan(
    source: Source,
    given: Mapping[str, str | int],
    roles: Mapping[str, str | int | None],
    features: str | Sequence[str | int] | None,
    node_updates: Sequence[str | int] | None,
    like: EventLog | None,
) -> Plan:
    def found(role: str, name: str | int) -> str:
        # a later file may use the default names where the earlier log had its own
        default = like is not None and str(name) not in source.names and role in source.names
        return source.column(role if default else name)

    label, op = roles["label"], roles["op"]
    if like is not None and label is not None and str(label) not in source.names:
        label = None  # events to be scored later have no labels yet
    plan = Plan(
        src=found("src", given["src"]),
        dst=found("dst", given["dst"]),
        t=found("t", given["t"]),
        label=None if label is None else source.column(label),
        op=None if op is None else source.column(op),
        node_updates=source.columns(_several(node_updates, "node_updates")),
    )
    if plan.node_updates and plan.op is None:
        raise BadInput("node_updates belong to node events; name the column that marks those with op= (--op).")
    if features == "all":
        taken = set(plan.columns)
        plan.features = [name for name in source.names if name not in taken]
    else:
        plan.features = list(dict.fromkeys(source.columns(_several(features, "features"))))
    if len(plan.features) > MOST_FEATURES:
        raise BadInput(
            f"{len(plan.features):,} columns of {source.title} would be features; at most {MOST_FEATURES:,} can be. "
            "Name those that matter with features=[…] (--features)."
        )
    return plan


def _several(names: str | Sequence[str | int] | None, what: str) -> Sequence[str | int]:
    if isinstance(names, str | int):
        raise BadInput(f"{what} is a list of columns, as in {what}=[{names!r}].")
    return names or ()


def _as_known(features: str | Sequence[str | int] | None, known: list[str]) -> list[str]:
    if features is not None and features != "all" and [str(name) for name in features] != known:
        raise BadInput(f"the earlier log has the features {known}, so this one has them too; leave out features=.")
    return known


def _set_encoding(plan: Plan, source: Source, encoding: str | Mapping[str, str]) -> None:
    if isinstance(encoding, str):
        plan.default_encoding = encoding
    else:
        plan.encoding = {source.column(name): kind for name, kind in encoding.items()}
    for kind in (plan.default_encoding, *plan.encoding.values()):
        if kind not in ENCODINGS:
            raise BadInput(f"there is no encoding {kind!r}.{suggest(kind, ENCODINGS)}")
