"""How fast positions are kept and read, with row-wise NumPy and a bare copy of the same bytes beside them.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/positions.py [--data FOLDER] [--quick] [PART …]

Parts: exact, memory, reads, sketch (all if none is named). Times are CPU time of this process, best of the repeats, so
that other programs matter less; ratios compare lines of the same run.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numba import njit

from pintgn.positions import RelativePositions
from pintgn.positions.kernels_arena import CAP, EMPTY, HELD, LAST, NODES, OFF, SPREAD, UNIT, keys_of, unscramble
from pintgn.positions.kernels_tables import find

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
def trace(heads, slots, book, levels, one, two, ops, places):
    """What adding the pairs' tables touches: source place and counts (and keys), target place, and which counts of it.

    places lists, addition after addition, the target's counts that the source's add to; dense to dense is all of them.
    """
    n = used = 0
    for i in range(len(one)):
        for way in range(1 if one[i] == two[i] else 2):
            u, v = (one[i], two[i]) if way == 0 else (two[i], one[i])
            for k in range(1, levels):
                a, b = u * levels + k - 1, v * levels + k
                a_cap, b_cap = np.int64(heads[a, CAP]), np.int64(heads[b, CAP])
                if a_cap == 0:
                    continue
                start, target = np.int64(heads[a, OFF]) * UNIT, np.int64(heads[b, OFF]) * UNIT
                length = a_cap if a_cap > 0 else heads[a, LAST] + 1
                ops[n, 0], ops[n, 1], ops[n, 2], ops[n, 3] = start, length, target, used
                if a_cap > 0:
                    first = keys_of(book, np.uint64(start), a_cap)
                    begin = keys_of(book, np.uint64(target), max(b_cap, 0))
                    for j in range(np.uint64(a_cap)):
                        key = slots[first + j]
                        if key != EMPTY:
                            place = unscramble(key)
                            if b_cap >= 0:  # a node that is new to the target: somewhere in it, too
                                home = (np.uint64(key) * np.uint64(heads[b, SPREAD])) >> np.uint64(32)
                                place = find(slots, begin + home, key) - begin if b_cap > 0 else np.uint64(used)
                            places[used] = min(np.int64(place), max(abs(b_cap), heads[a, HELD]) - 1)
                            used += 1
                ops[n, 4] = used
                n += 1
    return n


@njit(cache=True)
def copy_stretches(counts, scratch, ops):
    """Read the source; read and write as many counts of the target as it adds to, all of it in stretches."""
    for n in range(len(ops)):
        start, length, target, touched = ops[n, 0], ops[n, 1], ops[n, 2], ops[n, 4] - ops[n, 3]
        source = counts[start : start + length * (2 if touched else 1)]  # a sparse table has keys after its counts
        for i in range(len(source)):
            scratch[i] = source[i]
        into = counts[target : target + (2 * touched if touched else length)]
        for i in range(len(into)):
            into[i] += 1


@njit(cache=True)
def copy_in_place(counts, scratch, ops, places):
    """Read the source; read and write the very counts of the target that it adds to."""
    for n in range(len(ops)):
        start, length, target = ops[n, 0], ops[n, 1], ops[n, 2]
        if ops[n, 4] == ops[n, 3]:
            source, into = counts[start : start + length], counts[target : target + length]
            for i in range(length):
                into[i] += source[i]
            continue
        source = counts[start : start + 2 * length]
        for i in range(len(source)):
            scratch[i] = source[i]
        into = counts[target:]
        for i in range(ops[n, 3], ops[n, 4]):
            into[places[i]] += 1


def copy_time(log: Log, in_place: bool) -> tuple[float, int]:
    """Seconds that reading and writing the same bytes takes, in stretches or in their places; and the bytes.

    Nothing is looked for, compared or inserted: places are listed beforehand, 50 groups at a time, and not timed.
    """
    src, dst, t = log
    positions = RelativePositions(D, "exact")
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(t)) + 1, [len(t)]))
    scratch, places = np.zeros(1 << 20, np.uint32), np.zeros(1 << 24, np.int32)
    counts = np.zeros(0, np.uint32)
    spent, moved = 0.0, 0
    for first in range(0, len(bounds) - 1, 50):
        cut = slice(bounds[first], bounds[min(first + 50, len(bounds) - 1)])
        store = positions._store
        if first:
            pairs = np.unique(
                np.stack([t[cut], np.minimum(src[cut], dst[cut]), np.maximum(src[cut], dst[cut])]), axis=1
            )
            pairs = pairs[:, pairs[2] < store.book[NODES]]
            ops = np.zeros((2 * D * pairs.shape[1], 5), np.int64)
            if len(counts) < len(store.arena) or counts.dtype != store.arena.dtype:
                counts = np.zeros(2 * len(store.arena), store.arena.dtype)
                scratch = scratch.astype(counts.dtype)
            one, two = pairs[1].copy(), pairs[2].copy()
            n = trace(store.heads, store.arena.view(np.uint32), store.book, D - 1, one, two, ops, places)
            start = time.process_time()
            if in_place:
                copy_in_place(counts, scratch, ops[:n], places)
            else:
                copy_stretches(counts, scratch, ops[:n])
            spent += time.process_time() - start
            touched = ops[:n, 4] - ops[:n, 3]
            sparse = touched > 0
            words = np.where(sparse, 2 * ops[:n, 1] + 4 * touched, 3 * ops[:n, 1])
            moved += int(words.sum()) * counts.itemsize
        positions.observe(src[cut], dst[cut], t[cut])
    return spent, moved


def exact(logs: dict[str, Log], repeats: int, quick: bool) -> None:
    print(f"whole stream, d={D}, one core; copies of the same bytes: in stretches, and in the very places")
    print(f"{'':10}{'events':>9}{'engine':>10}{'an event':>10}{'NumPy rows':>18}{'stretches':>18}{'places':>18}")
    for name, log in logs.items():
        observe_all(tuple(column[:500] for column in log))
        engine, stretches, places = [], [], []
        for _ in range(repeats):
            engine.append(timed(lambda log=log: observe_all(log)))
            stretches.append(copy_time(log, in_place=False))
            places.append(copy_time(log, in_place=True))
        spent, moved = min(engine), places[0][1] / 1e9
        stretch, place = min(stretches)[0], min(places)[0]
        slow = np.nan if quick and name == "wikipedia" else timed(lambda log=log: numpy_rows(log, size_of(log), D))
        print(
            f"{name:10}{len(log[0]):>9,}{spent * 1e3:>8.1f}ms{spent / len(log[0]) * 1e6:>8.2f}us"
            f"{slow:>11.2f}s{slow / spent:>5.0f}x{stretch * 1e3:>9.1f}ms{spent / stretch:>6.1f}x"
            f"{place * 1e3:>9.1f}ms{spent / place:>6.1f}x{moved:>7.1f} GB"
        )


def memory(folder: Path, logs: dict[str, Log]) -> None:
    """Each log in a process of its own, so that memory freed before does not hide what is taken."""
    print(
        "\nmemory of exact positions after the whole stream (resident: growth of the process, at its peak)", flush=True
    )
    for name in logs:
        subprocess.run([sys.executable, __file__, "--data", str(folder), "--measure", name], check=True)


def measure(name: str, log: Log) -> None:
    observe_all(tuple(column[:500] for column in log))
    gc.collect()
    before, peak = resident(), 0
    positions = RelativePositions(D, "exact")
    for first in range(0, len(log[0]), 5000):
        positions.observe(*(column[first : first + 5000] for column in log))
        peak = max(peak, resident())
    held, dense = positions.nbytes / 1e6, size_of(log) ** 2 * (D - 1) * 8 / 1e6
    print(f"{name:12}{held:>8.1f} MB, resident {(peak - before) / 1e6:.1f} MB; dense {dense:,.0f} MB")


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
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure, load(options.data, options.measure))
    parts = options.parts or ["exact", "memory", "reads", "sketch"]
    logs = {name: load(options.data, name) for name in NAMES if (options.data / f"{name}.parquet").exists()}
    if not logs:
        print(f"no real data in {options.data}: only the sketch runs")
    if "exact" in parts and logs:
        exact(logs, options.repeats, options.quick)
    if "memory" in parts and logs:
        memory(options.data, logs)
    if "reads" in parts and logs:
        reads(logs, options.repeats)
    if "sketch" in parts:
        events, nodes = (10**6, 10**5) if options.quick else (10**7, 10**6)
        sketch(events, nodes, 128)


if __name__ == "__main__":
    main()
