"""One step of several workers: gradients of each one's questions become those of all, in one all-reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pintgn.workers.group import Group


class Step(NamedTuple):
    """What all workers know after a step."""

    loss: float  # the mean over all questions
    events: int
    stop: bool  # whether one of them was asked to stop


def joint_step(group: Group, parameters: Sequence[Tensor], loss: Tensor | None, events: int, stop: bool) -> Step:
    """Give parameters the gradients of the loss over the questions of all workers.

    Each worker's loss is the mean over its own events, of which it may have none; the joint one is their mean weighted
    by these numbers, as one worker would have had it. A parameter that no worker has a gradient for has none
    afterwards, either. The look-ups for the next batch may run meanwhile, in a thread of their own.

    Args:
        parameters: with gradients from before set to None.
        loss: of this worker's share of a batch; None without events.
        events: how many that share has.
        stop: whether this worker was asked to stop.
    """
    if loss is not None:
        loss.backward()
    if group.size == 1:
        return Step(0.0 if loss is None else loss.item(), events, stop)
    with torch.no_grad():
        used = torch.tensor([float(p.grad is not None) for p in parameters])
        known = torch.tensor([0.0 if loss is None else loss.item() * events, events, float(stop)])
        flat = [torch.zeros(p.numel(), device=p.device) if p.grad is None else p.grad.flatten() for p in parameters]
        gradients = torch.cat(flat).mul_(events)
        buffer = torch.cat([gradients, known.to(gradients), used.to(gradients)])
        group.sum(buffer)
        gradients, known, used = buffer.split([len(gradients), len(known), len(used)])
        total, everyone, stopping = known.tolist()
        gradients /= max(everyone, 1)
        for p, g, some in zip(parameters, gradients.split([p.numel() for p in parameters]), used.tolist(), strict=True):
            p.grad = g.view_as(p) if some else None
    return Step(total / max(everyone, 1), int(everyone), stopping > 0)
