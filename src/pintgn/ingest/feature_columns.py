"""Feature columns: numbers as they are, categories coded or one-hot, labels; batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.categories import PIECE, spread
from pintgn.events.checks import fits_float32
from pintgn.events.columns import Growing, Where, first_true, first_uncastable, is_text, plain, try_cast
from pintgn.events.schema import Feature
from pintgn.ingest.amounts import advice, looks_numeric, tidy
from pintgn.ingest.table_source import Source

MOST_ONE_HOT = 32
"""Up to this many categories become one column each, unless the user says; more become bits of a hash."""
MOST_CATEGORIES = 100_000
SAMPLED = 100
"""Values of a column that are looked at to tell numbers from names, where some are expected to be bad."""
MISSING = frozenset(["", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "none", "#N/A", "<NA>"])
"""How text files write that a number is missing."""


def to_numbers(values: pa.Array, name: str, where: Where, decimal: str | None = None) -> np.ndarray:
    """A batch as float64, NaN where missing; text with this decimal mark."""
    values = plain(values)
    kind = values.type
    if is_text(kind):
        parsed = _parsed(values, pa.float64(), decimal=decimal)
        if isinstance(parsed, int):
            text = values[parsed].as_py().strip()
            raise BadInput(
                f"{where(parsed)} has {name}={text!r} in a column of numbers."
                + (
                    advice(text)
                    or f" Correct it, or say Columns(categorical=[{name!r}]) (--categorical {name}) if its values "
                    "are names."
                )
            )
        values = parsed
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_null(kind):
        return np.full(len(values), np.nan)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadInput(f"column {name!r} holds {kind}, which is neither a number nor a category. Leave it out.")
    if not pa.types.is_float64(values.type):
        values = values.cast(pa.float64(), safe=False)
    return values.to_numpy(zero_copy_only=False)


def _parsed(values: pa.Array, *kinds: pa.DataType, decimal: str | None = None) -> pa.Array | int:
    """Numbers that are written as text, in the first of these types that holds them all; else the first bad row."""
    values = trimmed(values)
    for tidied in (False, True) if decimal != "," else (True,):
        values = tidy(values, decimal) if tidied else values
        for kind in kinds:
            if (numbers := try_cast(values, kind)) is not None:
                return numbers
    return first_uncastable(values, kinds[-1])


def trimmed(values: pa.Array) -> pa.Array:
    """Cells of a text file, null where they say that a number is missing."""
    values = pc.ascii_trim_whitespace(values)
    return pc.if_else(pc.is_in(values, pa.array(sorted(MISSING))), None, values)


def category_columns(
    names: list[str], batch: pa.RecordBatch, sample: pa.RecordBatch | None, known: dict[str, bool], most: bool = False
) -> dict[str, bool]:
    """Mask of the columns that are categories: those `known` to be, then by the first value of a text file's `sample`
    (by `most` of them, where some are expected to be bad), then by type."""
    index = {name: k for k, name in enumerate(batch.schema.names)}
    kinds = dict(known)
    for name in names:
        if name in known:
            continue
        if sample is not None:
            texts = [text for text in map(str.strip, sample.column(index[name]).to_pylist()) if text not in MISSING]
            some = texts[:SAMPLED] if most else texts[:1]
            looks = [try_cast(pa.array([text]), pa.float64()) is not None or looks_numeric(text) for text in some]
            kinds[name] = 2 * sum(looks) < len(looks)
        else:
            kind = batch.schema.field(index[name]).type
            coded = pa.types.is_dictionary(kind)
            kind = kind.value_type if coded else kind
            kinds[name] = coded or is_text(kind) or pa.types.is_boolean(kind) or str(kind) == "string_view"
    return kinds


class Numbers:
    """Columns of numbers side by side, finite as float32, which they become in the end unless that loses something."""

    def __init__(self, names: list[str], capacity: int, fill: float | None = None, decimal: str | None = None):
        self.names, self.fill, self.decimal = names, fill, decimal
        self.matrix = Growing(np.float64, capacity, max(len(names), 1))
        self.gaps = dict.fromkeys(names, 0)  # missing values that were optional, and count as 0

    def extend(self, columns: list[pa.Array], where: Where, optional: np.ndarray | bool = False) -> None:
        """Take a batch; where `optional` a missing value counts as 0."""
        if not self.names:
            return
        block = self.matrix.allocate(len(columns[0]))
        for index, (name, values) in enumerate(zip(self.names, columns, strict=True)):
            numbers = to_numbers(values, name, where, self.decimal)
            if not _finite(numbers).all():
                gaps = np.isnan(numbers) & optional
                self.gaps[name] += int(gaps.sum())
                numbers = np.where(gaps, 0.0, numbers)
                if self.fill is not None:
                    numbers[np.isnan(numbers)] = self.fill
                if (bad := first_true(~_finite(numbers))) >= 0:
                    given = numbers[bad]
                    what = f"no {name}" if np.isnan(given) else f"{name}={given:g}"
                    advice = "rescale the column"
                    if np.isnan(given):
                        advice = "pass Cleaning(fill=0) (--fill 0), "
                        advice += f"or Columns(predict={name!r}) (--predict {name}) if it is what you predict"
                    raise BadInput(
                        f"{where(bad)} has {what}; a feature must be a finite float32 number. Correct it, or {advice}."
                    )
            block[:, index] = numbers

    def finish(self, wide: bool | None = False) -> np.ndarray:
        """The matrix, as float32 or `wide`, as float64; by what it holds where that is None."""
        if wide or (wide is None and not fits_float32(self.matrix.values)):
            return self.matrix.finish()
        return self.matrix.finish_narrow()


def _finite(numbers: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.isfinite(numbers.astype(np.float32))


class Categories:
    """A categorical column. Codes until all categories are known; 0 means none, as for a category first met later."""

    def __init__(
        self,
        name: str,
        capacity: int,
        known: Feature | None = None,
        untyped: bool = False,
        forced: bool = False,
    ):
        self.name, self.untyped, self.forced = name, untyped, forced
        self.codes = Growing(np.int32, capacity)
        self.known = known
        self.words: list[Any] = []
        """What codes mean, once they are finished."""
        self.kind: pa.DataType | None = None
        # a hash needs no list, but its words keep their codes
        met = () if known is None else known.words if known.kind == "hash" else known.categories
        texts = (str(c).lower() if isinstance(c, bool) else str(c) for c in met)
        self.texts = pa.array(texts, pa.large_string())

    def extend(self, values: pa.Array, where: Where) -> None:
        values = plain(values)
        if pa.types.is_null(values.type):
            self.codes.allocate(len(values))[:] = 0
            return
        if self.kind is None or pa.types.is_null(self.kind):
            self.kind = values.type
        texts = self._texts(values, where).cast(pa.large_string())
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
        # those met before come first, so that they keep their codes
        coded = pa.chunked_array([self.texts, texts]).dictionary_encode().chunks[-1]
        self.texts = coded.dictionary
        if len(self.texts) > MOST_CATEGORIES and self.known is None:
            raise BadInput(
                f"column {self.name!r} has more than {MOST_CATEGORIES:,} different values by {where(0)}, "
                "too many for categories. Leave it out."
            )
        self.codes.extend(coded.indices.fill_null(-1).to_numpy() + 1)

    def finish(self, encoding: str) -> tuple[np.ndarray, Feature]:
        """Codes (e,), 1-based in the order of the categories, and what they mean."""
        codes = self.codes.finish()
        if self.known is not None:
            unseen = codes > len(self.known.categories)
            if unseen.any() and self.known.kind != "hash":
                fresh = self.texts[len(self.known.categories) :].to_pylist()
                shown = ", ".join(map(repr, fresh[:5])) + (", …" if len(fresh) > 5 else "")
                warnings.warn(
                    f"{self.name} {shown} is new since the earlier log ({int(unseen.sum()):,} of {len(codes):,} "
                    "events) and counts as none.",
                    PintgnWarning,
                    stacklevel=2,
                )
                codes[unseen] = 0
            self.words = self.texts.to_pylist()
            return codes, self.known
        categories = [self._value(text) for text in self.texts.to_pylist()]
        self._check_mixed(categories)
        if self.untyped and self.forced and all(isinstance(c, str) and _is_whole(c) for c in categories):
            categories = list(map(int, categories))
        order = sorted(range(len(categories)), key=lambda k: categories[k])
        rank = np.zeros(len(categories) + 1, np.int32)
        rank[np.asarray(order, np.int64) + 1] = np.arange(1, len(order) + 1)
        for start in range(0, len(codes), PIECE):  # piece by piece: a whole new column would be held twice
            codes[start : start + PIECE] = rank[codes[start : start + PIECE]]
        if encoding == "auto":
            encoding = "onehot" if len(order) <= MOST_ONE_HOT else "hash"
        ordered = tuple(categories[k] for k in order)
        self.words = list(ordered)
        return codes, Feature(self.name, encoding, *((), ordered) if encoding == "hash" else (ordered,))

    def _texts(self, values: pa.Array, where: Where) -> pa.Array:
        kind = values.type
        if is_text(kind):
            values = pc.ascii_trim_whitespace(values) if self.untyped else values
            # text files write bools in any case
            known = () if self.known is None else self.known.categories
            truths = bool(known) and all(isinstance(c, bool) for c in known)
            return pc.utf8_lower(values) if truths else values
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return values.cast(pa.string())
        raise BadInput(f"column {self.name!r} holds {kind} at {where(0)}; that cannot be a category. Leave it out.")

    def _value(self, text: str) -> Any:
        """A category in the type of its column."""
        if self.kind is not None and pa.types.is_boolean(self.kind):
            return text == "true"
        return int(text) if self.kind is not None and pa.types.is_integer(self.kind) else text

    def _check_mixed(self, categories: list[Any]) -> None:
        """In a text file, names with numbers among them are more likely a spoilt column of numbers."""
        if not self.untyped or self.forced:
            return
        is_word = [isinstance(c, str) and try_cast(pa.array([c]), pa.float64()) is None for c in categories]
        numbers = [c for c, word in zip(categories, is_word, strict=True) if not word]
        words = [c for c, word in zip(categories, is_word, strict=True) if word]
        if numbers and words:
            raise BadInput(
                f"column {self.name!r} mixes numbers such as {numbers[0]!r} with text such as {words[0]!r}. Correct "
                f"it, or say Columns(categorical=[{self.name!r}]) (--categorical {self.name}) if they are all names."
            )


class Labels:
    """Labels of events: int64, or float64 with NaN where missing."""

    def __init__(self, name: str, capacity: int):
        self.name = name
        self.column = Growing(np.int64, capacity)

    def extend(self, values: pa.Array, where: Where) -> None:
        values = plain(values)
        if is_text(values.type):
            parsed = _parsed(values, pa.int64(), pa.float64())
            if isinstance(parsed, int):
                raise BadInput(
                    f"{where(parsed)} has {self.name}={values[parsed].as_py().strip()!r}. A label is a "
                    "number; write kinds of label as 0, 1, 2, …."
                )
            values = parsed
        elif pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        whole = self.column.dtype == np.int64
        if whole and pa.types.is_integer(values.type) and not values.null_count:
            self.column.extend(values.cast(pa.int64()).to_numpy())
            return
        if whole:
            self.column.become_floats()
        self.column.extend(to_numbers(values, self.name, where))


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdigit() and str(int(text)) == text


class FeatureColumns:
    """Columns of numbers and of categories that become one feature matrix."""

    def __init__(
        self, names: list[str], categories: Mapping[str, bool], source: Source, known: Iterable[Feature],
        forced: Collection[str], fill: float | None, decimal: str | None,
    ):  # fmt: skip
        before, capacity = {feature.name: feature for feature in known}, source.rows or 0
        self.names, self.rows = names, 0
        self.numbers = Numbers([name for name in names if not categories[name]], capacity, fill, decimal)
        self.categories = {
            name: Categories(name, capacity, before.get(name), source.untyped, name in forced)
            for name in names
            if categories[name]
        }

    def extend(self, columns: Mapping[str, pa.Array], where: Where, optional: np.ndarray | bool = False) -> None:
        """Take a batch; where `optional` a missing number counts as 0."""
        self.numbers.extend([columns[name] for name in self.numbers.names], where, optional)
        for name, column in self.categories.items():
            column.extend(columns[name], where)
        self.rows += len(next(iter(columns.values())))

    def finish(
        self, encoding: Mapping[str, str], wide: bool | None = False, most_words: int | None = None
    ) -> tuple[np.ndarray, tuple[Feature, ...]]:
        """The matrix and what its columns are, without categories that have more than so many words."""
        numbers = self.numbers.finish(wide)
        described, codes = {name: Feature(name) for name in self.numbers.names}, {}
        for name, column in self.categories.items():
            fresh = column.known is None
            codes[name], described[name] = column.finish(encoding.get(name, "auto"))
            if fresh and most_words is not None and len(described[name].words) > most_words:
                message = f"column {name!r} of the node table is different for nearly every node, and left out."
                warnings.warn(message, PintgnWarning, stacklevel=4)
                del described[name]
        features = tuple(described[name] for name in self.names if name in described)
        if not codes:
            return numbers[:, : len(features)], features
        matrix = np.empty((self.rows, sum(feature.width for feature in features)), numbers.dtype)
        index, start = {name: k for k, name in enumerate(self.numbers.names)}, 0
        for feature in features:
            if feature.name in codes:
                words = self.categories[feature.name].words
                spread(matrix, start, codes.pop(feature.name), feature.kind, words)
            else:
                matrix[:, start] = numbers[:, index[feature.name]]
            start += feature.width
        return matrix, features
