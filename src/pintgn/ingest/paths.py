"""Names of files that are none: standard input, and what was meant instead."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from pintgn.errors import BadFile, BadInput, suggest

READABLE = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".gz", ".zst", ".bz2", ".lz4")
SHOWN = 5
"""Files that are listed where none is alike."""
_spooled: list[tempfile.TemporaryDirectory[str]] = []
"""Copies of standard input, which go when the process does."""


def spool_stdin() -> Path:
    """Standard input as a file: how a table is laid out is found out by reading its beginning more than once."""
    if sys.stdin is None or sys.stdin.isatty():
        raise BadInput("'-' reads events from standard input, but nothing is piped into it. Name a file.")
    folder = tempfile.TemporaryDirectory(prefix="pintgn-")
    _spooled.append(folder)
    path = Path(folder.name) / "stdin"
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
    alike = re.findall(r"'([^']*)'", suggest(path.name.split(".")[0], stems)) if stems else []
    alike = [stems[one] for one in alike if "Did" in suggest(path.name.split(".")[0], [one])]
    near = f" Did you mean {' or '.join(map(repr, alike))}?" if alike else ""
    if not near and readable:
        more = f" and {len(readable) - SHOWN} more" if len(readable) > SHOWN else ""
        near = f" That folder has {', '.join(readable[:SHOWN])}{more}."
    return BadFile(f"there is no file {path}.{near}")
