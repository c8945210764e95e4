"""The time column: numbers or dates in any form become int64 or float64 without losing a digit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, EventOrderError, PintgnWarning
from pintgn.events.columns import SKIP, Growing, first_true, first_uncastable, is_text, plain, try_cast
from pintgn.events.schema import LATEST, TimeUnit, beyond
from pintgn.events.timeformat import KINDS, UNITS, Dates, by_format, kind_of, likely_formats, read_dates

EXACT = 2**53
"""Whole numbers up to here are exact in float64."""
ASSUME = (
    "Write the zone in all rows or in none, or say where the others were written: "
    "FileFormat(assume_zone=…), as in --assume-zone Europe/Berlin."
)


class TimeColumn:
    """Times that arrive batch by batch.

    Whole numbers stay int64. A decimal number makes the column float64, unless that would merge two times that
    were different. Dates are counted in the finest unit (s, ms, us, ns) that the file writes, since 1970 UTC.
    """

    def __init__(
        self,
        name: str,
        where: Callable[[int], str],
        capacity: int = 0,
        sort: bool | None = False,
        written: str | None = None,
        surely: bool = False,
        zone: str | None = None,
    ):
        self.name, self.where, self.sort = name, where, sort
        self.zone = zone  # of dates that are written without one
        self.written, self.surely = written, surely  # the format of the text; whether no other is allowed
        self.column = Growing(np.int64, capacity)
        self.kind: str | None = None  # "whole", "decimal" or "date"
        self.unit = "s"
        self.offsets: set[str | None] = set()
        self.ordered = True
        self.late = ""  # which event was the first to come too late

    def extend(self, values: pa.Array, row: int) -> None:
        """Add a batch whose first event is number `row` of the source."""
        values = plain(values)
        if values.null_count:
            raise self._gap(row + first_true(values.is_null()))
        kind = values.type
        if self.written is not None and self._by_format(values, row):
            return
        if is_text(kind):
            self._text(values, row)
        elif pa.types.is_decimal(kind):
            self._text(values.cast(pa.string()), row)
        elif pa.types.is_integer(kind):
            self._whole(values, row)
        elif pa.types.is_floating(kind):
            self._decimal(values, row)
        elif (dates := read_dates(values, self.zone)) is not None:
            self._date(dates, row)
        else:
            raise BadInput(
                f"times in {self.name!r} are {kind}; they can be numbers, timestamps or ISO-8601 text "
                "such as 2021-01-04T09:30:00Z."
            )

    def finish(self, like: TimeUnit | None = None) -> tuple[np.ndarray, TimeUnit]:
        """All times and what they count; in the unit of an earlier log where one is given."""
        if self.late:
            warnings.warn(f"{self.late}: the events were sorted by time.", PintgnWarning, stacklevel=2)
        offsets = {None if offset is None else str(offset) for offset in self.offsets}
        zone = None if not offsets or offsets == {None} else (offsets.pop() if len(offsets) == 1 else "UTC")
        time = TimeUnit(self.unit, zone, self.written, self.zone) if self.kind == "date" else TimeUnit()
        if self.zone is not None and self.kind not in (None, "date"):
            raise BadInput(f"times in {self.name!r} are numbers, which have no time zone. Leave out assume_zone.")
        if like is not None and self.column.length:
            time = self._as_in(like, time)
        return self.column.finish(), time

    # -- kinds ---------------------------------------------------------------------------------------------

    def _by_format(self, values: pa.Array, row: int) -> bool:
        """Take times that are written in a format of their own; False where they turn out to be written otherwise."""
        kind, written = values.type, str(self.written)
        if not (is_text(kind) or pa.types.is_integer(kind) or (self.surely and pa.types.is_floating(kind))):
            return False
        found = by_format(values, written)
        if not isinstance(found, int):
            self._date(found.in_zone(self.zone), row)
        elif self.surely:
            expected = f"a whole number of {written}" if written in UNITS else f"as {written}"
            raise BadInput(
                f"{self.where(row + found)} has {self.name}={values[found].as_py()!r}, which is not written "
                f"{expected}. Correct it, or the format."
            )
        return not isinstance(found, int)

    def _text(self, values: pa.Array, row: int) -> None:
        values = pc.ascii_trim_whitespace(values)
        if (gap := first_true(pc.equal(values, ""))) >= 0:
            raise self._gap(row + gap)
        if self.kind != "date":
            whole = try_cast(values, pa.int64())
            if whole is not None:
                return self._whole(whole, row)
            decimal = try_cast(values, pa.float64())
            if decimal is not None:
                return self._decimal(decimal, row, values)
        dates = read_dates(values, self.zone, self.unit if self.kind == "date" else "s")
        if dates is None:
            raise self._unreadable(values, row)
        self._date(dates, row)

    def _whole(self, values: pa.Array, row: int) -> None:
        try:
            numbers = values.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            bad = first_true(pc.greater(values, pa.scalar(2**63 - 1, pa.uint64())))
            raise BadInput(
                f"{self.where(row + bad)} has {self.name}={values[bad]}, beyond 2**63 - 1. Times must fit in int64."
            ) from error
        if self.kind == "decimal":
            self._check_exact(numbers, row)
        self._append(numbers, row, self.kind if self.kind == "decimal" else "whole")

    def _decimal(self, values: pa.Array, row: int, text: pa.Array | None = None) -> None:
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if (bad := first_true(~np.isfinite(numbers))) >= 0:
            raise BadInput(f"{self.where(row + bad)} has {self.name}={numbers[bad]}. Every event needs a finite time.")
        if text is not None:
            self._check_digits(numbers, text, row)
        elif values.type.bit_width < 64 and len(numbers) and np.abs(numbers).max() >= 2**24:
            warnings.warn(
                f"times in {self.name!r} are {values.type}: they are kept exactly as stored, but such times above "
                "16,777,216 were already rounded when the data was written, so distinct times may have merged. "
                "Write int64 or float64 instead.",
                PintgnWarning,
                stacklevel=2,
            )
        if self.kind in (None, "whole"):
            self._check_exact(self.column.values, 0)
            self.column.become_floats()
        self._append(numbers, row, "decimal")

    def _date(self, dates: Dates, row: int) -> None:
        counts, unit, offsets = dates
        if self.offsets and (None in self.offsets) != (None in offsets):
            raise BadInput(
                f"times in {self.name!r} are written with a time zone in some rows and without in others, as in "
                f"{self.where(row)}. {ASSUME}"
            )
        self.offsets |= offsets
        if self.kind is None:
            self.unit = unit
        elif self.kind == "date" and UNITS.index(unit) > UNITS.index(self.unit):
            self.column.values[:] = self._finer(self.column.values, self.unit, unit)
            self.unit = unit
        elif unit != self.unit:
            counts = self._finer(counts, unit, self.unit)
        self._append(counts, row, "date")

    # -- checks --------------------------------------------------------------------------------------------

    def _gap(self, row: int) -> BadInput:
        return BadInput(f"{self.where(row)} has no time: {self.name!r} is empty. {SKIP}")

    def _append(self, values: np.ndarray, row: int, kind: str) -> None:
        if self.kind is not None and "date" in (self.kind, kind) and self.kind != kind:
            now, so_far = ("a date", "numbers") if kind == "date" else ("a number", "dates")
            raise BadInput(f"{self.where(row)} has {now} in {self.name!r}, where there were {so_far}. Use one kind.")
        self.kind = kind
        if not len(values):
            return
        if (far := beyond(values)) >= 0:
            raise BadInput(
                f"{self.where(row + far)} has {self.name}={values[far]}; times are within ±{LATEST:.3g}. "
                "Check the unit, or count from a later start."
            )
        known = np.append(self.column.values[-1], values) if self.column.length else values
        if (before := first_true(known[1:] < known[:-1])) >= 0:
            if self.ordered and not self.sort:
                show = TimeUnit(self.unit, self.zone).show if self.kind == "date" else str
                late = self.where(row + before + 1 - (len(known) - len(values)))
                late = f"{late} has {self.name}={show(known[before + 1])}, earlier than the event before it "
                late += f"({self.name}={show(known[before])})"
                if self.sort is not None:
                    raise EventOrderError(f"{late}. Sort the events by time, or pass Cleaning(sort=True) (--sort).")
                self.late = late
            self.ordered = False
        self.column.extend(values)

    def _check_exact(self, numbers: np.ndarray, row: int) -> None:
        if (bad := first_true((numbers > EXACT) | (numbers < -EXACT))) >= 0:
            raise BadInput(
                f"{self.where(row + bad)} has {self.name}={numbers[bad]} in a column of decimal numbers, which float64 "
                "cannot hold to the last digit. Write all times as whole numbers of a smaller unit."
            )

    def _check_digits(self, numbers: np.ndarray, text: pa.Array, row: int) -> None:
        """Refuse text with more digits than float64 holds where that changes a whole number or merges two times."""
        for k in np.flatnonzero(np.abs(numbers) >= EXACT).tolist():
            written = text[k].as_py()
            whole = written.lstrip("+-").isdecimal()
            if whole and (abs(numbers[k]) >= 2**63 or int(written) != int(numbers[k])):
                raise BadInput(
                    f"{self.where(row + k)} has {self.name}={written}, more digits than int64 or float64 can hold. "
                    "Write times as whole numbers below 2**63, or as dates."
                )
        for k in np.flatnonzero(numbers[1:] == numbers[:-1]).tolist():
            one, other = text[k].as_py(), text[k + 1].as_py()
            if one != other and _number(one) != _number(other):
                raise BadInput(
                    f"{self.where(row + k + 1)} has {self.name}={other}, which float64 cannot tell from {one} before "
                    "it. Write times as whole numbers of a smaller unit, or as dates."
                )

    def _finer(self, counts: np.ndarray, unit: str, to: str) -> np.ndarray:
        factor = 1000 ** (UNITS.index(to) - UNITS.index(unit))
        if len(counts) and max(int(counts.max()), -int(counts.min())) * factor >= 2**63:
            raise BadInput(f"some times in {self.name!r} are written to the {to}, others are too far away to count so.")
        return counts * factor

    def _unreadable(self, values: pa.Array, row: int) -> BadInput:
        """What is wrong with a batch that is neither all numbers nor all dates: the first row unlike the others."""
        expected = kind_of(values[0].as_py())
        if self.kind is not None:
            expected = "number" if self.kind != "date" else "date" if None in self.offsets else "zoned"
        k = first_uncastable(values, *KINDS[expected or "date"])
        kind = kind_of(values[k].as_py())
        shown = f"{self.where(row + k)} has {self.name}={values[k].as_py()!r}"
        if kind is None or expected is None:
            likely = likely_formats(values[k].as_py())
            if likely:
                formats = " or ".join(repr(format) for format in likely[:2])
                return BadInput(
                    f"{shown}, which is no ISO-8601 date. Say how it is written: FileFormat(time_format=…), "
                    f"--time-format {formats}."
                )
            return BadInput(f"{shown}, neither a number nor an ISO-8601 date such as 2021-01-04T09:30:00Z. {SKIP}")
        if {kind, expected} == {"date", "zoned"}:
            other = "without a time zone" if kind == "date" else "with a time zone"
            return BadInput(f"{shown}, {other}, unlike the rows before it. {ASSUME}")
        if kind != expected:
            return BadInput(f"{shown}, unlike the rows before it: numbers and dates are mixed. Use one of the two.")
        return BadInput(
            f"{shown}: times written to the ns must lie between 1677 and 2262. Write fewer digits, or leave it out."
        )

    def _as_in(self, like: TimeUnit, time: TimeUnit) -> TimeUnit:
        """Count as an earlier log does; an error when that is not possible exactly."""
        if (like.unit is None) != (time.unit is None):
            given, expected = ("dates", "numbers") if like.unit is None else ("numbers", "dates")
            raise BadInput(f"times in {self.name!r} are {given}; the earlier log has {expected}. Write them alike.")
        if like.unit is None or time.unit is None:
            return like
        if (like.zone is None) != (time.zone is None):
            raise BadInput(
                f"only one of this file and the earlier log has time zones in {self.name!r}. Write them alike, or say "
                "where times without one were written: FileFormat(assume_zone=…) (--assume-zone)."
            )
        if UNITS.index(time.unit) <= UNITS.index(like.unit):
            self.column.values[:] = self._finer(self.column.values, time.unit, like.unit)
        else:
            factor = 1000 ** (UNITS.index(time.unit) - UNITS.index(like.unit))
            if (bad := first_true(self.column.values % factor != 0)) >= 0:
                raise BadInput(
                    f"{self.where(bad)} has a time finer than the {like.unit} of the earlier log. Round it, or read "
                    "both files as one."
                )
            self.column.values[:] //= factor
        return like


def _number(text: str) -> Any:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
