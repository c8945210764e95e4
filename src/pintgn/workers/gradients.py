"""One step of several workers: gradients of each one's questions become those of all, in one all-reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pintgn.workers.group import Group


class Step(NamedTuple):
    """What all workers know after a step."""

    loss: float  # the mean over all questions
    events: int
    stop: bool  # whether one of them was asked to stop
    gradients: Tensor | None = None  # of all parameters in a row, of which they have views; None for one worker


def joint_step(
    group: Group,
    parameters: Sequence[Tensor],
    loss: Tensor | None,
    events: int,
    stop: bool,
    meanwhile: Callable[[], None] = lambda: None,
) -> Step:
    """Give parameters the gradients of the loss over the questions of all workers.

    Each worker's loss is the mean over its own events, of which it may have none; the joint one is their mean weighted
    by these numbers, as one worker would have had it. A parameter that no worker has a gradient for has none
    afterwards, either.

    Args:
        parameters: with gradients from before set to None.
        loss: of this worker's share of a batch; None without events.
        events: how many that share has.
        stop: whether this worker was asked to stop.
        meanwhile: what can be done before the others' gradients are there, such as the look-ups for the next batch.
    """
    if loss is not None:
        loss.backward()
    if group.size == 1:
        return Step(0.0 if loss is None else loss.item(), events, stop)
    with torch.no_grad():
        sizes = [p.numel() for p in parameters]
        known = [0.0 if loss is None else loss.item() * events, events, stop, *(p.grad is not None for p in parameters)]
        flat = [torch.zeros(p.numel(), device=p.device) if p.grad is None else p.grad.reshape(-1) for p in parameters]
        buffer = torch.cat([*flat, torch.tensor(known, dtype=flat[0].dtype, device=flat[0].device)])
        gradients = buffer[: sum(sizes)].mul_(events)
    wait = group.begin_sum(buffer)
    meanwhile()
    wait()
    with torch.no_grad():
        total, everyone, stopping, *used = buffer[sum(sizes) :].tolist()
        gradients /= max(everyone, 1)
        for p, gradient, some in zip(parameters, gradients.split(sizes), used, strict=True):
            p.grad = gradient.view_as(p) if some else None
    return Step(total / max(everyone, 1), int(everyone), stopping > 0, gradients)


def clip(step: Step, parameters: Sequence[Tensor], most: float) -> None:
    """Scale gradients so that their norm is at most so much."""
    if step.gradients is None:
        torch.nn.utils.clip_grad_norm_(parameters, most)
    else:  # torch's arithmetic, on one buffer
        norm = torch.linalg.vector_norm(step.gradients)
        step.gradients.mul_(torch.clamp(most / (norm + 1e-6), max=1.0))
