"""CSV and other text files with one event per line: their layout, and their rows as a stream."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from pintgn.errors import BadFile, BadInput
from pintgn.events.store import ARROW
from pintgn.events.timeformat import kind_of, likely_formats
from pintgn.ingest.read_options import FileFormat
from pintgn.ingest.table_source import Hints, Source, charset_name, prefetched

DELIMITERS = (",", "\t", ";", "|", " ")
BLOCK = 1 << 22
SAMPLE = 1 << 18
LONGEST_LINE = 1 << 26
"""Bytes of a line at most: one of a million columns takes a tenth of that."""
LOOKED_AT = 20
"""Cells of a first line that are looked at, to tell a header from data."""
EVEN = 0.8
"""Share of the first rows that have one width, where some are spoilt."""
MARKS = ("#", "%")
"""How a comment begins, where nobody has said it."""
RAGGED = re.compile(r"[ \t]{2,}|^[ \t]|[ \t]\r?$|\d \d.*\t|\t.*\d \d", re.M)
"""Several blanks together, or numbers set apart now by a blank, now by a tab."""
NUMBERS = re.compile(r"[\s\d.eE+-]*")
RECBOLE = re.compile(r"(.+):(?:token|token_seq|float|float_seq)")
"""A column of RecBole's files, as in user_id:token."""
FOREIGN = {
    b"PK\x03\x04": "a zip file. Unpack it",
    b"\x89HDF": "an HDF5 file. Read it with pandas and pass the frame",
    b"\xd0\xcf\x11\xe0": "an old Excel file. Save it as .xlsx or CSV",
    b"Obj\x01": "an Avro file. Write it as Parquet or CSV",
    b"ARROW1": f"an Arrow file. {ARROW.rstrip('.')}",
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
        self, path: Path, compressed: str | None, wanted: Sequence[str | int] = (), t: str | int | None = None,
        format: FileFormat | None = None,
    ):  # fmt: skip
        format = format or FileFormat()
        self.path, self.title, self.compressed, self.skip = path, path.name, compressed, format.skip_lines
        self.charset = format.charset if format.charset == "utf-8" else charset_name(format.charset)
        self.note: Callable[[str, str], None] | None = None
        self.substitutions: list[tuple[re.Pattern[bytes], bytes]] = []
        """What is replaced in the bytes before they are read: comments, and blanks that separate nothing."""
        self.preamble: list[str] = []
        """Comments above the first row."""
        lines = self._sample()[self.skip :]
        names = None if format.names is None else [str(name) for name in format.names]
        heading: list[str] = []
        if format.comment or next(filter(str.strip, lines)).startswith(MARKS):
            lines, heading = self._without_comments(lines, wanted, format)
        ragged = format.delimiter in (None, " ") and any(map(RAGGED.search, lines[:200]))
        self.delimiter = " " if ragged and self._set_apart_by_blanks(lines, wanted) else format.delimiter or ""
        self.delimiter = self.delimiter or find_delimiter(lines, wanted)
        if self.substitutions:
            lines = self._sample()[self.skip :]
        reader = csv.reader(iter(lines), delimiter=self.delimiter)
        try:
            first = [cell.strip() for cell in next((row for row in reader if row), [])]
            after = self.skip + reader.line_num
            width = len(next((row for row in reader if row), first))
        except csv.Error as error:
            raise BadFile(f"{self.title} cannot be read as CSV: {error}.") from error
        typed = [RECBOLE.fullmatch(cell) for cell in first]
        first = [found[1] for found in typed if found] if all(typed) else first
        header = format.header
        named = any(str(name) in first for name in wanted if not str(name).isdecimal())
        if heading and header is None and not named:
            names, header = names or heading, False  # names that a comment gives
        if header is None:
            by_number = int(str(t)) if str(t).isdecimal() else None
            index = names.index(str(t)) if names is not None and str(t) in names else by_number
            # a header has no time where the times are
            header = (named and names is None) or index is None or index >= len(first) or not kind_of(first[index])
            # nor two columns of one name, where that is a number
            self.looks_headless = header and not named and names is None and _like_data(first[:LOOKED_AT])
            header = header and not (self.looks_headless and len(set(first)) < len(first))
        if names is not None and len(names) != width:
            raise BadInput(f"{len(names)} names are given in names=, but {self.title} has {width} columns.")
        if names is None:
            names = [name if header and name else str(index) for index, name in enumerate(first)]
        self._set_names(names, "Rename one, or give all names with names=[…] (and header=True).")
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
        for magic, advice in FOREIGN.items():
            if raw.startswith(magic):
                raise BadFile(f"{self.title} is {advice}.")
        if self.charset == "utf-8" and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise BadFile(f"{self.title} is UTF-16 text. Pass FileFormat(charset='utf-16') (--charset utf-16).")
        if b"\0" in raw and "16" not in self.charset and "32" not in self.charset:
            raise BadFile(f"{self.title} is not a text file. Events come as CSV or Parquet.")
        for pattern, instead in self.substitutions:
            raw = pattern.sub(instead, raw)
        try:
            decoder = codecs.getincrementaldecoder("utf-8-sig" if self.charset == "utf-8" else self.charset)()
            text = decoder.decode(raw, final=ended)
        except UnicodeDecodeError as error:
            raise self._undecodable() from error
        lines = io.StringIO(text, newline="").readlines()  # str.splitlines would also cut at form feeds and such
        whole = lines if ended or len(lines) < 2 else lines[:-1]  # the last may be cut
        if not any(line.strip() for line in whole[self.skip :]):
            raise BadInput(f"{self.title} is empty. An event file has at least one event.")
        return whole

    def _without_comments(
        self, lines: list[str], wanted: Sequence[str | int], format: FileFormat
    ) -> tuple[list[str], list[str]]:
        """The rows among the first lines, and the names of columns where the last comment above them gives these."""
        filled = [line for line in lines if line.strip()]
        mark = format.comment or (filled[0][0] if filled[0].startswith(MARKS) else None)
        body = [line for line in filled if mark is None or not line.startswith(mark)]
        above = [line.strip() for line in itertools.takewhile(lambda line: mark and line.startswith(mark), filled)]
        if mark is None or (not format.comment and (not body or self._no_comment(above, body, wanted, format))):
            return filled, []
        pattern = b"(?m)^(?:\xef\xbb\xbf)?" + re.escape(mark.encode()) + b"[^\n]*"
        self.substitutions.append((re.compile(pattern), b""))
        self.preamble = above
        if not above:
            return body, []
        text, row = above[-1].lstrip(mark).strip(), cells(body[0], body, format.delimiter)
        for names in (cells(text, body, format.delimiter), text.split()):
            if len(names) == len(row) == len(set(names)) > 1 and not any(map(kind_of, names)) and all(names):
                return body, names if any(map(kind_of, row)) else []
        return body, []

    def _no_comment(self, above: list[str], body: list[str], wanted: Sequence[str | int], format: FileFormat) -> bool:
        """Whether the line with a mark is the first row, or a header with a wanted name: an id may be called #cat."""
        found = cells(above[0], body, format.delimiter)
        if any(str(name) in found for name in wanted if str(name)[:1] in MARKS):
            return True
        alike = len(found) == len(cells(body[0], body, format.delimiter)) and any(map(kind_of, found))
        return len(above) == 1 and not above[0][1:2].isspace() and alike

    def _set_apart_by_blanks(self, lines: list[str], wanted: Sequence[str | int]) -> bool:
        """Whether blanks of any number cut lines evenly, and nothing else does it better."""
        lines = [line for line in lines if line.strip()][:200]
        widths = {len(line.split()) for line in lines[1:] or lines}
        if len(widths) > 1 or max(widths) == 1:
            return False
        other = find_delimiter(lines, wanted)
        cut = {len(row) for row in csv.reader(lines[1:] or lines, delimiter=other) if row}
        # tabs between some numbers and blanks between others, but not names with a blank in them
        mixed = other == "\t" and max(cut) < max(widths) and all(NUMBERS.fullmatch(line) for line in lines[1:] or lines)
        if len(cut) == 1 and max(cut) > 1 and other != " " and not mixed:
            return False
        self.substitutions += [(re.compile(rb"[ \t]+"), b" "), (re.compile(rb"(?m)^ | (?=\r?$)"), b"")]
        return True

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

    def _skip(self, row: Any) -> str:
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
        read = pacsv.ReadOptions(
            column_names=self.names, skip_rows=self.header_lines, encoding=self.charset,
            block_size=block if self.longest < block else 4 * self.longest,  # a row has to fit
        )  # fmt: skip
        self.ragged = 0
        unfit = (lambda row: "skip") if lenient else None if self.note is None else self._skip
        parse = pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=unfit)
        convert = pacsv.ConvertOptions(
            include_columns=wanted,
            column_types={name: hints.get(name, pa.string()) for name in wanted},
            strings_can_be_null=False,
        )
        with self._open() as stream:
            text = CleanStream(stream, self.substitutions)
            try:
                for batch in pacsv.open_csv(pa.PythonFile(text, "r"), read, parse, convert):
                    yield batch if len(wanted) == len(columns) else batch.select(columns)
            except (pa.ArrowException, OSError, EOFError) as error:
                raise self._explain(error) from error
            if text.quotes % 2:  # which can be fine (as in 3" pipe), or hide half of the file
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
        stream = io.BufferedReader(CleanStream(self._open(), self.substitutions))
        with io.TextIOWrapper(stream, self.charset, errors="replace", newline="") as text:
            for _ in range(self.header_lines):
                text.readline()
            reader = csv.reader(text, delimiter=self.delimiter, strict=strict)
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
                        f"Correct it (the delimiter is {self.delimiter!r}), or pass "
                        "Cleaning(skip_bad=True) (--skip-bad)."
                    )
        return self._damaged(error)

    def _undecodable(self) -> BadFile:
        decoder = codecs.getincrementaldecoder(self.charset)()
        line = 1
        with self._open() as stream:
            while chunk := stream.read(1 << 16):
                for piece in chunk.splitlines(keepends=True):
                    try:
                        decoder.decode(piece)
                    except UnicodeDecodeError:
                        return BadFile(
                            f"line {line} of {self.title} is not {self.charset} text. Say how it is written, for "
                            "example FileFormat(charset='latin-1') (--charset latin-1)."
                        )
                    line += piece.endswith(b"\n")
        return BadFile(
            f"{self.title} is not {self.charset} text. Say how it is written with FileFormat(charset=…) (--charset)."
        )

    def _damaged(self, error: Exception) -> BadFile:
        kind = f"as {self.compressed} " if self.compressed else ""
        return BadFile(f"{self.title} cannot be read {kind}to its end: {str(error).splitlines()[0]}")


