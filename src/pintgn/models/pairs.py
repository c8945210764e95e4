"""The logit of a link from the embeddings of its ends, where links share ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_pairs as kernels
from pintgn.models.fused import arrays
from pintgn.models.layers import MLP, tensor


def judge_pairs(readout: MLP, h: Tensor, tree_of: np.ndarray | None) -> Tensor:  # (q,)
    """readout(h_u ‖ h_v) of pairs, source and destination one after the other: rows of h, or those that `tree_of` says.

    On the CPU the first map, which splits by end, is applied once for each distinct source and destination.
    """
    if tree_of is not None and h.device.type == "cpu":
        first, last = readout.first, readout.last
        return Judgement.apply(tree_of, h, first.weight, first.bias, last.weight, last.bias)
    ends = h if tree_of is None else h.index_select(0, tensor(tree_of, h.device))
    return readout(ends.view(-1, 2 * h.shape[1])).squeeze(-1)


class Judgement(torch.autograd.Function):
    """w · relu(W_1 h_u + W_2 h_v + b) + b' with its derivative written out. CPU only."""

    @staticmethod
    def forward(
        ctx: Any, tree_of: np.ndarray, h: Tensor, first: Tensor, bias: Tensor, last: Tensor, last_bias: Tensor
    ) -> Tensor:  # (q,)
        count, width = len(tree_of) // 2, h.shape[1]
        rows, places = np.empty((2, count), np.int64), np.empty((2, count), np.int64)
        sizes = kernels.number_roles(tree_of, np.full(len(h), -1), rows, places)
        roles = [torch.from_numpy(row[:size]) for row, size in zip(rows, sizes, strict=True)]
        ends = [h.index_select(0, role) for role in roles]
        source = torch.addmm(bias, ends[0], first[:, :width].T)
        destination = ends[1] @ first[:, width:].T
        out = h.new_empty(count)
        kernels.judge(places, *arrays(source, destination, last[0], out))
        ctx.save_for_backward(h, first, last)
        ctx.inside = roles, ends, places, source, destination
        return out.add_(last_bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        h, first, last = ctx.saved_tensors
        roles, ends, places, source, destination = ctx.inside
        width = h.shape[1]
        to_ends, to_last = [torch.zeros_like(source), torch.zeros_like(destination)], torch.zeros_like(last)
        known = arrays(source, destination, last[0], grad)
        kernels.judge_backward(places, *known, *arrays(*to_ends, to_last[0]))
        to_h, to_first = torch.zeros_like(h), torch.empty_like(first)
        for role, end, to, part in zip(roles, ends, to_ends, (slice(0, width), slice(width, None)), strict=True):
            torch.mm(to.T, end, out=to_first[:, part])
            to_h.index_add_(0, role, to @ first[:, part])
        return None, to_h, to_first, to_ends[0].sum(0), to_last, grad.sum(0, keepdim=True)
