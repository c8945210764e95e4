"""Where events come from: files, folders, frames, tables and arrays, all as a stream of Arrow batches."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pintgn.errors import BadFile, BadInput, UnknownName, suggest
from pintgn.events.mapped import open_mapped
from pintgn.events.seal import check_seal
from pintgn.events.store import open_parquet
from pintgn.events.table import Layout
from pintgn.ingest import paths

Hints = Mapping[str, pa.DataType]
"""Types that columns of a text file seem to have."""
BATCH = 1 << 16
COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
"""How compressed files begin."""
SQLITE, DUCKDB = b"SQLite format 3\0", b"DUCK"
"""How files of databases begin; DuckDB's after eight bytes."""
ARROW = b"ARROW1"
PARQUET = (".parquet", ".pq")
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")


class Source:
    """A stream of batches with named columns.

    `names` are the columns, `rows` the number of rows where it is known, `untyped` whether values are text whose type
    must be found out. `where(row)` says where a row stands: "row 7" counts from 0; text files say "line 9",
    counted from 1 with the header.
    """

    title = "the data"
    names: list[str]
    name_set: frozenset[str]
    """Of `names`: a file may have 200,000 columns, and all may be asked for."""
    rows: int | None = None
    untyped = False
    vectors: Mapping[str, int] = MappingProxyType({})
    """Columns of lists of fixed length, which are taken apart: v becomes v0, v1, …"""
    parts: dict[str, tuple[str, int]]

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of these columns, in this order."""
        raise NotImplementedError

    def where(self, row: int) -> str:
        return f"row {row}"

    def drop_unreadable(self, note: Callable[[str, str], None]) -> None:
        """From now on, leave out rows that cannot even be taken apart, and say what was wrong and where."""

    def _set_names(self, names: Iterable[str], advice: str = "Rename one.") -> None:
        self.names = list(names)
        self.name_set = frozenset(self.names)
        if len(self.name_set) == len(self.names):
            return
        first: dict[str, int] = {}
        for index, name in enumerate(self.names):
            if first.setdefault(name, index) < index:
                raise BadInput(
                    f"{self.title} has two columns called {name!r} (numbers {first[name]} and {index}, from 0). "
                    f"{advice}"
                )

    def column(self, given: str | int) -> str:
        """The name of a column given by name, or by position from 0."""
        if str(given) in self.name_set:
            return str(given)
        if str(given).isdecimal() and int(given) < len(self.names):
            return self.names[int(given)]
        raise UnknownName(f"{self.title} has no column {str(given)!r}.{suggest(given, self.names)}{self._no_header()}")

    def columns(self, given: Sequence[str | int]) -> list[str]:
        """As `column`, for several; a column of lists stands for all its parts."""
        names: list[str] = []
        for one in given:
            width = 0 if str(one) in self.name_set else self.vectors.get(str(one), 0)
            names += [f"{one}{k}" for k in range(width)] or [self.column(one)]
        return names

    def _no_header(self) -> str:
        return ""

    def _mixed(self, name: str, values: list[Any], start: int, error: Exception) -> BadInput:
        kinds = [type(value) for value in values]
        for index, kind in enumerate(kinds):
            if values[index] is not None and kind is not kinds[0]:
                first, other = kinds[0].__name__, kind.__name__
                return BadInput(
                    f"{self.where(start + index)} has {values[index]!r} ({other}) in column {name!r}, where there was "
                    f"{first} before. A column has one type; cast it, for example to str."
                )
        return BadInput(f"column {name!r} of {self.title} cannot be read: {str(error).splitlines()[0]}")

    def _take_apart(self, schema: pa.Schema) -> None:
        """Names of an Arrow schema's columns, lists of fixed length as one column for each part."""
        names: list[str] = []
        vectors: dict[str, int] = {}
        self.parts, self.vectors = {}, vectors
        for field in schema:
            if pa.types.is_fixed_size_list(field.type):
                vectors[field.name] = field.type.list_size
                parts = [f"{field.name}{k}" for k in range(field.type.list_size)]
                self.parts |= {name: (field.name, k) for k, name in enumerate(parts)}
                names += parts
            else:
                names.append(field.name)
        self._set_names(names)

    def _stored(self, columns: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(self.parts[name][0] if name in self.parts else name for name in columns))

    def _unpacked(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        index = {name: k for k, name in enumerate(batch.schema.names)}  # Arrow looks through all names for one
        arrays = []
        for name in columns:
            stored, k = self.parts.get(name, (name, -1))
            values = batch.column(index[stored])
            arrays.append(values if k < 0 else pc.list_element(values, k))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def charset_name(charset: str) -> str:
    """A charset as Python calls it."""
    try:
        return codecs.lookup(charset).name
    except LookupError as error:
        raise BadInput(f"charset {charset!r} does not exist. Common ones are utf-8, latin-1 and cp1252.") from error


def prefetched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, each made in a second thread while the one before is in use."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = pool.submit(next, batches, None)
            yield batch


class TableSource(Source):
    """An Arrow table, or a reader that can be read once."""

    def __init__(self, table: pa.Table | pa.RecordBatchReader):
        self.table, self.title = table, "the table"
        self._take_apart(table.schema)
        self.rows = table.num_rows if isinstance(table, pa.Table) else None

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        whole = isinstance(self.table, pa.Table)
        for batch in self.table.select(self._stored(columns)).to_reader() if whole else self.table:
            for start in range(0, batch.num_rows, BATCH):
                yield self._unpacked(batch.slice(start, BATCH), columns)


class ArraySource(Source):
    """A pandas frame, a structured array, or a mapping from names to arrays or lists."""

    def __init__(self, columns: Mapping[str, Any], title: str):
        self.title = title
        self.arrays: dict[str, Any] = {}
        for name, values in columns.items():
            array: Any = values if hasattr(values, "iloc") else _array(values)
            if getattr(array, "ndim", 1) == 2:
                self.arrays |= {f"{name}{k}": array[:, k] for k in range(array.shape[1])}
                self.vectors = {**self.vectors, str(name): array.shape[1]}
            elif getattr(array, "ndim", 1) == 1:
                self.arrays[str(name)] = array
            else:
                raise BadInput(f"column {str(name)!r} of {title} has shape {array.shape}; one or two axes are needed.")
        self._set_names(self.arrays)
        lengths = {name: len(array) for name, array in self.arrays.items()}
        if len(set(lengths.values())) > 1:
            raise BadInput(f"the columns of {title} have different lengths: {lengths}.")
        self.rows = next(iter(lengths.values()), 0)

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        for start in range(0, self.rows or 0, BATCH):
            arrays = [self._slice(name, start) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _slice(self, name: str, start: int) -> pa.Array:
        column = self.arrays[name]
        frame = hasattr(column, "iloc")
        values = (column.iloc if frame else column)[start : start + BATCH]
        try:
            array = pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise self._mixed(name, list(values), start, error) from error
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _array(values: Any) -> np.ndarray | list[Any]:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if not isinstance(values, np.ndarray):
        return list(values)  # a list keeps whole numbers, dates and text apart where NumPy would merge their types
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D", "h", "m"):
        return values.astype("datetime64[s]")
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


class ParquetSource(Source):
    """One Parquet file, or those of a folder and its partitions, row group by row group.

    Files come in the order of their first times where Parquet's statistics tell them, else of their names. What the
    folders of a file say (`date=2024-01-01`) are columns, too.
    """

    def __init__(self, path: Path, *, t: str | int | None = None, checked: bool = False):
        self.title = path.name
        self.keys: list[dict[str, Any]] = [{}]
        if path.is_dir():
            found = sorted(path.rglob("*"), key=lambda one: (len(one.parts), one.parts))
            inside = [one.relative_to(path) for one in found if one.suffix in PARQUET and one.is_file()]
            inside = [one for one in inside if not any(name.startswith(("_", ".")) for name in one.parts)]
            if not inside:
                raise BadFile(f"folder {path} has no Parquet files. Name a file, or a folder that holds *.parquet.")
            self.paths, self.keys = [path / one for one in inside], partition_keys(inside)
            self._in_time(t)
        else:
            self.paths = [path]
        seals = [] if checked else [check_seal(path) for path in self.paths]
        self.sealed = all(seals)
        files = [open_parquet(path) for path in self.paths]
        held, known = files[0].schema_arrow, self.keys[0]
        self._take_apart(held)
        self.keys = [{name: one[name] for name in known if name not in held.names} for one in self.keys]
        self._set_names([*self.names, *self.keys[0]])
        self.starts = np.cumsum([0] + [file.metadata.num_rows for file in files]).tolist()
        self.rows = self.starts[-1]
        wanted = self._stored([name for name in self.names if name not in self.keys[0]])
        for part, file in zip(self.paths, files, strict=True):
            file.close()
            here = frozenset(file.schema_arrow.names)  # made anew by every look at it
            lost = [name for name in wanted if name not in here]
            if lost:
                raise BadInput(f"{part.name} has no column {lost[0]!r}, which {self.paths[0].name} has.")

    def _in_time(self, t: str | int | None) -> None:
        """Bring files into the order of the first time in each, where all of them tell it."""

        def about(path: Path) -> pq.FileMetaData:
            with open_parquet(path) as file:
                return file.metadata

        order = order_in_time(map(about, self.paths), len(self.paths), t)
        self.paths, self.keys = [self.paths[k] for k in order], [self.keys[k] for k in order]

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        return prefetched(self._read(columns))

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        inside = [name for name in columns if name not in self.keys[0]]
        for path, keys in zip(self.paths, self.keys, strict=True):
            with open_parquet(path) as file:
                try:
                    for batch in file.iter_batches(BATCH, columns=self._stored(inside)):
                        if not self.sealed:
                            batch.validate(full=True)  # Parquet does not say that text is text
                        yield self._with_keys(self._unpacked(batch, inside), keys, columns, batch.num_rows)
                except (pa.ArrowException, OSError) as error:
                    raise BadFile(f"{path.name} is damaged: {str(error).splitlines()[0]} Write it again.") from error

    def _with_keys(
        self, batch: pa.RecordBatch, keys: dict[str, Any], columns: Sequence[str], rows: int
    ) -> pa.RecordBatch:
        if not keys or batch.schema.names == list(columns):
            return batch
        held = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = [held[name] if name in held else pa.repeat(keys[name], rows) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def where(self, row: int) -> str:
        if len(self.paths) == 1:
            return f"row {row}"
        part = int(np.searchsorted(self.starts, row, "right")) - 1
        return f"row {row - self.starts[part]} of {self.paths[part].name}"


def order_in_time(files: Iterable[pq.FileMetaData], count: int, t: str | int | None) -> list[int]:
    """The order of Parquet files by the first time in each, where the statistics of all tell it; else as they are."""
    first = []
    for about in files:
        names = [about.schema.column(k).path for k in range(about.num_columns)]
        if str(t) not in names:
            return list(range(count))
        at = [about.row_group(g).column(names.index(str(t))).statistics for g in range(about.num_row_groups)]
        told = [one.min for one in at if one is not None and one.has_min_max]
        if len(told) < len(at) or not told:
            return list(range(count))
        first.append(min(told))
    return sorted(range(count), key=lambda k: (first[k], k))


def partition_keys(files: Sequence[Path]) -> list[dict[str, Any]]:
    """What the folders of files say of them: `date=2024-01-01/part-0.parquet`. Whole numbers where all of a key are.

    >>> partition_keys([Path("year=2024/a.parquet"), Path("year=2025/b.parquet")])
    [{'year': 2024}, {'year': 2025}]
    """
    found = [dict(part.split("=", 1) for part in file.parts[:-1] if "=" in part) for file in files]
    for file, keys in zip(files, found, strict=True):
        if keys.keys() != found[0].keys():
            raise BadInput(
                f"{file} is in partitions by {', '.join(keys) or 'nothing'}, {files[0]} by "
                f"{', '.join(found[0]) or 'nothing'}. Partition all files alike."
            )
    whole = {name for name in found[0] if all(re.fullmatch(r"-?\d{1,18}", keys[name]) for keys in found)}
    return [{name: int(text) if name in whole else unquote(text) for name, text in keys.items()} for keys in found]


class SavedSource(Source):
    """A log that `EventLog.save` wrote as .arrow: its columns as a stream or, where nothing is chosen, the log itself."""

    def __init__(self, path: Path):
        self.log, self.title = open_mapped(path), path.name
        self.stored, self.rows = Layout(self.log), len(self.log)
        self._set_names(self.stored.names)

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        for batch in self.stored.batches():
            yield batch.select(list(columns))


def open_source(
    source: Any,
    wanted: Sequence[str | int] = (),
    t: str | int | None = None,
    lenient: bool = False,
    *,
    query: str | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    **text: Any,
) -> Source:
    """Whatever the user has, as a stream. `wanted` and `t` help to find out how a text file is laid out; `lenient`
    leaves out what is no row at all."""
    from pintgn.ingest.textfile import TextSource

    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        path = paths.spool_stdin() if source == "-" else Path(source).expanduser()
        if not os.path.exists(path):  # of any length, as an address with a query may be
            from pintgn.ingest.addresses import open_address

            found = open_address(str(source), wanted, t, query, progress, {"lenient": lenient, **text})
            if found is not None:
                return found
            raise paths.missing(path)
        if query is None and (path.is_dir() or path.suffix in PARQUET):
            return ParquetSource(path, t=t)
        try:
            with open(path, "rb") as file:
                start = file.read(20)
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror or error}.") from error
        if start.startswith(SQLITE) or (start[8:12] == DUCKDB and b"\0" in start):
            return _database(path, start, query)
        if query is not None:
            raise BadInput(f"query= (--query) asks a database, and {path.name} is none. Leave it out.")
        if start.startswith(b"PAR1"):
            return ParquetSource(path)
        if start.startswith(ARROW):
            return SavedSource(path)
        compressed = next((name for magic, name in COMPRESSED.items() if start.startswith(magic)), None)
        named = any(ending.lower() in JSON_ENDINGS for ending in path.suffixes[-2:])
        if start and (named or start[:4].lstrip()[:2] in (b'{"', b"[{", b"{")):
            return _json_source(path, compressed, lenient, **text)
        return TextSource(path, start, compressed, wanted, t, **text)
    if query is not None:
        raise BadInput(f"query= asks a database, and {type(source).__name__} is none. Leave it out.")
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
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise BadInput(f"the frame has two columns called {twice!r}. Rename one.")
        return ArraySource({name: source.iloc[:, k] for k, name in enumerate(names)}, "the frame")
    if hasattr(source, "__arrow_c_stream__"):
        with contextlib.suppress(pa.ArrowException):  # a single column is no table
            return TableSource(pa.RecordBatchReader.from_stream(source))
    raise BadInput(
        f"events cannot be read from {type(source).__name__}. Pass the path of a CSV, JSON-lines or Parquet file (or "
        "of a folder of these last), the address of a database, a pandas or Polars frame, an Arrow table, or a dict of "
        f"arrays.{_advice(source)}"
    )


def _database(path: Path, start: bytes, query: str | None) -> Source:
    from pintgn.ingest.databases import DuckDBSource, SQLiteSource

    return SQLiteSource(path, query) if start.startswith(SQLITE) else DuckDBSource(path, query)


def _json_source(path: Path, compressed: str | None, lenient: bool, charset: str = "utf-8", **text: Any) -> Source:
    from pintgn.ingest.jsonfile import JsonSource

    given = [name for name, value in text.items() if value]
    if given or text.get("header") is not None:
        raise BadInput(f"{path.name} is JSON; {(given or ['header'])[0]} is about text such as CSV. Leave it out.")
    return JsonSource(path, compressed, charset, lenient)


def _advice(source: Any) -> str:
    if hasattr(source, "collect"):
        return " This one is lazy: pass source.collect()."
    return " Use pintgn.interop.from_pyg." if type(source).__name__ == "TemporalData" else ""
