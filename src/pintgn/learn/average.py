"""Running mean of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pintgn.models.base import Model


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
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.weights)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, own)
