"""One time, or one length of time, as a person or a program says it, in a log's own count."""

from __future__ import annotations

import datetime
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput
from pintgn.events.schema import TimeUnit
from pintgn.events.timeformat import Dates, by_format, read_dates

LONGEST = 64
"""Characters of a time."""
NUMBER = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+|\.\d+[eE][+-]?\d+)")
YEAR = re.compile(r"\d{4}|\d{6}|\d{8}")
"""A year, a month or a day without separators, or a count close to 1970: no one can tell."""
COARSE, FINE = ("Y", "M", "W", "D", "h", "m"), ("ps", "fs", "as")
"""Units of NumPy that Arrow does not have."""
FARTHEST = 10**9
"""Of such a coarse unit, counted from 1970."""
LENGTHS = {
    "w": 604_800 * 10**9, "d": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000,
    "ns": 1,
}  # fmt: skip
"""In nanoseconds."""
DURATION = re.compile(
    r"P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
"""ISO-8601: P30D, PT1H. Years and months have no fixed length."""
SHORT = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h|d|w)")
"""As people write it: 10m, 1.5h."""
SECONDS = re.compile(r"(.*([+-])\d\d:\d\d):(\d\d)")
EXAMPLE = "such as 2024-01-31 or 2024-01-31T12:00"


def read_time(value: Any, unit: TimeUnit, dtype: np.dtype | None, *, bound: bool = False) -> Any:
    """A time in a log's own count, as a NumPy number of its type.

    A **number** (of Python or NumPy) counts in the log's unit, also where the log has dates. A **date** is an ISO-8601
    text, or one written as the log's file writes them, a `datetime`, a `date`, a pandas `Timestamp` or a NumPy
    `datetime64`; it has a time zone where the log's dates have one, and none where they have none. A **text** that is a
    number counts as that number. Anything else is refused, and so is what the log's unit cannot hold to the last digit.
    What happens must say its zone; a bound without one is in the zone that the log's dates are shown in.

    Args:
        value: the time.
        unit, dtype: `log.schema.time` and `log.t.dtype`; without a dtype a number keeps its own kind.
        bound: the time is only compared with others, as in `t < bound`: one that the log cannot hold counts as the next
            later one that it can, and the infinities are allowed.

    >>> read_time("2024-01-31", TimeUnit("s"), np.dtype("int64"))
    np.int64(1706659200)
    >>> read_time(2.5, TimeUnit(), np.dtype("int64"), bound=True)
    np.int64(3)
    """
    given: Any = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    value = given
    zone = unit.assumed or (unit.zone if bound else None)
    dates: Dates | None = None
    if isinstance(value, str):
        value = value.strip()
        if len(value) > LONGEST:
            raise BadInput(f"{_shown(given)} is no time: it has {len(value):,} characters.")
        if unit.unit is not None and unit.written is not None and "%" in unit.written:
            found = by_format(pa.array([value]), unit.written)
            dates = found.in_zone(zone) if isinstance(found, Dates) else None
        if dates is None and NUMBER.fullmatch(value) and value.isascii():
            if unit.unit is not None and unit.written is None and YEAR.fullmatch(value):
                raise BadInput(f"{_shown(given)} may be a date or a count. Write a date {EXAMPLE}.")
            value = int(value) if value.lstrip("+-").isdecimal() else float(value)
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.timedelta64):
        return _number(value, given, dtype, bound)
    dates = dates or _as_dates(value, given, zone)
    if unit.unit is None:
        count = "" if dates is None else _nanoseconds(dates) // 10**9
        advice = f" If they count since 1970, write {count} (seconds) or {count}000 (milliseconds)." if dates else ""
        raise BadInput(f"times here are numbers, given {_shown(given)} ({type(given).__name__}).{advice}")
    if dates is None:
        raise BadInput(f"{_shown(given)} is neither a number nor a date {EXAMPLE}.")
    if (dates.zones == {None}) != (unit.zone is None):
        bare = isinstance(given, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", given.strip())
        example = f"{given.strip()}T00:00Z" if bare else "2024-01-31T12:00+01:00"
        has, then = ("without", "Leave it out") if unit.zone is None else ("with", f"Say it, as in {example}")
        raise BadInput(f"times here are dates {has} a time zone, given {_shown(given)}. {then}.")
    count, rest = divmod(_nanoseconds(dates), LENGTHS[unit.unit])
    if rest and not bound:
        raise BadInput(f"times here are counted in {unit.unit}, which cannot hold {_shown(given)}. Round it.")
    return _number(count + bool(rest), given, dtype, bound)


def read_times(texts: list[str], unit: TimeUnit) -> np.ndarray | None:
    """A column (e,) of dates as `read_time` reads each, at once; None where that must be done one by one."""
    if unit.unit is None or unit.written is not None:
        return None
    dates = read_dates(pa.array(texts), unit.assumed)
    if dates is None or (None in dates.zones) != (unit.zone is None) or LENGTHS[dates.unit] < LENGTHS[unit.unit]:
        return None
    factor = LENGTHS[dates.unit] // LENGTHS[unit.unit]
    return None if np.abs(dates.counts).max(initial=0) > 2**62 // factor else dates.counts * factor


def read_duration(value: Any, unit: TimeUnit) -> int | float:
    """A length of time in a log's own unit: a number of it, a `timedelta`, or a text such as P30D, PT1H or 10m.

    >>> read_duration("P30D", TimeUnit("s")), read_duration("PT1H30M", TimeUnit("ms")), read_duration("7.5", TimeUnit())
    (2592000, 5400000, 7.5)
    >>> read_duration("10m", TimeUnit("s")), read_duration("1.5h", TimeUnit("ms")), read_duration("2d", TimeUnit("s"))
    (600, 5400000, 172800)
    """
    given, exact = value, None
    if isinstance(value, str):
        value = value.strip()
        if NUMBER.fullmatch(value) or value in ("inf", "Infinity"):
            value = int(value) if value.lstrip("+-").isdecimal() else float(value)
        elif (found := DURATION.fullmatch(value)) and any(found.groups()):
            parts = zip(found.groups(), "wdhms", strict=True)
            exact = sum((Fraction(count) * LENGTHS[name] for count, name in parts if count), Fraction())
        elif found := SHORT.fullmatch(value):
            exact = Fraction(found[1]) * LENGTHS[found[2]]
    elif isinstance(value, np.timedelta64):
        exact = Fraction(int(value.astype("timedelta64[ns]").astype(np.int64)))
    elif isinstance(value, datetime.timedelta):
        exact = Fraction((value.days * 86_400 + value.seconds) * 10**6 + value.microseconds) * 1000
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.timedelta64):
        return value.item() if isinstance(value, np.generic) else value
    if exact is None:
        raise BadInput(f"{_shown(given)} is no length of time, such as P30D, 10m or a number in the log's unit.")
    if unit.unit is None:
        raise BadInput(
            f"times here are numbers, so a length of time is one, too, given {_shown(given)}. If they count seconds, "
            f"write {float(exact / 10**9):g}."
        )
    count = exact / LENGTHS[unit.unit]
    return int(count) if count.denominator == 1 else float(count)


