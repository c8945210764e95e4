"""Twice the events, twice the time; and how much memory training takes.

    python benchmarks/scale.py [--threads 2] [--most 3000000]
    python benchmarks/scale.py --memory [--data ../shared/data/wikipedia.parquet]

The first trains one epoch of one-layer PINT on longer and longer logs of one simulated world and prints the time per
event beside that of the shortest log, which is trained again right before each longer one, so that the machine's mood
cancels. The second prints the peak resident memory of the process after one epoch of training.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import torch

from pintgn import PINT, EventLog, Stream, read_events, simulate


def train(log: EventLog, batch: int = 200) -> float:
    """Seconds of one epoch over the whole log, one random negative for each event."""
    model = PINT()
    stream = Stream(model, log.schema, node_features=log.node_features)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    rng, pool = np.random.default_rng(0), np.unique(log.dst)
    start = time.perf_counter()
    for events in log.batches(batch):
        yes, no = stream.replay(events, [events.query, events.query.toward(rng.choice(pool, len(events)))])
        loss = torch.nn.functional.softplus(-yes).mean() + torch.nn.functional.softplus(no).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most", type=int, default=3_000_000)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--data", default="../shared/data/wikipedia.parquet")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory:
        log = read_events(options.data) if Path(options.data).exists() else simulate("shop", events=150_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        seconds = train(log)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{log!r}: one epoch {seconds:.1f} s, peak {peak:,.0f} MB, of which {before:,.0f} MB before training")
        return
    train(simulate("repeat", events=20_000))  # compiles
    base = simulate("repeat", events=100_000)
    print(f"{'events':>10} {'seconds':>9} {'µs/event':>9} {'to 100,000':>11}")
    size = 100_000
    while size <= options.most:
        near = train(base) / len(base)
        log = simulate("repeat", events=size)
        seconds = train(log)
        print(f"{size:10,} {seconds:9.1f} {1e6 * seconds / size:9.1f} {seconds / size / near:10.2f}x", flush=True)
        size = options.most if size < options.most < 2 * size else 2 * size


if __name__ == "__main__":
    main()
