"""What a relation costs in ranking: pairs per second of processor time with 250 relations, beside none, in turns.

    python -m benchmarks.relations [EVENTS]

Every destination is ranked for each source; the two models differ in nothing but the relation.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import pintgn
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.models.base import eval_mode

RELATIONS, ROUNDS, SOURCES = 250, 5, 50


def main(events: int = 20_000) -> None:
    rng = np.random.default_rng(0)
    src, kind = rng.integers(0, 1_000, events), rng.integers(0, RELATIONS, events)
    table = {"src": src, "dst": (src * 7 + kind * 13) % 1_000, "t": np.arange(events), "type": kind}
    streams, asked, spent = {}, {}, {}
    for name, task in (("none", {}), (f"{RELATIONS} relations", {"relation": "type"})):
        log = pintgn.read_events(table, features=["type"] if task else None)
        chosen = Settings.of({"model": {"name": "pint", "dim": 64, "pair_history": True}, "task": task})
        run = Run(chosen, 0, log, chosen.make_model())
        streams[name] = run.new_stream()
        streams[name].observe(run.parts.before(run.parts.test))
        asked[name], spent[name] = run.parts.test[:SOURCES].query, float("inf")
    among = np.broadcast_to(np.arange(1_000), (SOURCES, 1_000))
    for _ in range(ROUNDS):  # in turns, so that whatever else the machine does hits both alike
        for name, stream in streams.items():
            with eval_mode(stream.model):
                started = time.process_time()
                stream.rank(None, asked[name], among)
                spent[name] = min(spent[name], time.process_time() - started)
    base = next(iter(spent.values()))
    for name, seconds in spent.items():
        print(f"{name:>14}  {among.size / seconds:>10,.0f} pairs/s  {base / seconds:5.2f} of none")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
