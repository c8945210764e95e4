"""The whole of TGN-Att as one operation: between its parts autograd has nothing to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pintgn.models import kernels_pairs as kernels
from pintgn.models.attention import AttentionStep
from pintgn.models.fused import arrays
from pintgn.models.pairs import Judgement
from pintgn.models.recurrent import Step


@dataclass
class Chain:
    """Memory, one layer of attention over it, and the judgement of pairs of what that finds.

    An operation on the parameters: of memory, with the time encoding that attention shares, of the layer, and of the
    readout. CPU only.
    """

    memory: Step
    attention: AttentionStep
    pairs: Judgement

    def forward(self, *weights: Tensor) -> Tensor:  # (q,)
        *attention, last, last_bias, first, bias, judge, judge_bias = weights[6:]
        self.states = self.memory.forward(*weights[:6])
        z = self.attention.forward(None, self.states, *attention, None, None, *weights[4:6])
        # the last map of the layer and the first of the readout have nothing between them: they are one
        self.folded = first_, _, last_, _ = arrays(first, bias, last, last_bias)
        folded, folded_bias = np.empty((len(first_), 2 * last_.shape[1]), first_.dtype), np.empty_like(first_[:, 0])
        kernels.fold(*self.folded, folded, folded_bias)
        return self.pairs.forward(z, torch.from_numpy(folded), torch.from_numpy(folded_bias), judge, judge_bias)

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        to_z, to_folded, to_bias, *to_judge = self.pairs.backward(grad)
        first, _, last, last_bias = self.folded
        to_first, to_last, to_last_bias = (np.empty_like(x) for x in (first, last, last_bias))
        kernels.fold_backward(*arrays(to_folded, to_bias), first, last, last_bias, to_first, to_last, to_last_bias)
        _, to_states, *to_attention, _, _, to_frequency, to_phase = self.attention.backward(to_z)
        *to_memory, frequency, phase = self.memory.backward(to_states)
        to_layer = *to_attention, torch.from_numpy(to_last), torch.from_numpy(to_last_bias)
        to_readout = torch.from_numpy(to_first), to_bias, *to_judge
        return *to_memory, to_frequency.add_(frequency), to_phase.add_(phase), *to_layer, *to_readout
