"""Ranking: every event of the test part against all destinations, candidate pairs per second.

    python benchmarks/rank.py [--data ../shared/data/wikipedia.parquet] [--threads 2] [--models pint ...]

PINT is ranked as users rank it, pair by pair with the fused kernels, and pair by pair as its equations are written
(`plain`). They take turns on the same events; the ratio is to `plain`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from pintgn import EventLog, Stream, read_events, simulate
from pintgn.models.layers import InjectiveLayer
from pintgn.models.registry import MODELS, model_class
from pintgn.stream import core


class Way:
    """One way to rank, and how long it has taken."""

    def __init__(self, label: str, stream: Stream, shared: bool, fused: bool):
        self.label, self.stream, self.shared, self.fused = label, stream, shared, fused
        self.seconds: list[float] = []

    def rank(self, events: EventLog, pool: np.ndarray) -> None:
        core.WORTH_RANKING = 32 if self.shared else 10**9
        InjectiveLayer.fused = self.fused
        wide = np.broadcast_to(pool, (len(events), len(pool)))
        start = time.perf_counter()
        with torch.no_grad():
            self.stream.rank(events, events.query, wide)
        self.seconds.append((time.perf_counter() - start) / wide.size)

    @property
    def rate(self) -> float:
        return 1 / float(np.median(self.seconds[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/wikipedia.parquet")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--models", nargs="*", default=[name for name in MODELS if name != "ctdne"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    log = read_events(options.data) if Path(options.data).exists() else simulate("shop", events=60_000)
    train, val, test = log.split()
    pool = np.unique(log.dst)
    print(f"{log!r}; {options.threads} threads, {len(pool):,} destinations, batches of 8 test events")
    for name in options.models:
        stream = Stream(model_class(name)(), log.schema, node_features=log.node_features)
        stream.observe(train)
        stream.observe(val)
        ways = [Way(name, stream, True, True)]
        if name == "pint":
            ways += [
                Way("pint, pair by pair", stream.fork(), False, True),
                Way("pint, plain", stream.fork(), False, False),
            ]
        for events in test[: 8 * options.batches].batches(8):
            for way in ways:
                way.rank(events, pool)
        for way in ways:
            ratio = f"{way.rate / ways[-1].rate:6.1f}x" if len(ways) > 1 else ""
            print(f"{way.label:<20}{way.rate:12,.0f} pairs/s {ratio}")


if __name__ == "__main__":
    main()
