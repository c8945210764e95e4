"""The whole of TGN-Att as one operation: between its parts autograd has nothing to do."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pintgn.models.attention import AttentionStep
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
        self.states = self.memory.forward(*weights[:6])
        h = self.attention.forward(None, self.states, *weights[6:-4], *weights[4:6])
        return self.pairs.forward(h, *weights[-4:])

    def backward(self, grad: Tensor) -> tuple[Tensor, ...]:
        to_h, *to_readout = self.pairs.backward(grad)
        _, to_states, *to_attention, to_frequency, to_phase = self.attention.backward(to_h)
        *to_memory, frequency, phase = self.memory.backward(to_states)
        return *to_memory, to_frequency.add_(frequency), to_phase.add_(phase), *to_attention, *to_readout
