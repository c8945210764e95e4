"""Sources as streams of batches: files, folders, addresses, databases, frames, tables, arrays."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadFile, BadInput, suggest
from pintgn.ingest.read_options import FileFormat
from pintgn.ingest.table_source import PARQUET, ArraySource, ParquetSource, Source, TableSource
from pintgn.ingest.textfile import TextSource

COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
"""How compressed files begin."""
SQLITE, DUCKDB = b"SQLite format 3\0", b"DUCK"
"""How other files begin; DuckDB's after eight bytes."""
EXCEL = (".xlsx", ".xlsm", ".xlsb", ".ods")
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
READABLE = (".csv", ".tsv", ".txt", *JSON_ENDINGS, ".parquet", ".pq", ".xlsx", ".gz", ".zst", ".bz2", ".lz4")
SHOWN = 5
"""Files that are listed where none is alike."""
_spooled: list[tempfile.TemporaryDirectory[str]] = []
"""Copies of standard input, which go when the process does."""


def open_source(
    source: Any,
    wanted: Sequence[str | int] = (),
    t: str | int | None = None,
    lenient: bool = False,
    format: FileFormat | None = None,
    *,
    query: str | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Source:
    """Open any source as a stream. `wanted` and `t` help to detect the layout of a text file; `lenient` leaves out
    malformed rows; a `query` or table name is for databases."""
    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        path = spool_stdin() if source == "-" else Path(source).expanduser()
        if os.path.exists(path):  # of any length, as an address with a query may be
            return _open_path(path, wanted, t, lenient, format or FileFormat(), query)
        from pintgn.ingest.addresses import open_address

        found = open_address(str(source), query, progress, wanted=wanted, t=t, lenient=lenient, format=format)
        if found is None:
            raise missing(path)
        return found
    if query is not None:
        raise BadInput(f"a query asks a database, and {type(source).__name__} is none. Leave it out.")
    if isinstance(source, pa.Table | pa.RecordBatchReader):
        return TableSource(source)
    if isinstance(source, pa.RecordBatch):
        return TableSource(pa.Table.from_batches([source]))
    if isinstance(source, np.ndarray):
        if source.dtype.names is None:
            raise BadInput("an array needs named columns: pass a structured array, or a dict such as {'src': …}.")
        return ArraySource({name: source[name] for name in source.dtype.names}, "the array")
    if isinstance(source, Mapping):
        return ArraySource(source, "the dict")
    if isinstance(source, list | tuple) and source and all(isinstance(row, Mapping) for row in source):
        return ArraySource({name: [row.get(name) for row in source] for name in source[0]}, "the list")
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        names = [str(name) for name in source.columns]
        twice, count = Counter(names).most_common(1)[0] if names else ("", 0)
        if count > 1:
            raise BadInput(f"the frame has two columns called {twice!r}. Rename one.")
        return ArraySource({name: source.iloc[:, k] for k, name in enumerate(names)}, "the frame")
    if hasattr(source, "__arrow_c_stream__"):
        with contextlib.suppress(pa.ArrowException):  # a single column is no table
            return TableSource(pa.RecordBatchReader.from_stream(source))
    advice = " Use pintgn.interop.from_pyg." if type(source).__name__ == "TemporalData" else ""
    advice = " This one is lazy: pass source.collect()." if hasattr(source, "collect") else advice
    raise BadInput(
        f"events cannot be read from {type(source).__name__}. Pass the path of a CSV, JSON-lines, Excel or Parquet "
        "file (or of a folder of these last), the address of a database, a pandas or Polars frame, an Arrow table, or "
        f"a dict of arrays.{advice}"
    )


def _open_path(
    path: Path, wanted: Sequence[str | int], t: str | int | None, lenient: bool, format: FileFormat, query: str | None
) -> Source:
    if path.is_dir():
        found = sorted(path.rglob("*"), key=lambda one: (len(one.parts), one.parts))
        inside = [one for one in found if one.suffix in PARQUET and one.is_file()]
        inside = [one for one in inside if not any(part[0] in "_." for part in one.relative_to(path).parts)]
        if not inside:
            raise BadFile(f"folder {path} has no Parquet files. Name a file, or a folder that holds *.parquet.")
        return ParquetSource(list(map(str, inside)), str(path), t)
    try:
        with open(path, "rb") as file:
            start = file.read(20)
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror or error}.") from error
    if start.startswith(SQLITE) or (start[8:12] == DUCKDB and b"\0" in start):
        from pintgn.ingest.databases import DuckDBSource, SQLiteSource

        return SQLiteSource(path, query) if start.startswith(SQLITE) else DuckDBSource(path, query)
    if path.suffix.lower() in EXCEL:
        from pintgn.ingest.excel import read_sheet

        return ArraySource(read_sheet(path, query), path.name)
    if query is not None:
        raise BadInput(f"a query asks a database, and {path.name} is none. Leave it out.")
    if path.suffix in PARQUET or start.startswith(b"PAR1"):
        return ParquetSource([str(path)])
    if not start:
        raise BadInput(f"{path.name} is empty. An event file has at least one event.")
    compressed = next((name for magic, name in COMPRESSED.items() if start.startswith(magic)), None)
    named = any(ending.lower() in JSON_ENDINGS for ending in path.suffixes[-2:])
    if named or start[:4].lstrip()[:2] in (b'{"', b"[{", b"{"):
        from pintgn.ingest.jsonfile import JsonSource

        for name in ("delimiter", "header", "names", "skip_lines", "comment"):
            if getattr(format, name) not in (None, 0):
                raise BadInput(f"{path.name} is JSON; {name} is about text such as CSV. Leave it out.")
        return JsonSource(path, compressed, format.charset, lenient)
    return TextSource(path, compressed, wanted, t, format)


def spool_stdin() -> Path:
    """Standard input as a temporary file: detecting the layout reads its beginning more than once."""
    if sys.stdin is None or sys.stdin.isatty():
        raise BadInput("'-' reads events from standard input, but nothing is piped into it. Name a file.")
    _spooled.append(tempfile.TemporaryDirectory(prefix="pintgn-"))
    path = Path(_spooled[-1].name) / "stdin"
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def missing(path: Path) -> BadFile:
    """The error for a missing file, with similar names or other files in its folder."""
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
