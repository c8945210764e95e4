"""PINT: position-encoding injective temporal graph net (paper, Section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pintgn.errors import BadInput
from pintgn.events.schema import Schema
from pintgn.models.layers import Edges, InjectiveLayer, TreeNodes
from pintgn.models.message_passing import TreeModel


@dataclass(eq=False, repr=False)
class PINT(TreeModel):
    """Injective temporal message passing over nodes that carry memory and relative positions.

    Eqs. 5-6, for the root v of each endpoint's tree:

        ĥ_v = Σ_(u,e,t') MLP_agg(h_u ‖ e) · α^(-β (t - t'))        h_v = MLP_upd(h_v ‖ ĥ_v)

    with α = 2 and h_j^(0) = s_j ‖ r_{j→own root} ‖ r_{j→other root} for every node j of the tree (for a node query the
    other root is absent: zeros). The logit of a link is an MLP of the two root embeddings.

    Differs from the released code: positions are those of the query's own time, simultaneous events do not see each
    other, a self-loop is one neighbor, the exponent is not divided by the square root of the number of neighbors, and
    positions enter at the input unless `positions_at="every"`.

    Args:
        dim, layers, neighbors, positions, positions_at, positions_transform: see `TreeModel`.
        memory, memory_cell, memory_aggregate, pair_history, historical, time_unit: see `TreeModel`.
        beta: initial decay, per unit of the log's time scale; per raw unit of time when `time_unit` is 1, as the paper
            has it.
        learn_beta: whether β is learned (through a ReLU, so that it stays non-negative).

    `pair_history` and `historical` are off here, which is the paper's model, and on in `pintgn train` and
    `pintgn.fit("pint", log)`, because they predict better (docs/best.md). A pair's history is more input to an
    injective function, so what could be told apart still can.

    >>> import pintgn
    >>> pintgn.PINT(dim=32)
    PINT(dim=32)
    """

    positions: int = 4
    beta: float = 1.0
    learn_beta: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta < 0:
            raise BadInput(f"beta={self.beta}; it cannot be negative (0 switches it off).")

    def make(self, schema: Schema) -> None:
        super().make(schema)
        if self.learn_beta:
            self.learned_beta = nn.Parameter(torch.tensor(float(self.beta)))

    def make_layer(self, state: int, positions: int, features: int) -> nn.Module:
        return InjectiveLayer(state, positions, features, self.dim)

    def apply_layer(self, layer: nn.Module, nodes: TreeNodes, edges: Edges) -> Tensor:
        beta = torch.relu(self.learned_beta) if self.learn_beta else self.beta
        weight = torch.exp2(-beta * edges.dt) * edges.mask
        return layer(nodes, edges, weight)
