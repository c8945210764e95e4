"""JSON bodies, strictly, and never more of one at a time than a piece: what a body holds is counted before it is made.

A parser makes up to 40 bytes of Python of each byte of JSON, and nothing else happens in the process meanwhile. So a
large body is scanned first (`kernels.outline`, which lets others work): how many elements have its lists, how many
values each piece of them? Only then are pieces parsed, one after the other, as they are needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.columns import readonly
from pintgn.serve.kernels import BROKEN, DEEP, MANY_LISTS, outline
from pintgn.serve.limits import TooMuch

SMALL = 1 << 16
"""Bytes of a body that is parsed at once."""
PIECE = 1_000
"""Elements of a list that are parsed together."""
SPARE = 10_000
"""Values that a piece may hold beyond what its events need: enough to say which event is wrong, too few to hurt."""
FIELDS = 8
"""Values that an event needs besides its features: six fields, itself, and the list of its features."""


class Pieces:
    """A list of a JSON body: its length is known, its elements are parsed piece by piece."""

    def __init__(self, count: int, parts: Callable[[], Iterator[list[Any]]]):
        self._count, self._parts = count, parts

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[Any]]:
        return self._parts()

    def all(self) -> list[Any]:
        """All elements; for lists that are known to be short."""
        return [element for part in self for element in part]

    @classmethod
    def of(cls, elements: list[Any]) -> Pieces:
        """The same of a list that is there already."""
        cuts = range(0, len(elements), PIECE)
        return cls(len(elements), lambda: (elements[k : k + PIECE] for k in cuts))


def read(body: bytes | bytearray, most: int, features: int = 0, what: str = "events") -> Any:
    """What a body holds; every list that is in no other list is `Pieces`.

    Args:
        most: elements of a list at most, `what` they are.
        features: how many an event may have.
    """
    if len(body) <= SMALL:
        found = _with_pieces(parsed(body), Pieces.of)
        _check_lengths(found, most, what)
        return found
    encoding = json.detect_encoding(body)
    if encoding not in ("utf-8", "utf-8-sig"):
        try:
            body = body.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
        except ValueError as error:
            raise _no_json(error) from None
    lists = np.empty((features + 2 * FIELDS, 4), np.int64)
    marks = np.empty(((most // PIECE + 2) * len(lists), 2), np.int64)
    data = readonly(np.frombuffer(body, np.uint8))  # one type for bytes and bytearray: compiled once
    state, count, outside = outline(data, PIECE, lists, marks)
    if state == BROKEN:
        raise BadInput("the body is no JSON: a bracket or a quotation mark is not closed.")
    if state == DEEP:
        raise BadInput("the body is nested too deeply.")
    if state == MANY_LISTS or outside > SPARE + FIELDS + features:
        raise TooMuch(f"the body holds far more than the {what} of this run could. Send {what} only.")
    for closes, length, first in lists[:count, 1:].tolist():
        if length > most:
            raise _too_many(length, most, what)
        for k in range(length // PIECE + 1):
            held, fits = marks[first + k, 1], min(PIECE, length - k * PIECE)
            if held > SPARE + fits * (FIELDS + features):
                raise TooMuch(
                    f"{what} {k * PIECE:,} to {k * PIECE + fits - 1:,} hold {held:,} values, far more than such {what} "
                    "could. Send less at once."
                )
            if marks[first + k, 0] == closes:
                break
    return _with_pieces(parsed(_skeleton(body, lists[:count, :2])), _Cut(body, lists, marks))


class _Cut:
    """Finds the list that a place in the skeleton stands for."""

    def __init__(self, body: bytes | bytearray, lists: np.ndarray, marks: np.ndarray):
        self.body, self.lists, self.marks = body, lists, marks

    def __call__(self, number: list[int]) -> Pieces:
        opens, closes, count, first = self.lists[number[0]].tolist()
        return Pieces(count, lambda: self._parts(opens, closes, count, first))

    def _parts(self, opens: int, closes: int, count: int, mark: int) -> Iterator[list[Any]]:
        begin, left = opens + 1, count
        while True:
            end = int(self.marks[mark, 0])
            part = parsed(b"[" + self.body[begin:end] + b"]", "utf-8")
            if len(part) != min(left, PIECE):
                raise BadInput("the body is no JSON: a value is missing after a comma.")
            yield part
            if end == closes:
                return
            begin, mark, left = end + 1, mark + 1, left - len(part)


def _skeleton(body: bytes | bytearray, lists: np.ndarray) -> bytes:
    """The body with the number of each list in the place of its elements."""
    parts, begin = [], 0
    for number, (opens, closes) in enumerate(lists.tolist()):
        parts += [body[begin : opens + 1], b"%d" % number]
        begin = closes
    return b"".join([*parts, body[begin:]])


def _with_pieces(value: Any, make: Callable[[list[Any]], Pieces]) -> Any:
    if isinstance(value, list):
        return make(value)
    return {name: _with_pieces(one, make) for name, one in value.items()} if isinstance(value, dict) else value


def _check_lengths(value: Any, most: int, what: str) -> None:
    if isinstance(value, Pieces) and len(value) > most:
        raise _too_many(len(value), most, what)
    for one in value.values() if isinstance(value, dict) else ():
        _check_lengths(one, most, what)


def _too_many(count: int, most: int, what: str) -> TooMuch:
    return TooMuch(f"{count:,} {what} at once; send at most {most:,}.")


def whole(value: Any, most: int) -> Any:
    """The same with lists instead of `Pieces`, none of them longer than `most`."""
    if isinstance(value, Pieces):
        if len(value) > most:
            raise BadInput(f"the body has a list of {len(value):,} values where at most {most:,} make sense.")
        return value.all()
    return {name: whole(one, most) for name, one in value.items()} if isinstance(value, dict) else value


def parsed(body: bytes | bytearray, encoding: str | None = None) -> Any:
    """JSON, strictly: no NaN, no infinity."""

    def refuse(name: str) -> Any:
        raise BadInput(f"the body holds {name}, which is no JSON. Numbers are finite.")

    try:
        text = body if encoding is None else body.decode(encoding, "surrogatepass")
        return json.loads(text, parse_constant=refuse)
    except BadInput:
        raise
    except RecursionError:
        raise BadInput("the body is nested too deeply.") from None
    except ValueError as error:
        raise _no_json(error) from None


def _no_json(error: ValueError) -> BadInput:
    return BadInput(f"the body is no JSON: {str(error)[:200]}.")
