"""Twice the events, twice the time; and how much memory training takes.

    python benchmarks/scale.py [--threads 2] [--most 3000000]
    python benchmarks/scale.py --memory [--events 2000000] [--nodes 300000] [--data FILE]
    python benchmarks/scale.py --newest 200000 [--events 100000000] [--nodes 2000000] [--data FILE]

The first trains one epoch of one-layer PINT on longer and longer logs of one simulated world and prints the time per
event beside that of the shortest log, which is trained again right before each longer one, so that the machine's mood
cancels. The second prints what holds how many bytes after a simulated log (`powerlaw.py`, or a file) has been observed,
per event and per node; what `pintgn train --dry-run` predicts; and the peak of `pintgn train` itself, one epoch with
defaults, in a process of its own. The third is for logs whose epoch takes hours: the stream observes the whole log but
for its newest events, and trains on those, on one thread and on two in turns; printed are microseconds an event, what
that makes for one epoch over the training part, and the peak, beside which nothing is larger in a training.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from benchmarks.powerlaw import power_law
from benchmarks.threads import trainer
from pintgn import PINT, EventLog, Stream, read_events, simulate
from pintgn.events.log import COLUMNS
from pintgn.formatting import size
from pintgn.learn.defaults import resolved
from pintgn.learn.fit import peak_memory
from pintgn.learn.measure import observe_log
from pintgn.learn.memory_budget import predict, resident
from pintgn.learn.settings import Settings
from pintgn.learn.train import reproducible

TURNS = 4
"""Of one thread and of two."""


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


def holdings(log: EventLog, stream: Stream) -> dict[str, int]:
    """Bytes by what holds them, in a stream that has observed a log."""
    index, columns = stream.index, {name: getattr(log, name) for name in COLUMNS}
    found = {f"log: {name}": column.nbytes for name, column in columns.items() if column is not None}
    found |= {
        "index: lists of nodes": index._heads.nbytes,
        "index: other ends": index._arenas[0].nbytes,
        "index: times": index._arenas[1].nbytes,
        "index: event numbers": index._arenas[2].nbytes,
        "index: how many went out": index._arenas[3].nbytes,
        "index: table of busy pairs": sum(array.nbytes for array in index._pairs),
        "event features": 0 if stream.history.event_table is None else stream.history.event_table.nbytes,
        f"positions ({getattr(stream.positions, 'backend', 'none')})": getattr(stream.positions, "nbytes", 0),
        "weights, their gradients and Adam": 4 * 4 * sum(p.numel() for p in stream.model.parameters()),
    }
    return {name: count for name, count in found.items() if count}


def train_peak(path: Path) -> tuple[int, float]:
    """Peak resident bytes of `pintgn train` with defaults, one epoch, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [sys.executable, "-m", "pintgn", "train", str(path), "-o", f"{folder}/run", "--epochs", "1"]
        child = subprocess.Popen([*command, "--no-report"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit("training failed")
        return 1024 * usage.ru_maxrss, time.perf_counter() - started


def memory(options: argparse.Namespace) -> None:
    before = resident()
    log = read_events(options.data) if options.data else power_law(options.events, options.nodes)
    chosen = resolved(Settings.of({"model": {"name": "pint"}}), log)
    stream = Stream(chosen.make_model(), log.schema, node_features=log.node_features)
    stream.observe(log)
    print(log)
    print(f"{'':>34} {'bytes':>10} {'per event':>10} {'per node':>9}")
    found = {"Python, torch, Arrow": before} | holdings(log, stream)
    for name, count in [*found.items(), ("together", sum(found.values()))]:
        print(f"{name:>34} {size(count):>10} {count / len(log):10.1f} {count / log.nodes:9.1f}")
    entries = sum(count for name, count in found.items() if name.startswith("index"))
    print(f"an entry of the index, spare capacity included: {entries / stream.index.size:.1f} bytes")
    print(f"predicted peak: {size(sum(predict(chosen, log).values()))}", flush=True)
    del stream
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.data) if options.data else Path(folder) / "log.parquet"
        if not options.data:
            log.save(path)
        del log
        peak, seconds = train_peak(path)
    print(f"peak of `pintgn train --epochs 1`: {size(peak)}, in {seconds:.0f} s")


def newest(options: argparse.Namespace) -> None:
    """The log in a file that is mapped, then all else in a process of its own, whose peak is its own."""
    if options.data:
        train_newest(Path(options.data), options.newest)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "log.arrow"
        size = ["--events", str(options.events), "--nodes", str(options.nodes)]
        for command in (
            ["benchmarks/powerlaw.py", *size, "-o", str(path)],
            [__file__, "--newest", str(options.newest), "--data", str(path)],
        ):
            subprocess.run([sys.executable, *command], check=True)


def train_newest(path: Path, count: int) -> None:
    torch.set_num_threads(1)
    log = read_events(path)
    made = trainer(log, {"train": {"threads": 2}})
    stream, batch = made.stream, made.settings.batch
    predicted, trained, events = sum(predict(made.run.settings, log).values()), made.parts.trained, made.parts.log
    begin = max(len(events) - count, 0)
    started = time.process_time()
    observe_log(stream, events[:begin])
    observed, held = time.process_time() - started, stream.nbytes

    def learn(part: EventLog, threads: int) -> tuple[float, float]:
        """Microseconds an event by the clock, and of the processor."""
        stream.prefetch_in_thread = threads == 2
        wall, used = time.perf_counter(), time.process_time()
        for some, scores in stream.prefetch(part.batches(batch), made._ask, made.compute):
            made._step(scores, made.truths.pop(some.first))
        return 1e6 * (time.perf_counter() - wall) / len(part), 1e6 * (time.process_time() - used) / len(part)

    with reproducible(1):
        learn(events[begin : begin + batch], 1)  # compiles
        bounds = np.linspace(begin + batch, len(events), 2 * TURNS + 1).astype(np.int64).tolist()
        turns = [learn(events[low:high], 1 + k % 2) for k, (low, high) in enumerate(pairwise(bounds))]
    print(f"{log}; {len(trained):,} to train on, stream {size(held)}")
    print(f"observing: {1e6 * observed / max(begin, 1):.2f} µs of one processor an event")
    for threads in (1, 2):
        wall, used = np.array(turns[threads - 1 :: 2]).T
        each = f"{wall.mean():.0f} µs an event by the clock ({wall.min():.0f} to {wall.max():.0f})"
        print(f"training, {threads} thread(s): {each}, {used.mean():.0f} of processors; {TURNS} turns of both")
        print(f"one epoch: {wall.mean() * len(trained) / 60e6:.0f} minutes")
    print(f"peak: {size(peak_memory() or 0)}; predicted for the whole of `pintgn train`: {size(predicted)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--most", type=int, default=3_000_000)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--newest", type=int, help="train on so many of the newest training events only")
    parser.add_argument("--folder", help="where the simulated log is kept meanwhile")
    parser.add_argument("--data")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--nodes", type=int, default=300_000)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory or options.newest:
        newest(options) if options.newest else memory(options)
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
