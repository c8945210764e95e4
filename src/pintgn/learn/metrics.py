"""Metrics: AP, AUC and ranks of links, figures of classes and of values. Plain functions of answers.

In NumPy (importing scikit-learn costs more than a second at every start) and held against scikit-learn and
the Temporal Graph Benchmark's evaluator by tests. A score that is not finite is refused everywhere: in a popular
evaluator NaN wins every comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any

import numpy as np

from pintgn.errors import BadInput

CHUNK = 200
"""Rows per chunk of the field's batch-mean AP: consecutive rows of the split, whatever the batch of the computation."""
HITS = (1, 3, 10)
CLASS_FIGURES = ("ap", "auc", "log_loss", "macro_f1", "calibration_error")
VALUE_FIGURES = ("mae", "rmse", "r2", "coverage")
LEAST = 10
"""Events that a figure needs, and that validation and test have at least: 100 % of one event says nothing."""

Metrics = dict[str, float | None]
"""Figures by name; None where there is nothing to measure."""


@dataclass(frozen=True)
class Scores:
    """Logits of a part's events and of one negative for each."""

    positive: np.ndarray  # (e,)
    negative: np.ndarray  # (e,)

    def __len__(self) -> int:
        return len(self.positive)

    def __getitem__(self, rows: Any) -> Scores:
        return Scores(self.positive[rows], self.negative[rows])

    def metrics(self) -> Metrics:
        """AP over all scores, AP averaged over chunks of 200 rows (the papers' figure), AUC; None without events."""
        if not len(self):
            return {"events": 0, "ap": None, "chunked_ap": None, "auc": None}
        chunks = [self[k : k + CHUNK].pooled() for k in range(0, len(self), CHUNK)]
        return {
            "events": len(self),
            "ap": average_precision(*self.pooled()),
            "chunked_ap": float(np.mean([average_precision(*chunk) for chunk in chunks])),
            "auc": area_under_curve(*self.pooled()),
        }

    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """Truth and score of all events and negatives."""
        truth = np.repeat([True, False], [len(self.positive), len(self.negative)])
        return truth, np.concatenate([self.positive, self.negative])


def average_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """Precision averaged over the positives, each threshold taken once: Σ (R_n - R_{n-1}) P_n.

    >>> average_precision(np.array([True, False, True]), np.array([0.9, 0.8, 0.7]))  # (1 + 2/3) / 2
    0.8333333333333333
    """
    positives, everyone = _thresholds(truth, scores)
    return float((np.diff(positives, prepend=0) * (positives / everyone)).sum() / positives[-1])


def area_under_curve(truth: np.ndarray, scores: np.ndarray) -> float:
    """The probability that a positive scores above a negative; ties count half.

    >>> area_under_curve(np.array([True, False, False]), np.array([0.5, 0.5, 0.1]))
    0.75
    """
    positives, everyone = _thresholds(truth, scores)
    negatives = everyone - positives
    below = negatives[-1] - negatives + np.diff(negatives, prepend=0) / 2
    return float((np.diff(positives, prepend=0) * below).sum() / (positives[-1] * negatives[-1]))


