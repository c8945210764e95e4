"""Our Adam is torch's, to the bit, and loads nothing that training does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from pintgn.learn.adam import Adam


def parameters() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in ((7, 5), (5,), (3, 3))]


def give_gradients(some: list[torch.Tensor], step: int) -> None:
    """The last parameter has none at first."""
    generator = torch.Generator().manual_seed(step)
    for k, p in enumerate(some):
        grad = torch.randn(p.shape, generator=generator)
        p.grad = None if k == 2 and step < 3 else grad


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_moves_as_torchs_own_does(weight_decay):
    ours, theirs = parameters(), parameters()
    mine = Adam(ours, 1e-2, weight_decay)
    other = torch.optim.Adam(theirs, 1e-2, weight_decay=weight_decay, fused=True)
    for step in range(6):
        mine.rate = other.param_groups[0]["lr"] = 1e-2 / (step + 1)
        give_gradients(ours, step)
        give_gradients(theirs, step)
        mine.step()
        other.step()
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    saved, wanted = mine.state_dict()["state"], other.state_dict()["state"]
    assert saved.keys() == wanted.keys()
    for k in wanted:
        assert saved[k].keys() == wanted[k].keys()
        assert all(torch.equal(saved[k][name], wanted[k][name]) for name in wanted[k])


def test_it_goes_on_from_a_saved_state():
    whole, halves = parameters(), parameters()
    one, first = Adam(whole, 1e-2), Adam(halves, 1e-2)
    for step in range(6):
        give_gradients(whole, step)
        one.step()
        if step == 3:
            state, first = first.state_dict(), Adam(halves, 1e-2)
            first.load_state_dict(state)
        give_gradients(halves, step)
        first.step()
    assert all(torch.equal(a, b) for a, b in zip(whole, halves, strict=True))


def test_a_step_without_gradients_changes_nothing():
    some = parameters()
    optimizer = Adam(some, 1e-2)
    optimizer.zero_grad()
    optimizer.step()
    assert not optimizer.state_dict()["state"]
    assert all(torch.equal(a, b) for a, b in zip(some, parameters(), strict=True))


def test_training_does_not_load_torchs_compiler():
    program = (
        "import sys, pintgn; pintgn.fit('tgat', pintgn.simulate('repeat', events=200, seed=0), epochs=1);"
        "sys.exit('torch._dynamo' in sys.modules or 'torch._inductor' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
