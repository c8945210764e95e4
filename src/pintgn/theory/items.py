"""Gallery of the paper's constructions: log, drawing, explanation and checked claims of each.

The figures of the paper are not needed: the text determines most of these logs, and where it leaves freedom the
choice here satisfies it ("one choice" below). `docs/gallery.md` is written from this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import UnknownName, suggest
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.theory import draw
from pintgn.theory.comparison import Distinction, distinguish
from pintgn.theory.computation_trees import computation_tree, monotone_tree
from pintgn.theory.injective import float_limits, forgetting_age

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

    return {item.name: item for item in ITEMS}


def item(name: str) -> Item:
    """One item; a mistyped name is an error that suggests the right one."""
    items = gallery()
    if name not in items:
        raise UnknownName(f"the gallery has no item {name!r}.{suggest(name, items)}")
    return items[name]


def page(images: str = "img") -> tuple[str, dict[str, str]]:
    """The gallery as a Markdown page and its drawings by file name."""
    lines = [
        "# Gallery: what can be told apart",
        "",
        "The paper's constructions, small enough to check by hand. Numbers are times, fills are node features, and the",
        "compared pair is dashed (two events) or ringed (two nodes). Every claim is tested, and every table is the",
        "output of `pintgn theory distinguish`. This page is generated by `pintgn theory gallery --output docs`.",
        "",
    ]
    drawings: dict[str, str] = {}
    for one in gallery().values():
        lines += [f"## {one.title}", "", f"`{one.name}` · {one.source}", ""]
        pictures = {"": one.svg(), "-trees": one.trees_svg()}
        for suffix, svg in pictures.items():
            if svg is not None:
                file = f"gallery-{one.name}{suffix}.svg"
                drawings[file] = svg
                lines += [f"![{one.title}{', trees' if suffix else ''}]({images}/{file})", ""]
        lines += [fill(one.text, 116), ""]
        for number, shown in enumerate(one.graphs):
            caption = f" {shown.caption}" if shown.caption else ""
            lines += ([""] if number else []) + [fill(f"Events{caption}: {shown}.", 116)]
        lines.append("")
        lines += _facts(one)
        for number in range(len(one.claims)):
            lines += _verdicts(one, number)
    lines += _floats(drawings, images)
    return "\n".join(lines).rstrip() + "\n", drawings


def _floats(drawings: dict[str, str], images: str) -> list[str]:
    """The experiment on Prop. 8: where sums of floats stop being injective."""
    title = "Where sums of floats stop being injective"
    limits = [*float_limits(np.float32, symbols=range(1, 9)), *float_limits(np.float64, symbols=range(8, 13))]
    rows: list[tuple[str, Sequence[tuple[float, str]], str]] = []
    for limit in limits:
        kept = f"{limit.distinct:,} of {limit.multisets:,} multisets"
        name = f"{limit.dtype}, {limit.symbols} symbol{'s' * (limit.symbols > 1)}, {limit.bits:.0f} bits"
        rows.append((name, [(1 - limit.lost, "#3b7dbd")], kept))
    drawings["gallery-floats.svg"] = draw.bars("Multisets with a sum of their own", rows).svg(title)
    lost = next(limit for limit in limits if limit.collision)
    assert lost.collision is not None
    few, many = (" ".join(f"({'abcdefgh'[int(s)]}, {t})" for s, t in side) for side in lost.collision)  # type: ignore[call-overload]
    text = (
        "PINT's sum with exponential decay determines the multiset it is taken over if every pair of a symbol "
        "(node state and event features) and a time has digits of its own (Prop. 8). With exact fractions, "
        "`TemporalCode.decode` reads it back. Here all multisets of fewer than four pairs are "
        "summed in floating point, smallest terms first, in base 2, with two times and more and more symbols. As "
        "long as the digits fit the float's bits (24 in float32, 53 in float64) every sum is unique; beyond that "
        f"the smallest terms vanish beside the largest: with {lost.symbols} symbols, {many} has the float32 sum of "
        f"{few} alone. In the same way an event with weight 2^-24 of the newest one's leaves no trace in Eq. 5: "
        f"with alpha 2, after {forgetting_age():g}/beta units of time."
    )
    return [f"## {title}", "", "Prop. 8", "", f"![{title}]({images}/gallery-floats.svg)", "", fill(text, 116), ""]


def _facts(one: Item) -> list[str]:
    if not one.facts:
        return []
    names = list(one.facts[0])
    lines = ["| graph | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for graph, facts in zip(one.graphs, one.facts, strict=True):
        values = ["infinite" if facts[name] == float("inf") else f"{facts[name]:g}" for name in names]
        lines.append(f"| {graph.caption} | " + " | ".join(values) + " |")
    return [*lines, ""]


def _verdicts(one: Item, number: int) -> list[str]:
    answer = one.answer(number)
    settings = ", ".join(f"{name} {value}" for name, value in answer.settings.items())
    lines = [
        f"{answer.question[0].upper()}{answer.question[1:]}, {settings}:",
        "",
        "| class | verdict | why |",
        "|---|---|---|",
    ]
    rows = ([v.model, v.word, v.reason.replace("|", "\\|")] for v in answer.verdicts.values())
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]
