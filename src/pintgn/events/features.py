"""Feature columns: numbers as they are, categories coded or one-hot, labels; batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.columns import NOTHING, Growing, first_true, first_uncastable, is_text, null_rows, plain, try_cast
from pintgn.events.kernels import FROM_SRC
from pintgn.events.numbering import Ids, Numbering
from pintgn.events.schema import Feature

MOST_ONE_HOT = 32
"""Up to this many categories become one column each, unless the user says; more become one column of codes."""
MOST_CATEGORIES = 100_000
PIECE = 1 << 20
"""Rows that are coded at a time."""
MISSING = frozenset(["", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "none", "#N/A", "<NA>"])
"""How text files write that a number is missing."""


def to_numbers(values: pa.Array, name: str, where: Callable[[int], str], row: int) -> np.ndarray:
    """A batch as float64, NaN where missing."""
    values = plain(values)
    kind = values.type
    if is_text(kind):
        values = pc.ascii_trim_whitespace(values)
        known = pc.if_else(pc.is_in(values, pa.array(sorted(MISSING))), None, values)
        numbers = try_cast(known, pa.float64())
        if numbers is None:
            bad = first_uncastable(known, pa.float64())
            raise BadInput(
                f"{where(row + bad)} has {name}={values[bad].as_py()!r} in a column of numbers. Correct it, or name "
                f"the column in categorical= (--categorical) if its values are names."
            )
        values = numbers
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_null(kind):
        return np.full(len(values), np.nan)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadInput(f"column {name!r} holds {kind}, which is neither a number nor a category. Leave it out.")
    if not pa.types.is_float64(values.type):
        values = values.cast(pa.float64(), safe=False)
    return values.to_numpy(zero_copy_only=False)


class Numbers:
    """Columns of numbers side by side, float32, finite."""

    def __init__(self, names: list[str], where: Callable[[int], str], room: int, fill: float | None = None):
        self.names, self.where, self.fill = names, where, fill
        self.matrix = Growing(np.float32, room, max(len(names), 1))

    def extend(
        self,
        columns: list[pa.Array],
        row: int,
        optional: np.ndarray = NOTHING,
        where: Callable[[int], str] | None = None,
    ) -> None:
        """Take a batch; where `optional` (a mask, or empty) a missing value counts as 0."""
        if not self.names:
            return
        where = where or self.where
        block = self.matrix.claim(len(columns[0]))
        for index, (name, values) in enumerate(zip(self.names, columns, strict=True)):
            numbers = to_numbers(values, name, where, row)
            block[:, index] = self._checked(numbers, name, lambda k: where(row + k), optional)

    def _checked(self, numbers: np.ndarray, name: str, where: Callable[[int], str], optional: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            small = numbers.astype(np.float32)
        finite = np.isfinite(small)
        if finite.all():
            return small
        if len(optional):
            small[optional & np.isnan(numbers)] = 0
        if self.fill is not None:
            small[np.isnan(small)] = self.fill
        bad = first_true(~np.isfinite(small))
        if bad >= 0:
            value = numbers[bad]
            what = f"no {name}" if np.isnan(value) else f"{name}={value:g}"
            advice = "Correct it, or pass fill=0 (--fill 0)" if np.isnan(value) else "Correct it, or rescale the column"
            raise BadInput(f"{where(bad)} has {what}; a feature must be a finite float32 number. {advice}.")
        return small


class Categories:
    """A column of names. Kept as codes until all are known; 0 means none, as for a category met too late."""

    def __init__(
        self,
        name: str,
        where: Callable[[int], str],
        room: int,
        known: Feature | None = None,
        untyped: bool = False,
        forced: bool = False,
    ):
        self.name, self.where, self.untyped, self.forced = name, where, untyped, forced
        self.codes = Growing(np.int32, room)
        self.known = known
        self.kind: pa.DataType | None = None
        self.numbering, self.some_empty = Numbering(), False  # an empty text is numbered, too, and is no category
        if known is not None and known.categories:
            texts = pa.array([_text(category) for category in known.categories], pa.string())
            self._number(texts)

    def extend(self, values: pa.Array, row: int) -> None:
        values = plain(values)
        if pa.types.is_null(values.type):
            self.codes.claim(len(values))[:] = 0
            return
        if self.kind is None or pa.types.is_null(self.kind):
            self.kind = values.type
        texts = self._texts(values, row)
        missing = null_rows(texts)
        codes = self._number(texts.fill_null("") if len(missing) else texts)
        empty = self._empty(texts)
        codes = codes + 1
        if len(empty):
            codes[empty] = 0
        self.some_empty |= len(empty) > 0
        if len(self.numbering) - self.some_empty > MOST_CATEGORIES and self.known is None:
            raise BadInput(
                f"column {self.name!r} has more than {MOST_CATEGORIES:,} different values by {self.where(row)}, "
                "too many for categories. Leave it out."
            )
        self.codes.extend(codes)

    def finish(self, encoding: str) -> tuple[np.ndarray, Feature]:
        """Codes (e,), 1-based in the order of the categories, and what they mean."""
        codes = self.codes.done()
        if self.known is not None:
            unseen = codes > len(self.known.categories)
            if unseen.any():
                fresh = self.numbering.ids().decode()[len(self.known.categories) :].to_pylist()
                fresh = [name for name in fresh if name]
                shown = ", ".join(map(repr, fresh[:5])) + (", …" if len(fresh) > 5 else "")
                warnings.warn(
                    f"{self.name} {shown} is new since the earlier log ({int(unseen.sum()):,} of {len(codes):,} "
                    "events) and counts as none.",
                    PintgnWarning,
                    stacklevel=2,
                )
                codes[unseen] = 0
            return codes, self.known
        texts = self.numbering.ids().decode() if len(self.numbering) else pa.array([], pa.string())
        categories = [self._value(text) for text in texts.to_pylist()]
        used = np.bincount(codes, minlength=len(categories) + 1)[1:] > 0
        self._check_mixed([c for c, here in zip(categories, used, strict=True) if here])
        if self.untyped and self.forced and all(isinstance(c, str) and _is_whole(c) for c in categories if c):
            categories = [int(c) if c else c for c in categories]
        order = sorted(np.flatnonzero(used).tolist(), key=lambda k: categories[k])
        rank = np.zeros(len(categories) + 1, np.int32)
        rank[np.asarray(order, np.int64) + 1] = np.arange(1, len(order) + 1)
        for start in range(0, len(codes), PIECE):  # piece by piece: a whole new column would be held twice
            codes[start : start + PIECE] = rank[codes[start : start + PIECE]]
        if encoding == "auto":
            encoding = "onehot" if len(order) <= MOST_ONE_HOT else "code"
        return codes, Feature(self.name, encoding, tuple(categories[k] for k in order))

    def _texts(self, values: pa.Array, row: int) -> pa.Array:
        kind = values.type
        if is_text(kind):
            values = pc.ascii_trim_whitespace(values) if self.untyped else values
            # text files write bools in any case
            truths = self.known is not None and all(isinstance(c, bool) for c in self.known.categories)
            return pc.utf8_lower(values) if truths else values
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return values.cast(pa.string())
        raise BadInput(
            f"column {self.name!r} holds {kind} at {self.where(row)}; that cannot be a category. Leave it out."
        )

    def _number(self, texts: pa.Array) -> np.ndarray:
        out = np.empty(len(texts), np.int64)
        ids = Ids(None, texts)
        self.numbering.add(ids, ids, np.full(len(texts), FROM_SRC, np.int8), out, np.empty(len(texts), np.int64))
        return out

    def _empty(self, texts: pa.Array) -> np.ndarray:
        empty = pc.fill_null(pc.equal(texts, ""), True).to_numpy(zero_copy_only=False)
        return empty if empty.any() else NOTHING

    def _value(self, text: str) -> Any:
        """A category in the type of its column."""
        if self.kind is not None and pa.types.is_boolean(self.kind):
            return text == "true"
        return int(text) if self.kind is not None and pa.types.is_integer(self.kind) else text

    def _check_mixed(self, categories: list[Any]) -> None:
        """In a text file, names with numbers among them are more likely a spoilt column of numbers."""
        if not self.untyped or self.forced:
            return
        numbers = [c for c in categories if is_number(c)]
        words = [c for c in categories if not is_number(c)]
        if numbers and words:
            raise BadInput(
                f"column {self.name!r} mixes numbers such as {numbers[0]!r} with text such as {words[0]!r}. Correct "
                "it, or name it in categorical= (--categorical) if they are all names."
            )


class Labels:
    """One value per event, kept as it is: int64, or float64 with NaN where missing."""

    def __init__(self, name: str, where: Callable[[int], str], room: int):
        self.name, self.where = name, where
        self.column = Growing(np.int64, room)
        self.whole = True

    def extend(self, values: pa.Array, row: int) -> None:
        values = plain(values)
        if is_text(values.type):
            values = self._parse(values, row)
        elif pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        if self.whole and pa.types.is_integer(values.type) and not values.null_count:
            self.column.extend(values.cast(pa.int64()).to_numpy())
            return
        numbers = to_numbers(values, self.name, self.where, row)
        if self.whole:
            self.column.values.view(np.float64)[:] = self.column.values
            self.whole = False
        self.column.claim(len(numbers)).view(np.float64)[:] = numbers

    def _parse(self, values: pa.Array, row: int) -> pa.Array:
        values = pc.ascii_trim_whitespace(values)
        known = pc.if_else(pc.is_in(values, pa.array(sorted(MISSING))), None, values)
        for kind in (pa.int64(), pa.float64()):
            numbers = try_cast(known, kind)
            if numbers is not None:
                return numbers
        bad = first_uncastable(known, pa.float64())
        raise BadInput(
            f"{self.where(row + bad)} has {self.name}={values[bad].as_py()!r}. A label is a number; write kinds of "
            "label as 0, 1, 2, …."
        )

    def finish(self) -> np.ndarray:
        column = self.column.done()
        return column if self.whole else column.view(np.float64)


def is_number(value: Any) -> bool:
    return not isinstance(value, str) or try_cast(pa.array([value]), pa.float64()) is not None


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdigit() and str(int(text)) == text


def _text(category: Any) -> str:
    return str(category).lower() if isinstance(category, bool) else str(category)


def spread(matrix: np.ndarray, start: int, codes: np.ndarray, feature: Feature) -> None:
    """Write coded categories into the columns of a feature matrix that begin at `start`."""
    if feature.kind == "code":
        matrix[:, start] = codes
        return
    matrix[:, start : start + feature.width] = 0
    for first in range(0, len(codes), PIECE):
        here = codes[first : first + PIECE]
        rows = np.flatnonzero(here)
        matrix[first + rows, start + here[rows] - 1] = 1
