"""CSV and its relatives: how a text file is laid out, its rows as a stream, and where a bad one stands."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from pintgn.errors import BadFile, BadInput
from pintgn.events.timeformat import likely_formats
from pintgn.events.times import is_time
from pintgn.ingest.sources import Hints, Source, charset_name, prefetched
from pintgn.ingest.untidy import MARKS, RAGGED, Tidy, TidyStream, look

DELIMITERS = (",", "\t", ";", "|", " ")
BLOCK = 1 << 22
SAMPLE = 1 << 18
LONGEST_LINE = 1 << 26
"""Bytes of a line at most: one of a million columns takes a tenth of that."""
LOOKED_AT = 20
"""Cells of a first line that are looked at, to tell a header from data."""
EVEN = 0.8
"""Share of the first rows that have one width, where some are spoilt."""
FOREIGN = {
    b"PK\x03\x04": "a zip or Excel file. Save it as CSV",
    b"ARROW1": "an Arrow file. Read it with pyarrow and pass the table",
    b"\x89HDF": "an HDF5 file. Read it with pandas and pass the frame",
    b"\xd0\xcf\x11\xe0": "an old Excel file. Save it as CSV",
    b"Obj\x01": "an Avro file. Write it as Parquet or CSV",
    b"%PDF": "a PDF. Export the table as CSV",
}


class Unexpected(Exception):
    """A value does not fit the type that the first rows suggested."""


class TextSource(Source):
    """A text file with one event per line; every value is text until someone knows better."""

    untyped = True
    looks_headless = False
    """Whether what was taken as a header looks like data."""

    def __init__(
        self,
        path: Path,
        start: bytes,
        compressed: str | None,
        wanted: Sequence[str | int] = (),
        t: str | int | None = None,
        *,
        delimiter: str | None = None,
        header: bool | None = None,
        columns: Sequence[str] | None = None,
        skip_lines: int = 0,
        comment: str | None = None,
        charset: str = "utf-8",
    ):
        self.path, self.title, self.compressed, self.skip = path, path.name, compressed, skip_lines
        self.charset = charset if charset == "utf-8" else charset_name(charset)
        self.note: Callable[[str, str], None] | None = None
        if not start:
            raise BadInput(f"{self.title} is empty. An event file has at least one event.")
        for magic, advice in FOREIGN.items():
            if start.startswith(magic):
                raise BadFile(f"{self.title} is {advice}.")
        if delimiter is not None and len(delimiter) != 1:
            raise BadInput(f"a delimiter is one character, such as ',' or '\\t', not {delimiter!r}.")
        lines = self._sample()
        self.tidy: Tidy | None = None
        heading: list[str] = []
        self.preamble: list[str] = []
        """Comments above the first row."""
        if comment or lines[self.skip].startswith(MARKS) or any(map(RAGGED.search, lines[self.skip : self.skip + 20])):
            body, self.tidy, heading, self.preamble = look(lines[self.skip :], wanted, delimiter, comment)
            lines[self.skip :] = body
            delimiter = " " if self.tidy and self.tidy.squeeze else delimiter
        self.delimiter = delimiter or find_delimiter(lines[self.skip :], wanted)
        reader = csv.reader(iter(lines[self.skip :]), delimiter=self.delimiter)
        try:
            first = next((row for row in reader if row), [])
            after = self.skip + reader.line_num
            second = next((row for row in reader if row), None)
        except csv.Error as error:
            raise BadFile(f"{self.title} cannot be read as CSV: {error}.") from error
        first = [cell.strip() for cell in first]
        width = len(second) if second is not None else len(first)
        names = None if columns is None else [str(name) for name in columns]
        if heading and header is None and not any(str(name) in first for name in wanted if not str(name).isdecimal()):
            names, header = names or heading, False  # names that a comment gives
        if header is None:
            named = names is None and any(str(name) in first for name in wanted if not str(name).isdecimal())
            by_number = int(str(t)) if str(t).isdecimal() else None
            index = names.index(str(t)) if names is not None and str(t) in names else by_number
            # a header has no time where the times are
            header = named or index is None or index >= len(first) or not is_time(first[index])
            # nor two columns of one name, where that is a number
            self.looks_headless = bool(header) and not named and names is None and _like_data(first[:LOOKED_AT])
            header = header and not (self.looks_headless and len(set(first)) < len(first))
        if names is not None and len(names) != width:
            raise BadInput(f"{len(names)} names are given in columns=, but {self.title} has {width} columns.")
        if names is None:
            names = [name if header and name else str(index) for index, name in enumerate(first)]
        self._set_names(names, "Rename one, or give all names with columns=[…] (and header=True).")
        self.header_lines = after if header else self.skip

    # -- layout --------------------------------------------------------------------------------------------

    def _sample(self) -> list[str]:
        """The first lines of the file, as text."""
        with self._open() as stream:
            try:
                raw = stream.read(SAMPLE)
                ended = len(raw) < SAMPLE
                # the header and a row at least, however long they are
                while not ended and len(raw) < LONGEST_LINE and len(raw.splitlines()) < self.skip + 3:
                    more = stream.read(len(raw))
                    raw, ended = raw + more, len(more) < len(raw)
            except (pa.ArrowException, OSError, EOFError) as error:
                raise self._damaged(error) from error
        self.sampled = len(raw)
        self.longest = max(map(len, raw.splitlines()), default=0)
        if self.longest >= LONGEST_LINE:
            raise BadFile(f"{self.title} has a line of more than {LONGEST_LINE:,} bytes. Events come one on each line.")
        if self.charset == "utf-8" and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise BadFile(f"{self.title} is UTF-16 text. Pass charset='utf-16' (--charset utf-16).")
        if b"\0" in raw and "16" not in self.charset and "32" not in self.charset:
            raise BadFile(f"{self.title} is not a text file. Events come as CSV or Parquet.")
        decoder = codecs.getincrementaldecoder("utf-8-sig" if self.charset == "utf-8" else self.charset)()
        try:
            text = decoder.decode(raw, final=ended)
        except UnicodeDecodeError as error:
            raise self._undecodable() from error
        lines = io.StringIO(text, newline="").readlines()  # str.splitlines would also cut at form feeds and such
        whole = lines if ended or len(lines) < 2 else lines[:-1]  # the last may be cut
        if not any(line.strip() for line in whole[self.skip :]):
            raise BadInput(f"{self.title} is empty. An event file has at least one event.")
        return whole

    def _no_header(self) -> str:
        if not self.looks_headless:
            return ""
        return " The first line looks like data; if there is no header, name columns by position, from 0."

    # -- rows ----------------------------------------------------------------------------------------------

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        return prefetched(self._read(columns, hints or {}, BLOCK))

    def sample(self, columns: Sequence[str], lenient: bool = False) -> pa.RecordBatch | None:
        """The first rows, as text, if `lenient` without those of another width; `rows` is estimated from them."""
        batch = next(self._read(columns, {}, SAMPLE, lenient), None)
        if batch is not None and batch.num_rows and not self.compressed:
            size = self.path.stat().st_size
            self.rows = int(batch.num_rows * max(1.0, 1.05 * size / min(self.sampled, size)))
        return batch

    def drop_unreadable(self, note: Callable[[str, str], None]) -> None:
        self.note = note

    def _unfit(self, row: Any) -> str:
        """What Arrow does with a row that has too few or too many values."""
        self.ragged += 1
        uneven = (line for line, record in self._records(uneven=True) if len(record) != len(self.names))
        line = next(itertools.islice(uneven, self.ragged - 1, None), None) if self.ragged <= 3 else None
        assert self.note is not None
        self.note(f"with another number of values than {len(self.names)}", "" if line is None else f"line {line}")
        return "skip"

    def _read(
        self, columns: Sequence[str], hints: Hints, block: int, lenient: bool = False
    ) -> Iterator[pa.RecordBatch]:
        wanted = list(dict.fromkeys(columns))
        block = block if self.longest < block else 4 * self.longest  # a row has to fit
        read = pacsv.ReadOptions(
            column_names=self.names, skip_rows=self.header_lines, block_size=block, encoding=self.charset
        )
        self.ragged = 0
        unfit = (lambda row: "skip") if lenient else None if self.note is None else self._unfit
        parse = pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=unfit)
        convert = pacsv.ConvertOptions(
            include_columns=wanted,
            column_types={name: hints.get(name, pa.string()) for name in wanted},
            strings_can_be_null=False,
        )
        with self._open() as stream:
            counted = _QuoteCounter(stream if self.tidy is None else TidyStream(stream, self.tidy))
            try:
                for batch in pacsv.open_csv(pa.PythonFile(counted, "r"), read, parse, convert):
                    yield batch if len(wanted) == len(columns) else batch.select(columns)
            except (pa.ArrowException, OSError, EOFError) as error:
                raise self._explain(error) from error
            if counted.quotes % 2:  # which can be fine (as in 3" pipe), or hide half of the file
                for _ in self._records(strict=True):
                    pass

    def _open(self) -> Any:
        return pa.input_stream(
            str(self.path), compression=self.compressed, buffer_size=None if self.compressed else 1 << 20
        )

    # -- what went wrong -----------------------------------------------------------------------------------

    def where(self, row: int) -> str:
        """The line on which a row begins; the file is read again up to it, because rows may span lines."""
        found = next(itertools.islice(self._records(), row, None), None)
        return f"event {row}" if found is None else f"line {found[0]}"

    def _records(self, strict: bool = False, uneven: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Every row after the header, with the number of its first line; also `uneven` ones that reading leaves out."""
        with io.TextIOWrapper(io.BufferedReader(self._open()), self.charset, errors="replace", newline="") as text:
            for _ in range(self.header_lines):
                text.readline()
            lines = text if self.tidy is None else self.tidy.lines(text)
            reader = csv.reader(lines, delimiter=self.delimiter, strict=strict)
            line = self.header_lines + 1
            try:
                for record in reader:
                    if record and (self.note is None or uneven or len(record) == len(self.names)):
                        yield line, record
                    line = self.header_lines + reader.line_num + 1
            except csv.Error as error:
                if strict and "unexpected end" in str(error):
                    raise BadInput(
                        f"line {line} of {self.title} opens a quotation mark that is never closed, which would swallow "
                        "every event after it. Correct it."
                    ) from error

    def _explain(self, error: Exception) -> Exception:
        message = str(error)
        if "Empty CSV" in message:
            return BadInput(f"{self.title} has a header but no events.")
        if "UTF8" in message or "Invalid UTF" in message or "codec" in message:
            return self._undecodable()
        if "conversion error" in message:
            return Unexpected(message)
        if "straddling" in message:
            return BadFile(
                f"{self.title} has a row of more than {BLOCK:,} bytes. Events come one on each line; "
                "is a quotation mark left open?"
            )
        if "parse error" in message or "columns" in message:
            for line, record in self._records():
                if len(record) != len(self.names):
                    return BadInput(
                        f"line {line} of {self.title} has {len(record)} values where {len(self.names)} are expected. "
                        f"Correct it (the delimiter is {self.delimiter!r}), or pass skip_bad=True (--skip-bad)."
                    )
        return self._damaged(error)

    def _undecodable(self) -> BadFile:
        decoder = codecs.getincrementaldecoder(self.charset)()
        with self._open() as stream:
            line = 1
            while chunk := stream.read(1 << 16):
                for piece in chunk.splitlines(keepends=True):
                    try:
                        decoder.decode(piece)
                    except UnicodeDecodeError:
                        return BadFile(
                            f"line {line} of {self.title} is not {self.charset} text. Say how it is written, for "
                            "example charset='latin-1' (--charset latin-1)."
                        )
                    line += piece.endswith(b"\n")
        return BadFile(f"{self.title} is not {self.charset} text. Say how it is written with charset= (--charset).")

    def _damaged(self, error: Exception) -> BadFile:
        kind = f"as {self.compressed} " if self.compressed else ""
        return BadFile(f"{self.title} cannot be read {kind}to its end: {str(error).splitlines()[0]}")


