"""One recurrent step of memory as a differentiable operation, without what nobody asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_recurrent
from pintgn.models.fused import arrays
from pintgn.models.kernels import SINES

kernels: Any = kernels_recurrent


class Step:
    """s' = cell(message ‖ cos(frequency · dt + phase), s) of some nodes, the cell a GRU (with 3d gates) or an RNN (with
    d), as `torch.nn.GRUCell` and `RNNCell` define them. Nodes without a pending message stay s.

    Takes the tables of everyone (`memory`, `pending`, `message` and `dt`, a row for each node) and the numbers of those
    in question; a node beyond the tables has zeros. An operation on the parameters only: messages and states are stored
    detached. A message begins with the node's own state s, so the two maps of s that are added without anything between
    merge into one. CPU only.
    """

    def __init__(self, nodes: np.ndarray, memory: Tensor, pending: np.ndarray, message: Tensor, dt: Tensor):
        self.nodes, self.pending, self.tables = nodes, pending, arrays(memory, message, dt)

    def forward(
        self,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        frequency: Tensor,
        phase: Tensor,
    ) -> Tensor:  # (nodes, d)
        weights = arrays(weight_ih, weight_hh, bias_ih, bias_hh, frequency, phase)
        (memory, message, dt), nodes = self.tables, len(self.nodes)
        gates, width, d, kind = len(weight_ih), message.shape[1] + len(phase), memory.shape[1], memory.dtype
        late, since, everyone = np.empty(nodes, np.int64), np.empty(nodes, kind), np.empty((nodes, d), kind)
        room = late, since, *(np.empty((nodes, columns), kind) for columns in (width, gates, d))
        count = kernels.step(self.nodes, memory, self.pending, message, dt, *weights, SINES[kind], *room, everyone)
        self.weights, self.inside = weights, [x[:count] for x in room]
        del self.tables, self.pending  # they move on before `backward`
        return torch.from_numpy(everyone)

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        weight_ih, weight_hh, _, _, frequency, phase = self.weights
        to = [np.empty_like(x) for x in self.weights]
        known = weight_ih, weight_hh, frequency, phase, SINES[weight_ih.dtype], *self.inside
        kernels.step_backward(*arrays(grad), *known, *to)
        return tuple(map(torch.from_numpy, to))
