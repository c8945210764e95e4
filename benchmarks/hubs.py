"""What is known of two busy nodes: with lists of their own, and by reading through the shorter of theirs.

    python benchmarks/hubs.py [--events 2000000] [--nodes 300000] [--data FILE]

A simulated log with a few very busy nodes (`powerlaw.py`, or a file) is appended once, then asked in turns about the
pairs of its newest events, about their sources with random destinations, and about earlier pairs: `pair_history` in
processor time a pair, medians, the ratio, and how many entries reading through takes. Appending is timed both ways.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from unittest.mock import patch

import numpy as np

from benchmarks.powerlaw import power_law
from pintgn import EventLog, NeighborIndex, read_events
from pintgn.neighbors import adjacency

ASKED = 4_000
TURNS = 5
AT_ONCE = 1 << 16


def appended(log: EventLog, hub: int) -> tuple[NeighborIndex, float]:
    """An index of the log, and microseconds of processor time an event."""
    with patch.object(adjacency, "HUB", hub):
        index, begin = NeighborIndex(), time.process_time()
        for some in log.batches(AT_ONCE):
            index.append(some.src, some.dst, some.t)
        return index, 1e6 * (time.process_time() - begin) / len(log)


def microseconds(index: NeighborIndex, u: np.ndarray, v: np.ndarray, t: np.ndarray, windows: np.ndarray) -> float:
    begin = time.process_time()
    index.pair_history(u, v, t, windows=windows)
    return 1e6 * (time.process_time() - begin) / len(u)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--nodes", type=int, default=300_000)
    parser.add_argument("--data")
    options = parser.parse_args()
    log = read_events(options.data) if options.data else power_law(options.events, options.nodes)
    (plain, without), (busy, own) = appended(log, adjacency.NO_HUBS), appended(log, adjacency.HUB)
    pairs, more = busy._pairs[2][0], busy.nbytes - plain.nbytes
    print(f"{log}\n{pairs:,} pairs of nodes with {adjacency.HUB:,} entries and more have a list, {more / 1e6:.0f} MB")
    print(f"appending: {own:.2f} µs an event with these lists, {without:.2f} without")
    rng, newest = np.random.default_rng(0), log[len(log) - ASKED :]
    t, drawn = newest.t, rng.integers(0, len(log), ASKED)
    windows = np.array([(t[-1] - log.t[0]) / one for one in (5000, 500, 50, 10, 2)])
    asked = {
        "events": (newest.src, newest.dst),
        "random": (newest.src, rng.choice(np.unique(log.dst), ASKED)),
        "earlier pairs": (log.src[drawn], log.dst[drawn]),
    }
    print(f"{'µs a pair':>14} {'own list':>9} {'without':>9} {'ratio':>7} {'entries':>9}")
    for name, (u, v) in asked.items():
        spent: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(TURNS + 1):  # the first compiles
            for has, index in ((True, busy), (False, plain)):
                spent[has].append(microseconds(index, u, v, t, windows))
        one, other = (median(spent[has][1:]) for has in (True, False))
        read = np.minimum(plain.count(u, t), plain.count(v, t)).mean()
        print(f"{name:>14} {one:9.2f} {other:9.2f} {other / one:6.2f}x {read:9,.0f}")


if __name__ == "__main__":
    main()
