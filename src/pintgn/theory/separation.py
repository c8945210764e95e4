"""Separation of many pairs by classes of models: the cheapest proof first, no witnesses.

`comparison` gives the same answers for one pair, with witnesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from pintgn.theory.colors import memory_states, refinement
from pintgn.theory.event_history import Entries, EventHistory
from pintgn.theory.walks import anonymize, position_vectors, rooted_copies, walk_totals, walk_totals_differ

CLASSES = ("mp-tgn", "mp-tgn+memory", "tgat", "tgn-att", "caw", "pint", "temporal-wl")
MOST_WALKS = 20_000
PAIRS_AT_ONCE = 50
Ends = tuple[int, ...]
Pair = tuple[Ends, Ends]
"""Two nodes, as ((u,), (v,)), or two events, as ((u, v), (u', v'))."""


class Separation:
    """All classes, as of one history: `depth` layers, positions of length `d`, walks of `steps` steps.

    Graphs with at most `small` neighbor entries are refined until stable, to say which depth would do.
    """

    def __init__(self, history: EventHistory, depth: int, d: int, steps: int, small: int = 0):
        self.history, self.depth, self.d, self.steps, self.small = history, depth, d, steps, small
        entries, plain = history.entries, history.state
        self.memory, mean = memory_states(history), memory_states(history, mean=True)
        stable = refinement(plain, entries)
        self.colors = {
            "mp-tgn": stable,
            "mp-tgn+memory": self.refined(self.memory, entries),
            "tgat": self.refined(plain, entries, proportions=True),
            "tgn-att": self.refined(mean, entries, proportions=True),
            "temporal-wl": stable,
        }
        """After each round, for message passing (Lemma 1 and Prop. 2)."""

    def refined(self, start: np.ndarray, entries: Entries, proportions: bool = False) -> list[np.ndarray]:
        """Colours after each round, as deep as asked or until stable."""
        rounds = None if len(entries.neighbor) <= self.small else self.depth
        return refinement(start, entries, rounds, proportions)

    @cached_property
    def totals(self) -> np.ndarray:
        """The number of walks of at most k steps from each node: (n, steps + 1)."""
        return walk_totals(self.history, self.steps)

    def positions(self, roots: set[int]) -> dict[int, np.ndarray]:
        """Positions of all nodes relative to each root."""
        ordered = sorted(roots)
        return dict(zip(ordered, position_vectors(self.history, ordered, self.d), strict=True))

    def verdicts(self, model: str, pairs: Sequence[Pair], coarser: Sequence[bool | None] = ()) -> list[bool | None]:
        """True for pairs that a class can separate; None if it does not apply or there are too many walks.

        `coarser` may hold verdicts for the same pairs and coarser times: who can separate with less can with more.
        """
        if model == "pint":
            return self._pint(pairs)
        if model == "caw":
            before = list(coarser) or [None] * len(pairs)
            return [True if can else self._caw(a, b) for can, (a, b) in zip(before, pairs, strict=True)]
        rounds = self.colors[model]
        color = rounds[-1] if model == "temporal-wl" else rounds[min(self.depth, len(rounds) - 1)]
        return [differ(color, a, b) for a, b in pairs]

    def first_levels(self, pairs: Sequence[Pair]) -> list[int]:
        """Numbers of pairs that the temporal WL test first separates in each round."""
        found = [first_level(self.colors["temporal-wl"], a, b) for a, b in pairs]
        return [found.count(level) for level in range(len(self.colors["temporal-wl"]))]

    def _caw(self, a: Ends, b: Ends) -> bool | None:
        if len(a) == 1:
            return None
        totals = self.totals[:, -1]
        if walk_totals_differ(totals, a, b):
            return True
        if max(totals[list(ends)].sum() for ends in (a, b)) > MOST_WALKS:
            return None
        first, second = (anonymize(self.history, ends[0], ends[-1], self.steps) for ends in (a, b))
        return first.difference(second) is not None

    def _pint(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """PINT separates all that message passing does; only the rest needs positions."""
        verdicts = self.verdicts("mp-tgn", pairs)
        rest = [i for i, can in enumerate(verdicts) if not can and sorted(pairs[i][0]) != sorted(pairs[i][1])]
        for begin in range(0, len(rest), PAIRS_AT_ONCE):
            chunk = rest[begin : begin + PAIRS_AT_ONCE]
            vectors = self.positions({node for i in chunk for ends in pairs[i] for node in ends})
            for i in chunk:
                verdicts[i] = self._pint_pair(*pairs[i], vectors)
        return verdicts

    def _pint_pair(self, a: Ends, b: Ends, vectors: Mapping[int, np.ndarray]) -> bool:
        own = [[[vectors[root][ends[0]].tolist() for root in ends] for ends in rooted(group)] for group in (a, b)]
        if sorted(own[0]) != sorted(own[1]):  # the roots' own positions already differ
            return True
        if not self.depth:
            return False
        start, entries, roots = rooted_copies(self.history, [*rooted(a), *rooted(b)], vectors, self.history.state)
        return differ(self.refined(start, entries)[-1], roots[: len(a)], roots[len(a) :])


def rooted(ends: Ends) -> list[Ends]:
    """(own root, other root) for every end of an event; just the root of a node."""
    return [ends] if len(ends) == 1 else [ends, ends[::-1]]


def differ(color: np.ndarray, a: Sequence[int], b: Sequence[int]) -> bool:
    """True if two unordered groups of nodes have different colours."""
    return sorted(color[list(a)].tolist()) != sorted(color[list(b)].tolist())


def first_level(colors: Sequence[np.ndarray], a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first round in which two unordered groups of nodes have different colours; None if in no round."""
    return next((level for level, color in enumerate(colors) if differ(color, a, b)), None)
