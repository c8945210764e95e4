"""PINT: position-encoding injective temporal graph net (paper, Section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
        memory, memory_cell, memory_aggregate, historical, time_unit: see `TreeModel`.
        beta: initial decay, per unit of the log's time scale; per raw unit of time when `time_unit` is 1, as the paper
            has it.
        learn_beta: whether β is learned (through a ReLU, so that it stays non-negative).
        contact_age: whether e also says how long ago the event was, as columns at several scales. The paper's model
            knows it by the factor α^(-β (t - t')) alone.
        pair_history: whether the readout also sees how often and how recently u had events with v, v with u, and each
            of them with anyone, as source and as destination: beyond the newest contacts, and which way round.

    Both additions are more input to the same injective functions, so what could be told apart still can. They are off
    here, which is the paper's model, and on in `pintgn train` and `pintgn.fit("pint", log)`, because they predict
    better (docs/results.md).
    """

    positions: int = 4
    beta: float = 1.0
    learn_beta: bool = False
    contact_age: bool = False
    pair_history: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta < 0:
            raise BadInput(f"beta={self.beta}; it cannot be negative (0 switches it off).")

    def make(self, schema: Schema) -> None:
        super().make(schema)
        if self.learn_beta:
            self.learned_beta = nn.Parameter(torch.tensor(float(self.beta)))

    def make_layer(self, state: int, positions: int, features: int) -> nn.Module:
        return InjectiveLayer(state, positions, features, self.dim, ages=AGES if self.contact_age else 0)

    def apply_layer(self, layer: nn.Module, nodes: TreeNodes, edges: Edges) -> Tensor:
        beta = torch.relu(self.learned_beta) if self.learn_beta else self.beta
        weight = torch.exp2(-beta * edges.dt) * edges.mask
        return layer(nodes, edges, weight, ages(edges) if self.contact_age else None)


AGES = 4
"""Columns of `ages`."""


def ages(edges: Edges) -> np.ndarray:  # (slots, AGES)
    """How long ago every slot's event was, as columns at several scales; zeros where there is none."""
    dt = edges.dt
    columns = [torch.log1p(dt), torch.log1p(100 * dt) / 2, torch.log1p(10_000 * dt) / 4, torch.exp2(-10 * dt)]
    return (torch.stack(columns, -1) * edges.mask[:, None]).numpy(force=True)
