"""How long it takes to read events, and how much memory.

    python benchmarks/ingest.py            # ratio to pyarrow.csv.read_csv alone on the same file, in one run
    python benchmarks/ingest.py --memory   # peak memory against the final columns, 20 million events

Timings are the best of several turns that alternate between both sides, because machines are noisy; processor
time (all threads) is shown beside the clock, because it bears a busy machine better. Memory is
resident memory above what the process had before reading, against the bytes of the log's columns and ids; each
reading happens in a process of its own. Files are generated into a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

CHUNK = 1 << 20


def generate(folder: Path, rows: int, ids: str, formats: tuple[str, ...] = ("csv", "parquet")) -> dict[str, Path]:
    """Events with a heavy-tailed activity: int or text ids of about a million nodes, seconds, one feature."""
    rng = np.random.default_rng(0)
    names = pa.array([f"user-{k:07d}" for k in range(1 << 20)]) if ids == "text" else None
    paths = {kind: folder / f"{ids}.{kind}" for kind in formats}
    end = pa.string() if ids == "text" else pa.int64()
    schema = pa.schema([("src", end), ("dst", end), ("t", pa.int64()), ("amount", pa.float64())])
    plain = pacsv.WriteOptions(quoting_style="none" if ids == "text" else "needed")
    writers: list = []
    if "csv" in paths:
        writers.append(pacsv.CSVWriter(paths["csv"], schema, write_options=plain))
    if "parquet" in paths:
        writers.append(pq.ParquetWriter(paths["parquet"], schema))
    clock = 1_600_000_000
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        src = (rng.pareto(1.2, count) * 1000).astype(np.int64) % (1 << 19)
        dst = rng.integers(1 << 19, 1 << 20, count)
        t = clock + np.cumsum(rng.integers(0, 3, count))
        clock = int(t[-1])
        ends = [pa.array(v) if names is None else names.take(pa.array(v)) for v in (src, dst)]
        batch = pa.RecordBatch.from_arrays([*ends, pa.array(t), pa.array(rng.random(count).round(3))], schema=schema)
        for writer in writers:
            writer.write_batch(batch)
    for writer in writers:
        writer.close()
    return paths


def best_of(turns: int, *tasks: Callable[[], object]) -> list[tuple[float, float]]:
    """The best time of each task over alternating turns: by the clock, and of the processor."""
    best = [(float("inf"), float("inf"))] * len(tasks)
    for _ in range(turns):
        for index, task in enumerate(tasks):
            begin, used = time.perf_counter(), time.process_time()
            task()
            now = time.perf_counter() - begin, time.process_time() - used
            best[index] = min(best[index][0], now[0]), min(best[index][1], now[1])
    return best


def speed(rows: int, turns: int) -> None:
    from pintgn import read_events

    for warm in ([1, 2], ["a", "b"]):
        read_events({"src": warm, "dst": warm, "t": [0, 1]})  # load the native code
    print(f"{rows:,} events, 4 columns, best of {turns}")
    print(f"{'file':18} {'MB':>5} {'pyarrow s':>10} {'pintgn s':>9} {'ratio':>6} {'processor':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("int", "text"):
            for kind, path in generate(Path(folder), rows, ids).items():
                alone = partial(pacsv.read_csv if kind == "csv" else pq.read_table, path)
                theirs, ours = best_of(turns, alone, partial(read_events, path, features=["amount"]))
                ratios = f"{ours[0] / theirs[0]:6.2f} {ours[1] / theirs[1]:10.2f}"
                size = path.stat().st_size / 1e6
                print(f"{ids + ' ids, ' + kind:18} {size:5.0f} {theirs[0]:10.2f} {ours[0]:9.2f} {ratios}", flush=True)
                path.unlink()


def resident() -> int:
    """Resident memory of this process in bytes (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("memory can be measured on Linux only.")


class Peak:
    """The highest resident memory while a block runs, looked at every few milliseconds."""

    def __enter__(self) -> Peak:
        self.before = self.highest = resident()
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        return self

    def watch(self) -> None:
        while not self.done.wait(0.005):
            self.highest = max(self.highest, resident())

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.watcher.join()
        self.highest = max(self.highest, resident())


def measure(path: str, features: str, sort: str) -> None:
    """In a process of its own: read one file and print what it took."""
    from pintgn import Cleaning, read_events

    for warm in ([1, 2], ["a", "b"]):
        read_events({"src": warm, "dst": warm, "t": [1, 0]}, cleaning=Cleaning(sort=True))
    begin = time.perf_counter()
    with Peak() as peak:
        log = read_events(
            path, features=["amount"] if features == "yes" else None, cleaning=Cleaning(sort=sort == "yes")
        )
    took = time.perf_counter() - begin
    columns = (log.src, log.dst, log.t, log.features)
    final = sum(column.nbytes for column in columns if column is not None) + log.ids.decode().nbytes
    above = peak.highest - peak.before
    print(f"{final / 1e6:9.0f} {above / 1e6:9.0f} {above / final:6.2f} {took:7.1f}", flush=True)


def memory(rows: int) -> None:
    print(f"{rows:,} events; resident memory above the start while reading")
    print(f"{'file':30} {'final MB':>9} {'peak MB':>9} {'ratio':>6} {'s':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("int", "text"):
            for kind, path in generate(Path(folder), rows, ids).items():
                for features in ("no", "yes"):
                    name = f"{ids} ids, {kind}" + (", 1 feature" if features == "yes" else "")
                    print(f"{name:30}", end=" ", flush=True)
                    subprocess.run([sys.executable, __file__, "--measure", str(path), features, "no"], check=True)
                path.unlink()
        path = generate(Path(folder), rows, "int", ("parquet",))["parquet"]
        table = pq.read_table(path)
        shuffled = table.take(pa.array(np.random.default_rng(0).permutation(rows)))
        pq.write_table(shuffled, path)
        del table, shuffled
        print(f"{'int ids, parquet, to be sorted':30}", end=" ", flush=True)
        subprocess.run([sys.executable, __file__, "--measure", str(path), "yes", "yes"], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="measure memory instead of time")
    parser.add_argument("--rows", type=int, help="how many events (default: 2 million, for memory 20 million)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--measure", nargs=3, metavar=("FILE", "FEATURES", "SORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(*given.measure)
    elif given.memory:
        memory(given.rows or 20_000_000)
    else:
        speed(given.rows or 2_000_000, given.turns)
