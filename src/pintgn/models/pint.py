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
from pintgn.models.layers import MLP, InjectiveLayer, Slots, tensor
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
        again = 2 * self.positions if self.positions_at == "every" else 0
        widths = [(state_width, 2 * self.positions)] + [(self.dim, again)] * (self.layers - 1)
        self.steps = nn.ModuleList([InjectiveLayer(s, r, schema.width, self.dim) for s, r in widths])
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
        table, positions = self._states(inputs, state), self._positions(inputs)
        levels = [Slots(table, rows, r) for rows, r in zip(inputs.node_of, positions, strict=True)]
        features = None if inputs.features is None else to(inputs.features)
        beta = torch.relu(self.learned_beta) if self.learn_beta else self.beta
        weights = [
            (torch.exp2(-beta * to(dt)) * to(mask)).flatten()
            for dt, mask in zip(inputs.dt, inputs.mask[1:], strict=True)
        ]
        again = positions if self.positions_at == "every" else [r[:, :0] for r in positions]
        for layer, step in enumerate(self.steps):
            above = [
                step(levels[level], levels[level + 1], features, inputs.event_of[level], weights[level])
                for level in range(self.layers - layer)
            ]
            levels = [Slots(h, np.arange(len(h)), r) for h, r in zip(above, again, strict=False)]
        return levels[0].table

    def _states(self, inputs: Trees, state: MemoryState | None) -> Tensor:  # (n', s)
        """s_j ‖ x_j of the distinct nodes."""
        parts = [self.machine.current(state, inputs.nodes)] if self.memory and state is not None else []
        if inputs.node_features is not None:
            parts.append(tensor(inputs.node_features, self.device))
        return torch.cat(parts, -1) if parts else torch.zeros(len(inputs.nodes), 1, device=self.device)

    def _positions(self, inputs: Trees) -> list[np.ndarray]:  # level l: (slots, 2r)
        """r_{j→own root} ‖ r_{j→other root} of every slot of every level; width 0 without positions."""
        if inputs.positions is None:
            return [np.zeros((len(rows), 0), np.float32) for rows in inputs.node_of]
        levels = []
        for first, last in inputs.bounds():
            level = inputs.positions[:, first:last]  # (q, slots, w, r)
            if inputs.roots == 1:
                both = np.concatenate([level, np.zeros_like(level)], 2)
            else:  # slots of the first root, then those of the second, for which the second root is their own
                half = (last - first) // 2
                both = np.concatenate([level[:, :half], level[:, half:, ::-1]], 1)
            levels.append(both.reshape(-1, 2 * self.positions))
        return levels

    # -- remembering ---------------------------------------------------------------------------------------------

    def initial_state(self, node_features: np.ndarray | None, time_dtype: np.dtype) -> MemoryState | None:
        return self.machine.initial_state(node_features, time_dtype) if self.memory else None

    def observe(self, block: Events, state: MemoryState) -> None:
        self.machine.commit(state, block, self.dt_unit)
