"""Fused steps of autograd: functions with hand-written derivatives, their work shared out among threads.

Autograd of many small steps costs more than the steps. A function keeps what `backward` needs: views of the tensors it
is given and of what it returns (`save_for_backward` refuses when they have changed since), copies of everything else
that others may write to. `backward` may be called several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pintgn.models import kernels_messages

kernels: Any = kernels_messages  # compiled: their arguments are not for mypy to check

WORTH_A_THREAD = 20_000
"""Slots below which a second thread costs more than it brings."""


class WeightedReluSum(torch.autograd.Function):
    """out[p] = Σ over the k slots of p of weight · relu(row[row_of] + event[event_of] + own · mix).

    Of row (n, d), event (e', d), mix (c, d) and weight (slots,); see the kernels for what the parts are. CPU only.
    """

    @staticmethod
    def forward(
        ctx: Any, row: Tensor, event: Tensor, mix: Tensor, weight: Tensor, k: int, row_of: np.ndarray,
        event_of: np.ndarray, own: np.ndarray,
    ) -> Tensor:  # (parents, d)  # fmt: skip
        row_, event_, mix_, weight_ = arrays(row, event, mix, weight)
        parts = row_, row_of, event_, event_of, own, mix_, weight_
        out = np.empty((len(weight_) // k, row_.shape[1]), row_.dtype)
        in_chunks(lambda first, last: kernels.weighted_relu_sum(first, last, k, *parts, out), len(out), k)
        made = torch.from_numpy(out)
        ctx.parts, ctx.k, ctx.learned = parts, k, weight.requires_grad
        ctx.save_for_backward(row, event, mix, weight, made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _ = ctx.saved_tensors  # refuses when one of them was changed since
        row, _, event, _, _, mix, weight = parts = ctx.parts
        (grad_,), to_weight = arrays(grad), np.zeros(len(weight) if ctx.learned else 0, weight.dtype)
        run = kernels.weighted_relu_sum_backward
        sums = in_chunks(
            lambda first, last, *sums: run(first, last, ctx.k, *parts, grad_, *sums, to_weight),
            len(grad_), ctx.k, (row, event, mix),
        )  # fmt: skip
        return *sums, torch.from_numpy(to_weight) if ctx.learned else None, None, None, None, None


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [(x.detach() if x.requires_grad else x).contiguous().numpy() for x in tensors]


def in_chunks(run: Callable[..., Any], parents: int, k: int, like: Sequence[np.ndarray] = ()) -> list[Tensor]:
    """Call run(first, last, *sums) for one chunk of the parents per thread; as many threads as torch may use.

    Every thread has sums of its own, which begin as zeros `like` some arrays; returns all threads' sums together.
    """
    threads = min(torch.get_num_threads(), max(1, parents * k // WORTH_A_THREAD))
    sums = [[np.zeros_like(x) for x in like] for _ in range(threads)]
    if threads == 1:
        run(0, parents, *sums[0])
    else:
        bounds = np.linspace(0, parents, threads + 1).astype(int).tolist()
        list(_pool().map(run, bounds[:-1], bounds[1:], *zip(*sums, strict=True)))
    for more in sums[1:]:
        for mine, other in zip(sums[0], more, strict=True):
            mine += other
    return [torch.from_numpy(total) for total in sums[0]]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="pintgn-fused")
