"""Output of all commands: answers, progress, tables, numbers and `--json`.

The rules are in docs/architecture.md, "Output". In short: stdout is the answer, stderr all else; a terminal gets
colours, bars and lines that fit its width, anything else plain text with one row on a line.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from pintgn.display.bars import Bar as Bar
from pintgn.display.bars import console
from pintgn.errors import BadInput
from pintgn.formatting import text_table

STDOUT = Path("-")
AsJson = Annotated[bool, Option("--json", help="Print the answer as one JSON object.")]


def say(text: Any) -> None:
    """A line, or anything that rich can draw, on stderr; brackets are no markup."""
    console(stderr=True).print(text, markup=False)


def note(text: str | None) -> None:
    """A note on stderr, if there is one."""
    if text:
        say(f"note: {text}")


def answer(as_json: bool, facts: Any, shown: Any) -> None:
    """The answer on stdout: one JSON object for machines, or text or a table for people.

    Either may be a function that makes it, where that takes a while.
    """
    chosen = facts if as_json else shown
    chosen = chosen() if callable(chosen) else chosen
    if as_json:
        emit_json(chosen)
    elif isinstance(chosen, Grid):
        console().print(chosen)
    else:
        print(chosen)


def emit_json(answer: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; NumPy numbers and paths are made plain."""

    def plain(value: Any) -> Any:
        return value.item() if hasattr(value, "item") else str(value)

    print(json.dumps(answer, default=plain, ensure_ascii=False))


class Grid:
    """A table: drawn to fit on a terminal, plain text elsewhere, with one line for each row and nothing behind it."""

    def __init__(
        self, rows: Sequence[Sequence[str]], heads: Sequence[str] = (), title: str = "", note: str = "", left: int = 1
    ):
        self.rows, self.heads, self.title, self.note, self.left = rows, heads, title, note, left

    def __str__(self) -> str:
        body = text_table(self.heads, self.rows, self.left)
        return "\n".join(part for part in (self.title, body, self.note) if part)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        if not console.is_terminal:
            yield Text(str(self), no_wrap=True, overflow="ignore")
            return
        table = Table(
            title=self.title or None, title_justify="left", title_style="bold", caption=self.note or None,
            caption_justify="left", box=box.SIMPLE_HEAD, show_header=bool(self.heads), pad_edge=False,
        )  # fmt: skip
        widths = [max(map(len, cells)) for cells in zip(*self.rows, *([self.heads] if self.heads else []), strict=True)]
        fits = sum(widths) + 3 * len(widths) <= options.max_width
        for column, width in enumerate(widths):
            text = column < self.left
            # only long text may wrap, and only where it does not fit: numbers never do
            table.add_column(
                self.heads[column] if self.heads else "",
                justify="left" if text else "right",
                no_wrap=not text or fits or width < 20,
                style="dim" if not self.heads and text else "",
            )
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        yield table


Overwrite = Annotated[bool, Option("--overwrite", help="Replace an output that exists already.")]


def check_output(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file without --overwrite, before any work is done."""
    if path.exists() and not overwrite and path != STDOUT:
        raise BadInput(f"{path} exists already. Choose another name, or pass --overwrite.")


def write_log(log: Any, path: Path) -> bool:
    """Write events by the ending of the name, or as CSV on standard output where it is -; whether it was a file."""
    from pintgn.ingest.read import write_events

    if path != STDOUT:
        write_events(log, path)
        return True
    with tempfile.TemporaryDirectory() as folder:
        write_events(log, Path(folder) / "events.csv")
        with open(Path(folder) / "events.csv", "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return False


def next_steps(first: str, *commands: str) -> None:
    """Next steps on stderr: a line, and commands to copy, each on a line of its own."""
    say("\n".join([first, *(f"  {command}" for command in commands)]))


def parse_setting(text: str) -> tuple[str, Any]:
    """A setting as in a TOML file; a bare word is a string.

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
