"""PINT: position-encoding injective temporal graph net (paper, Section 4)."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.errors import BadInput, suggest
from pintgn.events.log import Query
from pintgn.events.schema import Schema
from pintgn.models.base import Model
from pintgn.models.layers import MLP, tensor
from pintgn.models.memory import Memory, MemoryState
from pintgn.models.past import Events, Past
from pintgn.models.trees import Trees, grow

POSITIONS_AT = ("input", "every")


class PINT(Model):
    """Injective temporal message passing over nodes that carry memory and relative positions.

    Eqs. 5-6, for the root v of each endpoint's tree:

        ĥ_v = Σ_(u,e,t') MLP_agg(h_u ‖ e) · α^(-β (t - t'))        h_v = MLP_upd(h_v ‖ ĥ_v)

    with α = 2 and h_j^(0) = s_j ‖ r_{j→own root} ‖ r_{j→other root} for every node j of the tree (for a node query the
    other root is absent: zeros). The logit of a link is an MLP of the two root embeddings.

    Differs from the released code: positions are those of the query's own time, simultaneous events do not see each
    other, a self-loop is one neighbor, the exponent is not divided by the square root of the number of neighbors, and
    positions enter at the input unless `positions_at="every"`.

    Args:
        dim: width of every hidden layer and of the embeddings.
        layers: depth of the trees; at least 1.
        neighbors: newest contacts per node and level.
        positions: length r of the positional features (walks of 0 … r-1 steps); 0 for none.
        positions_at: `input` (paper) or `every` layer (the released code).
        positions_transform: `log1p`, `l1` (paper), `raw` or `time`.
        memory: width of the recurrent memory; 0 for none (s_j = x_j).
        memory_cell, memory_aggregate: see `Memory`.
        beta: initial decay, per unit of the log's time scale; per raw unit of time when `time_unit` is 1, as the paper
            has it.
        learn_beta: whether β is learned (through a ReLU, so that it stays non-negative).
        time_unit: what times are divided by; the log's own time scale when not given.
    """

    def __init__(
        self,
        dim: int = 100,
        layers: int = 1,
        neighbors: int = 10,
        positions: int = 4,
        positions_at: str = "input",
        positions_transform: str = "log1p",
        memory: int = 0,
        memory_cell: str = "gru",
        memory_aggregate: str = "last",
        beta: float = 1.0,
        learn_beta: bool = False,
        time_unit: float | None = None,
    ):
        super().__init__()
        for name, value, least in (("dim", dim, 1), ("layers", layers, 1), ("neighbors", neighbors, 1)):
            if value < least:
                raise BadInput(f"{name}={value}; PINT needs at least {least}.")
        for name, value in (("positions", positions), ("memory", memory), ("beta", beta)):
            if value < 0:
                raise BadInput(f"{name}={value}; it cannot be negative (0 switches it off).")
        if positions_at not in POSITIONS_AT:
            raise BadInput(f"positions_at={positions_at!r} does not exist.{suggest(positions_at, POSITIONS_AT)}")
        self.dim, self.layers, self.neighbors = dim, layers, neighbors
        self.positions, self.positions_at, self.positions_transform = positions, positions_at, positions_transform
        self.memory, self.memory_cell, self.memory_aggregate = memory, memory_cell, memory_aggregate
        self.beta, self.learn_beta, self.time_unit = beta, learn_beta, time_unit

    @property
    def remembers(self) -> bool:
        return self.memory > 0

    def make(self, schema: Schema) -> None:
        node_width = len(schema.node_features)
        if self.memory:
            self.machine = Memory(max(self.memory, node_width), schema.width, self.memory_cell, self.memory_aggregate)
        state_width = (self.machine.width if self.memory else 0) + node_width or 1
        at_input = 2 * self.positions
        again = at_input if self.positions_at == "every" else 0
        widths = [state_width + at_input] + [self.dim + again] * (self.layers - 1)
        self.aggregate = nn.ModuleList([MLP(width + schema.width, self.dim, self.dim) for width in widths])
        self.update = nn.ModuleList([MLP(width + self.dim, self.dim, self.dim) for width in widths])
        self.readout = MLP(2 * self.dim, self.dim, 1)
        if self.learn_beta:
            self.learned_beta = nn.Parameter(torch.tensor(float(self.beta)))

    # -- looking up ----------------------------------------------------------------------------------------------

    def gather(self, query: Query, past: Past) -> Trees:
        return self.gather_nodes(np.stack([query.src, query.dst], 1), past)

    def gather_nodes(self, nodes: np.ndarray, past: Past) -> Trees:
        roots = nodes.reshape(len(nodes), -1)
        return grow(roots, past, self.layers, self.neighbors, self.dt_unit, self.positions > 0)

    # -- computing -----------------------------------------------------------------------------------------------

    def forward(self, inputs: Trees, state: MemoryState | None) -> Tensor:  # (q,)
        roots = self.embed(inputs, state).view(inputs.queries, 2 * self.dim)
        return self.readout(roots).squeeze(-1)

    def embed(self, inputs: Trees, state: MemoryState | None) -> Tensor:  # (q * w, d)
        to = partial(tensor, device=self.device)
        positions = self._positions(inputs)
        hidden = [torch.cat([s, r], -1) for s, r in zip(self._states(inputs, state), positions, strict=True)]
        beta = torch.relu(self.learned_beta) if self.learn_beta else self.beta
        weights = [torch.exp2(-beta * to(dt)) * to(mask) for dt, mask in zip(inputs.dt, inputs.mask[1:], strict=True)]
        for layer, (aggregate, update) in enumerate(zip(self.aggregate, self.update, strict=True)):
            if layer and self.positions_at == "every":
                hidden = [torch.cat([h, r], -1) for h, r in zip(hidden, positions, strict=False)]
            below = []
            for level in range(self.layers - layer):
                h, child, e = hidden[level], hidden[level + 1], inputs.features[level]
                message = aggregate(child if e is None else torch.cat([child, to(e)], -1))  # (q, w * k^(l+1), d)
                weighted = message * weights[level][..., None]
                summed = weighted.view(*h.shape[:2], self.neighbors, self.dim).sum(2)  # Eq. 5
                below.append(update(torch.cat([h, summed], -1)))  # Eq. 6
            hidden = below
        return hidden[0].reshape(-1, self.dim)

    def _states(self, inputs: Trees, state: MemoryState | None) -> list[Tensor]:
        """s_j ‖ x_j of every slot of every level; the recurrent update runs once per distinct node."""
        parts: list[list[Tensor]] = [[] for _ in inputs.nodes]
        if self.memory:
            assert state is not None
            distinct, where = np.unique(np.concatenate([n.ravel() for n in inputs.nodes]), return_inverse=True)
            rows = self.machine.current(state, distinct)[tensor(where, self.device)]
            sizes = [level.size for level in inputs.nodes]
            for found, level, part in zip(rows.split(sizes), inputs.nodes, parts, strict=True):
                part.append(found.view(*level.shape, -1))
        for part, x in zip(parts, inputs.node_features, strict=True):
            if x is not None:
                part.append(tensor(x, self.device))
        nothing = [torch.zeros(*level.shape, 1, device=self.device) for level in inputs.nodes]
        return [torch.cat(part, -1) if part else zero for part, zero in zip(parts, nothing, strict=True)]

    def _positions(self, inputs: Trees) -> list[Tensor]:
        """r_{j→own root} ‖ r_{j→other root} of every slot of every level; width 0 without positions."""
        if inputs.positions is None:
            return [torch.zeros(*level.shape, 0, device=self.device) for level in inputs.nodes]
        read = tensor(inputs.positions, self.device)  # (q, all slots, w, r)
        levels = []
        for first, last in inputs.bounds():
            level = read[:, first:last]
            if inputs.roots == 1:
                levels.append(torch.cat([level[:, :, 0], torch.zeros_like(level[:, :, 0])], -1))
            else:  # slots of the first root, then those of the second, for which the second root is their own
                half = (last - first) // 2
                levels.append(torch.cat([level[:, :half], level[:, half:].flip(2)], 1).flatten(2))
        return levels

    # -- remembering ---------------------------------------------------------------------------------------------

    def initial_state(self, node_features: np.ndarray | None, time_dtype: np.dtype) -> MemoryState | None:
        return self.machine.initial_state(node_features, time_dtype) if self.memory else None

    def observe(self, block: Events, state: MemoryState) -> None:
        self.machine.commit(state, block, self.dt_unit)
