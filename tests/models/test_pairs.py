from __future__ import annotations

import numpy as np
import pytest
import torch

from pintgn.models.layers import MLP
from pintgn.models.pairs import judge_pairs


@pytest.mark.parametrize("pairs", [1, 2, 30])
def test_pairs_that_share_ends_are_judged_as_if_each_were_alone(pairs):
    torch.manual_seed(pairs)
    readout, h = MLP(8, 4, 1).double(), torch.randn(5, 4).double().requires_grad_()
    tree_of = np.random.default_rng(pairs).integers(0, 5, 2 * pairs)  # a tree may be a source here and an end there
    found = judge_pairs(readout, h, tree_of)
    expected = readout(h[torch.from_numpy(tree_of)].view(-1, 8)).squeeze(-1)
    torch.testing.assert_close(found, expected)
    leaves, grad = [h, *readout.parameters()], torch.randn_like(expected)
    mine, its, again = (torch.autograd.grad(x, leaves, grad, retain_graph=True) for x in (found, expected, found))
    for one, two, three in zip(mine, its, again, strict=True):
        torch.testing.assert_close(one, two)
        assert torch.equal(one, three)  # nothing that was kept has been overwritten


def test_ends_that_nobody_shares_need_no_list():
    readout, h = MLP(8, 4, 1), torch.randn(6, 4)
    torch.testing.assert_close(judge_pairs(readout, h, None), judge_pairs(readout, h, np.arange(6)))
