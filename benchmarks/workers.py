"""Several workers against one, one thread each: training, evaluation and ranking, side by side on the same events.

    python benchmarks/workers.py [--workers 2] [--events 12000] [--rounds 2]

One worker and several take turns, each in fresh processes started as `--workers` starts them. Times are those of the
work itself, after a first pass that compiles and warms up: starting processes and reading data is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

CASES = {
    "train pint, 2 layers, batch 200": ({"layers": 2}, {"batch": 200}),
    "train pint, batch 1,000": ({}, {"batch": 1000}),
    "train pint, batch 200": ({}, {"batch": 200}),
    "train tgn, batch 200": ({"name": "tgn"}, {"batch": 200}),
}


def work(events: int) -> None:
    """One worker: prints the seconds of each part as JSON, from the first of the group."""
    import pintgn
    from pintgn.learn.reproducible import Stopper, reproducible
    from pintgn.learn.run import Run
    from pintgn.learn.settings import Settings
    from pintgn.learn.train import Trainer, resolved
    from pintgn.workers.group import together

    log = pintgn.simulate("shop", events=events, seed=0)
    found: dict[str, float] = {}

    def timed(name: str, call: Callable[[], object]) -> None:
        group.any(False)  # wait for each other
        start = time.perf_counter()
        call()
        group.any(False)
        found[name] = time.perf_counter() - start

    with together() as group, reproducible(1):
        for name, (model, train) in CASES.items():
            given = {"model": {"name": "pint"} | model, "train": {"epochs": 2, "threads": 1} | train}
            chosen = resolved(Settings.of(given), log)
            run = Run(chosen, 0, log, chosen.make_model())
            run.prepare()
            trainer = Trainer(run, None, lambda entry: None, Stopper())
            trainer._validate = lambda: {key: {"ap": 0.0} for key in ("all", "new")}  # type: ignore
            trainer.learn()
            found[name] = run.history[-1]["events_per_second"] ** -1 * len(run.parts.trained)
        run = pintgn.fit("pint", log, epochs=1, progress=False, threads=1)
        for name, options in {"evaluate": {}, "evaluate, ranking all": {"rank": "all"}}.items():
            pintgn.evaluate(run, beside=[], part="val", **options)
            timed(name, lambda options=options: pintgn.evaluate(run, beside=[], **options))  # type: ignore[misc]
    if group.rank == 0:
        print(json.dumps(found))


def started(workers: int, events: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        own = {"WORLD_SIZE": f"{workers}", "PINTGN_MEET": (Path(folder) / "meet").as_uri(), "GLOO_SOCKET_IFNAME": "lo"}
        own |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--work", "--events", f"{events}"]
        each = [
            subprocess.Popen(command, env=os.environ | own | {"RANK": f"{rank}"}, stdout=subprocess.PIPE, text=True)
            for rank in range(workers)
        ]
        outputs = [one.communicate()[0] for one in each]
    assert not any(one.returncode for one in each)
    return json.loads(outputs[0].splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--events", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--work", action="store_true")
    given = parser.parse_args()
    if given.work:
        work(given.events)
        return
    rounds = [[started(count, given.events) for count in (1, given.workers)] for _ in range(given.rounds)]
    print(f"{'':34} {'1 worker':>10} {f'{given.workers} workers':>10}   times as fast")
    for name in rounds[0][0]:
        one, many = (np.median([r[k][name] for r in rounds]) for k in (0, 1))
        print(f"{name:34} {one:8.2f} s {many:8.2f} s   {one / many:.2f}")


if __name__ == "__main__":
    main()
