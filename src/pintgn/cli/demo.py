"""`pintgn demo`, which `make demo` runs: the product in a minute, without a download."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from pintgn.cli.common import AsJson, Grid, console, emit_json


def demo(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for events and report.")] = Path("demo"),
    events: Annotated[int, typer.Option(help="How many events to simulate.")] = 12_000,
    epochs: Annotated[int, typer.Option(help="Passes over the training part.")] = 3,
    seed: Annotated[int, typer.Option(help="The same seed gives the same demo.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate twin communities, train PINT with and without positions, and see the difference they make."""
    from pintgn.cli.data import describe
    from pintgn.cli.report import saying
    from pintgn.cli.train import EpochLines
    from pintgn.events.ingest import read_events
    from pintgn.events.simulate import make_world
    from pintgn.learn.train import fit
    from pintgn.models.pint import PINT
    from pintgn.report.write import write_report

    say = console(stderr=True).print
    world = make_world("twins")
    path = folder / "events.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    world.simulate(events, seed).save(path)
    log = read_events(path)
    say(f"Simulated twin communities ({world.summary}): {path}")
    say(describe(log, "What is in it"))

    def same_role_elsewhere(part: Any, rng: Any) -> Any:
        return part.query.toward(world.negatives(part, int(rng.integers(2**31))))

    results, runs = {}, {}
    for name, model in (("PINT", PINT(dim=32)), ("PINT without positions", PINT(dim=32, positions=0))):
        say(f"\nTraining {name}: who is met, against the same role in another community")
        with EpochLines(epochs) as lines:
            fitted = fit(
                model,
                log,
                seed=seed,
                epochs=epochs,
                hidden=0,
                learning_rate=3e-3,
                negatives=same_role_elsewhere,
                progress=lines,
            )
        results[name], runs[name] = fitted.test["all"]["ap"] or 0.0, fitted
    with saying() as progress:
        written = write_report(
            list(runs.values()),
            folder / "report.html",
            names=list(runs),
            negatives={"same role elsewhere": same_role_elsewhere},
            commands=[f"pintgn demo --events {events} --epochs {epochs} --seed {seed} -o {shlex.quote(str(folder))}"],
            progress=progress,
        )
    results["best possible"] = world.best_ap(log, first=len(log) - len(fitted.parts.test))
    if as_json:
        emit_json({"world": "twins", "events": events, "seed": seed, "test_ap": results, "report": written.path})
    else:
        console().print(result_table(results))
        say(f"The whole story, to open in a browser: {written.path}", markup=False)


def result_table(results: dict[str, float]) -> Grid:
    """Test AP of each row, beside a bar."""
    rows = [[name, "█" * round(20 * ap), f"{100 * ap:.2f}"] for name, ap in results.items()]
    return Grid(rows, ["model", "", "AP"], "Test AP (chance is 50.00)", left=2)
