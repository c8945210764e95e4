"""Is this card payment fraud? Whether one was becomes known seven days later.

The trees know counts and means of customer, terminal and pair over 1, 7 and 30 days and ever, strictly before the
payment; of earlier frauds only those that were known by then; and the payment's own amount and hour.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import pintgn
from benchmarks.jobs.common import DAY, Asked, Found, Job, Sums, mean

DELAY = 7 * DAY


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "payments.parquet")
    return frame, pintgn.read_events(frame, "customer", "terminal", features=["amount", "fraud"], bipartite=True)


def columns(frame: pl.DataFrame) -> np.ndarray:  # (e, w)
    """What is known about each payment just before it."""
    t = frame["t"].dt.epoch("s").to_numpy()
    amount, fraud = (frame[name].to_numpy().astype(np.float64) for name in ("amount", "fraud"))
    customer, terminal = (frame[name].to_numpy().astype(np.int64) for name in ("customer", "terminal"))
    pair = np.unique(customer * 100_000 + terminal, return_inverse=True)[1].astype(np.int64)
    small = (amount < 10).astype(np.float64)
    found = [amount, t % DAY / 3_600, t // DAY % 7, amount % 1, amount > 220]
    for key in (customer, terminal, pair, np.zeros_like(pair)):
        sums = Sums(key, t, amount, amount**2, small, fraud, amount * fraud)
        for window in (DAY, 7 * DAY, 30 * DAY, None):
            some = sums(key, t, None if window is None else t - window)
            known = sums(key, t - DELAY, None if window is None else t - DELAY - window)
            usual, count = mean(some), some[:, 0]
            spread = np.sqrt(np.maximum(mean(some, 2) - usual**2, 0))
            found += [count, usual, spread, amount / (usual + 1), (amount - usual) / (spread + 1), mean(some, 3)]
            found += [known[:, 4], mean(known, 4, 0.009, 5.0), known[:, 5] / np.maximum(known[:, 4], 1)]
        found.append(sums.since(key, t))
        frauds = Sums(key[fraud > 0], t[fraud > 0])
        found.append(frauds.since(key, t - DELAY))
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    return asked.trees(columns(asked.frame), seed, objective="binary", metric="average_precision")


JOB = Job(
    name="payments",
    asks="Is this card payment fraud, when whether earlier ones were is known after seven days?",
    read=read,
    fit={"predict": "fraud", "given": ["amount"], "known_after": "7d"},
    figure="ap",
    baselines={"LightGBM": lightgbm},
)
