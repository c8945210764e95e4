"""Draw how positions work, step by step, from what RelativePositions really answers: docs/img/positions-*.svg.

`python tools/drawings.py` writes the drawings; a test holds that those in docs/ are what it would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import pintgn
from pintgn.drawing.svg import document, element, path

IMAGES = Path(__file__).parents[1] / "docs" / "img"
NAMES = "abcd"
EVENTS = [("a", "b", 1), ("b", "c", 2), ("a", "b", 3), ("c", "d", 3)]
LEVELS = 4
PLACES = {"a": (40, 44), "b": (140, 44), "c": (140, 124), "d": (40, 124)}
INK, FAINT, LINE, NEW, FRESH = "#1d2433", "#8b93a3", "#cfd5de", "#c2571a", "#fbe3d3"
CELL, ROOT_WIDTH = 26, 172


def counts_after(events: list[tuple[str, str, int]]) -> np.ndarray:
    """r[root, node, level] as the engine itself gives it."""
    positions = pintgn.RelativePositions(d=LEVELS)
    for src, dst, t in events:
        positions.observe(NAMES.index(src), NAMES.index(dst), t)
    ids = np.arange(len(NAMES))
    return positions.read(ids[None, :], ids[:, None], transform="raw").astype(int)


def text(x: float, y: float, words: object, size: int = 13, color: str = INK, **more: str) -> str:
    return element("text", str(words), x=x, y=y, font_size=size, fill=color, **more)


def graph(events: list[tuple[str, str, int]], now: int | None, x: float, y: float) -> Iterator[str]:
    """The people and their meetings so far; those of this moment are marked."""
    lanes: dict[tuple[str, str], int] = {}
    for src, dst, t in events:
        (x1, y1), (x2, y2) = PLACES[src], PLACES[dst]
        lane = lanes.get((src, dst), 0)
        lanes[src, dst] = lane + 1
        bend = 26 * lane
        color = NEW if t == now else FAINT
        middle = ((x1 + x2) / 2, (y1 + y2) / 2)
        across = (0, -bend) if y1 == y2 else (bend, 0)
        control = (x + middle[0] + 2 * across[0], y + middle[1] + 2 * across[1])
        way = path("M", x + x1, y + y1, "Q", *control, x + x2, y + y2)
        yield element("path", d=way, fill="none", stroke=color, stroke_width=2.5 if t == now else 1.5)
        label = (x + middle[0] + across[0], y + middle[1] + across[1])
        off = (0, -5) if y1 == y2 else (11, 4)
        yield text(label[0] + off[0], label[1] + off[1], t, 12, color, text_anchor="middle", font_weight="bold")
    for name, (px, py) in PLACES.items():
        touched = any(t == now and name in (src, dst) for src, dst, t in events)
        color = NEW if touched else INK
        yield element("circle", cx=x + px, cy=y + py, r=13, fill="#fff", stroke=color, stroke_width=1.5)
        yield text(x + px, y + py + 4.5, name, 13, color, text_anchor="middle")


def table(counts: np.ndarray, before: np.ndarray, root: int, x: float, y: float) -> Iterator[str]:
    """How often each node is reached from a root, by steps; what is new is marked."""
    yield text(x + 22, y - 24, f"from {NAMES[root]}", 13, INK, font_weight="bold")
    for level in range(LEVELS):
        yield text(x + 22 + CELL * (level + 0.5), y - 6, level, 11, FAINT, text_anchor="middle")
    for node, name in enumerate(NAMES):
        top = y + CELL * node
        yield text(x + 8, top + 17.5, name, 13, INK, text_anchor="middle")
        for level in range(LEVELS):
            value, fresh = counts[root, node, level], counts[root, node, level] != before[root, node, level]
            left = x + 22 + CELL * level
            fill = FRESH if fresh else "#fff"
            yield element("rect", x=left, y=top, width=CELL, height=CELL, fill=fill, stroke=LINE)
            color, weight = (NEW, "bold") if fresh else (INK if value else LINE, "normal")
            yield text(left + CELL / 2, top + 17.5, value, 13, color, text_anchor="middle", font_weight=weight)


def drawn(width: int, height: int, title: str, parts: list[str]) -> str:
    return document("\n".join(parts), width, height, title, font_family="system-ui, sans-serif")


def steps() -> str:
    """The graph and all tables: at the start, and after each moment."""
    width, row = 190 + 4 * ROOT_WIDTH, 196
    parts: list[str] = []
    before = counts_after([])
    moments = [None, *sorted({t for *_, t in EVENTS})]
    for number, now in enumerate(moments):
        events = [event for event in EVENTS if now is not None and event[2] <= now]
        counts = counts_after(events)
        top = row * number
        if number:
            parts.append(element("path", d=path("M", 12, top, "H", width - 12), stroke=LINE))
        meets = " and ".join(f"{src}–{dst}" for src, dst, t in events if t == now)
        parts.append(text(14, top + 22, "before anything" if now is None else f"after {meets} at {now}", 13, FAINT))
        parts += graph(events, now, 4, top + 32)
        for root in range(len(NAMES)):
            parts += table(counts, before, root, 196 + ROOT_WIDTH * root, top + 66)
        before = counts
    return drawn(width, row * len(moments), "Walk counts after each event", parts)


def update() -> str:
    """One update taken apart: a and b meet at 3, so b's tree, one step deeper, is added to a's."""
    before, after = counts_after(EVENTS[:2]), counts_after(EVENTS[:3])
    mine, theirs = before[0], before[1]
    deeper = np.zeros_like(theirs)
    deeper[:, 1:] = theirs[:, :-1]
    assert np.array_equal(mine + deeper, after[0]), "an event adds the other's counts, one step longer"
    labels = ["from a, before", "from b, before", "b's, a step longer", "from a, after"]
    parts: list[str] = []
    step, top = 196, 54
    for number, (label, counts) in enumerate(zip(labels, (mine, theirs, deeper, after[0]), strict=True)):
        x = 14 + step * number
        cells = list(table(counts[None], mine[None] if number == 3 else counts[None], 0, x, top))[1:]
        parts += [text(x + 22, top - 24, label, 13, INK, font_weight="bold"), *cells]
    for number, sign in enumerate("+→="):
        parts.append(text(14 + step * (number + 1) - 28, top + 58, sign, 20, NEW, text_anchor="middle"))
    return drawn(step * 4 - 26, top + 4 * CELL + 14, "One event adds the other's counts, one step longer", parts)


DRAWINGS = {"positions-steps.svg": steps, "positions-update.svg": update}

if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (IMAGES / name).write_text(draw())
        print(f"wrote docs/img/{name}")
