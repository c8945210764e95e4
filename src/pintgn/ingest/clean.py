"""Cleaning of dirty tables: unusable rows are left out and counted, repeats are dropped."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.columns import empty_cells, is_text, plain, try_cast
from pintgn.events.kernels_order import ADD, NODE, REMOVE
from pintgn.events.numbering import whole_floats
from pintgn.events.schema import LATEST
from pintgn.events.timeformat import KINDS, by_format, kind_of, likely_formats
from pintgn.events.times import ASSUME
from pintgn.ingest.amounts import advice, tidy
from pintgn.ingest.feature_columns import to_numbers, trimmed
from pintgn.ingest.ops import MEANING
from pintgn.ingest.table_source import Hints, Source

if TYPE_CHECKING:
    from pintgn.ingest.builder import Plan

SHOWN = 3
"""Bad rows of each kind that are named."""
NUMBERS, DATES, ZONED = KINDS["number"], KINDS["date"], KINDS["zoned"]


class Cleaned(Source):
    """A source without its unusable rows; each is counted under its first fault."""

    def __init__(self, source: Source, plan: Plan, categories: Callable[[pa.RecordBatch], Mapping[str, bool]]):
        self.source, self.plan, self.categories = source, plan, categories
        self.title, self.rows, self.untyped = source.title, source.rows, source.untyped
        self._set_names(source.names)
        self.kinds: Mapping[str, bool] | None = None
        self.time: tuple[pa.DataType, ...] | None = None
        self.read = self.skipped = 0
        self.dropped: list[np.ndarray] = []
        self.faults: defaultdict[str, list[str]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.advice = ""
        source.drop_unreadable(self._unreadable)

    def batches(self, columns: Sequence[str], hints: Hints | None = None) -> Iterator[pa.RecordBatch]:
        for batch in self.source.batches(columns):
            self.kinds = self.kinds or self.categories(batch)
            bad = self._bad(dict(zip(columns, batch.columns, strict=True)), batch.num_rows)
            self.dropped.append(self.read + np.flatnonzero(bad))
            self.read += batch.num_rows
            yield self._ids_whole(batch.filter(pa.array(~bad)) if bad.any() else batch)
        self._report()

    def _ids_whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Ids that are floats only because one of them was missing, as the whole numbers they were."""
        for k, name in enumerate(batch.schema.names):
            if name in (self.plan.src, self.plan.dst) and (whole := whole_floats(batch.column(k))) is not None:
                batch = batch.set_column(k, name, whole)
        return batch

    def where(self, row: int) -> str:
        gone = np.concatenate(self.dropped) if self.dropped else np.zeros(0, np.int64)
        return self.source.where(row + int(np.searchsorted(gone - np.arange(len(gone)), row, "right")))

    # -- what is wrong -------------------------------------------------------------------------------------

    def _unreadable(self, what: str, where: str) -> None:
        """A row that the source itself could not make sense of, and has left out."""
        self.skipped += 1
        self._count(what, 1, [where] if where else [])

    def _count(self, what: str, count: int, examples: list[str]) -> None:
        self.counts[what] += count
        self.faults[what] += examples[: SHOWN - len(self.faults[what])]

    def _bad(self, columns: dict[str, pa.Array], rows: int) -> np.ndarray:  # (rows,) bool
        bad = np.zeros(rows, bool)
        for what, mask, name in self._checks(columns, rows):
            fresh = np.flatnonzero(mask & ~bad)
            if len(fresh):
                wanted = SHOWN - len(self.faults[what])
                shown = [self._example(columns, name, int(row)) for row in fresh[:wanted]]
                if name is not None and not self.advice:
                    self.advice = self._ways_out(name, str(columns[name][int(fresh[0])].as_py()))
                self._count(what, len(fresh), shown)
                bad[fresh] = True
        return bad

    def _example(self, columns: dict[str, pa.Array], name: str | None, row: int) -> str:
        where = self.source.where(self.read + row)
        value = None if name is None else columns[name][row].as_py()
        return where if value in (None, "") else f"{where}: {str(value).strip()[:40]!r}"

    def _ways_out(self, name: str, value: str) -> str:
        """Options that would read an unusable value as it is."""
        if name != self.plan.t:
            return advice(value)
        if kind_of(value) in ("date", "zoned"):
            return f" {ASSUME}"
        formats = " or ".join(map(repr, likely_formats(value)[:2]))
        return f" Say how times are written: FileFormat(time_format=…), --time-format {formats}." if formats else ""

    def _checks(self, columns: dict[str, pa.Array], rows: int) -> Iterator[tuple[str, np.ndarray, str | None]]:
        plan = self.plan
        op = np.full(rows, ADD, np.int8)
        if plan.op is not None:
            words = plain(columns[plan.op]).cast(pa.string()).fill_null("").dictionary_encode()
            known = [MEANING.get(word.strip().lower(), 99) for word in words.dictionary.to_pylist()]
            op = np.array(known, np.int8)[words.indices.to_numpy()]
            yield f"with no op in {plan.op!r} that is known", op == 99, plan.op
        gaps = [empty_cells(columns[name], self.untyped) for name in (plan.src, plan.dst)]
        alone = (op == NODE) | (op == REMOVE)
        for name, gap, other in ((plan.src, *gaps), (plan.dst, *gaps[::-1])):
            yield f"without {name!r}", gap & (~alone | other), None
        yield f"without {plan.t!r}", empty_cells(columns[plan.t], True), None
        yield f"with no time in {plan.t!r}", self._no_time(plain(columns[plan.t])), plan.t
        for name in plan.features:
            if not (self.kinds or {})[name]:
                yield from self._numbers(name, columns[name], op == ADD)
        for name in plan.node_updates:
            yield from self._numbers(name, columns[name], op == NODE)
        if plan.label is not None:
            yield from list(self._numbers(plan.label, columns[plan.label], np.zeros(rows, bool)))[:1]

    def _numbers(self, name: str, values: pa.Array, needed: np.ndarray) -> Iterator[tuple[str, np.ndarray, str | None]]:
        values = plain(values)
        unlike = np.zeros(len(values), bool)
        if is_text(values.type):
            values = tidy(trimmed(values), self.plan.format.decimal)
            unlike = ~_castable(values, (pa.float64(),))
            values = pc.if_else(pa.array(unlike), None, values)
        yield f"with no number in {name!r}", unlike, name
        numbers = to_numbers(values, name, str)
        missing = np.isnan(numbers)
        if self.plan.cleaning.fill is None:
            yield f"without {name!r}", missing & needed, None
        with np.errstate(over="ignore"):
            yield f"with too large a number in {name!r}", ~missing & ~np.isfinite(numbers.astype(np.float32)), name

    def _no_time(self, values: pa.Array) -> np.ndarray:  # (rows,) bool
        """Times unlike most of the first ones; none of them where all are of one type already."""
        if pa.types.is_floating(values.type):
            return ~(np.abs(values.fill_null(0).to_numpy(zero_copy_only=False)) <= LATEST)
        if not is_text(values.type):
            return np.zeros(len(values), bool)
        values = pc.ascii_trim_whitespace(values.fill_null(""))
        if self.plan.written is not None:
            fits = _castable(values, (), self.plan.written)
            if fits.any() or self.plan.format.time_format is not None:
                return ~fits
        if self.time is None:
            kinds = [NUMBERS, DATES, ZONED] if self.plan.assume_zone is None else [NUMBERS, (*DATES, *ZONED)]
            self.time = max(kinds, key=lambda kind: int(_castable(values, kind).sum()))
        fits = _castable(values, self.time)
        if self.time == NUMBERS:
            numbers = pc.if_else(pa.array(fits), values, "0").cast(pa.float64()).to_numpy(zero_copy_only=False)
            fits &= np.abs(numbers) <= LATEST
        return ~fits

    # -- what was left out ---------------------------------------------------------------------------------

    def _report(self) -> None:
        bad, rows = sum(self.counts.values()), self.read + self.skipped
        if not bad:
            return
        parts = []
        for what, count in self.counts.most_common():
            shown = self.faults[what]
            where = f" ({', '.join(shown)}{', …' if count > len(shown) else ''})" if shown else ""
            parts.append(f"{count:,} {what}{where}")
        most = self.plan.cleaning.max_bad
        if bad > (most * rows if most < 1 else most):
            limit = f"{100 * most:g} %" if most < 1 else f"{most:,.0f}"
            more = f" Correct them, or raise the limit: Cleaning(max_bad={bad}), --max-bad {bad}."
            raise BadInput(
                f"{bad:,} of {rows:,} rows cannot be used, more than the {limit} that may be skipped: "
                f"{'; '.join(parts)}.{self.advice or more}"
            )
        warnings.warn(f"skipped {bad:,} of {rows:,} rows: {'; '.join(parts)}.", PintgnWarning, stacklevel=2)


def _castable(values: pa.Array, kinds: Sequence[pa.DataType], format: str | None = None) -> np.ndarray:
    """Mask of the values of one of these types, or in a time format; found by halving, among the distinct ones."""
    coded = values.dictionary_encode()
    distinct = coded.dictionary
    fits = np.zeros(len(distinct), bool)
    ranges = [(0, len(distinct))] if len(distinct) else []
    while ranges:
        low, high = ranges.pop()
        part = distinct.slice(low, high - low)
        if format is not None:
            whole = not isinstance(by_format(part, format), int)
        else:
            whole = any(try_cast(part, kind) is not None for kind in kinds)
        if whole:
            fits[low:high] = True
        elif high - low > 1:
            middle = (low + high) // 2
            ranges += [(low, middle), (middle, high)]
    codes = coded.indices.fill_null(-1).to_numpy()
    return np.append(fits, True)[codes]  # a missing value is no bad one
