"""`pintgn train` from the shell to its result: wall time and test AP, beside the paper's figure and a literal version.

The literal version computes Eqs. 5-6 as they are written (`InjectiveLayer.fused = False`), everything else being the
same; the two take turns. Real data is read from ../shared/data.

With `--published`: the shortest training (1, 2, 4, 8, … epochs) whose test AP reaches the best published figure, and
how long the command takes, from the shell to the result.

    python benchmarks/time_to_accuracy.py [--published] [uci enron wikipedia]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = Path(__file__).parents[2] / "shared" / "data"
PAPER = {"uci": 96.01, "enron": 88.71, "wikipedia": 98.78}
PUBLISHED = {"uci": 97.35, "enron": 93.22, "wikipedia": 99.32}
"""The best published AP, averaged over chunks of 200: TPNet, DyG-Mamba, TPNet (theirs with edge features)."""
LITERAL = (
    "from pintgn.models.layers import InjectiveLayer; InjectiveLayer.fused = False; from pintgn.cli import main; main()"
)


def train(path: Path, folder: str, *options: str, literal: bool = False) -> tuple[float, dict]:
    """Wall time of the command, and what it says."""
    how = ["-c", LITERAL] if literal else ["-m", "pintgn"]
    command = [sys.executable, *how, "train", str(path), "-o", folder, "--json", *options]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - started, json.loads(done.stdout)


def row(name: str, path: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        train(path, f"{folder}/warm")  # compiles what is not compiled yet
        wall, ours = train(path, f"{folder}/fused")
        longer, literal = train(path, f"{folder}/literal", literal=True)
    test = ours["test"]["all"]
    epoch, slower = (sorted(e["seconds"] for e in run["history"])[len(run["history"]) // 2] for run in (ours, literal))
    return (
        f"{name:<10} {wall:>6.1f}s {len(ours['history']):>7} {100 * test['ap']:>8.2f} {100 * test['chunked_ap']:>8.2f} "
        f"{PAPER.get(name, float('nan')):>7.2f} {longer:>8.1f}s {longer / wall:>6.1f}x {epoch:>7.2f}s {slower:>7.2f}s "
        f"{slower / epoch:>6.1f}x"
    )


def reach(name: str, path: Path) -> str:
    """The shortest training that reaches the best published figure."""
    for epochs in (1, 2, 4, 8, 16, 32):
        with tempfile.TemporaryDirectory() as folder:
            wall, told = train(path, f"{folder}/run", "--epochs", str(epochs))
        found = 100 * told["test"]["all"]["chunked_ap"]
        if found >= PUBLISHED[name]:
            return f"{name:<10} {PUBLISHED[name]:>9.2f} {found:>8.2f} {epochs:>7} {wall:>6.1f}s"
    return f"{name:<10} {PUBLISHED[name]:>9.2f} {found:>8.2f} {epochs:>7}  not reached"


def main(names: list[str]) -> None:
    if "--published" in names:
        print(f"{'data':<10} {'published':>9} {'chunked':>8} {'epochs':>7} {'wall':>7}")
        for name in [name for name in names if name != "--published"] or list(PUBLISHED):
            path = DATA / f"{name}.parquet"
            print(reach(name, path) if path.exists() else f"{name:<10} is not here: {path}", flush=True)
        return
    heads = ("data", "wall", "epochs", "test AP", "chunked", "paper", "literal", "ratio", "epoch", "literal", "ratio")
    print("{:<10} {:>7} {:>7} {:>8} {:>8} {:>7} {:>9} {:>7} {:>8} {:>8} {:>7}".format(*heads))
    for name in names:
        path = DATA / f"{name}.parquet"
        print(row(name, path) if path.exists() else f"{name:<10} is not here: {path}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["uci", "enron"])
