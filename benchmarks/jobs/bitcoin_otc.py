"""How will this trader rate that one, from -10 to 10?

The trees know, strictly before the rating, what each end gave and received: counts, means, deviations, lowest, shares
below zero, over windows and ever; what raters of either kind gave relative to what others gave; and the reverse rating.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import pintgn
from benchmarks.jobs.common import DAY, Asked, Found, Job, Sums, mean


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "bitcoin_otc.parquet")
    return frame, pintgn.read_events(frame, features=["rating"])


def columns(asked: Asked) -> np.ndarray:  # (e, w)
    log, t = asked.log, asked.log.t
    rating = asked.frame["rating"].to_numpy().astype(np.float64)
    received = Sums(log.dst, t, rating)(log.dst, t)  # of the one who is rated, before each rating
    apart = rating - mean(received, prior=1.0, weight=2.0)  # how far each rating was from what others had given
    giver = mean(Sums(log.src, t, rating)(log.src, t), prior=1.0, weight=2.0)  # what each rater had given until then
    bad, high = (rating < 0).astype(np.float64), (rating > 3).astype(np.float64)
    found = [t / DAY]
    for of in (log.src, log.dst):
        sums = Sums(of, t, rating, rating**2, bad, high, apart, rating - giver, bad * rating)
        order = np.lexsort((t, of))
        for asks in (log.src, log.dst):
            for window in (DAY, 30 * DAY, None):
                some = sums(asks, t, None if window is None else t - window)
                usual = mean(some)
                found += [some[:, 0], usual, np.sqrt(np.maximum(mean(some, 2) - usual**2, 0)), mean(some, 3)]
                found += [mean(some, 4), mean(some, 5), mean(some, 6), some[:, 3], some[:, 7]]
            for back in (1, 2, 3):
                at = sums.newest(asks, t, back)
                found += [np.where(at >= 0, rating[order[at]], np.nan), sums.since(asks, t, back)]
    width = np.int64(log.nodes)
    pair, reverse = log.src * width + log.dst, log.dst * width + log.src
    number = np.unique(np.concatenate([pair, reverse]), return_inverse=True)[1].astype(np.int64)
    again = Sums(number[: len(t)], t, rating)
    found += [mean(again(number[len(t) :], t)), again.since(number[len(t) :], t)]
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    return asked.trees(columns(asked), seed, objective="regression", learning_rate=0.03, min_data_in_leaf=30)


JOB = Job(
    name="bitcoin_otc",
    asks="How will this trader rate that one, from −10 to 10?",
    read=read,
    fit={"predict": "rating"},
    figure="rmse",
    baselines={"LightGBM": lightgbm},
    smaller=True,
)
