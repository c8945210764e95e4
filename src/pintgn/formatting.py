"""Numbers, sizes, times, lists and tables as text. The rules are in docs/architecture.md, "Output"."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

SPANS = (("s", 1), ("min", 60), ("h", 3600), ("d", 86400), ("y", 365.25 * 86400))
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Ticks of a unit of time in a second."""
MINUS = "−"
ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://?)")
"""Start of an address; a `Path` has made one slash of two. The name of a drive has one letter."""


def percent(value: Any, digits: int = 2, none: str = "-") -> str:
    """A share in percent, without the sign; a pair is mean ± deviation.

    >>> percent(0.97213), percent((0.9, 0.012)), percent(None), percent(0.97284, 1)
    ('97.21', '90.00 ± 1.20', '-', '97.3')
    """
    if value is None:
        return none
    middle, deviation = value if isinstance(value, tuple) else (value, None)
    return spread(100 * middle, None if deviation is None else 100 * deviation, digits)


def spread(middle: float, deviation: float | None = None, digits: int = 2) -> str:
    """
    >>> spread(97.853, 0.07), spread(97.8)
    ('97.85 ± 0.07', '97.80')
    """
    return f"{middle:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def spread_of(values: Sequence[float], digits: int = 2) -> str:
    """Mean and sample deviation.

    >>> spread_of([97.8, 97.9]), spread_of([97.8])
    ('97.85 ± 0.07', '97.80')
    """
    return spread(mean(values), stdev(values) if len(values) > 1 else None, digits)


def signed(value: float | None, digits: int = 2) -> str:
    """A difference of shares in points, with its sign.

    >>> signed(0.0123), signed(-0.5), signed(-0.00001)
    ('+1.23', '−50.00', '0.00')
    """
    if value is None:
        return "–"
    text = f"{abs(100 * value):.{digits}f}"
    return text if not float(text) else ("+" if value > 0 else MINUS) + text


def count(value: float) -> str:
    """
    >>> count(59835), count(3.0)
    ('59,835', '3')
    """
    return f"{round(value):,}"


def plural(value: int, noun: str) -> str:
    """
    >>> plural(1, "event"), plural(12345, "event")
    ('1 event', '12,345 events')
    """
    return f"{value:,} {noun}" + ("" if value == 1 else "s")


def share(part: int, whole: int) -> str:
    """A count with its share of the whole.

    >>> share(16410, 125235)
    '16,410 (13.1 %)'
    """
    return f"{part:,} ({percent(part / whole, 1)} %)" if whole else f"{part:,}"


def number(value: float) -> str:
    """A number with thousands separators and at most four significant digits behind the point.

    >>> number(125235), number(0.123456), number(1234.5)
    ('125,235', '0.1235', '1,234')
    """
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


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


def size(value: float) -> str:
    """Bytes.

    >>> size(512), size(63_400_000), size(1_234), size(478.1e6)
    ('512 B', '63.4 MB', '1.2 kB', '478 MB')
    """
    for step, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= step:
            return f"{value / step:,.{1 if value < 100 * step else 0}f} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float) -> str:
    """Seconds as a duration.

    >>> duration(0.04), duration(8.14), duration(75), duration(8000)
    ('0.0 s', '8.1 s', '1 min 15 s', '2 h 13 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    return f"{minutes} min {round(seconds) % 60} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def span(seconds: float, digits: int = 2) -> str:
    """About how long: so many significant digits of the largest unit that fits.

    >>> span(0.25), span(14.2), span(125), span(86400 * 12.87), span(86400 * 12.87, 3)
    ('0.25 s', '14 s', '2.1 min', '13 d', '12.9 d')
    """
    name, length = next((one for one in reversed(SPANS) if seconds >= one[1]), SPANS[0])
    value = seconds / length
    behind = max(0, digits - 1 - math.floor(math.log10(value))) if value > 0 else 0
    text = f"{value:.{behind}f}"
    return f"{text.rstrip('0').rstrip('.') if behind else text} {name}"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns of text, the first `left` of them aligned left.

    >>> print(text_table(["model", "AP"], [["pint", "97.20"], ["edgebank", "7.1"]]))
    model        AP
    ────────  ─────
    pint      97.20
    edgebank    7.1
    """
    every = [heads, *rows] if heads else rows
    widths = [max(map(len, cells)) for cells in zip(*every, strict=True)]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.ljust(w) if k < left else cell.rjust(w) for k, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    top = [line(heads), "  ".join("─" * w for w in widths)] if heads else []
    return "\n".join([*top, *map(line, rows)])


def shown_address(address: str) -> str:
    """A file or an address, fit to be shown: without password, parameters and query.

    >>> shown_address("postgresql://ann:secret@db:5432/shop?sslmode=require#orders"), shown_address("shop.db#orders")
    ('postgresql://ann@db:5432/shop', 'shop.db')
    """
    if os.path.exists(address):
        return address
    bare = address.partition("#")[0]
    if not (found := ADDRESS.match(bare)):
        return bare
    whole = bare if "@" in bare else address  # a password may hold anything
    login, at, rest = whole[found.end() :].rpartition("@")
    user = "" if found[1] == "s3" else re.split("[:/?#]", login)[0]
    return f"{found[1]}://{user}{at if user else ''}{re.split('[?#]', rest)[0]}"
