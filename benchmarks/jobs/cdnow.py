"""Does this customer buy again within 30 days? Asked at the times of purchases, about anyone who has bought before.

The trees know recency, frequency and value as RFM does, in several forms: time since the newest five purchases and the
first, counts and money over windows, gaps, and the date; only what was strictly before the question.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import pintgn
from benchmarks.jobs.common import DAY, Asked, Found, Job, Part, Sums, classes, mean, trees


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "cdnow.parquet")
    return frame, pintgn.read_events(frame, "customer", None, features=["number_of_cds", "dollar_value"])


def columns(asked: Asked, part: Part) -> np.ndarray:  # (q, w)
    log, key = asked.log, part.src
    t, now = log.t // 1_000_000, part.t // 1_000_000  # in seconds
    cds, money = (asked.frame[name].to_numpy() for name in ("number_of_cds", "dollar_value"))
    sums = Sums(log.src, t, cds, money)
    ever, back = sums(key, now), [sums.since(key, now, k) for k in (1, 2, 3, 5)]
    first = np.full(log.nodes, t[-1])
    np.minimum.at(first, log.src, t)
    age = now - first[key]
    gap = (age - back[0]) / np.maximum(ever[:, 0] - 1, 1)  # between purchases, on average
    found = [*back, age, ever[:, 0], ever[:, 1], ever[:, 2], mean(ever, 1), mean(ever, 2), gap, back[0] / (gap + DAY)]
    for window in (14, 30, 60, 90, 180):
        found += list(sums(key, now, now - window * DAY).T)
    market = Sums(np.zeros_like(log.src), t)
    found += [market(np.zeros_like(key), now, now - 30 * DAY)[:, 0], now // DAY % 365, ever[:, 0] / (age + 30 * DAY)]
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    parts = asked.several(seed)
    x, y = {name: columns(asked, part) for name, part in parts.items()}, {n: part.truth for n, part in parts.items()}
    return trees(x, y, seed, objective="binary", learning_rate=0.03, num_leaves=15, min_data_in_leaf=100)


def rfm(asked: Asked, seed: int) -> Found:
    """The share that came back of each cell of recency, frequency and value, in fifths of the training questions."""
    parts = asked.several(seed)
    x = {name: columns(asked, part)[:, [0, 5, 7]] for name, part in parts.items()}
    edges = [np.quantile(column, [0.2, 0.4, 0.6, 0.8]) for column in x["train"].T]
    cell = {n: np.stack([np.searchsorted(*one) for one in zip(edges, some.T, strict=True)], 1) for n, some in x.items()}
    cell = {name: some @ [1, 5, 25] for name, some in cell.items()}
    truth = parts["train"].truth
    yes, of = (np.bincount(cell["train"], weight, 125) for weight in (truth, None))
    share = (yes + 20 * truth.mean()) / (of + 20)
    return {name: classes(share[cell[name]], parts[name].truth) for name in ("val", "test")}


JOB = Job(
    name="cdnow",
    asks="Does this customer buy again within 30 days?",
    read=read,
    fit={"predict": "return", "within": "30d"},
    figure="ap",
    baselines={"LightGBM": lightgbm, "RFM": rfm},
)
