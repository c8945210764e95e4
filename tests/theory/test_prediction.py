"""What the report says before any training comes true when models are trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from pintgn.datasets.simulate import make_world
from pintgn.models.pint import PINT
from pintgn.stream import Stream
from pintgn.theory import report

pytestmark = pytest.mark.learning


def trained_auc(world, log, positions: int, epochs: int) -> float:
    """Share of (event, negative) pairs ranked right in the last fifth, after training on the rest."""
    train, test = log[: len(log) * 4 // 5], log[len(log) * 4 // 5 :]
    model = PINT(dim=16, positions=positions, neighbors=5)
    model.build(log.schema)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for epoch in range(epochs):
        stream = Stream(model, log.schema)
        for events in train.batches(100):
            negative = events.query.toward(world.negatives(events, seed=1000 * epoch + events.first))
            yes, no = stream.replay(events, [events.query, negative])
            loss = torch.nn.functional.softplus(-yes).mean() + torch.nn.functional.softplus(no).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    stream = Stream(model, log.schema)
    stream.observe(train)
    with torch.no_grad():
        yes, no = stream.replay(test, [test.query, test.query.toward(world.negatives(test, seed=1))])
    return float(roc_auc_score(np.repeat([1, 0], len(test)), torch.cat([yes, no])))


@pytest.mark.parametrize(
    ("name", "settings", "events", "epochs"),
    [("twins", {"communities": 5, "roles": 6}, 1500, 2), ("repeat", {"nodes": 60, "window": 4}, 2500, 2)],
)
def test_trained_models_do_what_the_report_predicts(name, settings, events, epochs):
    world = make_world(name, **settings)
    log = world.simulate(events, seed=0)
    t = log.t[len(log) * 4 // 5]
    found = report(log, at=t, pairs=100, roots=40, negatives=world.negatives(log))
    with_positions, without = (trained_auc(world, log, d, epochs) for d in (4, 0))
    links = found.views["exact"].links
    # a ceiling is a proof: no trained model passes it, but for the noise of a finite test part
    assert without <= links["mp-tgn"].ceiling + 0.02
    assert with_positions <= links["pint"].ceiling + 0.02
    # and the advice is right: positions pay in both worlds
    assert "Positions are" in found.advice
    assert with_positions > without + 0.05
    if name == "twins":
        assert links["mp-tgn"].ceiling == 0.5
        assert abs(without - 0.5) < 0.02
        assert with_positions > 0.95
