"""Operations with their own derivative, PINT's fused aggregation among them, and the numbering of distinct nodes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pintgn.models import kernels

WORTH_A_THREAD = 20_000
"""Slots below which a second thread costs more than it brings."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="pintgn-fused")


def chunks(parents: int, k: int) -> list[tuple[int, int]]:
    """Cut the parents into one chunk per thread; as many threads as torch may use."""
    threads = min(torch.get_num_threads(), max(1, parents * k // WORTH_A_THREAD))
    if threads == 1:
        return [(0, parents)]
    return list(pairwise(np.linspace(0, parents, threads + 1).astype(int).tolist()))


class Operation(Protocol):
    """A function with a hand-written derivative: autograd of many small steps costs more than the steps.

    `forward` is called once, and keeps what `backward` needs: views of the tensors it is given and of what it returns
    (`FusedFunction` refuses when they have changed since), copies of everything else that others may write to.
    `backward` may be called several times.
    """

    def forward(self, *tensors: Any) -> Tensor: ...

    def backward(self, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the tensors that `forward` was given."""
        ...


class FusedFunction(torch.autograd.Function):
    """An operation as a step of autograd."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *tensors: Tensor | None) -> Tensor:
        ctx.operation, out = operation, operation.forward(*tensors)
        ctx.save_for_backward(*tensors, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _ = ctx.saved_tensors  # refuses when one of them was changed since
        return None, *ctx.operation.backward(grad)


class WeightedReluSum:
    """out[p] = Σ over the k slots of p of weight · relu(row[row_of] + event[event_of] + own · mix).

    An operation on row (n, d), event (e', d), mix (c, d) and weight (slots,); see `kernels` for what the parts are. CPU
    only.
    """

    def __init__(self, k: int, row_of: np.ndarray, event_of: np.ndarray, own: np.ndarray):
        self.k, self.row_of, self.event_of, self.own = k, row_of, event_of, own

    def forward(self, row: Tensor, event: Tensor, mix: Tensor, weight: Tensor) -> Tensor:  # (parents, d)
        row_, event_, mix_, weight_ = arrays(row, event, mix, weight)
        self.operands = row_, self.row_of, event_, self.event_of, self.own, mix_, weight_
        self.learned, out = weight.requires_grad, np.empty((len(weight_) // self.k, row_.shape[1]), row_.dtype)
        run: Any = kernels.weighted_relu_sum
        parallel_map(lambda chunk: run(*chunk, self.k, *self.operands, out), chunks(len(out), self.k))
        return torch.from_numpy(out)

    def backward(self, grad: Tensor) -> tuple[Tensor | None, ...]:
        row, _, event, _, _, mix, weight = self.operands
        (grad_,), to_weight = arrays(grad), np.zeros(len(weight) if self.learned else 0, weight.dtype)
        jobs = [(chunk, [np.zeros_like(x) for x in (row, event, mix)]) for chunk in chunks(len(grad_), self.k)]
        run: Any = kernels.weighted_relu_sum_backward  # every thread sums its own
        parallel_map(lambda job: run(*job[0], self.k, *self.operands, grad_, *job[1], to_weight), jobs)
        return *summed_gradients(jobs), torch.from_numpy(to_weight) if self.learned else None


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [(x.detach() if x.requires_grad else x).contiguous().numpy() for x in tensors]


def summed_gradients(jobs: list[tuple[Any, list[np.ndarray]]]) -> tuple[Tensor, ...]:
    """The gradients of all jobs together; every thread has summed its own."""
    sums = jobs[0][1]
    for _, more in jobs[1:]:
        for mine, other in zip(sums, more, strict=True):
            mine += other
    return tuple(map(torch.from_numpy, sums))


def parallel_map(run: Any, jobs: list[Any]) -> None:
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
