"""Block bootstrap: standard errors and paired intervals of figures.

Neighboring events are alike, so drawing single events would make every interval too narrow. The test part is cut into
up to 50 blocks of about equally many consecutive events (simultaneous ones stay together), and blocks are drawn with
replacement, 200 times. Every row has the same draws, so the difference of two rows is paired: same events, same
negatives, same draws. The randomness of training is not covered; that takes runs with other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pintgn.learn.metrics import Scores, check_finite
from pintgn.report.kernels_bootstrap import weighted_precision

BLOCKS, DRAWS, LEAST = 50, 200, 10
"""LEAST: blocks below which there is no spread."""

EVERYTHING = slice(None)
Draws = dict[str, np.ndarray]
"""By figure: its value under each draw (DRAWS,); NaN if a draw has no events."""


@dataclass(frozen=True)
class BootstrapBlocks:
    """The block of each event, and how often each block is drawn."""

    of: np.ndarray  # (e,)
    weights: np.ndarray  # (DRAWS, blocks)

    @classmethod
    def cut(cls, t: np.ndarray, seed: int = 0) -> BootstrapBlocks:
        """Blocks of events sorted by time."""
        _, start, group = np.unique(t, return_index=True, return_inverse=True)
        block = start[group] * BLOCKS // max(len(t), 1)
        _, of = np.unique(block, return_inverse=True)
        count = int(of.max(initial=-1)) + 1
        rng = np.random.default_rng([seed, len(t)])
        drawn = rng.integers(0, max(count, 1), (DRAWS, count))
        weights = np.stack([np.bincount(row, minlength=count) for row in drawn])
        return cls(of, weights)

    @property
    def count(self) -> int:
        return self.weights.shape[1]

    @property
    def has_enough(self) -> bool:
        return self.count >= LEAST

    def precision(self, scores: Scores, mask: np.ndarray | slice = EVERYTHING) -> Draws:
        """AP and AUC of the events under a mask, under each draw."""
        scores, of = scores[mask], self.of[mask]
        found: Draws = {name: np.full(DRAWS, np.nan) for name in ("ap", "auc")}
        if not self.has_enough or not len(scores):
            return found
        both = np.concatenate([scores.positive, scores.negative])
        check_finite(both)
        order = np.argsort(-both, kind="stable")
        last = np.append(np.diff(both[order]) != 0, True)
        block = np.concatenate([of, of])[order]
        found["ap"], found["auc"] = weighted_precision(order < len(scores), block, last, self.weights * 1.0).T
        return found

    def mean(self, values: np.ndarray, mask: np.ndarray | slice = EVERYTHING) -> np.ndarray:  # (DRAWS,)
        """The mean of a value per event, under each draw."""
        if not self.has_enough:
            return np.full(DRAWS, np.nan)
        totals = np.bincount(self.of[mask], values[mask], self.count)
        counts = np.bincount(self.of[mask], minlength=self.count)
        with np.errstate(invalid="ignore"):
            return (self.weights @ totals) / (self.weights @ counts)


def standard_error(draws: np.ndarray) -> float | None:
    """The standard deviation over draws; None if too few are finite."""
    finite = draws[np.isfinite(draws)]
    return float(finite.std()) if len(finite) > DRAWS // 2 else None


def interval(draws: np.ndarray, share: float = 0.95) -> tuple[float, float] | None:
    """The middle 95 % of the draws; None if too few are finite."""
    finite = draws[np.isfinite(draws)]
    if len(finite) <= DRAWS // 2:
        return None
    low, high = np.quantile(finite, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def mean_of(runs: list[Draws]) -> Draws:
    """The mean over runs, draw by draw."""
    return {name: np.mean([one[name] for one in runs], 0) for name in runs[0]}
