"""Temporal attention over a node's neighbors: the fused step, and the layer that TGAT and TGN share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from pintgn.errors import BadInput
from pintgn.models import kernels_attention
from pintgn.models.kernels_trees import SINES
from pintgn.models.layers import MLP, Edges, TimeEncoding, TreeNodes, arrays, in_chunks, tensor

kernels: Any = kernels_attention  # compiled: their arguments are not for mypy to check


def check_heads(heads: int, dim: int) -> None:
    if heads < 1 or dim % heads:
        raise BadInput(f"heads={heads}; the number of heads must divide dim={dim}.")


class AttentionLayer(nn.Module):
    """One step of temporal attention (paper, appendix A; TGAT), from all tree nodes to the first ones.

        c_u = h_u ‖ e ‖ φ(t - t')        q = [h_v ‖ φ(0)] W_q     K = C W_K     V = C W_V
        h̃_v = softmax(q Kᵀ / √width) V per head, heads side by side        h_v = MLP(h_v ‖ h̃_v)

    h̃_v = 0 for a node without neighbors. On the CPU it is computed without waste, by rewrites that change nothing but
    rounding: q Kᵀ = (q W_Kᵀ) Cᵀ and softmax(·) V = (softmax(·) C) W_V, so that keys and values are never formed;
    parents that share a state share a query; what remains per slot is one fused loop. Elsewhere, or with
    `fused = False`, it is computed as written.
    """

    fused = True

    def __init__(self, state: int, positions: int, features: int, time_dim: int, dim: int, heads: int):
        super().__init__()
        self.heads, self.own = heads, state + positions
        width = state + features + positions + time_dim
        self.query = nn.Linear(self.own + time_dim, dim, bias=False)
        self.key = nn.Linear(width, dim, bias=False)
        self.value = nn.Linear(width, dim, bias=False)
        self.update = MLP(self.own + dim, dim, dim)

    def forward(self, nodes: TreeNodes, edges: Edges, time: TimeEncoding) -> Tensor:  # (edges.parents, d)
        if self.fused and edges.dt.device.type == "cpu":
            return self._fused(nodes, edges, time)
        own = nodes.first(edges.parents).dense()
        c = reference(edges.seen(nodes), edges, time)
        now = torch.cos(time.phase).expand(len(own), -1)  # φ(0)
        query = self.query(torch.cat([own, now], -1)).view(len(own), 1, self.heads, -1)
        key, value = (x(c).view(len(own), edges.k, self.heads, -1) for x in (self.key, self.value))
        scores = (query * key).sum(-1) / math.sqrt(query.shape[-1])  # (p, k, h)
        weight = masked_softmax(scores, edges.mask.view(-1, edges.k, 1), 1)
        return self.update(torch.cat([own, (weight[..., None] * value).sum(1).flatten(1)], -1))

    def _fused(self, nodes: TreeNodes, edges: Edges, time: TimeEncoding) -> Tensor:
        own, own_of = distinct_rows(nodes.first(edges.parents))  # (rows, s + p)
        key, value = (x.weight.view(self.heads, -1, x.in_features) for x in (self.key, self.value))  # (h, d/h, c)
        of_state, of_time = self.query.weight.split([self.own, len(time.phase)], 1)
        q = linear(own, of_state, of_time @ torch.cos(time.phase)) / math.sqrt(key.shape[1])
        asked = q.view(len(own), self.heads, -1).transpose(0, 1) @ key  # (h, rows, c)
        offset = asked.new_zeros(asked.shape[:2])
        inputs = AttentionInputs.seen(own_of, nodes, edges)
        found = Attend.apply(asked, offset, nodes.table, time.frequency, time.phase, inputs, 1.0)
        seen = (found @ value.transpose(1, 2)).transpose(0, 1).flatten(1)  # (parents, d)
        first = self.update.first
        by_own, by_seen = first.weight.split([self.own, len(first.bias)], 1)
        z = linear(seen, by_seen, first.bias) + (own @ by_own.T).index_select(0, tensor(own_of))
        return self.update.last(torch.relu(z))


def distinct_rows(parents: TreeNodes) -> tuple[Tensor, np.ndarray]:
    """The distinct inputs of tree nodes, and the row of each node: (rows, s + p), (parents,).

    Rows are numbered by first appearance, so those of the first nodes come first.
    """
    if parents.positions.shape[1] or parents.row_of is None:
        return parents.dense(), np.arange(len(parents), dtype=np.int32)
    return parents.table[: int(parents.row_of.max(initial=-1)) + 1], parents.row_of


@dataclass
class AttentionInputs:
    """Arrays of an attention step that are data, not parameters. A parent has k slots."""

    own_of: np.ndarray  # (p,) which of the rows that ask
    row_of: np.ndarray  # (slots,) which of the rows that are seen
    positions: np.ndarray  # (slots, r) what else is seen
    mask: np.ndarray  # (slots,) False where nothing is seen
    dt: np.ndarray  # (slots,) how long ago it was met
    event_of: np.ndarray  # (slots,) in which of the events
    events: np.ndarray  # (e', f) their features
    k: int

    @classmethod
    def seen(cls, own_of: np.ndarray, nodes: TreeNodes, edges: Edges) -> AttentionInputs:
        """Every slot sees the tree node at its other end."""
        children = edges.seen(nodes)
        assert children.row_of is not None
        mask, dt = arrays(edges.mask, edges.dt)
        events = np.zeros((1, 0), dt.dtype) if edges.features is None else arrays(edges.features)[0]
        positions = np.ascontiguousarray(children.positions)
        return cls(own_of, children.row_of, positions, mask, dt, edges.event_of, events, edges.k)


class Attend(torch.autograd.Function):
    """out[h, p] = Σ over the k slots of p of softmax(leaky(query[h, r] · c + offset[h, r])) · c with r = own_of[p]; see
    the kernels for what c is.

    Of query (h, rows, c), offset (h, rows), table (n', s), frequency and phase (w,), data and the slope of the leaky
    ReLU. Several threads share the parents. CPU only.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, offset: Tensor, table: Tensor, frequency: Tensor, phase: Tensor,
        inputs: AttentionInputs, slope: float,
    ) -> Tensor:  # (h, parents, c)  # fmt: skip
        ctx.operands = query_, offset_, table_, frequency_, phase_ = arrays(query, offset, table, frequency, phase)
        kind, k = query_.dtype, inputs.k
        ctx.k, ctx.parts = k, (
            query_, inputs.own_of, offset_, kind.type(slope), table_, inputs.row_of, inputs.events, inputs.event_of,
            inputs.positions.astype(kind, copy=False), inputs.dt.astype(kind, copy=False), inputs.mask, frequency_,
            phase_, SINES[kind],
        )  # fmt: skip
        parents, (heads, _, width) = len(inputs.own_of), query_.shape
        out, ctx.weight = np.empty((heads, parents, width), kind), np.empty((heads, parents, k), kind)
        in_chunks(lambda first, last: kernels.attend(first, last, k, *ctx.parts, out, ctx.weight), parents, k)
        made = torch.from_numpy(out)
        ctx.save_for_backward(query, offset, table, frequency, phase, made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _ = ctx.saved_tensors  # refuses when one of them was changed since
        (grad_,), run = arrays(grad), kernels.attend_backward
        sums = in_chunks(
            lambda first, last, *sums: run(first, last, ctx.k, *ctx.parts, ctx.weight, grad_, *sums),
            grad_.shape[1], ctx.k, ctx.operands,
        )  # fmt: skip
        return *sums, None, None


def reference(children: TreeNodes, edges: Edges, time: TimeEncoding | None) -> Tensor:  # (slots, c)
    """c of every slot, in the order of the kernels."""
    device = children.table.device
    parts = [children.spread(children.table)]
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
