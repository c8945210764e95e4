"""How long the theory tools take.

    OMP_NUM_THREADS=1 python benchmarks/theory.py FOLDER    # with wikipedia.parquet and uci.parquet (src, dst, t)

Temporal WL is timed beside a plain dictionary of tuples on the same log in the same run, because machines are noisy
and only the ratio travels. Three rounds are forced where refinement would stop earlier. The log has no event features;
`172 features` gives every event a random row of them, as JODIE's file has.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pintgn.events.log import EventLog
from pintgn.theory.colors import refine, temporal_wl
from pintgn.theory.data_report import report
from pintgn.theory.event_history import EventHistory
from pintgn.theory.items import gallery

ROUNDS = 3


def read(path: Path, features: int = 0) -> EventLog:
    table = pq.read_table(path)
    rows = np.random.default_rng(0).random((len(table), features), np.float32) if features else None
    return EventLog(*(table[name].to_numpy() for name in ("src", "dst", "t")), features=rows)


def forced(log: EventLog, times: str) -> np.ndarray:
    """Three rounds from the events, whether or not the partition is stable before."""
    history = EventHistory(log, times=times)
    color = history.state
    for _ in range(ROUNDS):
        color = refine(color, history.entries)
    return color


def dictionary(log: EventLog, times: str) -> np.ndarray:
    """The same with dictionaries of tuples, as one would write it."""
    history = EventHistory(log, times=times)
    around: list[list[tuple[int, int]]] = [[] for _ in range(log.nodes)]
    for u, v, label in zip(history.src.tolist(), history.dst.tolist(), history.event_label.tolist(), strict=True):
        around[u].append((v, label))
        if u != v:
            around[v].append((u, label))
    color = [0] * log.nodes
    for _ in range(ROUNDS):
        names: dict[Any, int] = {}
        color = [
            names.setdefault((color[v], tuple(sorted((color[u], label) for u, label in around[v]))), len(names))
            for v in range(log.nodes)
        ]
    return np.array(color)


def best(call: Callable[[], Any], lock: int = 3) -> float:
    """Seconds of the fastest of several turns."""
    spent = []
    for _ in range(lock):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return min(spent)


def main(folder: Path) -> None:
    log = read(folder / "wikipedia.parquet")
    print(f"wikipedia: {log!r}")
    for times in ("exact", "octaves", "blind"):
        ours, plain = best(lambda t=times: forced(log, t)), best(lambda t=times: dictionary(log, t), 2)
        same = len(np.unique(forced(log, times))) == len(np.unique(dictionary(log, times)))
        ratio = f"{plain / ours:4.1f} x   same: {same}"
        print(f"  {ROUNDS} rounds, {times:<8} {ours:6.2f} s   dictionaries {plain:6.2f} s   {ratio}")
    wide = read(folder / "wikipedia.parquet", 172)
    print(f"  {ROUNDS} rounds, 172 features {best(lambda: forced(wide, 'exact')):6.2f} s")
    print(f"  temporal_wl(log, rounds={ROUNDS}) {best(lambda: temporal_wl(log, ROUNDS)):6.2f} s")

    def every_claim() -> None:
        for item in gallery().values():
            for number in range(len(item.claims)):
                item.answer(number)

    count = sum(len(item.claims) for item in gallery().values())
    print(f"gallery: {count} questions, all classes {best(every_claim):6.3f} s")

    uci = read(folder / "uci.parquet")
    start = time.perf_counter()
    made = report(uci)
    print(f"report on uci {time.perf_counter() - start:6.1f} s: {made.advice}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
