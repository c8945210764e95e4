"""Co-visits and aggregates: what their columns cost of a training step, and of ranking all destinations.

    python benchmarks/known_columns.py [--data FILE] [--columns SRC DST TIME] [--features …] [--steps 20]

A step is that of the default PINT: 200 events with a random and a historical negative each, looked up, computed,
learned from and observed. Seconds are the processor's, on one thread: the look-up of a block in the very steps that the
rest is measured in; the ratio is to the step without co-visits and aggregates. Sums cost while they are kept, too; that
is part of `aggregates`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from pintgn import PINT, Stream, read_events, simulate
from pintgn.learn.negatives import earlier_pairs, random_destination
from pintgn.learn.settings import Training
from pintgn.learn.tasks.link import link_loss
from pintgn.models.aggregates import Aggregates
from pintgn.models.history_view import HistoryView
from pintgn.neighbors.running_sums import RunningSums

SETTINGS: dict[str, Any] = {"dim": 64, "neighbors": 10, "pair_history": True, "aggregates": True, "historical": True}
BLOCKS = {
    "co-visits": [(HistoryView, "co_visits")],
    "aggregates": [(Aggregates, "look_up"), (RunningSums, "add")],
}
RANKED = 8


class Timed:
    """The blocks, patched to count the seconds that they take."""

    def __init__(self) -> None:
        self.patches, self.seconds = ExitStack(), dict.fromkeys(BLOCKS, 0.0)
        for name, functions in BLOCKS.items():
            for owner, function in functions:
                self.patches.enter_context(patch.object(owner, function, self._counted(name, getattr(owner, function))))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            start = time.thread_time()
            found = real(*arguments)
            self.seconds[name] += time.thread_time() - start
            return found

        return counted

    def show(self, what: str, whole: float, pairs: int) -> None:
        rest = whole - sum(self.seconds.values())
        for name, seconds in self.seconds.items():
            print(f"{what:<16}{name:<12}{1e6 * seconds / pairs:6.2f} µs a pair of {1e6 * whole / pairs:6.2f}"
                  f"  {100 * seconds / rest:5.1f} % of the rest")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/payments.parquet")
    parser.add_argument("--columns", nargs="*", default=["customer", "terminal", "t"])
    parser.add_argument("--features", nargs="*", default=["amount"])
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    there = Path(options.data).exists()
    log = (
        read_events(options.data, *options.columns, features=options.features)
        if there
        else simulate("shop", events=60_000)
    )
    train, pool, rng = log[: 7 * len(log) // 10], np.unique(log.dst), np.random.default_rng(0)
    model = PINT(**SETTINGS)
    model.prepare(train)
    stream = Stream(model, log.schema, node_features=log.node_features)
    stream.observe(train)
    optimizer, settings = torch.optim.Adam(model.parameters(), 1e-3), Training()
    draws = random_destination(train), earlier_pairs(train)
    print(f"{log!r}; one thread; {len(model.known.names)} columns")
    if (sums := stream.history.sums) is not None:
        print(f"sums: {sums.nbytes / len(train):.0f} bytes an event; log and contacts "
              f"{(stream.nbytes - sums.nbytes) / len(train):.0f}")  # fmt: skip

    timed = Timed()
    with timed.patches:
        whole = 0.0
        for k, batch in enumerate(log[len(train) :].batches(200)):
            if k == 3:  # kernels are compiled by now
                whole, timed.seconds = 0.0, dict.fromkeys(BLOCKS, 0.0)
            if k == 3 + options.steps:
                break
            start = time.thread_time()
            yes, *no = stream.replay(batch, [batch.query, *(draw(batch, rng) for draw in draws)])
            optimizer.zero_grad()
            link_loss(yes, no, settings).backward()
            optimizer.step()
            whole += time.thread_time() - start
        timed.show("training", whole, 600 * options.steps)
        events = log[stream.events : stream.events + RANKED]
        wide = np.broadcast_to(pool, (len(events), len(pool)))
        with torch.no_grad():
            stream.rank(None, events.query, wide)
            timed.seconds, start = dict.fromkeys(BLOCKS, 0.0), time.thread_time()
            stream.rank(None, events.query, wide)
        timed.show(f"ranking {len(pool):,}", time.thread_time() - start, wide.size)


if __name__ == "__main__":
    main()
