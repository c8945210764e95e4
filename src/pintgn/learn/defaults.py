"""Default settings from the training part of the log: sizes, decay, learning rate, epochs.

The rules are few and known to do well on logs from a thousand to a million events; `pintgn train --dry-run` prints
what they decide. They look at counts only: times enter through the log's own time scale, so seconds, milliseconds and
days decide alike.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

import torch

from pintgn.events.log import EventLog
from pintgn.events.splits import met_nodes
from pintgn.learn.protocol import cut
from pintgn.learn.settings import Settings, Training, model_parameters
from pintgn.models.registry import MODELS
from pintgn.positions.relative import WIDTH

BUSY = 200
"""Events per node from which twice as many neighbors are worth their cost."""
MANY = 500_000
"""Nodes from which on estimated positions are half as wide: 0.8 kB a node instead of 1.5."""
BEYOND_THE_PAPER = {"pair_history": True, "aggregates": True, "historical": True}
"""What PINT looks at and answers besides; see docs/best.md."""
STEPS = 4_000
"""Steps after which a model of this size has usually learned what it will, if the log is small."""
PASSES, MOST_STEPS = 8, 26_000
"""Of a large log it sees so many epochs, as long as these are no more than so many steps (about ten minutes)."""


def resolved(settings: Settings, log: EventLog) -> Settings:
    """The settings with every open one decided by the training part of a log."""
    return from_training(settings, cut(log, **settings.train.split)[0])


def from_training(settings: Settings, train: EventLog) -> Settings:
    """The settings with every open one decided; given ones stay as they are."""
    model, nodes = settings.model, int(met_nodes(train).sum())
    if settings.name in MODELS:
        known = model_parameters(settings.name)
        chosen = {key: value for key, value in model_defaults(train, nodes, model).items() if key in known}
        if settings.name in ("pint", "pint+trees"):  # all others stay as they were published
            plain = settings.task.scores_links and settings.task.relation is None
            chosen |= BEYOND_THE_PAPER if plain else BEYOND_THE_PAPER | {"historical": False}
        model = settings.make_model().settings() | chosen | model
    stream = settings.stream
    if stream.positions_width is None:  # most of what a log of very many nodes takes
        stream = dataclasses.replace(stream, positions_width=WIDTH if nodes < MANY else WIDTH // 2)
    return dataclasses.replace(settings, model=model, train=training_defaults(train, settings.train), stream=stream)


def model_defaults(train: EventLog, nodes: int, given: dict[str, Any]) -> dict[str, Any]:
    """Sizes and decay.

    β is 1 / neighbors per time scale (the mean time between a node's events): a contact's weight halves over the time
    that the newest neighbors usually span.
    """
    per_node = 2 * len(train) / max(nodes, 1)
    neighbors = 20 if per_node >= BUSY else 10
    dim = 64 if len(train) < 1_000_000 else 100
    span = given.get("neighbors", neighbors)
    beta = 1 / span if isinstance(span, int) and span > 0 else 0.1
    return {"dim": dim, "neighbors": neighbors, "beta": beta}


def training_defaults(train: EventLog, given: Training) -> Training:
    """Epochs, patience and learning rate, from the number of steps in an epoch; threads, from the machine.

    Who gives a learning rate or a number of epochs means that one. Only the paper's protocol hides nodes by itself.
    """
    steps = max(math.ceil(len(train) / given.batch), 1)
    passes = max(min(PASSES, MOST_STEPS // steps), 3)
    epochs = min(max(math.ceil(STEPS / steps), passes), 100) if given.epochs is None else given.epochs
    hidden = (0.1 if given.protocol == "paper" else 0.0) if given.hidden is None else given.hidden
    patience = given.patience
    if patience is None and given.epochs is None:
        patience = min(max(epochs // 2, 5), 10)
    rate = (3e-3 if steps < 1_000 else 1e-3) if given.learning_rate is None else given.learning_rate
    schedule = given.schedule or ("cosine" if given.learning_rate is None else "constant")
    # one looks up the next batch; more than a few threads of such small matrices only wait for each other
    threads = torch.get_num_threads() if "OMP_NUM_THREADS" in os.environ else min(os.cpu_count() or 1, 5)
    threads = threads if given.threads is None else given.threads
    return dataclasses.replace(
        given, epochs=epochs, patience=patience, learning_rate=rate, schedule=schedule, hidden=hidden, threads=threads
    )
