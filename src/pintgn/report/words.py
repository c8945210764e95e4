"""Numbers, times and lists as people write them; every number on the page goes through here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pintgn.events.schema import TimeUnit

PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
SPANS = (("s", 1), ("min", 60), ("h", 3600), ("d", 86400), ("y", 365.25 * 86400))
MINUS = "−"


def percent(value: float | None, digits: int = 2) -> str:
    """A share in percent, without the sign; a dash for nothing.

    >>> percent(0.97284), percent(None), percent(0.97284, 1)
    ('97.28', '–', '97.3')
    """
    return "–" if value is None else f"{100 * value:.{digits}f}"


def percent_tick(value: float) -> str:
    """A share on an axis: as many digits as it needs.

    >>> percent_tick(0.5), percent_tick(0.025)
    ('50', '2.5')
    """
    return f"{100 * value:.6g}".replace("-", MINUS)


def signed(value: float | None, digits: int = 2) -> str:
    """A difference of shares in points, with its sign.

    >>> signed(0.0123), signed(-0.5), signed(-0.00001)
    ('+1.23', '−50.00', '0.00')
    """
    if value is None:
        return "–"
    text = f"{abs(100 * value):.{digits}f}"
    if not float(text):
        return text
    return ("+" if value > 0 else MINUS) + text


def count(value: float) -> str:
    """
    >>> count(59835), count(3.0)
    ('59,835', '3')
    """
    return f"{round(value):,}"


def short(value: float) -> str:
    """A number in few characters, for axes.

    >>> [short(v) for v in (0, 0.05, 12, 1234, 15_000, 2_500_000, 1e12, -0.5)]
    ['0', '0.05', '12', '1.2k', '15k', '2.5M', '1e+12', '−0.5']
    """
    if value < 0:
        return MINUS + short(-value)
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size <= value < 1000 * size:
            return f"{value / size:.3g}{letter}" if value >= 10 * size else f"{value / size:.2g}{letter}"
    return f"{value:.3g}"


def duration(value: float, unit: TimeUnit, digits: int = 2) -> str:
    """A length of time: in words where the log has dates, else a bare number in the log's own unit.

    >>> duration(7200, TimeUnit("s")), duration(90_000, TimeUnit("ms")), duration(7200, TimeUnit())
    ('2 h', '1.5 min', '7.2k')
    """
    if unit.unit is None:
        return short(value) if digits == 2 else f"{value:,.{digits + 2}g}"
    return seconds(value / PER_SECOND[unit.unit], digits)


def seconds(value: float, digits: int = 2) -> str:
    """
    >>> seconds(0.25), seconds(14.2), seconds(125), seconds(86400 * 12.87), seconds(86400 * 12.87, 3)
    ('0.25 s', '14 s', '2.1 min', '13 d', '12.9 d')
    """
    name, size = next((span for span in reversed(SPANS) if value >= span[1]), SPANS[0])
    value = value / size
    behind = max(0, digits - 1 - math.floor(math.log10(value))) if value > 0 else 0
    text = f"{value:.{behind}f}"
    return f"{text.rstrip('0').rstrip('.') if behind else text} {name}"


def size(value: float) -> str:
    """Bytes.

    >>> size(512_000), size(3_400_000_000)
    ('512 kB', '3.4 GB')
    """
    for step, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= step:
            return f"{value / step:.3g} {name}"
    return f"{value:.0f} B"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def plural(value: int, word: str) -> str:
    """
    >>> plural(1, "event"), plural(2000, "event")
    ('1 event', '2,000 events')
    """
    return f"{value:,} {word}" + ("" if value == 1 else "s")


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, about `most` of them.

    >>> nice_ticks(0, 10), nice_ticks(0.93, 0.98, 4)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [0.94, 0.96, 0.98])
    """
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(m for m in (1, 2, 2.5, 5, 10) if (high - low) / (step * m) <= most + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)) + 1)
    return [round(k * step, digits) for k in range(first, last + 1)]


def time_ticks(low: Any, high: Any, unit: TimeUnit, most: int = 4) -> list[tuple[float, str]]:
    """Places and words on an axis of times from low to high: dates, or numbers counted from `low`.

    >>> time_ticks(1_700_000_000, 1_710_000_000, TimeUnit("s"))[0]
    (1701388800.0, '2023-12')
    >>> time_ticks(500, 1500, TimeUnit(), 2)
    [(500.0, '0'), (1000.0, '500'), (1500.0, '1k')]
    """
    if unit.unit is None:
        return [(low + value, short(value)) for value in nice_ticks(0, float(high - low), most)]
    return _date_ticks(low, high, unit.unit, most)


def _date_ticks(low: Any, high: Any, unit: str, most: int) -> list[tuple[float, str]]:
    start, stop = np.datetime64(int(low), unit), np.datetime64(int(high), unit)  # type: ignore[call-overload]
    span = float(high - low) / PER_SECOND[unit]
    for code, size, steps, letters in (
        ("Y", 365.25 * 86400, (1, 2, 5, 10, 20, 50, 100), 4),
        ("M", 30.44 * 86400, (1, 2, 3, 6), 7),
        ("D", 86400, (1, 2, 5, 10, 15), 10),
        ("h", 3600, (1, 2, 3, 6, 12), 13),
        ("m", 60, (1, 2, 5, 10, 15, 30), 16),
        ("s", 1, (1, 2, 5, 10, 15, 30), 19),
    ):
        step = next((s for s in steps if span / (s * size) <= most), None)
        if step is None or span / (step * size) < 1.5:
            continue
        first = start.astype(f"datetime64[{code}]").astype(np.int64)
        last = stop.astype(f"datetime64[{code}]").astype(np.int64)
        found = []
        for number in range(int(-(-first // step) * step), int(last) + 1, step):
            place = np.datetime64(number, code)  # type: ignore[call-overload]
            if start <= place <= stop:
                text = str(place.astype("datetime64[s]"))[:letters]
                shown = {"h": text[11:] + ":00", "m": text[11:], "s": text[11:]}.get(code, text)
                shown = text[5:10] if code == "h" and shown == "00:00" else shown  # midnight is when the day changes
                found.append((float(place.astype(f"datetime64[{unit}]").astype(np.int64)), shown))
        if len(found) > 1:
            return found
    return [(float(low), str(start).replace("T", " "))]


def time_label(unit: TimeUnit, low: Any, high: Any) -> str:
    """What an axis of times from low to high means; with the day where only hours stand at its ticks.

    >>> time_label(TimeUnit("s"), 1_700_000_000, 1_700_050_000)
    'time (UTC), from 2023-11-14'
    """
    if unit.unit is None:
        return "time since the first event, in the log's own unit"
    short_span = float(high - low) / PER_SECOND[unit.unit] < 4 * 86400
    day = str(np.datetime64(int(low), unit.unit).astype("datetime64[D]"))  # type: ignore[call-overload]
    return f"time (UTC), from {day}" if short_span else "time (UTC)"
