"""The logit of a link from the embeddings of its ends, where links share ends."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_pairs as kernels
from pintgn.models.fused import Run, arrays
from pintgn.models.layers import MLP, tensor


def judge_pairs(readout: MLP, h: Tensor, tree_of: np.ndarray | None) -> Tensor:  # (q,)
    """readout(h_u ‖ h_v) of pairs, source and destination one after the other: rows of h, or those that `tree_of` says.

    On the CPU the first map, which splits by end, is applied once for each distinct source and destination.
    """
    if tree_of is not None and h.device.type == "cpu":
        return Run.apply(Judgement(tree_of), h, *readout.weights)
    ends = h if tree_of is None else h.index_select(0, tensor(tree_of, h.device))
    return readout(ends.view(-1, 2 * h.shape[1])).squeeze(-1)


class Judgement:
    """w · relu(W_1 h_u + W_2 h_v + b) + b' as an operation on the embeddings and its parameters. CPU only."""

    def __init__(self, tree_of: np.ndarray):
        self.tree_of = tree_of

    def forward(self, h: Tensor, first: Tensor, bias: Tensor, last: Tensor, last_bias: Tensor) -> Tensor:  # (q,)
        count, width = len(self.tree_of) // 2, h.shape[1]
        rows, self.places = np.empty((2, count), np.int64), np.empty((2, count), np.int64)
        sizes = kernels.number_roles(self.tree_of, np.full(len(h), -1), rows, self.places)
        self.roles = [torch.from_numpy(row[:size]) for row, size in zip(rows, sizes, strict=True)]
        self.ends = [h.index_select(0, role) for role in self.roles]
        source, out = torch.addmm(bias, self.ends[0], first[:, :width].T), h.new_empty(count)
        destination = self.ends[1] @ first[:, width:].T
        kernels.judge(self.places, *arrays(source, destination, last, last_bias, out))
        self.weights, self.inside, self.shape = (first, last), (source, destination), h.shape
        return out

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        (first, last), (source, destination) = self.weights, self.inside
        to_ends = [torch.zeros_like(x) for x in (source, destination)]
        sums = [grad.new_zeros(shape) for shape in (len(first), last.shape, 1)]  # of both biases and the last weights
        kernels.judge_backward(self.places, *arrays(source, destination, last, grad, *to_ends, *sums))
        to_h, to_first = grad.new_zeros(self.shape), torch.empty_like(first)
        halves = zip(first.chunk(2, 1), to_first.chunk(2, 1), strict=True)
        for (weight, to_weight), role, end, to_end in zip(halves, self.roles, self.ends, to_ends, strict=True):
            torch.mm(to_end.T, end, out=to_weight)
            to_h.index_add_(0, role, to_end @ weight)
        return to_h, to_first, *sums
