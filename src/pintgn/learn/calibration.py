"""Calibration by validation: probabilities of links and classes (Platt scaling, temperature), intervals of values.

p = sigmoid(a · logit + b), with a and b fitted on the validation part: its events against as many random destinations.
So a probability answers: if this link and one to a random destination were equally likely beforehand, how likely is it
that this is the one that happens? It ranks like the logit (a > 0). It is not the probability that two nodes meet
within some time, which depends on how often anything happens at all.

What people usually mean is another one: of all the destinations asked about, how likely is each to be the next that the
source goes to? Learned against random destinations, a logit is how much likelier a destination is than a random one, so
that is p_i = exp(c · logit_i) / Σ_j exp(c · logit_j), with c fitted on validation, too: its newest events, each among a
sample of destinations. A sample is enough, because how likely two destinations are relative to each other does not
depend on the others (McFadden's conditional logit).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pintgn.learn.metrics import Scores, check_finite, choice_error


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
        return cls(*platt(logits, np.repeat([1.0, 0.0], count)))


def platt(logits: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Slope and offset of greatest likelihood (Newton's method), with Platt's softened targets: truth is 1 or 0."""
    check_finite(logits)
    middle, spread = logits.mean(), logits.std() or 1.0
    x = np.stack([(logits - middle) / spread, np.ones_like(logits)], 1)
    yes, no = truth.sum(), len(truth) - truth.sum()
    target = np.where(truth > 0, (yes + 1) / (yes + 2), 1 / (no + 2))
    weights = np.array([1.0, 0.0])
    for _ in range(50):
        p = 0.5 * (1 + np.tanh(x @ weights / 2))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + 1e-9 * len(x) * np.eye(2)
        step = np.linalg.solve(curvature, x.T @ (p - target))
        weights = weights - step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    # a model that orders validation backwards is not turned around: its probabilities only say that it knows little
    slope = max(weights[0] / spread, 1e-6)
    return float(slope), float(weights[1] - slope * middle)


def expected_error(calibration: Calibration, scores: Scores, bins: int = 10) -> float:
    """Expected calibration error: the gap between probabilities and frequencies, averaged over equally filled bins
    (ECE)."""
    if not len(scores):
        return 0.0
    p = calibration(np.concatenate([scores.positive, scores.negative]))
    return choice_error(p, np.repeat([1.0, 0.0], len(scores)), bins)


def next_slope(logits: np.ndarray, valid: np.ndarray) -> float:
    """The c of `next_probabilities` of greatest likelihood, by Newton's method.

    Args:
        logits: of events (e, 1 + n): the destination that it was, then others.
        valid: which of the others (e, n) count.
    """
    if not len(logits):
        return 1.0
    z = np.asarray(logits, np.float64)
    counts = np.concatenate([np.ones((len(z), 1), bool), valid], 1)
    check_finite(z[counts])
    spread = z[counts].std() or 1.0
    z, few = (
        np.where(counts, z, 0) / spread,
        1 / (len(z) + 2),
    )  # as Platt's targets: a few events that go anywhere keep it from infinity
    target = (1 - few) * z[:, 0] + few * z.sum(1) / counts.sum(1)
    slope = 1.0
    for _ in range(50):
        p = next_probabilities(slope, z, counts)
        mean = (p * z).sum(1)
        step = (mean - target).sum() / max((p * (z - mean[:, None]) ** 2).sum(), 1e-9 * len(z))
        slope = max(slope - np.clip(step, -2, 2), 1e-6)  # never turned around, as in `Calibration`
        if abs(step) < 1e-10:
            break
    return float(slope / spread)


def next_probabilities(slope: float, logits: np.ndarray, valid: np.ndarray | None = None) -> np.ndarray:
    """The probability of each destination of a row (…, n) to be the next, if it is one of them: they add up to 1."""
    z = slope * np.asarray(logits, np.float64)
    z = z if valid is None else np.where(valid, z, -np.inf)
    if not z.shape[-1]:
        return z
    top = z.max(-1, keepdims=True)
    p = np.exp(z - np.where(np.isfinite(top), top, 0))
    return p / np.maximum(p.sum(-1, keepdims=True), 1e-300)


def first_choices(slope: float, logits: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each event (e,) the probability of the likeliest destination, and whether it was the true one (a fraction
    where several are equally likely). Arguments as of `next_slope`."""
    counts = np.concatenate([np.ones((len(logits), 1), bool), valid], 1)
    p, z = next_probabilities(slope, logits, counts), np.where(counts, logits, -np.inf)
    best = z == z.max(1, keepdims=True)
    return p.max(1), best[:, 0] / best.sum(1)


def class_calibration(logits: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Calibration of class probabilities by maximum likelihood on validation: a temperature and, for two classes, an
    offset of the second (Platt scaling, with a slope above 0)."""
    if logits.shape[1] != 2 or not 0 < truth.sum() < len(truth):
        return {"temperature": temperature(logits, truth)}
    slope, offset = platt((logits[:, 1] - logits[:, 0]).astype(np.float64), truth)
    return {"temperature": 1 / slope, "offset": offset}


def calibrated_classes(logits: np.ndarray, how: dict[str, float]) -> np.ndarray:
    """Logits of classes after `class_calibration`."""
    found = logits / how.get("temperature", 1.0)
    if "offset" in how:
        found[:, 1] += how["offset"]
    return found


def temperature(logits: np.ndarray, truth: np.ndarray) -> float:
    """The temperature of class logits with the greatest likelihood, from 0.1 to 10, by golden sections."""
    if not len(truth):
        return 1.0
    check_finite(logits)
    z, rows, true = np.asarray(logits, np.float64), np.arange(len(truth)), truth.astype(np.int64)

    def loss(log_t: float) -> float:
        scaled = z / np.exp(log_t)
        return float((np.logaddexp.reduce(scaled, 1) - scaled[rows, true]).mean())

    low, high, ratio = np.log(0.1), np.log(10.0), (np.sqrt(5) - 1) / 2
    for _ in range(40):
        one, two = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, two) if loss(one) < loss(two) else (one, high)
    return float(np.exp((low + high) / 2))


def conformal(missed: np.ndarray, share: float) -> float:
    """The width to add to intervals so that they hold a share of values (split conformal). `missed` (q,) is how far
    values were outside of their intervals, negative inside; the result is the ⌈(q + 1) share⌉-th smallest, or the
    largest where there are too few. Of new values that are drawn alike, at least the share is held, and at most 1 / (q
    + 1) more where no two miss by the same.

    >>> conformal(np.arange(19.0), 0.9), conformal(np.arange(3.0), 0.9)
    (17.0, 2.0)
    """
    if not len(missed):
        return 0.0
    rank = min(math.ceil((len(missed) + 1) * share - 1e-9), len(missed))
    return float(np.partition(missed, rank - 1)[rank - 1])
