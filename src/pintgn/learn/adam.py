"""Adam, by torch's own arithmetic, without what `torch.optim` loads beside it.

The first `torch.optim.Adam` of a process imports torch's compiler, which is never used here: a second of processor time
and 70 MB, for as long as the process lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

BETAS, EPSILON = (0.9, 0.999), 1e-8
STATE = ("step", "exp_avg", "exp_avg_sq")
"""What is kept of each parameter, by the names of `torch.optim.Adam`."""


class Adam:
    """`torch.optim.Adam` of one group of parameters, to the bit; its state has the same form.

    Args:
        parameters: those without a gradient are left as they are.
        rate: the learning rate, which may be set anew before every step.
        weight_decay: times the parameter is added to its gradient.
    """

    def __init__(self, parameters: Iterable[Tensor], rate: float, weight_decay: float = 0.0):
        self.parameters = list(parameters)
        self.rate, self.weight_decay = rate, weight_decay
        self.state: dict[int, dict[str, Tensor]] = {}
        self.fused = all(p.device.type == "cpu" for p in self.parameters)

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        moved = [k for k, p in enumerate(self.parameters) if p.grad is not None]
        for k in moved:
            if k not in self.state:
                self.state[k] = self._initial(self.parameters[k])
        if not moved:
            return
        steps, means, squares = ([self.state[k][name] for k in moved] for name in STATE)
        adam(
            [self.parameters[k] for k in moved],
            [grad for k in moved if (grad := self.parameters[k].grad) is not None],
            means, squares, [], steps,
            fused=self.fused or None, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.rate,
            weight_decay=self.weight_decay, eps=EPSILON, maximize=False,
        )  # fmt: skip

    def _initial(self, p: Tensor) -> dict[str, Tensor]:
        none = torch.zeros_like(p, memory_format=torch.preserve_format)
        return {"step": torch.tensor(0.0), "exp_avg": none, "exp_avg_sq": none.clone()}

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state}

    def load_state_dict(self, found: dict[str, Any]) -> None:
        """Take over copies of a state, each where its parameter is."""
        self.state = {
            k: {
                name: value.detach().clone() if name == "step" else value.detach().clone().to(self.parameters[k])
                for name, value in of.items()
            }
            for k, of in found["state"].items()
        }
