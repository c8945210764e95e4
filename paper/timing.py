"""Seconds of training per epoch, as the paper's figure compares them: every message-passing model with PINT's sizes.

An epoch is measured at three places, a tenth, a half and nine tenths into it, by the same steps that training takes;
the mean step times the number of steps is the epoch. That makes it possible to interleave the models, so that whatever
else the machine does meets them all alike. The paper computes positions once and keeps them; here they are updated
along with the events in every epoch, and what this costs is measured on its own.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from contextlib import suppress
from itertools import pairwise
from typing import Any

from paper.results import Row
from pintgn.events.log import EventLog
from pintgn.learn.defaults import resolved
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings, model_parameters
from pintgn.learn.train import Hook, Trainer, reproducible
from pintgn.positions import RelativePositions

PLACES = (0.1, 0.5, 0.9)
WARM, STEPS = 3, 10
OWN_SIZES = ("caw",)
"""Models that keep their own sizes in this comparison."""


class Enough(Exception):
    """As many steps as were asked for."""


def same_sizes(settings: Settings, pint: Settings) -> Settings:
    """Settings with PINT's layers and neighbors, where the model has such things."""
    if settings.name in OWN_SIZES:
        return settings
    shared = {key: pint.model[key] for key in ("layers", "neighbors") if key in model_parameters(settings.name)}
    return dataclasses.replace(settings, model=settings.model | shared)


def time_models(named: dict[str, Settings], log: EventLog, steps: int = STEPS) -> dict[str, Row]:
    """What an epoch of each costs, the models taking turns at each place; and what updating positions costs alone."""
    runs = {name: Run(found := resolved(one, log), 0, log, found.make_model()) for name, one in named.items()}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    loads = []
    for place in PLACES:
        for name, run in runs.items():
            if not samples[name]:
                list(segment(run, place, 1))  # compiles
            samples[name] += segment(run, place, steps)
            loads.append(os.getloadavg()[0])
    return {
        name: _row(run, samples[name], steps, log) | {"load": round(statistics.mean(loads), 1)}
        for name, run in runs.items()
    }


def segment(run: Run, place: float, steps: int) -> list[tuple[float, float]]:
    """Wall and processor seconds of each of some training steps, from some place in an epoch on."""
    ticks: list[tuple[float, float]] = []

    class Ticks(Hook):
        def on_step(self, trainer: Trainer) -> None:
            ticks.append((time.perf_counter(), time.process_time()))
            if len(ticks) > WARM + steps:
                raise Enough

        def on_epoch(self, trainer: Trainer, entry: dict[str, Any]) -> None:
            raise Enough

    with reproducible(run.settings.train.threads):
        run.prepare()
        trainer = Trainer(run, hooks=[Ticks()], epochs=1)
        batch = run.settings.train.batch
        first = max(0, min(int(place * len(run.parts.trained)), len(run.parts.trained) - (WARM + steps + 1) * batch))
        trainer.cursor.step = first // batch
        trainer.stream.observe(run.parts.trained[: trainer.cursor.step * batch])
        with suppress(Enough):
            trainer.learn()
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(ticks[WARM:])]


def _row(run: Run, samples: list[tuple[float, float]], steps: int, log: EventLog) -> Row:
    number = -(-len(run.parts.trained) // run.settings.train.batch)
    wall, processor = (number * statistics.mean(sample[k] for sample in samples) for k in (0, 1))
    row: Row = {
        "ended": "by itself",
        "epoch_wall": round(wall, 3),
        "epoch_processor": round(processor, 3),
        "steps": number,
        "measured_steps": len(samples),
        "threads": run.settings.train.threads,
        "settings": run.settings.to_dict(),
        "events": len(log),
        "nodes": log.nodes,
        "features": log.schema.feature_width,
    }
    return row | {"positions_processor": round(positions_seconds(run), 6)}


def positions_seconds(run: Run) -> float:
    """Processor seconds of updating positions over the training part; 0 for a model without."""
    length = run.settings.model.get("positions") or 0
    if not length:
        return 0.0
    positions = RelativePositions(d=length, backend=run.settings.stream.positions_backend)
    events = run.parts.trained
    began = time.process_time()
    positions.observe(events.src, events.dst, events.t)
    return time.process_time() - began
