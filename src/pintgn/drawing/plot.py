"""Charts as SVG, with text as text and colors from a style sheet, dark or light.

Without a plotting library, a page can be written wherever pintgn is installed, a chart takes a few kilobytes, and it
follows the reader's theme. A chart is 400 wide and shown at about that size, so its text stays readable. `sheet` puts
charts into one file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pintgn.drawing.svg import coordinate, document, element, moved, path, tip
from pintgn.formatting import short

WIDTH, HEIGHT = 400, 236
LETTER = 6.2
"""Width of a letter of a label, on the safe side."""

Ticks = Sequence[tuple[float, str]]
Point = tuple[float, float, float, str]
"""A value, from where to where it might be, and what to say about it."""


class Axis(NamedTuple):
    """Range, label and ticks of an axis; by default ticks are round numbers."""

    low: float
    high: float
    label: str = ""
    ticks: Ticks | None = None
    words: Callable[[float], str] = short
    log: bool = False

    def marked(self, most: int) -> Ticks:
        if self.ticks is not None:
            return self.ticks
        if self.log:
            return _powers(self.low, self.high)
        return [(value, self.words(value)) for value in nice_ticks(self.low, self.high, most)]

    def scale(self, a: float, b: float) -> Callable[[float], float]:
        """The function from values to coordinates between a and b."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        return lambda value: a + (b - a) * ((math.log10(value) if self.log else value) - low) / (high - low or 1.0)


