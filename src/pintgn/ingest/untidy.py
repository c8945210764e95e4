"""Text files with comments, or with columns set apart by any number of blanks, as SNAP and KONECT publish them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pintgn.events.times import is_time

MARKS = ("#", "%")
"""How a comment begins, where nobody has said it."""
RAGGED = re.compile(r"[ \t]{2,}|^[ \t]|[ \t]\r?$|\d \d.*\t|\t.*\d \d", re.M)
"""Blanks that separate nothing, or numbers set apart now by a blank, now by a tab."""
NUMBERS = re.compile(r"[\s\d.eE+-]*")


class Tidy:
    """Lines as a CSV reader takes them: comments become empty lines, several blanks one."""

    def __init__(self, comment: str | None, squeeze: bool):
        self.comment, self.squeeze = comment, squeeze
        self.steps: list[tuple[re.Pattern[bytes], bytes]] = []
        if comment:
            self.steps.append((re.compile(b"(?m)^(?:\xef\xbb\xbf)?" + re.escape(comment.encode()) + b"[^\n]*"), b""))
        if squeeze:
            self.steps += [(re.compile(rb"[ \t]+"), b" "), (re.compile(rb"(?m)^ | (?=\r?$)"), b"")]

    def lines(self, text: Iterable[str]) -> Iterator[str]:
        for line in text:
            if self.comment and line.lstrip("\ufeff").startswith(self.comment):
                yield "\n"
            elif self.squeeze:
                yield " ".join(line.split()) + "\n"
            else:
                yield line


class TidyStream:
    """A stream of bytes, tidied line by line on its way."""

    closed = False

    def __init__(self, stream: Any, tidy: Tidy):
        self.stream, self.tidy, self.rest = stream, tidy, b""

    def read(self, size: int) -> bytes:
        while True:
            data = self.stream.read(max(size - len(self.rest), 1))
            end = data.rfind(b"\n") + 1
            whole, rest = (self.rest + data[:end], data[end:]) if end or not data else (b"", self.rest + data)
            if len(rest) >= size:  # a line longer than what is asked for
                whole, rest = whole + rest, b""
            self.rest = rest
            for pattern, instead in self.tidy.steps:
                whole = pattern.sub(instead, whole)
            if whole or not data:
                return whole


class Untidy(NamedTuple):
    """What was found out about a file by its first lines."""

    lines: list[str]
    """The same, tidied."""
    tidy: Tidy | None
    heading: list[str]
    """Names of columns, where a comment gives them."""
    preamble: list[str]
    """Comments above the first row."""


def look(lines: list[str], wanted: Sequence[str | int], delimiter: str | None, comment: str | None) -> Untidy:
    """Find comments and wide blanks. `#` and `%` are comments where a file begins with them, and not all of it."""
    first = next((line for line in lines if line.strip()), "")
    mark = comment or (first[0] if first[:1] in MARKS else None)
    body = [line for line in lines if line.strip() and not (mark and line.startswith(mark))]
    preamble: list[str] = []
    if mark:
        for line in lines:
            if line.strip() and not line.startswith(mark):
                break
            preamble += [line.strip()] if line.strip() else []
    squeeze = body and delimiter in (None, " ") and _wide(body[:200], wanted)
    separator = " " if squeeze else delimiter
    if mark and not comment and (not body or _is_data(preamble, body, separator, wanted)):
        mark, preamble = None, []
    if not mark and not squeeze:
        return Untidy(lines, None, [], [])
    tidy = Tidy(mark, bool(squeeze))
    return Untidy(list(tidy.lines(lines)), tidy, _heading(preamble, mark, body, separator), preamble)


def _cells(line: str, delimiter: str | None, like: list[str]) -> list[str]:
    from pintgn.ingest.textfile import find_delimiter

    if delimiter == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter or find_delimiter(like, ())), [])]


def _wide(body: list[str], wanted: Sequence[str | int]) -> bool:
    """Whether blanks of any number cut lines evenly, and nothing else does it better."""
    from pintgn.ingest.textfile import find_delimiter

    widths = {len(line.split()) for line in body[1:]} or {len(body[0].split())}
    if len(widths) > 1 or max(widths) == 1 or not any(map(RAGGED.search, body)):
        return False
    other = find_delimiter(body, wanted)
    cut = {len(row) for row in csv.reader(body[1:] or body, delimiter=other) if row}
    if len(cut) > 1 or max(cut) == 1 or other == " ":
        return True
    # tabs between some numbers and blanks between others, but not names with a blank in them
    return other == "\t" and max(cut) < max(widths) and all(NUMBERS.fullmatch(line) for line in body[1:] or body)


def _is_data(preamble: list[str], body: list[str], delimiter: str | None, wanted: Sequence[str | int]) -> bool:
    """Whether the only line with a mark is the first row, or has a header's name: an id such as #cat is no comment."""
    line = preamble[0]
    cells = _cells(line, delimiter, body)
    if any(str(name) in cells for name in wanted if str(name)[:1] in MARKS):
        return True
    alike = len(preamble) == 1 and not line[1:2].isspace() and len(cells) == len(_cells(body[0], delimiter, body))
    return alike and any(is_time(cell) for cell in cells)


def _heading(preamble: list[str], mark: str | None, body: list[str], delimiter: str | None) -> list[str]:
    """The last comment above the rows, if it names their columns."""
    if not preamble or not mark:
        return []
    text, row = preamble[-1].lstrip(mark).strip(), _cells(body[0], delimiter, body)
    for names in (_cells(text, delimiter, body), text.split()):
        if len(names) == len(row) == len(set(names)) > 1 and not any(map(is_time, names)) and all(names):
            return names if any(map(is_time, row)) else []
    return []
