"""Times and lengths of time as people or programs write them, in a log's own count."""

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
NUMBER = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+|\.\d+[eE][+-]?\d+)", re.A)
YEAR = re.compile(r"\d{4}|\d{6}|\d{8}")
"""A year, a month or a day without separators, or a count close to 1970: no one can tell."""
COARSE = ("Y", "M", "W", "h")
"""Units in which NumPy writes dates shorter than Arrow reads them."""
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
    value = _as_text(given)
    dates = None
    if isinstance(value, str):
        if len(value) > LONGEST:
            raise BadInput(f"{_shown(given)} is no time: it has {len(value):,} characters.")
        dates = _dates(value, unit, unit.assumed or (unit.zone if bound else None))
        if dates is None and (number := _number_in(value)) is not None:
            if unit.unit is not None and unit.written is None and YEAR.fullmatch(value):
                raise BadInput(f"{_shown(given)} may be a date or a count. Write a date {EXAMPLE}.")
            value = number
    if _is_number(value):
        return _counted(value, given, dtype, bound)
    if unit.unit is None:
        count = "" if dates is None else int(dates.counts[0]) * LENGTHS[dates.unit] // 10**9
        advice = f" If they count since 1970, write {count} (seconds) or {count}000 (milliseconds)." if dates else ""
        raise BadInput(f"times here are numbers, given {_shown(given)} ({type(given).__name__}).{advice}")
    if dates is None:
        raise BadInput(f"{_shown(given)} is neither a number nor a date {EXAMPLE}.")
    if (dates.zones == {None}) != (unit.zone is None):
        example = f"{value}T00:00Z" if len(value) == len("2024-01-31") else "2024-01-31T12:00+01:00"
        has, then = ("without", "Leave it out") if unit.zone is None else ("with", f"Say it, as in {example}")
        raise BadInput(f"times here are dates {has} a time zone, given {_shown(given)}. {then}.")
    count, rest = divmod(int(dates.counts[0]) * LENGTHS[dates.unit], LENGTHS[unit.unit])
    if rest and not bound:
        raise BadInput(f"times here are counted in {unit.unit}, which cannot hold {_shown(given)}. Round it.")
    return _counted(count + bool(rest), given, dtype, bound)


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
    if isinstance(value, np.timedelta64):
        exact = Fraction(int(value.astype("timedelta64[ns]").astype(np.int64)))
    elif isinstance(value, datetime.timedelta):
        exact = Fraction(value // datetime.timedelta(microseconds=1)) * 1000
    elif isinstance(value, str):
        value = value.strip()
        if (found := DURATION.fullmatch(value)) and any(found.groups()):
            parts = zip(found.groups(), "wdhms", strict=True)
            exact = sum((Fraction(count) * LENGTHS[name] for count, name in parts if count), Fraction())
        elif found := SHORT.fullmatch(value):
            exact = Fraction(found[1]) * LENGTHS[found[2]]
        else:
            value = math.inf if value in ("inf", "Infinity") else _number_in(value)
    if _is_number(value):
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


def _as_text(value: Any) -> Any:
    """A text without blanks around it, and a date of Python, pandas or NumPy as one; anything else as it is."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        if np.datetime_data(value.dtype)[0] not in COARSE:
            return str(value)
        if abs(int(value.astype(np.int64))) < 10**9:  # seconds hold that many years and more
            return np.datetime_as_string(value, unit="s")
    return value


def _dates(text: str, unit: TimeUnit, zone: str | None) -> Dates | None:
    """A date as a column of one: written as in the log's file, or as ISO-8601."""
    if unit.unit is not None and unit.written is not None and "%" in unit.written:
        found = by_format(pa.array([text]), unit.written)
        if isinstance(found, Dates):
            return found.in_zone(zone)
    return None if NUMBER.fullmatch(text) else read_dates(pa.array([text]), zone)


def _number_in(text: str) -> int | float | None:
    if NUMBER.fullmatch(text) is None:
        return None
    return int(text) if text.lstrip("+-").isdecimal() else float(text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.timedelta64)


def _counted(value: Any, given: Any, dtype: np.dtype | None, bound: bool) -> Any:
    """A number in the type of a log's times."""
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
