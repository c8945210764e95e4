"""Training: one screen."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from pintgn.events.log import EventLog
from pintgn.events.splits import time_scale
from pintgn.learn.evaluate import by_novelty, score_part
from pintgn.learn.protocol import Parts, destinations, random_negatives
from pintgn.models.base import Model
from pintgn.stream import Stream


@dataclass
class Fitted:
    """A trained model, what it was trained on, and how it went."""

    model: Model
    parts: Parts
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry per epoch
    best_epoch: int = 0
    test: dict[str, dict[str, float]] = field(default_factory=dict)


def fit(
    model: Model,
    log: EventLog,
    *,
    seed: int = 0,
    epochs: int = 50,
    patience: int = 5,
    batch: int = 200,
    learning_rate: float = 5e-4,
    hidden: float = 0.1,
    progress: Callable[[dict[str, Any]], None] = lambda entry: None,
    **stream_settings: Any,
) -> Fitted:
    """Train on the first 70 % of a log, choose the epoch on the next 15 %, measure on the last.

    `seed` decides hidden nodes, parameters and negatives. `progress` is called after every batch with how far the epoch
    is, and after every epoch with its results. Stops after `patience` epochs without a better validation AP.
    """
    parts = Parts.of(log, hidden=hidden, seed=seed)
    schema = replace(log.schema, time_scale=time_scale(parts.train.src, parts.train.dst, parts.train.t))
    make = lambda: Stream(model, schema, node_features=log.node_features, seed=seed, **stream_settings)  # noqa: E731
    stream, pool, everyone = make(), destinations(parts.train), destinations(log)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    fitted = Fitted(model, parts)
    best, best_weights = -np.inf, model.state_dict()
    for epoch in range(1, epochs + 1):
        started, losses, stream = time.perf_counter(), [], make()
        rng = np.random.default_rng([seed, epoch])
        model.train()
        for events in parts.trained.batches(batch):
            yes, no = stream.replay(events, [events.query, random_negatives(events.query, pool, rng)])
            loss = cross_entropy(yes, torch.ones_like(yes)) + cross_entropy(no, torch.zeros_like(no))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item() / 2)
            progress(
                {"epoch": epoch, "done": events.first + len(events), "total": len(parts.trained), "loss": losses[-1]}
            )
        stream = make()
        stream.observe(parts.train)
        val = measure(stream, parts, parts.val, everyone, seed)
        entry = {"epoch": epoch, "loss": float(np.mean(losses)), "val": val, "seconds": time.perf_counter() - started}
        fitted.history.append(entry)
        progress(entry)
        if val["all"]["ap"] > best:
            best, best_weights, fitted.best_epoch = val["all"]["ap"], copy.deepcopy(model.state_dict()), epoch
        if epoch - fitted.best_epoch >= patience:
            break
    model.load_state_dict(best_weights)
    stream = make()
    stream.observe(parts.train)
    stream.observe(parts.val)
    fitted.test = measure(stream, parts, parts.test, everyone, seed + 1)
    return fitted


def measure(stream: Stream, parts: Parts, part: EventLog, pool: np.ndarray, seed: int) -> dict[str, dict[str, float]]:
    """Metrics of a part against random negatives that are the same for every model and epoch."""
    negatives = random_negatives(part.query, pool, np.random.default_rng([seed, len(part)]))
    return by_novelty(score_part(stream, part, negatives), parts.is_new(part))
