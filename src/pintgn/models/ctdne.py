"""CTDNE: a table of node vectors from temporal walks (node-classification table of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.models.base import Model, check_least
from pintgn.models.history_view import HistoryView
from pintgn.models.layers import tensor
from pintgn.neighbors.index import NeighborIndex, causal_walks
from pintgn.neighbors.queries import query_keys


@dataclass(eq=False, repr=False)
class CTDNE(Model):
    """Continuous-time dynamic network embeddings: skip-gram with negative sampling on walks that respect time.

    For an event (u, v, t) drawn uniformly, a walk is v, u, then up to `length` - 1 steps from u back in time (strictly
    before t), each drawn uniformly: a temporal walk read from its end. For nodes i, j at most `context` steps apart in
    a walk, with negatives n drawn ∝ (occurrences)^(3/4),

        maximise   log σ(z_i · c_j) + Σ_n log σ(-z_i · c_n)

    The embedding of a node is z_i: one vector for all times, learned by `prepare` from the training events alone and
    not changed by what is observed later; zeros for a node it has not met. It is a table by node number: new nodes and
    new names are beyond it, so it serves the node task only and is exempt from `check_model`.

    Args:
        dim: length of a vector.
        walks: walks per training event.
        length: steps of a walk.
        context: how far apart two nodes of a walk may be.
        negatives: per pair.
        epochs, batch, learning_rate: of the skip-gram (Adam on pairs).
        draw_seed: of walks, vectors and negatives.
        nodes: rows of the table; `prepare` fills it in.

    >>> import pintgn
    >>> pintgn.CTDNE(dim=32)
    CTDNE(dim=32)
    """

    on_processor = True

    dim: int = 128
    walks: int = 2
    length: int = 10
    context: int = 5
    negatives: int = 5
    epochs: int = 1
    batch: int = 5_000
    learning_rate: float = 0.03
    draw_seed: int = 0
    nodes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "dim", "walks", "length", "context", "epochs", "batch")

    def make(self, schema: Schema) -> None:
        if not hasattr(self, "vectors"):  # nothing learned yet, or about to be loaded
            self.vectors = nn.Parameter(torch.zeros(self.nodes, self.dim), requires_grad=False)

    # -- learning ------------------------------------------------------------------------------------------------

    def prepare(self, train: EventLog) -> None:
        self.nodes = 1 + int(max(train.src.max(), train.dst.max()))  # those that come later have no vector
        walks = self._walks(train)
        rng = np.random.default_rng([self.draw_seed, 1])
        pairs = _pairs(walks, self.context)
        occurs = np.bincount(walks[walks >= 0], minlength=self.nodes)
        cumulative = np.cumsum(occurs**0.75)
        generator = torch.Generator().manual_seed(self.draw_seed)
        center = torch.nn.init.uniform_(torch.empty(self.nodes, self.dim), -0.5 / self.dim, 0.5 / self.dim, generator)
        around = torch.zeros(self.nodes, self.dim)
        center, around = center.requires_grad_(), around.requires_grad_()
        optimizer = torch.optim.Adam([center, around], self.learning_rate)
        for _ in range(self.epochs):
            order = rng.permutation(len(pairs))
            for start in range(0, len(order), self.batch):
                some = pairs[order[start : start + self.batch]]
                drawn = np.searchsorted(cumulative, rng.random((len(some), self.negatives)) * cumulative[-1], "right")
                z = center[tensor(some[:, 0])]
                yes = (z * around[tensor(some[:, 1])]).sum(-1)
                no = (around[tensor(drawn)] @ z[:, :, None]).squeeze(-1)
                loss = -(logsigmoid(yes).sum() + logsigmoid(-no).sum()) / len(some)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        met = tensor(occurs > 0)[:, None]
        self.vectors = nn.Parameter(center.detach() * met, requires_grad=False)

    def _walks(self, train: EventLog) -> np.ndarray:  # (walks, length + 1), -1 where a walk has ended
        index = NeighborIndex()
        index.append(train.src, train.dst, train.t, ties=train.ties)
        rng = np.random.default_rng([self.draw_seed, 0])
        events = rng.integers(0, len(train), self.walks * len(train))
        flip = rng.random(len(events)) < 0.5
        last = np.where(flip, train.src[events], train.dst[events])
        before = np.where(flip, train.dst[events], train.src[events])
        if self.length == 1:
            return np.stack([last, before], 1)
        keys = query_keys(self.draw_seed, np.arange(len(events)))
        found = causal_walks(index, before, train.t[events], walks=1, length=self.length - 1, keys=keys)
        rest = np.where(found.mask, found.nodes, -1)[:, 0]
        return np.concatenate([last[:, None], rest], 1)

    # -- answering -----------------------------------------------------------------------------------------------

    def gather(self, query: Query, history: HistoryView) -> np.ndarray:
        raise BadInput("CTDNE gives vectors of nodes, not scores of links; use it for node classification.")

    def gather_nodes(self, nodes: np.ndarray, history: HistoryView) -> np.ndarray:
        if not self.nodes:
            raise BadInput("CTDNE has learned nothing yet: call prepare(train) first.")
        return nodes

    def embed(self, inputs: np.ndarray, state: None) -> Tensor:  # (q, d)
        known = tensor(inputs < self.nodes, self.device)
        return self.vectors[tensor(np.minimum(inputs, self.nodes - 1), self.device)] * known[:, None]


def _pairs(walks: np.ndarray, context: int) -> np.ndarray:  # (pairs, 2)
    """Ordered pairs of nodes at most `context` steps apart in a walk, in both directions."""
    found = []
    for apart in range(1, min(context, walks.shape[1] - 1) + 1):
        one, two = walks[:, :-apart].ravel(), walks[:, apart:].ravel()
        both = np.stack([one, two], 1)[(one >= 0) & (two >= 0)]
        found += [both, both[:, ::-1]]
    return np.concatenate(found)
