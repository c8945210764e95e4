"""The fused aggregation as a differentiable operation, and the numbering of distinct nodes and events."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels

WORTH_A_THREAD = 20_000
"""Slots below which a second thread costs more than it brings."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="pintgn-fused")


def shares(parents: int, k: int) -> list[tuple[int, int]]:
    """Cut the parents into one share per thread; as many threads as torch may use."""
    threads = min(torch.get_num_threads(), max(1, parents * k // WORTH_A_THREAD))
    if threads == 1:
        return [(0, parents)]
    return list(pairwise(np.linspace(0, parents, threads + 1).astype(int).tolist()))


class WeightedSum(torch.autograd.Function):
    """out[p] = Σ over the k slots of p of weight · row[row_of].

    Differentiable in row (n, d) and weight (slots,). CPU only.
    """

    @staticmethod
    def forward(ctx: Any, k: int, row: Tensor, row_of: np.ndarray, weight: Tensor) -> Tensor:  # (parents, d)
        ctx.k, ctx.row_of = k, row_of
        ctx.save_for_backward(row, weight)
        row_, weight_ = arrays(row, weight)
        out = np.empty((len(weight_) // k, row_.shape[1]), row_.dtype)
        run: Any = kernels.weighted_sum
        each(lambda share: run(*share, k, row_, row_of, weight_, out), shares(len(out), k))
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        row, weight = arrays(*ctx.saved_tensors)
        (grad_,) = arrays(grad)
        grad_weight = np.zeros(len(weight) if ctx.needs_input_grad[3] else 0, weight.dtype)
        jobs = [(share, np.zeros_like(row)) for share in shares(len(grad_), ctx.k)]

        run: Any = kernels.weighted_sum_backward  # every thread adds up its own
        each(lambda job: run(*job[0], ctx.k, row, ctx.row_of, weight, grad_, job[1], grad_weight), jobs)
        to_row = jobs[0][1]
        for _, more in jobs[1:]:
            to_row += more
        return None, torch.from_numpy(to_row), None, torch.from_numpy(grad_weight) if len(grad_weight) else None


class WeightedReluSum(torch.autograd.Function):
    """out[p] = Σ over the k slots of p of weight · relu(row[row_of] + event[event_of] + own · mix).

    Differentiable in row (n, d), event (e', d), mix (c, d) and weight (slots,); see `kernels` for what the parts are.
    CPU only.
    """

    @staticmethod
    def forward(
        ctx: Any,
        k: int,
        row: Tensor,
        row_of: np.ndarray,
        event: Tensor,
        event_of: np.ndarray,
        own: np.ndarray,
        mix: Tensor,
        weight: Tensor,
    ) -> Tensor:  # (parents, d)
        ctx.k, ctx.where = k, (row_of, event_of, own)
        ctx.save_for_backward(row, event, mix, weight)
        row_, event_, mix_, weight_ = arrays(row, event, mix, weight)
        out = np.empty((len(weight_) // k, row_.shape[1]), row_.dtype)

        def run(share: tuple[int, int]) -> None:
            kernels.weighted_relu_sum(*share, k, row_, row_of, event_, event_of, own, mix_, weight_, out)

        each(run, shares(len(out), k))
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        k, (row_of, event_of, own) = ctx.k, ctx.where
        row, event, mix, weight = arrays(*ctx.saved_tensors)
        (grad_,) = arrays(grad)
        grad_weight = np.zeros(len(weight) if ctx.needs_input_grad[7] else 0, weight.dtype)
        cuts = shares(len(grad_), k)
        sums = [[np.zeros_like(x) for x in (row, event, mix)] for _ in cuts]  # one set for each thread

        def run(job: tuple[tuple[int, int], list[np.ndarray]]) -> None:
            share, mine = job
            parts = (row, row_of, event, event_of, own, mix, weight)
            kernels.weighted_relu_sum_backward(*share, k, *parts, grad_, *mine, grad_weight)  # type: ignore[call-arg]

        each(run, list(zip(cuts, sums, strict=True)))
        for more in sums[1:]:
            for mine, other in zip(sums[0], more, strict=True):
                mine += other
        to_row, to_event, to_mix = (torch.from_numpy(x) for x in sums[0])
        to_weight = torch.from_numpy(grad_weight) if len(grad_weight) else None
        return None, to_row, None, to_event, None, None, to_mix, to_weight


class Operation(Protocol):
    """Something that carries its own derivative, written out: bookkeeping for many small steps costs more than they do.

    `forward` is called once, and keeps what `backward` needs. Operations can be chained without autograd.
    """

    def forward(self, *tensors: Any) -> Tensor: ...

    def backward(self, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the tensors that `forward` was given."""
        ...


class Run(torch.autograd.Function):
    """An operation as a step of autograd."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *tensors: Tensor | None) -> Tensor:
        ctx.operation = operation
        ctx.save_for_backward(*tensors)
        return operation.forward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        _ = ctx.saved_tensors  # refuses when one of them was changed since
        return None, *ctx.operation.backward(grad)


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [(x.detach() if x.requires_grad else x).contiguous().numpy() for x in tensors]


def each(run: Any, jobs: list[Any]) -> None:
    if len(jobs) == 1:
        run(jobs[0])
    else:
        list(_pool().map(run, jobs))


class Distinct:
    """Numbers the distinct entries of index arrays without sorting; its table is reused from call to call."""

    def __init__(self) -> None:
        self._table = np.zeros(0, np.int32)
        self._scratch = np.zeros(0, np.int32)

    def scratch(self, size: int) -> np.ndarray:
        """A table of at least this size for whoever needs one, holding any numbers from 0 on."""
        if size > len(self._scratch):
            self._scratch = np.zeros(max(size, 2 * len(self._scratch)), np.int32)
        return self._scratch

    def __call__(self, values: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct valid values, and for each entry its row among them (0 where it is not valid)."""
        flat, mask = values.ravel(), valid.ravel()
        largest = int(flat.max(initial=0, where=mask))
        if largest >= len(self._table):
            self._table = np.full(max(largest + 1, 2 * len(self._table)), -1, np.int32)
        distinct, where = np.empty(len(flat), np.int64), np.empty(len(flat), np.int32)
        count = kernels.number_distinct(flat, mask, self._table, distinct, where)
        return distinct[:count].copy(), where
