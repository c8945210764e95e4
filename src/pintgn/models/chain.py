"""The whole of TGN-Att as one operation: between its parts autograd has nothing to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_pairs
from pintgn.models.attention import AttentionStep
from pintgn.models.fused import arrays
from pintgn.models.pairs import Judgement
from pintgn.models.recurrent import Step

kernels: Any = kernels_pairs


@dataclass
class Chain:
    """Memory, one layer of attention over it, and the judgement of pairs of what that finds.

    An operation on the parameters: of memory (6), with the time encoding that attention shares, of the layer (5 up to
    its ReLU, 2 after it), and of the readout (4). Nothing stands between the last map of the layer and the first of the
    readout, so they are one. CPU only.
    """

    memory: Step
    attention: AttentionStep
    pairs: Judgement

    def forward(self, *weights: Tensor) -> Tensor:  # (q,)
        last, last_bias, first, bias, judge, judge_bias = weights[11:]
        self.states = self.memory.forward(*weights[:6])
        z = self.attention.forward(None, self.states, *weights[6:11], *weights[4:6])
        self.folded = first_, _, last_, _ = arrays(first, bias, last, last_bias)
        folded, folded_bias = np.empty((len(first_), 2 * last_.shape[1]), first_.dtype), np.empty_like(first_[:, 0])
        kernels.fold(*self.folded, folded, folded_bias)
        return self.pairs.forward(z, torch.from_numpy(folded), torch.from_numpy(folded_bias), judge, judge_bias)

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        to_z, to_folded, to_bias, *to_judge = self.pairs.backward(grad)
        first, _, last, last_bias = self.folded
        to_last, to_last_bias, to_first = (np.empty_like(x) for x in (last, last_bias, first))
        kernels.fold_backward(*arrays(to_folded, to_bias), first, last, last_bias, to_first, to_last, to_last_bias)
        _, to_states, *to_attention, to_frequency, to_phase = self.attention.backward(to_z)
        *to_memory, frequency, phase = self.memory.backward(to_states)
        to_fold = map(torch.from_numpy, (to_last, to_last_bias, to_first))
        to_waves = to_frequency.add_(frequency), to_phase.add_(phase)
        return *to_memory, *to_waves, *to_attention, *to_fold, to_bias, *to_judge
