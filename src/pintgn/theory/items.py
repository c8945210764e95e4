"""Gallery of the paper's constructions: log, drawing, explanation and checked claims of each.

The figures of the paper are not needed: the text determines most of these logs, and where it leaves freedom the
choice here satisfies it ("one choice" below). `tools/gallery_page.py` writes `docs/gallery.md` from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import UnknownName, suggest
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.theory import draw
from pintgn.theory.comparison import Distinction, distinguish
from pintgn.theory.computation_trees import computation_tree, monotone_tree

Event = tuple[str, str, int]


@dataclass(frozen=True)
class Graph:
    """A small temporal graph: events, node colours (all alike when not given) and where to draw each node."""

    events: tuple[Event, ...]
    layout: Mapping[str, draw.Point]
    colors: Mapping[str, int] = field(default_factory=dict)
    caption: str = ""

    @property
    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
        """Sources, destinations and times, in order of time."""
        src, dst, t = zip(*sorted(self.events, key=lambda event: event[2]), strict=True)
        return src, dst, t

    @property
    def log(self) -> EventLog:
        """The events as a log; colours are one-hot node features."""
        names = list(self.layout)
        src, dst, t = self.columns
        kinds = [self.colors.get(name, 0) for name in names]
        return EventLog(
            [names.index(u) for u in src],
            [names.index(v) for v in dst],
            t,
            node_features=np.eye(max(kinds) + 1, dtype=np.float32)[kinds] if self.colors else None,
            ids=IdMap(pa.array(names)),
        )

    def drawing(self, marked: Sequence[Sequence[str]] = ()) -> draw.Canvas:
        """The graph as a drawing, with the compared nodes or events marked."""
        return draw.graph(self.layout, list(zip(*self.columns, strict=True)), self.colors, marked, self.caption)

    def __str__(self) -> str:
        return " ".join(f"({u}, {v}, {t})" for u, v, t in self.events)


@dataclass(frozen=True)
class Claim:
    """The expected result of comparing two nodes or events with these settings."""

    a: Any
    b: Any
    t: int
    can: Mapping[str, bool]
    depth: int = 2
    d: int = 4
    steps: int | None = None


@dataclass(frozen=True)
class Item:
    """One construction of the gallery."""

    name: str
    title: str
    source: str
    text: str
    graphs: tuple[Graph, ...]
    claims: tuple[Claim, ...] = ()
    facts: tuple[Mapping[str, float], ...] = ()
    """Properties of each graph, where the item is about them."""
    trees: tuple[tuple[str, int | None, int], ...] = ()
    """Trees to draw: node, depth (None for its monotone tree) and time."""

    @property
    def log(self) -> EventLog:
        return self.graphs[0].log

    def answer(self, claim: int = 0) -> Distinction:
        """`distinguish` on one of the item's questions."""
        c = self.claims[claim]
        return distinguish(self.log, c.a, c.b, c.t, depth=c.depth, d=c.d, steps=c.steps)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "title": self.title,
            "source": self.source,
            "text": self.text,
            "events": [graph.events for graph in self.graphs],
            "answers": [self.answer(i).to_dict() for i in range(len(self.claims))],
        }

    def __str__(self) -> str:
        events = "\n".join(map(str, self.graphs))
        answers = [str(self.answer(i)) for i in range(len(self.claims))]
        return "\n\n".join([f"{self.title} ({self.source})", self.text, events, *answers])

    def svg(self) -> str:
        """The graphs of the item in a row; compared events are dashed, compared nodes ringed."""
        marked = [(x,) if isinstance(x, str) else x for claim in self.claims[:1] for x in (claim.a, claim.b)]
        first, *others = self.graphs
        drawings = [first.drawing(marked), *(graph.drawing() for graph in others)]
        return draw.side_by_side(drawings).svg(f"{self.source}: {self.title}")

    def trees_svg(self) -> str | None:
        """The trees of the explanation in a row; None if it has none."""
        if not self.trees:
            return None
        drawings = []
        for node, depth, t in self.trees:
            kind = "monotone tree" if depth is None else "tree"
            grown = monotone_tree(self.log, node, t) if depth is None else computation_tree(self.log, node, t, depth)
            drawings.append(draw.tree(grown, f"{kind} of {node} at t={t}"))
        return draw.side_by_side(drawings).svg(f"Trees of {' and '.join(node for node, *_ in self.trees)}")


def gallery() -> dict[str, Item]:
    """Every item by name."""
    from pintgn.theory.constructions import ITEMS

    return {one.name: one for one in ITEMS}


def item(name: str) -> Item:
    """One item; a mistyped name is an error that suggests the right one."""
    items = gallery()
    if name not in items:
        raise UnknownName(f"the gallery has no item {name!r}.{suggest(name, items)}")
    return items[name]
