"""The neighbor index by definition: a Python list of events, read from end to end for every question."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from pintgn.neighbors import NeighborIndex
from pintgn.neighbors.index import CO_VISITS


@dataclass
class Naive:
    """What NeighborIndex promises, said as slowly and plainly as possible."""

    events: list[tuple[int, int, float, int]] = field(default_factory=list)  # (src, dst, t, number)
    ties: dict[int, int] = field(default_factory=dict)  # of simultaneous events the larger one counts as the newer

    def append(self, src, dst, t, ties=None) -> None:
        for row, (u, v, when) in enumerate(zip(src, dst, t, strict=True)):
            self.ties[len(self.events)] = 0 if ties is None else int(ties[row])
            self.events.append((u, v, when, len(self.events)))

    def entries(self, node, t, before=math.inf) -> list[tuple[int, float, int]]:
        """(neighbor, time, event number) of all that the query may see, newest first."""
        found = []
        for u, v, when, number in self.events:
            if when < t and number < before and node in (u, v):
                found.append((v if node == u else u, when, number))
        return sorted(found, key=lambda entry: (entry[1], self.ties[entry[2]], entry[2]), reverse=True)

    def recent(self, node, t, k, **gates) -> list[tuple[int, float, int]]:
        return self.entries(node, t, **gates)[:k]

    def pair(self, u, v, t, before=math.inf) -> list[tuple[float, int]]:
        """(time, event number) of the visible events between u and v, newest first."""
        met = [(when, n) for a, b, when, n in self.events if {a, b} == {u, v} and when < t and n < before]
        return sorted(met, key=lambda one: (one[0], self.ties[one[1]], one[1]), reverse=True)

    def pair_history(self, u, v, t, before=math.inf, windows=()) -> tuple[list[int], list[float], list[list[int]]]:
        """Counts, times since the last event, and counts within windows: by `WAYS`."""
        seen = [(a, b, when) for a, b, when, n in self.events if when < t and n < before]
        ways = (
            lambda a, b: (a, b) == (u, v),
            lambda a, b: (a, b) == (v, u) and u != v,  # a self-loop goes out, and is one entry
            lambda a, b: a == u,
            lambda a, b: b == u and a != u,
            lambda a, b: a == v,
            lambda a, b: b == v and a != v,
        )
        times = [[when for a, b, when in seen if way(a, b)] for way in ways]
        since = [t - max(found) if found else 0 for found in times]
        return (
            [len(found) for found in times],
            since,
            [[sum(x >= t - w for x in found) for w in windows] for found in times],
        )

    def recent_contacts(self, u, v, t, k, unit, before=math.inf) -> dict[str, list[float]]:
        """As `RecentContacts` has it."""
        ours, theirs = ([entry[0] for entry in self.recent(node, t, k, before=before)] for node in (u, v))
        when = {node: [entry[1] for entry in self.recent(node, t, k, before=before)] for node in (u, v)}
        shared = [(i, theirs.index(node)) for i, node in enumerate(ours) if node in theirs]
        recent = [
            [1 / (1 + (t - when[u][i]) / unit) for i, _ in shared],
            [1 / (1 + (t - when[v][j]) / unit) for _, j in shared],
        ]
        return {
            "ranks": [ours.index(v) if v in ours else -1, theirs.index(u) if u in theirs else -1],
            "partners": [len(set(ours)), len(set(theirs))],
            "held": [len(ours), len(theirs)],
            "shared": [len(shared), sum(recent[0]), sum(recent[1])],
        }

    def co_visits(self, u, v, t, last, k, near, unit, before=math.inf) -> list[float]:
        """As `CO_VISITS` has it."""
        sources = {number: a for a, _, _, number in self.events}

        def visits(node, out):
            """The other ends of its newest contacts, as their source or not, without u and self-loops."""
            found = self.recent(node, t, k, before=before)
            return [(one, when) for one, when, n in found if (sources[n] == node) == out and one not in (node, u)]

        def newest(found):
            return dict(reversed(found))

        def window(node, when):
            times = [entry[1] for entry in self.entries(node, t, before=before)]  # newest first
            newer, older = sum(one > when for one in times), sum(one >= when for one in times)
            return times[min(older + near - 1, len(times) - 1)], times[max(newer - near, 0)]

        theirs, values = visits(v, False), [0.0] * len(CO_VISITS)
        for j, i in enumerate(list(dict.fromkeys(one for one, _ in visits(u, True)))[:last]):
            mine = visits(i, False)
            if i == v:
                continue
            share = 1 / math.sqrt(max(len(theirs), 1) * max(len(mine), 1))
            both = {s: (when, newest(theirs)[s]) for s, when in newest(mine).items() if s in newest(theirs)}
            close = [(a, b) for s, (a, b) in both.items() if window(s, b)[0] <= a <= window(s, b)[1]]
            onward = sum(b > a for a, b in close)
            aged = sum(1 / (1 + (t - max(a, b)) / unit) for a, b in close)
            sums = {0: len(both), 2: share * len(both), 3: share * len(both) / (1 + j), 4: share * len(close)}
            sums |= {5: share * len(close) / (1 + j), 7: share * onward / (1 + j), 8: share * aged / (1 + j)}
            for column, value in sums.items():
                values[column] += value
            values[1], values[6] = max(values[1], len(both)), max(values[6], share * len(close))
            if j == 0:
                values[9] = share * onward
        return values


@dataclass
class Log:
    src: list[int]
    dst: list[int]
    t: list
    cuts: list[int]  # where one append ends and the next begins
    kind: type

    def index(self, stop: int | None = None, ties: np.ndarray | None = None) -> NeighborIndex:
        index = NeighborIndex()
        places = [0, *self.cuts, len(self.t)]
        for a, b in pairwise(places):
            b = min(b, len(self.t) if stop is None else stop)
            some = None if ties is None else ties[a : max(a, b)]
            index.append(self.src[a:b], self.dst[a:b], np.array(self.t[a:b], self.kind), ties=some)
        return index

    def naive(self) -> Naive:
        naive = Naive()
        naive.append(self.src, self.dst, self.t)
        return naive


@st.composite
def logs(draw, most_events: int = 40, most_nodes: int = 6) -> Log:
    """Small logs with ties, self-loops, repeats, new nodes, one-node logs, and cuts anywhere."""
    nodes = draw(st.integers(1, most_nodes))
    size = draw(st.integers(0, most_events))
    ids = st.lists(st.integers(0, nodes - 1), min_size=size, max_size=size)
    kind = draw(st.sampled_from([np.int64, np.float64]))
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=size, max_size=size))
    start = draw(st.sampled_from([0, -5, 1_700_000_000]))
    unit = 1 if kind is np.int64 else 0.25
    t = [kind(start + unit * x).item() for x in np.cumsum(gaps)] if size else []
    cuts = sorted(draw(st.lists(st.integers(0, size), max_size=4)))
    return Log(draw(ids), draw(ids), t, cuts, kind)


@st.composite
def loops(draw) -> Log:
    """Logs in which about every other event is a self-loop, many of them repeats at one time."""
    log = draw(logs(most_nodes=3))
    at_once = draw(st.lists(st.booleans(), min_size=len(log.t), max_size=len(log.t)))
    log.dst = [u if loop else v for u, v, loop in zip(log.src, log.dst, at_once, strict=True)]
    return log


@st.composite
def questions(draw, log: Log, most: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(nodes, times, event gates), around and beyond what the log holds."""
    size = draw(st.integers(1, most))
    top = max([0, *log.src, *log.dst])
    times = [*log.t, (log.t[0] if log.t else 0) - 1, (log.t[-1] if log.t else 0) + 1]
    pick = lambda values: draw(st.lists(values, min_size=size, max_size=size))  # noqa: E731
    nodes = pick(st.integers(0, top + 2))
    t = pick(st.sampled_from(times))
    before = pick(st.integers(0, len(log.t) + 1))
    return np.array(nodes), np.array(t, log.kind), np.array(before)


def rows(answer, query: int) -> list[tuple[int, float, int]]:
    """One query's unmasked slots, as the naive index gives them."""
    mask = answer.mask[query]
    columns = (array[query][mask].tolist() for array in (answer.ids, answer.t, answer.events))
    return list(zip(*columns, strict=True))
