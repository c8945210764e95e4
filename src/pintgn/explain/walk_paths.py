"""Time-respecting walks that join two nodes, grouped by the nodes on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pintgn.explain.counterfactuals import Absence
from pintgn.explain.kernels_paths import three_steps, two_steps
from pintgn.neighbors.contents import contents
from pintgn.neighbors.index import NeighborIndex

LONGEST = 3
"""Steps of the longest walks that are listed; longer walks are only counted."""


class Step(NamedTuple):
    """A contact on a walk."""

    t: Any
    event: int


@dataclass
class Path:
    """All walks over the same nodes, from a root back in time: their number, the newest of them, all their contacts."""

    nodes: tuple[int, ...]  # the root first
    walks: int
    newest: tuple[Step, ...]  # the newest walk, from its newest contact to its oldest
    absence: Absence  # every contact that is on one of the walks


@dataclass
class Contacts:
    """A node's contacts before a time, grouped by the other end, newest first within a group."""

    node: int
    nodes: np.ndarray  # (g,) the other ends, rising
    starts: np.ndarray  # (g + 1,)
    t: np.ndarray
    events: np.ndarray

    @classmethod
    def of(cls, index: NeighborIndex, node: int, at: Any) -> Contacts:
        count = int(index.count(node, at))
        found = index.recent(node, at, max(count, 1))
        order = np.argsort(found.ids[:count], kind="stable")
        nodes, firsts = np.unique(found.ids[:count][order], return_index=True)
        starts = np.append(firsts, count).astype(np.int64)
        return cls(node, nodes, starts, found.t[:count][order], found.events[:count][order])

    def __len__(self) -> int:
        return len(self.t)

    def group(self, node: int) -> slice:
        """The contacts with a node."""
        index = int(np.searchsorted(self.nodes, node))
        there = index < len(self.nodes) and self.nodes[index] == node
        return slice(int(self.starts[index]), int(self.starts[index + 1])) if there else slice(0, 0)

    def absence(self, node: int) -> Absence:
        """All contacts with a node, as events to remove."""
        return Absence(self.events[self.group(node)], np.array([self.node, node]))

    def step(self, index: int) -> Step:
        return Step(self.t[index].item(), int(self.events[index]))


@dataclass
class Paths:
    """All paths of one length from a root to a target; the walks on a path are read on demand."""

    nodes: np.ndarray  # (p, steps + 1)
    walks: np.ndarray  # (p,) how many along each
    last: np.ndarray  # (p,) when the newest of them came to be
    path: Callable[[int], Path]

    @property
    def steps(self) -> int:
        return self.nodes.shape[1] - 1

    @property
    def through_others(self) -> np.ndarray:  # (p,) bool
        """True for paths that visit no node twice."""
        inner, ends = self.nodes[:, 1:-1], self.nodes[:, [0, -1]]
        apart = (inner[:, :, None] != ends[:, None, :]).all((1, 2))
        for one in range(inner.shape[1]):
            for other in range(one):
                apart &= inner[:, one] != inner[:, other]
        return apart

    def best(self, limit: int) -> list[Path]:
        """The newest paths through others, and the most numerous among the rest; newest first."""
        rows = np.flatnonzero(self.through_others)
        newest = rows[np.lexsort((-self.walks[rows], -self.last[rows]))]
        most = rows[np.lexsort((-self.last[rows], -self.walks[rows]))]
        chosen = dict.fromkeys([*newest[: -(-limit // 2)].tolist(), *most.tolist()])
        found = list(chosen)[:limit]
        return [self.path(row) for row in sorted(found, key=lambda row: (-self.last[row], -self.walks[row]))]


def paths_of_two(root: Contacts, target: Contacts) -> Paths:
    """Walks root - w - target: the root met w after w had met the target."""
    index = np.minimum(np.searchsorted(target.nodes, root.nodes), max(len(target.nodes) - 1, 0))
    common = target.nodes[index] == root.nodes if len(target.nodes) else np.zeros(len(root.nodes), bool)
    borders = np.append(target.starts, 0)  # a target without contacts has no groups to look at
    first, stop = (np.where(common, borders[index + side], 0) for side in (0, 1))
    walks, earlier = np.zeros(len(root), np.int64), np.zeros(len(root), np.int64)
    two_steps(root.starts, root.t, first, stop, target.t, walks, earlier)
    totals = np.add.reduceat(walks, root.starts[:-1]) if len(root) else walks
    rows = np.flatnonzero(totals)
    begin = root.starts[:-1][rows]  # newest first: what continues an older contact continues the newest, too

    def path(row: int) -> Path:
        near, far = int(begin[row]), int(earlier[begin[row]])
        ours = slice(near, int(root.starts[rows[row] + 1]))
        on = root.events[ours][walks[ours] > 0], target.events[far : stop[rows[row]]]
        nodes = (root.node, int(root.nodes[rows[row]]), target.node)
        steps = (root.step(near), target.step(far))
        return Path(nodes, int(totals[rows[row]]), steps, Absence(np.concatenate(on), np.array(nodes)))

    nodes = np.stack(np.broadcast_arrays(root.node, root.nodes[rows], target.node), 1)
    return Paths(nodes, totals[rows], root.t[begin], path)


def paths_of_three(index: NeighborIndex, root: Contacts, target: Contacts) -> Paths:
    """Walks root - w - x - target, each step earlier than the one before."""
    held = contents(index)
    group_of = np.full(max(index.nodes, 1), -1, np.int64)
    group_of[target.nodes] = np.arange(len(target.nodes))
    arguments = (root.nodes, root.starts, root.t, target.starts, target.t, group_of, *held[:4])
    count = three_steps(*arguments, np.zeros((0, 5), np.int64))
    found = np.zeros((count, 5), np.int64)
    three_steps(*arguments, found)
    key = found[:, 0] * max(len(target.nodes), 1) + found[:, 1]
    order = np.argsort(key, kind="stable")  # within a path the middle contacts stay newest first
    found = found[order]
    borders = np.append(np.flatnonzero(np.diff(key[order], prepend=-1)), count)
    totals = np.add.reduceat(found[:, 3], borders[:-1]) if count else found[:, 3]
    heads = found[borders[:-1]]

    def path(row: int) -> Path:
        near, far = int(heads[row, 0]), int(heads[row, 1])
        middle = found[borders[row] : borders[row + 1], 2]
        times = held.times[middle]
        first, last = int(root.starts[near]), int(root.starts[near + 1])
        on = (
            root.events[first:last][root.t[first:last] > times.min()],
            held.numbers[middle],
            target.events[heads[row, 4] : target.starts[far + 1]],
        )
        nodes = (root.node, int(root.nodes[near]), int(target.nodes[far]), target.node)
        steps = (
            root.step(first),
            Step(times[0].item(), int(held.numbers[middle[0]])),
            target.step(int(heads[row, 4])),
        )
        return Path(nodes, int(totals[row]), steps, Absence(np.unique(np.concatenate(on)), np.array(nodes)))

    middle = root.nodes[heads[:, 0]], target.nodes[heads[:, 1]]
    nodes = np.stack(np.broadcast_arrays(root.node, *middle, target.node), 1)
    return Paths(nodes, totals, root.t[root.starts[heads[:, 0]]], path)
