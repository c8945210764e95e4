"""Random small logs with everything that can go wrong: ties, self-loops, repeats, features, isolated nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import networkx
import numpy as np

from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.theory.event_history import EventHistory
from pintgn.theory.walks import Step, anonymize
from tests.theory.injective import TemporalCode


def random_log(
    seed: int,
    nodes: int = 6,
    events: int = 9,
    times: int = 5,
    features: int = 0,
    kinds: int = 0,
    loops: bool = True,
) -> EventLog:
    """`features` and `kinds` are how many different event and node features there are (0: none)."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, (2, events))
    if not loops:
        dst = np.where(src == dst, (src + 1) % nodes, dst)
    return EventLog(
        src,
        dst,
        np.sort(rng.integers(1, times + 1, events)),
        features=rng.integers(0, features, (events, 2)).astype(np.float32) if features else None,
        node_features=rng.integers(0, kinds, (nodes, 1)).astype(np.float32) if kinds else None,
        ids=IdMap(size=nodes),  # some may have no event
    )


def varied_logs(count: int, **settings):
    """Logs with and without event features and node features in turn."""
    for seed in range(count):
        yield random_log(seed, **({"features": 2 * (seed % 2), "kinds": 2 * (seed // 2 % 2)} | settings))


def entry_list(history: EventHistory, v: int) -> list[tuple[int, int, float]]:
    """(neighbor, feature class, time) of every entry of N(v, t), straight from the definition."""
    found = []
    for i in range(len(history.log)):
        u, w, t = int(history.log.src[i]), int(history.log.dst[i]), history.log.t[i].item()
        if t < history.t and v in (u, w):
            found.append((w if v == u else u, int(history.feature[i]), t))
    return found


def partition(labels) -> set[frozenset[int]]:
    """Which nodes are together, whatever the labels are called."""
    groups: dict = {}
    for node, label in enumerate(labels):
        groups.setdefault(label, set()).add(node)
    return {frozenset(group) for group in groups.values()}


def refines(finer, coarser) -> bool:
    """Whether nodes with equal labels in the one always have equal labels in the other."""
    image: dict = {}
    return all(image.setdefault(a, b) == b for a, b in zip(finer, coarser, strict=True))


def mirrored_log(seed: int, nodes: int = 4, events: int = 4, times: int = 3, **settings) -> EventLog:
    """Two copies of a random log side by side, so that every node has a twin with isomorphic trees."""
    half = random_log(seed, nodes, events, times, **settings)

    def twice(column, shift=0):
        return None if column is None else np.concatenate([column, column + shift])

    t = twice(half.t)
    order = np.argsort(t, kind="stable")
    features = twice(half.features)
    return EventLog(
        twice(half.src, nodes)[order],
        twice(half.dst, nodes)[order],
        t[order],
        features=None if features is None else features[order],
        node_features=twice(half.node_features),
        ids=IdMap(size=2 * nodes),
    )


def exact_embeddings(history: EventHistory, depth: int, states: Sequence[Hashable] | None = None) -> list[Hashable]:
    """Embeddings of all nodes by an MP-TGN with the layers of Prop. 8, in exact arithmetic (Props. 2 and 6).

    h_v <- (h_v, sum over neighbors of f(h_u, e) alpha^(-beta t')). Two nodes get equal embeddings exactly when their
    depth-L trees are isomorphic. Slow, and meant for small logs: it shows that such a model exists.
    """
    h: list[Hashable] = list(history.state.tolist() if states is None else states)
    entries, event = history.entries, history.entry_event
    most = int(np.diff(entries.start).max(initial=1)) + 2
    for _ in range(depth):
        code = TemporalCode(history.when.tolist(), most)
        sums = []
        for v in range(history.nodes):
            rows = range(*entries.of(v).indices(len(event)))
            around = [(int(entries.neighbor[row]), int(event[row])) for row in rows]
            sums.append(code.encode(((h[u], int(history.feature[e])), history.when[e].item()) for u, e in around))
        h = list(zip(h, sums, strict=True))
    return h


def caw_readout(log: EventLog, t: Any = None, steps: int = 2) -> Counter[Hashable]:
    """A whole graph as CAW sees it: the multiset of the embeddings of its events, each as of its own time.

    The paper defines this readout to state Prop. 7 for CAW. An embedding is the shares of the event's anonymised
    walks, whose steps carry the time since the step before (since the event itself at first). Small logs only.
    """
    whole = EventHistory(log, t)
    found: Counter[Hashable] = Counter()
    for i in range(whole.count):
        if whole.when[i] == whole.when[0]:  # nothing has happened yet: two walks that stay at home
            found[()] += 1
            continue
        history = EventHistory(log, whole.when[i])
        walks = anonymize(history, int(whole.src[i]), int(whole.dst[i]), steps)
        found[frozenset((_since(history, walk), share) for walk, share in walks.shares.items())] += 1
    return found


def _since(history: EventHistory, walk: tuple[Step, ...]) -> tuple:
    """An anonymised walk with values instead of classes, comparable between histories."""
    nodes, rows = history.log.node_features, history.feature_rows
    first = {int(label): i for i, label in reversed(list(enumerate(history.event_label)))}
    of_state = {int(state): i for i, state in reversed(list(enumerate(history.state)))}
    before, steps = Fraction(history.t), []
    for label, pair, state in walk:
        event = first.get(label)
        now = before if event is None else Fraction(history.when[event].item())
        carried = () if event is None or rows is None else tuple(rows[event].tolist())
        node = () if nodes is None else tuple(nodes[of_state[state]].tolist())
        steps.append((before - now, carried, pair, node))
        before = now
    return tuple(steps)


def simple_graph(log: EventLog) -> networkx.Graph:
    """The underlying simple graph: no repeats, no self-loops, no times."""
    graph = networkx.Graph()
    graph.add_nodes_from([*log.src.tolist(), *log.dst.tolist()])
    graph.add_edges_from((u, v) for u, v in zip(log.src.tolist(), log.dst.tolist(), strict=True) if u != v)
    return graph


def graph_properties(log: EventLog) -> dict[str, float]:
    """Girth, diameter and number of cycles of the underlying simple graph: what Prop. 7 is about."""
    graph = simple_graph(log)
    diameter = networkx.diameter(graph) if networkx.is_connected(graph) else math.inf
    cycles = sum(1 for _ in networkx.simple_cycles(graph))
    return {"girth": networkx.girth(graph), "diameter": diameter, "cycles": cycles}
