"""One recurrent step of memory as a differentiable operation, without what nobody asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_recurrent as kernels
from pintgn.models.fused import arrays
from pintgn.models.kernels import SINES


class Step:
    """s' = cell(message ‖ cos(frequency · dt + phase), s) of some nodes, the cell a GRU (with 3d gates) or an RNN (with
    d), as `torch.nn.GRUCell` and `RNNCell` define them. Nodes without a pending message stay s.

    Takes the tables of everyone (`memory`, `pending`, `message` and `dt`, a row for each node) and the numbers of those
    in question; a node beyond the tables has zeros. An operation on the parameters only: messages and states are stored
    detached. A message begins with the node's own state s, so the two maps of s that are added without anything between
    merge into one.
    """

    def __init__(self, nodes: np.ndarray, memory: Tensor, pending: np.ndarray, message: Tensor, dt: Tensor):
        self.nodes, self.memory, self.pending, self.message, self.dt = nodes, memory, pending, message, dt
        self.cpu = memory.device.type == "cpu"

    def forward(
        self,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        frequency: Tensor,
        phase: Tensor,
    ) -> Tensor:  # (nodes, d)
        d = self.memory.shape[1]
        late, given, everyone = self._laid_out(frequency, phase)
        own, weight, bias = given[:, :d], torch.empty_like(weight_ih), torch.empty_like(bias_ih)
        merged = d if len(weight_hh) == d else 2 * d  # rows of gates that simply add both maps
        if self.cpu:
            kernels.merge(merged, *arrays(weight_ih, weight_hh, bias_ih, bias_hh, weight, bias))
        else:
            weight.copy_(weight_ih)[:merged, :d] += weight_hh[:merged]
            bias.copy_(bias_ih)[:merged] += bias_hh[:merged]
        gates = torch.addmm(bias, given, weight.T)
        kept = None
        if merged == d:
            everyone[late] = gates.tanh_()
        else:
            kept = torch.addmm(bias_hh[merged:], own, weight_hh[merged:].T)
            gates[:, :merged].sigmoid_()
            gates[:, merged:].addcmul_(gates[:, :d], kept).tanh_()
            if self.cpu:
                kernels.gru_end(*arrays(late, gates, given, everyone))
            else:
                everyone[late] = torch.lerp(gates[:, merged:], own, gates[:, d:merged])
        self.weights, self.inside = (weight_ih, weight_hh, frequency, phase), (late, given, gates, kept)
        return everyone

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        (weight_ih, weight_hh, frequency, phase), (late, given, gates, kept) = self.weights, self.inside
        d, width = self.memory.shape[1], self.message.shape[1]
        own, merged = given[:, :d], d if kept is None else 2 * d
        to_hh, to_bias_hh = torch.empty_like(weight_hh), torch.empty_like(weight_hh[:, 0])
        if kept is None:
            to_gates = grad.index_select(0, late) * (1 - gates * gates)
            to_bias = to_gates.sum(0)
        elif self.cpu:
            to_gates, to_kept = torch.empty_like(gates), torch.empty_like(kept)
            to_bias, to_kept_bias = gates.new_zeros(3 * d), gates.new_zeros(d)
            kernels.gru_backward(*arrays(late, grad, gates, kept, given, to_gates, to_kept, to_bias, to_kept_bias))
        else:
            to_gates, to_kept = gru_backward(grad.index_select(0, late), gates, kept, own)
            to_bias, to_kept_bias = to_gates.sum(0), to_kept.sum(0)
        to_ih = to_gates.T @ given
        to_hh[:merged], to_bias_hh[:merged] = to_ih[:merged, :d], to_bias[:merged]
        if kept is not None:
            torch.mm(to_kept.T, own, out=to_hh[merged:])
            to_bias_hh[merged:] = to_kept_bias
        to_waves = to_gates @ weight_ih[:, width:]
        if self.cpu:
            to_frequency, to_phase = torch.zeros_like(frequency), torch.zeros_like(phase)
            known = arrays(late, self.dt, frequency, phase, to_waves)
            kernels.waves_backward(self.nodes, SINES[known[-1].dtype], *known, *arrays(to_frequency, to_phase))
        else:
            since = self.dt[torch.from_numpy(self.nodes).to(grad.device)][late]
            to_angle = -to_waves * torch.sin(torch.addcmul(phase, since[:, None], frequency))
            to_frequency, to_phase = since @ to_angle, to_angle.sum(0)
        return to_ih, to_hh, to_bias, to_bias_hh, to_frequency, to_phase

    def _laid_out(self, frequency: Tensor, phase: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Places of the nodes that a message waits for, what their cells are given; everyone's states."""
        nodes, memory, message = self.nodes, self.memory, self.message
        count, d = len(nodes), memory.shape[1]
        if self.cpu:
            places, everyone = np.empty(count, np.int64), memory.new_empty(count, d)
            given = memory.new_empty(count, message.shape[1] + len(frequency))
            memory_, *rest = arrays(memory, message, self.dt, frequency, phase)
            fill: Any = kernels.lay_out
            room = arrays(given, everyone)
            count = fill(nodes, memory_, self.pending, *rest, SINES[memory_.dtype], places, *room)
            return torch.from_numpy(places[:count]), given[:count], everyone
        known = np.flatnonzero(nodes < len(memory))
        waits = torch.from_numpy(np.flatnonzero(self.pending[nodes[known]])).to(memory.device)
        at, rows = (torch.from_numpy(x).to(memory.device) for x in (known, nodes[known]))
        everyone = memory.new_zeros(count, d).index_copy_(0, at, memory[rows])
        late, rows = at[waits], rows[waits]
        waves = torch.cos(torch.addcmul(phase, self.dt[rows][:, None], frequency))
        return late, torch.cat([message[rows], waves], 1), everyone


def gru_backward(grad: Tensor, gates: Tensor, kept: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the three gates before their bends (n, 3d), and of the kept part of the new state (n, d).

    s' = n + z (s - n), n = tanh(a + r · kept), r and z sigmoids.
    """
    r, z, n = gates.chunk(3, 1)
    to_n = grad * (1 - z) * (1 - n * n)
    to_r, to_z = to_n * kept * r * (1 - r), grad * (state - n) * z * (1 - z)
    return torch.cat([to_r, to_z, to_n], 1), to_n * r
