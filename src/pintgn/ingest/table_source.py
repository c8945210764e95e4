"""Tables as streams of Arrow batches with named columns: frames, arrays, Arrow tables, Parquet files."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from pintgn.errors import BadFile, BadInput, UnknownName, suggest
from pintgn.events.seal import check_seal
from pintgn.events.store import KEY, THRIFT_LIMIT, no_parquet

Hints = Mapping[str, pa.DataType]
"""Types that columns of a text file seem to have."""
BATCH = 1 << 16
PARQUET = (".parquet", ".pq")


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
    saved = False
    """Whether it is one log that pintgn saved."""
    vectors: Mapping[str, int] = MappingProxyType({})
    """Columns of lists of fixed length, which are taken apart: v becomes v0, v1, …"""
    parts: dict[str, tuple[str, int]]

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of these columns, in this order."""
        raise NotImplementedError

    def where(self, row: int) -> str:
        return f"row {row}"

    def drop_unreadable(self, note: Callable[[str, str], None]) -> None:
        """From now on, leave out rows that cannot be parsed, and report what was wrong and where."""

    def _set_names(self, names: Iterable[str], advice: str = "Rename one.") -> None:
        self.names = list(names)
        self.name_set = frozenset(self.names)
        first: dict[str, int] = {}
        for index, name in enumerate(self.names if len(self.name_set) < len(self.names) else ()):
            if first.setdefault(name, index) < index:
                numbers = f"numbers {first[name]} and {index}, from 0"
                raise BadInput(f"{self.title} has two columns called {name!r} ({numbers}). {advice}")

    def column(self, given: str | int) -> str:
        """The name of a column given by name, or by position from 0."""
        if str(given) in self.name_set:
            return str(given)
        if str(given).isdecimal() and int(given) < len(self.names):
            return self.names[int(given)]
        raise UnknownName(f"{self.title} has no column {str(given)!r}.{suggest(given, self.names)}{self._no_header()}")

    def columns(self, given: Sequence[str | int]) -> list[str]:
        """`column` for several; a column of lists stands for all its parts."""
        names: list[str] = []
        for one in given:
            width = 0 if str(one) in self.name_set else self.vectors.get(str(one), 0)
            names += [f"{one}{k}" for k in range(width)] or [self.column(one)]
        return names

    def _no_header(self) -> str:
        return ""

    def _array(self, name: str, values: Any, start: int) -> pa.Array:
        """A column from row `start` on, of values of one type; an error names the first of another one."""
        try:
            array = pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            listed = list(values)
            kind = type(next((value for value in listed if value is not None), None))
            if all(isinstance(value, int) or value is None for value in listed):  # all of 64 bits are needed
                return pa.array(listed, pa.uint64())
            for index, value in enumerate(listed):
                if value is not None and type(value) is not kind:
                    raise BadInput(
                        f"{self.where(start + index)} has {value!r} ({type(value).__name__}) in column {name!r}, where "
                        f"there was {kind.__name__} before. A column has one type; cast it, for example to str."
                    ) from error
            raise BadInput(f"column {name!r} of {self.title} cannot be read: {str(error).splitlines()[0]}") from error
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

    def _take_apart(self, schema: pa.Schema) -> None:
        """Names of an Arrow schema's columns, lists of fixed length as one column for each part."""
        lists = {field.name: field.type.list_size for field in schema if pa.types.is_fixed_size_list(field.type)}
        self.vectors, self.parts, names = lists, {}, []
        for name in schema.names:
            parts = {f"{name}{k}": (name, k) for k in range(lists.get(name, 0))}
            self.parts |= parts
            names += [*parts] if name in lists else [name]
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
        self.title, self.vectors = title, {}
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
            some = [getattr(self.arrays[name], "iloc", self.arrays[name])[start : start + BATCH] for name in columns]
            arrays = [self._array(name, values, start) for name, values in zip(columns, some, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _array(values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if not isinstance(values, np.ndarray):
        return list(values)  # a list keeps whole numbers, dates and text apart where NumPy would merge their types
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D", "h", "m"):
        return values.astype("datetime64[s]")
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


class ParquetSource(Source):
    """Parquet files, here or in a store of objects.

    Files come in the order of their first times where Parquet's statistics tell these, else of their names. What the
    folders of a file say (`date=2024-01-01`) are columns, too.
    """

    def __init__(
        self, paths: Sequence[str], folder: str = "", t: str | int | None = None, files: pafs.FileSystem | None = None
    ):
        self.paths, self.folder = list(paths), folder
        self.title = (folder or self.paths[0]).rstrip("/").rpartition("/")[2]
        self.sealed = files is None and all(list(map(check_seal, map(Path, self.paths))))
        scan = pads.ParquetFragmentScanOptions(
            use_buffered_stream=files is None, buffer_size=1 << 20, pre_buffer=files is not None,
            page_checksum_verification=True, thrift_string_size_limit=THRIFT_LIMIT,
            thrift_container_size_limit=THRIFT_LIMIT,
        )  # fmt: skip
        try:
            form = pads.ParquetFileFormat(default_fragment_scan_options=scan)
            how: dict[str, Any] = {"partitioning": "hive", "partition_base_dir": folder} if folder else {}
            data = pads.dataset(self.paths, filesystem=files or pafs.LocalFileSystem(), format=form, **how)
            parts = self._in_time(list(data.get_fragments()), t)
            self.starts = np.cumsum([0, *(part.count_rows() for part in parts)]).tolist()
        except (pa.ArrowException, OSError) as error:
            if files is not None:
                raise
            raise no_parquet(self._unreadable(form)) from error
        self.paths = [part.path for part in parts]
        self.data = pads.FileSystemDataset(parts, data.schema, form, data.filesystem)
        self.saved = len(self.paths) == 1 and KEY in (data.schema.metadata or {})
        self._take_apart(data.schema)
        self.rows = self.starts[-1]
        self._check_alike(parts)

    def _in_time(self, parts: list[Any], t: str | int | None) -> list[Any]:
        """In the order of the first time in each, where the statistics of all tell it."""
        if len(parts) == 1:
            return parts
        first = []
        for part in parts:
            bounds = [group.statistics.get(str(t), {}) if group.statistics else {} for group in part.row_groups]
            if not bounds or not all("min" in one for one in bounds):
                return parts
            first.append(min(one["min"] for one in bounds))
        return [parts[k] for k in sorted(range(len(parts)), key=lambda k: (first[k], k))]

    def _unreadable(self, form: pads.ParquetFileFormat) -> Path:
        """The first file that is no Parquet file."""
        for path in self.paths:
            try:
                form.make_fragment(path, pafs.LocalFileSystem()).ensure_complete_metadata()
            except (pa.ArrowException, OSError):
                return Path(path)
        return Path(self.paths[0])

    def _check_alike(self, parts: list[Any]) -> None:
        inside = [path.removeprefix(self.folder).lstrip("/") for path in self.paths]
        keys = [pads.get_partition_keys(part.partition_expression) for part in parts]
        wanted = set(self.data.schema.names).difference(*keys)
        for path, part, here in zip(inside, parts, keys, strict=True):
            if here.keys() != keys[0].keys():
                raise BadInput(
                    f"{path} is in partitions by {', '.join(here) or 'nothing'}, {inside[0]} by "
                    f"{', '.join(keys[0]) or 'nothing'}. Partition all files alike."
                )
            if lost := sorted(wanted - set(part.physical_schema.names)):
                raise BadInput(f"{path} has no column {lost[0]!r}, which {inside[0]} has.")

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        try:
            ahead = {"batch_readahead": 2, "fragment_readahead": 1}
            for batch in self.data.to_batches(columns=self._stored(columns), batch_size=BATCH, **ahead):
                if not self.sealed:
                    batch.validate(full=True)  # Parquet does not say that text is text
                yield self._unpacked(batch, columns)
        except (pa.ArrowException, OSError) as error:
            raise BadFile(f"{self.title} is damaged: {str(error).splitlines()[0]} Write it again.") from error

    def where(self, row: int) -> str:
        if len(self.paths) == 1:
            return f"row {row}"
        part = int(np.searchsorted(self.starts, row, "right")) - 1
        return f"row {row - self.starts[part]} of {Path(self.paths[part]).name}"
