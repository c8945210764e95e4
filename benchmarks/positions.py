"""How fast positions are kept and read, with row-wise NumPy and a bare copy of the same bytes beside them.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/positions.py [--data FOLDER] [--quick] [PART …]

Parts: exact, memory, reads, sketch (all if none is named). Times are CPU time of this process, best of the repeats, so
that other programs matter less; ratios compare lines of the same run.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numba import njit

from pintgn.positions import RelativePositions
from pintgn.positions.tables import CAP, HELD, NODES, OFF, UNIT

D = 4
NAMES = ("uci", "wikipedia", "enron")
Log = tuple[np.ndarray, np.ndarray, np.ndarray]


def load(folder: Path, name: str) -> Log:
    table = pq.read_table(folder / f"{name}.parquet", columns=["src", "dst", "t"])
    return tuple(table[column].to_numpy().copy() for column in ("src", "dst", "t"))


def timed(run: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    run()
    return time.process_time() - start


def size_of(log: Log) -> int:
    return int(max(log[0].max(), log[1].max())) + 1


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


# --- the whole stream ---------------------------------------------------------------------------------------------


def observe_all(log: Log) -> RelativePositions:
    positions = RelativePositions(D, "exact")
    positions.observe(*log)
    positions.advance(int(log[2][-1]) + 1)
    return positions


def numpy_rows(log: Log, nodes: int, d: int) -> np.ndarray:
    """Row by row in NumPy, contiguous in the node: (root, level, node). Old rows are kept for each group."""
    src, dst = log[0].tolist(), log[1].tolist()
    bounds = [0, *(np.flatnonzero(np.diff(log[2])) + 1).tolist(), len(src)]
    rows = np.zeros((nodes, d, nodes))
    rows[np.arange(nodes), 0, np.arange(nodes)] = 1.0
    for first, last in itertools.pairwise(bounds):
        old = {node: rows[node].copy() for node in {*src[first:last], *dst[first:last]}}
        for u, v in zip(src[first:last], dst[first:last], strict=True):
            rows[v, 1:] += old[u][:-1]
            if u != v:
                rows[u, 1:] += old[v][:-1]
    return rows


@njit(cache=True)
def trace(heads, levels, nodes, itemsize, one, two, ops):
    """What adding the pairs' tables touches, in 8-byte words: source place and words, target place and words."""
    n = 0
    for i in range(len(one)):
        for way in range(1 if one[i] == two[i] else 2):
            u, v = (one[i], two[i]) if way == 0 else (two[i], one[i])
            for k in range(1, levels):
                a, b = u * levels + k - 1, v * levels + k
                if heads[a, CAP] == 0:
                    continue
                sparse = heads[a, CAP] > 0
                ops[n, 0] = np.int64(heads[a, OFF]) * UNIT * itemsize // 8
                ops[n, 1] = (heads[a, CAP] * (itemsize + 4) if sparse else nodes * itemsize) // 8
                touched = heads[a, HELD] if sparse else nodes
                ops[n, 2] = np.int64(heads[b, OFF]) * UNIT * itemsize // 8
                ops[n, 3] = touched * (itemsize + (4 if heads[b, CAP] > 0 else 0)) // 8
                n += 1
    return n


@njit(cache=True)
def copy_bytes(arena, scratch, ops):
    """Read what the source holds, read and write as much of the target as it adds to."""
    for n in range(len(ops)):
        a, b = ops[n, 0], ops[n, 2]
        source, target = arena[a : a + ops[n, 1]], arena[b : b + ops[n, 3]]
        for i in range(len(source)):
            scratch[i] = source[i]
        for i in range(len(target)):
            target[i] = target[i] + 1.0


