"""Temporal computation trees and monotone trees, and their isomorphism (paper, Defs. 1, 3; Lemma 2).

The trees are built node by node, to look at and to check the fast colours of `colors`: a depth-L tree is the input of
an L-layer MP-TGN, a monotone tree is what memory and positions hold. They grow with the number of walks, so their size
is counted first and a tree that would explode is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pintgn.errors import TooLarge, check_count
from pintgn.events.log import EventLog
from pintgn.theory import draw
from pintgn.theory.colors import memory_states
from pintgn.theory.event_history import EventHistory, accumulate, node_of
from pintgn.theory.walks import one_deeper

LARGEST = 200_000
"""Nodes in the largest tree that is built by default."""


@dataclass(frozen=True)
class TreeNode:
    """A node of a tree: which graph node it stands for, its level, and the event that leads to it."""

    node: int
    level: int
    parent: int
    """Index of the parent in `Tree.nodes`; -1 for the root."""
    event: int
    """Event number of the edge to the parent; -1 for the root."""


@dataclass(frozen=True)
class Tree:
    """A rooted tree of graph nodes; `nodes` lists parents before children, the root first."""

    history: EventHistory
    nodes: Sequence[TreeNode]
    states: Sequence[Hashable]
    """The state of each graph node (n,): its initial features, memory, or anything else that compares."""
    kind: str

    @property
    def size(self) -> int:
        return len(self.nodes)

    @property
    def depth(self) -> int:
        return max(node.level for node in self.nodes)

    @cached_property
    def children(self) -> list[list[int]]:
        """Indices of every tree node's children, most recent event first."""
        lists: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            if node.parent >= 0:
                lists[node.parent].append(index)
        return lists

    def level(self, k: int) -> list[int]:
        """The graph nodes at level k, with repetitions."""
        return [node.node for node in self.nodes if node.level == k]

    def occurrences(self, d: int) -> dict[int, list[int]]:
        """Occurrences of each graph node at levels 0 … d-1: in a monotone tree, positions by definition."""
        counts: dict[int, list[int]] = {}
        for node in self.nodes:
            if node.level < d:
                counts.setdefault(node.node, [0] * d)[node.level] += 1
        return counts

    def edge(self, index: int) -> tuple[float, tuple[float, ...]]:
        """Time and event features of the edge to a tree node's parent."""
        event = self.nodes[index].event
        rows = self.history.feature_rows
        return self.history.when[event].item(), () if rows is None else tuple((rows[event] + 0.0).tolist())

    def canonical(self, table: dict[Hashable, int] | None = None) -> int:
        """A number for the tree's isomorphism class: equal exactly for isomorphic trees that share a `table`.

        Bottom-up (Aho, Hopcroft and Ullman): a tree node is its state and the sorted multiset of what hangs below
        it. The level need not be written down, because an isomorphism of rooted trees keeps it.
        """
        table = {} if table is None else table
        code = [0] * self.size
        for index in range(self.size - 1, -1, -1):
            below = sorted((self.edge(child), code[child]) for child in self.children[index])
            signature = (self.states[self.nodes[index].node], tuple(below))
            code[index] = table.setdefault(signature, len(table))
        return code[0]

    def isomorphic(self, other: Tree) -> bool:
        """True if a bijection keeps edges, times, event features, states and levels (Def. 1)."""
        table: dict[Hashable, int] = {}
        return self.size == other.size and self.canonical(table) == other.canonical(table)

    # -- looks ---------------------------------------------------------------------------------------------

    def label(self, index: int) -> str:
        return self.history.name(self.nodes[index].node)

    def time(self, index: int) -> str:
        """The time of the event that leads to a tree node."""
        return self.history.log.schema.time.show(self.history.when[self.nodes[index].event])

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
            index, indent, last = stack.pop()
            if len(lines) == most:
                lines.append(f"… {self.size:,} nodes in all")
                break
            event = self.history.describe(self.nodes[index].event)
            lines.append(f"{indent}{'└' if last else '├'}─ {event} ─ {self.label(index)}")
            inner = indent + ("   " if last else "│  ")
            below = self.children[index]
            stack += [(child, inner, child == below[-1]) for child in reversed(below)]
        return "\n".join(lines)

    def svg(self, most: int = 400) -> str:
        """The tree as an SVG drawing; a very large one is cut to the levels that fit."""
        fits = max(k for k in range(self.depth + 1) if not k or sum(node.level <= k for node in self.nodes) <= most)
        note = f", cut at level {fits}" if fits < self.depth else ""
        title = f"{self.kind} tree of {self.label(0)}{note}"
        shown = replace(self, nodes=[node for node in self.nodes if node.level <= fits])  # listed level by level
        return draw.tree(shown, title).svg(title)

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
    return grow(EventHistory(log, t), node_of(log, node, side), depth, False, memory, most)


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
    return grow(EventHistory(log, t), node_of(log, node, side), depth, True, memory, most)


