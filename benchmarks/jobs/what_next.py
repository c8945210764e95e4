"""A job about who comes next, with the baselines that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from benchmarks.jobs.common import DAY, Job
from benchmarks.jobs.next_item import ItemKNN, Ranked, Scorer, figures, pintgn_ranks
from benchmarks.jobs.ranker import ranked
from benchmarks.jobs.sasrec import sasrec
from pintgn.events.log import EventLog


def what_next(name: str, asks: str, read: Callable[[Path], tuple[pl.DataFrame, EventLog]]) -> Job:
    return Job(
        name, asks, read, {"purpose": "ranking"}, "mrr",
        {
            "popular": lambda asked, seed: asked.found(lambda: Scorer(asked.log.nodes)),
            "popular now": lambda asked, seed: asked.found(lambda: Scorer(asked.log.nodes, DAY / 8)),
            "ItemKNN": lambda asked, seed: asked.found(lambda: ItemKNN(asked.log.nodes)),
            "ItemKNN, last ten": lambda asked, seed: asked.found(lambda: ItemKNN(asked.log.nodes, 10)),
            "SASRec": sasrec,
            "LightGBM, ranking": ranked,
        },
        ask=Ranked, answer=pintgn_ranks, figures=figures,
    )  # fmt: skip
