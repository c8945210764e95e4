"""Prequential evaluation (test, then learn): how good is the model right now?

A fixed share of the events, chosen by their numbers alone, is scored just before it happens, each beside one random
destination that was known by then. So the figures are a function of the log, like everything else: neither batches nor
restarts change which events are scored, or against whom.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from pintgn.learn.metrics import Scores
from pintgn.learn.run import Run
from pintgn.neighbors.inputs import scrambled

EVERY = 10
"""One event in so many is scored."""
WINDOW = 1_000
"""The figures roll over so many scored events."""
STEP = 50
"""Scored events between two points of the history."""
HISTORY = 500
"""Points of the history that are kept."""
ENOUGH = 200
"""Scored events before anything is said about drift."""
MARGIN, ERRORS = 0.02, 4.0
"""Drift: the rolling AUC is below the reference by more than this margin and by more than so many standard errors."""


class Prequential:
    """Rolling AP and AUC of the live stream, beside what the run reached on its test part."""

    def __init__(self, run: Run, every: int = EVERY, window: int = WINDOW):
        self.active = run.scores_links and every > 0
        self.every, self.window = every, window
        figures: dict[str, Any] = run.test.get("all", {})
        self.reference_ap, self.reference_auc = figures.get("ap"), figures.get("auc")
        self.positive: deque[float] = deque(maxlen=window)
        self.negative: deque[float] = deque(maxlen=window)
        self.history: deque[tuple[Any, float]] = deque(maxlen=HISTORY)
        self.scored = 0
        self._figures: tuple[int, dict[str, Any]] = (-1, {})

    def draw(
        self, numbers: np.ndarray, dst: np.ndarray, learnable: np.ndarray, pool: np.ndarray, before: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which rows are scored, and the destination that stands beside each.

        Args:
            numbers: of the events (e,).
            dst: where they went (e,).
            learnable: which are worth predicting (e,).
            pool: destinations in the order in which they were first met.
            before: how many of the pool had been met before each event (e,).
        """
        keys = scrambled(numbers)
        chosen = learnable & (before > 1) & self.active
        if self.active:
            chosen &= keys % np.uint64(self.every) == 0
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return rows, rows
        index = (scrambled(keys[rows]) % before[rows].astype(np.uint64)).astype(np.int64)
        found = pool[index]
        same = found == dst[rows]
        found[same] = pool[(index[same] + 1) % before[rows][same]]  # the next one: the event is no negative of itself
        return rows, found

    def add(self, positive: np.ndarray, negative: np.ndarray, t: np.ndarray) -> None:
        """Take in the logits of scored events and of their negatives; scores that are not finite count as wrong."""
        for yes, no, when in zip(positive.tolist(), negative.tolist(), t.tolist(), strict=True):
            finite = np.isfinite(yes) and np.isfinite(no)
            self.positive.append(yes if finite else -1e9)
            self.negative.append(no if finite else 1e9)
            self.scored += 1
            if self.scored % STEP == 0:
                self.history.append((when, self.figures()["ap"]))

    def figures(self) -> dict[str, Any]:
        """AP and AUC over the window; None before anything was scored."""
        if self._figures[0] != self.scored:
            scores = Scores(np.array(self.positive), np.array(self.negative))
            self._figures = (self.scored, scores.metrics())
        return self._figures[1]

    @property
    def drift(self) -> bool:
        """Whether the stream has become harder than chance would explain."""
        auc, count = self.figures()["auc"], len(self.positive)
        if auc is None or self.reference_auc is None or count < ENOUGH:
            return False
        short = self.reference_auc - auc
        return bool(short > MARGIN and short > ERRORS * standard_error(auc, count))

    def status(self) -> dict[str, Any]:
        """For the page and for machines."""
        figures = self.figures()
        return {
            "active": self.active,
            "ap_rolling": figures["ap"],
            "auc_rolling": figures["auc"],
            "reference_ap": self.reference_ap,
            "reference_auc": self.reference_auc,
            "scored": self.scored,
            "window": len(self.positive),
            "every": self.every,
            "history": [[t, ap] for t, ap in self.history],
            "drift": self.drift,
        }

    def facts(self) -> dict[str, Any]:
        """All of it, for a snapshot."""
        return {
            "scored": self.scored,
            "positive": list(self.positive),
            "negative": list(self.negative),
            "history": [list(point) for point in self.history],
        }

    def restore(self, facts: dict[str, Any]) -> None:
        self.scored = facts["scored"]
        self.positive.extend(facts["positive"])
        self.negative.extend(facts["negative"])
        self.history.extend((t, ap) for t, ap in facts["history"])


def standard_error(auc: float, count: int) -> float:
    """Of an AUC over as many positives as negatives (Hanley and McNeil, 1982).

    >>> round(standard_error(0.9, 1000), 4)
    0.0071
    """
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = (auc * (1 - auc) + (count - 1) * (one - auc**2 + two - auc**2)) / count**2
    return float(np.sqrt(max(variance, 1e-12)))
