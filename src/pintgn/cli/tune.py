"""`pintgn tune`: search for settings, by validation only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from pintgn.cli.common import AsJson, emit_json, say
from pintgn.cli.source import reads_events
from pintgn.cli.train import Config, ModelName, Row, Sets, data_stem, read_given
from pintgn.events.log import EventLog


@reads_events
def tune(
    load: Callable[..., EventLog],
    folder: Annotated[
        Path | None,
        Option("--output", "-o", help="Folder of the search; runs/DATA-tune by default. An existing one is continued."),
    ] = None,
    space: Annotated[
        str, Option(help="default, paper (the paper's grid), or a TOML file: model.layers = [1, 2] …")
    ] = "default",
    trials: Annotated[int, Option(help="Total number of trials.")] = 20,
    model: ModelName = None,
    settings: Sets = None,
    config: Config = None,
    row: Row = None,
    seed: Annotated[int, Option(help="Seed of the search and of every trial.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Search for settings with optuna, over the paper's grid or your own space, selected on validation. Resumable."""
    given = read_given(config, row, model, settings)
    from pintgn.learn.tune import SPACES, read_space
    from pintgn.learn.tune import tune as search

    def progress(entry: dict[str, Any]) -> None:
        if "value" in entry:
            shown = {name: f"{v:.4g}" if isinstance(v, float) else str(v) for name, v in entry["tried"].items()}
            tried = ", ".join(f"{name.partition('.')[2]} {value}" for name, value in shown.items())
            say(f"trial {entry['trial']}  val {entry['value']:.4f}  {tried}")

    wanted = space if space in SPACES or not Path(space).exists() else read_space(space)
    folder = folder or Path("runs") / f"{data_stem(str(load.data))}-tune"  # type: ignore[attr-defined]
    try:
        found = search(load(), folder, settings=given, space=wanted, trials=trials, seed=seed, progress=progress)
    except KeyboardInterrupt as stop:  # typer would swallow what it says
        say(str(stop) or "Interrupted.")
        raise typer.Exit(130) from None
    if as_json:
        emit_json(found.to_dict() | {"folder": str(folder)})
    else:
        print((folder / "best.toml").read_text(), end="")
        say(f"\nNext: pintgn train {load.data} --config {folder / 'best.toml'}")  # type: ignore[attr-defined]