class CleanStream(io.RawIOBase):
    """A stream of bytes with substitutions in whole lines, which counts quotation marks on their way."""

    def __init__(self, stream: Any, substitutions: Sequence[tuple[re.Pattern[bytes], bytes]]):
        self.stream, self.substitutions, self.rest, self.quotes = stream, substitutions, b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        while True:
            data = self.stream.read(None if size < 0 else max(size - len(self.rest), 1))
            whole = data
            if self.substitutions:
                end = data.rfind(b"\n") + 1
                whole, rest = (self.rest + data[:end], data[end:]) if end or not data else (b"", self.rest + data)
                if 0 <= size <= len(rest):  # a line longer than what is asked for
                    whole, rest = whole + rest, b""
                self.rest = rest
                for pattern, instead in self.substitutions:
                    whole = pattern.sub(instead, whole)
            if b'"' in whole:  # much faster than counting, and nearly always enough
                self.quotes += whole.count(b'"')
            if whole or not data:
                return whole


def _like_data(first: list[str]) -> bool:
    return any(kind_of(cell) or likely_formats(cell) for cell in first)


def cells(line: str, like: list[str], delimiter: str | None) -> list[str]:
    """The cells of a line, cut as others are."""
    if delimiter == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter or find_delimiter(like, ())), [])]


def find_delimiter(lines: list[str], wanted: Sequence[str | int]) -> str:
    """The delimiter: the one that makes the wanted names appear in the first line, else the one that cuts lines most
    evenly; if that does not cut the first line as the others, the one that cuts it like nearly all of them."""
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
