"""`pintgn train`: learn from a log, choose on validation, measure on test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pintgn.cli.common import AsJson, console, emit_json
from pintgn.cli.source import reads_events
from pintgn.errors import BadInput
from pintgn.events.log import EventLog


@reads_events
def train(
    load: Callable[[], EventLog],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the run: metrics and stream.")
    ] = None,
    model: Annotated[str, typer.Option(help="Which model to train.")] = "pint",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the model, as in --set layers=2; may be repeated.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="At most so many passes over the training part.")] = 50,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without a better validation AP.")] = 5,
    learning_rate: Annotated[float, typer.Option(help="Step size of Adam.")] = 5e-4,
    seed: Annotated[int, typer.Option(help="Of hidden nodes, parameters and negatives.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a model on the first 70 % of the events, choose its epoch on the next 15 %, measure it on the last 15 %."""
    from pintgn.learn.train import fit
    from pintgn.models.registry import model_class

    chosen = model_class(model).from_settings(dict(parse_setting(text) for text in settings or []))
    log = load()
    with EpochLines(epochs) as lines:
        fitted = fit(
            chosen, log, seed=seed, epochs=epochs, patience=patience, learning_rate=learning_rate, progress=lines
        )
    if folder is not None:
        fitted.save(folder)
    answer = {"model": model, "settings": chosen.settings(), "seed": seed, "best_epoch": fitted.best_epoch}
    if as_json:
        emit_json(answer | {"test": fitted.test, "history": fitted.history})
    else:
        console().print(metrics_table(f"{model}, test part, epoch {fitted.best_epoch}", fitted.test))


def parse_setting(text: str) -> tuple[str, Any]:
    """A setting as it would stand in a TOML file; a bare word is a string.

    >>> parse_setting("layers=2"), parse_setting("positions_at=every")
    (('layers', 2), ('positions_at', 'every'))
    """
    import tomllib

    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--set {text!r} is not NAME=VALUE, as in --set layers=2.")
    try:
        return name.strip(), tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def metrics_table(title: str, metrics: dict[str, dict[str, float]]) -> Any:
    """AP, chunked AP and AUC, in percent, by novelty of the nodes."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.add_column("events")
    for name in ("AP", "AP (200-row chunks)", "AUC"):
        made.add_column(name, justify="right")
    for group, values in metrics.items():
        made.add_row(group, *(f"{100 * values[name]:.2f}" for name in ("ap", "chunked_ap", "auc")))
    return made


class EpochLines:
    """Progress on stderr: a bar within an epoch on a terminal, and one line per epoch."""

    def __init__(self, epochs: int):
        self.epochs = epochs
        self.terminal = console(stderr=True)

    def __enter__(self) -> EpochLines:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} events"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=self.terminal, disable=not self.terminal.is_terminal, transient=True)
        self.task = self.bar.add_task("compiling", total=None)
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __call__(self, entry: dict[str, Any]) -> None:
        if "done" in entry:
            text = f"epoch {entry['epoch']}/{self.epochs}  loss {entry['loss']:.3f}"
            self.bar.update(self.task, description=text, completed=entry["done"], total=entry["total"])
            return
        val = entry["val"]
        self.terminal.print(
            f"epoch {entry['epoch']}/{self.epochs}  loss {entry['loss']:.3f}  val AP {val['all']['ap']:.3f}  "
            f"new-node AP {val['new']['ap']:.3f}  {entry['seconds']:.1f} s"
        )
