"""GAT and GraphSAGE: message passing on the static graph of past events, without time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.models.attention import Attend, AttentionInputs, check_heads, distinct_rows, masked_softmax, reference
from pintgn.models.history_view import HistoryView
from pintgn.models.layers import Edges, InjectiveLayer, TreeNodes
from pintgn.models.message_passing import TreeModel
from pintgn.models.trees import Trees


@dataclass(eq=False, repr=False)
class Static(TreeModel):
    """Base of GAT and GraphSAGE: neighbors drawn from the events before min(t, freeze), without time.

    The graph of a query is made of the events strictly before min(t, freeze), repeats as parallel edges: a model frozen
    at the end of training sees what was there then, for ever. Node features and event features are all it can use.

    Args:
        dim, layers, neighbors: see `TreeModel`.
        freeze: the time at which the graph stops growing, in the log's own unit; None: never. "train": when training
            ends, which `prepare` fills in.
        sample: `uniform`, each neighbor equally likely, drawn by a key that depends on min(t, freeze) and not on
            order, batch or node numbers; or `recent`.
        draw_seed: of the neighbors.
    """

    layers: int = 2
    sample: str = "uniform"
    draw_seed: int = 0
    freeze: float | str | None = None
    positions: int = field(default=0, init=False)
    positions_at: str = field(default="input", init=False)
    positions_transform: str = field(default="log1p", init=False)
    memory: int = field(default=0, init=False)
    memory_cell: str = field(default="identity", init=False)
    memory_aggregate: str = field(default="last", init=False)
    time_unit: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.freeze, str) and self.freeze != "train":
            raise BadInput(f'freeze={self.freeze!r}; it is a time, "train", or None for never.')

    def prepare(self, train: EventLog) -> None:
        super().prepare(train)
        if self.freeze == "train":  # just after the last event: a query sees what is strictly before
            last = train.t[-1]
            self.freeze = (last + 1 if train.t.dtype.kind == "i" else np.nextafter(last, np.inf)).item()

    def gather_nodes(self, nodes: np.ndarray, history: HistoryView) -> Trees:
        if isinstance(self.freeze, str):
            raise BadInput(f'{type(self).__name__}(freeze="train") needs the training events: call prepare(train).')
        return super().gather_nodes(nodes, history.until(self.freeze))


class GraphSAGE(Static):
    """GraphSAGE with mean pooling: h_v = MLP_upd(h_v ‖ mean_u MLP_agg(h_u ‖ e)) over sampled neighbors u.

    Its pooling aggregator with a mean in place of the maximum (its paper finds no difference), and event features
    beside the neighbor's state, as TGAT's comparison has them.

    Args: see `Static`.

    >>> import pintgn
    >>> pintgn.GraphSAGE(dim=32)
    GraphSAGE(dim=32)
    """

    def make_layer(self, state: int, positions: int, features: int) -> nn.Module:
        return InjectiveLayer(state, positions, features, self.dim)

    def apply_layer(self, layer: nn.Module, nodes: TreeNodes, edges: Edges) -> Tensor:
        mask = edges.mask.view(edges.parents, -1)
        share = mask / mask.sum(1, keepdim=True).clamp(min=1)
        return layer(nodes, edges, share.flatten())


@dataclass(eq=False, repr=False)
class GAT(Static):
    """Graph attention: per head, over the sampled neighbors u and v itself (with e = 0),

        h_v = ELU(Σ_u α_vu W c_u + b)        α_vu = softmax_u LeakyReLU(a_1 · W c_v + a_2 · W c_u)        c_u = h_u ‖ e

    heads side by side; event features stand beside the neighbor's state, as TGAT's comparison has them.

    Args:
        heads: attention heads; they divide `dim`.
        Others: see `Static`.

    >>> import pintgn
    >>> pintgn.GAT(dim=32)
    GAT(dim=32)
    """

    heads: int = 2
    learns_by_messages = False  # attention has no gradient for what events carry

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.dim)

    def make_layer(self, state: int, positions: int, features: int) -> nn.Module:
        return GATLayer(state, features, self.dim, self.heads)


class GATLayer(nn.Module):
    """One step of `GAT`. On the CPU, W is applied after the sum over neighbors, which it commutes with."""

    fused = True
    slope = 0.2

    def __init__(self, state: int, features: int, dim: int, heads: int):
        super().__init__()
        self.heads, self.state = heads, state
        self.linear = nn.Linear(state + features, dim)
        self.attention = nn.Parameter(torch.empty(2, heads, dim // heads))  # a_1, a_2
        nn.init.xavier_uniform_(self.attention)

    def forward(self, nodes: TreeNodes, edges: Edges) -> Tensor:  # (edges.parents, d)
        parents, edges = nodes.first(edges.parents), _with_self_loops(edges)
        weight = self.linear.weight.view(self.heads, -1, self.linear.in_features)  # (h, d/h, c)
        one, two = torch.einsum("ahd,hdc->ahc", self.attention, weight)  # (h, c) each
        if self.fused and edges.mask.device.type == "cpu":
            own, own_of = distinct_rows(parents)
            where = AttentionInputs.seen(own_of, nodes, edges)
            asks = two[:, None].expand(-1, len(own), -1).contiguous()
            no_time = asks.new_zeros(0)
            offset = one[:, : self.state] @ own.T
            found = Attend.apply(asks, offset, nodes.table, no_time, no_time, where, self.slope)
        else:
            own = parents.dense()
            c = reference(edges.seen(nodes), edges, None).view(len(own), -1, self.linear.in_features)
            scores = torch.einsum("hc,pkc->hpk", two, c) + (one[:, : self.state] @ own.T)[..., None]
            scores = nn.functional.leaky_relu(scores, self.slope)
            found = torch.einsum("hpk,pkc->hpc", masked_softmax(scores, edges.mask.view(len(own), -1)), c)
        seen = torch.einsum("hpc,hdc->phd", found, weight).flatten(1)
        return nn.functional.elu(seen + self.linear.bias)


def _with_self_loops(edges: Edges) -> Edges:
    """Every parent as its own first contact, joined to itself by an event without features."""

    def before(first: np.ndarray, rest: np.ndarray) -> np.ndarray:
        return np.concatenate([first[:, None], rest.reshape(edges.parents, edges.k)], 1).ravel().astype(np.int32)

    def after(rest: Tensor, first: int) -> Tensor:
        return torch.cat([rest.new_full((edges.parents, 1), first), rest.view(edges.parents, edges.k)], 1).flatten()

    features = edges.features
    if features is not None:
        features = torch.cat([features.new_zeros(1, features.shape[1]), features])
    return Edges(
        child=before(np.arange(edges.parents), edges.child),
        mask=after(edges.mask, 1),
        dt=after(edges.dt, 0),
        event_of=before(np.zeros(edges.parents), edges.event_of + 1),
        features=features,
        k=edges.k + 1,
    )
