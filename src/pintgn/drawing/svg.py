"""SVG elements, documents, and a canvas of shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from math import hypot
from typing import Any

Point = tuple[float, float]
INK = "#222222"
FONT = "Helvetica, Arial, sans-serif"


def element(tag: str, body: str = "", **attributes: Any) -> str:
    """An element around others; numbers have one decimal, `kind` is its class, None is left out.

    >>> element("text", escape("a < b"), kind="note", x=1.26, font_size=11, fill=None)
    '<text class="note" x="1.3" font-size="11">a &lt; b</text>'
    """
    written = "".join(
        f' {NAMES.get(name) or name.replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>{body}</{tag}>" if body else f"<{tag}{written}/>"


NAMES = {"kind": "class", "view_box": "viewBox"}


def _value(value: Any) -> str:
    return escape(value, quote=True) if isinstance(value, str) else coordinate(value)


def coordinate(value: float) -> str:
    """
    >>> coordinate(12.0), coordinate(0.26)
    ('12', '0.3')
    """
    return f"{value:.1f}".rstrip("0").rstrip(".")


def path(*steps: str | float) -> str:
    """The `d` of a path: letters and numbers.

    >>> path("M", 1, 2.04, "H", 30.5)
    'M1 2H30.5'
    """
    written = ""
    for step in steps:
        text = step if isinstance(step, str) else coordinate(step)
        written += f" {text}" if written and written[-1].isdigit() and not isinstance(step, str) else text
    return written


def tip(text: str) -> str:
    """A tooltip."""
    return element("title", escape(text, quote=False)) if text else ""


def document(body: str, width: float, height: float, title: str, x: float = 0, y: float = 0, **more: Any) -> str:
    """An SVG document with a white background, readable on dark pages."""
    box: Any = {"x": x or None, "y": y or None, "width": width, "height": height}
    view = " ".join(map(coordinate, (x, y, width, height)))
    inner = tip(title) + element("rect", **box, fill="#ffffff") + "\n" + body
    size = {"width": width, "height": height, "view_box": view}
    return element("svg", inner, xmlns="http://www.w3.org/2000/svg", **size, role="img", **more) + "\n"


@dataclass
class Canvas:
    """Shapes in order, and their extent to the right and down."""

    parts: list[str] = field(default_factory=list)
    right: float = 0
    bottom: float = 0

    def reach(self, x: float, y: float) -> None:
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)

    def line(
        self, a: Point, b: Point, color: str = INK, dash: bool = False, bend: float = 0, width: float = 1.6
    ) -> None:
        style: Any = {"stroke": color, "stroke_width": width, "fill": "none"}
        style |= {"stroke_dasharray": "6 5"} if dash else {}
        curve = ("Q", *middle(a, b, 2 * bend)) if bend else ("L",)
        self.parts.append(element("path", d=path("M", *a, *curve, *b), **style))

    def circle(self, at: Point, radius: float, fill: str, stroke: str = INK, width: float = 1.6) -> None:
        x, y = at
        self.parts.append(element("circle", cx=x, cy=y, r=radius, fill=fill, stroke=stroke, stroke_width=width))
        self.reach(x + radius, y + radius)

    def text(
        self, at: Point, text: str, size: float = 14, color: str = INK, anchor: str = "middle", halo: bool = False
    ) -> None:
        edge: dict[str, Any] = {"stroke": "#ffffff", "stroke_width": 5, "paint_order": "stroke"} if halo else {}
        edge |= {"stroke_linejoin": "round"} if halo else {}
        look = {"font_size": size, "font_family": FONT, "text_anchor": anchor, "fill": color}
        self.parts.append(element("text", escape(text), x=at[0], y=at[1] + 0.36 * size, **look, **edge))
        wide = text_width(text, size) * {"middle": 0.5, "start": 1, "end": 0}[anchor]
        self.reach(at[0] + wide, at[1] + size)

    def insert(self, other: Canvas, x: float, y: float) -> None:
        """Insert another drawing at an offset."""
        self.parts.append(moved("".join(other.parts), x, y))
        self.reach(x + other.right, y + other.bottom)

    def svg(self, title: str, margin: float = 16) -> str:
        """The whole drawing."""
        size = (self.right + 2 * margin, self.bottom + 2 * margin)
        return document("\n".join(self.parts), *size, title, -margin, -margin)


def moved(body: str, x: float, y: float) -> str:
    return element("g", body, transform=f"translate({coordinate(x)} {coordinate(y)})")


def middle(a: Point, b: Point, bend: float = 0) -> Point:
    """The point half way from a to b, moved sideways."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = hypot(dx, dy) or 1
    return (a[0] + b[0]) / 2 - bend * dy / length, (a[1] + b[1]) / 2 + bend * dx / length


def text_width(text: str, size: float) -> float:
    return 0.62 * size * len(text)  # wide enough for the fonts that stand in for Helvetica
