"""`check_model` catches what it promises to catch: for each check a model that breaks just that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from pintgn.check import CHECKS, CheckFailed, check_model
from pintgn.models.base import Model
from pintgn.models.pint import PINT
from pintgn.models.state import State


class Honest(Model):
    """A tiny model that keeps every promise: newest contacts and their features, one linear map."""

    def make(self, schema):
        self.linear = nn.Linear(2 * (2 + schema.width), 1)

    def gather(self, query, history):
        sides = []
        for nodes in (query.src, query.dst):
            found = history.recent(nodes, 3)
            features = history.event_features(found.events, found.mask)
            dt = np.where(found.mask, 1 / (1 + found.dt / self.dt_unit), 0)
            sides.append(np.concatenate([found.mask.sum(1)[:, None], dt.sum(1)[:, None], features.sum(1)], 1))
        return np.concatenate(sides, 1).astype(np.float32)

    def forward(self, inputs, state):
        return self.linear(torch.from_numpy(inputs)).squeeze(-1)


def test_an_honest_model_passes():
    assert check_model(Honest) == list(CHECKS)


class PeeksPastTime(Honest):
    """Asks the index for events after the query's time."""

    def gather(self, query, history):
        ahead = history.index.count(query.dst, query.t + 5)
        inputs = super().gather(query, history)
        inputs[:, 0] += ahead
        return inputs


class PeeksAtItsOwnGroup(Honest):
    """Sees events simultaneous with the query, those of the same batch and of earlier ones."""

    def gather(self, query, history):
        inputs = super().gather(query, history)
        inputs[:, 0] += history.index.count(query.dst, query.t + 1)
        return inputs


class PeeksAcrossABatchBorder(Honest):
    """Sees simultaneous events, but only those that an earlier batch has brought."""

    held = 0

    def gather(self, query, history):
        inputs = super().gather(query, history)
        held = self.held if self.held < history.index.events else 0
        inputs[:, 0] += history.index.count(query.dst, query.t + 1, before=np.full(len(query), held))
        self.held = history.index.events
        return inputs


class WritesWhileScoring(Honest):
    calls = 0.0

    def forward(self, inputs, state):
        self.calls += 1
        return super().forward(inputs, state) + self.calls


class DependsOnQueryOrder(Honest):
    def forward(self, inputs, state):
        scores = super().forward(inputs, state)
        return scores + torch.arange(len(scores)) * 0.01


class DependsOnBatchSize(Honest):
    def forward(self, inputs, state):
        return super().forward(inputs, state) / len(inputs)


class UsesNodeNumbers(Honest):
    def gather(self, query, history):
        inputs = super().gather(query, history)
        inputs[:, 0] += query.dst
        return inputs


class ReadsEventNumbers(Honest):
    """Prefers, of simultaneous events, the one that stands first in the file."""

    def gather(self, query, history):
        inputs = super().gather(query, history)
        found = history.recent(query.src, 3)
        inputs[:, 0] += np.where(found.mask, found.events, 0).max(1)
        return inputs


class ReadsPadding(Honest):
    """Sums the features of all slots, the empty ones included."""

    def gather(self, query, history):
        inputs = super().gather(query, history)
        found = history.recent(query.src, 3)
        inputs[:, 0] += history.event_table[found.events][:, :, 0].sum(1)
        return inputs


@dataclass
class Counts(State):
    seen: np.ndarray  # (n,)


class Remembering(Honest):
    """Counts how often a node was met in complete blocks."""

    @property
    def remembers(self):
        return True

    def initial_state(self, node_features, time_dtype):
        return Counts(np.zeros(0))

    def gather(self, query, history):
        return super().gather(query, history), query.dst

    def forward(self, inputs, state):
        arrays, dst = inputs
        return super().forward(arrays, state) + torch.from_numpy(state.rows(dst).seen.astype(np.float32))

    def observe(self, block, state):
        nodes, counts = np.unique(block.dst, return_counts=True)
        rows = state.rows(nodes)
        rows.seen = rows.seen + counts
        state.put(nodes, rows)


def test_a_model_that_remembers_passes():
    assert check_model(Remembering) == list(CHECKS)


class SharesState(Remembering):
    """A fork that is the same object."""

    def initial_state(self, node_features, time_dtype):
        class Shared(Counts):
            def fork(self):
                return self

        return Shared(np.zeros(0))


class ForgetsOnSave(Remembering):
    def initial_state(self, node_features, time_dtype):
        class Forgetful(Counts):
            def arrays(self):
                return {"seen": np.zeros_like(self.seen)}

        return Forgetful(np.zeros(0))


