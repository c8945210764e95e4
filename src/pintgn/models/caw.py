"""CAW: causal anonymous walks (paper, appendix A)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.events.schema import Schema
from pintgn.models.base import Model, check_choice, check_least
from pintgn.models.history_view import HistoryView
from pintgn.models.kernels_prefixes import share_prefixes
from pintgn.models.layers import MLP, TimeEncoding, gru, tensor

READOUTS = ("mean", "attention")


@dataclass
class Level:
    """The distinct prefixes of a given length, of all walks of all roots."""

    parent: np.ndarray  # (x,) the prefix one step shorter, its index in the level above
    row: np.ndarray  # (x,) which of the distinct nodes of its query it ends at
    since: np.ndarray  # (x,) float32, how long the last step went back, in units of the log's time scale
    features: np.ndarray | None  # (x, f) of the last step's event; zeros at the root
    ends: np.ndarray  # (x,) how many walks end here
    root: np.ndarray  # (x,) whose


@dataclass
class WalkSets:
    """The walks of w roots per query, prefix by prefix, and where their nodes occur."""

    roots: int  # of all queries together
    levels: list[Level]
    counts: np.ndarray  # (rows, 2, l + 1) float32: g(node; S_own), g(node; S_other) for each distinct node of a query
    node_features: np.ndarray | None  # (rows, g)


@dataclass(eq=False, repr=False)
class CAW(Model):
    """Walks back in time from both ends, nodes replaced by where they occur in them.

    For a query (u, v, t), S_u and S_v are sets of M walks of L steps whose times strictly fall from t on, each step
    drawn with probability ∝ exp(decay · (time of the event - time of the last step)). A node w of a walk becomes

        I(w) = {g(w; S_u), g(w; S_v)}        g(w; S)[i] = how many walks of S have w as their i-th node
        f_1(I) = MLP(g(w; S_u)) + MLP(g(w; S_v))        f_2(dt) = cos(ω dt + b)
        enc(W) = GRU([f_1(I(w_i)) ‖ f_2(t_{i-1} - t_i) ‖ e_i ‖ x_i] for i = 0 … L)

    with the features of step and node where there are any. The embedding of an end is the mean of enc over its own
    walks, or, with `readout="attention"`, of softmax_j(enc_i Q_1 enc_jᵀ) enc_j Q_2. The logit is an MLP of both.

    Counts enter as log(1 + g). Both ends keep their own mean (as in the released code; the paper's mean over all walks
    is a function of it). A node query has one set of walks; the other count is zero.

    What is drawn depends on the seed, the query's own time, and the past: not on order, batch, or the numbers of nodes.
    The two ends draw apart. Walks that begin alike are read once, so the cost is that of the distinct prefixes.

    Args:
        dim: width of the hidden layers, of a walk's encoding and of the embeddings.
        walks: M, for each end (the paper's grid, with number and length in the right order: 32, 64 or 128).
        length: L, steps of a walk (1 to 5).
        decay: preference for recent events, per unit of the log's time scale (per raw unit of time when `time_unit` is
            1, as the paper has it); 0 draws uniformly.
        readout: `mean` or `attention`.
        time_dim: length of the time encoding.
        draw_seed: of the walks.
        time_unit: of the decay; the log's own time scale when not given. Encoded times are in units of the time scale.

    >>> import pintgn
    >>> pintgn.CAW(dim=32)
    CAW(dim=32)
    """

    dim: int = 64
    walks: int = 64
    length: int = 2
    decay: float = 1.0
    readout: str = "mean"
    time_dim: int = 32
    draw_seed: int = 0
    time_unit: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "dim", "walks", "length", "time_dim")
        check_choice("readout", self.readout, READOUTS)
        if not 0 <= self.decay < float("inf"):
            raise BadInput(f"decay={self.decay}; it cannot be negative (0 draws uniformly).")

    def make(self, schema: Schema) -> None:
        self.place = MLP(self.length + 1, self.dim, self.dim)
        self.time = TimeEncoding(self.time_dim)
        self.cell = nn.GRUCell(self.dim + len(schema.node_features) + self.time_dim + schema.width, self.dim)
        if self.readout == "attention":
            self.ask, self.tell = nn.Linear(self.dim, self.dim, bias=False), nn.Linear(self.dim, self.dim, bias=False)
        self.decoder = MLP(2 * self.dim, self.dim, 1)

    # -- looking up ----------------------------------------------------------------------------------------------

    def gather(self, query: Query, history: HistoryView) -> WalkSets:
        return self.gather_nodes(np.stack([query.src, query.dst], 1), history)

    def gather_nodes(self, nodes: np.ndarray, history: HistoryView) -> WalkSets:
        roots = nodes.reshape(len(nodes), -1)
        assert self.schema is not None
        scale = self.schema.time_scale or 1.0
        keys = history.keys(self.draw_seed, roots.shape[1])
        found = history.walks(roots, self.walks, self.length, keys, self.decay / self.dt_unit)
        shape = (self.length + 1, roots.size * self.walks)
        sizes = np.empty(self.length + 1, np.int64)
        parent, row, event, ends, root = (np.empty(shape, np.int64) for _ in range(5))
        since = np.empty(shape, found.times.dtype)
        most = roots.size * self.walks * (self.length + 1)
        query_of, node_of = np.empty(most, np.int64), np.empty(most, np.int64)
        counts = np.empty((most, roots.shape[1], self.length + 1), np.int32)
        rows = share_prefixes(*found, sizes, parent, row, event, since, ends, root, query_of, node_of, counts)
        where = np.zeros((rows, 2, self.length + 1), np.float32)
        where[:, : roots.shape[1]] = counts[:rows]
        levels = []
        for level, size in enumerate(sizes):
            step = event[level, :size]
            levels.append(
                Level(
                    parent[level, :size],
                    row[level, :size],
                    (since[level, :size] / scale).astype(np.float32),
                    history.event_features(step, step >= 0),
                    ends[level, :size],
                    root[level, :size],
                )
            )
        return WalkSets(roots.size, levels, where, history.node_features(node_of[:rows]))

    # -- computing -----------------------------------------------------------------------------------------------

    def forward(self, inputs: WalkSets, state: None) -> Tensor:  # (q,)
        return self.decoder(self.embed(inputs, state).view(-1, 2 * self.dim)).squeeze(-1)

    def embed(self, inputs: WalkSets, state: None) -> Tensor:  # (roots, d)
        device = self.device
        nodes = self.place(torch.log1p(tensor(inputs.counts, device))).sum(1)  # f_1 of every distinct node
        if inputs.node_features is not None:
            nodes = torch.cat([nodes, tensor(inputs.node_features, device)], -1)
        width, cell = nodes.shape[1], self.cell
        # what depends on the node alone is mapped once per node, not once per prefix
        mapped = linear(nodes, cell.weight_ih[:, :width], cell.bias_ih)
        h = torch.zeros(1, self.dim, device=device)
        found = []
        rest = cell.weight_ih[:, width:]
        for level in inputs.levels:
            row, parent, since = (tensor(x, device) for x in (level.row, level.parent, level.since))
            steps = [self.time(since)]
            if level.features is not None:
                steps.append(tensor(level.features, device))
            given = torch.addmm(mapped.index_select(0, row), torch.cat(steps, -1), rest.T)
            # a state is mapped once, however many prefixes continue it
            kept = linear(h, cell.weight_hh, cell.bias_hh).index_select(0, parent)
            gates, new = given.tensor_split([2 * self.dim], 1)
            gates = gates + kept[:, : 2 * self.dim]
            h = gru(gates, new, kept[:, 2 * self.dim :], h.index_select(0, parent))
            found.append(h)
        return self._read(inputs, found)

    def _read(self, inputs: WalkSets, found: list[Tensor]) -> Tensor:  # (roots, d)
        """The mean over walks, or over what they see in each other; a walk is its last prefix, as often as drawn."""
        ends, roots = (np.concatenate([getattr(x, name) for x in inputs.levels]) for name in ("ends", "root"))
        last = np.flatnonzero(ends)
        last = last[np.argsort(roots[last], kind="stable")]
        roots, share = roots[last], tensor((ends[last] / self.walks).astype(np.float32), self.device)
        walks = torch.cat(found).index_select(0, tensor(last, self.device))
        if self.readout == "attention":
            walks = self._self_attention(walks, share, roots)
        mean = torch.zeros(inputs.roots, self.dim, device=self.device)
        return mean.index_add(0, tensor(roots, self.device), walks * share[:, None])

    def _self_attention(self, walks: Tensor, share: Tensor, roots: np.ndarray) -> Tensor:
        """softmax_j(enc_i Q_1 enc_jᵀ) enc_j Q_2 among the walks of each root, equal walks counted as often as drawn."""
        first = np.searchsorted(roots, roots)  # roots are sorted
        slot = np.arange(len(roots)) - first
        at = tensor(roots, self.device), tensor(slot, self.device)
        shape = int(roots[-1]) + 1, int(slot.max()) + 1
        table = walks.new_zeros(*shape, self.dim).index_put(at, walks)
        logs = walks.new_full(shape, -torch.inf).index_put(at, share.log())
        scores = self.ask(table) @ table.transpose(1, 2) / self.dim**0.5 + logs[:, None]
        return (scores.softmax(-1) @ self.tell(table))[at]