def grow(
    history: EventHistory,
    root: int,
    depth: int | None,
    monotone: bool,
    memory: bool = False,
    most: int = LARGEST,
) -> Tree:
    """A tree of either kind, for a node number; it is counted first, and refused if it is too large."""
    kind = "monotone" if monotone else "computation"
    levels = level_sizes(history, root, depth, monotone, most)
    totals = list(itertools.accumulate(levels))
    if totals[-1] > most:
        count = f"{totals[-1]:,}" if totals[-1] < 10**9 else f"about {totals[-1]:.1e}"
        fits = sum(total <= most for total in totals) - 1
        raise TooLarge(
            f"the {kind} tree of {history.name(root)} has {count} nodes to level {len(levels) - 1}; "
            f"at most {most:,} are built. Depth {fits} fits ({totals[fits]:,} nodes)."
        )
    entries, time, event = history.entries, history.entry_time, history.entry_event
    nodes = [TreeNode(root, 0, -1, -1)]
    begin = 0
    for level in range(1, len(levels)):
        end = len(nodes)
        for parent in range(begin, end):
            rows = entries.of(nodes[parent].node)
            stop = rows.stop
            if monotone and nodes[parent].event >= 0:  # a node's entries are in order of time
                stop = rows.start + int(np.searchsorted(time[rows], history.when[nodes[parent].event], "left"))
            for row in range(stop - 1, rows.start - 1, -1):
                nodes.append(TreeNode(int(entries.neighbor[row]), level, parent, int(event[row])))
        begin = end
    states: Sequence[Hashable] = [None] * history.nodes
    if memory:
        states = memory_states(history).tolist()
    elif (features := history.log.node_features) is not None:
        states = [tuple(row) for row in (features + 0.0).tolist()]
    return Tree(history, nodes, states, kind)


def level_sizes(history: EventHistory, root: int, depth: int | None, monotone: bool, most: int = LARGEST) -> list[int]:
    """Nodes at each level of a tree, counted without building it: to its end, to `depth` or beyond `most`."""
    if monotone:
        width = 4 if depth is None else depth + 1
        while True:
            counts = np.zeros((history.nodes, width))
            counts[root, 0] = 1
            levels = np.minimum(accumulate(history, counts, one_deeper, backward=True), 1e290).sum(0).tolist()
            if depth is not None or 0 in levels or sum(levels) > most:
                break
            width *= 2
    else:
        reached: np.ndarray = np.zeros(history.nodes)
        reached[root] = 1
        levels = [1.0]
        while len(levels) <= (depth or 0) and 0 < levels[-1] < 1e30:  # large enough to refuse
            reached = np.bincount(history.entries.neighbor, reached[history.entries.owner], history.nodes)
            levels.append(float(reached.sum()))
    return [int(size) for size in itertools.takewhile(bool, levels)]
