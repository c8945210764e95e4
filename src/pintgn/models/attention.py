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
    """out[p, h] = Σ over the k slots of p of softmax(leaky(query[r, h] · c + offset[r, h])) · c, r = query_of[p].

    Differentiable in query (rows, h, c), offset (rows, h), node (n', s), frequency (w,) and phase (w,); see the kernels
    for what c is. CPU only.
    """

    @staticmethod
    def forward(
        ctx: Any,
        k: int,
        slope: float,
        query: Tensor,
        query_of: np.ndarray,
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
            query_, query_of, offset_, kind(slope), node_, node_of, event_, event_of,
            np.ascontiguousarray(position, kind), dt_, mask_, frequency_, phase_, kernels.SINE.astype(kind),
        )  # fmt: skip
        heads = query_.shape[1]
        out = np.empty((len(query_of), *query_.shape[1:]), kind)
        weight = np.empty((len(query_of), heads, k), kind)
        each(lambda share: kernels.attend(*share, k, *parts, out, weight), shares(len(out), k))
        ctx.k, ctx.parts, ctx.weight = k, parts, weight
        ctx.summed = query_, offset_, node_, frequency_, phase_
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        (grad_,) = arrays(grad)
        jobs = [(share, [np.zeros_like(x) for x in ctx.summed]) for share in shares(len(grad_), ctx.k)]

        def run(job: tuple[tuple[int, int], list[np.ndarray]]) -> None:
            share, mine = job  # every thread adds up its own
            kernels.attend_backward(*share, ctx.k, *ctx.parts, ctx.weight, grad_, *mine)

        each(run, jobs)
        for _, more in jobs[1:]:
            for mine, other in zip(jobs[0][1], more, strict=True):
                mine += other
        query, offset, node, frequency, phase = map(torch.from_numpy, jobs[0][1])
        return None, None, query, None, offset, node, *(None,) * 6, frequency, phase


class AttentionLayer(nn.Module):
    """One step of temporal attention (paper, appendix A; TGAT), from a level's children to the level.

        c_u = h_u ‖ e ‖ φ(t - t')        q = [h_v ‖ φ(0)] W_q     K = C W_K     V = C W_V
        h̃_v = softmax(q Kᵀ / √width) V per head, heads side by side        h_v = MLP(h_v ‖ h̃_v)

    h̃_v = 0 for a node without neighbors. On the CPU it is computed without waste, by rewrites that change nothing but
    rounding: q Kᵀ = (q W_Kᵀ) Cᵀ and softmax(·) V = (softmax(·) C) W_V, so that keys and values are never formed; W_q
    merges with W_K, and W_V with the first map of the MLP; parents that share a state share a query; what remains per
    slot is one fused loop. Elsewhere, or with `fused = False`, it is computed as written.
    """

    fused = True

    def __init__(self, state: int, positions: int, features: int, waves: int, dim: int, heads: int):
        super().__init__()
        self.heads, self.own = heads, state + positions
        width = state + features + positions + waves
        self.query = nn.Linear(self.own + waves, dim, bias=False)
        self.key = nn.Linear(width, dim, bias=False)
        self.value = nn.Linear(width, dim, bias=False)
        self.update = MLP(self.own + dim, dim, dim)

    def forward(self, parents: Slots, children: Slots, edges: Edges, time: TimeEncoding) -> Tensor:  # (parent slots, d)
        if self.fused and edges.dt.device.type == "cpu":
            return self._fused(parents, children, edges, time)
        own, k = parents.dense(), len(children.row_of) // len(parents.row_of)
        c = written_out(children, edges, time)
        now = torch.cos(time.phase).expand(len(own), -1)  # φ(0)
        query = self.query(torch.cat([own, now], -1)).view(len(own), 1, self.heads, -1)
        key, value = (x(c).view(len(own), k, self.heads, -1) for x in (self.key, self.value))
        scores = (query * key).sum(-1) / math.sqrt(query.shape[-1])  # (p, k, h)
        weight = masked_softmax(scores, edges.mask.view(-1, k, 1), 1)
        return self.update(torch.cat([own, (weight[..., None] * value).sum(1).flatten(1)], -1))

    def _fused(self, parents: Slots, children: Slots, edges: Edges, time: TimeEncoding) -> Tensor:
        k = len(children.row_of) // len(parents.row_of)
        rows, row_of = each_once(parents)
        asks, key, value = (x.weight.view(self.heads, -1, x.in_features) for x in (self.query, self.key, self.value))
        asks = asks.transpose(1, 2) @ key / math.sqrt(key.shape[1])  # (h, own + waves, c)
        asks = asks.transpose(0, 1).flatten(1)  # (own + waves, h c)
        query = torch.addmm(torch.cos(time.phase) @ asks[self.own :], rows, asks[: self.own])
        seen = attend(k, query.view(len(rows), self.heads, -1), row_of, None, 1.0, children, edges, time)
        from_own, from_seen = self.update.first.weight.split([self.own, self.query.out_features], 1)
        from_seen = from_seen.view(-1, self.heads, value.shape[1]).transpose(0, 1) @ value  # (h, d, c)
        z = torch.addmm(self.update.first.bias, rows, from_own.T).index_select(0, tensor(row_of))
        z = torch.addmm(z, seen.flatten(1), from_seen.transpose(0, 1).flatten(1).T)
        return self.update.last(torch.relu(z))


def each_once(slots: Slots) -> tuple[Tensor, np.ndarray]:
    """What slots know, once for those that know the same, and which is whose: (rows, s + p), (slots,)."""
    if slots.positions.shape[1] or len(slots.table) >= len(slots.row_of):
        return slots.dense(), np.arange(len(slots.row_of), dtype=np.int32)
    return slots.table, slots.row_of


def attend(
    k: int,
    query: Tensor,
    query_of: np.ndarray,
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
        query_of,
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


def masked_softmax(scores: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """Softmax along an axis over what the mask shows; zeros where it shows nothing."""
    # the least number instead of -inf: where nothing shows, the gradient is 0 and not 0/0
    weight = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(axis)
    return weight * mask
