"""A model of a training step on several machines, from constants measured here, and what it says about 1 to 256.

    python benchmarks/cluster_model.py --measure     # appends to results/cluster.jsonl: 1, 2 and 4 processes
    python benchmarks/cluster_model.py --plot        # the model, its check, and docs/img/cluster.svg

Every worker observes every event and keeps the whole past. A step of `batch` events on W workers takes each of them, in
seconds of one processor,

    fixed + observe · batch + question · batch / W + reduce

and then, on the wire, an all-reduce of the gradients. The slowest of W workers decides. Processor times and bytes are
measured; what a machine and its network are like (`MACHINE`) is assumed.

The constants come from one process at two sizes of a batch, and from two processes; four processes are predicted by
them and compared. Wall clocks are not: two busy cores say nothing about four machines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # also where it is started by its path
RESULTS, PICTURE = ROOT / "results" / "cluster.jsonl", ROOT / "docs" / "img" / "cluster.svg"
EVENTS, NODES, STEPS = 40_000, 4_000, 24
BATCHES, WORKERS = (200, 1_000), (1, 2, 4)
MACHINE = {"bytes_per_second": 25e9 / 8, "latency": 50e-6, "spread": 0.1, "memory": 512e9}
"""Assumed: 25 Gbit/s, 50 µs to another machine, a tenth of spread between steps, 512 GB."""
PAYS = 1.3
"""Twice the machines pay while they are at least so much faster."""
PER_NODE = 100
"""Events a node of the logs that are drawn."""


# -- measuring ---------------------------------------------------------------------------------------------------------


def work(batch: int) -> None:
    """One worker: prints what a step took it, as JSON."""
    import torch

    from benchmarks.powerlaw import power_law
    from pintgn import Stream
    from pintgn.learn.defaults import resolved
    from pintgn.learn.settings import Settings
    from pintgn.workers.group import joint_step, together

    torch.set_num_threads(1)
    log = power_law(EVENTS, NODES)
    chosen = resolved(Settings.of({"model": {"name": "pint"}}), log)
    with together() as group:

        def learn(stream: Stream, steps: int, begin: int) -> dict[str, float]:
            rng, pool = np.random.default_rng(0), np.unique(log.dst)
            parameters = list(stream.model.parameters())
            optimizer = torch.optim.SGD(parameters, 1e-3)
            started = time.process_time()
            for step in range(steps):
                part = log[begin + step * batch : begin + (step + 1) * batch]
                mine = group.share(len(part))
                other = part.query.toward(rng.choice(pool, len(part)))
                yes, no = stream.replay(part, [part.query[mine], other[mine]])
                yes, no = stream.model.answer(yes, "anyone"), stream.model.answer(no, "anyone")
                loss = torch.nn.functional.softplus(-yes).mean() + torch.nn.functional.softplus(no).mean()
                optimizer.zero_grad()
                if group.size > 1:
                    joint_step(group, parameters, loss, len(yes), False)
                else:
                    loss.backward()
                optimizer.step()
            spent = (time.process_time() - started) / steps
            return {"step_us": 1e6 * spent, "gradient_bytes": 4 * sum(p.numel() for p in parameters)}

        def made() -> Stream:
            model = chosen.make_model()
            model.prepare(log[: 7 * len(log) // 10])
            stream = Stream(model, log.schema, positions_backend="sketch")
            stream.prefetch_in_thread = False
            return stream

        learn(made(), 2, 0)  # compiles
        stream, first = made(), EVENTS - STEPS * BATCHES[-1]
        stream.observe(log[: first // 2])
        begin = time.process_time()
        stream.observe(log[first // 2 : first])
        observing = (time.process_time() - begin) / (first - first // 2)
        found = learn(stream, STEPS, first)
    print(json.dumps({"observe_us": 1e6 * observing} | found))


def measure(workers: int, batch: int) -> dict[str, Any]:
    """The mean over workers of what each took."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"WORLD_SIZE": f"{workers}", "PINTGN_MEET": (Path(folder) / "meet").as_uri(), "GLOO_SOCKET_IFNAME": "lo"}
        own |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--work", f"{batch}"]
        each = [
            subprocess.Popen(command, env=os.environ | own | {"RANK": f"{rank}"}, stdout=subprocess.PIPE, text=True)
            for rank in range(workers)
        ]
        found = [json.loads(one.communicate()[0].splitlines()[-1]) for one in each]
    mean = {name: round(float(np.mean([one[name] for one in found])), 3) for name in found[0]}
    return {"workers": workers, "batch": batch, "load": round(os.getloadavg()[0], 1)} | mean


# -- the model ---------------------------------------------------------------------------------------------------------

Rows = dict[tuple[int, int], dict[str, Any]]


