"""Several workers against one, one thread each, in alternating turns on the same questions.

    python benchmarks/workers.py [--workers 2] [--minutes 7] [--scale 1] [--only evaluate]

One process, and a group of several as torchrun starts them, are started once and warmed up. Then they take turns,
case by case, so that whatever else the machine does meets both; a turn is some seconds of work for one worker. For each
case two figures:

- times as fast: the median of the ratios of neighboring turns, and where the middle half of them is. It needs as many
  idle cores as there are workers.
- processor time: what all workers together have used ÷ what one has. It hardly depends on what else runs. Where two
  workers use 1.2 times the processor time of one, two idle cores are at most 2 / 1.2 = 1.67 times as fast.

Starting processes, reading data and what a run prepares once are left out, and measured apart: a whole command as users
type it, at the end (`--commands 0` leaves it out). It ends after `--minutes`; the first turn of each case warms up
and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # also where it is started by its path

TRAINING: dict[str, tuple[dict[str, Any], dict[str, Any], float | None]] = {
    "train pint, 2 layers, batch 200": ({"layers": 2}, {"batch": 200}, 1.5),
    "train pint, batch 1,000": ({}, {"batch": 1000}, 1.5),
    "train pint, batch 200": ({}, {"batch": 200}, 1.0),
    "train tgn, batch 200": ({"name": "tgn"}, {"batch": 200}, None),
}
"""Settings of the model and of training, and how many times as fast two workers are to be."""
MEASURING: dict[str, tuple[dict[str, Any], float | None]] = {
    "evaluate": ({}, 1.5),
    "evaluate, ranking all": ({"rank": "all"}, 1.8),
}
BARS = {name: bar for name, (*_, bar) in (TRAINING | MEASURING).items()}  # type: ignore[operator]
TRAINED, MEASURED, RANKED = 30_000, 400_000, 40_000
"""Events of the logs that are trained on, measured by, and whose test part is ranked; times the scale."""


def prepare(folder: Path, scale: float) -> None:
    """The runs that are measured: not trained, as that changes no time."""
    import pintgn

    untrained: dict[str, Any] = {"epochs": 0, "threads": 1, "progress": False}
    for name, events in (("shop", MEASURED), ("ranked", RANKED)):
        pintgn.fit("pint", pintgn.simulate("shop", int(events * scale), seed=0), folder=folder / name, **untrained)


def turns_of(cases: dict[str, Callable[[], Any]]) -> None:
    """For each line of standard input a turn of the case that it names; prints seconds, and those of the processor."""
    print("ready", flush=True)
    for name in iter(sys.stdin.readline, ""):
        start, used = time.perf_counter(), time.process_time()
        cases[name.strip()]()
        print(f"turn {time.perf_counter() - start} {time.process_time() - used}", flush=True)


def work(folder: Path, scale: float) -> None:
    """One worker of a group that trains and measures."""
    import pintgn
    from pintgn.learn.defaults import resolved
    from pintgn.learn.run import Run
    from pintgn.learn.settings import Settings
    from pintgn.learn.train import Trainer, reproducible
    from pintgn.workers.group import together

    log = pintgn.simulate("shop", events=int(TRAINED * scale), seed=0)
    measured = {name: Run.open(folder / name) for name in ("shop", "ranked")}

    @lru_cache
    def prepared(case: str) -> Run:
        """Which is done once for a run of many epochs."""
        model, train, _ = TRAINING[case]
        given = {"model": {"name": "pint"} | model, "train": {"epochs": 1, "threads": 1} | train}
        chosen = resolved(Settings.of(given), log)
        run = Run(chosen, 0, log, chosen.make_model())
        run.prepare()
        return run

    def training(case: str) -> None:
        Trainer(prepared(case), epochs=1).learn()

    with together() as group, reproducible(1):

        def waited(case: Callable[[], Any]) -> Callable[[], None]:
            def turn() -> None:
                group.any(False)  # wait for each other
                case()
                group.any(False)

            return turn

        def measuring(options: dict[str, Any]) -> None:
            pintgn.evaluate(measured["ranked" if "rank" in options else "shop"], baselines=[], **options)

        cases = {name: waited(partial(training, name)) for name in TRAINING}
        cases |= {name: waited(lambda a=a: measuring(a)) for name, (a, _) in MEASURING.items()}  # type: ignore[misc]
        turns_of(cases)


class Group:
    """Processes that were started together, and wait for turns."""

    def __init__(self, workers: int, folder: Path, scale: float):
        self.folder = tempfile.TemporaryDirectory()
        own = one_thread()
        if workers > 1:
            meet = (Path(self.folder.name) / "meet").as_uri()
            own |= {"WORLD_SIZE": f"{workers}", "PINTGN_MEET": meet, "GLOO_SOCKET_IFNAME": "lo"}
        command = [sys.executable, __file__, "--work", "--folder", f"{folder}", "--scale", f"{scale}"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.each: list[Any] = [
            subprocess.Popen(command, env=own | {"RANK": f"{rank}"}, **pipes) for rank in range(workers)
        ]
        for one in self.each:
            said(one, "ready")

    def turn(self, name: str) -> tuple[float, float]:
        """Seconds of the slowest, and processor seconds of all."""
        for one in self.each:
            one.stdin.write(name + "\n")
            one.stdin.flush()
        wall, used = np.array([[float(word) for word in said(one, "turn")] for one in self.each]).T
        return wall.max(), used.sum()

    def close(self) -> None:
        for one in self.each:
            one.stdin.close()
        for one in self.each:
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
        self.folder.cleanup()


def one_thread() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def said(process: Any, word: str) -> list[str]:
    """What a process says after a word."""
    for line in process.stdout:
        if line.startswith(word):
            return line.split()[1:]
    raise SystemExit("a worker has ended; see above.")


@contextmanager
def started(workers: int, folder: Path, scale: float) -> Iterator[list[Group]]:
    groups = []
    try:
        for count in (1, workers):
            groups.append(Group(count, folder, scale))
        yield groups
    finally:
        for group in groups:
            group.close()


def row(name: str, turns: list[tuple[tuple[float, float], tuple[float, float]]]) -> dict[str, Any]:
    """Medians of the seconds and of the ratios, and the bar."""
    (one, one_used), (many, many_used) = (np.array(some).T for some in zip(*turns, strict=True))
    low, middle, high = np.quantile(one / many, [0.25, 0.5, 0.75])
    found = {"case": name, "turns": len(turns), "one": float(np.median(one)), "many": float(np.median(many))}
    found |= {"ratio": middle, "low": low, "high": high, "processor_one": float(np.median(one_used))}
    return found | {"processor": float(np.median(many_used / one_used)), "bar": BARS.get(name)}


def taken_turns(names: list[str], groups: list[Group], end: float, most: int) -> list[dict[str, Any]]:
    turns: dict[str, list[Any]] = {name: [] for name in names}
    for number in range(most + 1):
        for name in names:
            if number > 1 and time.monotonic() > end:
                break
            both = tuple(group.turn(name) for group in groups)
            if number:  # the first compiles and warms up
                turns[name].append(both)
    return [row(name, some) for name, some in turns.items()]


def whole_command(folder: Path, workers: int, times: int) -> dict[str, Any]:
    """A command as users type it: from the start of Python to its end."""

    def taken(count: int) -> tuple[float, float]:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", f"{count}"] if count > 1 else []
        command = [sys.executable, *launcher, "-m", "pintgn", "evaluate", f"{folder / 'shop'}"]
        used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, env=one_thread(), check=True, capture_output=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime

    return row("pintgn evaluate", [(taken(1), taken(workers)) for _ in range(times)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=7.0, help="of all, about; a turn that has begun is ended")
    parser.add_argument("--scale", type=float, default=1.0, help="how large logs are, and how much is asked")
    parser.add_argument("--turns", type=int, default=15, help="at most, of each case")
    parser.add_argument("--commands", type=int, default=1, help="times that the whole command is run")
    parser.add_argument("--only", nargs="*", metavar="CASE", help="cases whose names begin like this")
    parser.add_argument("--folder", type=Path, help="where runs are made, or have been made by an earlier call")
    parser.add_argument("--work", action="store_true", help="as a process of a group")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.work:
        work(given.folder, given.scale)
        return
    begin = time.monotonic()
    chosen = [name for name in BARS if given.only is None or any(name.startswith(one) for one in given.only)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not (folder / "ranked").exists():
            prepare(folder, given.scale)
        with started(given.workers, folder, given.scale) as groups:
            rows = taken_turns(chosen, groups, begin + 60 * (given.minutes - given.commands), given.turns)
        if given.commands:
            rows.append(whole_command(folder, given.workers, given.commands))
    if given.json:
        print(json.dumps({"workers": given.workers, "load": os.getloadavg(), "rows": rows}))
        return
    show(rows, given.workers)


def show(rows: list[dict[str, Any]], workers: int) -> None:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"load of the last 1, 5 and 15 minutes: {load}; processor: all workers ÷ one, and what that allows at most")
    heads = f"{'1 worker':>10} {f'{workers} workers':>10}   {'times as fast (middle half)':33} {'processor':18} bar"
    print(f"{'':32} {heads}")
    for one in rows:
        spread = f"{one['ratio']:.2f} ({one['low']:.2f} to {one['high']:.2f}, {one['turns']} turns)"
        used = f"{one['processor']:.2f} → {workers / one['processor']:.2f}"
        bar = "" if one["bar"] is None else f"{one['bar']:.1f} {'met' if one['ratio'] >= one['bar'] else 'missed'}"
        print(f"{one['case']:32} {one['one']:8.2f} s {one['many']:8.2f} s   {spread:33} {used:18} {bar}")


if __name__ == "__main__":
    main()
