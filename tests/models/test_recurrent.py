from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn.models import kernels_recurrent as kernels
from pintgn.models.recurrent import Step, gru_backward


@pytest.mark.parametrize("cell", [torch.nn.GRUCell, torch.nn.RNNCell])
@pytest.mark.parametrize("late", [None, [5, 0, 3]])
def test_a_step_and_its_gradients_are_those_of_torch(cell, late):
    torch.manual_seed(0)
    d, more, waves, nodes = 4, 7, 5, 9
    module = cell(d + more + waves, d).double()
    frequency, phase = (torch.randn(waves).double().requires_grad_() for _ in range(2))
    state, dt = torch.randn(nodes, d).double(), torch.rand(nodes).double()
    message = torch.cat([state, torch.randn(nodes, more).double()], 1)  # a message begins with the node's own state
    parameters = [module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh, frequency, phase]
    expected = module(torch.cat([message, torch.cos(dt[:, None] * frequency + phase)], 1), state)
    if late is not None:  # only these rows take the step
        late = torch.tensor(late)
        expected = state.index_copy(0, late, expected[late])
    found = Step.apply(late, message, dt, state, *parameters)
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(expected)
    for mine, its in zip(*(torch.autograd.grad(x, parameters, grad) for x in (found, expected)), strict=True):
        torch.testing.assert_close(mine, its)


def test_the_backward_loop_equals_the_formula():
    torch.manual_seed(1)
    grad, kept, state = (torch.randn(6, 3) for _ in range(3))
    gates = torch.rand(6, 9)
    found = np.empty((6, 9), np.float32), np.empty((6, 3), np.float32)
    kernels.gru_backward(*(x.numpy() for x in (grad, gates, kept, state)), *found)
    for mine, its in zip(found, gru_backward(grad, gates, kept, state), strict=True):
        torch.testing.assert_close(torch.from_numpy(mine), its)
