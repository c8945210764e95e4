"""Paths that name no file: standard input, and the likely file where a name is mistyped."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from pintgn.errors import BadFile, BadInput, suggest

TEXT = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
READABLE = (*TEXT, ".parquet", ".pq", ".xlsx", ".gz", ".zst", ".bz2", ".lz4")
SHOWN = 5
"""Files that are listed where none is alike."""
_spooled: list[tempfile.TemporaryDirectory[str]] = []
"""Copies of standard input, which go when the process does."""


def spool_stdin() -> Path:
    """Standard input as a file: how a table is laid out is found out by reading its beginning more than once."""
    if sys.stdin is None or sys.stdin.isatty():
        raise BadInput("'-' reads events from standard input, but nothing is piped into it. Name a file.")
    _spooled.append(tempfile.TemporaryDirectory(prefix="pintgn-"))
    path = Path(_spooled[-1].name) / "stdin"
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def missing(path: Path) -> BadFile:
    """There is no such file; but there may be one that is called alike, or others in its folder."""
    if not path.parent.is_dir():
        return BadFile(f"there is no folder {path.parent}, so no file {path}.")
    readable = sorted(one.name for one in path.parent.iterdir() if one.name.lower().endswith(READABLE))
    readable = [name for name in readable if not name.startswith(".")]
    stems = {name.split(".")[0]: name for name in readable}  # all end in .csv, which makes nothing alike
    stem = path.name.split(".")[0]
    alike = [stems[one] for one in stems if "Did" in suggest(stem, [one])]
    more = f" and {len(readable) - SHOWN} more" if len(readable) > SHOWN else ""
    near = f" That folder has {', '.join(readable[:SHOWN])}{more}." if readable else ""
    near = f" Did you mean {' or '.join(map(repr, alike))}?" if alike else near
    return BadFile(f"there is no file {path}.{near}")
