"""Ages, counts and walks as text."""

from __future__ import annotations

from typing import Any

from pintgn.events.schema import TimeUnit
from pintgn.formatting import PER_SECOND, plural

LENGTHS = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def ago(dt: Any, unit: TimeUnit) -> str:
    """Time between an event and the question.

    >>> ago(312, TimeUnit("s")), ago(90_000_000, TimeUnit("ms")), ago(40, TimeUnit("us"))
    ('5 minutes ago', '1 day ago', 'less than a second ago')
    >>> ago(1627, TimeUnit()), ago(0.25, TimeUnit())
    ('1,627 time units ago', '0.25 time units ago')
    """
    if unit.unit is None:
        count = f"{dt:,}" if float(dt).is_integer() else f"{dt:,.4g}"
        return f"{count} time unit{'' if dt == 1 else 's'} ago"
    seconds = dt / PER_SECOND[unit.unit]
    name, length = next((one for one in LENGTHS if seconds >= one[1]), ("", 0))
    return f"{plural(int(seconds // length), name)} ago" if name else "less than a second ago"


def times(count: int) -> str:
    """
    >>> times(1), times(2), times(1200)
    ('once', 'twice', '1,200 times')
    """
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def walks_of(count: float, steps: int) -> str:
    """
    >>> walks_of(3, 2), walks_of(1, 3), walks_of(4e18, 12)
    ('3 two-step walks', '1 three-step walk', '4e+18 12-step walks')
    """
    length = NUMBERS[steps] if steps < len(NUMBERS) else str(steps)
    shown = f"{int(count):,}" if count < 1e12 else f"{count:.0e}"
    return f"{shown} {length}-step walk{'' if count == 1 else 's'}"


def escaped(text: str) -> str:
    """Text that `str.format` leaves unchanged."""
    return text.replace("{", "{{").replace("}", "}}")
