"""How time per event and bytes per event and node grow, a model of it, and what it says about larger logs.

    python benchmarks/growth.py --measure [--most 10000000]   # appends to results/growth.jsonl, a process for each size
    python benchmarks/growth.py --plot                        # the model, its check, and docs/img/growth.svg

Each size is a simulated log (`powerlaw.py`) and the PINT that `pintgn train` would choose for it. The stream observes
all of the log but its newest 10,000 events, then learns from these: time is that of a stream which holds a whole log.
Seconds are the processor's, one thread, because machines are shared. Bytes are what the process holds beyond what it
held before the stream was filled; the log itself takes 24 bytes an event more.

The model: bytes = b·events + c·nodes; µs per event = a + b·log10(events) + c·log10(nodes), to train on one and to
observe one of the log's second half. It is fitted on all sizes but the largest, relatively, and compared with that one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS, PICTURE = ROOT / "results" / "growth.jsonl", ROOT / "docs" / "img" / "growth.svg"
SIZES = [
    (100_000, 1_000), (100_000, 10_000), (300_000, 3_000), (1_000_000, 1_000), (300_000, 100_000),
    (1_000_000, 10_000), (1_000_000, 100_000), (3_000_000, 30_000), (3_000_000, 300_000), (10_000_000, 100_000),
    (10_000_000, 1_000_000),
]  # fmt: skip
NEWEST, PIECE = 10_000, 100_000
COLUMNS = ("stream_bytes", "observe_us", "train_us")
TITLES = {"stream_bytes": "Memory", "observe_us": "Observing", "train_us": "Training"}
NAMES = {"stream_bytes": "bytes of the stream", "observe_us": "µs to observe", "train_us": "µs to train"}


def held() -> int:
    """Bytes of memory that this process holds for itself."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def measure(events: int, nodes: int) -> dict[str, Any]:
    """One size, in this process."""
    import torch

    from benchmarks.powerlaw import power_law
    from pintgn import EventLog, Stream
    from pintgn.learn.defaults import resolved
    from pintgn.learn.settings import Settings

    torch.set_num_threads(1)

    def made(log: EventLog, backend: str = "auto") -> tuple[Stream, torch.optim.Optimizer, int]:
        chosen = resolved(Settings.of({"model": {"name": "pint"}}), log)
        model = chosen.make_model()
        model.prepare(log[: 7 * len(log) // 10])
        stream = Stream(model, log.schema, positions_backend=backend)
        return stream, torch.optim.Adam(model.parameters(), 1e-3), chosen.train.batch

    def learn(log: EventLog, stream: Stream, optimizer: torch.optim.Optimizer, batch: int) -> float:
        rng, pool = np.random.default_rng(0), np.unique(log.dst)
        begin = time.process_time()
        for part in log.batches(batch):
            yes, no = stream.replay(part, [part.query, part.query.toward(rng.choice(pool, len(part)))])
            yes, no = stream.model.answer(yes, "anyone"), stream.model.answer(no, "anyone")
            loss = torch.nn.functional.softplus(-yes).mean() + torch.nn.functional.softplus(no).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return time.process_time() - begin

    small = power_law(4_000, 300)
    for backend in ("exact", "sketch"):  # compiles
        learn(small, *made(small, backend))
    log = power_law(events, nodes)
    stream, optimizer, batch = made(log)
    before, half = held(), events // 2
    for part in log[:half].batches(PIECE):
        stream.observe(part)
    begin = time.process_time()
    for part in log[half : events - NEWEST].batches(PIECE):
        stream.observe(part)
    observing, stored = time.process_time() - begin, held() - before
    training = learn(log[events - NEWEST :], stream, optimizer, batch)
    return {
        "events": events,
        "nodes": log.nodes,
        "stream_bytes": stored,
        "observe_us": 1e6 * observing / (events - NEWEST - half),
        "train_us": 1e6 * training / NEWEST,
        "positions": type(stream.positions).__name__ if stream.positions is not None else None,
        "backend": getattr(stream.positions, "backend", None),
    }


def design(rows: list[dict[str, Any]], column: str) -> np.ndarray:
    """What the model multiplies its numbers with."""
    events, nodes = (np.array([row[name] for row in rows], float) for name in ("events", "nodes"))
    if column == "stream_bytes":
        return np.stack([events, nodes], 1)
    return np.stack([np.ones(len(rows)), np.log10(events), np.log10(nodes)], 1)


def told_by(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    """The rows that say something about a column: of observing, those whose second half has estimated positions."""
    return [row for row in rows if column != "observe_us" or (row["backend"] == "sketch" and row["events"] > 10**5)]


def fitted(rows: list[dict[str, Any]], column: str) -> np.ndarray:
    """The numbers of the model, by least squares of relative differences."""
    rows = told_by(rows, column)
    measured = np.array([row[column] for row in rows])
    return np.linalg.lstsq(design(rows, column) / measured[:, None], np.ones(len(rows)), rcond=None)[0]


def newest(path: Path = RESULTS) -> list[dict[str, Any]]:
    """The newest measurement of each size, smallest first."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(
        {(row["events"], row["nodes"]): row for row in rows}.values(), key=lambda r: (r["events"], r["nodes"])
    )


def summary(rows: list[dict[str, Any]], asked: tuple[int, int] = (10**9, 10**8)) -> dict[str, Any]:
    """The model of each column, how far it is off at the largest size, and what it says about a larger log."""
    far, found = {"events": asked[0], "nodes": asked[1]}, {}
    for column in COLUMNS:
        model = fitted(rows[:-1], column)
        predicted = float((design(rows[-1:], column) @ model)[0])
        beyond = float((design([far], column) @ fitted(rows, column))[0])
        found[column] = {"model": model.tolist(), "predicted": predicted, "measured": rows[-1][column], "far": beyond}
    return found


def picture(rows: list[dict[str, Any]]) -> str:
    """Time and bytes per event by the number of events, measured (dots) and modelled (lines, by events per node)."""
    from pintgn.drawing.plot import Axis, Plot, sheet

    charts = {}
    reach = np.geomspace(1e5, 1e9, 25)
    density = {"k0": 10, "k1": 100, "k2": 1_000}  # events a node
    for column, label in (("train_us", "µs to train on an event"), ("observe_us", "µs to observe an event"),
                          ("stream_bytes", "bytes of the stream for each event")):  # fmt: skip
        model = fitted(rows, column)

        def value(events: float, nodes: float, column: str = column, model: np.ndarray = model) -> float:
            found = float((design([{"events": events, "nodes": nodes}], column) @ model)[0])
            return found / events if column == "stream_bytes" else found

        lines = {name: [value(e, e / per) for e in reach] for name, per in density.items()}
        shown = told_by(rows, column)
        dots = [(row, row[column] / (row["events"] if column == "stream_bytes" else 1)) for row in shown]
        top = max([y for _, y in dots] + [y for line in lines.values() for y in line])
        plot = Plot(Axis(8e4, 1.2e9, "events", log=True), Axis(0, 1.1 * top, label), name=label)
        for name, line in lines.items():
            plot.line(reach.tolist(), line, name, dash=True)
        for row, y in dots:
            per = row["events"] / row["nodes"]
            name = min(density, key=lambda one, per=per: abs(np.log(density[one] / per)))
            plot.dot(row["events"], y, name, f"{row['events']:,} events, {row['nodes']:,} nodes: {y:.1f}")
        charts[TITLES[column]] = plot
    legend = [(name, "dot", f"measured, about {per:,} events a node") for name, per in density.items()]
    return sheet("How cost grows with a log", charts, [*legend, ("k0", "line dash", "model")], columns=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--most", type=int, default=10_000_000)
    parser.add_argument("--one", type=int, nargs=2, metavar=("EVENTS", "NODES"), help="one size, in this process")
    parser.add_argument("--plot", action="store_true")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
    for events, nodes in SIZES if options.measure else ():
        if events <= options.most:
            command = [sys.executable, __file__, "--one", str(events), str(nodes)]
            line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
            with open(RESULTS, "a", encoding="utf-8") as file:
                file.write(line + "\n")
            print(line, flush=True)
    if options.plot:
        rows = newest()
        for column, found in summary(rows).items():
            off = found["measured"] / found["predicted"]
            print(f"{NAMES[column]}: model {found['model']}")
            print(f"  largest size {found['measured']:,.1f}, {off:.2f} times predicted; 1e9 x 1e8: {found['far']:,.1f}")
        PICTURE.write_text(picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
