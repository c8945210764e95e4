"""A growing file as a source, as `tail -F` follows it: half-written lines wait, and rotation loses nothing."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path
from typing import Any, BinaryIO

from pintgn.errors import BadFile, BadInput
from pintgn.feed.stream_source import Batch, Bookmark, BookmarkedSource, Row, json_row, poll, short_name

CHUNK = 2**20
"""Bytes read at once."""
LONGEST_RECORD = 16 * 2**20
"""Bytes of one record."""
TAIL = 64
"""Bytes before a position, by which a file is known again."""
POLL = 0.2
"""Seconds between two looks at a file that has not grown."""
GRACE = 1.0
"""Seconds that a file which was moved away is still watched: who wrote it may not have noticed yet."""
JSON = (".ndjson", ".jsonl", ".json")


class FileSource(BookmarkedSource):
    """Lines of CSV (the first names the columns) or of JSON.

    The position is a byte of the n-th file of this name (`generation`): a file that is moved away is read to its
    end first, also if that happened while nobody was reading; one that is cut short begins a new generation.

    Args:
        path: the file; it may come later.
        bookmark: where its position is kept.
        kind: csv or ndjson; by the file's ending when not given.
        delimiter: between columns; a tab for .tsv, else a comma.
        from_start: read the file from its first line again.
    """

    def __init__(self, path: str | Path, bookmark: Bookmark, kind: str | None = None, delimiter: str | None = None,
                 from_start: bool = False, name: str | None = None):  # fmt: skip
        self.path, self.bookmark = Path(path).expanduser().absolute(), bookmark
        if kind not in (None, "csv", "ndjson"):
            raise BadInput(f"--format {kind}; it is csv or ndjson.")
        self.text = (kind or ("ndjson" if self.path.suffix.lower() in JSON else "csv")) == "csv"
        self.delimiter = delimiter or ("\t" if self.path.suffix.lower() == ".tsv" else ",")
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise BadFile(f"{path} is no file, and none can come there.")
        self.name = short_name(name or str(self.path))
        self.file: BinaryIO | None = None
        self.header: list[str] | None = None
        self.generation, self.offset, self.inode, self.tail = 0, 0, 0, b""
        self._buffer, self._moved_since, self._moving = b"", 0.0, False
        if bookmark.position is not None:
            self._resume(bookmark.position, from_start)

    # -- which file ----------------------------------------------------------------------------------------------------

    def _resume(self, position: dict[str, Any], from_start: bool) -> None:
        self.generation, self.offset = int(position["generation"]), int(position["offset"])
        self.inode, self.tail = int(position["inode"]), bytes.fromhex(position["tail"])
        found = self._same_file()
        if from_start:
            self.generation += found is None
            self.offset, self.inode, self.tail = 0, 0, b""
        elif found is None:
            raise BadFile(
                f"the file that was being read is gone: neither {self.path} nor a file beside it has the bytes before "
                f"byte {self.offset:,}. If nothing of it is missing, go on with the file as it is now: --from-start."
            )
        else:
            self._open(found)

    def _same_file(self) -> Path | None:
        """The file of a position, wherever it was moved to in its folder."""
        files = [path for path in self._siblings() if self._continues(path)]
        by_inode = [path for path in files if path.stat().st_ino == self.inode]
        return next(iter(by_inode or files if self.offset else by_inode), None)

    def _siblings(self) -> list[Path]:
        """The file, and those it may have been renamed to."""
        mine = {self.bookmark.path.name, f".{self.bookmark.path.name}.lock"}
        return [
            path
            for path in sorted(self.path.parent.glob(f"*{self.path.stem}*"), key=lambda path: path != self.path)
            if path.is_file() and path.name not in mine
        ]

    def _continues(self, path: Path) -> bool:
        """Whether a file contains the bytes before our position."""
        try:
            with open(path, "rb") as file:
                return self._intact(file)
        except OSError:
            return False

    def _intact(self, file: BinaryIO) -> bool:
        size = os.fstat(file.fileno()).st_size
        before = os.pread(file.fileno(), len(self.tail), self.offset - len(self.tail))
        return size >= self.offset and before == self.tail

    def _open(self, path: Path) -> None:
        self._close_file()
        self.file = open(path, "rb")  # noqa: SIM115 - stays open
        self.inode, self._buffer, self.header, self._moved_since = os.fstat(self.file.fileno()).st_ino, b"", None, 0.0
        if self.offset and self.text:  # its first line names the columns
            wanted, self.offset, tail = self.offset, 0, self.tail
            self._read_header()
            self.offset, self._buffer, self.tail = wanted, b"", tail

    def _read_header(self) -> None:
        self.header = next((_cells(record, self.delimiter) for _, record in self._records(1)), None)

    def _next_file(self) -> Path | None:
        """The file after one that was moved away: the oldest of those that began later, else the file itself."""
        assert self.file is not None
        ended = os.fstat(self.file.fileno())
        moved = [path for path in self._siblings() if path != self.path and path.name.startswith(self.path.name)]
        found = [(about.st_mtime_ns, path) for path in moved if (about := path.stat()).st_ino != ended.st_ino]
        later = [path for changed, path in sorted(found) if changed > ended.st_mtime_ns]
        return later[0] if later else self.path if self.path.exists() else None

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, most: int, wait: float) -> Batch:
        rows = poll(lambda: self._rows(most), wait, POLL)
        return Batch(rows, self._position(), end=not rows and not self._moving)

    def _rows(self, most: int) -> list[Row]:
        if self.file is None:
            if not self.path.exists():
                return []
            self._open(self.path)
            self.commit(self._position())  # should it be moved away before anything of it is committed
        assert self.file is not None
        if not self._intact(self.file):  # cut short, and begun anew
            self.generation, self.offset, self.tail = self.generation + 1, 0, b""
            self._open(self.path)
        if self.text and self.header is None:
            self._read_header()
        rows = [self._row(f"{self.name}/{self.generation}:{at}", record) for at, record in self._records(most)]
        return self._rows(most) if not rows and self._another_file() else rows

    def _records(self, most: int) -> list[tuple[int, bytes]]:
        """The next whole records, each with the byte where it begins; the position moves behind them."""
        assert self.file is not None
        found: list[tuple[int, bytes]] = []
        data, begin, searched, quotes = self._buffer, 0, 0, 0  # the buffer begins at the position
        while len(found) < most:
            end = data.find(b"\n", searched)
            if end >= 0:
                quotes += data.count(b'"', searched, end) if self.text else 0
                searched = end + 1
                if quotes % 2 == 0:  # else the line ends within quotes
                    if (record := data[begin:searched]).strip():
                        found.append((self.offset + begin, record))
                    begin, quotes = searched, 0
                continue
            if len(data) - begin > LONGEST_RECORD:
                raise BadFile(
                    f"{self.path}: the record at byte {self.offset + begin:,} has more than {LONGEST_RECORD:,} bytes. "
                    "Is a quote never closed?"
                )
            quotes += data.count(b'"', searched) if self.text else 0
            searched = len(data)
            more = os.pread(self.file.fileno(), CHUNK, self.offset + len(data))
            if not more:
                break
            data += more
        self.offset, self._buffer = self.offset + begin, data[begin:]
        self.tail = (self.tail + data[max(0, begin - TAIL) : begin])[-TAIL:]
        return found

    def _another_file(self) -> bool:
        """At the end of a file: if it was moved away, go on to the next one, once its writer has noticed."""
        self._moving = False
        if self.path.exists() and os.stat(self.path).st_ino == self.inode:
            self._moved_since = 0.0
            return False
        now = time.monotonic()
        self._moved_since = self._moved_since or now
        if now - self._moved_since < GRACE:
            self._moving = True
            return False
        if (found := self._next_file()) is None:
            return False
        self.generation, self.offset, self.tail = self.generation + 1, 0, b""
        self._open(found)
        return True

    def _row(self, key: str, record: bytes) -> Row:
        if not self.text:
            return json_row(key, record)
        cells, header = _cells(record, self.delimiter), self.header or []
        if len(cells) != len(header):
            shown = record.decode(errors="replace").rstrip("\r\n")[:10_000]
            return Row(key, {"row": shown}, f"it has {len(cells)} columns; the first line names {len(header)}")
        return Row(key, dict(zip(header, cells, strict=True)))

    # -- the position --------------------------------------------------------------------------------------------------

    def _position(self) -> dict[str, Any]:
        return {"generation": self.generation, "offset": self.offset, "inode": self.inode, "tail": self.tail.hex()}

    def close(self) -> None:
        self._close_file()
        super().close()

    def _close_file(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def _cells(record: bytes, delimiter: str) -> list[str]:
    text = record.decode("utf-8-sig", errors="replace")
    return next(csv.reader([text.rstrip("\r\n")] if '"' not in text else text.splitlines(True), delimiter=delimiter))
