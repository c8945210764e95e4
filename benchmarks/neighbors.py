"""How fast the neighbor index appends and answers, with a Python loop and a bare copy beside it.

    NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/neighbors.py [--data FOLDER] [--repeats 5] [--quick]

Everything runs on one core unless a line says otherwise. Times are the best of the repeats; ratios compare lines
of the same run. Queries are real ones: both ends of every event, as of the event's own time, asked while the
stream is replayed, after the whole batch has been appended (the path of training).
"""

from __future__ import annotations

import argparse
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numba import njit

from pintgn.neighbors import NeighborIndex, Neighbors, causal_walks, query_keys

K = 20
BATCH = 1000
CAW = {"wikipedia": (4e-6, 4), "enron": (1e-6, 5)}  # time bias and length, the paper's appendix


def best(repeats: int, run: Callable[[], float]) -> float:
    """The shortest of several runs that time themselves; one run before, to load the kernels."""
    run()
    return min(run() for _ in range(repeats))


class Stream:
    """A log and the queries it asks of itself."""

    def __init__(self, path: Path) -> None:
        table = pq.read_table(path)
        self.src, self.dst, self.t = (table[name].to_numpy().copy() for name in ("src", "dst", "t"))
        self.ends = np.stack([self.src, self.dst], 1)  # (e, 2)
        self.when = np.stack([self.t, self.t], 1)
        # The number of the first event of each event's group of simultaneous ones.
        self.group = np.searchsorted(self.t, self.t)
        self.gate = np.stack([self.group, self.group], 1)

    def __len__(self) -> int:
        return len(self.t)

    def parts(self, size: int) -> list[slice]:
        return [slice(a, a + size) for a in range(0, len(self) - size + 1, size)]

    def index(self) -> NeighborIndex:
        index = NeighborIndex()
        index.append(self.src, self.dst, self.t)
        return index


# --- append --------------------------------------------------------------------------------------------------


def append(stream: Stream, size: int, most: int | None = None) -> float:
    parts = stream.parts(size)[:most]
    index = NeighborIndex()
    start = time.perf_counter()
    for part in parts:
        index.append(stream.src[part], stream.dst[part], stream.t[part])
    return (time.perf_counter() - start) / (len(parts) * size)


# --- most recent k, mid-stream ------------------------------------------------------------------------------------


def midstream(stream: Stream, size: int) -> float:
    index = NeighborIndex()
    spent = 0.0
    for part in stream.parts(size):
        index.append(stream.src[part], stream.dst[part], stream.t[part])
        start = time.perf_counter()
        index.recent(stream.ends[part], stream.when[part], K, before=stream.gate[part])
        spent += time.perf_counter() - start
    return spent / (len(stream.parts(size)) * size * 2)


def answer(queries: int) -> Neighbors:
    return Neighbors(*(np.zeros((queries, K), kind) for kind in (np.int64, np.int64, np.int64, np.int64, np.bool_)))


def python_loop(stream: Stream, size: int, *, fill: bool) -> float:
    """Per-node lists, bisect, and slices: into the same arrays (fill), or left as lists."""
    nodes = int(stream.ends.max()) + 1
    ids: list[list[int]] = [[] for _ in range(nodes)]
    times: list[list[int]] = [[] for _ in range(nodes)]
    numbers: list[list[int]] = [[] for _ in range(nodes)]
    out = answer(size * 2)
    spent = 0.0
    for part in stream.parts(size):
        for i in range(part.start, part.stop):
            u, v, now = int(stream.src[i]), int(stream.dst[i]), int(stream.t[i])
            for a, b in ((u, v), (v, u)) if u != v else ((u, v),):
                ids[a].append(b)
                times[a].append(now)
                numbers[a].append(i)
        asked, when = stream.ends[part].ravel().tolist(), stream.when[part].ravel().tolist()
        start = time.perf_counter()
        if fill:
            for array in out:
                array[...] = 0
        for q, (node, now) in enumerate(zip(asked, when, strict=True)):
            stop = bisect_left(times[node], now)
            first = max(0, stop - K)
            found = ids[node][first:stop][::-1], times[node][first:stop][::-1], numbers[node][first:stop][::-1]
            if fill and stop:
                count = stop - first
                out.ids[q, :count] = found[0]
                out.t[q, :count] = found[1]
                out.dt[q, :count] = now - out.t[q, :count]
                out.events[q, :count] = found[2]
                out.mask[q, :count] = True
        spent += time.perf_counter() - start
    return spent / (len(stream.parts(size)) * size * 2)


