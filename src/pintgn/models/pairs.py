"""The logit of a link from the embeddings of its ends, where links share ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_pairs
from pintgn.models.fused import Run, arrays
from pintgn.models.layers import MLP, tensor

kernels: Any = kernels_pairs


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
        h_, *self.weights = arrays(h, first, bias, last, last_bias)
        pairs, width, kind = len(self.tree_of) // 2, h_.shape[1], h_.dtype
        rows, places = np.empty((2, 2, pairs), np.int64)
        ends, mapped = np.empty((2, pairs, width), kind), np.empty((2, pairs, len(first)), kind)
        self.shape, out = h_.shape, np.empty(pairs, kind)
        counts = kernels.judge(self.tree_of, h_, *self.weights, rows, places, ends, mapped, out)
        self.inside = counts, rows, places, ends, mapped
        return torch.from_numpy(out)

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        first, _, last, _ = self.weights
        to = [np.empty(self.shape, first.dtype), *map(np.empty_like, self.weights)]
        kernels.judge_backward(*arrays(grad), first, last, *self.inside, *to)
        return tuple(map(torch.from_numpy, to))
