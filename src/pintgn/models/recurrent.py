"""One recurrent step of memory as a differentiable operation, without what nobody asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_recurrent as kernels
from pintgn.models.fused import arrays
from pintgn.models.kernels_attention import SINES, TURN


class Step(torch.autograd.Function):
    """s' = cell(message ‖ cos(frequency · dt + phase), s) of some nodes, the cell a GRU (with 3d gates) or an RNN (with
    d), as `torch.nn.GRUCell` and `RNNCell` define them. Nodes without a pending message stay s.

    Takes the tables of everyone (`memory`, `pending`, `message` and `dt`, a row for each node) and the numbers of those
    in question; a node beyond the tables has zeros. Differentiable in the parameters only: messages and states are
    stored detached. A message begins with the node's own state s, so the two maps of s that are added without anything
    between merge into one.
    """

    @staticmethod
    def forward(
        ctx: Any,
        nodes: np.ndarray,
        memory: Tensor,
        pending: np.ndarray,
        message: Tensor,
        dt: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        frequency: Tensor,
        phase: Tensor,
    ) -> Tensor:  # (nodes, d)
        late, given, own, everyone = _laid_out(nodes, memory, pending, message, dt, frequency, phase)
        d, width = own.shape[1], message.shape[1]
        merged = len(weight_hh) if len(weight_hh) == d else 2 * d  # rows of gates that simply add both maps
        weight, bias = weight_ih.clone(), bias_ih.clone()
        weight[:merged, :d] += weight_hh[:merged]
        bias[:merged] += bias_hh[:merged]
        gates = torch.addmm(bias, given, weight.T)
        kept = None
        if merged == d:
            everyone[late] = gates.tanh_()
        else:
            kept = torch.addmm(bias_hh[merged:], own, weight_hh[merged:].T)
            gates[:, :merged].sigmoid_()
            gates[:, merged:].addcmul_(gates[:, :d], kept).tanh_()
            if memory.device.type == "cpu":
                kernels.gru_end(*arrays(late, gates, own, everyone))
            else:
                everyone[late] = torch.lerp(gates[:, merged:], own, gates[:, d:merged])
        ctx.save_for_backward(weight_ih, weight_hh, frequency, phase)
        ctx.inside = nodes, dt, late, given, own, gates, kept, width, merged
        return everyone

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        weight_ih, weight_hh, frequency, phase = ctx.saved_tensors
        nodes, dt, late, given, own, gates, kept, width, merged = ctx.inside
        d, cpu = own.shape[1], grad.device.type == "cpu"
        to_hh, to_bias_hh = torch.empty_like(weight_hh), torch.empty_like(weight_hh[:, 0])
        if kept is None:
            to_gates = grad.index_select(0, late) * (1 - gates * gates)
            to_bias = to_gates.sum(0)
        elif cpu:
            to_gates, to_kept = torch.empty_like(gates), torch.empty_like(kept)
            to_bias, to_kept_bias = gates.new_zeros(3 * d), gates.new_zeros(d)
            kernels.gru_backward(*arrays(late, grad, gates, kept, own, to_gates, to_kept, to_bias, to_kept_bias))
        else:
            to_gates, to_kept = gru_backward(grad.index_select(0, late), gates, kept, own)
            to_bias, to_kept_bias = to_gates.sum(0), to_kept.sum(0)
        to_ih = to_gates.T @ given
        to_hh[:merged], to_bias_hh[:merged] = to_ih[:merged, :d], to_bias[:merged]
        if kept is not None:
            torch.mm(to_kept.T, own, out=to_hh[merged:])
            to_bias_hh[merged:] = to_kept_bias
        to_waves = to_gates @ weight_ih[:, width:]
        if cpu:
            to_frequency, to_phase = torch.zeros_like(frequency), torch.zeros_like(phase)
            late_, dt_, to_waves_, *sums = arrays(late, dt, to_waves, to_frequency, to_phase)
            turns = arrays(frequency * TURN, phase * TURN)
            fill: Any = kernels.waves_backward
            fill(late_, nodes, dt_, *turns, SINES[turns[0].dtype.name], to_waves_, *sums)
        else:
            since = dt[torch.from_numpy(nodes).to(dt.device)][late]
            to_angle = -to_waves * torch.sin(torch.addcmul(phase, since[:, None], frequency))
            to_frequency, to_phase = since @ to_angle, to_angle.sum(0)
        return *(None,) * 5, to_ih, to_hh, to_bias, to_bias_hh, to_frequency, to_phase


def _laid_out(
    nodes: np.ndarray,
    memory: Tensor,
    pending: np.ndarray,
    message: Tensor,
    dt: Tensor,
    frequency: Tensor,
    phase: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Places of the nodes that a message waits for, what their cells are given, their states; everyone's states."""
    if memory.device.type == "cpu":
        count, d = len(nodes), memory.shape[1]
        places, everyone = np.empty(count, np.int64), memory.new_empty(count, d)
        given, own = memory.new_empty(count, message.shape[1] + len(frequency)), memory.new_empty(count, d)
        memory_, message_, dt_, *turns = arrays(memory, message, dt, frequency * TURN, phase * TURN)
        sine, room = SINES[memory_.dtype.name], arrays(given, own, everyone)
        fill: Any = kernels.lay_out
        count = fill(nodes, memory_, pending, message_, dt_, *turns, sine, places, *room)
        return torch.from_numpy(places[:count]), given[:count], own[:count], everyone
    known = np.flatnonzero(nodes < len(memory))
    waits = torch.from_numpy(np.flatnonzero(pending[nodes[known]])).to(memory.device)
    at, rows = (torch.from_numpy(x).to(memory.device) for x in (known, nodes[known]))
    everyone = memory.new_zeros(len(nodes), memory.shape[1]).index_copy_(0, at, memory[rows])
    late, rows = at[waits], rows[waits]
    waves = torch.cos(torch.addcmul(phase, dt[rows][:, None], frequency))
    return late, torch.cat([message[rows], waves], 1), memory[rows], everyone


def gru_backward(grad: Tensor, gates: Tensor, kept: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the three gates before their bends (n, 3d), and of the kept part of the new state (n, d).

    s' = n + z (s - n), n = tanh(a + r · kept), r and z sigmoids.
    """
    r, z, n = gates.chunk(3, 1)
    to_n = grad * (1 - z) * (1 - n * n)
    to_r, to_z = to_n * kept * r * (1 - r), grad * (state - n) * z * (1 - z)
    return torch.cat([to_r, to_z, to_n], 1), to_n * r
