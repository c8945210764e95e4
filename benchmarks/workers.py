"""Several workers against one, one thread each, in alternating short turns on the same events.

    python benchmarks/workers.py [--workers 2] [--minutes 8] [--events 30000]

One process, and a group of several as `--workers` starts them, are started once and warmed up. Then they take turns,
case by case, so that whatever else the machine does meets both; a turn is a second or so of work. The table has the
median of the ratios of neighboring turns, from where to where the middle half of them goes, and the bar that was set.
Starting processes and reading data is left out. It ends after `--minutes`, or when every case had `--turns`.
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
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # also where it is started by its path

TRAINING = {
    "train pint, 2 layers, batch 200": ({"layers": 2}, {"batch": 200}, 1.5),
    "train pint, batch 1,000": ({}, {"batch": 1000}, 1.5),
    "train pint, batch 200": ({}, {"batch": 200}, 1.0),
    "train tgn, batch 200": ({"name": "tgn"}, {"batch": 200}, None),
}
"""Settings of the model and of training, and how many times as fast two workers are to be."""
MEASURING: dict[str, tuple[dict[str, Any], float]] = {
    "evaluate": ({}, 1.5),
    "evaluate, ranking all": ({"rank": "all", "most": 300}, 1.8),
}
USING = {"predict": 1.8, "recommend": 1.8, "embed": 1.8}
BARS = {name: bar for name, (*_, bar) in (TRAINING | MEASURING).items()} | USING  # type: ignore[operator]


def work(events: int) -> None:
    """One worker of a group: for each line of standard input, a turn of the case that it names; prints its seconds."""
    import pintgn
    from pintgn.learn.reproducible import Stopper, reproducible
    from pintgn.learn.run import Run
    from pintgn.learn.settings import Settings
    from pintgn.learn.train import Trainer, resolved
    from pintgn.workers.group import together

    log = pintgn.simulate("shop", events=events, seed=0)
    cases: dict[str, Callable[[], float]] = {}

    def training(model: dict, train: dict) -> float:
        given = {"model": {"name": "pint"} | model, "train": {"epochs": 1} | train}
        chosen = resolved(Settings.of(given), log)
        run = Run(chosen, 0, log, chosen.make_model())
        run.prepare()
        trainer = Trainer(run, None, lambda entry: None, Stopper())
        trainer._validate = lambda: {key: {"ap": 0.0} for key in ("all", "new")}  # type: ignore
        trainer.learn()
        return len(run.parts.trained) / run.history[-1]["events_per_second"]

    with together() as group, reproducible(None if group.size > 1 else 1):
        run = pintgn.fit("pint", log, epochs=1, progress=False)

        def measuring(options: dict) -> float:
            group.any(False)  # wait for each other
            start = time.perf_counter()
            pintgn.evaluate(run, beside=[], **options)
            group.any(False)
            return time.perf_counter() - start

        cases |= {name: lambda a=a, b=b: training(a, b) for name, (a, b, _) in TRAINING.items()}  # type: ignore[misc]
        cases |= {name: lambda a=a: measuring(a) for name, (a, _) in MEASURING.items()}  # type: ignore[misc]
        for name in iter(sys.stdin.readline, ""):
            seconds = cases[name.strip()]()
            if group.rank == 0:
                print(f"turn {seconds}", flush=True)


def use(events: int, workers: int) -> None:
    """Predict, recommend and embed by so many independent workers: turns as of `work`."""
    import pintgn
    from benchmarks.powerlaw import power_law
    from pintgn.live.live import open as open_run
    from pintgn.live.shared import Shared
    from pintgn.workers.jobs import open_jobs

    log = power_law(2 * events, events)
    with tempfile.TemporaryDirectory() as folder:
        pintgn.fit("pint", log, epochs=1, progress=False, folder=f"{folder}/run", threads=1, positions_backend="sketch")
        live: Any = open_run(f"{folder}/run")
        some = log[-30_000:]
        pairs = {"src": [log.id(int(n)) for n in some.src], "dst": [log.id(int(n)) for n in some.dst]}
        sources = [log.id(int(node)) for node in np.unique(log.src)][:12]
        with open_jobs("local", workers) as jobs:
            shared: Any = Shared(live, f"{folder}/run", [], jobs) if workers > 1 else live
            from pintgn.live.embeddings import embed_many
            from pintgn.live.predict import predict

            cases: dict[str, Callable[[], Any]] = {
                "predict": lambda: predict(shared, pairs),
                "recommend": lambda: shared.recommend_many(sources, 10, None, None),
                "embed": lambda: embed_many(shared, "all", None, "src", None).read_all(),
            }
            for name in iter(sys.stdin.readline, ""):
                start = time.perf_counter()
                cases[name.strip()]()
                print(f"turn {time.perf_counter() - start}", flush=True)


class Group:
    """Processes that were started together, and wait for turns."""

    def __init__(self, workers: int, events: int, kind: str):
        self.folder = tempfile.TemporaryDirectory()
        own = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        count = workers if kind == "work" else 1
        if count > 1:
            meet = (Path(self.folder.name) / "meet").as_uri()
            own |= {"WORLD_SIZE": f"{count}", "PINTGN_MEET": meet, "GLOO_SOCKET_IFNAME": "lo"}
        command = [sys.executable, __file__, "--as", kind, "--events", f"{events}", "--workers", f"{workers}"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.each = [
            subprocess.Popen(command, env=os.environ | own | {"RANK": f"{rank}"}, **pipes) for rank in range(count)
        ]

    def turn(self, name: str) -> float:
        for one in self.each:
            one.stdin.write(name + "\n")  # type: ignore[union-attr]
            one.stdin.flush()  # type: ignore[union-attr]
        for line in self.each[0].stdout:  # type: ignore[union-attr]
            if line.startswith("turn "):
                return float(line.split()[1])
        raise SystemExit(f"a worker ended in its turn of {name!r}.")

    def close(self) -> None:
        for one in self.each:
            one.stdin.close()  # type: ignore[union-attr]
        for one in self.each:
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
        self.folder.cleanup()


def row(name: str, turns: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians of the seconds and of the ratios, and the bar."""
    one, many = np.array(turns).T
    low, middle, high = np.quantile(one / many, [0.25, 0.5, 0.75])
    found = {"case": name, "turns": len(turns), "one": float(np.median(one)), "many": float(np.median(many))}
    bar = BARS[name]
    return found | {"ratio": middle, "low": low, "high": high, "bar": bar, "met": bar is None or bool(middle >= bar)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--as", dest="kind", choices=["work", "use"], help="a process of a group")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.kind:
        work(given.events) if given.kind == "work" else use(given.events, given.workers)
        return
    end = time.monotonic() + 60 * given.minutes
    groups = {kind: [Group(count, given.events, kind) for count in (1, given.workers)] for kind in ("work", "use")}
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in BARS}
    try:
        for number in range(given.turns + 1):
            for name in BARS:
                if number > 1 and time.monotonic() > end:
                    break
                one, many = groups["use" if name in USING else "work"]
                both = one.turn(name), many.turn(name)
                if number:  # the first compiles and warms up
                    turns[name].append(both)
    finally:
        for group in [group for pair in groups.values() for group in pair]:
            group.close()
    rows = [row(name, some) for name, some in turns.items()]
    if given.json:
        print(json.dumps({"workers": given.workers, "load": os.getloadavg()[0], "rows": rows}))
        return
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'':34} {'1 worker':>10} {f'{given.workers} workers':>10}   times as fast (middle half)   bar")
    for one in rows:
        bar = "" if one["bar"] is None else f"{one['bar']:.1f} {'met' if one['met'] else 'missed'}"
        spread = f"{one['ratio']:.2f} ({one['low']:.2f} to {one['high']:.2f}, {one['turns']} turns)"
        print(f"{one['case']:34} {one['one']:8.2f} s {one['many']:8.2f} s   {spread:28} {bar}")


if __name__ == "__main__":
    main()
