"""The fused aggregation as a differentiable operation, and the numbering of distinct nodes and events."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

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


class WeightedReluSum(torch.autograd.Function):
    """out[p] = Σ over the k slots of p of weight · relu(bias + node part + event part + position part).

    Differentiable in bias (d,), node (n', d), event (e', d), mix (r, d) and weight (slots,); see `kernels` for what
    the parts are. CPU only.
    """

    @staticmethod
    def forward(
        ctx: Any,
        k: int,
        bias: Tensor,
        node: Tensor,
        node_of: np.ndarray,
        event: Tensor,
        event_of: np.ndarray,
        position: np.ndarray,
        mix: Tensor,
        weight: Tensor,
    ) -> Tensor:  # (parents, d)
        ctx.k, ctx.where = k, (node_of, event_of, position)
        ctx.save_for_backward(bias, node, event, mix, weight)
        bias_, node_, event_, mix_, weight_ = arrays(bias, node, event, mix, weight)
        out = np.empty((len(weight_) // k, len(bias_)), bias_.dtype)

        def run(share: tuple[int, int]) -> None:
            parts = (bias_, node_, node_of, event_, event_of, position, mix_, weight_)
            kernels.weighted_relu_sum(*share, k, *parts, out)

        each(run, shares(len(out), k))
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        k, (node_of, event_of, position) = ctx.k, ctx.where
        bias, node, event, mix, weight = arrays(*ctx.saved_tensors)
        (grad_,) = arrays(grad)
        grad_weight = np.zeros_like(weight)
        cuts = shares(len(grad_), k)
        sums = [[np.zeros_like(x) for x in (bias, node, event, mix)] for _ in cuts]  # one set for each thread

        def run(job: tuple[tuple[int, int], list[np.ndarray]]) -> None:
            share, mine = job
            parts = (bias, node, node_of, event, event_of, position, mix, weight)
            kernels.weighted_relu_sum_backward(*share, k, *parts, grad_, *mine, grad_weight)  # type: ignore[call-arg]

        each(run, list(zip(cuts, sums, strict=True)))
        for more in sums[1:]:
            for mine, other in zip(sums[0], more, strict=True):
                mine += other
        to_bias, to_node, to_event, to_mix = (torch.from_numpy(x) for x in sums[0])
        return None, to_bias, to_node, None, to_event, None, None, to_mix, torch.from_numpy(grad_weight)


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [x.detach().contiguous().numpy() for x in tensors]


def each(run: Any, jobs: list[Any]) -> None:
    if len(jobs) == 1:
        run(jobs[0])
    else:
        list(_pool().map(run, jobs))


class Distinct:
    """Numbers the distinct entries of index arrays without sorting; its table is reused from call to call."""

    def __init__(self) -> None:
        self._table = np.zeros(0, np.int32)

    def __call__(self, values: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct valid values, and for each entry its row among them (0 where it is not valid)."""
        flat, mask = values.ravel(), valid.ravel()
        largest = int(flat.max(initial=0, where=mask))
        if largest >= len(self._table):
            self._table = np.full(max(largest + 1, 2 * len(self._table)), -1, np.int32)
        distinct, where = np.empty(len(flat), np.int64), np.empty(len(flat), np.int32)
        count = kernels.number_distinct(flat, mask, self._table, distinct, where)
        return distinct[:count].copy(), where
