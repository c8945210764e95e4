"""Co-visits: what their columns cost of a training step, and of ranking all destinations.

    python benchmarks/covisits.py [--data ../shared/data/wikipedia.parquet] [--steps 20]

A step is that of the default PINT: 200 events with a random and a historical negative each, looked up, computed,
learned from and observed. Seconds are the processor's, on one thread: the look-up of co-visits in the very steps that
the rest is measured in; the ratio is to the rest.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from pintgn import PINT, Stream, read_events, simulate
from pintgn.learn.negatives import earlier_pairs, random_destination
from pintgn.learn.settings import Training
from pintgn.learn.tasks.link import link_loss
from pintgn.models.history_view import HistoryView

SETTINGS: dict[str, Any] = {"dim": 64, "neighbors": 10, "pair_history": True, "historical": True}
RANKED = 8


class Timed:
    """A function, and the seconds and rows that it took."""

    def __init__(self, function: Callable[..., np.ndarray]):
        self.function, self.seconds, self.rows = function, 0.0, 0

    def __call__(self, *arguments: Any) -> np.ndarray:
        start = time.thread_time()
        found = self.function(*arguments)
        self.seconds, self.rows = self.seconds + time.thread_time() - start, self.rows + len(found)
        return found


def show(what: str, whole: float, timed: Timed) -> None:
    rest = whole - timed.seconds
    print(f"{what:<22}{1e6 * timed.seconds / timed.rows:6.2f} µs a pair of {1e6 * whole / timed.rows:6.2f}"
          f"  {100 * timed.seconds / rest:5.1f} % of the rest")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/wikipedia.parquet")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    log = read_events(options.data) if Path(options.data).exists() else simulate("shop", events=60_000)
    train, pool, rng = log[: 7 * len(log) // 10], np.unique(log.dst), np.random.default_rng(0)
    model = PINT(**SETTINGS)
    model.prepare(train)
    stream = Stream(model, log.schema, node_features=log.node_features)
    stream.observe(train)
    optimizer, settings = torch.optim.Adam(model.parameters(), 1e-3), Training()
    draws = random_destination(train), earlier_pairs(train)
    print(f"{log!r}; one thread")

    whole, timed, real = 0.0, Timed(HistoryView.co_visits), HistoryView.co_visits
    with patch.object(HistoryView, "co_visits", lambda *arguments: timed(*arguments)):
        for k, batch in enumerate(log[len(train) :].batches(200)):
            if k == 3:  # kernels are compiled by now
                whole, timed = 0.0, Timed(real)
            if k == 3 + options.steps:
                break
            start = time.thread_time()
            yes, *no = stream.replay(batch, [batch.query, *(draw(batch, rng) for draw in draws)])
            optimizer.zero_grad()
            link_loss(yes, no, settings).backward()
            optimizer.step()
            whole += time.thread_time() - start
        show("training", whole, timed)
        events = log[stream.events : stream.events + RANKED]
        wide = np.broadcast_to(pool, (len(events), len(pool)))
        with torch.no_grad():
            stream.rank(None, events.query, wide)
            timed, start = Timed(real), time.thread_time()
            stream.rank(None, events.query, wide)
        show(f"ranking {len(pool):,}", time.thread_time() - start, timed)


if __name__ == "__main__":
    main()
