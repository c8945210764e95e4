"""The first day with a table of one's own: a messy CSV, a log, a run, a refit, predictions in a frame, a service.

    python examples/day_one.py            # makes its own orders.csv in a temporary folder; about two minutes

What happens here in Python is `pintgn train orders.csv … --refit`, `pintgn predict`, `pintgn recommend --all` and
`pintgn serve` on the command line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pintgn

COLUMNS = {"src": "customer", "dst": "product", "t": "ordered at", "features": ["price"]}


def messy_orders(path: Path, events: int) -> None:
    """A shop's export as they are: comments on top, decimal commas, customers and products both counted from 1, rows
    that are out of order, sent twice, without a customer, or from a clock that was not set."""
    world, rng = pintgn.simulate("shop", events=events, seed=1), np.random.default_rng(1)
    sides = [np.unique(ends, return_inverse=True)[1] + 1 for ends in (world.src, world.dst)]
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.cumsum(rng.exponential(90, events)), "s").floor("s")
    price = [f"{value:.2f}".replace(".", ",") for value in rng.gamma(2, 15, events)]
    table = pd.DataFrame({"customer": sides[0], "product": sides[1], "ordered at": when, "price": price}).astype(str)
    table = pd.concat([table, table.sample(20, random_state=1)])  # sent twice, and late
    table.iloc[rng.choice(events, 12, replace=False), 0] = ""
    table.iloc[rng.choice(events, 3, replace=False), 2] = "0000-00-00 00:00:00"
    path.write_text("# exported by the shop\n" + table.to_csv(index=False, sep=";"), encoding="utf-8")


def read(path: Path) -> pintgn.EventLog:
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        log = pintgn.read_events(
            path,
            **COLUMNS,
            bipartite=True,
            format=pintgn.FileFormat(decimal=",", assume_zone="Europe/Berlin"),
            cleaning=pintgn.Cleaning(skip_bad=True, drop_duplicates=True),
        )
    for note in notes:
        print("  note:", str(note.message).splitlines()[0])
    print(" ", log)
    return log


def ask(url: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def serve(folder: Path, customer: int) -> None:
    """Start the service, ask it, tell it what happened, ask again, and end it."""
    command = [sys.executable, "-m", "pintgn", "serve", str(folder), "--port", "0", "--json"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        assert service.stdout is not None
        url = json.loads(service.stdout.readline())["address"]
        best = ask(f"{url}/recommend/{customer}?k=3")["items"]
        shown = ", ".join(f"{one['dst']} ({one['next_probability']:.1%})" for one in best)
        print(f"  customer {customer} next, of all products: {shown}")
        order = {"src": customer, "dst": best[0]["dst"], "t": ask(f"{url}/health")["clock"], "features": [9.9]}
        print(f"  told that it was the first: {ask(f'{url}/events', {'events': [order]})}")
        health = ask(f"{url}/health")
        print(f"  health: {health['status']}, {health['events']:,} events")
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=6_000)
    parser.add_argument("--epochs", type=int, help="fewer for a quick look; decided by the log by default")
    options = parser.parse_args()
    began = time.perf_counter()

    def step(title: str) -> None:
        print(f"\n{title}  ({time.perf_counter() - began:.0f} s)", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        step("a messy CSV")
        messy_orders(folder / "orders.csv", options.events)
        print("  " + "\n  ".join((folder / "orders.csv").read_text(encoding="utf-8").splitlines()[:4]))

        step("read")
        log = read(folder / "orders.csv")

        step("trained and measured, then refitted on everything")
        given = {} if options.epochs is None else {"epochs": options.epochs}
        run = pintgn.fit("pint", log, folder=folder / "run", refit=True, progress=False, **given)
        ours, theirs = run.test["all"]["ap"], run.heuristics["heuristic"]["all"]["ap"]
        print(f"  test AP {ours:.3f}, without training {theirs:.3f}; from here on a model of all {len(log):,} events")

        step("predictions in a frame")
        live = pintgn.Live(run)
        frame = pd.DataFrame({"customer": [1, 2, 999_999], "product": [5, 5, 5]})
        print(live.predict(frame).to_string(index=False))

        step("what everybody may want next, and has not bought yet")
        wanted = live.recommend_many("all", k=3, exclude_met=True).to_pandas()
        print(wanted.head(6).to_string(index=False))
        print(f"  {len(wanted):,} rows for {wanted['customer'].nunique():,} customers")

        step("a service")
        serve(folder / "run", 1)
        step("done")


if __name__ == "__main__":
    main()
