"""Worlds with something to predict: their best answers are the best, and what is said about them holds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from examples.column_worlds import COLUMN_WORLDS, Accounts, Cards, Funnel, Ring
from pintgn import EventLog, fit
from pintgn.errors import BadInput
from pintgn.learn.metrics import class_metrics, value_metrics
from pintgn.learn.settings import Settings
from tests.conftest import ROOT


@pytest.mark.parametrize("name", COLUMN_WORLDS)
def test_the_same_seed_gives_the_same_log(name):
    one, again, other = (COLUMN_WORLDS[name]().simulate(200, seed) for seed in (3, 3, 4))
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


def test_actions_of_a_funnel_are_as_likely_as_its_truth_says():
    world = Funnel()
    log = world.simulate(40_000, 1)
    said, action = world.truth(log, 1), log.features.argmax(1)
    assert said.sum(1) == pytest.approx(np.ones(len(log)))
    for row in np.unique(said.round(6), axis=0):
        mine = (said.round(6) == row).all(1)
        met = np.bincount(action[mine], minlength=3) / mine.sum()
        assert met == pytest.approx(row, abs=4 / np.sqrt(mine.sum()))
    logits = np.log(np.maximum(said, 1e-12))
    best = world.best_log_loss(log, 1)
    assert class_metrics(logits, action.astype(float))["log_loss"] == pytest.approx(best, abs=0.02)
    shuffled = np.log(np.maximum(world.truth(log, 2), 1e-12))  # of other shoppers
    assert class_metrics(shuffled, action.astype(float))["log_loss"] > best + 0.05


def test_fraud_with_cards_is_as_likely_as_its_truth_says():
    world = Cards(shops=41, circles=4)  # circles of different sizes
    log = world.simulate(40_000, 1)
    said, fraud = world.truth(log), log.features[:, 0]
    for p in np.unique(said):
        mine = said == p
        assert fraud[mine].mean() == pytest.approx(p, abs=4 / np.sqrt(mine.sum()))
    assert fraud.mean() == pytest.approx(world.stolen, abs=0.01)
    _, often = np.unique(log.src, return_counts=True)
    inside = Cards().simulate(10_000, 0)
    pairs = len(np.unique(inside.src * 1_000 + inside.dst))
    assert pairs > 0.6 * len(inside)  # most payments are the first of a card in a shop
    assert often.min() > 40  # and every card pays


@pytest.mark.learning
def test_only_walks_betray_stolen_cards():
    """PINT is close to the best there is with positions, or with co-visits, which are walks of three steps, too; with
    neither it is where the training-free rows are."""
    log = Cards(cards=150, shops=150).simulate(4_000, seed=0)
    walks = {"positions": {"pair_history": False}, "co-visits": {"positions": 0}}
    neither = {"pair_history": False, "positions": 0}
    ap = {}
    for name, given in (walks | {"neither": neither}).items():
        tables = {"model": {"name": "pint"} | given, "train": {"epochs": 4}, "task": {"predict": "fraud"}}
        run = fit(Settings.of(tables), log)
        ap[name] = run.test["all"]["ap"]
    free = max(row["all"]["ap"] for row in run.heuristics.values())
    for name in walks:
        assert ap[name] > max(ap["neither"], free) + 0.2


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ring", {"members": 2}, "between 0 and 1"),
        ("ring", {"accounts": 1}, "accounts"),
        ("accounts", {"payers": 0}, "payers"),
        ("funnel", {"stay": -1}, "between 0 and 1"),
        ("cards", {"shops": 3}, "shops"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, settings, words):
    with pytest.raises(BadInput, match=words):
        COLUMN_WORLDS[name](**settings)


def test_the_example_writes_a_log_to_train_on(tmp_path):
    command = [sys.executable, ROOT / "examples" / "column_worlds.py", "ring", tmp_path / "ring.parquet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--predict fraud" in done.stdout
    assert EventLog.open(tmp_path / "ring.parquet") == Ring().simulate()