class Plot:
    """A chart: axes, then marks in data coordinates.

    Args:
        left: width of the words of the y axis.
        name: what the chart shows, for those who cannot see it.
        grid: lines across from the ticks of `x`, of `y` or of both.
    """

    def __init__(self, x: Axis, y: Axis, *, left: float = 40, height: float = HEIGHT, name: str = "", grid: str = "y"):
        self.left, self.right = left, WIDTH - 12.0
        self.top, self.bottom = (24.0 if y.label else 10.0), height - (38.0 if x.label else 22.0)
        self.height, self.name = height, name or f"{y.label} by {x.label}"
        self._x, self._y = x.scale(self.left, self.right), y.scale(self.bottom, self.top)
        self.parts: list[str] = []
        for value, word in y.marked(4):
            if "y" in grid:
                self.rule("mesh", y=value)
            self._text(self.left - 6, self._y(value) + 4, word, "tick", "end")
        for value, word in _apart(self._x, x.marked(5)):
            if "x" in grid:
                self.rule("mesh", x=value)
            half = LETTER * len(word) / 2
            self._text(min(max(self._x(value), half), WIDTH - half - 1), self.bottom + 15, word, "tick", "middle")
        if grid == "y":
            self._path("base", "M", self.left, self.bottom, "H", self.right)
        if y.label:
            self._text(2, 12, y.label, "label", "start")
        if x.label:
            self._text(self.right, height - 4, x.label, "label", "end")

    # -- marks -------------------------------------------------------------------------------------------------------

    def line(self, xs: Sequence[float], ys: Sequence[float], series: str, dash: bool = False) -> None:
        """A line through points; it breaks where a value is missing."""
        steps: list[str | float] = []
        pen = "M"
        for x, y in zip(xs, ys, strict=True):
            if math.isfinite(y):
                steps += [pen, self._x(x), self._y(y)]
            pen = "L" if math.isfinite(y) else "M"
        if steps:
            self._path(f"{series} line{' dash' * dash}", *steps)

    def dot(self, x: float, y: float, series: str, words: str = "", hollow: bool = False, radius: float = 3.2) -> None:
        if math.isfinite(x) and math.isfinite(y):
            kind = f"{series} {'ring' if hollow else 'dot'}"
            self.parts.append(element("circle", tip(words), kind=kind, cx=self._x(x), cy=self._y(y), r=radius))

    def whisker(self, a: tuple[float, float], b: tuple[float, float], series: str) -> None:
        """A thin line from one point to another, for an interval."""
        (ax, ay), (bx, by) = ((self._x(x), self._y(y)) for x, y in (a, b))
        self._path(f"{series} whisker", "M", ax, ay, "L", bx, by)

    def bar(self, x0: float, x1: float, y0: float, y1: float, series: str, words: str = "", gap: float = 0.5) -> None:
        left, right = self._x(x0) + gap, self._x(x1) - gap
        low, high = self._y(y0), self._y(y1)
        if right > left and low - high > 0.05:
            box: Any = {"x": left, "y": high, "width": right - left, "height": low - high}
            self.parts.append(element("rect", tip(words), kind=f"{series} bar", **box))

    def area(self, edges: Sequence[float], heights: Sequence[float], series: str) -> None:
        """A histogram as one outlined shape."""
        floor = self._y(0)
        steps: list[str | float] = ["M", self._x(edges[0]), floor]
        for k, height in enumerate(heights):
            steps += ["L", self._x(edges[k]), self._y(height), "H", self._x(edges[k + 1])]
        self._path(f"{series} area", *steps, "V", floor, "Z")

    def span(self, x0: float, x1: float, kind: str, words: Sequence[str] = ()) -> None:
        """A shaded range of the x axis, named by the first of `words` that fits."""
        left, right = self._x(x0), self._x(x1)
        box: Any = {"x": left, "y": self.top, "width": right - left, "height": self.bottom - self.top}
        self.parts.insert(0, element("rect", kind=kind, **box))
        word = next((word for word in words if right - left > LETTER * len(word)), None)
        if word is not None:
            self._text((left + right) / 2, self.top + 11, word, "note", "middle")

    def rule(self, kind: str, *, x: float | None = None, y: float | None = None) -> None:
        """A line across the chart."""
        if x is not None:
            self._path(kind, "M", self._x(x), self.top, "V", self.bottom)
        if y is not None:
            self._path(kind, "M", self.left, self._y(y), "H", self.right)

    def diagonal(self) -> None:
        self._path("rule", "M", self.left, self.bottom, "L", self.right, self.top)

    def note(self, x: float, y: float, word: str, anchor: str = "start") -> None:
        self._text(self._x(x), self._y(y) + 4, word, "note", anchor)

    def _text(self, x: float, y: float, word: str, kind: str, anchor: str) -> None:
        self.parts.append(element("text", escape(word), kind=kind, x=x, y=y, text_anchor=anchor))

    def _path(self, kind: str, *steps: str | float) -> None:
        self.parts.append(element("path", kind=kind, d=path(*steps)))

    def svg(self) -> str:
        """The chart as an SVG element of a page."""
        view = f"0 0 {WIDTH} {coordinate(self.height)}"
        return element("svg", "".join(self.parts), view_box=view, role="img", aria_label=self.name)


def dot_plot(
    rows: Sequence[str],
    series: Sequence[tuple[str, Sequence[Point | None]]],
    *,
    x_label: str,
    words: Callable[[float], str],
    zero: bool = False,
    name: str = "",
) -> Plot:
    """Figures as dots on horizontal lines, one line for each row, with whiskers from low to high.

    Args:
        rows: words at the left.
        series: class, and a point for each row, or None.
        zero: whether a line marks zero.
    """
    rows = [row if len(row) <= 22 else f"{row[:21]}…" for row in rows]
    drawn = [point for _, points in series for point in points if point is not None]
    values = [value for point in drawn for value in point[:3]] + [0.0] * zero
    low, high = padded(min(values), max(values))
    left = max(LETTER * max(map(len, rows)) + 14, 40)
    row_height = 24.0 if len(series) == 1 else 11.0 * len(series) + 16
    height = 10 + row_height * len(rows) + 38
    heights = [(len(rows) - 0.5 - k, word) for k, word in enumerate(rows)]
    ticks = [(value, words(value)) for value in nice_ticks(low, high, 4)]
    x, y = Axis(low, high, x_label, ticks), Axis(0, len(rows), ticks=heights)
    plot = Plot(x, y, left=left, height=height, grid="x", name=name)
    if zero:
        plot.rule("base", x=0.0)
    for k in range(1, len(rows) if len(series) > 1 else 0):
        plot.rule("mesh", y=float(k))
    step = 11.0 / row_height
    for k, (kind, points) in enumerate(series):
        shift = ((len(series) - 1) / 2 - k) * step
        for (y_row, _), point in zip(heights, points, strict=True):
            if point is not None:
                value, least, most, tooltip = point
                plot.whisker((least, y_row + shift), (most, y_row + shift), kind)
                plot.dot(value, y_row + shift, kind, tooltip, radius=3.6)
    return plot


