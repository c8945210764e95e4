"""Baselines: training-free rows beside every result, and other models trained on the same parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.schema import Schema
from pintgn.learn.measure import observe_log
from pintgn.learn.protocol import Parts
from pintgn.learn.settings import Settings
from pintgn.models.registry import model_class
from pintgn.stream import Stream
from pintgn.stream.history import History, KnownHistory

if TYPE_CHECKING:
    from pintgn.learn.run import Run

HEURISTICS = ("edgebank", "heuristic")
"""Training-free rows beside the figures of links."""
SAME = ("val", "test", "train_until", "val_until", "hidden", "protocol", "batch", "scale_features", "threads")
"""What another model is trained with as the run was; for the rest it has its own defaults."""


def heuristic_stream(
    name: str, parts: Parts, schema: Schema, observed: EventLog, known: History | None = None
) -> Stream:
    """A training-free model in a stream that has observed these events; `known` holds them and perhaps more."""
    model = model_class(name)()
    model.prepare(parts.trained)
    stream = Stream(model, schema, node_features=parts.log.node_features)
    if known is not None:
        return stream.fork(history=KnownHistory(known, observed))
    observe_log(stream, observed)
    return stream


def heuristic_streams(
    parts: Parts, schema: Schema, observed: EventLog, without: str = "", known: History | None = None
) -> Iterator[tuple[str, Stream]]:
    """Each training-free model but one; arguments as of `heuristic_stream`."""
    for name in HEURISTICS:
        if name != without:
            yield name, heuristic_stream(name, parts, schema, observed, known)


def trained_beside(
    run: Run, name: str, progress: Callable[[int, int, str], None] | None = None, later: bool = False
) -> Run:
    """A model of this name, trained on a run's log and asked the same; on all of it where `later` events are measured
    and the run was."""
    from pintgn.learn.fit import fit

    if run.start is not None:
        raise BadInput(f"{name} has no weights to begin with as the run has, so it cannot be trained beside it.")
    if progress is not None:
        progress(0, len(run.parts.trained), f"training {name}")
    same = {key: getattr(run.settings.train, key) for key in SAME}
    stream, task = dataclasses.asdict(run.settings.stream), dataclasses.asdict(run.settings.task)
    settings = Settings.of({"model": {"name": name}, "train": same, "stream": stream, "task": task})
    return fit(settings, run.log, seed=run.seed, refit=later and run.refit is not None).deployed
