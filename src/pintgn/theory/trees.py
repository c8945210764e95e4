"""Temporal computation trees, monotone trees, and when two of them are isomorphic (paper, Defs. 1, 3; Lemma 2).

These are the trees themselves, node by node, for looking at and for checking the fast colours of `wl`: a depth-L
tree is what an L-layer MP-TGN computes on, a monotone tree is what memory and positions know. They grow with the
number of walks, so their size is counted first and a tree that would explode is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pintgn.errors import TooLarge
from pintgn.events.log import EventLog
from pintgn.theory.counts import one_deeper
from pintgn.theory.history import EventHistory, accumulate, node_of, short
from pintgn.theory.memory import memory_states
from pintgn.theory.wl import check_count

LARGEST = 200_000
"""Nodes in the largest tree that is built unless told otherwise."""


@dataclass(frozen=True)
class TreeNode:
    """A node of a tree: which graph node it stands for, its level, and the event that leads to it."""

    node: int
    level: int
    parent: int
    """Place of the parent in `Tree.nodes`; -1 for the root."""
    event: int
    """Event number of the edge to the parent; -1 for the root."""


@dataclass(frozen=True)
class Tree:
    """A rooted tree of graph nodes; `nodes` lists parents before children, the root first."""

    history: EventHistory
    nodes: Sequence[TreeNode]
    states: Sequence[Hashable]
    """What is known of each graph node (n,): its initial features, memory, or anything else that compares."""
    kind: str

    @property
    def size(self) -> int:
        return len(self.nodes)

    @property
    def depth(self) -> int:
        return max(node.level for node in self.nodes)

    @cached_property
    def children(self) -> list[list[int]]:
        """Places of every tree node's children, most recent event first."""
        lists: list[list[int]] = [[] for _ in self.nodes]
        for place, node in enumerate(self.nodes):
            if node.parent >= 0:
                lists[node.parent].append(place)
        return lists

    def level(self, k: int) -> list[int]:
        """The graph nodes at level k, with repetitions."""
        return [node.node for node in self.nodes if node.level == k]

    def occurrences(self, d: int) -> dict[int, list[int]]:
        """How often each graph node occurs at levels 0 … d-1: positions by definition, in a monotone tree."""
        counts: dict[int, list[int]] = {}
        for node in self.nodes:
            if node.level < d:
                counts.setdefault(node.node, [0] * d)[node.level] += 1
        return counts

    def cut(self, depth: int) -> Tree:
        """The tree down to a level."""
        # places stay valid: nodes are listed level by level
        return Tree(self.history, [node for node in self.nodes if node.level <= depth], self.states, self.kind)

    def edge(self, place: int) -> tuple[float, tuple[float, ...]]:
        """What the edge to a tree node's parent carries: time and event features, as they are."""
        event = self.nodes[place].event
        rows = self.history.feature_rows
        return self.history.when[event].item(), () if rows is None else tuple((rows[event] + 0.0).tolist())

    def canonical(self, table: dict[Hashable, int] | None = None) -> int:
        """A number for the tree's isomorphism class: equal exactly for isomorphic trees that share a `table`.

        Bottom-up (Aho, Hopcroft and Ullman): a tree node is its state and the sorted multiset of what hangs below
        it. The level need not be written down, because an isomorphism of rooted trees keeps it.
        """
        table = {} if table is None else table
        code = [0] * self.size
        for place in range(self.size - 1, -1, -1):
            below = sorted((self.edge(child), code[child]) for child in self.children[place])
            signature = (self.states[self.nodes[place].node], tuple(below))
            code[place] = table.setdefault(signature, len(table))
        return code[0]

    def isomorphic(self, other: Tree) -> bool:
        """Whether a bijection keeps edges, times, event features, states and levels (Def. 1)."""
        table: dict[Hashable, int] = {}
        return self.size == other.size and self.canonical(table) == other.canonical(table)

    def first_difference(self, other: Tree) -> int | None:
        """The first level down to which the trees are not isomorphic; None if they are."""
        for level in range(max(self.depth, other.depth) + 1):
            if not self.cut(level).isomorphic(other.cut(level)):
                return level
        return None

    # -- looks ---------------------------------------------------------------------------------------------

    def label(self, place: int) -> str:
        node = self.nodes[place]
        return self.history.name(node.node)

    def time(self, place: int) -> str:
        """The time of the event that leads to a tree node."""
        return self.history.log.schema.time.show(self.history.when[self.nodes[place].event])

    def text(self, most: int = 200) -> str:
        """The tree as indented text, at most so many lines.

        >>> log = EventLog([0, 1], [1, 2], [1, 2])
        >>> print(computation_tree(log, 0, depth=2).text())
        0
        └─ t=1 ─ 1
           ├─ t=2 ─ 2
           └─ t=1 ─ 0
        """
        lines = [self.label(0)]
        stack = [(child, "", child == self.children[0][-1]) for child in reversed(self.children[0])]
        while stack:
            place, indent, last = stack.pop()
            if len(lines) == most:
                lines.append(f"… {self.size:,} nodes in all")
                break
            event = self.history.describe(self.nodes[place].event)
            lines.append(f"{indent}{'└' if last else '├'}─ {event} ─ {self.label(place)}")
            inner = indent + ("   " if last else "│  ")
            below = self.children[place]
            stack += [(child, inner, child == below[-1]) for child in reversed(below)]
        return "\n".join(lines)

    def svg(self) -> str:
        """The tree as an SVG drawing."""
        from pintgn.theory.draw import tree_svg

        return tree_svg(self)

    def __str__(self) -> str:
        return self.text()


