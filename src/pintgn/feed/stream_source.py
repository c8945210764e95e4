"""The interface of a source of events: batches in a fixed order, and a position to resume from."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile, BadInput
from pintgn.facts import AtLeast, check_format, read_json
from pintgn.files import try_lock, write_errors, write_file

FORMAT = 1
LONGEST_NAME = 120
"""Letters of a source's name in a key; a longer one is shortened by a hash."""


@dataclass
class Row:
    """One event in its source. Its key is a function of its position, so it is the same at every reading."""

    key: str
    values: dict[str, Any] = field(default_factory=dict)
    error: str | None = None  # why it cannot be an event


@dataclass
class Batch:
    """Consecutive rows, and the position after the last."""

    rows: list[Row]
    position: Any
    end: bool = False  # the source has nothing more right now


class Source:
    """Rows in an order that never changes. What was committed is not read again by the next source of this name."""

    name: str
    text = False  # values are texts, as in a CSV file, whatever they mean

    def read(self, most: int, wait: float) -> Batch:
        """The next rows, `most` at most; waits up to `wait` seconds for the first."""
        raise NotImplementedError

    def commit(self, position: Any) -> None:
        """Save a position: everything before it need not be read again after a restart."""
        raise NotImplementedError

    def close(self) -> None:
        pass


def poll(read: Callable[[], list[Any]], wait: float, pause: float) -> list[Any]:
    """Poll a source without notifications until it has something, for at most so many seconds."""
    until = time.monotonic() + wait
    while not (found := read()) and time.monotonic() < until:
        time.sleep(min(pause, max(wait, 0.0)))
    return found


class Bookmark:
    """The saved position of a source that does not keep its own: a small file, replaced atomically, for one process.

    Losing it costs time, not correctness, as long as the source can still be read from its start: what the service has
    already counts as a duplicate, by its key.
    """

    def __init__(self, path: str | Path, source: str, service: str):
        self.path, self.source, self.service = Path(path), source, service
        if not self.path.parent.is_dir():
            raise BadFile(f"there is no folder {self.path.parent} for the bookmark {self.path.name}. Make it.")
        self._open = contextlib.ExitStack()
        with write_errors(self.path):
            lock = self._open.enter_context(open(self.path.with_name(f".{self.path.name}.lock"), "ab"))  # noqa: SIM115
        if not try_lock(lock):
            self.close()
            raise BadFile(f"{self.path} is in use by another `pintgn feed`. Stop it, or name another --bookmark.")
        self.position: Any = None
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        if not self.path.exists():
            return
        facts = read_json(self.path, {"format": AtLeast(1)})
        check_format(facts["format"], FORMAT, f"the bookmark {self.path}", "Delete it to read from the start.")
        for what, mine in (("source", self.source), ("service", self.service)):
            if facts.get(what) != mine:
                raise BadInput(
                    f"the bookmark {self.path} is of the {what} {facts.get(what)}, not {mine}. Name another with "
                    "--bookmark, or delete it to read from the start."
                )
        self.position = facts.get("position")

    def save(self, position: Any) -> None:
        self.position = position
        facts = {"format": FORMAT, "source": self.source, "service": self.service, "position": position}
        with write_errors(self.path, when_full="Free space on the disk, then start again: nothing is lost."):
            write_file(self.path, json.dumps(facts))

    def close(self) -> None:
        self._open.close()


class BookmarkedSource(Source):
    """A source whose position is kept in a bookmark."""

    bookmark: Bookmark

    def commit(self, position: Any) -> None:
        self.bookmark.save(position)

    def close(self) -> None:
        self.bookmark.close()


def short_name(name: str) -> str:
    """A name that fits into a key with its position.

    >>> short_name("orders"), len(short_name("x" * 500))
    ('orders', 120)
    """
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
    return f"{name[-(LONGEST_NAME - len(digest) - 1) :]}-{digest}"


def json_row(key: str, data: bytes | str | None) -> Row:
    """A message or line that holds one event as a JSON object."""
    try:
        values = json.loads(data or "")
    except (ValueError, UnicodeError, RecursionError):
        return Row(key, {"row": _text(data)}, "it is no JSON")
    if not isinstance(values, dict):
        return Row(key, {"row": _text(data)}, "it is no JSON object")
    return Row(key, values)


def _text(data: bytes | str | None) -> str:
    return (data.decode(errors="replace") if isinstance(data, bytes) else data or "")[:10_000]