Key = tuple[str, str, str]
"""A line of a legend: series, mark (`line`, `line dash`, `dot`, `ring` or `bar`) and words."""
THEME = (
    "--card:#fff;--ink:#1a1d21;--soft:#5d6570;--line:#e3e3de;--strong:#c9c9c2;--c0:#2461d8;--c1:#d9730d;--c2:#128a82;"
    "--c3:#8a4fd8;--c4:#c9306b;--c5:#6f7f1d;--h0:#a2a8b0;--h1:#5d6570;--ghost:#ecece7;--bar:#8a93a0"
)


def sheet(title: str, plots: Mapping[str, Plot], legend: Sequence[Key], columns: int = 2) -> str:
    """Titled charts in a row with a legend below, as an SVG document."""
    parts, top = [element("style", f"svg{{{THEME}}}\n{chart_style()}")], 0.0
    plotted = list(plots.items())
    for first in range(0, len(plotted), columns):
        row = plotted[first : first + columns]
        for k, (name, plot) in enumerate(row):
            head = element("text", escape(name), kind="head", x=plot.left, y=14)
            parts.append(moved(head + moved("".join(plot.parts), 0, 20), k * (WIDTH + 16), top))
        top += max(plot.height for _, plot in row) + 36
    width, x = min(columns, len(plots)) * (WIDTH + 16) - 16, 0.0
    for series, mark, words in legend:
        wide = 30 + LETTER * len(words) + 18
        if x and x + wide > width:
            x, top = 0.0, top + 18
        parts.append(moved(_mark(series, mark) + element("text", escape(words), kind="label", x=28, y=4), x, top))
        x += wide
    return document("\n".join(parts), width + 24, top + 26, title, -12, -8)


def _mark(series: str, mark: str) -> str:
    if mark.startswith("line"):
        return element("path", kind=f"{series} {mark}", d=path("M", 0, 0, "H", 22))
    if mark == "bar":
        return element("rect", kind=f"{series} bar", x=4, y=-6, width=12, height=12)
    return element("circle", kind=f"{series} {mark}", cx=11, cy=0, r=3.6)


@cache
def chart_style() -> str:
    """The style sheet of charts, which reads the colors --soft, --line, --c0 … of a page."""
    return Path(__file__).with_name("chart.css").read_text(encoding="utf-8")


def padded(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """The range from low to high with a margin, never empty.

    >>> padded(0.0, 1.0), padded(2.0, 2.0)
    ((-0.06, 1.06), (1.94, 2.06))
    """
    margin = (high - low or 1.0) * share
    return low - margin, high + margin


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


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    """Powers of ten on a logarithmic axis, about five of them; 1, 2 and 5 where it is short."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 1:
        found = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
        return [(value, short(value)) for value in found if low <= value <= high]
    step = max(1, -(-(last - first) // 5))
    return [(10.0**k, short(10.0**k)) for k in range(first, last + 1, step)]


def _apart(scale: Callable[[float], float], ticks: Ticks) -> Ticks:
    """Every k-th tick, with the smallest k whose labels do not overlap."""
    for step in range(1, len(ticks) + 1):
        kept = ticks[::step]
        free = [abs(scale(b[0]) - scale(a[0])) >= LETTER * (len(a[1]) + len(b[1])) / 2 + 4 for a, b in pairwise(kept)]
        if all(free):
            return kept
    return ticks[:1]