class _QuoteCounter:
    """A stream that counts quotation marks on their way."""

    closed = False

    def __init__(self, stream: Any):
        self.stream, self.quotes = stream, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(None if size < 0 else size)
        if b'"' in data:  # much faster than counting, and nearly always enough
            self.quotes += data.count(b'"')
        return data


def _like_data(cells: list[str]) -> bool:
    return any(is_time(cell) or likely_formats(cell) for cell in cells)


def find_delimiter(lines: list[str], wanted: Sequence[str | int]) -> str:
    """What separates columns: what makes the wanted names appear in the first line, else what cuts most evenly; if that
    does not cut the first line as the others, what cuts it like nearly all of them."""
    lines = [line for line in lines[:200] if line.strip()]
    names = {str(name) for name in wanted}
    best, most, fits = ",", 1, False
    nearly: list[tuple[int, str]] = []
    for delimiter in DELIMITERS:
        try:
            rows = list(csv.reader(iter(lines), delimiter=delimiter))
        except csv.Error:
            continue
        if len(names) > 1 and names <= {cell.strip() for cell in rows[0]}:
            return delimiter
        widths = Counter(map(len, rows[1:])) or Counter([len(rows[0])])
        width, count = widths.most_common(1)[0]
        if len(widths) == 1 and width > most:
            best, most, fits = delimiter, width, width == len(rows[0])
        elif delimiter != " " and width == len(rows[0]) > 1 and count >= EVEN * widths.total():
            nearly.append((width, delimiter))
    return max(nearly)[1] if nearly and not fits else best
