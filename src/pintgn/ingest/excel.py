"""A sheet of an Excel or OpenDocument file as columns, read by python-calamine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pintgn.errors import BadFile, BadInput, suggest
from pintgn.packages import need


def read_sheet(path: Path, sheet: str | None = None) -> dict[str, list[Any]]:
    """The columns of a sheet (the first where none is named), by the names in its first row that is not empty."""
    calamine = need("python_calamine", extra="excel")
    try:
        with calamine.CalamineWorkbook.from_path(str(path)) as book:
            if sheet is not None and sheet not in book.sheet_names:
                raise BadInput(f"{path.name} has no sheet {sheet!r}.{suggest(sheet, book.sheet_names)}")
            rows = book.get_sheet_by_name(sheet or book.sheet_names[0]).to_python(skip_empty_area=True)
    except calamine.CalamineError as error:
        raise BadFile(f"{path.name} cannot be read as a spreadsheet: {str(error).splitlines()[0]}") from error
    if len(rows) < 2:
        raise BadInput(f"{path.name} has no events. Its first row names the columns, the others are events.")
    names = [str(name).strip() or str(index) for index, name in enumerate(rows[0])]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"{path.name} has two columns called {twice!r}. Rename one.")
    return {name: _column([row[k] for row in rows[1:]]) for k, name in enumerate(names)}


def _column(values: list[Any]) -> list[Any]:
    """Empty cells as missing values, and numbers as whole numbers where all are: Excel has no others."""
    values = [None if value == "" else value for value in values]
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, float) and value.is_integer() and abs(value) < 2**53 for value in given):
        return [None if value is None else int(value) for value in values]
    return values
