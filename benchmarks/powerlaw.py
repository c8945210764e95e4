"""A simulated log of any size: power laws of activity, and 40 % of the events repeat an earlier pair.

    python benchmarks/powerlaw.py --events 2000000 --nodes 300000 -o big.parquet

The log is made with whole columns at once and holds no more than a few of them in memory: 10 million events take
seconds, and 100 million fit in 8 GB.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pintgn import EventLog

REPEATS = 0.4
"""Share of the events that repeat an earlier pair."""
SOURCES = 0.7
"""Share of the nodes that are sources; all others are destinations."""
STEEPNESS = 5.0
"""A node of rank r is drawn in proportion to r ** (1 / STEEPNESS - 1)."""
GAP = 3
"""Mean time between two events; a few are simultaneous."""


def power_law(events: int, nodes: int, seed: int = 0) -> EventLog:
    """A log of so many events between about so many nodes, numbered in the order in which they first occur.

    >>> log = power_law(1000, 200)
    >>> len(log), log.nodes <= 200
    (1000, True)
    """
    rng = np.random.default_rng(seed)
    earlier = np.arange(events, dtype=np.int32)
    again = np.flatnonzero(rng.random(events, dtype=np.float32) < REPEATS)
    again = again[again > 0]
    earlier[again] = (rng.random(len(again)) * again).astype(np.int32)
    del again
    while True:  # a repeat of a repeat is one of the first
        further = earlier[earlier]
        if np.array_equal(further, earlier):
            break
        earlier = further
    del further
    sources = max(int(SOURCES * nodes), 1)
    columns = []
    for first, count in ((0, sources), (sources, max(nodes - sources, 1))):
        rank = (rng.random(events) ** STEEPNESS * count).astype(np.int32)
        name = rng.permutation(count).astype(np.int32) + np.int32(first)  # busy nodes are not neighbors in memory
        columns.append(name[np.minimum(rank, count - 1)][earlier])
        del rank
    del earlier
    order = np.empty(nodes + 1, np.int32)
    order[:] = 2**31 - 1
    for row, ends in enumerate(columns):
        order[ends[::-1]] = np.minimum(order[ends[::-1]], 2 * np.arange(events, dtype=np.int64)[::-1] + row)
    met = np.flatnonzero(order < 2**31 - 1)
    number = np.zeros(nodes + 1, np.int64)
    number[met[np.argsort(order[met], kind="stable")]] = np.arange(len(met))
    src = number[columns[0]]
    dst = number[columns.pop()]
    t = np.cumsum(rng.poisson(GAP, events))
    return EventLog(src, dst, t)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--nodes", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    log = power_law(options.events, options.nodes, options.seed)
    log.save(options.output)
    print(log)


if __name__ == "__main__":
    main()
