"""Does this member act again within 30 days? Asked at the times of all acts, about anyone who has acted before.

The trees know recency and counts of what a member did and of what came to them, over windows and ever, by kind, with
gaps and regularity; only what was strictly before the question.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import pintgn
from benchmarks.jobs.common import DAY, Asked, Found, Job, Part, Sums, trees

KINDS = ("a2q", "c2q", "c2a")


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "mathoverflow.parquet")
    return frame, pintgn.read_events(frame, features=["kind"])


def columns(asked: Asked, part: Part) -> np.ndarray:  # (q, w)
    log, key, now = asked.log, part.src, part.t
    kinds = [(asked.frame["kind"] == kind).to_numpy().astype(np.float64) for kind in KINDS]
    acts = Sums(log.src, log.t, *kinds, (log.src == log.dst).astype(np.float64))
    other = log.src != log.dst
    received = Sums(log.dst[other], log.t[other])
    back = [acts.since(key, now, k) for k in (1, 2, 3, 5, 10, 20, 50)]
    first = np.full(log.nodes, log.t[-1])
    np.minimum.at(first, log.src, log.t)
    age, ever = now - first[key], acts(key, now)
    gap = (age - back[0]) / np.maximum(ever[:, 0] - 1, 1)
    found = [*back, *ever.T, age, gap, back[0] / (gap + DAY), ever[:, 0] / (age + 30 * DAY), now / DAY]
    for window in (1, 3, 7, 14, 30, 60, 90, 180, 365):
        found += list(acts(key, now, now - window * DAY)[:, [0, 4]].T)
    found += [received.since(key, now, k) for k in (1, 2, 5)]
    found += [received(key, now, None if w is None else now - w * DAY)[:, 0] for w in (7, 30, 90, None)]
    days = [acts(key, now - d * DAY, now - (d + 30) * DAY)[:, 0] > 0 for d in range(0, 360, 30)]
    found.append(np.sum(days, 0))  # months with an act, of the last twelve
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    parts = asked.several(seed, 1)
    x, y = {name: columns(asked, part) for name, part in parts.items()}, {n: part.truth for n, part in parts.items()}
    return trees(x, y, seed, objective="binary", learning_rate=0.1, min_data_in_leaf=200)


JOB = Job(
    name="mathoverflow_return",
    asks="Does this member of MathOverflow act again within 30 days?",
    read=read,
    fit={"predict": "return", "within": 30 * DAY},
    figure="ap",
    baselines={"LightGBM": lightgbm},
)
