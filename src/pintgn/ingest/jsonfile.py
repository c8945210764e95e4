"""JSON lines (an object on each line), or one JSON array of objects, as a stream of rows."""

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
from pintgn.events.columns import as_array
from pintgn.ingest.sources import BATCH, Hints, Source, charset_name, prefetched


class JsonSource(Source):
    """A JSON file with one event per object.

    Values keep their JSON types: a number is a number, "007" is text. An object within an event is taken apart, as in
    `actor.id`; so is a list of numbers: v becomes v0, v1, … Columns are the keys of all objects, wherever they first
    occur, so the file is read twice.
    """

    def __init__(self, path: Path, compressed: str | None = None, charset: str = "utf-8", lenient: bool = False):
        self.path, self.title, self.compressed = path, path.name, compressed
        self.charset = "utf-8-sig" if charset_name(charset) == "utf-8" else charset
        self.nested, self._met_nested = True, False  # until all have been looked at
        self.lenient = lenient  # leave out what is no object
        self.note: Callable[[str, str], None] = lambda what, where: None
        names: dict[str, None] = {}
        vectors: dict[str, int] = {}
        for record in itertools.chain.from_iterable(self._blocks()):
            if not record.keys() <= names.keys():
                names |= dict.fromkeys(record)
                for name, width in self._widths(record).items():
                    vectors[name] = max(width, vectors.get(name, 0))
        self._set_names(names)
        self.vectors, self.nested = vectors, self._met_nested
        if not self.names:
            raise BadInput(f"{self.title} is empty. An event file has at least one event.")

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        return prefetched(self._read(list(columns)))

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for records in self._blocks():
            arrays = [self._column(name, [record.get(name) for record in records]) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)

    def _blocks(self) -> Iterator[list[dict[str, Any]]]:
        """Many objects at a time: lines are parsed together, and one by one only if there is something wrong."""
        with self._reading() as (file, array):
            if array:
                block = [record for _, record in self._records()]
                yield from (block[k : k + BATCH] for k in range(0, len(block), BATCH))
                return
            filled = (line for line in file if not line.isspace())
            while lines := list(itertools.islice(filled, BATCH)):
                try:
                    records = json.loads(f"[{','.join(lines)}]")
                except ValueError:
                    records = []
                if len(records) != len(lines) or {type(record) for record in records} != {dict}:
                    if self.lenient:
                        records = self._objects(lines)
                    else:
                        for _ in self._records():  # names the line
                            pass
                yield [self._record(record, "") for record in records] if self.nested else records

    def drop_unreadable(self, note: Callable[[str, str], None]) -> None:
        self.note = note

    def _objects(self, lines: list[str]) -> list[dict[str, Any]]:
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    found.append(value)
                    continue
            self.note("that are no objects", repr(line.strip()[:40]))
        return found

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        try:
            return as_array(values)
        except (pa.ArrowException, TypeError) as error:
            kinds = sorted({type(value).__name__ for value in values if value is not None})
            raise BadInput(
                f"{self.title} mixes {' and '.join(kinds)} in {name!r}. Write all its values in one type."
            ) from error

    def where(self, row: int) -> str:
        """The line of a row (the number of its object, in an array); the file is read again up to it."""
        found = next(itertools.islice(self._records(), row, None), None)
        return f"event {row}" if found is None else found[0]

    # -- the file ------------------------------------------------------------------------------------------

    def _records(self) -> Generator[tuple[str, dict[str, Any]], None, None]:
        """Every object, taken apart, and where it stands."""
        with self._reading() as (file, array):
            if array:
                for number, value in enumerate(self._parsed(file.read(), self.title)):
                    if isinstance(value, dict) or not self.lenient:
                        yield f"event {number}", self._record(value, f"event {number}")
                    else:
                        self.note("that are no objects", f"event {number}")
                return
            for number, line in enumerate(file, 1):
                if not line.isspace() and (not self.lenient or _is_object(line)):
                    yield f"line {number}", self._record(self._parsed(line, f"line {number}"), f"line {number}")

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
                f"{self.title} is not {self.charset} text. Say how it is written with charset= (--charset)."
            ) from error
        except (pa.ArrowException, OSError, EOFError) as error:
            if isinstance(error, BadFile):
                raise
            raise BadFile(f"{self.title} cannot be read to its end: {str(error).splitlines()[0]}") from error

    def _open(self) -> Any:
        stream = pa.input_stream(str(self.path), compression=self.compressed)
        return io.TextIOWrapper(io.BufferedReader(stream), self.charset)

    def _parsed(self, text: str, where: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise BadFile(f"{where} is not JSON: {error}. Correct it; events are objects, one on each line.") from error

    def _record(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadInput(f'{where} is no object such as {{"src": 1, "dst": 2, "t": 3}}, but {str(value)[:40]!r}.')
        nested = any(isinstance(one, dict | list) for one in value.values())
        self._met_nested |= nested
        return _apart(value) if nested else value

    @staticmethod
    def _widths(record: dict[str, Any]) -> dict[str, int]:
        """Names of lists and how long they are, found back from their parts."""
        found: dict[str, int] = {}
        for name in record:
            stem = name.rstrip("0123456789")
            if stem != name and f"{stem}0" in record and stem not in record:
                found[stem] = found.get(stem, 0) + 1
        return found


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _apart(value: dict[str, Any], stem: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, dict):
            made |= _apart(one, f"{stem}{name}.")
        elif isinstance(one, list):
            made |= {f"{stem}{name}{k}": part for k, part in enumerate(one)}
        else:
            made[f"{stem}{name}"] = one
    return made
