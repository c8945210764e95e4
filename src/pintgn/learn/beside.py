"""Other models in the place of a run's own, to be measured beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.schema import Schema
from pintgn.learn.measure import HEURISTICS, heuristic_stream
from pintgn.learn.protocol import Parts
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.train import fit
from pintgn.models.base import Model
from pintgn.models.registry import model_class
from pintgn.stream import Stream
from pintgn.stream.history import History

SAME = ("val", "test", "train_until", "val_until", "hidden", "protocol", "batch", "scale_features", "threads")
"""What a model is trained with as the run was; for the rest it has its own defaults."""


def streams_beside(
    run: Run,
    names: Sequence[str],
    parts: Parts,
    schema: Schema,
    progress: Callable[[int, int, str], None] | None = None,
    later: bool = False,
    known: Callable[[], History] | None = None,
) -> dict[str, Callable[[EventLog], Stream]]:
    """For each model a function that gives its stream after some events; a model that learns is trained now.

    Args:
        parts, schema: what is measured, as the run reads it.
        later: that is what came after the run's log, so that models that were trained on all of it are compared.
        known: gives a past that holds all events that are measured, when a training-free model needs one: so that they
            are observed once.
    """
    found: dict[str, Callable[[EventLog], Stream]] = {}
    for name in names:
        if model_class(name).forward is Model.forward:
            raise BadInput(f"{name} does not score links, so it cannot be measured beside {run.settings.name}.")
        if name in HEURISTICS:
            found[name] = partial(_heuristic_after, name, parts, schema, known)
            continue
        found[name] = partial(_stream_after, trained_beside(run, name, progress, later))
    return found


def trained_beside(
    run: Run, name: str, progress: Callable[[int, int, str], None] | None = None, later: bool = False
) -> Run:
    """A model of this name, trained on a run's log and asked the same."""
    if run.start is not None:
        raise BadInput(f"{name} has no weights to begin with as the run has, so it cannot be trained beside it.")
    if progress is not None:
        progress(0, len(run.parts.trained), f"training {name}")
    same = {key: getattr(run.settings.train, key) for key in SAME}
    stream, task = dataclasses.asdict(run.settings.stream), dataclasses.asdict(run.settings.task)
    settings = Settings.of({"model": {"name": name}, "train": same, "stream": stream, "task": task})
    return fit(settings, run.log, seed=run.seed, refit=later and run.refit is not None).deployed


def _heuristic_after(
    name: str, parts: Parts, schema: Schema, known: Callable[[], History] | None, observed: EventLog
) -> Stream:
    return heuristic_stream(name, parts, schema, observed, None if known is None else known())


def _stream_after(run: Run, observed: EventLog) -> Stream:
    stream = run.new_stream()
    stream.observe(observed)
    return stream
