"""Building blocks that several models share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from pintgn.models.fused import WeightedReluSum


def tensor(array: np.ndarray, device: torch.device | None = None) -> Tensor:
    """A NumPy array as a tensor, without a copy where possible."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)


class MLP(nn.Module):
    """Two linear maps with a ReLU between: approximates any function on a finite support (paper, Section 4)."""

    def __init__(self, width: int, hidden: int, out: int):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.last = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:  # (…, width) -> (…, out)
        return self.last(torch.relu(self.first(x)))


@dataclass
class Slots:
    """What every slot of a tree's level knows: a row of a table, which slots may share, and its own positions."""

    table: Tensor  # (rows, s)
    row_of: np.ndarray  # (slots,)
    positions: np.ndarray  # (slots, p); p may be 0

    def dense(self) -> Tensor:  # (slots, s + p)
        device = self.table.device
        return torch.cat([self.table[tensor(self.row_of, device)], tensor(self.positions, device)], -1)


class InjectiveLayer(nn.Module):
    """One step of PINT's message passing (Eqs. 5-6), from a level's children to the level.

        ĥ_v = Σ_u MLP_agg(h_u ‖ e) · weight_u        h_v = MLP_upd(h_v ‖ ĥ_v)

    On the CPU it is computed without waste, by rewrites that change nothing but rounding: the first map of MLP_agg
    splits by input, so that what slots share is mapped once; its last map commutes with the weighted sum and merges
    with the first map of MLP_upd; what remains per slot is one fused loop. Elsewhere, or with `fused = False`, it is
    computed as written.

    `ages` more columns beside the positions of a child belong to the event e that joins it to its parent.
    """

    fused = True

    def __init__(self, state: int, positions: int, features: int, dim: int, ages: int = 0):
        super().__init__()
        self.split, self.own = [state, positions + ages, features], [state, positions]
        self.aggregate = MLP(sum(self.split), dim, dim)
        self.update = MLP(sum(self.own) + dim, dim, dim)

    def forward(
        self, parents: Slots, children: Slots, features: Tensor | None, event_of: np.ndarray, weight: Tensor
    ) -> Tensor:  # (parent slots, d)
        """`features` (e', f) of distinct events, `event_of` (child slots,), `weight` (child slots,)."""
        if self.fused and weight.device.type == "cpu":
            return self._fused(parents, children, features, event_of, weight)
        child = children.dense()
        if features is not None:
            child = torch.cat([child, features[tensor(event_of, child.device)]], -1)
        message = self.aggregate(child) * weight[:, None]
        summed = message.view(len(parents.row_of), -1, message.shape[1]).sum(1)
        return self.update(torch.cat([parents.dense(), summed], -1))

    def _fused(
        self, parents: Slots, children: Slots, features: Tensor | None, event_of: np.ndarray, weight: Tensor
    ) -> Tensor:
        first, last, into = self.aggregate.first, self.aggregate.last, self.update.first
        by_state, by_position, by_feature = first.weight.split(self.split, 1)
        k = len(children.row_of) // len(parents.row_of)
        absent = first.weight.new_zeros(0, len(first.bias))
        summed = WeightedReluSum.apply(
            k,
            first.bias,
            children.table @ by_state.T if self.split[0] else absent,
            children.row_of,
            features @ by_feature.T if features is not None else absent,
            event_of,
            children.positions,
            by_position.T,
            weight,
        )
        own_state, own_position, from_sum = into.weight.split([*self.own, len(last.bias)], 1)
        total = weight.view(-1, k).sum(1, keepdim=True)
        z = torch.addmm(into.bias, summed, (from_sum @ last.weight).T) + total * (from_sum @ last.bias)
        if self.own[0]:
            z = z + (parents.table @ own_state.T)[tensor(parents.row_of)]
        if self.own[1]:
            z = torch.addmm(z, tensor(parents.positions), own_position.T)
        return self.update.last(torch.relu(z))


class TimeEncoding(nn.Module):
    """φ(dt) = cos(ω dt + b), learned (paper, Eq. S1; TGAT). dt in units of the log's time scale.

    The frequencies start evenly spaced on a log scale, from a thousandth to a million times the time scale, which
    covers seconds to years for any log whose nodes act every few hours.
    """

    def __init__(self, width: int):
        super().__init__()
        self.frequency = nn.Parameter(torch.logspace(3, -6, width))
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, dt: Tensor) -> Tensor:  # (…) -> (…, width)
        return torch.cos(dt[..., None] * self.frequency + self.phase)
