"""Display of a log: its statistics in rows; in a notebook, its first and last events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pintgn.display.html import paragraph, table
from pintgn.events.schema import TimeUnit
from pintgn.events.timeformat import since_1970
from pintgn.formatting import number, share

if TYPE_CHECKING:
    from pintgn.events.log import EventLog

ROWS, COLUMNS, LETTERS = 5, 10, 40
"""Of a log: rows at either end, columns, and letters of a cell."""


GAPS = "* 10 %, 50 % and 90 % quantile"


def log_facts(log: EventLog) -> list[tuple[str, str]]:
    """Names and values of a log's statistics; those that end in * are explained by `GAPS`."""
    stats, show = log.statistics(), log.schema.time.show
    rows = [
        ("events", number(stats.events)),
        ("nodes", number(stats.nodes)),
        ("sources / destinations", f"{stats.sources:,} / {stats.destinations:,}"),
        ("bipartite", "yes" if stats.bipartite else "no"),
        ("distinct pairs", number(stats.distinct_pairs)),
        ("repeated links", share(stats.repeated_links, stats.events)),
        ("exact repeats", share(stats.exact_repeats, stats.events)),
        ("self-loops", share(stats.self_loops, stats.events)),
        ("distinct times", number(stats.distinct_times)),
        ("simultaneous events", share(stats.simultaneous, stats.events)),
        ("largest simultaneous group", number(stats.largest_group)),
    ]
    if log.op is not None:
        rows += [("deletions", number(stats.deletions)), ("node events", number(stats.node_events))]
    if log.schema.features:
        rows.append(("features", number(log.schema.feature_width)))
    if stats.t_first is not None:
        rows += [("first time", show(stats.t_first)), ("last time", show(stats.t_last))]
        assert stats.t_last is not None
        if log.schema.time.unit is None and (counted := since_1970(stats.t_first, stats.t_last)):
            rows.append((f"the first as a date (--time-format {counted})", TimeUnit(counted).show(stats.t_first)))
    unit = f" {log.schema.time.unit}" if log.schema.time.unit else ""
    for name, gaps in (("time between events *", stats.event_gaps), ("time between a node's own *", stats.node_gaps)):
        if gaps is not None:
            spread = " / ".join(number(value) for value in (gaps.p10, gaps.median, gaps.p90))
            rows.append((name, f"{spread}{unit}"))
    return rows


def log_html(log: EventLog) -> str:
    """One line, and the events at either end in the users' own columns."""
    short = len(log) <= 2 * ROWS
    parts = [log] if short else [log[:ROWS], log[-ROWS:]]
    tables = [part.to_table() for part in parts]
    names = tables[0].column_names
    heads = ["", *names[:COLUMNS], *(["…"] if len(names) > COLUMNS else [])]
    rows: list[list[str]] = []
    for piece, (part, found) in enumerate(zip(parts, tables, strict=True)):
        if piece:
            rows.append(["…"] * len(heads))
        for k, line in enumerate(found.to_pylist()):
            cells = [_cell(line[name]) for name in names[:COLUMNS]]
            rows.append([f"{part.first - log.first + k:,}", *cells, *(["…"] if len(names) > COLUMNS else [])])
    return paragraph(repr(log)) + (table(heads, rows, left=len(heads)) if rows else "")


def _cell(value: Any) -> str:
    """
    >>> _cell(None), _cell(0.123456), _cell("x" * 50)
    ('', '0.1235', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…')
    """
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
