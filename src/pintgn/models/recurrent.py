"""One recurrent step of memory as a differentiable operation, without what nobody asks for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pintgn.models import kernels_recurrent as kernels
from pintgn.models.fused import arrays


class Step(torch.autograd.Function):
    """s' = cell(message ‖ cos(frequency · dt + phase), s), the cell a GRU (with 3d gates) or an RNN (with d), as
    `torch.nn.GRUCell` and `RNNCell` define them. With `late` only those rows take the step; the others stay s.

    Differentiable in the parameters only: messages and states are stored detached. A message begins with the node's own
    state s, so the two maps of s that are added without anything between merge into one.
    """

    @staticmethod
    def forward(
        ctx: Any,
        late: Tensor | None,
        message: Tensor,
        dt: Tensor,
        state: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
        frequency: Tensor,
        phase: Tensor,
    ) -> Tensor:  # (n, d)
        everyone = state
        if late is not None:
            message, dt, state = (x.index_select(0, late) for x in (message, dt, state))
        d, width = state.shape[1], message.shape[1]
        merged = len(weight_hh) if len(weight_hh) == d else 2 * d  # rows of gates that simply add both maps
        from_message, bias = weight_ih[:, :width].clone(), bias_ih.clone()
        from_message[:merged, :d] += weight_hh[:merged]
        bias[:merged] += bias_hh[:merged]
        angle = torch.addcmul(phase, dt[:, None], frequency)
        waves = torch.cos(angle)
        gates = torch.addmm(bias, message, from_message.T).addmm_(waves, weight_ih[:, width:].T)
        kept = None
        if merged == d:
            new = gates.tanh_()
        else:
            kept = torch.addmm(bias_hh[merged:], state, weight_hh[merged:].T)
            gates[:, :merged].sigmoid_()
            gates[:, merged:].addcmul_(gates[:, :d], kept).tanh_()
            new = torch.lerp(gates[:, merged:], state, gates[:, d:merged])
        ctx.save_for_backward(message, dt, state, weight_ih, weight_hh, frequency, phase)
        ctx.inside = late, merged, angle, waves, gates, kept
        return new if late is None else everyone.index_copy(0, late, new)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        message, dt, state, weight_ih, weight_hh, _, _ = ctx.saved_tensors
        late, merged, angle, waves, gates, kept = ctx.inside
        if late is not None:
            grad = grad.index_select(0, late)
        width = message.shape[1]
        to_hh, to_bias_hh = torch.empty_like(weight_hh), torch.empty_like(weight_hh[:, 0])
        if kept is None:
            to_gates = grad * (1 - gates * gates)
        elif grad.device.type == "cpu":
            to_gates, to_kept = torch.empty_like(gates), torch.empty_like(kept)
            kernels.gru_backward(*arrays(grad, gates, kept, state, to_gates, to_kept))
        else:
            to_gates, to_kept = gru_backward(grad, gates, kept, state)
        to_ih = torch.empty_like(weight_ih)
        torch.mm(to_gates.T, message, out=to_ih[:, :width])
        torch.mm(to_gates.T, waves, out=to_ih[:, width:])
        to_hh[:merged] = to_ih[:merged, : state.shape[1]]
        to_bias = to_gates.sum(0)
        to_bias_hh[:merged] = to_bias[:merged]
        if kept is not None:
            torch.mm(to_kept.T, state, out=to_hh[merged:])
            torch.sum(to_kept, 0, out=to_bias_hh[merged:])
        to_angle = torch.mm(to_gates, weight_ih[:, width:]).mul_(angle.sin_()).neg_()
        return None, None, None, None, to_ih, to_hh, to_bias, to_bias_hh, dt @ to_angle, to_angle.sum(0)


def gru_backward(grad: Tensor, gates: Tensor, kept: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the three gates before their bends (n, 3d), and of the kept part of the new state (n, d).

    s' = n + z (s - n), n = tanh(a + r · kept), r and z sigmoids.
    """
    r, z, n = gates.chunk(3, 1)
    to_n = grad * (1 - z) * (1 - n * n)
    to_r, to_z = to_n * kept * r * (1 - r), grad * (state - n) * z * (1 - z)
    return torch.cat([to_r, to_z, to_n], 1), to_n * r
