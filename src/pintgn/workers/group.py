"""A group of processes that train or evaluate one run together: shares of the work, and merged results.

Every worker runs the same program on the same events and takes the same decisions. What differs is which questions each
computes; their answers and gradients are put together here, by `torch.distributed`: the gradients of a step in one
all-reduce. A single process is a group of one, in which nothing is sent.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from pintgn.errors import BadInput, LostWorker

TURN = 25
"""Rows in a row that one worker answers, before it is the next one's turn."""
Value = TypeVar("Value")


class Group:
    """The rank of this process and the size of its group; a group of one by default."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size

    def writes(self, target: Value) -> Value | None:
        """A folder or file, on the one worker that writes; None on the others."""
        return target if self.rank == 0 else None

    def share(self, count: int) -> slice:
        """The rows of so many that are this worker's: neighbors in time stay together."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def shares(self, bounds: np.ndarray) -> np.ndarray:
        """Mask of the rows of a table that are this worker's: its share of those between each two bounds, the first
        0."""
        mine = np.zeros(int(bounds[-1]), bool)
        for begin, end in pairwise(bounds.tolist()):
            mine[begin:end][self.share(end - begin)] = True
        return mine

    def turns(self, count: int) -> np.ndarray:
        """Mask of the rows (count,) of a long table that are this worker's: in turns, as later ones cost more."""
        return np.arange(count) // TURN % self.size == self.rank

    def sum(self, buffer: Tensor) -> None:
        """Sum a buffer over all workers, in place: the same bits everywhere."""
        if self.size > 1:
            _exchanged(lambda: dist.all_reduce(buffer))

    def begin_sum(self, buffer: Tensor) -> Callable[[], None]:
        """Begin to sum a buffer over all workers, in place; the call of what it returns waits for the end."""
        if self.size == 1:
            return lambda: None
        going: list[Any] = []
        _exchanged(lambda: going.append(dist.all_reduce(buffer, async_op=True)))
        return lambda: _exchanged(going[0].wait)

    def merged(self, values: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """Rows that each worker has computed for its mask of them, as one array on all."""
        if self.size == 1:
            return values
        whole = np.zeros((len(mine), *values.shape[1:]))  # float64: a worker without rows cannot know their type
        whole[mine] = values
        self.sum(torch.from_numpy(whole))
        return whole

    def any(self, flag: bool) -> bool:
        """Whether a flag is up on any worker."""
        if self.size == 1:
            return flag
        raised = torch.tensor([float(flag)])
        self.sum(raised)
        return bool(raised.item())

    def from_first(self, value: Callable[[], Value]) -> Value:
        """Broadcast what the first worker computes."""
        box = [value() if self.rank == 0 else None]
        if self.size > 1:
            _exchanged(lambda: dist.broadcast_object_list(box))
        return box[0]  # type: ignore[return-value]

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Broadcast the first worker's values of tensors."""
        if self.size > 1:
            for tensor in tensors:
                _exchanged(lambda tensor=tensor: dist.broadcast(tensor.detach(), 0))  # type: ignore[misc]

    def check_same(self, facts: Mapping[str, str]) -> None:
        """Refuse to begin where workers differ, in one line that names the worker and the difference."""
        if self.size == 1:
            return
        found: list[Any] = [None] * self.size
        _exchanged(lambda: dist.all_gather_object(found, dict(facts)))
        for rank, other in enumerate(found):
            for name, value in found[0].items():
                if other.get(name) != value:
                    long = max(len(value), len(str(other.get(name)))) > 40  # a fingerprint or a file of settings
                    values = "" if long else f" ({other.get(name)}, not {value})"
                    raise BadInput(
                        f"worker {rank} has other {name} than worker 0{values}. "
                        "Give every worker the same data, settings and versions."
                    )


_current = Group()


def current() -> Group:
    """The current group of this process."""
    return _current


@contextmanager
def together() -> Iterator[Group]:
    """Context in which work is shared with the other workers, if this process is one of several.

    All of them must do the same inside. Outside, a process works for itself.
    """
    global _current
    before = _current
    join()
    if dist.is_available() and dist.is_initialized():
        _current = Group(dist.get_rank(), dist.get_world_size())
    try:
        yield _current
    finally:
        _current = before


def is_worker() -> bool:
    """Whether this process was started as one of several, by torchrun or another launcher."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def join() -> None:
    """Join the other workers, if this process was started as one of several."""
    if not is_worker() or dist.is_initialized():
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        backend = "cpu:gloo,cuda:nccl"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    at = os.environ.get("PINTGN_MEET", "env://")
    address = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    try:
        dist.init_process_group(backend, init_method=at, rank=rank, world_size=size)
    except dist.DistNetworkError as error:
        in_use = "EADDRINUSE" in str(error) or "address already in use" in str(error).lower()
        why = "the port is in use; choose another MASTER_PORT" if in_use else "the address cannot be reached"
        raise LostWorker(f"worker {rank} of {size} cannot meet the others at {address}: {why}.") from error
    except (RuntimeError, ValueError) as error:
        raise LostWorker(f"worker {rank} of {size} cannot meet the others: {_first_line(error)}") from error
    atexit.register(_leave)


def _leave() -> None:
    """Stop gloo's threads before Python ends: one still at work would abort the process, whatever its exit code."""
    if dist.is_initialized():
        dist.destroy_process_group()


def first_to_say() -> bool:
    """Whether no other worker of the group has failed before, so that one line reports it."""
    if not dist.is_available() or not dist.is_initialized():
        return True
    try:
        store = dist.distributed_c10d._get_default_store()
        return store.add(f"pintgn/said/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", 1) == 1
    except (RuntimeError, ValueError):  # whoever kept the store is gone
        return True


def _exchanged(call: Callable[[], Any]) -> None:
    """The answer of the other workers; if one is gone, an error in one line."""
    try:
        call()
    except RuntimeError as error:
        raise LostWorker(
            "another worker has ended or cannot be reached, so this one ends, too. "
            f"What was saved can be continued with --resume. ({_first_line(error)})"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


class Step(NamedTuple):
    """The result of a step, the same on all workers."""

    loss: float  # the mean over all questions
    events: int
    stop: bool  # whether one of them was asked to stop


def joint_step(
    group: Group,
    parameters: Sequence[Tensor],
    loss: Tensor | None,
    events: int,
    stop: bool,
    meanwhile: Callable[[], None] = lambda: None,
    most: float = 0.0,
) -> Step:
    """Give parameters the gradients of the loss over the questions of all workers, of which there are several.

    Each worker's loss is the mean over its own events, of which it may have none; the joint one is their mean weighted
    by these numbers, as one worker would have had it. A parameter that no worker has a gradient for has none
    afterwards, either.

    Args:
        parameters: with gradients from before set to None.
        loss: of this worker's share of a batch; None without events.
        events: how many that share has.
        stop: whether this worker was asked to stop.
        meanwhile: what can be done before the others' gradients are there, such as the look-ups for the next batch.
        most: the largest norm of all gradients together; 0 for any.
    """
    if loss is not None:
        loss.backward()
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
        if most:  # the arithmetic of torch's `clip_grad_norm_`, on one buffer
            gradients.mul_(torch.clamp(most / (torch.linalg.vector_norm(gradients) + 1e-6), max=1.0))
    return Step(total / max(everyone, 1), int(everyone), stopping > 0)
