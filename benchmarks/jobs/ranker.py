"""A shortlist, ranked by LightGBM: what a practitioner does when pairs repeat, answer each other or follow fashion.

A candidate's columns are decayed counts and the newest time of the pair, both ways, and of the candidate at either
end, and how well it goes with the source's last ten. Trees learn by lambdarank from events of the training part's later
half.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import lightgbm
import numpy as np

from benchmarks.jobs.common import Found
from benchmarks.jobs.next_item import ItemKNN, Ranked, Scorer

HALVES = np.array([3_600.0, 86_400.0, 7 * 86_400.0, 30 * 86_400.0])
SHORT, TAUGHT = 100, 3_000
"""Of the shortlist, from each list; and the training events that are learned from."""


class Decayed:
    """Counts that halve in several times, and the newest time, of many."""

    def __init__(self, many: int):
        self.count, self.newest = np.zeros((many, len(HALVES))), np.full(many, -np.inf)

    def add(self, one: int, now: float) -> None:
        self.count[one] = self.count[one] * 0.5 ** ((now - self.newest[one]) / HALVES) + 1
        self.newest[one] = now

    def at(self, some: Any, now: float) -> np.ndarray:  # (c, 5)
        since = np.minimum(now - self.newest[some], 1e9)[:, None]
        return np.concatenate([self.count[some] * 0.5 ** (since / HALVES), np.log1p(since)], 1)


class Ranker(Scorer):
    def __init__(self, nodes: int, booster: Any = None):
        super().__init__(nodes)
        self.booster, self.knn = booster, ItemKNN(nodes, 10, own=False)
        self.ends = Decayed(nodes), Decayed(nodes)  # as a source, as a destination
        self.met: tuple[dict[int, dict[int, tuple[np.ndarray, float]]], ...] = defaultdict(dict), defaultdict(dict)

    def observe(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
        super().observe(src, dst, t)
        self.knn.observe(src, dst, t)
        for a, b, now in zip(src.tolist(), dst.tolist(), t.tolist(), strict=True):
            for end, ends, (mine, other) in zip(self.ends, self.met, ((a, b), (b, a)), strict=True):
                end.add(mine, now)
                count, newest = ends[mine].pop(other, (np.zeros(len(HALVES)), now))
                ends[mine][other] = count * 0.5 ** ((now - newest) / HALVES) + 1, now  # the newest comes last

    def shortlist(self, src: int, together: np.ndarray) -> np.ndarray:
        """Own contacts, what goes with the last ones, what is popular, and who has just been active."""
        if self.nodes <= 4 * SHORT:
            return np.arange(self.nodes)
        lists = [list(met[src])[-SHORT:] for met in self.met]
        for some in (together, self.count, *(end.newest for end in self.ends), *self.ends[1].count.T[:2]):
            lists.append(np.argpartition(-some, SHORT)[:SHORT])
        return np.unique(np.concatenate(lists).astype(np.int64))

    def columns(self, src: int, t: Any) -> tuple[np.ndarray, np.ndarray]:  # (c,), (c, w)
        now, together = float(t), self.knn.scores(src, t)
        some = self.shortlist(src, together)
        column = [end.at(some, now) for end in self.ends]
        for met in self.met:
            mine, found = met[src], np.zeros((len(some), len(HALVES) + 1))
            found[:, -1] = 25.0
            for k, one in enumerate(some.tolist()):
                if one in mine:
                    count, newest = mine[one]
                    found[k] = *(count * 0.5 ** ((now - newest) / HALVES)), np.log1p(now - newest)
            column.append(found)
        alone = np.repeat(self.ends[0].at([src], now), len(some), 0)
        extra = np.stack([together[some], np.log1p(self.count[some]), some == src], 1)
        return some, np.concatenate([*column, alone, extra], 1).astype(np.float32)

    def scores(self, src: int, t: Any) -> np.ndarray:
        some, columns = self.columns(src, t)
        found = self.count - 1e9  # who is not on the list, by popularity
        found[some] = self.booster.predict(columns)
        return found


def ranked(asked: Ranked, seed: int) -> Found:
    events = asked.parts.train
    rows = np.random.default_rng(seed).choice(np.arange(len(events) // 2, len(events)), TAUGHT, replace=False)
    teacher, x, y, sizes = Ranker(asked.log.nodes), [], [], []
    for _, src, dst, t in asked.walk(teacher, np.sort(rows)):
        some, columns = teacher.columns(src, t)
        if (some == dst).any():
            x.append(columns)
            y.append(some == dst)
            sizes.append(len(some))
    options = {"objective": "lambdarank", "learning_rate": 0.05, "min_data_in_leaf": 50, "feature_fraction": 0.7}
    options |= {"lambdarank_truncation_level": 20, "num_threads": 1, "verbosity": -1, "seed": seed}
    data = lightgbm.Dataset(np.concatenate(x), np.concatenate(y).astype(int), group=sizes)
    booster = lightgbm.train(options, data, 200)
    return asked.found(lambda: Ranker(asked.log.nodes, booster))
