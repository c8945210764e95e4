"""Building blocks that several models share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Two linear maps with a ReLU between: enough to approximate any function on a finite support (paper, Section
    4)."""

    def __init__(self, width: int, hidden: int, out: int):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.last = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:  # (…, width) -> (…, out)
        return self.last(torch.relu(self.first(x)))


class TimeEncoding(nn.Module):
    """φ(dt) = cos(ω dt + b), learned (paper, Eq. S1; TGAT). dt in units of the log's time scale.

    The frequencies start evenly spaced on a log scale, from a thousandth to a million times the time scale, which
    covers seconds to years for any log whose nodes act every few hours.
    """

    def __init__(self, width: int):
        super().__init__()
        self.frequency = nn.Parameter(torch.logspace(3, -6, width))
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, dt: Tensor) -> Tensor:  # (…) -> (…, width)
        return torch.cos(dt[..., None] * self.frequency + self.phase)


def tensor(array: np.ndarray, device: torch.device | None = None) -> Tensor:
    """A NumPy array as a tensor, without a copy where possible."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)
