"""What it is worth to let simultaneous events see each other, which no model here can do.

    python benchmarks/ties.py [--data ../shared/data/enron.parquet] [--row pint/enron] [--seed 0] [--json]

Trains the same model twice: on the log as it is, and on one whose ties are broken by the order of its rows, as codes do
that sort by time and go on row by row. One e-mail to five people is five events of one time: in the second log each of
the five can see those before it. Both are measured by the papers' protocol, chunked AP. Without --row the model is what
`pintgn train` makes of the data, with --row one of paper/paper.toml.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from pintgn import EventLog, read_events, simulate
from pintgn.learn.fit import fit
from pintgn.learn.settings import Settings
from pintgn.learn.settings_files import read_settings

PAPER = Path(__file__).parents[1] / "paper" / "paper.toml"


def untied(log: EventLog) -> tuple[EventLog, int]:
    """The log with times that all differ, in the order of its rows, and how many of its units a unit of time is now."""
    rank = np.arange(len(log)) - np.searchsorted(log.t, log.t, "left")
    scale = int(rank.max()) + 1
    return EventLog(log.src, log.dst, log.t.astype(np.int64) * scale + rank), scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/enron.parquet")
    parser.add_argument("--row", help="of paper/paper.toml")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    log = read_events(options.data) if Path(options.data).exists() else simulate("twins", events=20_000)
    apart, scale = untied(log)
    given = read_settings(PAPER, options.row) if options.row else {"model": {"name": "pint"}}
    given["train"] = given.get("train", {}) | {"protocol": "paper"}
    counts = np.unique(log.t, return_counts=True)[1]
    shared, found = counts[counts > 1].sum() / len(log), {}
    if not options.json:
        print(f"{100 * shared:.1f} % of the events share their time with another", flush=True)
    for name, one in (("as it is", log), ("ties broken by the order of rows", apart)):
        if name != "as it is" and given["model"].get("time_unit"):
            given["model"]["time_unit"] *= scale  # β keeps its meaning
        run = fit(Settings.of(given), one, seed=options.seed)
        found[name] = {group: 100 * figures["chunked_ap"] for group, figures in run.test.items()}
        if not options.json:
            told = ", ".join(f"{group} {value:.2f}" for group, value in found[name].items())
            print(f"{name}: {told} (best of {len(run.history)} epochs: {run.best_epoch})", flush=True)
    if options.json:
        answer = {"row": options.row, "seed": options.seed, "shared_times": float(shared), "chunked_ap": found}
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
