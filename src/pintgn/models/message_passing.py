"""Message passing on computation trees: trees, memory, positions, features, and the readout of a link."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.events.splits import time_scale
from pintgn.models.aggregates import checked_windows, chosen_windows
from pintgn.models.base import QUESTIONS, Model, check_choice, check_least
from pintgn.models.history_view import Events, HistoryView
from pintgn.models.known_columns import KnownColumns, Standardize
from pintgn.models.layers import MLP, Edges, TreeNodes, tensor
from pintgn.models.node_memory import Memory, MemoryState
from pintgn.models.trees import Ranking, Trees, grow, grow_ranking
from pintgn.neighbors.index import Neighbors

POSITIONS_AT = ("input", "every")
RELATION_WIDTH = 16
"""Of the embedding of a relation."""
SAMPLES = ("recent", "uniform")


@dataclass(eq=False, repr=False)
class TreeModel(Model):
    """Message passing on the temporal computation trees of a query's endpoints (paper, Eqs. 1-4).

    h_j^(0) = s_j ‖ x_j ‖ r_{j→own root} ‖ r_{j→other root} for every node j of a tree: recurrent memory, node features
    and relative positions, each where the settings ask for it (for a node query the other root is absent: zeros).
    `layers` steps of message passing follow, and the logit of a link is an MLP of the two root embeddings. Positions
    thus plug into any model of this family by its `positions` setting.

    A subclass says what a layer is: `make_layer(state, positions, features)` makes its module, and
    `apply_layer(layer, nodes, edges)` runs it from all nodes of the trees to those that have contacts.

    Args:
        dim: width of every hidden layer and of the embeddings.
        layers: depth of the trees; at least 1.
        neighbors: newest contacts per node and level.
        positions: length r of the positional features (walks of 0 … r-1 steps); 0 for none.
        positions_at: `input` (paper) or `every` layer (the released code).
        positions_transform: `log1p`, `l1` (paper), `raw` or `rate`.
        memory: width of the recurrent memory; 0 for none (s_j = x_j).
        memory_cell, memory_aggregate: see `Memory`.
        pair_history: whether the readout also sees what is known about the two roots (`pair_features`): how often and
            how recently each had events with the other and with anyone, and whom both met of late.
        aggregates: whether the readout also sees what is usual for them, their pair and everyone (`aggregates`).
        windows: spans of time over which that is taken, in the log's own unit; chosen by the training part when open.
        historical: whether the readout has a second logit, which tells an event from a pair that met before but not
            now; it is trained with historical negatives.
        time_unit: what times are divided by; the log's own time scale when not given.
        sample, draw_seed: which contacts: the newest (`recent`) or any (`uniform`), drawn by this seed. Settings of
            TGAT, GAT and GraphSAGE.
    """

    dim: int = 100
    layers: int = 1
    neighbors: int = 10
    positions: int = 0
    positions_at: str = "input"
    positions_transform: str = "log1p"
    memory: int = 0
    memory_cell: str = "gru"
    memory_aggregate: str = "last"
    pair_history: bool = False
    aggregates: bool = False
    windows: list[float] | None = None
    historical: bool = False
    time_unit: float | None = None
    # settings of some subclasses
    sample: str = field(default="recent", init=False)
    draw_seed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._usual: tuple[np.ndarray, np.ndarray] | None = None  # of the known columns; see `prepare`
        self.windows = checked_windows(self.windows)
        check_least(self, 1, "dim", "layers", "neighbors")
        for setting, value in (("positions", self.positions), ("memory", self.memory)):
            if value < 0:
                raise BadInput(f"{setting}={value}; it cannot be negative (0 switches it off).")
        check_choice("positions_at", self.positions_at, POSITIONS_AT)
        check_choice("sample", self.sample, SAMPLES)

    answers_columns = True
    learns_by_messages = True
    """Whether a layer passes gradients on to the features of events, and so to the embeddings of their relations."""

    @property
    def remembers(self) -> bool:
        return self.memory > 0

    @property
    def questions(self) -> tuple[str, ...]:
        return QUESTIONS if self.historical else QUESTIONS[:1]

    def prepare(self, train: EventLog) -> None:
        if self.aggregates and self.windows is None:
            self.windows = chosen_windows(train)
        if (self.pair_history or self.aggregates) and len(train):
            columns = self.known_columns(train.schema, self.time_unit or time_scale(train.src, train.dst, train.t))
            self._usual = columns.usual(train) if columns.names else None

    def known_columns(self, schema: Schema, unit: float) -> KnownColumns:
        """What the readout is told besides the trees."""
        windows = None if not self.aggregates else list(self.windows or ())
        return KnownColumns(schema, self.pair_history, windows, unit)

    def make(self, schema: Schema) -> None:
        self.known = self.known_columns(schema, self.dt_unit)
        node_width, features, known = len(schema.node_features), schema.width, len(self.known.names)
        if schema.relation is not None:
            self.relations = nn.Embedding(2 * schema.relation[1], RELATION_WIDTH)
            with torch.no_grad():
                self.relations.weight[:: schema.relation[1]] = 0  # one that is not known says nothing
            known, features = known - 1 + RELATION_WIDTH, features - 1 + RELATION_WIDTH
        if self.memory:
            self.machine = self.make_memory(max(self.memory, node_width), features)
        width = (self.machine.width if self.memory else 0) + node_width
        state_width = width if width or self.positions else 1  # a layer needs some input: a constant 0
        again = 2 * self.positions if self.positions_at == "every" else 0
        widths = [(state_width, 2 * self.positions)] + [(self.dim, again)] * (self.layers - 1)
        self.steps = nn.ModuleList([self.make_layer(state, r, features) for state, r in widths])
        if self.pair_history or self.aggregates:
            self.standardize = Standardize(self.known, self._usual)
        columns = schema.asking is not None and schema.asking.outputs > 0
        self.readout = MLP(2 * self.dim + known, self.dim, self.answer_shape(1)[-1] if columns else len(self.questions))

    # -- for subclasses ------------------------------------------------------------------------------------------

    def find_children(self, history: HistoryView, nodes: np.ndarray) -> Neighbors:
        """The children of nodes (q,) in the trees: their newest contacts, or some of all their contacts.

        The draw depends on each query's time, not on order, batch or node numbers: all nodes of one time draw alike.
        """
        if self.sample == "recent":
            return history.recent(nodes, self.neighbors)
        return history.uniform(nodes, self.neighbors, history.keys(self.draw_seed, 1))

    def make_memory(self, width: int, features: int) -> Memory:
        """The recurrent memory, for states and event features of these widths."""
        return Memory(width, features, self.memory_cell, self.memory_aggregate)

    def make_layer(self, state: int, positions: int, features: int) -> nn.Module:
        """One layer: from nodes with states and positions, joined by events with features of these widths, to `dim`."""
        raise NotImplementedError

    def apply_layer(self, layer: nn.Module, nodes: TreeNodes, edges: Edges) -> Tensor:  # (edges.parents, d)
        """Run a layer from all tree nodes to the first ones, which the edges join to their contacts."""
        return layer(nodes, edges)

    # -- looking up ----------------------------------------------------------------------------------------------

    def gather(self, query: Query, history: HistoryView) -> Trees:
        trees = self.gather_nodes(np.stack([query.src, query.dst], 1), history)
        return replace(trees, known=self.known.look_up(query, history)) if self.known.names else trees

    def gather_nodes(self, nodes: np.ndarray, history: HistoryView) -> Trees:
        roots = nodes.reshape(len(nodes), -1)
        return grow(roots, history, self.layers, self.find_children, self.dt_unit, self.positions > 0)

    def gather_ranking(self, query: Query, history: HistoryView) -> Ranking:
        ranking = grow_ranking(query.src, query.dst, history, self.layers, self.find_children, self.dt_unit)
        return replace(ranking, known=self.known.look_up(query, history)) if self.known.names else ranking

    # -- computing -----------------------------------------------------------------------------------------------

    def forward(self, inputs: Trees, state: MemoryState | None) -> Tensor:  # (q,) or (q, questions)
        pair = self.embed(inputs, state).view(-1, 2 * self.dim)
        if inputs.known is not None:
            pair = torch.cat([pair, self._known(inputs.known)], 1)
        logits = self.readout(pair)
        one = logits.shape[1] == 1 and not (self.schema.asking is not None and self.schema.asking.outputs)  # type: ignore[union-attr]
        return logits.squeeze(1) if one else logits

    def rank(self, inputs: Ranking, state: MemoryState | None) -> Tensor:  # (q, c)
        """Logits of every candidate; equal to scoring pair by pair, with each distinct tree computed once."""
        trees, version = inputs.versions()
        first, last = self.readout.first, self.readout.last
        as_source, as_candidate, as_pair = first.weight.tensor_split([self.dim, 2 * self.dim], 1)
        h = self.embed(trees, state)
        sources, candidates = h[: len(h) - version.size], h[len(h) - version.size :]
        ours = (sources @ as_source.T)[tensor(version.ravel(), self.device)]
        z = torch.addmm(first.bias, candidates, as_candidate.T) + ours
        if inputs.known is not None:
            z = torch.addmm(z, self._known(inputs.known), as_pair.T)
        return last(torch.relu(z))[:, 0].view(version.shape)

    def embed(self, inputs: Trees, state: MemoryState | None) -> Tensor:  # (q * w, d)
        positions, device = self._positions(inputs), self.device
        again = positions if self.positions_at == "every" else positions[:, :0]
        nodes = TreeNodes(self._states(inputs, state, device), inputs.node_of, positions)
        features = None if inputs.features is None else self._features(tensor(inputs.features, device))
        mask, dt = (tensor(column, device).flatten() for column in (inputs.mask, inputs.dt))
        edges = Edges(inputs.child.ravel(), mask, dt, inputs.event_of.ravel(), features, inputs.child.shape[1])
        for layer, count in zip(self.steps, inputs.sizes[-2::-1], strict=True):
            some = edges if count == len(inputs.child) else edges.first(count)
            nodes = TreeNodes(self.apply_layer(layer, nodes, some), None, again[:count])
        found = nodes.table
        return found if inputs.root_of is None else found.index_select(0, tensor(inputs.root_of, self.device))

    def _features(self, features: Tensor) -> Tensor:  # (e', f)
        """Features of events, with the embedding of its relation in place of the number."""
        assert self.schema is not None
        if self.schema.relation is None:
            return features
        column, _ = self.schema.relation
        embedded = self.relations(features[:, column].long())
        embedded = embedded if self.learns_by_messages else embedded.detach()
        return torch.cat([features[:, :column], features[:, column + 1 :], embedded], 1)

    def _known(self, columns: np.ndarray) -> Tensor:  # (q, a')
        """Known columns, standardized, with the embedding of a relation in place of its number."""
        known, relation = tensor(columns, self.device), self.known.relation
        if self.pair_history or self.aggregates:
            known = self.standardize(known)
        if relation is None:
            return known
        return torch.cat([known[:, :relation], known[:, relation + 1 :], self.relations(known[:, relation].long())], 1)

    def _states(self, inputs: Trees, state: MemoryState | None, device: torch.device) -> Tensor:  # (n', s)
        """s_j ‖ x_j of the distinct nodes."""
        parts = [self.machine.current(state, inputs.nodes)] if self.memory and state is not None else []
        if inputs.node_features is not None:
            parts.append(tensor(inputs.node_features, device))
        if parts:
            return parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return torch.zeros(len(inputs.nodes), 0 if self.positions else 1, device=device)  # a layer needs some input

    def _positions(self, inputs: Trees) -> np.ndarray:  # (tree nodes, 2r)
        """r_{j→own root} ‖ r_{j→other root} of every tree node; width 0 without positions."""
        if inputs.positions is None:
            return np.zeros((len(inputs.node_of), 0), np.float32)
        assert inputs.positions.answer is not None
        read = inputs.positions.answer[inputs.group, inputs.rank]
        if read.shape[1] == 1:  # a node query: there is no other root
            read = np.concatenate([read, np.zeros_like(read)], 1)
        if read.dtype != np.float32:  # raw counts; the largest (2e59 on Enron, for walks of 20 steps) would be infinite
            read = np.minimum(read, 1e30).astype(np.float32)
        return read.reshape(len(read), 2 * self.positions)

    # -- remembering ---------------------------------------------------------------------------------------------

    def initial_state(self, node_features: np.ndarray | None, time_dtype: np.dtype) -> MemoryState | None:
        return self.machine.initial_state(node_features, time_dtype) if self.memory else None

    def observe(self, block: Events, state: MemoryState) -> None:
        self.machine.commit(state, self._read(block), self.dt_unit)

    @torch.no_grad()  # what waits in memory is detached anyhow
    def _read(self, block: Events) -> Events:
        """A block with its features as the model reads them."""
        assert self.schema is not None
        if self.schema.relation is None or block.features is None:
            return block
        read = self._features(tensor(block.features, self.device))
        return replace(block, features=read.numpy(force=True))
