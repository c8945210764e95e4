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
    """The loss of events with logits `yes` against random negatives and, where the model answers two questions, a
    historical one, which comes last. Logits are (q,), or (q, 2): against anyone, against known ones.

    Cross-entropy of three classes: event, random negative, historical negative, each with the same weight, however many
    negatives there are. A logit is how much likelier a row is an event than a negative of that kind, so the classes
    have log-likelihoods 0, -z_anyone, -z_known (up to a constant). With one question it is binary cross-entropy.
    """
    yes, *no = (z[:, None] if z.ndim == 1 else z for z in (yes, *no))
    random, historical = no[: settings.negatives_per_event], no[settings.negatives_per_event :]
    loss = total(yes).mean() + missed(torch.cat(random), 0)
    if settings.loss == "ranking":
        first = torch.stack([z[:, 0] for z in (yes, *random)])
        loss = loss / 2 + (torch.logsumexp(first, 0) - first[0]).mean()
    for z in historical:
        loss = loss + missed(z, 1)
    return loss


def total(z: Tensor) -> Tensor:  # (q,)
    """-log P(event): the log of 1 + exp(-z) summed over the kinds of negatives."""
    return softplus(torch.logsumexp(-z, 1))


def missed(z: Tensor, kind: int) -> Tensor:
    """-log P(a negative of this kind), on average."""
    return (total(z) + z[:, kind]).mean()


def rate(settings: Training, done: int, total: int) -> float:
    """The learning rate when so many of all steps are done."""
    assert settings.learning_rate is not None
    if settings.schedule != "cosine":
        return settings.learning_rate
    fallen = (1 + math.cos(math.pi * min(done / max(total, 1), 1))) / 2
    return settings.learning_rate * (LEAST + (1 - LEAST) * fallen)
