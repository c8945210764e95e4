"""A recurrent net that reads walks prefix by prefix, one level of the trie at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_walks as kernels
from pintgn.models.fused import arrays
from pintgn.models.kernels import SINES, TURN


@dataclass
class Level:
    """The distinct prefixes of a given length, of all walks of all roots."""

    parent: np.ndarray  # (x,) the prefix one step shorter, a place in the level above
    row: np.ndarray  # (x,) which of the distinct nodes of its query it ends at
    since: np.ndarray  # (x,) float32, how long the last step went back, in units of the log's time scale
    features: np.ndarray | None  # (x, f) of the last step's event; zeros at the root
    ends: np.ndarray  # (x,) how many walks end here
    root: np.ndarray  # (x,) whose


class TrieStep:
    """A GRU from the prefixes of one level to those of the next, as an operation. CPU only.

    Of the cell's input, what depends on the node comes mapped (`mapped`, a row for each node) and the rest, φ(since) ‖
    features, is mapped here; the states above are mapped once, however many prefixes continue them.
    """

    def __init__(self, level: Level):
        self.level = level

    def forward(
        self,
        mapped: Tensor,  # (rows, 3d)
        h: Tensor,  # (prefixes above, d)
        weight: Tensor,  # (3d, w + f)
        weight_hh: Tensor,  # (3d, d)
        bias_hh: Tensor,  # (3d,)
        frequency: Tensor,  # (w,)
        phase: Tensor,  # (w,)
    ) -> Tensor:  # (x, d)
        level = self.level
        count, d = len(level.row), h.shape[1]
        steps, out = h.new_empty(count, weight.shape[1]), h.new_empty(count, d)
        turns = arrays(frequency * TURN, phase * TURN)
        kind = turns[0].dtype
        since = level.since.astype(kind, copy=False)
        features = np.zeros((count, 0), kind) if level.features is None else level.features.astype(kind, copy=False)
        where = level.parent, level.row
        steps_, out_, mapped_, h_ = arrays(steps, out, mapped, h)
        lay: Any = kernels.lay_steps
        lay(since, features, *turns, SINES[kind], steps_)
        gates, back = steps @ weight.T, torch.addmm(bias_hh, h, weight_hh.T)
        gates_, back_ = arrays(gates, back)
        kernels.add_known(*where, mapped_, back_, gates_)
        gates[:, : 2 * d].sigmoid_()
        kernels.add_kept(level.parent, back_, gates_)
        gates[:, 2 * d :].tanh_()
        kernels.mix(level.parent, h_, gates_, out_)
        self.inputs, self.inside = (weight, weight_hh, h), (where, since, turns, len(mapped), steps, gates, back)
        return out

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        (weight, weight_hh, h), (where, since, turns, rows, steps, gates, back) = self.inputs, self.inside
        to_gates, to_mapped = torch.empty_like(gates), gates.new_zeros(rows, gates.shape[1])
        to_back, to_h = torch.zeros_like(back), torch.zeros_like(h)
        fill: Any = kernels.trie_backward
        fill(*where, *arrays(h, back, gates, grad, to_gates, to_mapped, to_back, to_h))
        to_frequency, to_phase = grad.new_zeros(len(turns[0])), grad.new_zeros(len(turns[0]))
        to_waves = to_gates @ weight[:, : len(turns[0])]
        fill = kernels.steps_backward
        fill(since, *turns, SINES[turns[0].dtype], *arrays(to_waves, to_frequency, to_phase))
        to_h.addmm_(to_back, weight_hh)
        to_weights = to_gates.T @ steps, to_back.T @ h, to_back.sum(0)
        return to_mapped, to_h, *to_weights, to_frequency, to_phase
