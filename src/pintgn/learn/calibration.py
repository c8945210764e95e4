"""From logits to probabilities, by validation (Platt scaling).

p = sigmoid(a · logit + b), with a and b fitted on the validation part: its events against as many random destinations.
So a probability answers: if this link and one to a random destination were equally likely beforehand, how likely is it
that this is the one that happens? It ranks like the logit (a > 0). It is not the probability that two nodes meet
within some time, which depends on how often anything happens at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pintgn.learn.metrics import Scores, check_finite


@dataclass(frozen=True)
class Calibration:
    """Turns logits into probabilities."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, logits: np.ndarray) -> np.ndarray:
        z = self.slope * np.asarray(logits, np.float64) + self.offset
        return 0.5 * (1 + np.tanh(z / 2))  # the sigmoid, without overflow

    @classmethod
    def of(cls, scores: Scores) -> Calibration:
        """Maximum likelihood with Platt's softened targets, by Newton's method."""
        count = len(scores)
        if not count:
            return cls()
        logits = np.concatenate([scores.positive, scores.negative]).astype(np.float64)
        check_finite(logits)
        middle, spread = logits.mean(), logits.std() or 1.0
        x = np.stack([(logits - middle) / spread, np.ones_like(logits)], 1)
        target = np.repeat([(count + 1) / (count + 2), 1 / (count + 2)], count)
        weights = np.array([1.0, 0.0])
        for _ in range(50):
            p = 0.5 * (1 + np.tanh(x @ weights / 2))
            gradient = x.T @ (p - target)
            curvature = (x * (p * (1 - p))[:, None]).T @ x + 1e-9 * len(x) * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            weights = weights - step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
            if np.abs(step).max() < 1e-10:
                break
        # a model that orders validation backwards is not turned around: its probabilities only say that it knows little
        slope = max(weights[0] / spread, 1e-6)
        return cls(float(slope), float(weights[1] - slope * middle))


def expected_error(calibration: Calibration, scores: Scores, bins: int = 10) -> float:
    """How far probabilities are from frequencies, averaged over equally filled bins (ECE)."""
    if not len(scores):
        return 0.0
    p = calibration(np.concatenate([scores.positive, scores.negative]))
    truth = np.repeat([1.0, 0.0], len(scores))
    order = np.array_split(np.argsort(p, kind="stable"), bins)
    return float(sum(abs(p[rows].mean() - truth[rows].mean()) * len(rows) for rows in order if len(rows)) / len(p))
