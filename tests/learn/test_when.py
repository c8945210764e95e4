"""Will this node act, will these two meet, within a horizon?"""

from __future__ import annotations

import numpy as np
import pytest

import pintgn
from pintgn import EventLog, evaluate
from pintgn.errors import BadInput
from pintgn.learn import fit as fitting
from pintgn.learn.settings import Settings
from pintgn.learn.tasks.when import Actors
from tests.learn.helpers import random_log, tiny


def asked(name="pint", epochs=2, **task) -> Settings:
    return Settings.of(tiny(name, hidden=0.0, epochs=epochs) | {"task": task})


def habits(events=1500, seed=0) -> EventLog:
    """Ten busy nodes and ten that hardly ever act."""
    rng = np.random.default_rng(seed)
    busy = rng.random(events) < 0.9
    src = np.where(busy, rng.integers(0, 10, events), rng.integers(10, 20, events))
    return EventLog(src, rng.integers(20, 30, events), np.cumsum(rng.integers(1, 9, events)))


@pytest.mark.parametrize("pairs", [False, True])
def test_truth_agrees_with_a_slow_look_ahead(pairs):
    log = random_log(300, 12, 1)
    actors, rng = Actors(log, pairs), np.random.default_rng(2)
    t = rng.integers(0, 100, 200)
    src, dst, anyone = actors.draw(t, rng)
    found = actors.within(src, dst, t, 7)
    for q in np.flatnonzero(anyone):
        mine = (log.src == src[q]) & (log.dst == dst[q] if pairs else True)
        assert log.t[mine].min() < t[q], "nobody is drawn who has not acted yet"
        assert found[q] == ((log.t[mine] >= t[q]) & (log.t[mine] <= t[q] + 7)).any()


@pytest.mark.parametrize("predict", ["return", "meet"])
@pytest.mark.parametrize("name", ["pint", "tgn", "boosted"])
def test_models_answer_questions_about_time(name, predict, tmp_path):
    run = fitting.fit(asked(name, predict=predict, within=40), habits(600), folder=tmp_path / "run")
    assert list(run.test["all"]) == ["events", "ap", "auc", "brier", "calibration_error"]
    assert list(run.heuristics) == ["overall", "recency", "rate"]
    assert evaluate(tmp_path / "run").negatives[f"{predict} within 40"][name] == run.test
    live = pintgn.open(tmp_path / "run")
    said = live.ask([0, 15], [20, 20])["probability"]
    assert ((said >= 0) & (said <= 1)).all()


def test_no_answer_is_used_before_its_horizon_has_passed():
    log = habits(600)
    run = fitting.fit(asked(predict="return", within=40), log)
    for part in (run.parts.val, run.parts.test):
        _, query, _ = run.task.questions(part, run.parts)
        assert query.t.max() + 40 <= part.t[-1]
    query, truth = run.task.training_questions(run.parts.trained, run.parts, np.random.default_rng(0))
    assert query.t.max() + 40 <= run.parts.train.t[-1]
    assert 0 < truth.mean() < 1
    assert (query.dst == query.src).all()


def test_what_can_be_learned_is_learned():
    run = fitting.fit(asked(predict="return", within=20, epochs=10), habits())
    free = max(row["all"]["auc"] for row in run.heuristics.values())
    assert run.test["all"]["auc"] > free + 0.02
    assert run.test["all"]["brier"] < run.heuristics["overall"]["all"]["brier"]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"predict": "return"}, "needs a horizon"),
        ({"predict": "meet", "within": 0}, "above 0"),
        ({"predict": "return", "within": 10**7}, "longer than the training part"),
        ({"predict": "return", "within": 5, "given": ["x"]}, "nothing can be given"),
        ({"predict": "return", "within": 1_000}, "every answer within 1000 is yes|It takes at least"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(task, words):
    with pytest.raises(BadInput, match=words) as caught:
        fitting.fit(asked(**task), habits(600))
    assert "\n" not in str(caught.value)


def test_a_part_that_leaves_too_few_questions_is_refused_before_anything_is_written(tmp_path):
    log = habits()
    horizon = int(log.t[-1] - log.t[int(0.85 * len(log))]) - 3  # nearly as long as the test part
    with pytest.raises(BadInput, match="leaves . questions"):
        fitting.fit(asked(predict="return", within=horizon), log, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
