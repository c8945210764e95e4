"""`distinguish` for many pairs at once: the same verdicts, cheapest proof first, without witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pintgn.theory.anonymous import anonymize, told_by_number
from pintgn.theory.counts import position_vectors, rooted_copies, walk_totals
from pintgn.theory.history import EventHistory
from pintgn.theory.memory import memory_states
from pintgn.theory.wl import refinement

CLASSES = ("mp-tgn", "mp-tgn+memory", "tgat", "tgn-att", "caw", "pint", "temporal-wl")
MOST_WALKS = 20_000
PAIRS_AT_ONCE = 50

Ends = tuple[int, ...]
Pair = tuple[Ends, Ends]
"""Two nodes, as ((u,), (v,)), or two events, as ((u, v), (u', v'))."""


class Bulk:
    """All classes for many pairs, as of one past."""

    def __init__(self, history: EventHistory, depth: int, d: int, steps: int):
        self.history, self.depth, self.d, self.steps = history, depth, d, steps
        entries = history.entries
        self.stable = refinement(history.state, entries)
        memory, mean = memory_states(history), memory_states(history, "mean")
        self.colors = {
            "mp-tgn": self.stable[min(depth, len(self.stable) - 1)],
            "mp-tgn+memory": refinement(memory, entries, depth)[-1],
            "tgat": refinement(history.state, entries, depth, proportions=True)[-1],
            "tgn-att": refinement(mean, entries, depth, proportions=True)[-1],
            "temporal-wl": self.stable[-1],
        }

    @cached_property
    def totals(self) -> np.ndarray:
        return walk_totals(self.history, self.steps)[:, -1]

    def verdicts(self, model: str, pairs: Sequence[Pair], known: Sequence[bool | None] = ()) -> list[bool | None]:
        """What one class can separate; None where it does not apply or there are too many walks.

        `known` may hold verdicts for the same pairs and coarser times: who can separate with less can with more.
        """
        if model == "pint":
            return self._pint(pairs)
        if model == "caw":
            before = list(known) or [None] * len(pairs)
            return [True if can else self._caw(a, b) for can, (a, b) in zip(before, pairs, strict=True)]
        return [differ(self.colors[model], a, b) for a, b in pairs]

    def first_levels(self, pairs: Sequence[Pair]) -> list[int]:
        """How many pairs the temporal WL test first separates in each round."""
        levels = [0] * len(self.stable)
        for a, b in pairs:
            different = [differ(color, a, b) for color in self.stable]
            if any(different):
                levels[different.index(True)] += 1
        return levels

    def _caw(self, a: Ends, b: Ends) -> bool | None:
        if len(a) == 1:
            return None
        if told_by_number(self.totals, a, b):
            return True
        if max(self.totals[list(ends)].sum() for ends in (a, b)) > MOST_WALKS:
            return None
        first, second = (anonymize(self.history, ends[0], ends[-1], self.steps) for ends in (a, b))
        return first.difference(second) is not None

    def _pint(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """What message passing separates PINT separates too; only the rest needs positions."""
        verdicts: list[bool | None] = [differ(self.colors["mp-tgn"], a, b) for a, b in pairs]
        rest = [i for i, can in enumerate(verdicts) if not can and sorted(pairs[i][0]) != sorted(pairs[i][1])]
        for begin in range(0, len(rest), PAIRS_AT_ONCE):
            chunk = rest[begin : begin + PAIRS_AT_ONCE]
            roots = sorted({node for i in chunk for ends in pairs[i] for node in ends})
            vectors = dict(zip(roots, position_vectors(self.history, roots, self.d), strict=True))
            for i in chunk:
                verdicts[i] = self._pint_pair(pairs[i], vectors)
        return verdicts

    def _pint_pair(self, pair: Pair, vectors: dict[int, np.ndarray]) -> bool:
        a, b = pair
        copies = [a, b] if len(a) == 1 else [a, a[::-1], b, b[::-1]]
        own = [[vectors[root][ends[0]].tolist() for root in ends] for ends in copies]
        half = len(copies) // 2
        if sorted(own[:half]) != sorted(own[half:]):  # the roots' own positions already differ
            return True
        if not self.depth:
            return False
        start, entries, marks = rooted_copies(self.history, copies, vectors, self.history.state)
        color = refinement(start, entries, self.depth)[-1]
        return differ(color, marks[:half], marks[half:])


def differ(color: np.ndarray, a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two unordered groups of nodes have different colours."""
    return sorted(color[list(a)].tolist()) != sorted(color[list(b)].tolist())
