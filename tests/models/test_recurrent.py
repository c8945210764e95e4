from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn.models.fused import Run
from pintgn.models.recurrent import Step


@pytest.mark.parametrize("cell", [torch.nn.GRUCell, torch.nn.RNNCell])
@pytest.mark.parametrize(
    "waits", [[True] * 9, [True, False, True, False, False, True, True, False, False], [False] * 9]
)
def test_a_step_and_its_gradients_are_those_of_torch(cell, waits):
    torch.manual_seed(0)
    d, more, waves, known = 4, 7, 5, 9
    module = cell(d + more + waves, d).double()
    frequency, phase = (torch.randn(waves).double().requires_grad_() for _ in range(2))
    state, dt = torch.randn(known, d).double(), torch.rand(known).double()
    message = torch.cat([state, torch.randn(known, more).double()], 1)  # a message begins with the node's own state
    parameters = [module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh, frequency, phase]
    now, said, ago = state.clone(), message.clone(), dt.clone()
    stepped = module(torch.cat([said, torch.cos(ago[:, None] * frequency + phase)], 1), now)
    everyone = torch.where(torch.tensor(waits)[:, None], stepped, now)  # nobody steps without a message
    nodes = np.array([3, 8, 0, 11, 5, 2])  # 11 is new: zeros
    expected = torch.cat([everyone, torch.zeros(3, d)])[nodes]
    found = Run.apply(Step(nodes, state, np.array(waits), message, dt), *parameters)
    torch.testing.assert_close(found, expected)
    for table in (state, message, dt):
        table.copy_(torch.randn_like(table))  # memory moves on before the gradient comes back
    grad = torch.randn_like(expected)
    mine, its, again = (torch.autograd.grad(x, parameters, grad, retain_graph=True) for x in (found, expected, found))
    for one, two, three in zip(mine, its, again, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7)
        assert torch.equal(one, three)  # nothing that was kept has been overwritten


def test_what_is_not_a_number_stays_so():
    cell, waves = torch.nn.GRUCell(4, 2), [torch.ones(2), torch.zeros(2)]
    cell.weight_ih.data[0, 0] = torch.nan
    step = Step(np.arange(3), torch.ones(3, 2), np.ones(3, bool), torch.ones(3, 2), torch.ones(3))
    found = step.forward(cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh, *waves)
    assert found[:, 0].isnan().all()