@njit(nogil=True)
def copy_rows(ids, times, numbers, counts, begin, out_ids, out_t, out_dt, out_numbers, out_mask):
    """Read and write the bytes of an answer whose places are known and lie one after another."""
    p = np.uint64(begin)
    width = np.uint64(out_ids.shape[1])
    for q in range(counts.shape[0]):
        count = np.uint64(counts[q])
        row_ids, row_t, row_dt, row_numbers, row_mask = out_ids[q], out_t[q], out_dt[q], out_numbers[q], out_mask[q]
        for j in range(count):
            row_ids[j] = ids[p + j]
        for j in range(count):
            row_t[j] = times[p + j]
        for j in range(count):
            row_dt[j] = times[p + j]
        for j in range(count):
            row_numbers[j] = numbers[p + j]
        for j in range(count):
            row_mask[j] = True
        for j in range(count, width):
            row_ids[j] = 0
        for j in range(count, width):
            row_t[j] = 0
        for j in range(count, width):
            row_dt[j] = 0
        for j in range(count, width):
            row_numbers[j] = 0
        for j in range(count, width):
            row_mask[j] = False
        p += count


def bare_copy(stream: Stream, size: int) -> tuple[float, float]:
    """(seconds per query for the same bytes without any search, bytes per query)."""
    counts = np.minimum(stream.index().count(stream.ends, stream.when), K)
    room = 2 * size * K
    ids, times, numbers = np.ones(room, np.int32), np.ones(room, np.int64), np.ones(room, np.int64)
    out = answer(2 * size)
    parts = stream.parts(size)
    start = time.perf_counter()
    for part in parts:
        copy_rows(ids, times, numbers, counts[part].ravel(), 0, *out)
    spent = time.perf_counter() - start
    read = float(counts.mean()) * 20 + 16 + 8 + 8 + 8  # entries, head of the node, and the query itself
    return spent / (len(parts) * size * 2), read + K * (8 * 4 + 1)


# --- other questions ---------------------------------------------------------------------------------------------


