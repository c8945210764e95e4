"""Temporal attention over a node's neighbors: a fused operation, and the layer that TGAT and TGN share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.models import kernels_attention as kernels
from pintgn.models.fused import arrays, each, shares
from pintgn.models.layers import MLP, Slots, TimeEncoding, tensor
from pintgn.models.message_passing import Edges


class Attend(torch.autograd.Function):
    """out[p, h] = Σ over the k slots of p of softmax(leaky(query[p, h] · c + offset[p, h])) · c; see the kernels.

    Differentiable in query (p, h, c), offset (p, h), node (n', s), frequency (w,) and phase (w,). CPU only.
    """

    @staticmethod
    def forward(
        ctx: Any,
        k: int,
        slope: float,
        query: Tensor,
        offset: Tensor,
        node: Tensor,
        node_of: np.ndarray,
        event: Tensor,
        event_of: np.ndarray,
        position: np.ndarray,
        dt: Tensor,
        mask: Tensor,
        frequency: Tensor,
        phase: Tensor,
    ) -> Tensor:  # (p, h, c)
        query_, offset_, node_, event_, dt_, mask_, frequency_, phase_ = arrays(
            query, offset, node, event, dt, mask, frequency * kernels.TURN, phase * kernels.TURN
        )
        kind = query_.dtype.type
        parts = (
            query_, offset_, kind(slope), node_, node_of, event_, event_of, np.ascontiguousarray(position, kind), dt_,
            mask_, frequency_, phase_, kernels.SINE.astype(kind),
        )  # fmt: skip
        out, weight = np.empty_like(query_), np.empty((*query_.shape[:2], k), kind)
        each(lambda share: kernels.attend(*share, k, *parts, out, weight), shares(len(out), k))
        ctx.k, ctx.parts, ctx.weight = k, parts, weight
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        k, parts, weight = ctx.k, ctx.parts, ctx.weight
        query, offset, node, frequency = parts[0], parts[1], parts[3], parts[10]
        (grad_,) = arrays(grad)
        to_query, to_offset = np.empty_like(query), np.empty_like(offset)
        jobs = [(share, [np.zeros_like(x) for x in (node, frequency, frequency)]) for share in shares(len(query), k)]

        def run(job: tuple[tuple[int, int], list[np.ndarray]]) -> None:
            share, mine = job  # every thread adds up its own
            kernels.attend_backward(*share, k, *parts, weight, grad_, to_query, to_offset, *mine)

        each(run, jobs)
        sums = [sum(found) for found in zip(*(mine for _, mine in jobs), strict=True)]
        to_query_, to_offset_, to_node, to_frequency, to_phase = map(torch.from_numpy, (to_query, to_offset, *sums))
        nothing = (None,) * 6
        return None, None, to_query_, to_offset_, to_node, *nothing, to_frequency, to_phase


class AttentionLayer(nn.Module):
    """One step of temporal attention (paper, appendix A; TGAT), from a level's children to the level.

        c_u = h_u ‖ e ‖ φ(t - t')        q = [h_v ‖ φ(0)] W_q     K = C W_K     V = C W_V
        h̃_v = softmax(q Kᵀ / √width) V per head, heads side by side        h_v = MLP(h_v ‖ h̃_v)

    h̃_v = 0 for a node without neighbors. On the CPU, keys and values are never formed: q Kᵀ = (q W_Kᵀ) Cᵀ and
    softmax(·) V = (softmax(·) C) W_V, so that per slot only one fused loop remains. Elsewhere, or with `fused = False`,
    it is computed as written.
    """

    fused = True

    def __init__(self, state: int, positions: int, features: int, waves: int, dim: int, heads: int):
        super().__init__()
        self.heads, self.own = heads, [state, positions, waves]
        width = state + features + positions + waves
        self.query = nn.Linear(state + positions + waves, dim, bias=False)
        self.key = nn.Linear(width, dim, bias=False)
        self.value = nn.Linear(width, dim, bias=False)
        self.update = MLP(state + positions + dim, dim, dim)

    def forward(self, parents: Slots, children: Slots, edges: Edges, time: TimeEncoding) -> Tensor:  # (parent slots, d)
        k = len(children.row_of) // len(parents.row_of)
        own = parents.dense()
        query = nn.functional.linear(own, self.query.weight[:, : own.shape[1]])
        query = query + self.query.weight[:, own.shape[1] :] @ torch.cos(time.phase)  # φ(0)
        query = self._by_head(query) / math.sqrt(query.shape[1] // self.heads)  # (h, p, d/h)
        key, value = (x.weight.view(self.heads, -1, x.weight.shape[1]) for x in (self.key, self.value))  # (h, d/h, c)
        if self.fused and own.device.type == "cpu":
            asked = (query @ key).transpose(0, 1)  # (p, h, c)
            summed = attend(k, asked, None, 1.0, children, edges, time)
            seen = (summed.transpose(0, 1) @ value.transpose(1, 2)).transpose(0, 1)  # (p, h, d/h)
        else:
            c = written_out(children, edges, time).view(len(own), k, -1)
            scores = torch.einsum("hpd,hdc,pkc->phk", query, key, c)
            weight = masked_softmax(scores, edges.mask.view(-1, 1, k))
            seen = torch.einsum("phk,pkc,hdc->phd", weight, c, value)
        return self.update(torch.cat([own, seen.reshape(len(own), -1)], -1))

    def _by_head(self, x: Tensor) -> Tensor:  # (p, d) -> (h, p, d/h)
        return x.view(len(x), self.heads, -1).transpose(0, 1)


def attend(
    k: int,
    query: Tensor,
    offset: Tensor | None,
    slope: float,
    children: Slots,
    edges: Edges,
    time: TimeEncoding | None,
) -> Tensor:  # (p, h, c)
    """`Attend` on the slots of a level."""
    none = query.new_zeros(0)
    return Attend.apply(
        k,
        slope,
        query,
        query.new_zeros(query.shape[:2]) if offset is None else offset,
        children.table,
        children.row_of,
        query.new_zeros(1, 0) if edges.features is None else edges.features,
        edges.event_of,
        children.positions,
        edges.dt,
        edges.mask,
        none if time is None else time.frequency,
        none if time is None else time.phase,
    )


def written_out(children: Slots, edges: Edges, time: TimeEncoding | None) -> Tensor:  # (slots, c)
    """c of every slot, in the order of the kernels."""
    device = children.table.device
    parts = [children.table[tensor(children.row_of, device)]]
    if edges.features is not None:
        parts.append(edges.features[tensor(edges.event_of, device)])
    parts.append(tensor(children.positions, device))
    if time is not None:
        parts.append(time(edges.dt))
    return torch.cat(parts, -1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax along the last axis over what the mask shows; zeros where it shows nothing."""
    # the least number instead of -inf: where nothing shows, the gradient is 0 and not 0/0
    weight = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weight * mask
