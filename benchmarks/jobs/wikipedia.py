"""Is this editor about to be banned? Asked before each edit, about the editor alone.

The trees know, strictly before the edit, how much and how fast the editor wrote, on how many pages, how often on the
same one again, who else wrote there, and how often editors of these pages had been banned.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import pintgn
from benchmarks.jobs.common import DAY, Asked, Found, Job, Sums, mean

HOUR = DAY // 24


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "wikipedia.parquet")
    return frame, pintgn.read_events(frame, features=["label"])


def columns(asked: Asked) -> np.ndarray:  # (e, w)
    log, t, user, page = asked.log, asked.log.t, asked.log.src, asked.log.dst
    ban = asked.frame["label"].to_numpy().astype(np.float64)
    pair = np.unique(user * np.int64(log.nodes) + page, return_inverse=True)[1].astype(np.int64)
    pages = Sums(page, t, ban)
    crowd = pages(page, t, t - DAY)  # on the page of each edit, before it
    fresh = (Sums(pair, t)(pair, t)[:, 0] == 0).astype(np.float64)  # a page that the editor was new to
    edits = Sums(user, t, fresh, crowd[:, 0], pages(page, t)[:, 1], (Sums(page, t)(page, t)[:, 0] == 0) * 1.0)
    found = [t / DAY, t % DAY / HOUR, t // DAY % 7]
    for window in (HOUR // 12, HOUR, DAY, 7 * DAY, None):
        some = edits(user, t, None if window is None else t - window)
        found += [some[:, 0], some[:, 1], mean(some, 1), mean(some, 2), some[:, 3], mean(some, 4)]
    found += [edits.since(user, t, back) for back in (1, 2, 3, 5, 10)]
    banned = Sums(user, t, ban)
    found += [banned(user, t)[:, 1]]
    first = np.full(log.nodes, t[-1])
    np.minimum.at(first, user, t)
    found += [t - first[user]]
    everyone = np.zeros_like(user)
    found += [Sums(everyone, t, ban)(everyone, t, t - window)[:, 1] for window in (HOUR, DAY)]
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    return asked.trees(
        columns(asked), seed, objective="binary", metric="auc", num_leaves=7, min_data_in_leaf=200, learning_rate=0.02,
        lambda_l2=10.0,
    )  # fmt: skip


JOB = Job(
    name="wikipedia",
    asks="Is this editor about to be banned?",
    read=read,
    fit={"predict": "label", "of": "src"},
    figure="auc",
    baselines={"LightGBM": lightgbm},
)
