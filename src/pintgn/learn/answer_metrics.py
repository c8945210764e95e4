"""How good answers about columns are: classes and values. Plain functions of answers and of what was true."""

from __future__ import annotations

import math

import numpy as np

from pintgn.learn.calibration import choice_error
from pintgn.learn.metrics import Metrics, area_under_curve, average_precision, check_finite

CLASS_FIGURES = ("ap", "auc", "log_loss", "macro_f1", "calibration_error")
VALUE_FIGURES = ("mae", "rmse", "r2", "coverage")


def probabilities(logits: np.ndarray) -> np.ndarray:  # (q, k)
    """Softmax over the classes, in float64.

    >>> probabilities(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    z = np.asarray(logits, np.float64)
    p = np.exp(z - z.max(1, keepdims=True)) if len(z) else z
    return p / p.sum(1, keepdims=True) if len(z) else p


def class_metrics(logits: np.ndarray, truth: np.ndarray) -> Metrics:
    """Of class logits (q, k) and the true classes (q,): None where there is nothing to measure.

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
    """Of two classes, by the figures of forecasts: AP, AUC, Brier score and calibration error."""
    if not len(truth):
        return {"events": 0, "ap": None, "auc": None, "brier": None, "calibration_error": None}
    found = class_metrics(logits, truth)
    brier = float(((probabilities(logits)[:, 1] - truth) ** 2).mean())
    return {name: found[name] for name in ("events", "ap", "auc")} | {
        "brier": brier,
        "calibration_error": found["calibration_error"],
    }


def value_metrics(answers: np.ndarray, truth: np.ndarray) -> Metrics:
    """Of values (q, 4): mean, lower end, median and upper end of an interval; or (q, 1), one value for all.

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


def conformal(missed: np.ndarray, share: float) -> float:
    """How much wider intervals have to be to hold a share of values (split conformal), by how far (q,) values were
    outside of theirs, negative inside: the ⌈(q + 1) share⌉-th smallest, the largest where there are too few. Of new
    values that are drawn alike, at least the share is held, and at most 1 / (q + 1) more where no two miss by the same.

    >>> conformal(np.arange(19.0), 0.9), conformal(np.arange(3.0), 0.9)
    (17.0, 2.0)
    """
    if not len(missed):
        return 0.0
    rank = min(math.ceil((len(missed) + 1) * share - 1e-9), len(missed))
    return float(np.partition(missed, rank - 1)[rank - 1])


def temperature(logits: np.ndarray, truth: np.ndarray) -> float:
    """What class logits are divided by for the greatest likelihood; from 0.1 to 10, by golden sections."""
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


def class_calibration(logits: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """What makes the probabilities of classes honest, by maximum likelihood on validation: a temperature and, of two
    classes, how much likelier the second is than said (Platt scaling, with a slope above 0)."""
    if logits.shape[1] != 2 or not 0 < truth.sum() < len(truth):
        return {"temperature": temperature(logits, truth)}
    check_finite(logits)
    z = (logits[:, 1] - logits[:, 0]).astype(np.float64)
    middle, spread = z.mean(), z.std() or 1.0
    x = np.stack([(z - middle) / spread, np.ones_like(z)], 1)
    few = truth.sum(), len(truth) - truth.sum()
    target = np.where(truth > 0, (few[0] + 1) / (few[0] + 2), 1 / (few[1] + 2))  # Platt's softened targets
    weights = np.array([1.0, 0.0])
    for _ in range(50):
        p = 0.5 * (1 + np.tanh(x @ weights / 2))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + 1e-9 * len(x) * np.eye(2)
        step = np.linalg.solve(curvature, x.T @ (p - target))
        weights = weights - step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    slope = max(weights[0] / spread, 1e-6)
    return {"temperature": float(1 / slope), "offset": float(weights[1] - slope * middle)}


def calibrated_classes(logits: np.ndarray, how: dict[str, float]) -> np.ndarray:
    """Logits of classes as `class_calibration` has them."""
    found = logits / how.get("temperature", 1.0)
    if "offset" in how:
        found[:, 1] += how["offset"]
    return found
