"""How much the second core brings: training steps with one thread and with two, block by block in turn.

    python benchmarks/threads.py [--data ../shared/data/uci.parquet ...] [--steps 40] [--blocks 8]

Both go on in one stream from the middle of the training part, so a busy machine is as busy for both. Printed are
medians over blocks, their ratio, and the processor time of a step: of all of it, and of the part that computes. The
first divided by the second is what two idle cores would give; a machine with other work on it gives less.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pintgn import EventLog, read_events
from pintgn.learn.defaults import resolved
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.train import Trainer, reproducible

DATA = ("../shared/data/uci.parquet", "../shared/data/wikipedia.parquet")


def trainer(log: EventLog, settings: dict[str, Any] | None = None) -> Trainer:
    """A run with default settings, ready to train."""
    chosen = resolved(Settings.of({"model": {"name": "pint"}} | (settings or {})), log)
    run = Run(chosen, 0, log, chosen.make_model())
    run.prepare()
    made = Trainer(run)
    made.model.train()
    return made


def measure(log: EventLog, steps: int, blocks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds of a step with one thread and with two (2, blocks): by the clock, of all threads, computing."""
    made = trainer(log)
    stream, size, trained = made.stream, made.settings.batch, made.parts.trained
    steps = min(steps, len(trained) // size // (4 * blocks + 2))
    first = max(len(trained) // size // 2 - blocks * steps, 0)
    stream.observe(trained[: first * size])
    batches = trained[first * size :].batches(size)
    wall, spent, computing = (np.zeros((2, blocks)) for _ in range(3))
    with reproducible(2):
        for block in range(-1, blocks):  # the first compiles
            for threads in (0, 1) if block % 2 else (1, 0):
                stream.prefetch_in_thread = threads == 1
                clock, processor, own = time.perf_counter(), time.process_time(), time.thread_time()
                for batch, scores in stream.prefetch(islice(batches, steps), made.questions, made.compute):
                    made.step(scores, made.labels.pop(batch.first))
                wall[threads, block] = (time.perf_counter() - clock) / steps
                spent[threads, block] = (time.process_time() - processor) / steps
                computing[threads, block] = (time.thread_time() - own) / steps
    return wall, spent, computing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; milliseconds of a step, medians")
    print(f"{'':>14} {'one':>8} {'two':>8} {'ratio':>7} {'processor':>10} {'computing':>10} {'at best':>8}")
    for path in options.data:
        wall, spent, computing = measure(read_events(path), options.steps, options.blocks)
        one, two = (1e3 * np.median(row) for row in wall)
        whole, own = 1e3 * np.median(spent[0]), 1e3 * np.median(computing[1])
        times = f"{one:8.1f} {two:8.1f} {one / two:6.2f}x {whole:10.1f} {own:10.1f} {whole / own:7.2f}x"
        print(f"{Path(path).stem:>14} {times}", flush=True)


if __name__ == "__main__":
    main()
