"""Drawings of temporal graphs, trees and bars as SVG text; no library is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import hypot
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pintgn.theory.trees import Tree

Point = tuple[float, float]
FILLS = ("#ffffff", "#bcd7f5", "#ffd59a", "#c9e8b8", "#f3c1c6", "#dcccf0")
"""Fill of nodes by colour class; the first is also the fill of nodes without features."""
QUERIES = ("#1f77b4", "#e8710a")
"""Stroke of the two things that are compared."""
INK, SOFT = "#222222", "#8a8a8a"
RADIUS = 17.0
FONT = "font-family='Helvetica, Arial, sans-serif'"


@dataclass
class Canvas:
    """Shapes so far, in order, and the room they take."""

    parts: list[str] = field(default_factory=list)
    right: float = 0
    bottom: float = 0

    def reach(self, x: float, y: float) -> None:
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)

    def line(
        self, a: Point, b: Point, color: str = INK, dash: bool = False, bend: float = 0, width: float = 1.6
    ) -> None:
        style = f"stroke='{color}' stroke-width='{width}' fill='none'" + (" stroke-dasharray='6 5'" if dash else "")
        if bend:
            cx, cy = middle(a, b, 2 * bend)
            self.parts.append(f"<path d='M{_n(a[0])} {_n(a[1])} Q{_n(cx)} {_n(cy)} {_n(b[0])} {_n(b[1])}' {style}/>")
        else:
            self.parts.append(f"<path d='M{_n(a[0])} {_n(a[1])} L{_n(b[0])} {_n(b[1])}' {style}/>")

    def circle(self, at: Point, radius: float, fill: str, stroke: str = INK, width: float = 1.6) -> None:
        self.parts.append(
            f"<circle cx='{_n(at[0])}' cy='{_n(at[1])}' r='{_n(radius)}' fill='{fill}' stroke='{stroke}' "
            f"stroke-width='{width}'/>"
        )
        self.reach(at[0] + radius, at[1] + radius)

    def text(
        self, at: Point, text: str, size: float = 14, color: str = INK, anchor: str = "middle", halo: bool = False
    ) -> None:
        edge = " stroke='#ffffff' stroke-width='5' paint-order='stroke' stroke-linejoin='round'" if halo else ""
        self.parts.append(
            f"<text x='{_n(at[0])}' y='{_n(at[1] + 0.36 * size)}' font-size='{_n(size)}' {FONT} text-anchor='{anchor}' "
            f"fill='{color}'{edge}>{escape(text)}</text>"
        )
        wide = text_width(text, size) * {"middle": 0.5, "start": 1, "end": 0}[anchor]
        self.reach(at[0] + wide, at[1] + size)

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        self.parts.append(
            f"<rect x='{_n(x)}' y='{_n(y)}' width='{_n(width)}' height='{_n(height)}' fill='{fill}' rx='2'/>"
        )
        self.reach(x + width, y + height)

    def place(self, other: Canvas, x: float, y: float) -> None:
        """Another drawing, moved."""
        self.parts.append(f"<g transform='translate({_n(x)} {_n(y)})'>" + "".join(other.parts) + "</g>")
        self.reach(x + other.right, y + other.bottom)

    def svg(self, title: str, margin: float = 16) -> str:
        """The whole drawing; a white ground keeps it readable on dark pages."""
        width, height = self.right + 2 * margin, self.bottom + 2 * margin
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{_n(width)}' height='{_n(height)}' "
            f"viewBox='{_n(-margin)} {_n(-margin)} {_n(width)} {_n(height)}' role='img'>"
            f"<title>{escape(title)}</title>"
            f"<rect x='{_n(-margin)}' y='{_n(-margin)}' width='{_n(width)}' height='{_n(height)}' fill='#ffffff'/>"
            + "\n".join(self.parts)
            + "</svg>\n"
        )


def graph(
    layout: Mapping[str, Point],
    events: Sequence[tuple[str, str, float]],
    fills: Mapping[str, int] | None = None,
    marked: Sequence[Sequence[str]] = (),
    caption: str = "",
    unit: float = 84,
) -> Canvas:
    """A temporal graph: nodes where `layout` puts them, events as lines with their time.

    `marked` are the two things compared: a pair is drawn as a dashed line, a single node as a coloured ring.
    """
    canvas = Canvas()
    left, top = min(x for x, _ in layout.values()), min(y for _, y in layout.values())
    head = 34 if caption else 0
    at = {name: ((x - left) * unit + RADIUS, (y - top) * unit + RADIUS + head) for name, (x, y) in layout.items()}
    if caption:
        canvas.text((0, 8), caption, 14, anchor="start")
    pairs = {frozenset(event[:2]) for event in events}
    drawn: dict[frozenset[str], int] = {}
    for color, mark in zip(QUERIES, marked, strict=False):
        if len(mark) == 2:
            aside = 30 if frozenset(mark) in pairs else 0
            canvas.line(at[mark[0]], at[mark[1]], color, dash=True, bend=aside, width=2.2)
    labels = []
    for u, v, t in events:
        pair = frozenset((u, v))
        bend: float = -22.0 * drawn.get(pair, 0)
        drawn[pair] = drawn.get(pair, 0) + 1
        canvas.line(at[u], at[v], bend=bend)
        labels.append((middle(at[u], at[v], bend), f"{t:g}"))
    for place, text in labels:
        canvas.text(place, text, 13, halo=True)
    rings = {mark[0]: color for color, mark in zip(QUERIES, marked, strict=False) if len(mark) == 1}
    for name, place in at.items():
        ring = rings.get(name)
        canvas.circle(place, RADIUS, FILLS[(fills or {}).get(name, 0) % len(FILLS)], ring or INK, 3 if ring else 1.6)
        canvas.text(place, name, 14)
    return canvas


def side_by_side(drawings: Sequence[Canvas], gap: float = 70) -> Canvas:
    canvas = Canvas()
    for drawing in drawings:
        canvas.place(drawing, canvas.right + (gap if canvas.parts else 0), 0)
    return canvas


def tree(tree: Tree, caption: str = "", level: float = 72, spread: float = 44) -> Canvas:
    """A tree, root on top; edges carry the times of their events."""
    canvas = Canvas()
    head = 34 if caption else 0
    if caption:
        canvas.text((0, 8), caption, 14, anchor="start")
    x = [0.0] * tree.size
    free = 0.0
    for place in _leaves_in_order(tree):
        x[place] = free
        free += max(spread, text_width(tree.label(place), 13) + 14)
    for place in range(tree.size - 1, -1, -1):
        below = tree.children[place]
        if below:
            x[place] = (x[below[0]] + x[below[-1]]) / 2
    at = [(x[i] + RADIUS, node.level * level + RADIUS + head) for i, node in enumerate(tree.nodes)]
    classes = {state: i for i, state in enumerate(sorted(set(tree.states), key=repr, reverse=True))}  # as one-hot
    for place, node in enumerate(tree.nodes):
        if node.parent >= 0:
            canvas.line(at[node.parent], at[place], SOFT)
    for place, node in enumerate(tree.nodes):
        if node.parent >= 0:
            # nearer to the child, where lines from one parent are apart
            (ax, ay), (bx, by) = at[node.parent], at[place]
            canvas.text((ax + 0.6 * (bx - ax), ay + 0.6 * (by - ay)), tree.time(place), 12, halo=True)
    for place, node in enumerate(tree.nodes):
        fill = FILLS[classes[tree.states[node.node]] % len(FILLS)]
        canvas.circle(at[place], RADIUS - 3, fill)
        canvas.text(at[place], tree.label(place), 13)
    return canvas


def tree_svg(shown: Tree, most: int = 400) -> str:
    """A tree as a whole drawing; a very large one is cut to the levels that fit."""
    depth = shown.depth
    while depth and shown.cut(depth).size > most:
        depth -= 1
    note = f", cut at level {depth}" if depth < shown.depth else ""
    title = f"{shown.kind} tree of {shown.label(0)}{note}"
    return tree(shown.cut(depth), title).svg(title)


def _leaves_in_order(shown: Tree) -> list[int]:
    order, stack = [], [0]
    while stack:
        place = stack.pop()
        below = shown.children[place]
        if below:
            stack += reversed(below)
        else:
            order.append(place)
    return order


def bars(
    title: str, rows: Sequence[tuple[str, Sequence[tuple[float, str]], str]], key: Sequence[tuple[str, str]] = ()
) -> Canvas:
    """Horizontal stacked bars: each row has a name, (share, fill) pieces and a note at the end."""
    canvas = Canvas()
    canvas.text((0, 8), title, 15, anchor="start")
    x = 0.0
    for name, fill in key:
        canvas.box(x, 30, 12, 12, fill)
        canvas.text((x + 18, 36), name, 12, anchor="start")
        x += 18 + text_width(name, 12) + 22
    names = max((text_width(name, 13) for name, *_ in rows), default=0) + 14
    y = 58.0 if key else 32.0
    for name, pieces, note in rows:
        canvas.text((names - 12, y + 9), name, 13, anchor="end")
        at = names
        canvas.box(names, y, 300, 18, "#f1f1f1")
        for share, fill in pieces:
            if share > 0:
                canvas.box(at, y, 300 * share, 18, fill)
            at += 300 * share
        canvas.text((names + 310, y + 9), note, 12, anchor="start")
        y += 26
    return canvas


def middle(a: Point, b: Point, bend: float = 0) -> Point:
    """The point half way from a to b, moved sideways."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = hypot(dx, dy) or 1
    return (a[0] + b[0]) / 2 - bend * dy / length, (a[1] + b[1]) / 2 + bend * dx / length


def text_width(text: str, size: float) -> float:
    return 0.62 * size * len(text)  # wide enough for the fonts that stand in for Helvetica


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
