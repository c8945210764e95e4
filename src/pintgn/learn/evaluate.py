"""How well positives are told from negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.stream import Stream

CHUNK = 200
"""Rows per chunk of the field's batch-mean AP: consecutive rows of the split, whatever the batch of the computation."""


@dataclass(frozen=True)
class Scores:
    """Logits of a part's events and of one negative for each."""

    positive: np.ndarray  # (e,)
    negative: np.ndarray  # (e,)

    def __getitem__(self, rows: Any) -> Scores:
        return Scores(self.positive[rows], self.negative[rows])

    def metrics(self) -> dict[str, float]:
        """AP over all scores, AP averaged over chunks of 200 rows (the papers' figure), AUC; all NaN without events."""
        if not len(self.positive):
            return {"ap": float("nan"), "chunked_ap": float("nan"), "auc": float("nan")}
        from sklearn.metrics import roc_auc_score

        starts = range(0, len(self.positive), CHUNK)
        chunks = [average_precision(self[start : start + CHUNK]) for start in starts]
        truth, scores = _pooled(self)
        return {
            "ap": average_precision(self),
            "chunked_ap": float(np.mean(chunks)),
            "auc": float(roc_auc_score(truth, scores)),
        }


def average_precision(scores: Scores) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_pooled(scores)))


def _pooled(scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    both = np.concatenate([scores.positive, scores.negative])
    if not np.isfinite(both).all():
        raise BadInput("a score is not finite; it cannot be ranked.")
    return np.repeat([1, 0], [len(scores.positive), len(scores.negative)]), both


@torch.no_grad()
def score_part(stream: Stream, part: EventLog, negatives: Query, batch: int = 200) -> Scores:
    """Test, then observe: score a part's events and negatives while the stream moves through it."""
    was_training = stream.model.training
    stream.model.eval()
    positive, negative = [], []
    for events in part.batches(batch):
        rows = slice(events.first - part.first, events.first - part.first + len(events))
        yes, no = stream.replay(events, [events.query, negatives[rows]])
        positive.append(yes.numpy(force=True))
        negative.append(no.numpy(force=True))
    stream.model.train(was_training)
    return Scores(np.concatenate(positive), np.concatenate(negative))


def by_novelty(scores: Scores, new: np.ndarray) -> dict[str, dict[str, float]]:
    """Metrics over all events, over those between nodes trained on, and over those that touch a new node."""
    return {"all": scores.metrics(), "seen": scores[~new].metrics(), "new": scores[new].metrics()}
