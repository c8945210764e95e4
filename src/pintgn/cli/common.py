"""What every command shares: where answers and progress go, `--json`, options that mean the same everywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from pintgn.errors import BadInput

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as one JSON object, for machines.")]


def console(stderr: bool = False) -> Any:
    """A terminal to write on: stdout for the answer, stderr for progress. Imported late; rich is slow to load."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=not (sys.stderr if stderr else sys.stdout).isatty())


def emit_json(answer: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; NumPy numbers and paths are made plain."""

    def plain(value: Any) -> Any:
        return value.item() if hasattr(value, "item") else str(value)

    print(json.dumps(answer, default=plain, ensure_ascii=False))


def table(title: str, rows: list[tuple[str, str]]) -> Any:
    """A two-column table of names and right-aligned values."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_header=False)
    made.add_column(style="dim")
    made.add_column(justify="right")
    for name, value in rows:
        made.add_row(name, value)
    return made


def number(value: float) -> str:
    """A number with thousands separators and at most four significant digits behind the point.

    >>> number(125235), number(0.123456), number(1234.5)
    ('125,235', '0.1235', '1,234')
    """
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def share(part: int, whole: int) -> str:
    """A count with its share of the whole.

    >>> share(16410, 125235)
    '16,410 (13.1 %)'
    """
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else f"{part:,}"


def parse_setting(text: str) -> tuple[str, Any]:
    """A setting as it would stand in a TOML file; a bare word is a string.

    >>> parse_setting("layers=2"), parse_setting("positions_at=every")
    (('layers', 2), ('positions_at', 'every'))
    """
    import tomllib

    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--set {text!r} is not NAME=VALUE, as in --set layers=2.")
    try:
        return name.strip(), tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()
