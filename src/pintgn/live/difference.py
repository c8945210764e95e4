"""Paired comparison of two models on the same scored events: the difference of a figure, with an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCKS = 20
"""Blocks of consecutive events that are drawn together: neighbours in a stream are alike."""
DRAWS = 500


@dataclass(frozen=True)
class Difference:
    """A figure of a new model less that of an old one, and its 95 % interval (a paired block bootstrap)."""

    measure: str
    count: int
    old: float
    new: float
    low: float
    high: float
    is_error: bool = False  # in the unit of what is predicted, and less is better; else a share, and more is

    @property
    def worse(self) -> bool:
        """True if the new one is worse beyond what chance explains: its whole interval is on that side of zero."""
        return self.low > 0 if self.is_error else self.high < 0

    def facts(self) -> dict[str, Any]:
        return {
            "scored": self.count,
            "measure": self.measure,
            "old": self.old,
            "new": self.new,
            "difference": self.new - self.old,
            "interval": [self.low, self.high],
        }

    def __str__(self) -> str:
        new, old, more, low, high = self.new, self.old, self.new - self.old, self.low, self.high
        shown = (
            f"{new:.4g} beside {old:.4g}, {more:+.3g} ({low:+.3g} to {high:+.3g})"
            if self.is_error
            else f"{100 * new:.2f} beside {100 * old:.2f}, {100 * more:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"
        )
        return f"{self.measure} {shown} over {self.count:,} scored events"


def auc_of(rows: np.ndarray) -> float:  # (e, 2)
    """The AUC of events, in the first column, against their negatives; ties count half.

    >>> auc_of(np.array([[3.0, 1.0], [1.0, 0.0]]))
    0.875
    """
    positive, ordered = rows[:, 0], np.sort(rows[:, 1])
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.mean() / (2 * len(ordered)))


def compared(
    old: np.ndarray,  # (e, k) each
    new: np.ndarray,
    value: Callable[[np.ndarray], float | None] = auc_of,
    measure: str = "AUC",
    seed: int = 0,
    is_error: bool = False,
) -> Difference | None:
    """Compare the answers of two models about the same events, in order, by a figure of which more is better, or less
    if it `is_error`.

    None if the figure of one of them is None on these events.

    >>> rng = np.random.default_rng(0)
    >>> some = rng.normal(size=(400, 2)) + np.array([1.0, 0.0])
    >>> compared(some, some).worse, compared(some, rng.normal(size=(400, 2))).worse
    (False, True)
    """
    count, before, after = len(old), value(old), value(new)
    if before is None or after is None:
        return None
    blocks = np.array_split(np.arange(count), min(BLOCKS, count))
    rng, found = np.random.default_rng(seed), []
    for _ in range(DRAWS):
        rows = np.concatenate([blocks[k] for k in rng.integers(0, len(blocks), len(blocks))])
        one, other = value(new[rows]), value(old[rows])
        if one is not None and other is not None:
            found.append(one - other)
    low, high = np.quantile(found, [0.025, 0.975]) if found else (-1.0, 1.0)
    return Difference(measure, count, before, after, float(low), float(high), is_error)
