"""Learning curves, and SVG pictures for notebooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pintgn.drawing.plot import Axis, Plot, padded


class Curve(NamedTuple):
    """Values by epoch, NaN if missing; the chosen epoch gets a ring."""

    series: str  # class, and so the color
    name: str
    epochs: Sequence[int]
    values: Sequence[float]
    chosen: int | None = None


def curves(
    shown: Sequence[Curve], label: str, ticks: Callable[[float], str], words: Callable[[float], str]
) -> Plot | None:
    """A plot of curves; None if there are no values. `ticks` formats values at the axis, `words` in tooltips."""
    values = [value for curve in shown for value in curve.values if math.isfinite(value)]
    if not values:
        return None
    last = max(epoch for curve in shown for epoch in curve.epochs)
    numbers = [(float(k), str(k)) for k in range(1, last + 1, max(1, -(-last // 10)))]
    height = Axis(*padded(min(values), max(values), 0.1), label, words=ticks)
    plot = Plot(Axis(0.7, last + 0.3, "epoch", numbers), height)
    for curve in shown:
        plot.line(curve.epochs, curve.values, curve.series)
        for x, y in zip(curve.epochs, curve.values, strict=True):
            chosen = x == curve.chosen
            tip = f"{curve.name}, epoch {x}: {words(y)}" + (", chosen" if chosen else "")
            plot.dot(x, y, curve.series, tip, hollow=chosen, radius=4.4 if chosen else 2.2)
    return plot


class Picture:
    """An SVG drawing that notebooks show; `save` writes it, `str` is its text."""

    def __init__(self, svg: str):
        self.svg = svg

    def save(self, path: str | Path) -> Path:
        """Write an SVG file."""
        from pintgn.errors import BadInput

        path = Path(path)
        if path.suffix != ".svg":
            raise BadInput(f"{path} would be no SVG; a drawing is saved as {path.with_suffix('.svg')}.")
        path.write_text(self.svg, encoding="utf-8")
        return path

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture(SVG, {len(self.svg):,} characters; save it with .save('picture.svg'))"

    def _repr_svg_(self) -> str:
        return self.svg