def computation_tree(
    log: EventLog,
    node: Any,
    t: Any = None,
    depth: int = 2,
    *,
    memory: bool = False,
    side: str | None = None,
    most: int = LARGEST,
) -> Tree:
    """The temporal computation tree T_v(t) of a node (by the users' id), `depth` levels below the root.

    Every entry of the temporal neighborhood N(v, t) is a child, also the one that leads back where we came from, and
    times need not decrease along a path. States are initial features, or with `memory` injective memory states.
    """
    check_count(depth, "depth", least=0)
    history = EventHistory(log, t)
    root = node_of(log, node, side)
    sizes = tree_sizes(history, root, depth)
    if sizes[-1] > most:
        fits = sum(size <= most for size in sizes) - 1
        raise TooLarge(
            f"the depth-{depth} tree of {node!r} has {_count(sizes[-1])} nodes; at most {most:,} are built. "
            f"Depth {fits} fits ({sizes[fits]:,} nodes)."
        )
    return _grow(history, root, depth, _states(history, memory), monotone=False)


def monotone_tree(
    log: EventLog,
    node: Any,
    t: Any = None,
    depth: int | None = None,
    *,
    memory: bool = False,
    side: str | None = None,
    most: int = LARGEST,
) -> Tree:
    """The monotone tree of a node: the part of its computation tree where times decrease from the root down (Def. 3).

    It ends by itself; `depth` cuts it earlier.
    """
    check_count(depth, "depth", least=0, none=True)
    history = EventHistory(log, t)
    return grow_monotone(history, node_of(log, node, side), depth, memory, most)


def grow_monotone(
    history: EventHistory, root: int, depth: int | None = None, memory: bool = False, most: int = LARGEST
) -> Tree:
    """As `monotone_tree`, for a node number and a past at hand."""
    levels = monotone_sizes(history, root, depth, most)
    totals = np.cumsum(np.array(levels, object))
    if totals[-1] > most:
        fits = int((totals <= most).sum()) - 1
        raise TooLarge(
            f"the monotone tree of {history.name(root)} has {_count(totals[-1])} nodes to level {len(levels) - 1}; "
            f"at most {most:,} are built. Depth {fits} fits ({totals[fits]:,} nodes)."
        )
    return _grow(history, root, len(levels) - 1, _states(history, memory), monotone=True)


def tree_sizes(history: EventHistory, root: int, depth: int) -> list[int]:
    """Number of nodes of the computation trees of depth 0, 1, …, `depth`, counted without building them."""
    entries = history.entries
    pairs = Counter(zip(entries.owner.tolist(), entries.neighbor.tolist(), strict=True))
    steps: dict[int, list[tuple[int, int]]] = {}
    for (v, u), count in pairs.items():
        steps.setdefault(v, []).append((u, count))
    reached, sizes = {root: 1}, [1]
    for _ in range(depth):
        following: dict[int, int] = {}
        for v, ways in reached.items():
            for u, count in steps.get(v, ()):
                following[u] = following.get(u, 0) + ways * count
        reached = following
        sizes.append(sizes[-1] + sum(reached.values()))
        if sizes[-1] > 10**30:  # large enough to refuse
            break
    return sizes


def monotone_sizes(history: EventHistory, root: int, depth: int | None, most: int = LARGEST) -> list[int]:
    """Number of nodes at each level of a monotone tree, counted until it ends, `depth`, or the total passes `most`."""
    width = 4
    while True:
        wide = width if depth is None else depth + 1
        counts = np.zeros((history.nodes, wide))
        counts[root, 0] = 1
        levels = np.minimum(accumulate(history, counts, one_deeper, backward=True), 1e290).sum(0)
        sizes = [int(size) for size in levels]
        over = np.flatnonzero(np.cumsum(levels) > most)
        if 0 in sizes:
            return sizes[: sizes.index(0)]
        if depth is not None:
            return sizes
        if len(over):
            return sizes[: over[0] + 1]
        width *= 2


def _grow(history: EventHistory, root: int, depth: int, states: Sequence[Hashable], monotone: bool) -> Tree:
    entries, time, event = history.entries, history.entry_time, history.entry_event
    nodes = [TreeNode(root, 0, -1, -1)]
    begin = 0
    for level in range(1, depth + 1):
        end = len(nodes)
        for place in range(begin, end):
            rows = entries.of(nodes[place].node)
            stop = rows.stop
            if monotone and nodes[place].event >= 0:  # a node's entries are in order of time
                stop = rows.start + int(np.searchsorted(time[rows], history.when[nodes[place].event], "left"))
            for row in range(stop - 1, rows.start - 1, -1):
                nodes.append(TreeNode(int(entries.neighbor[row]), level, place, int(event[row])))
        begin = end
    return Tree(history, nodes, states, "monotone" if monotone else "computation")


def _states(history: EventHistory, memory: bool) -> list[Hashable]:
    if memory:
        return memory_states(history).tolist()
    rows = history.log.node_features
    return [None] * history.nodes if rows is None else [tuple(row) for row in (rows + 0.0).tolist()]


def show_state(history: EventHistory, node: int) -> str:
    """A node's initial features in a few characters."""
    rows = history.log.node_features
    return "no features" if rows is None else f"features {short(rows[node])}"


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"about {number:.1e}"
