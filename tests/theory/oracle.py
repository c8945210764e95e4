"""The slow oracle of positions: the monotone computation tree by definition, and counts read off it.

Nothing here is shared with `pintgn.positions`, which is tested against it. Events are a plain sequence of
(src, dst, t); every walk is listed, so this is for logs of a few dozen events.

>>> events = [("a", "b", 1), ("b", "c", 2), ("a", "b", 3)]
>>> print(draw(monotone_tree(events, "a")))
a
├─ b at 1
└─ b at 3
   ├─ a at 1
   └─ c at 2
>>> walk_counts(events, "a", d=3)["a"]
[1, 0, 1]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Events = Sequence[tuple[Any, Any, Any]]


class Tree(NamedTuple):
    """A node of the tree, when the edge to its parent happened (None for the root), and its children."""

    node: Any
    time: Any
    children: tuple[Tree, ...]


def monotone_tree(events: Events, root: Any, t: Any = None, depth: int | None = None) -> Tree:
    """The monotone temporal computation tree of `root` at time t (Def. 2): times decrease from the root down.

    A child is one event, so exact repeats give several; a self-loop is one event and gives one. `t=None` is after
    all events; `depth` cuts the tree.
    """
    return _grow(events, root, None, math.inf if t is None else t, math.inf if depth is None else depth)


def _grow(events: Events, node: Any, time: Any, before: Any, depth: float) -> Tree:
    children = []
    for src, dst, when in events if depth > 0 else ():
        if when < before and node in (src, dst):
            other = dst if node == src else src
            children.append(_grow(events, other, when, when, depth - 1))
    return Tree(node, time, tuple(children))


def walks(tree: Tree) -> Iterator[list[tuple[Any, Any]]]:
    """Every walk from the root down, as (node, time) pairs; the root alone is the walk of no steps."""
    yield [(tree.node, tree.time)]
    for child in tree.children:
        for rest in walks(child):
            yield [(tree.node, tree.time), *rest]


def walk_counts(events: Events, root: Any, t: Any = None, d: int = 4, decay: float = 0.0) -> dict[Any, list]:
    """Each node's position relative to `root`: how many walks of k = 0 … d - 1 steps lead to it (Lemma 2).

    With `decay`, a walk counts as the product of exp(-decay * (t - t_edge)) over its edges; then t is needed.
    """
    counts: dict[Any, list] = {}
    for walk in walks(monotone_tree(events, root, t, d - 1)):
        weight = math.prod(math.exp(-decay * (t - when)) for _, when in walk[1:]) if decay else 1
        counts.setdefault(walk[-1][0], [0] * d)[len(walk) - 1] += weight
    return counts


def draw(tree: Tree) -> str:
    """The tree in text, one line for each node."""
    lines = [f"{tree.node}" if tree.time is None else f"{tree.node} at {tree.time}"]
    for number, child in enumerate(tree.children, 1):
        last = number == len(tree.children)
        first, *rest = draw(child).splitlines()
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in rest]
    return "\n".join(lines)
