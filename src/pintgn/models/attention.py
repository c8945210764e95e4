"""Temporal attention over a node's neighbors: a fused operation, and the layer that TGAT and TGN share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.errors import BadInput
from pintgn.models import kernels_attention
from pintgn.models.fused import Run, arrays, each, shares
from pintgn.models.kernels import SINES
from pintgn.models.layers import MLP, Edges, Places, TimeEncoding, tensor

kernels: Any = kernels_attention  # compiled: their arguments are not for mypy to check


class Attention:
    """out[h, p] = Σ over the k slots of p of softmax(leaky(query[h, r] · c + offset[h, r])) · c with r = own_of[p]; see
    the kernels for what c is. Several threads share the parents. CPU only."""

    def __init__(
        self,
        where: Where,
        query: np.ndarray,  # (h, rows, c)
        table: np.ndarray,  # (n', s)
        frequency: np.ndarray,  # (w,)
        phase: np.ndarray,  # (w,)
        offset: np.ndarray | None = None,  # (h, rows)
        slope: float = 1.0,
    ):
        self.k, kind = where.k, query.dtype
        offset = np.zeros(query.shape[:2], kind) if offset is None else offset
        self.summed = query, table, frequency, phase, offset
        self.parts = (
            query, where.own_of, offset, kind.type(slope), table, where.row_of, where.events, where.event_of,
            where.positions.astype(kind, copy=False), where.dt.astype(kind, copy=False), where.mask, frequency, phase,
            SINES[kind],
        )  # fmt: skip
        parents, (heads, _, width) = len(where.own_of), query.shape
        self.out, self.weight = np.empty((heads, parents, width), kind), np.empty((heads, parents, self.k), kind)
        each(lambda share: kernels.attend(*share, self.k, *self.parts, self.out, self.weight), shares(parents, self.k))

    def backward(self, grad: np.ndarray, to_table: np.ndarray | None = None) -> list[np.ndarray]:
        """Gradients of query, table, frequency, phase and offset; that of the table is added to the one given."""
        query, table, *rest = self.summed
        sums = [np.zeros_like(query), np.zeros_like(table) if to_table is None else to_table, *map(np.zeros_like, rest)]
        jobs = [(share, sums) for share in shares(grad.shape[1], self.k)]
        jobs[1:] = [(share, [np.zeros_like(x) for x in sums]) for share, _ in jobs[1:]]  # every thread its own
        each(lambda job: kernels.attend_backward(*job[0], self.k, *self.parts, self.weight, grad, *job[1]), jobs)
        for _, more in jobs[1:]:
            for mine, other in zip(sums, more, strict=True):
                mine += other
        return sums


class AttentionLayer(nn.Module):
    """One step of temporal attention (paper, appendix A; TGAT), from all places to the first ones.

        c_u = h_u ‖ e ‖ φ(t - t')        q = [h_v ‖ φ(0)] W_q     K = C W_K     V = C W_V
        h̃_v = softmax(q Kᵀ / √width) V per head, heads side by side        h_v = MLP(h_v ‖ h̃_v)

    h̃_v = 0 for a node without neighbors. On the CPU it is computed without waste, by rewrites that change nothing but
    rounding: q Kᵀ = (q W_Kᵀ) Cᵀ and softmax(·) V = (softmax(·) C) W_V, so that keys and values are never formed;
    parents that share a state share a query; what remains per slot is one fused loop. Elsewhere, or with
    `fused = False`, it is computed as written.
    """

    fused = True

    def __init__(self, state: int, positions: int, features: int, waves: int, dim: int, heads: int):
        super().__init__()
        if dim % heads:
            raise BadInput(f"heads={heads}; the number of heads must divide dim={dim}.")
        self.heads, self.own = heads, state + positions
        width = state + features + positions + waves
        self.query = nn.Linear(self.own + waves, dim, bias=False)
        self.key = nn.Linear(width, dim, bias=False)
        self.value = nn.Linear(width, dim, bias=False)
        self.update = MLP(self.own + dim, dim, dim)

    def forward(self, places: Places, edges: Edges, time: TimeEncoding) -> Tensor:  # (edges.parents, d)
        if self.fused and edges.dt.device.type == "cpu":
            return self._fused(places, edges, time)
        own = places.first(edges.parents).dense()
        c = written_out(edges.seen(places), edges, time)
        now = torch.cos(time.phase).expand(len(own), -1)  # φ(0)
        query = self.query(torch.cat([own, now], -1)).view(len(own), 1, self.heads, -1)
        key, value = (x(c).view(len(own), edges.k, self.heads, -1) for x in (self.key, self.value))
        scores = (query * key).sum(-1) / math.sqrt(query.shape[-1])  # (p, k, h)
        weight = masked_softmax(scores, edges.mask.view(-1, edges.k, 1), 1)
        return self.update(torch.cat([own, (weight[..., None] * value).sum(1).flatten(1)], -1))

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """Parameters in the order of `AttentionStep`."""
        first = self.update.first
        return self.query.weight, self.key.weight, self.value.weight, first.weight, first.bias

    def _fused(self, places: Places, edges: Edges, time: TimeEncoding) -> Tensor:
        known, own_of = each_once(places.first(edges.parents))
        own = known if places.positions.shape[1] else None  # else the first rows of the table say it all
        step = AttentionStep(Where.seen(own_of, places, edges), self.heads)
        return self.update.last(Run.apply(step, own, places.table, *self.weights, time.frequency, time.phase))


def each_once(parents: Places) -> tuple[Tensor, np.ndarray]:
    """What places know, once for those that know the same, and which is whose: (rows, s + p), (parents,).

    Rows are numbered by first appearance, so those of the first places come first.
    """
    if parents.positions.shape[1] or parents.row_of is None:
        return parents.dense(), np.arange(len(parents), dtype=np.int32)
    return parents.table[: int(parents.row_of.max(initial=-1)) + 1], parents.row_of


@dataclass
class Where:
    """Who asks whom: the arrays of an attention step that are data, not parameters. A parent has k slots."""

    own_of: np.ndarray  # (p,) which of the rows that ask
    row_of: np.ndarray  # (slots,) which of the rows that are seen
    positions: np.ndarray  # (slots, r) what else is seen
    mask: np.ndarray  # (slots,) False where nothing is seen
    dt: np.ndarray  # (slots,) how long ago it was met
    event_of: np.ndarray  # (slots,) in which of the events
    events: np.ndarray  # (e', f) their features
    k: int

    @classmethod
    def seen(cls, own_of: np.ndarray, places: Places, edges: Edges) -> Where:
        """Every slot sees the place at its other end."""
        children = edges.seen(places)
        assert children.row_of is not None
        mask, dt = arrays(edges.mask, edges.dt)
        events = np.zeros((1, 0), dt.dtype) if edges.features is None else arrays(edges.features)[0]
        positions = np.ascontiguousarray(children.positions)
        return cls(own_of, children.row_of, positions, mask, dt, edges.event_of, events, edges.k)


class Attend:
    """`Attention` without time, as an operation on query, offset and table. CPU only."""

    def __init__(self, where: Where, slope: float):
        self.where, self.slope = where, slope

    def forward(self, query: Tensor, offset: Tensor, table: Tensor) -> Tensor:  # (h, p, c)
        query_, offset_, table_ = arrays(query, offset, table)
        none = np.zeros(0, query_.dtype)
        self.attention = Attention(self.where, query_, table_, none, none, offset_, self.slope)
        return torch.from_numpy(self.attention.out)

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        query, table, _, _, offset = map(torch.from_numpy, self.attention.backward(*arrays(grad)))
        return query, offset, table


class AttentionStep:
    """`AttentionLayer` up to the ReLU of its MLP, as an operation on what the parents (own) and the children (table)
    know, and the layer's parameters so far.

    Without `own` the parents know what the first rows of the table say. CPU only.
    """

    def __init__(self, where: Where, heads: int):
        self.where, self.heads = where, heads

    def forward(
        self,
        own: Tensor | None,
        table: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        first: Tensor,
        bias: Tensor,
        frequency: Tensor,
        phase: Tensor,
    ) -> Tensor:  # (p, d)
        self.known = arrays(table, query, key, value, first, bias, frequency, phase)
        table_, query_, key_, value_, first_, bias_, frequency_, phase_ = self.known
        own_of, kind, (dim, inside) = self.where.own_of, table_.dtype, key_.shape
        self.shared = own is None
        self.own = table_[: int(own_of.max(initial=-1)) + 1] if own is None else arrays(own)[0]
        self.q, asks = np.empty((len(self.own), dim), kind), np.empty((self.heads, len(self.own), inside), kind)
        kernels.ask(self.own, query_, key_, phase_, self.q, asks)
        self.attention = Attention(self.where, asks, table_, frequency_, phase_)
        self.seen, self.z = np.empty((len(own_of), dim), kind), np.empty((len(own_of), dim), kind)
        kernels.answer(self.own, own_of, self.attention.out, value_, first_, bias_, self.seen, self.z)
        return torch.from_numpy(self.z)

    def backward(self, grad: Tensor) -> tuple[Any, ...]:
        table, query, key, value, first, _, _, phase = self.known
        to_query, to_key, to_value, to_first, to_bias = (np.empty_like(x) for x in self.known[1:-2])
        to_found, to_table = np.empty_like(self.attention.out), np.zeros_like(table)
        to_own = to_table[: len(self.own)] if self.shared else np.zeros_like(self.own)
        kernels.answer_backward(
            *arrays(grad), self.own, self.where.own_of, self.attention.out, value, first, self.seen, self.z, to_own,
            to_found, to_value, to_first, to_bias,
        )  # fmt: skip
        to_asks, _, to_frequency, to_phase, _ = self.attention.backward(to_found, to_table)
        kernels.ask_backward(to_asks, self.own, query, key, phase, self.q, to_own, to_query, to_key, to_phase)
        sums = to_table, to_query, to_key, to_value, to_first, to_bias, to_frequency, to_phase
        return None if self.shared else torch.from_numpy(to_own), *map(torch.from_numpy, sums)


def written_out(children: Places, edges: Edges, time: TimeEncoding | None) -> Tensor:  # (slots, c)
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