def timed(queries: int, ask: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        ask()
        return (time.perf_counter() - start) / queries

    return run


def acquaintance_tables(stream: Stream) -> float:
    """The same six counts and times from dictionaries, in one replay of the log: seconds per query."""
    known: dict[tuple[str, int, int], tuple[int, int]] = {}
    starts = np.unique(stream.group).tolist()
    src, dst, t = stream.src.tolist(), stream.dst.tolist(), stream.t.tolist()
    begin = time.perf_counter()
    for first, stop in zip(starts, [*starts[1:], len(stream)], strict=True):
        now, found = t[first], []
        for u, v in zip(src[first:stop], dst[first:stop], strict=True):
            asked = (("p", u, v), ("p", v, u), ("o", u, 0), ("i", u, 0), ("o", v, 0), ("i", v, 0))
            for key in asked:
                count, last = known.get(key, (0, now))
                found.append((count, now - last))
        for u, v in zip(src[first:stop], dst[first:stop], strict=True):
            for key in (("p", u, v), ("o", u, 0), ("i", v, 0)):
                known[key] = known.get(key, (0, 0))[0] + 1, now
    return (time.perf_counter() - begin) / len(stream)


def recent_lists(stream: Stream, most: int, k: int = 32) -> float:
    """What the newest contacts of two nodes say of them, from lists that grow with the log: seconds per query."""
    newest: dict[int, deque[tuple[int, int]]] = defaultdict(lambda: deque(maxlen=k))
    spent = 0.0
    events = zip(stream.src[:most].tolist(), stream.dst[:most].tolist(), stream.t[:most].tolist(), strict=True)
    for u, v, now in events:
        begin = time.perf_counter()
        ours, theirs = newest[u], newest[v]
        known = dict(theirs)
        for one, other in ((ours, v), (theirs, u)):
            nodes = [node for node, _ in one]
            _ = nodes.index(other) if other in nodes else -1, len(set(nodes)), len(nodes)
        shared = [(t, known[node]) for node, t in ours if node in known]
        _ = len(shared), *(sum(1 / (1 + (now - pair[side]) / 1e4) for pair in shared) for side in range(2))
        spent += time.perf_counter() - begin
        ours.appendleft((v, now))
        theirs.appendleft((u, now))
    return spent / most


def numpy_walks(stream: Stream, queries: np.ndarray, walks: int, length: int, bias: float) -> float:
    """Walks by definition, weights over the whole past of a node: seconds per walk."""
    index = stream.index()
    degree = int(index.count(np.arange(index.nodes), index.clock + 1).max())
    every = index.recent(np.arange(index.nodes), index.clock + 1, degree)
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for event in queries:
        for _ in range(walks):
            node, now = int(stream.src[event]), int(stream.t[event])
            for _ in range(length):
                times = every.t[node][every.mask[node]]
                places = np.flatnonzero(times < now)
                if not len(places):
                    break
                weights = np.exp(bias * (times[places] - times[places[0]]))
                place = rng.choice(places, p=weights / weights.sum())
                node, now = int(every.ids[node, place]), int(times[place])
    return (time.perf_counter() - start) / (len(queries) * walks)


def biased_step(degree: int, bias: float, repeats: int) -> float:
    """Seconds for one biased step from a node of this degree."""
    index = NeighborIndex()
    index.append(np.zeros(degree, int), np.ones(degree, int), np.arange(degree))
    asked, keys = np.zeros(2000, int), query_keys(0, np.arange(2000))
    ask = partial(causal_walks, index, asked, degree, walks=1, length=1, bias=bias / degree, keys=keys)
    return best(repeats, timed(2000, ask))


def growth(events: int, nodes: int) -> None:
    """Append a long simulated stream and time each million."""
    rng = np.random.default_rng(0)
    index = NeighborIndex()
    cells = []
    for start in range(0, events, 1_000_000):
        src = (nodes * rng.random(1_000_000) ** 3).astype(np.int64)  # few nodes are very active
        dst = rng.integers(0, nodes, 1_000_000)
        t = np.arange(start, start + 1_000_000)
        begin = time.perf_counter()
        for a in range(0, 1_000_000, BATCH):
            index.append(src[a : a + BATCH], dst[a : a + BATCH], t[a : a + BATCH])
        cells.append(1 / (time.perf_counter() - begin))
    cells_told = " ".join(f"{cell:.1f}" for cell in cells)
    print(f"  simulated, {nodes:,} nodes, per million events: {cells_told} M events/s")
    print(f"  {index}; {index.nbytes / 1e6:.0f} MB, {index.nbytes / index.size:.0f} bytes per entry")
    asked = rng.integers(0, nodes, 200_000)
    spent = best(3, timed(200_000, lambda: index.recent(asked, index.clock + 1, K)))
    print(f"  most recent {K} of random nodes there (memory far beyond the caches): {1e-6 / spent:.1f} M queries/s")


def report(name: str, stream: Stream, repeats: int) -> None:
    index = stream.index()
    print(f"{name}: {index}; {index.nbytes / index.size:.0f} bytes per entry")
    for told, size, most in (
        ("all at once", len(stream), None),
        ("by 1000", 1000, None),
        ("by 200", 200, None),
        ("by 1", 1, 20_000),
    ):
        print(f"  append {told}: {1e-6 / best(repeats, partial(append, stream, size, most)):.2f} M events/s")

    fast = slow = lists = copy = np.inf
    for _ in range(repeats):  # in turn, so that a busy machine slows all of them
        fast = min(fast, midstream(stream, BATCH, reuse=True))
        slow = min(slow, python_loop(stream, BATCH, fill=True))
        fast = min(fast, midstream(stream, BATCH, reuse=True))
        lists = min(lists, python_loop(stream, BATCH, fill=False))
        seconds, width = bare_copy(stream, BATCH)
        copy = min(copy, seconds)
    print(f"  most recent {K}, mid-stream, batches of {BATCH} events:")
    print(f"    index:            {1e-6 / fast:.2f} M queries/s")
    print(f"    Python + bisect:  {1e-6 / slow:.3f} M queries/s -> index is {slow / fast:.0f}x")
    print(f"    … lists only:     {1e-6 / lists:.3f} M queries/s -> index is {lists / fast:.0f}x")
    print(f"    bare copy:        {1e-6 / copy:.2f} M queries/s -> index takes {fast / copy:.1f}x its time")
    print(f"    {width:.0f} bytes per query: {width / fast / 1e9:.1f} GB/s, the copy {width / copy / 1e9:.1f} GB/s")
    for size in (200, 5000):
        spent = best(repeats, partial(midstream, stream, size))
        print(f"    batches of {size}: {1e-6 / spent:.2f} M queries/s")

    ends, when, gate = stream.ends, stream.when, stream.gate
    keys = query_keys(0, np.arange(len(stream))[:, None], [0, 1])
    recent = partial(index.recent, ends, when, K, before=gate)
    questions: dict[str, tuple[int, Callable[[], object]]] = {
        "recent": (ends.size, recent),
        "uniform": (ends.size, partial(index.uniform, ends, when, K, keys, before=gate)),
        "count": (ends.size, partial(index.count, ends, when, before=gate)),
        "last": (len(stream), partial(index.last, stream.src, stream.dst, stream.t, before=stream.group)),
        "count_pair": (len(stream), partial(index.count_pair, stream.src, stream.dst, stream.t)),
        "recent_contacts": (
            len(stream),
            partial(index.recent_contacts, stream.src, stream.dst, stream.t, 32, 1e4, before=stream.group),
        ),
        "pair_history within 5 windows": (
            len(stream),
            partial(index.pair_history, stream.src, stream.dst, stream.t, windows=[10**k for k in range(2, 7)]),
        ),
        "pair_history": (len(stream), partial(index.pair_history, stream.src, stream.dst, stream.t)),
    }
    took = {}
    print("  the whole log held, every query as of its own time:")
    for told, (number, ask) in questions.items():
        spent = best(repeats, timed(number, ask))
        took[told] = spent
        print(f"    {told}: {1e-6 / spent:.2f} M queries/s")
    lists = min(recent_lists(stream, 20_000) for _ in range(repeats))
    print(f"    Python lists of the 32 newest: {1e-6 / lists:.2f} -> index is {lists / took['recent_contacts']:.0f}x")
    tables = min(acquaintance_tables(stream) for _ in range(repeats))
    print(f"    Python dictionaries that replay the log for it: {1e-6 / tables:.2f} -> index is {tables / spent:.1f}x")

    bias, length = CAW[name]
    some = slice(0, None, 50)
    walks = partial(causal_walks, index, ends[some], when[some], walks=64, length=length, bias=bias, keys=keys[some])
    number = ends[some].size * 64
    steps = walks().mask[..., 1:].sum() / number
    one = best(repeats, timed(number, walks))
    naive = numpy_walks(stream, np.arange(0, len(stream), len(stream) // 40), 8, length, bias)
    print(f"  64 walks of {length} steps, bias {bias}: {1e-6 / one:.2f} M walks/s, {1e-6 * steps / one:.2f} M steps/s")
    print(f"    NumPy over each node's whole past: {naive * 1e6:.0f} µs per walk -> index is {naive / one:.0f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="leave out the ten million simulated events")
    arguments = parser.parse_args()
    for name in CAW:
        report(name, Stream(arguments.data / f"{name}.parquet"), arguments.repeats)
    steps = (
        f"{biased_step(d, 20.0, arguments.repeats) * 1e9:.0f} ns at degree {d:,}" for d in (100, 10_000, 1_000_000)
    )
    print(f"one biased step: {', '.join(steps)}")
    if not arguments.quick:
        growth(10_000_000, 1_000_000)


if __name__ == "__main__":
    main()
