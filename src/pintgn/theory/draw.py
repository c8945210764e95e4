"""Drawings of temporal graphs and trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pintgn.drawing.svg import INK, Canvas, Point, middle, text_width

if TYPE_CHECKING:
    from pintgn.theory.computation_trees import Tree

FILLS = ("#ffffff", "#bcd7f5", "#ffd59a", "#c9e8b8", "#f3c1c6", "#dcccf0")
"""Fill of nodes by colour class; the first is also the fill of nodes without features."""
QUERIES = ("#1f77b4", "#e8710a")
"""Stroke of the two things that are compared."""
SOFT = "#8a8a8a"
RADIUS = 17.0
UNIT = 84.0
"""Pixels between two nodes that a layout puts one apart."""


def graph(
    layout: Mapping[str, Point],
    events: Sequence[tuple[str, str, float]],
    fills: Mapping[str, int] | None = None,
    marked: Sequence[Sequence[str]] = (),
    caption: str = "",
) -> Canvas:
    """A temporal graph: nodes where `layout` puts them, events as lines with their time.

    `marked` are the two things compared: a pair is drawn as a dashed line, a single node as a coloured ring.
    """
    canvas, head = _captioned(caption)
    left, top = min(x for x, _ in layout.values()), min(y for _, y in layout.values())
    at = {name: ((x - left) * UNIT + RADIUS, (y - top) * UNIT + RADIUS + head) for name, (x, y) in layout.items()}
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
    for point, text in labels:
        canvas.text(point, text, 13, halo=True)
    rings = {mark[0]: color for color, mark in zip(QUERIES, marked, strict=False) if len(mark) == 1}
    for name, point in at.items():
        ring = rings.get(name)
        canvas.circle(point, RADIUS, FILLS[(fills or {}).get(name, 0) % len(FILLS)], ring or INK, 3 if ring else 1.6)
        canvas.text(point, name, 14)
    return canvas


def _captioned(caption: str) -> tuple[Canvas, float]:
    """An empty canvas under a caption, and how much of it the caption takes."""
    canvas = Canvas()
    if caption:
        canvas.text((0, 8), caption, 14, anchor="start")
    return canvas, 34 if caption else 0


def side_by_side(drawings: Sequence[Canvas]) -> Canvas:
    canvas = Canvas()
    for drawing in drawings:
        canvas.insert(drawing, canvas.right + (70 if canvas.parts else 0), 0)
    return canvas


def tree(tree: Tree, caption: str = "") -> Canvas:
    """A tree, root on top; edges carry the times of their events."""
    canvas, head = _captioned(caption)
    x, free, stack = [0.0] * tree.size, 0.0, [0]
    while stack:  # leaves side by side, from left to right
        index = stack.pop()
        stack += reversed(tree.children[index])
        if not tree.children[index]:
            x[index] = free
            free += max(44, text_width(tree.label(index), 13) + 14)
    for index in range(tree.size - 1, -1, -1):  # and parents above the middle of their children
        if below := tree.children[index]:
            x[index] = (x[below[0]] + x[below[-1]]) / 2
    at = [(x[i] + RADIUS, node.level * 72 + RADIUS + head) for i, node in enumerate(tree.nodes)]
    classes = {state: i for i, state in enumerate(sorted(set(tree.states), key=repr, reverse=True))}  # as one-hot
    for index in range(1, tree.size):
        canvas.line(at[tree.nodes[index].parent], at[index], SOFT)
    for index in range(1, tree.size):
        # nearer to the child, where lines from one parent are apart
        (ax, ay), (bx, by) = at[tree.nodes[index].parent], at[index]
        canvas.text((ax + 0.6 * (bx - ax), ay + 0.6 * (by - ay)), tree.time(index), 12, halo=True)
    for index, node in enumerate(tree.nodes):
        canvas.circle(at[index], RADIUS - 3, FILLS[classes[tree.states[node.node]] % len(FILLS)])
        canvas.text(at[index], tree.label(index), 13)
    return canvas
