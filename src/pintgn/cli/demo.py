"""`pintgn demo`, which `make demo` runs: the product in a minute, without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from pintgn.cli.common import AsJson, Grid, console, emit_json, next_steps, say


def demo(
    folder: Annotated[Path, Option("--output", "-o", help="Folder for events, runs and report.")] = Path("demo"),
    events: Annotated[int, Option(help="How many events to simulate.")] = 12_000,
    epochs: Annotated[int, Option(help="Passes over the training part.")] = 3,
    seed: Annotated[int, Option(help="The same seed gives the same demo.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate a shop, train PINT with and without positions, and see what learning and positions are worth."""
    from pintgn.cli.data import describe
    from pintgn.cli.report import saying
    from pintgn.cli.train import EpochLines
    from pintgn.events.ingest import read_events
    from pintgn.events.simulate import make_world
    from pintgn.learn.train import fit
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
    for name, place, positions in (("PINT", "pint", 4), ("PINT without positions", "without-positions", 0)):
        if (folder / place / "result.json").exists():
            say(f"\n{name}: trained before, kept in {folder / place}")
        else:
            say(f"\nTraining {name}: who buys what next, against a random item")
        with EpochLines(epochs) as lines:
            model = PINT(dim=32, positions=positions)
            options: dict[str, Any] = {"seed": seed, "epochs": epochs, "learning_rate": 3e-3}
            runs[name] = fit(model, log, folder=folder / place, progress=lines, **options)
    with saying() as progress:
        page = write_report(list(runs.values()), folder / "report.html", names=list(runs), progress=progress)
    results = {name: run.test["all"]["ap"] or 0.0 for name, run in runs.items()}
    first = runs["PINT"]
    results |= {f"{name}, no training": figures["all"]["ap"] or 0.0 for name, figures in first.heuristics.items()}
    results["upper bound"] = world.best_ap(log, first=len(log) - len(first.parts.test))
    if as_json:
        emit_json({"world": world.name, "events": events, "seed": seed, "test_ap": results, "report": page.path})
        return
    console().print(result_table(results))
    next_steps(
        f"\nThe whole story, to open in a browser: {page.path}. Next:",
        f"pintgn recommend {folder / 'pint'} --src user17",
        f"pintgn report {folder / 'pint'} {folder / 'without-positions'} --open",
    )


def result_table(results: dict[str, float]) -> Grid:
    """Test AP of each row, beside a bar."""
    rows = [[name, "█" * round(20 * ap), f"{100 * ap:.2f}"] for name, ap in results.items()]
    return Grid(rows, ["model", "", "AP"], "Test AP (chance is 50.00)", left=2)
