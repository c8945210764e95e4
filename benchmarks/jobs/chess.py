"""Win, draw or loss of this game of chess?

Glicko rates players month by month, the log's unit of time, and its expected score becomes three classes by a logistic
regression on the training part; the trees know Glicko's numbers, each player's results and colours, and the pair's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression

import pintgn
from benchmarks.jobs.common import DAY, Asked, Found, Job, Sums, classes, mean

WIDEST, DRIFT, SCALE = 350.0, 20.0, np.log(10) / 400
"""Of Glicko: the deviation of a player whom nobody knows, how much it grows in a month, and its logistic scale."""


def read(folder: Path) -> tuple[pl.DataFrame, pintgn.EventLog]:
    frame = pl.read_parquet(folder / "chess.parquet")
    meant = pintgn.Columns(categorical=["result"])
    return frame, pintgn.read_events(frame, features=["result"], columns=meant)


def glicko(asked: Asked) -> np.ndarray:  # (e, 4)
    """Rating and deviation of both players before each game's month (Glickman, 1999)."""
    log = asked.log
    score = (asked.frame["result"].to_numpy() + 1) / 2
    rating, spread, seen = np.full(log.nodes, 1500.0), np.full(log.nodes, WIDEST), np.full(log.nodes, -1.0)
    months, found = log.t / (30.44 * DAY), np.zeros((len(log), 4))
    for begin, end in zip(log.group_starts, [*log.group_starts[1:], len(log)], strict=True):
        src, dst, now = log.src[begin:end], log.dst[begin:end], months[begin]
        grown = np.where(seen < 0, WIDEST, np.sqrt(spread**2 + DRIFT**2 * np.maximum(now - seen, 0)))
        grown = np.minimum(grown, WIDEST)
        found[begin:end] = np.stack([rating[src], grown[src], rating[dst], grown[dst]], 1)
        me, you = np.concatenate([src, dst]), np.concatenate([dst, src])
        won = np.concatenate([score[begin:end], 1 - score[begin:end]])
        g = 1 / np.sqrt(1 + 3 * SCALE**2 * grown[you] ** 2 / np.pi**2)
        expected = 1 / (1 + np.exp(-SCALE * g * (rating[me] - rating[you])))
        played = np.unique(me)
        weight = np.bincount(me, SCALE**2 * g**2 * expected * (1 - expected), log.nodes)[played]
        gained = np.bincount(me, SCALE * g * (won - expected), log.nodes)[played]
        precise = 1 / grown[played] ** 2 + weight
        rating[played] += gained / precise
        spread[played], seen[played] = np.sqrt(1 / precise), now
    return found


def with_glicko(asked: Asked, seed: int) -> Found:
    """Glicko's expected score, as chances of the three results."""
    mine, sure, yours, unsure = glicko(asked).T
    g = 1 / np.sqrt(1 + 3 * SCALE**2 * (sure**2 + unsure**2) / np.pi**2)
    x = np.stack([(mine - yours) * g, np.abs(mine - yours) * g, g, (mine + yours) * g], 1) / [400, 400, 1, 3000]
    fitted = LogisticRegression(C=10.0, max_iter=1_000).fit(x[asked.train.rows], asked.train.truth)
    return {name: classes(fitted.predict_proba(x[part.rows]), part.truth) for name, part in asked.later.items()}


def columns(asked: Asked) -> np.ndarray:  # (e, w)
    log, t = asked.log, asked.log.t
    result, known = asked.frame["result"].to_numpy().astype(np.float64), glicko(asked)
    mine, sure, yours, unsure = known.T
    found = [mine, sure, yours, unsure, mine - yours, mine + yours, t / DAY]
    draw = (result == 0).astype(np.float64)
    both, month = np.concatenate([log.src, log.dst]), np.concatenate([t, t])
    earned, drawn = np.concatenate([result, -result]), np.concatenate([draw, draw])
    against = np.concatenate([yours, mine])
    sums = {"any": Sums(both, month, earned, drawn, against), "first": Sums(log.src, t, result, draw)}
    sums["second"] = Sums(log.dst, t, -result, draw)
    for player, colour in ((log.src, "first"), (log.dst, "second")):
        for window in (365 * DAY, None):
            some = sums["any"](player, t, None if window is None else t - window)
            found += [some[:, 0], mean(some, 1, 0.0, 3.0), mean(some, 2, 0.3, 3.0), mean(some, 3)]
        some = sums[colour](player, t)
        found += [some[:, 0], mean(some, 1, 0.0, 3.0), mean(some, 2, 0.3, 3.0)]
        found.append(sums["any"].since(player, t))
    width = np.int64(log.nodes)
    there, back = log.src * width + log.dst, log.dst * width + log.src
    number = np.unique(np.concatenate([there, back]), return_inverse=True)[1].astype(np.int64)
    pair = Sums(number, month, earned, drawn)(number[: len(t)], t)
    found += [pair[:, 0], mean(pair, 1, 0.0, 1.0), mean(pair, 2, 0.3, 1.0)]
    everyone = np.zeros_like(log.src)
    recent = Sums(everyone, t, draw, result)(everyone, t, t - 365 * DAY)
    found += [mean(recent, 1), mean(recent, 2)]
    return np.stack(found, 1).astype(np.float32)


def lightgbm(asked: Asked, seed: int) -> Found:
    options = {"objective": "multiclass", "num_class": 3, "learning_rate": 0.03, "num_leaves": 15}
    return asked.trees(columns(asked), seed, **options, min_data_in_leaf=100)


JOB = Job(
    name="chess",
    asks="Is this game of chess won, drawn or lost?",
    read=read,
    fit={"predict": "result"},
    figure="log_loss",
    baselines={"LightGBM": lightgbm, "Glicko": with_glicko},
    smaller=True,
)
