"""Which film does this member watch next? The last film of each is taken out and asked for at the end of the log.

Every baseline knows the rest of the log, as pintgn does; films that a member has watched are no answer. SASRec learns
from the first 70 % by time, the training part. Validation is the last film but one. The ratings are in the wheel of
recbole 1.2.1 on PyPI, which is fetched into the user's cache (`pip download`) and never installed.
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import polars as pl

import pintgn
from benchmarks.jobs.common import DAY, Found, Job
from benchmarks.jobs.next_item import ItemKNN, Scorer
from benchmarks.jobs.sasrec import Sequential, trained
from pintgn.learn.metrics import rank_metrics, ranks
from pintgn.learn.run import Run

WHEEL, INSIDE = "recbole-1.2.1-py3-none-any.whl", "recbole/dataset_example/ml-100k/ml-100k.inter"


def ratings() -> pl.DataFrame:
    """Who rated what and when, in order of time; simultaneous ones in random order."""
    cache = Path(platformdirs.user_cache_dir("pintgn")) / "jobs"
    if not (cache / WHEEL).exists():
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "recbole==1.2.1", "-d", str(cache)]
        subprocess.run(fetch, check=True)
    frame = pl.read_csv(io.BytesIO(zipfile.ZipFile(cache / WHEEL).read(INSIDE)), separator="\t")
    frame = frame.rename({"user_id:token": "user", "item_id:token": "film", "timestamp:float": "t"})
    return frame.select("user", "film", pl.col("t").cast(pl.Int64)).sample(fraction=1, shuffle=True, seed=0).sort("t")


class LeftOut:
    """For each part a log without each member's last films, and the film that is asked about."""

    def __init__(self, job: Job, folder: Path):
        frame = ratings().with_columns(back=pl.int_range(pl.len()).reverse().over("user"))
        self.logs, self.rest, self.asked = {}, {}, {}
        for part, back in (("val", 1), ("test", 0)):
            self.rest[part] = frame.filter(pl.col("back") > back).drop("back")
            self.logs[part] = pintgn.read_events(self.rest[part], "user", "film", bipartite=True)
            self.asked[part] = frame.filter(pl.col("back") == back).sort("user")

    def numbers(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Members and films as numbers of nodes; -1 of a film that nobody else has watched."""
        log, asked = self.logs[part], self.asked[part]
        return log.ids.encode(asked["user"], "src"), log.ids.encode(asked["film"], "dst", missing="mark")

    def ranks(self, scorer: Scorer, part: str) -> np.ndarray:  # (q, 2)
        """The rank of each film that was taken out, among those that the member has not watched, and among all."""
        log, (users, films) = self.logs[part], self.numbers(part)
        scorer.observe(log.src, log.dst, log.t)
        pool, found = np.unique(log.dst), []
        for user, film in zip(users.tolist(), films.tolist(), strict=True):
            others, watched = pool[pool != film], log.dst[log.src == user]
            if film < 0:  # nobody else has watched it: behind all others
                found.append([len(others) - len(watched) + 1.0, len(others) + 1.0])
                continue
            scores = scorer.scores(user, log.t[-1] + 1)
            left = np.stack([~np.isin(others, watched), np.ones(len(others), bool)])
            found.append(ranks(np.full(2, scores[film]), np.broadcast_to(scores[others], left.shape), left))
        return np.array(found)

    def found(self, scorer: Any) -> Found:
        return {part: self.ranks(scorer(self.logs[part]), part) for part in ("val", "test")}


def sasrec(asked: LeftOut, seed: int) -> Found:
    def scorer(log: pintgn.EventLog) -> Sequential:
        learned = log.split()[0]
        return Sequential(trained(learned, seed, epochs=60), learned)

    return asked.found(scorer)


def pintgn_ranks(job: Job, asked: LeftOut, model: str, seed: int) -> tuple[Found, Run]:
    """pintgn as it comes: fit on the rest of the log, and recommend to everyone what they have not watched."""
    found = {}
    for part, log in asked.logs.items():
        run = pintgn.fit(model, log, seed=seed, progress=False, **job.fit)
        films, users = asked.asked[part]["film"].to_list(), asked.asked[part]["user"].to_list()
        said = pl.from_arrow(pintgn.open(run).recommend_many(users, k=log.nodes))
        wanted = pl.DataFrame({"user": users, "film": films})
        fresh = said.join(asked.rest[part], ["user", "film"], "anti", maintain_order="left")
        found[part] = np.stack([_place(some, wanted, log.nodes) for some in (fresh, said)], 1)
    return found, run


def _place(said: pl.DataFrame, wanted: pl.DataFrame, last: int) -> np.ndarray:
    """The place of each wanted film among a member's recommendations, which are in order, best first."""
    placed = said.with_columns(place=pl.int_range(1, pl.len() + 1).over("user"))
    found = wanted.join(placed, ["user", "film"], "left", maintain_order="left")["place"]
    return found.fill_null(last).to_numpy().astype(np.float64)


def figures(asked: LeftOut, found: np.ndarray) -> dict[str, float | None]:
    among_all = {f"{name}, watched ones too": value for name, value in rank_metrics(found[:, 1]).items()}
    return rank_metrics(found[:, 0]) | {name: among_all[name] for name in among_all if "@10" in name}


JOB = Job(
    "ml_100k", "Which film does this member watch next?", lambda folder: (ratings(), None), {"purpose": "ranking"},
    "hits@10",
    {
        "popular": lambda asked, seed: asked.found(lambda log: Scorer(log.nodes)),
        "popular now": lambda asked, seed: asked.found(lambda log: Scorer(log.nodes, 14 * DAY)),
        "ItemKNN": lambda asked, seed: asked.found(lambda log: ItemKNN(log.nodes, own=False)),
        "ItemKNN, last ten": lambda asked, seed: asked.found(lambda log: ItemKNN(log.nodes, 10, own=False)),
        "SASRec": sasrec,
    }, ask=LeftOut, answer=pintgn_ranks, figures=figures,
)  # fmt: skip
