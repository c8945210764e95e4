"""Properties of a temporal graph that models may fail to see (paper, Prop. 7), and the temporal diameter (Def. B2)."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import inf
from typing import Any

from pintgn.errors import TooLarge
from pintgn.events.log import EventLog
from pintgn.theory.event_history import EventHistory

Graph = dict[int, set[int]]


@dataclass(frozen=True)
class Properties:
    """Temporal diameter, and girth, diameter and number of cycles of the underlying simple graph."""

    temporal_diameter: int
    girth: float
    diameter: float
    cycles: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; infinity is null."""
        return {name: None if value == inf else value for name, value in asdict(self).items()}


def graph_properties(log: EventLog, t: Any = None) -> Properties:
    """All of them, for small graphs.

    >>> graph_properties(EventLog([0, 1, 2], [1, 2, 0], [1, 2, 3]))
    Properties(temporal_diameter=3, girth=3, diameter=1, cycles=1)
    """
    return Properties(temporal_diameter(log, t), girth(log, t), diameter(log, t), cycles(log, t))


def temporal_diameter(log: EventLog, t: Any = None) -> int:
    """Length of the longest monotone walk before t: no memory needs, and no position has, more steps."""
    history = EventHistory(log, t)
    longest = [0] * history.nodes
    src, dst, bounds = history.src.tolist(), history.dst.tolist(), history.group_starts.tolist()
    for begin, end in pairwise(bounds):
        update = []
        for i in range(begin, end):  # all from before the group: its events are simultaneous
            u, v = src[i], dst[i]
            update += [(u, longest[v] + 1), (v, longest[u] + 1)]
        for node, length in update:
            longest[node] = max(longest[node], length)
    return max(longest)


def simple_graph(log: EventLog, t: Any = None) -> Graph:
    """Neighbors of every node with an event before t; no repeats, no self-loops, no times."""
    history = EventHistory(log, t)
    graph: Graph = {}
    for u, v in set(zip(history.src.tolist(), history.dst.tolist(), strict=True)):
        graph.setdefault(u, set())
        graph.setdefault(v, set())
        if u != v:
            graph[u].add(v)
            graph[v].add(u)
    return graph


def diameter(log: EventLog, t: Any = None, most: int = 2 * 10**7) -> float:
    """The largest distance in the underlying simple graph; infinite if it is not connected."""
    graph = simple_graph(log, t)
    _guard(graph, most, "diameter")
    largest = 0
    for root in graph:
        distance, _ = _search(graph, root)
        if len(distance) < len(graph):
            return inf
        largest = max(largest, *distance.values())
    return largest


def girth(log: EventLog, t: Any = None, most: int = 2 * 10**7) -> float:
    """Length of the shortest cycle of the underlying simple graph; infinite if there is none."""
    graph = simple_graph(log, t)
    _guard(graph, most, "girth")
    shortest = inf
    for root in graph:
        shortest = min(shortest, _search(graph, root, shortest)[1])
    return shortest


def cycles(log: EventLog, t: Any = None, most: int = 10**6) -> int:
    """Number of simple cycles of the underlying simple graph, counted one by one and so for small graphs only."""
    graph = _two_core(simple_graph(log, t))
    edges = sum(map(len, graph.values())) // 2
    rank = {node: i for i, node in enumerate(sorted(graph))}
    found = tried = 0
    for start in sorted(graph):
        # every cycle is found from its smallest node, once in each direction
        stack = [(start, iter(graph[start]))]
        on_path = {start}
        while stack:
            following = next(stack[-1][1], None)
            if following is None:
                on_path.discard(stack.pop()[0])
            elif following == start and len(stack) > 2:
                found += 1
            elif rank[following] > rank[start] and following not in on_path:
                tried += 1
                if tried > most:
                    raise TooLarge(
                        f"more than {most:,} paths among {len(graph):,} nodes and {edges:,} links that lie on "
                        f"cycles, {found // 2:,} cycles so far. Count cycles in a smaller part of the log."
                    )
                stack.append((following, iter(graph[following])))
                on_path.add(following)
    return found // 2


def _two_core(graph: Graph) -> Graph:
    """The part of a graph that cycles can be in: nodes with fewer than two neighbors removed, again and again."""
    graph = {node: set(around) for node, around in graph.items()}
    ends = [node for node, around in graph.items() if len(around) < 2]
    while ends:
        for other in graph.pop(end := ends.pop(), set()):
            graph[other].discard(end)
            if len(graph[other]) == 1:
                ends.append(other)
    return graph


def _search(graph: Graph, root: int, shorter: float = inf) -> tuple[dict[int, int], float]:
    """Breadth-first distances from a root, and the shortest cycle seen; stops where none is `shorter`."""
    distance, parent, queue, cycle = {root: 0}, {root: root}, deque([root]), inf
    while queue and 2 * distance[queue[0]] + 1 < shorter:
        u = queue.popleft()
        for v in graph[u]:
            if v not in distance:
                distance[v], parent[v] = distance[u] + 1, u
                queue.append(v)
            elif v != parent[u]:
                cycle = min(cycle, distance[u] + distance[v] + 1)
    return distance, cycle


def _guard(graph: Graph, most: int, what: str) -> None:
    links = sum(map(len, graph.values())) // 2
    if len(graph) * (links + 1) > most:
        raise TooLarge(
            f"the {what} of {len(graph):,} nodes and {links:,} links takes about {len(graph) * links:,} steps; "
            f"at most {most:,} are allowed. Ask for a smaller part of the log."
        )
