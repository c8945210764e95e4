"""Witnesses: where the trees of two nodes first differ, as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from pintgn.formatting import plural
from pintgn.theory.event_history import Entries, EventHistory
from pintgn.theory.separation import first_level

Path = list[tuple[int, int, int]]
"""Steps from the roots of two trees: event label, node in the one tree, node in the other."""


class Explainer:
    """Finds the tree nodes that make two colours differ.

    Args:
        history: whose events.
        entries: the coloured graph, which may be copies of the history's graph.
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
        """A sentence on why two unordered groups of nodes differ in a round."""
        roots = self._odd_pair(a, b, level)
        path, label, (m, n) = self._difference(*roots, level)
        ends = path[-1][1:] if path else roots
        along = f" (along {self._walk(roots[0], path, 0)} and {self._walk(roots[1], path, 1)})" if path else ""
        if label is None:
            return f"level {len(path)}: {self.state(*ends)}{along}"
        (x, y), event, level = map(self.name, ends), self._label_words(label), len(path) + 1
        if self.proportions:
            all_m, all_n = map(self._degree, ends)
            return f"level {level}: {m} of {all_m} events of {x} at {event}, {n} of {all_n} of {y}{along}"
        mine = plural(m, "event") if m else "no event"
        return f"level {level}: {x} has {mine} at {event}, {y} has {n or 'none'}{along}"

    def name(self, node: int) -> str:
        return self.history.name(node % self.history.nodes)

    def _difference(self, a: int, b: int, level: int) -> tuple[Path, int | None, tuple[int, int]]:
        """Follow equal steps from two nodes that differ in a round to the first visible difference.

        Returns the steps, the event label that occurs differently often at the two ends, and how often; no label where
        the ends' states differ.
        """
        path: Path = []
        while True:
            while level and self.colors[level - 1][a] != self.colors[level - 1][b]:
                level -= 1  # they differ earlier than asked
            if level == 0:
                return path, None, (0, 0)
            mine, theirs = self._below(a, level), self._below(b, level)
            labels: list[Counter[int]] = [Counter(), Counter()]
            for found, side in zip(labels, (mine, theirs), strict=True):
                for (label, _), children in side.items():
                    found[label] += len(children)
            scale = (self._degree(b), self._degree(a)) if self.proportions else (1, 1)
            if not scale[0] or not scale[1]:  # one of them has no events at all
                scale = (1, 1)
            odd = [x for x in labels[0].keys() | labels[1].keys() if labels[0][x] * scale[0] != labels[1][x] * scale[1]]
            if odd:
                label = max(odd, key=lambda x: (0 in (labels[0][x], labels[1][x]), x))  # rather one that is absent
                return path, label, (labels[0][label], labels[1][label])
            surplus = {
                key: len(mine[key]) * scale[0] - len(theirs[key]) * scale[1] for key in mine.keys() | theirs.keys()
            }
            label = max(label for (label, _), count in surplus.items() if count > 0)
            unmatched = [(key, count) for key, count in surplus.items() if key[0] == label]
            # of the children that have no partner, follow the two that stay alike the longest
            _, a, b = max(
                (self._first(x, y), x, y)
                for x in [mine[key][0] for key, count in unmatched if count > 0]
                for y in [theirs[key][0] for key, count in unmatched if count < 0]
            )
            path.append((label, a, b))
            level -= 1

    def _odd_pair(self, a: Sequence[int], b: Sequence[int], level: int) -> tuple[int, int]:
        """The two members to compare: those left over when equal ones are paired off, else the most alike."""
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

    def _below(self, node: int, level: int) -> dict[tuple[int, int], list[int]]:
        """The children of a tree node, by event label and colour."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        rows = self.entries.of(node)
        for label, child in zip(self.entries.label[rows].tolist(), self.entries.neighbor[rows].tolist(), strict=True):
            found[label, int(self.colors[level - 1][child])].append(child)
        return found

    def _label_words(self, label: int) -> str:
        event = int(np.flatnonzero(self.history.event_label == label)[0])
        return self.history.describe(event)

    def _walk(self, root: int, path: Path, side: int) -> str:
        text = self.name(root)
        for label, *nodes in path:
            text += f" ─{self._label_words(label)}→ {self.name(nodes[side])}"
        return text
