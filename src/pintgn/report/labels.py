"""Labels of times and shares on pages and axes; other formats are in `pintgn.formatting`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pintgn import formatting
from pintgn.drawing.plot import nice_ticks
from pintgn.events.schema import TimeUnit
from pintgn.formatting import MINUS, PER_SECOND, short, span

percent = partial(formatting.percent, none="–")


def percent_tick(value: float) -> str:
    """A share on an axis: as many digits as it needs.

    >>> percent_tick(0.5), percent_tick(0.025)
    ('50', '2.5')
    """
    return f"{100 * value:.6g}".replace("-", MINUS)


def duration(value: float, unit: TimeUnit, digits: int = 2) -> str:
    """A length of time with its unit, or a number in the log's own unit if it has no dates.

    >>> duration(7200, TimeUnit("s")), duration(90_000, TimeUnit("ms")), duration(7200, TimeUnit())
    ('2 h', '1.5 min', '7.2k')
    """
    if unit.unit is None:
        return short(value) if digits == 2 else f"{value:,.{digits + 2}g}"
    return span(value / PER_SECOND[unit.unit], digits)


def time_ticks(low: Any, high: Any, unit: TimeUnit, most: int = 4) -> list[tuple[float, str]]:
    """Ticks of an axis of times from low to high: dates, or numbers counted from `low`.

    >>> time_ticks(1_700_000_000, 1_710_000_000, TimeUnit("s"))[0]
    (1701388800.0, '2023-12')
    >>> time_ticks(500, 1500, TimeUnit(), 2)
    [(500.0, '0'), (1000.0, '500'), (1500.0, '1k')]
    """
    if unit.unit is None:
        return [(low + value, short(value)) for value in nice_ticks(0, float(high - low), most)]
    start, stop = (np.datetime64(int(t), unit.unit) for t in (low, high))  # type: ignore[call-overload]
    width = float(high - low) / PER_SECOND[unit.unit]
    for code, size, steps, letters in (
        ("Y", 365.25 * 86400, (1, 2, 5, 10, 20, 50, 100), 4),
        ("M", 30.44 * 86400, (1, 2, 3, 6), 7),
        ("D", 86400, (1, 2, 5, 10, 15), 10),
        ("h", 3600, (1, 2, 3, 6, 12), 13),
        ("m", 60, (1, 2, 5, 10, 15, 30), 16),
        ("s", 1, (1, 2, 5, 10, 15, 30), 19),
    ):
        step = next((s for s in steps if width / (s * size) <= most), None)
        if step is None or width / (step * size) < 1.5:
            continue
        first = start.astype(f"datetime64[{code}]").astype(np.int64)
        last = stop.astype(f"datetime64[{code}]").astype(np.int64)
        found = []
        for number in range(int(-(-first // step) * step), int(last) + 1, step):
            tick = np.datetime64(number, code)  # type: ignore[call-overload]
            if start <= tick <= stop:
                text = str(tick.astype("datetime64[s]"))[:letters]
                shown = {"h": text[11:] + ":00", "m": text[11:], "s": text[11:]}.get(code, text)
                shown = text[5:10] if code == "h" and shown == "00:00" else shown  # midnight is when the day changes
                found.append((float(tick.astype(f"datetime64[{unit.unit}]").astype(np.int64)), shown))
        if len(found) > 1:
            return found
    return [(float(low), str(start).replace("T", " "))]


def time_label(unit: TimeUnit, low: Any, high: Any) -> str:
    """The label of a time axis, with the day if the ticks show only hours.

    >>> time_label(TimeUnit("s"), 1_700_000_000, 1_700_050_000)
    'time (UTC), from 2023-11-14'
    """
    if unit.unit is None:
        return "time since the first event, in the log's own unit"
    short_span = float(high - low) / PER_SECOND[unit.unit] < 4 * 86400
    day = str(np.datetime64(int(low), unit.unit).astype("datetime64[D]"))  # type: ignore[call-overload]
    return f"time (UTC), from {day}" if short_span else "time (UTC)"
