"""What training makes small, and how fast it goes."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from pintgn.learn.settings import Training

LEAST = 0.02
"""Share of the learning rate that is left at the end of the cosine schedule."""


def loss_of(yes: Tensor, no: list[Tensor], settings: Training) -> Tensor:
    """The loss of events with logits `yes` (q,) against their negatives, each (q,); the historical one comes last.

    Binary cross-entropy weighs events and negatives alike, however many negatives there are.
    """
    met = no[settings.negatives_per_event :]
    no = no[: settings.negatives_per_event]
    positive = softplus(-yes).mean()
    loss = positive + softplus(torch.cat(no)).mean()
    if settings.loss == "ranking":
        loss = loss / 2 + (torch.logsumexp(torch.stack([yes, *no]), 0) - yes).mean()
    for z in met:
        loss = loss + settings.historical * (positive + softplus(z).mean())
    return loss


def rate(settings: Training, done: int, total: int) -> float:
    """The learning rate when so many of all steps are done."""
    assert settings.learning_rate is not None
    if settings.schedule != "cosine":
        return settings.learning_rate
    fallen = (1 + math.cos(math.pi * min(done / max(total, 1), 1))) / 2
    return settings.learning_rate * (LEAST + (1 - LEAST) * fallen)