class IgnoresThePast(Honest):
    def gather(self, query, history):
        return np.zeros_like(super().gather(query, history))


class BreaksOnNewNodes(Honest):
    def gather(self, query, history):
        inputs = super().gather(query, history)
        inputs[history.index.count(query.src, query.t) == 0] = np.nan
        return inputs


class Embedding(Honest):
    """Also embeds nodes: how often they were met."""

    def gather_nodes(self, nodes, history):
        return history.count(nodes)[:, None].astype(np.float32)

    def embed(self, inputs, state):
        return torch.from_numpy(inputs)


def test_a_model_that_embeds_passes():
    assert check_model(Embedding) == list(CHECKS)


class EmbedsItsOwnGroup(Embedding):
    def gather_nodes(self, nodes, history):
        return history.index.count(nodes, history.t + 1)[:, None].astype(np.float32)


class EmbedsNodeNumbers(Embedding):
    def gather_nodes(self, nodes, history):
        return nodes[:, None].astype(np.float32)


class EmbedsTheirPlace(Embedding):
    def embed(self, inputs, state):
        return super().embed(inputs, state) + torch.arange(len(inputs))[:, None]


class EmbedsNothing(Embedding):
    def embed(self, inputs, state):
        return torch.zeros(len(inputs), 2)


class EmbedsNewNodesBadly(Embedding):
    def gather_nodes(self, nodes, history):
        counts = super().gather_nodes(nodes, history)
        return np.where(counts > 0, counts, np.nan).astype(np.float32)


class HasAnIdleParameter(Honest):
    def make(self, schema):
        super().make(schema)
        self.idle = nn.Parameter(torch.zeros(3))


@pytest.mark.parametrize(
    ("broken", "promise", "hint"),
    [
        (WritesWhileScoring, "scoring is pure", "written or drawn"),
        (PeeksPastTime, "the future changes nothing", "the model sees"),
        (PeeksAtItsOwnGroup, "the future changes nothing", "its own group of simultaneous events"),
        (PeeksAcrossABatchBorder, "the future changes nothing", "its own group of simultaneous events"),
        (DependsOnBatchSize, "batch size changes nothing", "depends on the batch"),
        (DependsOnQueryOrder, "query order changes nothing", "order of the queries"),
        (UsesNodeNumbers, "node numbers change nothing", "numbered differently"),
        (ReadsEventNumbers, "the order of simultaneous events changes nothing", "comes first in the file"),
        (ReadsPadding, "padding changes nothing", "empty slot"),
        (SharesState, "a fork is independent", "state is shared"),
        (IgnoresThePast, "observing matters", "not used"),
        (BreaksOnNewNodes, "unseen nodes get finite scores", "must be finite"),
        (ForgetsOnSave, "saving keeps everything", "not saved"),
        (EmbedsItsOwnGroup, "node embeddings keep the same promises", "its own group"),
        (EmbedsNodeNumbers, "node embeddings keep the same promises", "numbered differently"),
        (EmbedsTheirPlace, "node embeddings keep the same promises", "order of the nodes"),
        (EmbedsNothing, "node embeddings keep the same promises", "past is not used"),
        (EmbedsNewNodesBadly, "node embeddings keep the same promises", "one finite row each"),
        (HasAnIdleParameter, "a gradient reaches every parameter", "idle"),
    ],
)
def test_a_broken_promise_is_named(broken, promise, hint, monkeypatch):
    # only the named check runs, so that each one is shown to catch its own breach
    monkeypatch.setattr("pintgn.check.CHECKS", {promise: CHECKS[promise]})
    with pytest.raises(CheckFailed, match=f"{broken.__name__}: {promise} - broken.*{hint}"):
        check_model(broken)


def test_every_check_has_a_model_that_breaks_it():
    marks = [mark for mark in test_a_broken_promise_is_named.pytestmark if mark.name == "parametrize"]
    assert {promise for _, promise, _ in marks[0].args[1]} == set(CHECKS)


def test_the_checked_model_is_left_alone():
    model = PINT(dim=4, neighbors=2)
    check_model(model)
    assert model.schema is None


class HasNothingToLearn(Honest):
    def make(self, schema):
        super().make(schema)
        for parameter in self.parameters():
            parameter.requires_grad = False


def test_a_model_without_parameters_to_learn_passes():
    assert check_model(HasNothingToLearn) == list(CHECKS)
