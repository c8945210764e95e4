"""Two models on the same scored events: by how much their AUC differs, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCKS = 20
"""Blocks of consecutive events that are drawn together: neighbours in a stream are alike."""
DRAWS = 500


@dataclass(frozen=True)
class Difference:
    """The AUC of a new model less that of an old one, and its 95 % interval (a paired block bootstrap)."""

    count: int
    old: float
    new: float
    low: float
    high: float

    @property
    def worse(self) -> bool:
        """Whether the new one is worse beyond what chance explains: its whole interval is below zero."""
        return self.high < 0

    def facts(self) -> dict[str, Any]:
        return {
            "scored": self.count,
            "auc_old": self.old,
            "auc_new": self.new,
            "difference": self.new - self.old,
            "interval": [self.low, self.high],
        }

    def __str__(self) -> str:
        return (
            f"AUC {100 * self.new:.2f} beside {100 * self.old:.2f}, {100 * (self.new - self.old):+.2f} "
            f"({100 * self.low:+.2f} to {100 * self.high:+.2f}) over {self.count:,} scored events"
        )


def auc(positive: np.ndarray, negative: np.ndarray) -> float:
    """That a positive is above a negative; ties count half.

    >>> auc(np.array([3.0, 1.0]), np.array([1.0, 0.0]))
    0.875
    """
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.mean() / (2 * len(negative)))


def compared(old: np.ndarray, new: np.ndarray, seed: int = 0) -> Difference:  # (e, 2) each
    """Logits of the same events, in order: of the event itself, and of its negative.

    >>> rng = np.random.default_rng(0)
    >>> some = rng.normal(size=(400, 2)) + np.array([1.0, 0.0])
    >>> compared(some, some).worse, compared(some, rng.normal(size=(400, 2))).worse
    (False, True)
    """
    count = len(old)
    blocks = np.array_split(np.arange(count), min(BLOCKS, count))
    rng, found = np.random.default_rng(seed), []
    for _ in range(DRAWS):
        rows = np.concatenate([blocks[k] for k in rng.integers(0, len(blocks), len(blocks))])
        found.append(auc(*new[rows].T) - auc(*old[rows].T))
    low, high = np.quantile(found, [0.025, 0.975])
    return Difference(count, auc(*old.T), auc(*new.T), float(low), float(high))
