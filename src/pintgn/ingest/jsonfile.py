"""JSON lines (one object per line), or one JSON array of objects, as a stream of rows."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pintgn.errors import BadFile, BadInput
from pintgn.ingest.table_source import BATCH, Hints, Source, charset_name, prefetched


class JsonSource(Source):
    """A JSON file with one event per object.

    Values keep their JSON types: a number is a number, "007" is text. An object within an event is taken apart, as in
    `actor.id`; so is a list of numbers: v becomes v0, v1, … Columns are the keys of all objects, wherever they first
    occur, so the file is read twice.
    """

    def __init__(self, path: Path, compressed: str | None = None, charset: str = "utf-8", lenient: bool = False):
        self.path, self.title, self.compressed = path, path.name, compressed
        self.charset = "utf-8-sig" if charset_name(charset) == "utf-8" else charset
        self.lenient = lenient  # leave out what is no object
        self.note: Callable[[str, str], None] = lambda what, where: None
        names: dict[str, None] = {}
        vectors: dict[str, int] = {}
        for record in itertools.chain.from_iterable(self._blocks()):
            if not record.keys() <= names.keys():
                names |= dict.fromkeys(record)
                for name in record:
                    stem = name.rstrip("0123456789")
                    if stem != name and f"{stem}0" in record and stem not in record:  # a list that was taken apart
                        vectors[stem] = max(vectors.get(stem, 0), int(name[len(stem) :]) + 1)
        self._set_names(names)
        self.vectors = vectors
        if not self.names:
            raise BadInput(f"{self.title} is empty. An event file has at least one event.")

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        return prefetched(self._read(list(columns)))

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        start = 0
        for records in self._blocks():
            lists = {name: [record.get(name) for record in records] for name in columns}
            arrays = [self._array(name, values, start) for name, values in lists.items()]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)
            start += len(records)

    def drop_unreadable(self, note: Callable[[str, str], None]) -> None:
        self.note = note

    def where(self, row: int) -> str:
        """The line of a row (the number of its object, in an array); the file is read again up to it."""
        found = next(itertools.islice(self._records(), row, None), None)
        return f"event {row}" if found is None else found[0]

    # -- the file ------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[list[dict[str, Any]]]:
        """Many objects at a time: lines are parsed together, and one by one only if there is something wrong."""
        with self._reading() as (file, array):
            filled: Iterator[str] = iter(()) if array else (line for line in file if not line.isspace())
            while lines := list(itertools.islice(filled, BATCH)):
                try:
                    records = json.loads(f"[{','.join(lines)}]")
                except ValueError:
                    records = []
                if len(records) == len(lines) and {type(record) for record in records} == {dict}:
                    yield [_flat(record) for record in records]
                elif self.lenient:
                    yield [_flat(record) for line in lines if (record := self._object(line)) is not None]
                else:
                    for _ in self._records():  # names the line
                        pass
        if array:
            rows = [record for _, record in self._records()]
            yield from (rows[k : k + BATCH] for k in range(0, len(rows), BATCH))

    def _object(self, line: str) -> dict[str, Any] | None:
        with contextlib.suppress(ValueError):
            if isinstance(value := json.loads(line), dict):
                return value
        self.note("that are no objects", repr(line.strip()[:40]))
        return None

    def _records(self) -> Generator[tuple[str, dict[str, Any]], None, None]:
        """Every object, taken apart, and where it stands."""
        with self._reading() as (file, array):
            if array:
                values = ((f"event {k}", value) for k, value in enumerate(self._parsed(file.read(), self.title)))
            else:
                lines = ((f"line {k}", line) for k, line in enumerate(file, 1) if not line.isspace())
                values = ((where, self._parsed(line, where)) for where, line in lines)
            for where, value in values:
                if isinstance(value, dict):
                    yield where, _flat(value)
                elif not self.lenient:
                    raise BadInput(
                        f'{where} is no object such as {{"src": 1, "dst": 2, "t": 3}}, but {str(value)[:40]!r}.'
                    )
                elif array:
                    self.note("that are no objects", where)

    def _parsed(self, text: str, where: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            if self.lenient and where != self.title:
                return None
            raise BadFile(f"{where} is not JSON: {error}. Correct it; events are objects, one on each line.") from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[tuple[Any, bool]]:
        """The opened file, and whether it is one array."""
        try:
            with self._open() as file:
                start = file.read(1)
                while start.isspace():
                    start = file.read(1)
            with self._open() as file:
                yield file, start == "["
        except UnicodeDecodeError as error:
            raise BadFile(
                f"{self.title} is not {self.charset} text. Say how it is written: FileFormat(charset=…) (--charset)."
            ) from error
        except (pa.ArrowException, OSError, EOFError) as error:
            if isinstance(error, BadFile):
                raise
            raise BadFile(f"{self.title} cannot be read to its end: {str(error).splitlines()[0]}") from error

    def _open(self) -> Any:
        stream = pa.input_stream(str(self.path), compression=self.compressed)
        return io.TextIOWrapper(io.BufferedReader(stream), self.charset)


def _flat(value: dict[str, Any], stem: str = "") -> dict[str, Any]:
    """An object with objects and lists within it taken apart."""
    if not stem and not any(isinstance(one, dict | list) for one in value.values()):
        return value
    made: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, dict):
            made |= _flat(one, f"{stem}{name}.")
        elif isinstance(one, list):
            made |= {f"{stem}{name}{k}": part for k, part in enumerate(one)}
        else:
            made[f"{stem}{name}"] = one
    return made
