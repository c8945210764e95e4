"""Memory states as exact colours: what a recurrent state can hold of a node's history (paper, Eqs. 3-4).

Two nodes get the same number exactly when every memory module of the kind gives them the same state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import pairwise
from math import gcd

import numpy as np

from pintgn.errors import UnknownName, suggest
from pintgn.theory.event_history import EventHistory

AGGREGATES = {
    "injective": "MemAgg keeps the whole multiset of a group's messages",
    "mean": "MemAgg is the mean of the messages (TGN-Att)",
}


def memory_states(history: EventHistory, aggregate: str = "injective") -> np.ndarray:
    """The memory state of every node (n,) just before t, as a number.

    Every group of simultaneous events updates the nodes it touches once, all from the states before it:
    s_v <- MemUpdate(s_v, MemAgg {{[s_v, s_u, t - t_v, e]}}), with an injective MemUpdate. The state of v knows t_v
    (0 before the first update), so t - t_v says as much as t; at exact times t itself is compared, which cannot
    round. The mean of the concatenated messages is the concatenation of means, so "mean" knows only in which
    proportions partners' states and event features occurred, each on its own, not which partner came with which
    feature.
    """
    if aggregate not in AGGREGATES:
        raise UnknownName(f"there is no memory aggregate {aggregate!r}.{suggest(aggregate, AGGREGATES)}")
    state: list[int] = history.state.tolist()
    numbers: dict[Hashable, int] = {}
    fresh = max(state, default=-1) + 1
    last: list = [None] * history.nodes
    exact = history.times == "exact"
    src, dst, when, feature = (x.tolist() for x in (history.src, history.dst, history.when, history.feature))
    for begin, end in pairwise(history.group_starts.tolist()):
        messages: dict[int, list[tuple[int, int]]] = {}
        for i in range(begin, end):
            u, v = src[i], dst[i]
            messages.setdefault(u, []).append((state[v], feature[i]))
            if u != v:
                messages.setdefault(v, []).append((state[u], feature[i]))
        t, update = when[begin], []
        for v, received in messages.items():
            age = t if exact else -1 if last[v] is None else int(history.see(t - last[v]))
            content: Hashable
            if aggregate == "injective":
                content = tuple(sorted(received))
            else:
                content = (proportions(s for s, _ in received), proportions(e for _, e in received))
            update.append((v, numbers.setdefault((state[v], age, content), fresh + len(numbers))))
        for v, s in update:
            state[v], last[v] = s, t
    return np.unique(np.array(state, np.int64), return_inverse=True)[1].reshape(-1)


def proportions(items: Iterable[Hashable]) -> tuple:
    """A multiset up to scale: sorted (item, count) pairs, the counts divided by their greatest common divisor.

    >>> proportions("abab") == proportions("ab") != proportions("aab")
    True
    """
    counts = Counter(items)
    divisor = gcd(*counts.values()) if counts else 1
    return tuple(sorted((item, count // divisor) for item, count in counts.items()))  # type: ignore[type-var]
