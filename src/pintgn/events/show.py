"""A log in a notebook: what it is, and its first and last events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pintgn.display.html import paragraph, table

if TYPE_CHECKING:
    from pintgn.events.log import EventLog

ROWS, COLUMNS, LETTERS = 5, 10, 40
"""Of a log: rows at either end, columns, and letters of a cell."""


def log_html(log: EventLog) -> str:
    """One line, and the events at either end in the users' own columns."""
    short = len(log) <= 2 * ROWS
    parts = [log] if short else [log[:ROWS], log[-ROWS:]]
    tables = [part.to_table() for part in parts]
    names = tables[0].column_names
    heads = ["", *names[:COLUMNS], *(["…"] if len(names) > COLUMNS else [])]
    rows: list[list[str]] = []
    for number, (part, found) in enumerate(zip(parts, tables, strict=True)):
        if number:
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
