"""Backward walks: counted without listing (positions), and listed (causal anonymous walks; Sec. 2, App. A.3).

Independent of `pintgn.positions`, which is tested against it; tests/theory/oracle.py counts by listing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np

from pintgn.errors import TooLarge, check_count
from pintgn.events.log import EventLog
from pintgn.theory.event_history import Entries, EventHistory, accumulate, node_of, number_rows

EXACT = 2**53
"""Integers below this are exact in float64; beyond it counting starts over with Python's integers."""
LARGEST = 200_000
"""Walks per event that are listed by default."""

Vector = tuple[int, ...]
Step = tuple[int, tuple[Vector, Vector], int]
"""The label of the step (class of time and event features; -1 at the start), I_CAW, class of node features."""


# -- counting ----------------------------------------------------------------------------------------------------------


def one_deeper(counts: np.ndarray) -> np.ndarray:
    """Counts by number of steps (…, k), every walk one step longer: the shift P of Eqs. 10-11."""
    shifted = np.zeros_like(counts)
    shifted[..., 1:] = counts[..., :-1]
    return shifted


def position_vectors(history: EventHistory, roots: Any, d: int) -> np.ndarray:
    """r_{i->u}(t) of every node i relative to each root u, exact: (roots, n, d), int64 or (if too large) object.

    Component k is the number of walks of k steps from u to i whose times strictly decrease (Lemma 2).
    """
    roots = np.asarray(roots, np.int64)
    for dtype in (np.float64, object):
        counts = np.zeros((history.nodes, len(roots), d), dtype)
        counts[roots, np.arange(len(roots)), 0] = 1
        counts = accumulate(history, counts, one_deeper, backward=True)
        if dtype is object or counts.max(initial=0) < EXACT:
            break
    counts = np.swapaxes(counts, 0, 1)
    return counts if dtype is object else counts.astype(np.int64)


def walk_totals(history: EventHistory, steps: int) -> np.ndarray:
    """The number of maximal walks of at most k steps from each node: (n, steps + 1) floats, exact below 2**53.

    A walk is maximal when it cannot go on, or has the most steps allowed (paper, App. A.3). A node without events has
    one, which stays where it is.
    """

    def grow(other: np.ndarray) -> np.ndarray:
        grown = np.maximum(one_deeper(other), 1)  # where the other end cannot go on, the walk ends there
        grown[..., 0] = 0
        return grown

    totals = accumulate(history, np.zeros((history.nodes, steps + 1)), grow)
    return np.maximum(totals, 1)


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


def rooted_copies(
    history: EventHistory, pairs: Sequence[Sequence[int]], vectors: Mapping[int, np.ndarray], state: np.ndarray
) -> tuple[np.ndarray, Entries, list[int]]:
    """A copy of the graph for each pair of roots, its nodes coloured by state and positions relative to both.

    Returns the colours, the entries of all copies, and where in each the pair's own root is.
    """
    rows = np.concatenate([np.concatenate([state[:, None], *(vectors[root] for root in pair)], 1) for pair in pairs])
    roots = [copy * history.nodes + pair[0] for copy, pair in enumerate(pairs)]
    return number_rows(rows, len(rows)), Entries.join([history.entries] * len(pairs)), roots


