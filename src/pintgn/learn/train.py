"""Training: one screen."""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from pintgn.events.log import EventLog
from pintgn.events.splits import time_scale
from pintgn.learn.evaluate import by_novelty, score_part
from pintgn.learn.protocol import Negatives, Parts, random_destination
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
    stream: Stream | None = None  # has observed the whole log

    def save(self, folder: str | Path) -> None:
        """Write the metrics of every epoch, the result and the stream, which is ready to go on."""
        assert self.stream is not None
        folder = Path(folder)
        self.stream.save(folder / "stream")
        entries = [*self.history, {"best_epoch": self.best_epoch, "test": self.test}]
        write_whole(folder / "metrics.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))


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
    negatives: Negatives | None = None,
    progress: Callable[[dict[str, Any]], None] = lambda entry: None,
    **stream_settings: Any,
) -> Fitted:
    """Train on the first 70 % of a log, choose the epoch on the next 15 %, measure on the last.

    Args:
        model: a new model; it is trained in place and ends with its best weights.
        log: everything there is; cut by time here.
        seed: of hidden nodes, parameters and negatives.
        patience: stop after so many epochs without a better validation AP.
        batch: events per step.
        hidden: share of nodes kept out of training, to measure new ones.
        negatives: what to tell events from; random destinations by default.
        progress: called after every batch with how far the epoch is, and after every epoch with its results.
        stream_settings: passed on to `Stream`.
    """
    parts = Parts.of(log, hidden=hidden, seed=seed)
    schema = replace(log.schema, time_scale=time_scale(parts.train.src, parts.train.dst, parts.train.t))
    make = lambda: Stream(model, schema, node_features=log.node_features, seed=seed, **stream_settings)  # noqa: E731
    make()  # builds the parameters
    in_training = negatives or random_destination(parts.train)
    in_measuring = negatives or random_destination(log)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    fitted = Fitted(model, parts)
    best, best_weights = -np.inf, model.state_dict()
    for epoch in range(1, epochs + 1):
        started, losses, stream = time.perf_counter(), [], make()
        rng = np.random.default_rng([seed, epoch])
        model.train()
        for events in parts.trained.batches(batch):
            yes, no = stream.replay(events, [events.query, in_training(events, rng)])
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
        val = measure(stream, parts, parts.val, in_measuring, seed)
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
    fitted.test, fitted.stream = measure(stream, parts, parts.test, in_measuring, seed), stream
    return fitted


def measure(stream: Stream, parts: Parts, part: EventLog, negatives: Negatives, seed: int) -> dict[str, Any]:
    """Metrics of a part against negatives that are the same for every model and epoch."""
    drawn = negatives(part, np.random.default_rng([seed, part.first]))
    return by_novelty(score_part(stream, part, drawn), parts.is_new(part))


def write_whole(path: Path, text: str) -> None:
    """Write a file under a temporary name, then rename it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    os.replace(part, path)