def _thresholds(truth: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many positives, and how many of all, score at least each distinct score; highest score first."""
    check_finite(scores)
    if truth.all() or not truth.any():
        only = "positive" if len(truth) and truth.all() else "negative"
        raise BadInput(f"all {len(truth)} examples are {only}; AP and AUC need both kinds.")
    order = np.argsort(-scores)  # ties count together, so their order does not matter
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    return np.cumsum(truth[order])[ends], ends + 1


def ranks(positive: np.ndarray, negative: np.ndarray, valid: np.ndarray | None = None) -> np.ndarray:
    """The rank of each positive (q,) among its negatives (q, c), from 1; a tie counts half.

    Args:
        positive, negative: logits. Rank logits, never probabilities: a sigmoid in float32 makes ties of great scores.
        valid: which negatives (q, c) count; all of them when not given.
    """
    check_finite(positive)
    check_finite(negative if valid is None else negative[valid])
    mine = np.asarray(positive)[:, None]
    above, equal = negative > mine, negative == mine
    if valid is not None:
        above, equal = above & valid, equal & valid
    return 1 + above.sum(1) + equal.sum(1) / 2


def rank_metrics(found: np.ndarray, hits: Sequence[int] = HITS) -> Metrics:
    """MRR and Hits@k of ranks (q,), as the Temporal Graph Benchmark defines them; None without any."""
    names = ["mrr", *(f"hits@{k}" for k in hits)]
    if not len(found):
        return {"events": 0} | dict.fromkeys(names)
    values = [float(np.mean(1 / found)), *(float(np.mean(found <= k)) for k in hits)]
    return {"events": len(found)} | dict(zip(names, values, strict=True))


def by_novelty(values: Any, new: np.ndarray, measure: Any) -> dict[str, Metrics]:
    """A measure over all events, over those between nodes trained on, and over those that touch a new node."""
    groups = {"all": values, "seen": values[~new], "new": values[new]}
    return {name: of_enough(some, measure) for name, some in groups.items()}


def of_enough(values: Any, measure: Any) -> Metrics:
    """A measure of values, or their number alone where there are too few."""
    return measure(values) if len(values) >= LEAST else measure(values[:0]) | {"events": len(values)}


def check_finite(scores: np.ndarray) -> None:
    finite = np.isfinite(scores)
    if not finite.all():
        bad = np.asarray(scores)[~finite]
        raise BadInput(
            f"{len(bad)} of {finite.size} scores are not finite (the first is {bad[0]}); they cannot be ranked. "
            "A smaller learning rate, or gradient clipping, usually cures it."
        )


def mean_and_std(runs: Sequence[Metrics]) -> dict[str, tuple[float, float] | None]:
    """Mean and sample deviation of each figure over runs; the deviation of one run is 0."""
    found: dict[str, tuple[float, float] | None] = {}
    for name in runs[0]:
        values = [one[name] for one in runs]
        known = [value for value in values if value is not None]
        found[name] = (float(np.mean(known)), stdev(known) if len(known) > 1 else 0.0) if known else None
    return found


def standard_error(auc: float, count: int) -> float:
    """Standard error of an AUC over as many positives as negatives (Hanley and McNeil, 1982).

    >>> round(standard_error(0.9, 1000), 4)
    0.0071
    """
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = (auc * (1 - auc) + (count - 1) * (one - auc**2 + two - auc**2)) / count**2
    return float(np.sqrt(max(variance, 1e-12)))


def drifted(figures: Metrics, tested: Metrics, truth: np.ndarray) -> bool:
    """Whether figures of recent events are worse than those of the test part by more than chance explains: the AUC by
    two points, the RMSE by a tenth, and either by four standard errors."""
    if (now := figures.get("rmse")) and (then := tested.get("rmse")):
        return bool(now - then > max(0.1 * then, 4 * now / np.sqrt(2 * len(truth))))
    now, then = figures.get("auc"), tested.get("auc")
    few = int(min(truth.sum(), len(truth) - truth.sum())) if len(truth) else 0
    return bool(now and then and few > 1 and then - now > max(0.02, 4 * standard_error(now, few)))


def choice_error(said: np.ndarray, true: np.ndarray, bins: int = 10) -> float:
    """The gap between stated probabilities (e,) and truths (e,), averaged over equally filled bins (ECE)."""
    order = np.array_split(np.argsort(said, kind="stable"), bins)
    gaps = [abs(said[rows].mean() - true[rows].mean()) * len(rows) for rows in order if len(rows)]
    return float(sum(gaps) / max(len(said), 1))


def probabilities(logits: np.ndarray) -> np.ndarray:  # (q, k)
    """Softmax over the classes, in float64.

    >>> probabilities(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    z = np.asarray(logits, np.float64)
    p = np.exp(z - z.max(1, keepdims=True)) if len(z) else z
    return p / p.sum(1, keepdims=True) if len(z) else p


def class_metrics(logits: np.ndarray, truth: np.ndarray) -> Metrics:
    """Metrics of class logits (q, k) against true classes (q,); None where there is nothing to measure.

    AP and AUC are those of the second class where there are two, of each class against the rest otherwise, averaged
    over the classes that occur. Macro-F1 is that of the likeliest class, averaged over classes that occur or are named.
    Calibration error is that of the second class, or of the likeliest one.
    """
    if not len(truth):
        return {"events": 0} | dict.fromkeys(CLASS_FIGURES)
    check_finite(logits)
    truth, p = truth.astype(np.int64), probabilities(logits)
    margin = np.asarray(logits, np.float64)
    margin = margin - np.logaddexp.reduce(margin, 1)[:, None]
    two = logits.shape[1] == 2
    aps, aucs = [], []
    for k in [1] if two else np.unique(truth).tolist():
        mine = truth == k
        if mine.any() and not mine.all():
            score = logits[:, 1].astype(np.float64) - logits[:, 0] if two else margin[:, k]
            aps.append(average_precision(mine, score))
            aucs.append(area_under_curve(mine, score))
    said = p.argmax(1)
    f1 = []
    for k in np.union1d(truth, said).tolist():
        hit = int(((said == k) & (truth == k)).sum())
        f1.append(2 * hit / (int((said == k).sum()) + int((truth == k).sum())))
    error = choice_error(p[:, 1], truth == 1.0) if two else choice_error(p.max(1), (said == truth) * 1.0)
    return {
        "events": len(truth),
        "ap": float(np.mean(aps)) if aps else None,
        "auc": float(np.mean(aucs)) if aucs else None,
        "log_loss": float(-margin[np.arange(len(truth)), truth].mean()),
        "macro_f1": float(np.mean(f1)),
        "calibration_error": error,
    }


def chance_metrics(logits: np.ndarray, truth: np.ndarray) -> Metrics:
    """Metrics of a forecast of two classes: AP, AUC, Brier score and calibration error."""
    if not len(truth):
        return {"events": 0, "ap": None, "auc": None, "brier": None, "calibration_error": None}
    found = class_metrics(logits, truth)
    brier = float(((probabilities(logits)[:, 1] - truth) ** 2).mean())
    return {name: found[name] for name in ("events", "ap", "auc")} | {
        "brier": brier,
        "calibration_error": found["calibration_error"],
    }


def value_metrics(answers: np.ndarray, truth: np.ndarray) -> Metrics:
    """Metrics of values (q, 4): mean, lower end, median and upper end of an interval; or (q, 1), one value for all.

    MAE is that of the median, RMSE and R² are those of the mean; coverage is the share of truths within the interval.
    """
    if not len(truth):
        return {"events": 0} | dict.fromkeys(VALUE_FIGURES)
    check_finite(answers)
    wide = answers.shape[1] > 1
    middle = answers[:, 2] if wide else answers[:, 0]
    missed = (answers[:, 0].astype(np.float64) - truth) ** 2
    spread = ((truth - truth.mean()) ** 2).mean()
    inside = (truth >= answers[:, 1]) & (truth <= answers[:, 3]) if wide else None
    return {
        "events": len(truth),
        "mae": float(np.abs(middle - truth).mean()),
        "rmse": float(np.sqrt(missed.mean())),
        "r2": float(1 - missed.mean() / spread) if spread > 0 else None,
        "coverage": None if inside is None else float(inside.mean()),
    }
