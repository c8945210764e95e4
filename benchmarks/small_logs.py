"""Small logs: do the defaults for training waste or overfit? Test AP beside three epochs, eight, and no training.

    python benchmarks/small_logs.py [--data ../shared/data] [--events 1000 4000] [--seeds 3]

The first events of each log; of US Legis, which has a dozen times, every so many. The defaults were chosen on the
validation parts of the first five logs; the last two were only looked at.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from pintgn import EventLog, fit, read_events

LOGS = ("uci", "enron", "wikipedia", "digg_reply", "uslegis", "radoslaw_email", "bitcoin_otc")


def some_events(log: EventLog, count: int) -> EventLog:
    many_times = len(log.group_starts) > 100
    rows = slice(count) if many_times else slice(None, None, len(log) // count)
    return read_events({"src": log.src[rows], "dst": log.dst[rows], "t": log.t[rows]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--events", type=int, nargs="*", default=[1_000, 4_000])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # about parts that are cut between simultaneous events
    heads = ("defaults", "best epoch", "3 epochs", "8 epochs", "heuristic")
    print(f"{'log':<16}{'events':>7}{''.join(f'{head:>12}' for head in heads)}")
    for path in (Path(options.data) / f"{name}.parquet" for name in LOGS):
        for count in options.events:
            log, found = some_events(read_events(path), count), {}
            for epochs in (None, 3, 8):
                given = {} if epochs is None else {"epochs": epochs}
                runs = [fit("pint", log, seed=s, threads=1, progress=False, **given) for s in range(options.seeds)]
                found[epochs] = 100 * np.mean([run.test["all"]["ap"] for run in runs])
                if epochs is None:
                    chosen, trained = (np.mean([r.best_epoch for r in runs]), np.mean([len(r.history) for r in runs]))
            plain = 100 * fit("heuristic", log, progress=False).test["all"]["ap"]
            cells = (
                f"{found[None]:.2f}",
                f"{chosen:.0f} of {trained:.0f}",
                f"{found[3]:.2f}",
                f"{found[8]:.2f}",
                f"{plain:.2f}",
            )
            print(f"{path.stem:<16}{count:7,}{''.join(f'{cell:>12}' for cell in cells)}", flush=True)


if __name__ == "__main__":
    main()
