"""Drawings of temporal graphs, trees and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pintgn.drawing.svg import INK, Canvas, Point, middle, text_width

if TYPE_CHECKING:
    from pintgn.theory.trees import Tree

FILLS = ("#ffffff", "#bcd7f5", "#ffd59a", "#c9e8b8", "#f3c1c6", "#dcccf0")
"""Fill of nodes by colour class; the first is also the fill of nodes without features."""
QUERIES = ("#1f77b4", "#e8710a")
"""Stroke of the two things that are compared."""
SOFT = "#8a8a8a"
RADIUS = 17.0


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
