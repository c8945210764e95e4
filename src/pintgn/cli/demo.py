"""`pintgn demo`, which `make demo` runs: the product in a minute, without a download."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from pintgn.cli.common import AsJson, Bar, Grid, console, emit_json, next_steps, say


def demo(
    folder: Annotated[Path, Option("--output", "-o", help="Folder for events, runs and report.")] = Path("demo"),
    events: Annotated[int, Option(help="Number of events to simulate.")] = 12_000,
    epochs: Annotated[int, Option(help="Number of epochs.")] = 3,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate a shop, train PINT with and without positions, and show what learning and positions add."""
    from pintgn.cli.data import describe
    from pintgn.cli.training import EpochLines
    from pintgn.datasets.simulate import make_world
    from pintgn.ingest.read import read_events
    from pintgn.learn.fit import fit
    from pintgn.models.pint import PINT
    from pintgn.positions import first_use
    from pintgn.report.write import write_report

    first_use.start()
    world = make_world("shop")
    path = folder / "events.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    world.simulate(events, seed).save(path)
    log = read_events(path)
    say(f"Simulated a shop ({world.summary}): {path}")
    say(describe(log, "What is in it"))
    runs = {}
    for name, run, positions in (("PINT", "pint", 4), ("PINT without positions", "without-positions", 0)):
        if (folder / run / "result.json").exists():
            say(f"\n{name}: trained before, in {folder / run}")
        else:
            say(f"\nTraining {name}: who buys what next, against a random item")
        with EpochLines(epochs) as lines:
            model = PINT(dim=32, positions=positions)
            options: dict[str, Any] = {"seed": seed, "epochs": epochs, "learning_rate": 3e-3}
            runs[name] = fit(model, log, folder=folder / run, progress=lines, **options)
    with Bar("reading", "events") as bar:
        page = write_report(list(runs.values()), folder / "report.html", names=list(runs), progress=bar)
    results = {name: run.test["all"]["ap"] or 0.0 for name, run in runs.items()}
    first = runs["PINT"]
    results |= {f"{name}, no training": figures["all"]["ap"] or 0.0 for name, figures in first.heuristics.items()}
    results["upper bound"] = world.best_ap(log, first=len(log) - len(first.parts.test))
    if as_json:
        emit_json({"world": world.name, "events": events, "seed": seed, "test_ap": results, "report": page.path})
        return
    rows = [[name, "█" * round(20 * ap), f"{100 * ap:.2f}"] for name, ap in results.items()]
    console().print(Grid(rows, ["model", "", "AP"], "Test AP (chance is 50.00)", left=2))
    next_steps(
        f"\nReport, to open in a browser: {page.path}. Next:",
        f"pintgn recommend {shlex.quote(str(folder / 'pint'))} --src {shlex.quote(str(log.id(int(log.src[-1]))))}",
        f"pintgn report {shlex.quote(str(folder / 'pint'))} {shlex.quote(str(folder / 'without-positions'))} --open",
    )
