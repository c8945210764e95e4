"""Nothing is left on the processor: every model goes through look-ups, forward, loss and backward on another device.

There is no GPU here, so tensors are fake (`FakeTensorMode`): they have shapes, types and devices, but no numbers, and
an operation on two devices is an error, as it is on a GPU. Fake CUDA tensors need a torch that is built with CUDA;
where it is not, the device is "meta", which is as strict about what is mixed. What crosses to the processor on purpose,
by `.numpy(force=True)`, is a fake array of zeros; `.numpy()` alone is an error off the processor.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from pintgn import PINT, TGN, EventLog, Model, Stream, fit
from pintgn.errors import PintgnWarning
from pintgn.events.log import Query
from pintgn.learn.settings import Training
from pintgn.learn.tasks.link import link_loss
from pintgn.learn.train import Average
from pintgn.models.registry import MODELS, model_class
from tests.learn.helpers import random_log

DEVICE = "cuda" if torch.backends.cuda.is_built() else "meta"
ON_PROCESSOR = ("boosted", "edgebank", "heuristic")
"""Models without parameters, which compute on the processor wherever the others are."""


@contextmanager
def elsewhere(monkeypatch) -> Iterator[FakeTensorMode]:
    """Computing happens with fake tensors; looking up with real arrays, as always."""
    mode, compute, to_array = FakeTensorMode(allow_non_fake_inputs=True), Stream._compute, Tensor.numpy

    def computed(*given, **more):
        with mode:
            return compute(*given, **more)

    def array(self, *, force=False):
        if not isinstance(self, FakeTensor):
            return to_array(self, force=force)
        if self.device.type != "cpu" and not force:
            raise TypeError(f"can't convert a {self.device} tensor to numpy; copy it to the processor first")
        return np.zeros(tuple(self.shape), torch.empty(0, dtype=self.dtype, device="meta").dtype.__str__()[6:])

    monkeypatch.setattr(Stream, "_compute", computed)
    monkeypatch.setattr(Tensor, "numpy", array)
    yield mode


def move(model: Model, mode: FakeTensorMode) -> None:
    """What `model.to(DEVICE)` would do."""
    with mode:
        for module in model.modules():
            for held in (module._parameters, module._buffers):
                for name, old in list(held.items()):
                    if old is not None:
                        new = torch.empty(old.shape, dtype=old.dtype, device=DEVICE)
                        held[name] = nn.Parameter(new, old.requires_grad) if held is module._parameters else new


def log_with_everything() -> EventLog:
    log, rng = random_log(300, 20, ties=3), np.random.default_rng(0)
    features, nodes = (rng.normal(size=(count, 3)).astype(np.float32) for count in (300, 20))
    return EventLog(log.src, log.dst, log.t, features=features, node_features=nodes)


def train(model: Model, monkeypatch) -> list[Tensor]:
    log = log_with_everything()
    model.prepare(log)
    stream = Stream(model, log.schema, node_features=log.node_features, memory_block=50)
    with elsewhere(monkeypatch) as mode:
        move(model, mode)
        rng, learns = np.random.default_rng(0), [p for p in model.parameters() if p.requires_grad]
        with mode:
            optimizer, average = torch.optim.Adam(learns, 1e-3) if learns else None, Average(model, 0.9)
        for batch in log.batches(100):
            queries = [batch.query, batch.query.toward(rng.integers(0, 25, len(batch)))]  # some were never seen
            scores = stream.replay(batch, queries)
            if optimizer is not None:
                with mode:
                    loss = link_loss(scores[0], scores[1:], Training(learning_rate=1e-3))
                    loss.backward()
                    nn.utils.clip_grad_norm_(learns, 1.0)
                    optimizer.step()
                    average.update()
        asked = Query(batch.src[:7], batch.dst[:7], np.full(7, log.t[-1] + 1))
        with mode:
            ranked = stream.rank(None, asked, np.tile(np.arange(25), (7, 1)))
        embeds = type(model).gather_nodes is not Model.gather_nodes
        embedded = stream.embed(np.arange(25), int(log.t[-1]) + 1) if embeds else ranked
        stream.fork().observe(log[:0])
    return [*scores, ranked, embedded, *(p.grad for p in learns if p.grad is not None)]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in (*ON_PROCESSOR, "ctdne")])
def test_a_model_leaves_nothing_on_the_processor(name, monkeypatch):
    found = train(model_class(name)(), monkeypatch)
    assert {tensor.device.type for tensor in found} == {DEVICE}
    assert all(isinstance(tensor, FakeTensor) for tensor in found)
    assert len(found) > 4  # there are gradients


@pytest.mark.parametrize(
    "model",
    [
        PINT(dim=8, layers=2, memory=8, pair_history=True, historical=True),
        PINT(dim=8, positions=0, memory=0),
        TGN(dim=8, layers=2, memory=8, pair_history=True),
    ],
    ids=repr,
)
def test_settings_leave_nothing_on_the_processor(model, monkeypatch):
    assert {tensor.device.type for tensor in train(model, monkeypatch)} == {DEVICE}


@pytest.mark.parametrize("name", ["edgebank", "heuristic"])
def test_what_has_no_parameters_stays_on_the_processor(name, monkeypatch):
    assert {tensor.device.type for tensor in train(model_class(name)(), monkeypatch)} == {"cpu"}


class LeavesBehind(PINT):
    """Adds a tensor that nobody put on the device."""

    def forward(self, inputs, state):
        scores = super().forward(inputs, state)
        return scores + torch.from_numpy(np.ones(len(scores), np.float32))


class FetchesByChance(PINT):
    """Reads a tensor of the device as if it were the processor's."""

    def forward(self, inputs, state):
        scores = super().forward(inputs, state)
        return scores * float(scores.detach().numpy().sum() >= 0)


@pytest.mark.parametrize("model", [LeavesBehind(), FetchesByChance()], ids=repr)
def test_a_tensor_left_on_the_processor_is_found(model, monkeypatch):
    with pytest.raises((RuntimeError, TypeError), match="device|processor"):
        train(model, monkeypatch)


def test_a_device_that_a_model_makes_no_use_of_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    log = random_log(200, 20)
    with pytest.warns(PintgnWarning, match="edgebank computes on the processor; device='cuda' makes it no faster"):
        fit("edgebank", log, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PintgnWarning)
        fit("edgebank", log)
    assert {name for name in MODELS if model_class(name).on_processor} == {*ON_PROCESSOR, "ctdne"}
