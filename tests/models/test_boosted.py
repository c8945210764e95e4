"""Boosted trees: one more model behind the contract, learned in one pass."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from pintgn import fit
from pintgn.check import check_model, random_log
from pintgn.datasets.simulate import simulate
from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.learn.run import Run
from pintgn.models.boosted import Boosted
from pintgn.stream import Stream

SMALL = {"rounds": 20, "leaves": 4, "least_rows": 5}


@pytest.mark.parametrize("historical", [pytest.param(False, marks=pytest.mark.slow), True])
def test_it_keeps_every_promise_with_what_it_has_learned(historical):
    model = Boosted(historical=historical, **SMALL)
    check_model(model)
    check_model(model, simulate("repeat", events=400))


def rows(rng, width, shift, count=400):
    """Columns of which one tells events from others."""
    columns = rng.normal(size=(count, width)).astype(np.float32)
    columns[:, 3] += shift
    return torch.from_numpy(columns)


def learned(historical, seed=0, negatives=1):
    model = Boosted(historical=historical, **SMALL)
    model.build(random_log().schema)
    rng = np.random.default_rng(0)
    shifts = [3.0] + [0.0] * negatives + [6.0] * historical
    columns = [rows(rng, len(model.known.names), shift) for shift in shifts]
    model.learn(columns, seed)
    return model, columns


def test_each_question_is_told_from_its_own_kind_of_negatives():
    model, (events, random, known) = learned(True)
    scores = [model(some.numpy(), None) for some in (events, random, known)]
    assert scores[0].shape == (400, 2)
    for question in (0, 1):
        assert scores[0][:, question].median() > 0
        assert scores[1 + question][:, question].median() < 0


@pytest.mark.parametrize("negatives", [1, 3])
def test_with_one_question_there_is_one_logit(negatives):
    model, (events, *others) = learned(False, negatives=negatives)
    assert model(events.numpy(), None).shape == (400,)
    assert model(events.numpy(), None).median() > 0
    assert all(model(other.numpy(), None).median() < 0 for other in others)
    mean = torch.cat([model(some.numpy(), None) for some in (events, *others)]).sigmoid()
    weights = torch.cat([torch.ones(400), torch.full((400 * negatives,), 1 / negatives)])
    assert abs(float((mean * weights).sum() / weights.sum()) - 0.5) < 0.05, "negatives weigh as much as events"


def test_the_same_rows_and_seed_grow_the_same_trees():
    one, again, other = (learned(True, seed)[0].trees for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_before_it_has_learned_it_answers_by_the_past():
    log = random_log()
    stream = Stream(Boosted(), log.schema, node_features=log.node_features)
    stream.observe(log)
    scores = stream.score(Query(log.src, log.dst, np.full(len(log), log.t[-1] + 1)))
    assert torch.isfinite(scores).all()
    assert len(scores.unique()) > 20


def test_importances_are_by_the_names_of_the_columns():
    model, _ = learned(True)
    found = model.importances()
    assert next(iter(found)) == model.known.names[3], "the only column that tells them apart"
    assert set(found) == set(model.known.names)
    assert sum(found.values()) == pytest.approx(1)
    with pytest.raises(BadInput, match="train first"):
        Boosted().build(random_log().schema).importances()


@pytest.mark.learning
def test_a_run_is_kept_opened_and_scores_the_same(tmp_path):
    log = simulate("repeat", events=1_500)
    run = fit(Boosted(**SMALL), log, folder=tmp_path / "run")
    again = Run.open(tmp_path / "run")
    assert torch.equal(again.model.trees, run.model.trees)
    assert run.history[0]["epoch"] == run.best_epoch == 1
    assert len(run.history) == 1
    assert run.test["all"]["ap"] > run.heuristics["edgebank"]["all"]["ap"] - 0.05
    assert again.test == run.test


@pytest.mark.learning
@pytest.mark.parametrize("more", [-1, 0, 1, 150])
def test_of_a_long_log_the_newest_events_are_learned_from(monkeypatch, more):
    log, given = simulate("repeat", events=1_000), []
    trained = len(fit("heuristic", log, hidden=0.0).parts.trained)
    monkeypatch.setattr("pintgn.learn.train.AT_ONCE", trained - more)
    monkeypatch.setattr(Boosted, "learn", lambda self, columns, seed: given.append([len(some) for some in columns]))
    fit(Boosted(**SMALL), log, hidden=0.0, batch=100)
    (counts,) = given
    assert counts == [trained - more // 100 * 100 if more > 0 else trained] * 3


@pytest.mark.learning
def test_a_pass_that_was_interrupted_begins_again(tmp_path):
    log = simulate("repeat", events=1_500)
    whole = fit(Boosted(**SMALL), log, folder=tmp_path / "whole")

    def stop(entry):
        if entry.get("done", 0) >= 600:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(Boosted(**SMALL), log, folder=tmp_path / "run", progress=stop, checkpoint_seconds=0)
    again = fit(Boosted(**SMALL), log, folder=tmp_path / "run", checkpoint_seconds=0)
    assert torch.equal(again.model.trees, whole.model.trees)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"leaves": 1}, {"least_rows": 0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        Boosted(**wrong)


def test_without_lightgbm_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(BadInput, match=r"pip install \"pintgn\[boosted\]\""):
        Boosted()
