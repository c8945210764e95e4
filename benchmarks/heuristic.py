"""The weights of `Heuristic`: a small grid, judged on the validation parts of three public logs alone.

    python benchmarks/heuristic.py [--data ../shared/data] [--seeds 3] [--test]

One rule for all logs: the weights with the highest AP against random destinations on the validation part (70-85 %),
averaged over logs and over draws of the wrong destinations. Only the proportions matter, so the weight of log(1 +
meetings) stays 1. `--test` then prints the test parts for the weights that the class has; it plays no part in the
choice.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pintgn import EventLog, Heuristic, Stream, read_events
from pintgn.learn.metrics import average_precision

LOGS = ("uci", "enron", "wikipedia")
GRID = {"met": (0, 1, 3), "recent": (1, 2, 4, 8, 16, 32, 64), "events": (0, 0.03, 0.1, 0.3), "active": (0, 1, 3, 6)}


class Watched(Heuristic):
    """Keeps what it is asked about."""

    def forward(self, inputs: object, state: None) -> Tensor:
        self.seen = self.terms(inputs)
        return torch.zeros(len(self.seen))


def terms_of(log: EventLog, part: EventLog, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What the heuristic knows about the events of a part, and about a wrong destination for each: (2e, 5), labels."""
    model = Watched()
    stream = Stream(model, log.schema, node_features=log.node_features)
    stream.observe(log[: part.first])
    pool = np.unique(log[: part.first].dst)
    wrong = np.random.default_rng(seed).choice(pool, len(part))
    stream.replay(part, [part.query, part.query.toward(wrong)])
    return model.seen, np.repeat([1, 0], len(part))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    logs = {name: read_events(Path(options.data) / f"{name}.parquet") for name in LOGS}

    def judged(weights: list[tuple[float, ...]], part: int) -> np.ndarray:  # (weights, logs)
        found = np.zeros((len(weights), len(logs)))
        for column, log in enumerate(logs.values()):
            for seed in range(options.seeds):
                terms, label = terms_of(log, log.split()[part], seed)
                scores = terms @ np.array(weights).T
                found[:, column] += [average_precision(label, s) for s in scores.T]
        return 100 * found / options.seeds

    tried = [(met, 1.0, recent, events, active) for met, recent, events, active in product(*GRID.values())]
    ap = judged(tried, 1)
    print(f"{len(tried)} settings, validation AP, mean of {options.seeds} draws; best first")
    print(
        f"{'met':>6}{'count':>7}{'recent':>8}{'events':>8}{'active':>8}   {'mean':>6}"
        + "".join(map("{:>11}".format, LOGS))
    )
    mine = tuple(Heuristic.weights)

    def line(weights: tuple[float, ...], row: np.ndarray) -> str:
        met, count, recent, events, active = weights
        cells = "".join(f"{x:11.2f}" for x in row)
        return f"{met:6g}{count:7g}{recent:8g}{events:8g}{active:8g}   {row.mean():6.2f}{cells}"

    close = (ap.mean(1) > ap.mean(1).max() - 0.5).sum()
    print(f"{close} settings are within half a point of the best")
    for row in np.argsort(-ap.mean(1))[:10]:
        print(line(tried[row], ap[row]) + ("   <- the class" if tried[row] == mine else ""))
    if options.test:
        print("the class, test AP: " + line(mine, judged([mine], 2)[0]).strip())


if __name__ == "__main__":
    main()
