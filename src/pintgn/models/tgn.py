"""TGN: one memory module; TGN-Att, JODIE, DyRep and TGAT are settings of it (TGN's paper, Table 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.errors import BadInput
from pintgn.events.schema import Schema
from pintgn.models.attention import AttentionLayer, check_heads, masked_softmax
from pintgn.models.base import check_choice
from pintgn.models.history_view import Events, HistoryView
from pintgn.models.layers import Edges, TimeEncoding, TreeNodes, tensor
from pintgn.models.message_passing import TreeModel
from pintgn.models.node_memory import Memory, MemoryState
from pintgn.neighbors.index import Neighbors

EMBEDDINGS = ("attention", "time", "identity")
MESSAGES = ("state", "neighborhood")


@dataclass(eq=False, repr=False)
class TGN(TreeModel):
    """Temporal graph network: recurrent memory, then an embedding of it. With the defaults this is TGN-Att.

    Memory (paper, Eqs. 3-4 and appendix A), for an event between v and u at t with features e:

        m_v = [s_v ‖ s_u ‖ φ(t - t_v) ‖ e]        s_v ← GRU(m̄_v, s_v), m̄_v the node's newest message

    The embedding of a node at t is, by `embedding`,

        attention   TGN-Att: temporal attention over its newest neighbors, layer by layer (see `AttentionLayer`)
        time        JODIE:   (1 + Δ w) ⊙ W [s_v ‖ x_v], Δ the time since the node's last event
        identity    DyRep:   W [s_v ‖ x_v] + b

    With `message="neighborhood"` (DyRep) a message also carries h_u, what surrounds the other end just before t:

        m_v = [s_v ‖ s_u ‖ h_u ‖ φ(t - t_v) ‖ e]     h_u = Σ_i softmax_i(s_u · s_i / √d) s_i over the neighbors i of u

    Differs from TGN's code: Δ is measured from the node's last event before the query, not from the last batch; the
    neighbors are those of each query's own time; "last" is the mean over events of the newest timestamp; positions can
    be added (`positions=4` is the paper's "TGN-Att + RPF", its Table 2). DyRep's attention has no parameters of its
    own: a message is stored detached, so in TGN's code no gradient ever reaches them. What a message says about the
    neighborhood is weighted inside the recurrent cell, where the gradient does arrive.

    Args:
        heads: attention heads; they divide `dim`.
        embedding, message: as above.
        time_dim: length of the time encoding φ, shared by memory and attention.
        Others: see `TreeModel`. Layers and heads belong to the attention.

    >>> import pintgn
    >>> pintgn.TGN(dim=32)
    TGN(dim=32)
    """

    memory: int = 100
    heads: int = 2
    embedding: str = "attention"
    message: str = "state"
    time_dim: int = 100

    learns_by_messages = False  # attention has no gradient for what events carry

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("embedding", self.embedding, EMBEDDINGS)
        check_choice("message", self.message, MESSAGES)
        check_heads(self.heads, self.dim)
        if self.embedding != "attention" and self.layers != 1:
            raise BadInput(f"layers={self.layers}; only attention has layers, embedding={self.embedding!r} has none.")
        if self.time_dim < 1:
            raise BadInput(f"time_dim={self.time_dim}; it is at least 1.")

    # -- parameters ----------------------------------------------------------------------------------------------

    def make(self, schema: Schema) -> None:
        super().make(schema)
        if self.embedding == "attention" and not self._shares_time:
            self.own_time = TimeEncoding(self.time_dim)

    def make_memory(self, width: int, features: int) -> Memory:
        context = width if self.message == "neighborhood" else 0
        return Memory(width, features, self.memory_cell, self.memory_aggregate, self.time_dim, context)

    def make_layer(self, state: int, positions: int, features: int) -> nn.Module:
        if self.embedding == "attention":
            return AttentionLayer(state, positions, features, self.time_dim, self.dim, self.heads)
        return Projection(state + positions, self.dim, drifts=self.embedding == "time")

    @property
    def _shares_time(self) -> bool:
        return self.memory > 0 and self.memory_cell != "identity"

    def find_children(self, history: HistoryView, nodes: np.ndarray) -> Neighbors:
        # without attention only the time since the last event is needed
        return super().find_children(history, nodes) if self.embedding == "attention" else history.recent(nodes, 1)

    def apply_layer(self, layer: nn.Module, nodes: TreeNodes, edges: Edges) -> Tensor:
        if self.embedding != "attention":
            return layer(nodes.first(edges.parents), edges.dt)
        return layer(nodes, edges, self.machine.time if self._shares_time else self.own_time)

    # -- remembering ---------------------------------------------------------------------------------------------

    def gather_events(self, events: Events, history: HistoryView) -> dict[str, np.ndarray]:
        if self.message == "state":
            return {}
        found = history.recent(np.stack([events.src, events.dst], 1), self.neighbors)  # (e, 2, k)
        return {"neighbors": found.ids, "mask": found.mask}

    def observe(self, block: Events, state: MemoryState) -> None:
        context = self._neighborhoods(block, state) if self.message == "neighborhood" else None
        self.machine.commit(state, self._read(block), self.dt_unit, context)

    @torch.no_grad()
    def _neighborhoods(self, block: Events, state: MemoryState) -> Tensor:  # (e, 2, d)
        """h_u of both ends of every event."""
        ends = np.stack([block.src, block.dst], 1)[..., None]
        everyone = np.concatenate([ends, block.looked_up["neighbors"]], 2)  # (e, 2, 1 + k)
        nodes, rows = np.unique(everyone, return_inverse=True)
        states = self.machine.current(state, nodes)[tensor(rows.reshape(everyone.shape), self.device)]
        own, others = states[:, :, :1], states[:, :, 1:]
        scores = (own * others).sum(-1) / math.sqrt(self.machine.width)
        weight = masked_softmax(scores, tensor(block.looked_up["mask"], self.device))
        return (weight[..., None] * others).sum(2)


class Projection(nn.Module):
    """W [s ‖ x ‖ r] + b, drifting with the time since the node's last event if asked to: JODIE's (1 + Δ w) ⊙ ·."""

    def __init__(self, width: int, dim: int, drifts: bool):
        super().__init__()
        self.linear = nn.Linear(width, dim)
        self.drift = nn.Parameter(torch.zeros(dim)) if drifts else None

    def forward(self, parents: TreeNodes, dt: Tensor) -> Tensor:  # (parents, d)
        h = self.linear(parents.dense())
        return h if self.drift is None else h * (1 + dt[:, None] * self.drift)


@dataclass(eq=False, repr=False)
class JODIE(TGN):
    """JODIE as TGN's paper has it: recurrent memory (RNN), projected to the time of the query, no message passing.

        s_v ← RNN([s_v ‖ s_u ‖ φ(t - t_v) ‖ e], s_v)        h_v(t) = (1 + Δ w) ⊙ W [s_v ‖ x_v]

    Args: see `TGN`.

    >>> import pintgn
    >>> pintgn.JODIE(dim=32)
    JODIE(dim=32)
    """

    memory_cell: str = "rnn"
    layers: int = field(default=1, init=False)
    neighbors: int = field(default=10, init=False)
    positions_at: str = field(default="input", init=False)
    heads: int = field(default=1, init=False)
    embedding: str = field(default="time", init=False)
    message: str = field(default="state", init=False)


@dataclass(eq=False, repr=False)
class DyRep(TGN):
    """DyRep as a setting of TGN: recurrent memory (RNN) whose messages carry the other end's neighborhood.

        s_v ← RNN([s_v ‖ s_u ‖ h_u ‖ φ(t - t_v) ‖ e], s_v)        h_u = Σ_i softmax_i(s_u · s_i / √d) s_i

    and the memory itself, linearly mapped, is the embedding. `TGN` says where this differs from TGN's code.

    So no score depends on the time of the query: a node that has just acted looks like one long silent. Where that is
    the signal the model is weak, and true to its definition: on UCI the paper has 54.6; three epochs with the paper's
    settings have a validation AP of 70.5 here, and 87.8 when nothing but the embedding is changed to JODIE's, which
    drifts (`TGN(embedding="time", message="neighborhood", memory_cell="rnn")`).

    Args:
        neighbors: how many of the other end's newest neighbors h_u looks at.
        Others: see `TGN`.

    >>> import pintgn
    >>> pintgn.DyRep(dim=32)
    DyRep(dim=32)
    """

    memory_cell: str = "rnn"
    layers: int = field(default=1, init=False)
    positions_at: str = field(default="input", init=False)
    heads: int = field(default=1, init=False)
    embedding: str = field(default="identity", init=False)
    message: str = field(default="neighborhood", init=False)


@dataclass(eq=False, repr=False)
class TGAT(TGN):
    """TGAT (paper, appendix A): temporal attention over neighbors, layer by layer, without memory.

        c_u = h_u ‖ e ‖ φ(t - t')        q = [h_v ‖ φ(0)] W_q     K = C W_K     V = C W_V
        h̃_v = softmax(q Kᵀ) V        h_v = MLP(h_v ‖ h̃_v)        φ(x) = cos(ω x + b)

    with ω and b learned and h_j^(0) = x_j. It is TGN-Att with its memory switched off, as the paper has it.

    Differs from the released code: softmax is scaled by the square root of a head's width; dt of every depth is
    measured from the query's own time; the newest neighbors are taken, which is far stronger than uniform ones
    (docs/results.md has both), unless `sample="uniform"`.

    Args:
        sample: `recent`, or `uniform` as in TGAT's paper: each of the node's contacts equally likely. Nodes that are
            asked about at one time draw alike: two with equally many contacts get those of the same ranks.
        draw_seed: of uniform neighbors.
        Others: see `TGN`.

    >>> import pintgn
    >>> pintgn.TGAT(dim=32)
    TGAT(dim=32)
    """

    layers: int = 2
    neighbors: int = 20
    sample: str = "recent"
    draw_seed: int = 0
    memory: int = field(default=0, init=False)
    memory_cell: str = field(default="gru", init=False)
    memory_aggregate: str = field(default="last", init=False)
    embedding: str = field(default="attention", init=False)
    message: str = field(default="state", init=False)
