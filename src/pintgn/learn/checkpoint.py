"""All that changes while a run trains, and how it is saved and restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.facts import check
from pintgn.learn.run import PROGRESS, Run
from pintgn.models.base import Model
from pintgn.stream import Stream


@dataclass
class Cursor:
    """How far training has come. Randomness is a function of epoch and step, so this is all of it."""

    epoch: int = 1
    step: int = 0  # steps of this epoch that are done
    events: int = 0  # events trained on in them
    loss: float = 0.0  # their summed loss
    best_epoch: int = 0
    best_value: float = -1.0
    reference: float = -1.0  # the value that an epoch must clearly exceed to count as progress
    stale: int = 0  # epochs in a row without
    history: list[dict[str, Any]] = field(default_factory=list)


class Average:
    """A running mean of the weights; what is measured and kept.

    Its decay grows from 0.1 to its full value over the first steps, so that early weights are soon forgotten. It makes
    up for a schedule of the learning rate, without having to know how long training will last.
    """

    def __init__(self, model: Model, decay: float):
        self.parameters: list[Tensor] = list(model.parameters())
        self.decay, self.steps = decay, 0
        self.weights = [p.detach().clone() for p in self.parameters] if decay else []

    @torch.no_grad()
    def update(self) -> None:
        self.steps += 1
        if self.weights:
            decay = min(self.decay, self.steps / (self.steps + 9))
            torch._foreach_lerp_(self.weights, self.parameters, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with its mean weights."""
        if not self.weights:
            yield
            return
        own = [p.detach().clone() for p in self.parameters]
        self._put(self.weights)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, weights: list[Tensor]) -> None:
        for p, value in zip(self.parameters, weights, strict=True):
            p.copy_(value)


def save_best(run: Run) -> None:
    """The weights that the model has now."""
    if run.folder is not None:
        weights = {f"model.{name}": value for name, value in run.model.state_dict().items()}
        run.folder.write_tensors("best.safetensors", weights, {"run": run.fingerprint})


def save_last(
    run: Run, cursor: Cursor, optimizer: torch.optim.Adam | None, average: Average, stream: Stream | None
) -> None:
    """Weights, their mean, the optimizer, memory and cursor; neighbors and positions are rebuilt from the log."""
    if run.folder is None:
        return
    arrays: dict[str, Tensor | np.ndarray] = {f"model.{name}": value for name, value in run.model.state_dict().items()}
    arrays |= {f"average.{k}": value for k, value in enumerate(average.weights)}
    if optimizer is not None:
        for k, state in optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer.{k}.{name}": value for name, value in state.items()}
    if stream is not None and stream.state is not None:
        arrays |= {f"memory.{name}": column for name, column in stream.state.arrays().items()}
        undo = stream.blocks.undo
        if undo is not None and undo.rows is not None:
            arrays |= {f"undo.{name}": column for name, column in undo.rows.arrays().items()}
    facts = {"run": run.fingerprint, "averaged": average.steps} | asdict(cursor)
    run.folder.write_tensors("last.safetensors", arrays, facts)


def load_last(
    run: Run,
    optimizer: torch.optim.Adam | None,
    average: Average,
    arrays: dict[str, np.ndarray],
    metadata: dict[str, Any],
) -> tuple[Cursor, dict, dict]:
    """Restore what `save_last` saved, as `run.read_checkpoint` read it; returns the cursor and the memory's columns for
    `load_memory`."""
    run.take_weights(arrays, "last.safetensors")
    check(metadata, PROGRESS, "last.safetensors")
    average.steps = metadata["averaged"]
    average.weights = [torch.from_numpy(arrays[f"average.{k}"]) for k in range(len(average.weights))]
    if optimizer is not None:
        state = optimizer.state_dict()
        for key, value in _part(arrays, "optimizer.").items():
            k, name = key.split(".", 1)
            state["state"].setdefault(int(k), {})[name] = torch.from_numpy(np.array(value))
        optimizer.load_state_dict(state)
    cursor = Cursor(**{name: metadata[name] for name in Cursor.__dataclass_fields__})
    return cursor, _part(arrays, "memory."), _part(arrays, "undo.")


def load_memory(stream: Stream, memory: dict[str, np.ndarray], undo: dict[str, np.ndarray]) -> None:
    """Give a stream that has observed the same events the memory that it had then.

    What the stream did observe since is only right in its neighbors, positions and blocks: memory depends on the
    weights of its time.
    """
    if stream.state is not None and memory:
        stream.state.load(memory)
        if undo and stream.blocks.undo is not None and stream.blocks.undo.rows is not None:
            stream.blocks.undo.rows.load(undo)


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
