"""One time, as a person or a program says it, in a log's own count. Whatever takes a time reads it here."""

from __future__ import annotations

import datetime
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.schema import TimeUnit
from pintgn.events.timeformat import UNITS
from pintgn.events.zones import in_zone

LONGEST = 64
"""Characters of a time."""
NUMBER = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+|\.\d+[eE][+-]?\d+)")
YEAR = re.compile(r"\d{4}|\d{6}|\d{8}")
"""A year, a month or a day without separators, or a count close to 1970: no one can tell."""
FRACTION = re.compile(r"([.,]\d{6})(\d+)")
"""Digits beyond microseconds, which Python's datetime does not keep."""
LENGTHS = {
    "W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000,
    "ns": 1,
}  # fmt: skip
"""NumPy's units in nanoseconds."""
FINER = ("ps", "fs", "as")
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
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    given, value = value, _read_text(value, unit) if isinstance(value, str) else value
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.timedelta64):
        return _number(value, given, dtype, bound)
    if unit.unit is None:
        raise BadInput(f"times here are numbers, given {_shown(given)} ({type(given).__name__}).{_as_count(value)}")
    if not isinstance(value, datetime.date | np.datetime64):
        raise BadInput(f"{_shown(given)} is neither a number nor a date {EXAMPLE}.")
    if value != value:  # NaT, of NumPy or pandas
        raise BadInput(f"{_shown(given)} is no time.")
    zoned = isinstance(value, datetime.datetime) and value.tzinfo is not None
    since_1970 = _nanoseconds(value, given)
    if not zoned and (zone := unit.assumed or (unit.zone if bound else None)) is not None:
        seconds, rest = divmod(since_1970, 10**9)
        since_1970, zoned = int(in_zone(np.array([seconds]), "s", zone)[0]) * 10**9 + rest, True
    if zoned != (unit.zone is not None):
        bare = isinstance(given, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", given.strip())
        example = f"{given.strip()}T00:00Z" if bare else "2024-01-31T12:00+01:00"
        has, then = ("without", "Leave it out") if unit.zone is None else ("with", f"Say it, as in {example}")
        raise BadInput(f"times here are dates {has} a time zone, given {_shown(given)}. {then}.")
    per = 1000 ** (3 - UNITS.index(unit.unit))  # type: ignore[arg-type]
    count, rest = divmod(since_1970, per)
    if rest and not bound:
        raise BadInput(f"times here are counted in {unit.unit}, which cannot hold {_shown(given)}. Round it.")
    return _number(count + bool(rest), given, dtype, bound)


def read_duration(value: Any, unit: TimeUnit) -> int | float:
    """A length of time in a log's own unit: a number of it, a `timedelta`, or a text such as P30D, PT1H or 10m.

    >>> read_duration("P30D", TimeUnit("s")), read_duration("PT1H30M", TimeUnit("ms")), read_duration("7.5", TimeUnit())
    (2592000, 5400000, 7.5)
    >>> read_duration("10m", TimeUnit("s")), read_duration("1.5h", TimeUnit("ms")), read_duration("2d", TimeUnit("s"))
    (600, 5400000, 172800)
    """
    given, exact = value, None
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        value = float(value) if not value.strip().lstrip("+-").isdecimal() else int(value)
    if isinstance(value, str) and value.strip() in ("inf", "Infinity"):
        return math.inf
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.timedelta64):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.timedelta64):
        value = value.astype("timedelta64[ns]").astype(np.int64)
        exact = Fraction(int(value))
    elif isinstance(value, datetime.timedelta):
        exact = Fraction((value.days * 86_400 + value.seconds) * 10**6 + value.microseconds) * 1000
    elif isinstance(value, str) and (found := DURATION.fullmatch(value.strip())) and any(found.groups()):
        parts = zip(found.groups(), ("W", "D", "h", "m", "s"), strict=True)
        exact = sum((Fraction(count) * LENGTHS[name] for count, name in parts if count), Fraction())
    elif isinstance(value, str) and (found := SHORT.fullmatch(value.strip())):
        exact = Fraction(found[1]) * LENGTHS[{"d": "D", "w": "W"}.get(found[2], found[2])]
    if exact is None:
        raise BadInput(f"{_shown(given)} is no length of time, such as P30D, 10m or a number in the log's unit.")
    if unit.unit is None:
        raise BadInput(
            f"times here are numbers, so a length of time is one, too, given {_shown(given)}. If they count seconds, "
            f"write {float(exact / 10**9):g}."
        )
    count = exact / 1000 ** (3 - UNITS.index(unit.unit))
    return int(count) if count.denominator == 1 else float(count)


def _as_count(value: Any) -> str:
    """What a date is where times are numbers, if they should count since 1970."""
    try:
        moment = _iso(value.strip()) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime.date | np.datetime64) or moment != moment:
        return ""
    seconds = _nanoseconds(moment, value) // 10**9
    return f" If they count since 1970, write {seconds} (seconds) or {seconds}000 (milliseconds)."


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


def _nanoseconds(value: datetime.date | np.datetime64, given: Any) -> int:
    """Since 1970 UTC, exactly."""
    if hasattr(value, "to_datetime64"):  # pandas, to its own last digit; in UTC where it has a zone
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        name, step = np.datetime_data(value.dtype)
        count = int(value.astype(np.int64)) * step
        if name in ("Y", "M"):
            if abs(count) > 10**9:
                raise BadInput(f"{_shown(given)} is too far away.")
            name, count = "D", int(value.astype("datetime64[D]").astype(np.int64))
        if name in LENGTHS:
            return count * LENGTHS[name]
        count, rest = divmod(count, 1000 ** (1 + FINER.index(name)))
        if rest:
            raise BadInput(f"{_shown(given)} is finer than a nanosecond. Round it.")
        return count
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    since = value - datetime.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else datetime.UTC)
    extra = getattr(value, "nanosecond", 0)
    return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000 + extra


class _Fine(datetime.datetime):
    """A datetime with nanoseconds."""

    nanosecond = 0


def _read_text(text: str, unit: TimeUnit) -> Any:
    """A number where it is one, a date where it is one; as it stands where times are numbers and this is none."""
    plain = text.strip()
    if len(plain) > LONGEST:
        raise BadInput(f"{_shown(text)} is no time: it has {len(plain):,} characters.")
    if unit.unit is not None and unit.written is not None and "%" in unit.written:
        try:
            return datetime.datetime.strptime(plain, unit.written)
        except ValueError:
            pass
    if NUMBER.fullmatch(plain) and plain.isascii():
        if unit.unit is not None and unit.written is None and YEAR.fullmatch(plain):
            raise BadInput(f"{_shown(text)} may be a date or a count. Write a date {EXAMPLE}.")
        return int(plain) if plain.lstrip("+-").isdecimal() else float(plain)
    if unit.unit is None:
        return text
    try:
        return _iso(plain)
    except ValueError:
        raise BadInput(f"{_shown(text)} is neither a number nor a date {EXAMPLE}.") from None


def _iso(text: str) -> datetime.datetime:
    fraction = FRACTION.search(text)
    if fraction is None:
        return datetime.datetime.fromisoformat(text)
    beyond = fraction[2].ljust(3, "0")
    if beyond[3:].strip("0"):
        raise ValueError("finer than a nanosecond")
    moment = _Fine.fromisoformat(text[: fraction.end(1)] + text[fraction.end() :])
    moment.nanosecond = int(beyond[:3])
    return moment


def _shown(given: Any) -> str:
    text = str(given) if isinstance(given, datetime.date | np.datetime64) else repr(given)
    return text if len(text) <= LONGEST + 2 else text[:LONGEST] + "…"
