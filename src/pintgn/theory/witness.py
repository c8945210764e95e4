"""Where two coloured nodes begin to differ, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from pintgn.formatting import plural
from pintgn.theory.history import Entries, EventHistory
from pintgn.theory.separation import first_level


@dataclass(frozen=True)
class Difference:
    """Where two trees differ, at the end of two paths that look alike."""

    level: int
    path: list[tuple[int, int, int]]
    """Steps from the roots: event label, node in the one tree, node in the other."""
    ends: tuple[int, int]
    label: int | None
    """The event label that occurs differently often at the two ends; None when their states differ."""
    counts: tuple[int, int] = (0, 0)


class Explainer:
    """Turns colours that differ into the tree nodes where one can see it.

    Args:
        history: whose events.
        entries: the coloured graph, which may be several copies of the history's graph side by side.
        colors: initial colours and those after each round.
        state: says how the initial colours of two nodes of the coloured graph differ.
        proportions: whether multisets were compared up to scale.
    """

    def __init__(
        self,
        history: EventHistory,
        entries: Entries,
        colors: Sequence[np.ndarray],
        state: Callable[[int, int], str],
        proportions: bool = False,
    ):
        self.history, self.entries, self.colors = history, entries, colors
        self.state, self.proportions = state, proportions

    def words(self, a: Sequence[int], b: Sequence[int], level: int) -> str:
        """Why two unordered groups of nodes differ in a round, as a sentence."""
        roots = self._odd_pair(a, b, level)
        difference = self.difference(*roots, level)
        x, y = (self.name(end) for end in difference.ends)
        along = ""
        if difference.path:
            left, right = (self._walk(roots[i], difference.path, i) for i in (0, 1))
            along = f" (along {left} and {right})"
        if difference.label is None:
            return f"level {difference.level}: {self.state(*difference.ends)}{along}"
        event = self._label_words(difference.label)
        m, n = difference.counts
        if self.proportions:
            (all_m, all_n) = (self._degree(end) for end in difference.ends)
            return f"level {difference.level}: {m} of {all_m} events of {x} at {event}, {n} of {all_n} of {y}{along}"
        mine = plural(m, "event") if m else "no event"
        return f"level {difference.level}: {x} has {mine} at {event}, {y} has {n or 'none'}{along}"

    def name(self, node: int) -> str:
        return self.history.name(node % self.history.nodes)

    def difference(self, a: int, b: int, level: int) -> Difference:
        """Follow equal-looking steps from two nodes that differ in a round to a difference one can point at."""
        path: list[tuple[int, int, int]] = []
        while True:
            while level and self.colors[level - 1][a] != self.colors[level - 1][b]:
                level -= 1  # they differ earlier than asked
            if level == 0:
                return Difference(len(path), path, (a, b), None)
            mine, theirs = self._below(a, level), self._below(b, level)
            labels: list[Counter[int]] = [Counter(), Counter()]
            for found, side in zip(labels, (mine, theirs), strict=True):
                for (label, _), count in side.items():
                    found[label] += count
            scale = (self._degree(b), self._degree(a)) if self.proportions else (1, 1)
            if not scale[0] or not scale[1]:  # one of them has no events at all
                scale = (1, 1)
            odd = [x for x in labels[0].keys() | labels[1].keys() if labels[0][x] * scale[0] != labels[1][x] * scale[1]]
            if odd:
                label = max(odd, key=lambda x: (0 in (labels[0][x], labels[1][x]), x))  # rather one that is absent
                return Difference(len(path) + 1, path, (a, b), label, (labels[0][label], labels[1][label]))
            more = [key for key in mine if mine[key] * scale[0] > theirs[key] * scale[1]]
            less = [key for key in theirs if mine[key] * scale[0] < theirs[key] * scale[1]]
            label = max(x for x, _ in more)
            # of the children that have no partner, follow the two that stay alike the longest
            _, a, b = max(
                (self._first(x, y), x, y)
                for x in self._children(a, level, [key for key in more if key[0] == label])
                for y in self._children(b, level, [key for key in less if key[0] == label])
            )
            path.append((label, a, b))
            level -= 1

    def _odd_pair(self, a: Sequence[int], b: Sequence[int], level: int) -> tuple[int, int]:
        """Which two members to compare: those left over when equal ones are paired off, else the most alike."""
        if len(a) == 1:
            return a[0], b[0]
        # of one colour, or else one node that the events share
        for same in (self.colors[level], np.arange(self.entries.nodes) % self.history.nodes):
            for i, j in product((0, 1), repeat=2):
                if same[a[i]] == same[b[j]]:
                    return a[1 - i], b[1 - j]
        return max(((x, y) for x in a for y in b), key=lambda pair: self._first(*pair))

    def _first(self, a: int, b: int) -> int:
        level = first_level(self.colors, [a], [b])
        return len(self.colors) if level is None else level

    def _degree(self, node: int) -> int:
        rows = self.entries.of(node)
        return rows.stop - rows.start

    def _below(self, node: int, level: int) -> Counter[tuple[int, int]]:
        rows = self.entries.of(node)
        color = self.colors[level - 1][self.entries.neighbor[rows]]
        return Counter(zip(self.entries.label[rows].tolist(), color.tolist(), strict=True))

    def _children(self, node: int, level: int, keys: list[tuple[int, int]]) -> list[int]:
        """One child for each (label, colour)."""
        found: dict[tuple[int, int], int] = {}
        rows = self.entries.of(node)
        for row in range(rows.start, rows.stop):
            child = int(self.entries.neighbor[row])
            found.setdefault((int(self.entries.label[row]), int(self.colors[level - 1][child])), child)
        return [found[key] for key in keys]

    def _label_words(self, label: int) -> str:
        event = int(np.flatnonzero(self.history.event_label == label)[0])
        return self.history.describe(event)

    def _walk(self, root: int, path: list[tuple[int, int, int]], side: int) -> str:
        text = self.name(root)
        for label, *nodes in path:
            text += f" ─{self._label_words(label)}→ {self.name(nodes[side])}"
        return text