def copy_time(log: Log) -> tuple[float, float]:
    """Seconds that reading and writing the same bytes takes, contiguously and without computing; and the bytes."""
    src, dst, t = log
    positions = RelativePositions(D, "exact")
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(t)) + 1, [len(t)]))
    ops, scratch, arena = np.zeros((0, 4), np.int64), np.zeros(1 << 20), np.zeros(0)
    spent = moved = 0.0
    for first in range(0, len(bounds) - 1, 50):
        cut = slice(bounds[first], bounds[min(first + 50, len(bounds) - 1)])
        store = positions._store
        if first:
            pairs = np.unique(
                np.stack([t[cut], np.minimum(src[cut], dst[cut]), np.maximum(src[cut], dst[cut])]), axis=1
            )
            pairs = pairs[:, np.maximum(pairs[1], pairs[2]) < positions.size]
            if len(ops) < 2 * D * pairs.shape[1]:
                ops = np.zeros((2 * D * pairs.shape[1], 4), np.int64)
            if arena.nbytes < store.arena.nbytes:
                arena = np.zeros(store.arena.nbytes // 4)
            itemsize = store.arena.itemsize
            one, two = pairs[1].copy(), pairs[2].copy()
            n = trace(store.heads, D - 1, int(store.book[NODES]), itemsize, one, two, ops)
            copy_bytes(arena, scratch, ops[:0])
            start = time.process_time()
            copy_bytes(arena, scratch, ops[:n])
            spent += time.process_time() - start
            moved += float(ops[:n, 1].sum() + 2 * ops[:n, 3].sum()) * 8
        positions.observe(src[cut], dst[cut], t[cut])
    return spent, moved


def exact(logs: dict[str, Log], repeats: int, quick: bool) -> None:
    print(f"whole stream, d={D}, one core")
    print(f"{'':12}{'events':>9}{'engine':>10}{'per event':>11}{'NumPy rows':>12}{'ratio':>7}{'copy':>9}{'ratio':>7}")
    bars = {"uci": 8, "wikipedia": 4, "enron": 50}
    for name, log in logs.items():
        observe_all(tuple(column[:500] for column in log))
        engine, copy = [], []
        for _ in range(repeats):
            engine.append(timed(lambda log=log: observe_all(log)))
            copy.append(copy_time(log))
        spent, bytes_moved = min(engine), min(copy)[1]
        slow = np.nan if quick and name == "wikipedia" else timed(lambda log=log: numpy_rows(log, size_of(log), D))
        print(
            f"{name:12}{len(log[0]):>9,}{spent * 1e3:>8.1f}ms{spent / len(log[0]) * 1e6:>9.2f}us{slow:>11.2f}s"
            f"{slow / spent:>6.0f}x{min(copy)[0] * 1e3:>7.1f}ms{spent / min(copy)[0]:>6.1f}x"
            f"   bar {bars[name]}x NumPy, 3x copy; {bytes_moved / 1e9:.1f} GB"
        )


def memory(logs: dict[str, Log]) -> None:
    """Each log in a process of its own, so that memory freed before does not hide what is taken."""
    print("\nmemory of exact positions after the whole stream (resident: growth of the process, at its peak)")
    for name, log in logs.items():
        if (child := os.fork()) == 0:
            observe_all(tuple(column[:500] for column in log))
            gc.collect()
            before, peak = resident(), 0
            positions = RelativePositions(D, "exact")
            for first in range(0, len(log[0]), 5000):
                positions.observe(*(column[first : first + 5000] for column in log))
                peak = max(peak, resident())
            held, dense = positions.nbytes / 1e6, size_of(log) ** 2 * (D - 1) * 8 / 1e6
            print(
                f"{name:12}{held:>8.1f} MB, resident {(peak - before) / 1e6:.1f} MB; dense {dense:,.0f} MB", flush=True
            )
            os._exit(0)
        os.waitpid(child, 0)


# --- reads ----------------------------------------------------------------------------------------------------------


def reads(logs: dict[str, Log], repeats: int) -> None:
    print("\nreplay of batches of 200 events in mid-stream, 600 queries each, two roots, log1p")
    for name, (src, dst, t) in logs.items():
        half = len(src) // 2
        start_state = RelativePositions(D, "exact")
        start_state.observe(src[:half], dst[:half], t[:half])
        rng = np.random.default_rng(0)
        for m in (11, 221):
            batches = []
            for first in range(half, half + 2000, 200):
                cut = slice(first, first + 200)
                roots = np.tile(np.stack([src[cut], dst[cut]], 1), (3, 1))
                recent = rng.integers(max(first - 5000, 0), first, (600, m))
                nodes = np.where(rng.random((600, m)) < 0.5, src[recent], dst[recent])
                batches.append((src[cut], dst[cut], t[cut], nodes, roots, np.tile(t[cut], 3)))
            spent = []
            for _ in range(repeats):
                positions = start_state.fork()
                spent.append(timed(lambda: [positions.replay(*batch) for batch in batches]) / len(batches))  # noqa: B023
            each = min(spent)
            per_pair = each / (600 * m * 2) * 1e9
            print(f"{name:12} m={m:<4}{each * 1e3:>7.2f} ms a batch, {per_pair:>6.1f} ns per node and root")


# --- sketch ---------------------------------------------------------------------------------------------------------


def sketch(events: int, nodes: int, width: int) -> None:
    print(f"\nsketch: {events:,} events over {nodes:,} nodes, d={D}, width={width}")
    rng = np.random.default_rng(0)
    warm = RelativePositions(D, "sketch", width=width)
    warm.observe([0, 1], [1, 2], [0, 1])
    warm.advance(2)
    before = resident()
    positions = RelativePositions(D, "sketch", nodes=nodes, width=width)
    part = events // 10
    for number in range(10):
        src, dst = (rng.integers(0, nodes, part) for _ in range(2))
        src = np.minimum(src, rng.integers(0, nodes, part))  # some nodes are busier than others
        t = np.arange(number * part, (number + 1) * part)
        spent = timed(lambda: positions.observe(src, dst, t))  # noqa: B023
        print(
            f"  {(number + 1) * part:>11,} events {spent / part * 1e9:>6.0f} ns each, "
            f"{positions.nbytes / 1e9:.2f} GB, resident {(resident() - before) / 1e9:.2f} GB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="no NumPy on Wikipedia, a tenth of the sketch")
    options = parser.parse_args()
    parts = options.parts or ["exact", "memory", "reads", "sketch"]
    logs = {name: load(options.data, name) for name in NAMES if (options.data / f"{name}.parquet").exists()}
    if not logs:
        print(f"no real data in {options.data}: only the sketch runs")
    if "exact" in parts and logs:
        exact(logs, options.repeats, options.quick)
    if "memory" in parts and logs:
        memory(logs)
    if "reads" in parts and logs:
        reads(logs, options.repeats)
    if "sketch" in parts:
        events, nodes = (10**6, 10**5) if options.quick else (10**7, 10**6)
        sketch(events, nodes, 128)


if __name__ == "__main__":
    main()