def _as_dates(value: Any, given: Any, zone: str | None) -> Dates | None:
    """A date as a column of one."""
    if isinstance(value, datetime.date | np.datetime64) and value != value:  # NaT, of NumPy or pandas
        raise BadInput(f"{_shown(given)} is no time.")
    written: set[str | None] | None = {"UTC"} if hasattr(value, "to_datetime64") and value.tzinfo is not None else None
    if hasattr(value, "to_datetime64"):  # pandas, to its own last digit; in UTC where it has a zone
        value = value.to_datetime64()
    if isinstance(value, str) and (odd := SECONDS.fullmatch(value)):  # an offset of before there were time zones
        dates = _as_dates(odd[1], given, None)
        return dates and dates._replace(
            counts=dates.counts - int(odd[2] + odd[3]) * LENGTHS["s"] // LENGTHS[dates.unit]
        )
    if isinstance(value, np.datetime64):
        name = np.datetime_data(value.dtype)[0]
        if name in FINE:
            raise BadInput(f"{_shown(given)} is finer than a nanosecond. Round it.")
        if name in COARSE:
            if abs(int(value.astype(np.int64))) > FARTHEST:
                raise BadInput(f"{_shown(given)} is too far away.")
            value = value.astype("datetime64[s]")
    try:
        values = pa.array([value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    dates = None if values.null_count else read_dates(values, None if written else zone)
    return dates and dates._replace(zones=written or dates.zones)


def _nanoseconds(dates: Dates) -> int:
    """Of one date, since 1970 UTC."""
    return int(dates.counts[0]) * LENGTHS[dates.unit]


def _number(value: Any, given: Any, dtype: np.dtype | None, bound: bool) -> Any:
    whole = isinstance(value, int | np.integer)
    value = int(value) if whole else float(value)
    if bound and not whole and math.isinf(value):
        return np.float64(value)
    if not whole and not math.isfinite(value):
        raise BadInput(f"a time is finite, given {_shown(given)}.")
    kind = dtype.kind if dtype is not None else "i" if whole else "f"
    if kind == "f":
        if whole and (abs(value) > 2**1000 or int(float(value)) != value):
            raise BadInput(f"times here are decimal numbers, which cannot hold {_shown(given)} to the last digit.")
        return np.float64(value)
    if value != math.floor(value):
        if not bound:
            raise BadInput(f"times here are whole numbers, given {_shown(given)}.")
        value = math.ceil(value)
    if not -(2**63) <= value < 2**63:
        if bound:  # before or after every time that there can be
            return np.float64(math.copysign(math.inf, value))
        raise BadInput(f"times here are within ±2**63, given {_shown(given)}.")
    return np.int64(int(value))


def _shown(given: Any) -> str:
    text = str(given) if isinstance(given, datetime.date | np.datetime64) else repr(given)
    return text if len(text) <= LONGEST + 2 else text[:LONGEST] + "…"