def newest(path: Path = RESULTS) -> Rows:
    """The newest row of each number of workers and batch."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["workers"], row["batch"]): row for row in rows}


def constants(rows: Rows) -> dict[str, float]:
    """What the model needs, from one process at two batches and from two processes."""
    small, large = BATCHES
    one = {batch: rows[1, batch] for batch in BATCHES}
    slope = (one[large]["step_us"] - one[small]["step_us"]) / (large - small)
    observe = one[large]["observe_us"]
    alike = {"fixed": max(one[small]["step_us"] - slope * small, 0.0), "question": slope - observe}
    known = alike | {"observe": observe, "gradient_bytes": one[large]["gradient_bytes"]}
    two_alike = [alike["fixed"] + observe * b + alike["question"] * b / 2 for b in BATCHES]
    reducing = [rows[2, b]["step_us"] - own for b, own in zip(BATCHES, two_alike, strict=True)]
    known["reduce"] = max(float(np.mean(reducing)), 0.0)
    return known


def processor_us(known: dict[str, float], workers: int, batch: int) -> float:
    """Processor time of a step on each worker."""
    own = known["fixed"] + known["observe"] * batch + known["question"] * batch / workers
    return own + (known["reduce"] if workers > 1 else 0.0)


def step_us(known: dict[str, float], workers: int, batch: int) -> float:
    """By the clock, on machines that have nothing else to do: the slowest processor, then the wire."""
    if workers == 1:
        return processor_us(known, 1, batch)
    slowest = 1 + MACHINE["spread"] * math.sqrt(2 * math.log(workers))
    bandwidth, latency = MACHINE["bytes_per_second"], MACHINE["latency"]
    wire = (
        2 * (workers - 1) / workers * known["gradient_bytes"] / bandwidth + 2 * math.ceil(math.log2(workers)) * latency
    )
    return slowest * processor_us(known, workers, batch) + 1e6 * wire


def stops_paying(known: dict[str, float], per_machine: int | None) -> int:
    """The most machines, in powers of two, to which doubling pays; batches of 1,000, or so many events a machine."""
    workers = 1
    while workers < 256:
        sizes = [1_000 if per_machine is None else per_machine * one for one in (workers, 2 * workers)]
        now, then = (step_us(known, w, b) / b for w, b in zip((workers, 2 * workers), sizes, strict=True))
        if now / then < PAYS:
            break
        workers *= 2
    return workers


def checks(rows: Rows, known: dict[str, float]) -> list[tuple[str, float, float]]:
    """What was measured and what the model says, for all but what its constants come from."""
    return [
        (f"{workers} workers, batch {batch:,}: µs of each", row["step_us"], processor_us(known, workers, batch))
        for (workers, batch), row in sorted(rows.items())
        if workers > 2
    ]


def at_scale(known: dict[str, float], events: float) -> tuple[dict[str, float], float]:
    """The constants on a log of so many events, and bytes of its whole past, by the model of `growth.py`."""
    from benchmarks import growth

    rows, sizes = growth.newest(), ((EVENTS, NODES), (events, events / PER_NODE))
    here, there = ({"events": e, "nodes": n} for e, n in sizes)
    told = {name: growth.fitted(rows, name) for name in ("train_us", "observe_us", "stream_bytes")}
    (before, now), (_, observe), (_, held) = (
        [float((growth.design([one], name) @ told[name])[0]) for one in (here, there)] for name in told
    )
    return known | {"question": known["question"] * max(now / before, 1.0), "observe": observe}, held


def hours(known: dict[str, float], workers: int, power: int) -> float:
    """Of an epoch over 10^power events, with batches of 200 for each machine."""
    return step_us(known, workers, 200 * workers) / (200 * workers) * 10.0**power / 3.6e9


def picture(known: dict[str, float]) -> str:
    """Hours of an epoch by the number of machines, for three sizes of logs."""
    from pintgn.drawing.plot import Axis, Plot, sheet

    charts, machines = {}, [2**k for k in range(9)]
    for power in (9, 10, 11):
        large, held = at_scale(known, 10.0**power)
        line, fits = [hours(large, w, power) for w in machines], held <= MACHINE["memory"]
        sides = Axis(0.9, 280, "machines", log=True), Axis(min(line) / 2, 2 * max(line), "hours an epoch", log=True)
        plot = Plot(*sides, left=52)
        plot.line(machines, line, "k0", dash=not fits)
        for w, y in zip(machines, line, strict=True):
            plot.dot(w, y, "k0", f"{w} machines: {y:,.1f} hours{'' if fits else ', does not fit'}", hollow=not fits)
        charts[f"10^{power} events"] = plot
    legend = [("k0", "dot", "fits in 512 GB"), ("k0", "ring", "does not fit")]
    return sheet("An epoch on several machines, by a model", charts, legend, columns=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--work", type=int, metavar="BATCH", help="as one worker")
    parser.add_argument("--plot", action="store_true")
    options = parser.parse_args()
    if options.work:
        work(options.work)
    if options.measure:
        for workers in WORKERS:
            for batch in BATCHES:
                row = json.dumps(measure(workers, batch))
                with open(RESULTS, "a", encoding="utf-8") as file:
                    file.write(row + "\n")
                print(row, flush=True)
    if options.plot:
        rows = newest()
        known = constants(rows)
        print(json.dumps({name: round(value, 4) for name, value in known.items()}))
        for name, measured, predicted in checks(rows, known):
            print(f"{name:55} {measured:12,.0f} measured, {measured / predicted:.2f} times predicted")
        for power in (9, 10, 11):
            large, held = at_scale(known, 10.0**power)
            costs = f"{large['question']:.0f} µs a question, {large['observe']:.1f} µs to observe an event"
            ends = [stops_paying(large, each) for each in (None, 200)]
            print(f"1e{power}: {costs}, {held / 1e9:,.0f} GB, {hours(large, 1, power):,.0f} h alone")
            print(
                f"   pays to {ends[0]} (batch 1,000), {ends[1]} (200 a machine); hours on 16, 64, 256: "
                f"{', '.join(f'{hours(large, w, power):,.1f}' for w in (16, 64, 256))}"
            )
        PICTURE.write_text(picture(known), encoding="utf-8")


if __name__ == "__main__":
    main()
