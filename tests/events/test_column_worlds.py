"""Worlds with something to predict: their best answers are the best, and what is said about them holds."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn import simulate
from pintgn.errors import BadInput
from pintgn.events.column_worlds import COLUMN_WORLDS, Accounts, Ring
from pintgn.learn.answer_metrics import class_metrics, value_metrics


@pytest.mark.parametrize("name", COLUMN_WORLDS)
def test_the_same_seed_gives_the_same_log(name):
    one, again, other = (simulate(name, events=200, seed=seed) for seed in (3, 3, 4))
    assert one == again
    assert one != other
    assert COLUMN_WORLDS[name].predict in [feature.name for feature in one.schema.features]


def test_the_best_ap_of_a_ring_is_that_of_knowing_it():
    world = Ring(accounts=100)
    found = []
    for seed in range(3):
        log = world.simulate(40_000, seed)
        p = world.truth(log, seed)
        p = p + np.random.default_rng(0).random(len(p)) * 1e-9  # ties in random order
        logits = np.stack([np.zeros_like(p), np.log(p / (1 - p))], 1)
        found.append(class_metrics(logits, log.features[:, 1].astype(float))["ap"])
    assert np.mean(found) == pytest.approx(world.best_ap(), abs=0.02)


def test_the_best_r2_of_amounts_is_the_square_of_their_memory():
    world = Accounts(memory=0.7)
    log = world.simulate(40_000, 1)
    later = slice(5_000, None)
    said, amount = world.truth(log)[later], log.features[later, 0].astype(float)
    assert value_metrics(said[:, None], amount)["r2"] == pytest.approx(0.49, abs=0.02)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ring", {"members": 2}, "between 0 and 1"),
        ("ring", {"accounts": 1}, "accounts"),
        ("accounts", {"payers": 0}, "payers"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, settings, words):
    with pytest.raises(BadInput, match=words):
        simulate(name, events=10, **settings)