# -- listing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WalkSet:
    """S_u: the maximal walks from one node. Walk i visits nodes[i, 0], nodes[i, 1], …; -1 after its end."""

    nodes: np.ndarray  # (w, steps + 1)
    events: np.ndarray  # (w, steps)

    def __len__(self) -> int:
        return len(self.nodes)

    def occurrences(self) -> dict[int, Vector]:
        """g(w; S_u): how many walks have node w at each step. Nodes on no walk are left out."""
        width = self.nodes.shape[1]
        used = self.nodes >= 0
        pairs, counts = np.unique((self.nodes * width + np.arange(width))[used], return_counts=True)
        vectors: dict[int, list[int]] = {}
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            vectors.setdefault(pair // width, [0] * width)[pair % width] = count
        return {node: tuple(vector) for node, vector in vectors.items()}


def walk_set(history: EventHistory, root: int, steps: int) -> WalkSet:
    """Every walk from `root` backward in time, of at most `steps` steps, that cannot be made longer."""
    entries, event, onward = history.entries, history.entry_event, history.entry_onward
    nodes, events = np.full((1, steps + 1), -1), np.full((1, steps), -1)
    nodes[0, 0] = root
    stop = entries.start[[root + 1]]
    done: list[tuple[np.ndarray, np.ndarray]] = []
    for step in range(steps):
        start = entries.start[nodes[:, step]]
        choices = stop - start
        ended = choices == 0
        done.append((nodes[ended], events[ended]))
        origin = np.repeat(np.arange(len(nodes)), choices)
        row = np.arange(len(origin)) - np.repeat(np.cumsum(choices) - choices, choices) + start[origin]
        nodes, events = nodes[origin], events[origin]
        nodes[:, step + 1], events[:, step] = entries.neighbor[row], event[row]
        stop = onward[row]
    return WalkSet(*(np.concatenate(parts) for parts in zip(*done, (nodes, events), strict=True)))


@dataclass(frozen=True)
class AnonymousWalks:
    """The walks of an event with nodes replaced by their counts: the input of CAW.

    `counts` maps every anonymised walk to how many walks look like it.
    """

    history: EventHistory
    counts: dict[tuple[Step, ...], int]

    @cached_property
    def shares(self) -> dict[tuple[Step, ...], int]:
        """Counts up to scale: the mean over walks sees no more."""
        divisor = gcd(*self.counts.values())
        return {walk: count // divisor for walk, count in self.counts.items()}

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def difference(self, other: AnonymousWalks) -> tuple[Step, ...] | None:
        """A walk that makes up different shares of the two events' walks; None if there is none."""
        mine, theirs = self.shares, other.shares
        odd = [walk for walk in mine.keys() | theirs.keys() if mine.get(walk, 0) != theirs.get(walk, 0)]
        return min(odd, key=lambda walk: (len(walk), walk), default=None)

    def show(self, walk: tuple[Step, ...]) -> str:
        """An anonymised walk as the paper writes it."""

        def pair(step: Step) -> str:
            return "{" + ", ".join("[" + ",".join(map(str, vector)) + "]" for vector in step[1]) + "}"

        text = pair(walk[0])
        for step in walk[1:]:
            text += f" ─{self._label_words[step[0]]}→ {pair(step)}"
        return text

    @cached_property
    def _label_words(self) -> dict[int, str]:
        if self.history.times != "exact":
            return defaultdict(str)
        label = self.history.event_label
        return {int(label[e]): self.history.describe(int(e)) for e in np.unique(label, return_index=True)[1]}


def anonymous_walks(
    log: EventLog, u: Any, v: Any, t: Any = None, steps: int = 2, *, most: int = LARGEST
) -> AnonymousWalks:
    """The anonymised walks of the event {u, v} at t: the full input of CAW, with all walks of at most `steps` steps.

    A walk's node w becomes the unordered pair {g(w; S_u), g(w; S_v)}; each step keeps its time and, as in CAW's own
    paper, event features; each node its features, if the log has any.
    """
    check_count(steps, "steps", least=1)
    history = EventHistory(log, t)
    sides = ("src", "dst") if log.ids.separate_namespaces else (None, None)
    ends = node_of(log, u, sides[0]), node_of(log, v, sides[1])
    totals = walk_totals(history, steps)[list(ends)].sum(0)
    if totals[-1] > most:
        fits = int((totals[1:] <= most).sum())
        words = "1 step fits" if fits == 1 else f"{fits} steps fit"
        advice = f"{words} ({int(totals[fits]):,} walks)." if fits else "Not even one step fits."
        raise TooLarge(
            f"the event ({u!r}, {v!r}) has {totals[-1]:,.0f} walks of {steps} steps; at most {most:,} are listed. "
            f"{advice}"
        )
    return anonymize(history, *ends, steps)


def anonymize(history: EventHistory, u: int, v: int, steps: int) -> AnonymousWalks:
    """`anonymous_walks` for node numbers, without a limit."""
    ends = [walk_set(history, u, steps)] + ([walk_set(history, v, steps)] if u != v else [])
    seen = [walks.occurrences() for walks in (ends[0], ends[-1])]
    none = (0,) * (steps + 1)
    state = history.state

    def anonymous(node: int) -> tuple[tuple[Vector, Vector], int]:
        first, second = sorted(g.get(node, none) for g in seen)
        return (second, first), int(state[node])

    names = {node: anonymous(node) for node in seen[0].keys() | seen[1].keys()}
    distinct = sorted(set(names.values()))
    rank = {name: i for i, name in enumerate(distinct)}
    number = np.full(history.nodes, -1)
    number[list(names)] = [rank[name] for name in names.values()]
    counts: dict[tuple[Step, ...], int] = {}
    for walks in ends:
        carried = np.where(walks.events >= 0, _labels(history, walks.events), -1)
        table = np.concatenate([np.where(walks.nodes >= 0, number[walks.nodes], -1), carried], 1)
        _, first, repeats = np.unique(number_rows(table, len(table)), return_index=True, return_counts=True)
        for row, count in zip(table[first].tolist(), repeats.tolist(), strict=True):
            nodes, labels = row[: steps + 1], [-1, *row[steps + 1 :]]
            walk = tuple((label, *distinct[w]) for w, label in zip(nodes, labels, strict=True) if w >= 0)
            counts[walk] = counts.get(walk, 0) + count
    return AnonymousWalks(history, counts)


def walk_totals_differ(totals: np.ndarray, a: Sequence[int], b: Sequence[int]) -> bool:
    """True if the numbers of walks (n,) from the ends separate two events, so that none need be listed.

    A walk starts at an end u, whose I_CAW says at step 0 how many walks start at u (and once more if both ends are u).
    """
    mine, theirs = (sorted(totals[list(dict.fromkeys(ends))].tolist()) for ends in (a, b))
    return mine != theirs and max(mine + theirs) < EXACT


def _labels(history: EventHistory, events: np.ndarray) -> np.ndarray:
    """Labels of each step (w, steps). At exact times, t' is equivalent to the difference to the step before."""
    if history.times == "exact":
        return history.event_label[events]
    when = history.when[events]
    before = np.concatenate([np.full((len(events), 1), history.t), when[:, :-1]], 1)
    return (
        history.see(np.where(events >= 0, before - when, 1)) * (int(history.feature.max()) + 1)
        + history.feature[events]
    )
