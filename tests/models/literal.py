"""PINT's equations, written out: slow, recursive, obviously right. Shares nothing with the model but its parameters."""

from __future__ import annotations

import torch

from pintgn.events.log import EventLog
from pintgn.models.pint import PINT


def neighbors(log: EventLog, v: int, t: float, k: int | None) -> list[tuple[int, int]]:
    """N(v, t): (neighbor, event number) of the k newest events of v strictly before t; a self-loop counts once."""
    found = []
    for event in range(len(log)):
        if log.t[event] < t and v in (log.src[event], log.dst[event]):
            other = log.dst[event] if log.src[event] == v else log.src[event]
            found.append((int(other), event))
    found.sort(key=lambda one: (log.t[one[1]], log.ties[one[1]], one[1]), reverse=True)
    return found[:k]


def walk_counts(log: EventLog, j: int, root: int, t: float, length: int) -> list[float]:
    """r_{j→root}(t): by steps, the walks from the root back to j whose times strictly decrease, all before t."""
    counts = [0.0] * length
    ends = [(root, t)]
    for step in range(length):
        counts[step] = float(sum(node == j for node, _ in ends))
        ends = [(other, log.t[e]) for node, time in ends for other, e in neighbors(log, node, time, None)]
    return counts


class Literal:
    """Scores one query at a time from the whole log and the model's parameters; memory as given, per node."""

    def __init__(self, model: PINT, log: EventLog, memory: torch.Tensor | None = None):
        self.model, self.log, self.memory = model, log, memory

    def score(self, u: int, v: int, t: float) -> torch.Tensor:
        roots = torch.cat([self.embed(u, (u, v), t), self.embed(v, (v, u), t)])
        return self.model.readout(roots).squeeze(-1)

    def embed(self, root: int, roots: tuple[int, ...], t: float) -> torch.Tensor:
        return self.hidden(root, roots, t, self.model.layers)

    def hidden(self, j: int, roots: tuple[int, ...], t: float, layer: int) -> torch.Tensor:
        """h_j^(layer) in the tree of roots[0], for a query that also involves roots[1:]."""
        model, log = self.model, self.log
        if layer == 0:
            return torch.cat([self.state(j), self.positions(j, roots, t)])
        beta = torch.relu(model.learned_beta) if model.learn_beta else torch.tensor(model.beta)
        total = torch.zeros(model.dim)
        for other, event in neighbors(log, j, t, model.neighbors):
            message = [self.below(other, roots, t, layer - 1)]
            if log.marked_features is not None:
                message.append(torch.from_numpy(log.marked_features[event].copy()))
            dt = float(t - log.t[event]) / model.dt_unit
            total = total + model.steps[layer - 1].aggregate(torch.cat(message)) * 2.0 ** (-beta * dt)  # Eq. 5
        return model.steps[layer - 1].update(torch.cat([self.below(j, roots, t, layer - 1), total]))  # Eq. 6

    def below(self, j: int, roots: tuple[int, ...], t: float, layer: int) -> torch.Tensor:
        h = self.hidden(j, roots, t, layer)
        again = layer and self.model.positions_at == "every"
        return torch.cat([h, self.positions(j, roots, t)]) if again else h

    def state(self, j: int) -> torch.Tensor:
        parts = [] if self.memory is None else [self.memory[j]]
        if self.log.node_features is not None:
            parts.append(torch.from_numpy(self.log.node_features[j].copy()))
        return torch.cat(parts) if parts else torch.zeros(0 if self.model.positions else 1)

    def positions(self, j: int, roots: tuple[int, ...], t: float) -> torch.Tensor:
        if not self.model.positions:
            return torch.zeros(0)
        counts = [walk_counts(self.log, j, root, t, self.model.positions) for root in roots]
        counts += [[0.0] * self.model.positions] * (2 - len(roots))
        return torch.log1p(torch.tensor(counts)).flatten()
