"""Searching for settings: on validation only, resumable, pruning."""

from __future__ import annotations

import pytest

from pintgn import tune
from pintgn.errors import BadFile, BadInput, UnknownName
from pintgn.learn import measure
from pintgn.learn.hooks import Interrupted
from pintgn.learn.settings import Settings
from pintgn.learn.settings_files import read_settings
from pintgn.learn.tasks import link, task
from pintgn.learn.tune import SPACES, _applied, read_space
from tests.learn.helpers import QUICK, random_log

pytest.importorskip("optuna", reason="optuna is not installed; pip install 'pintgn[tune]'")

BASE = {"model": {"dim": 4, "neighbors": 3, "positions": 2}, "train": QUICK}
SPACE = {"train.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}, "model.layers": [1, 2]}


@pytest.fixture(scope="module")
def log():
    return random_log(400, 20)


def test_a_search_never_looks_at_the_test_part(log, tmp_path, monkeypatch):
    parts = []
    look = measure.score_part
    for module in (measure, link, task):
        if hasattr(module, "score_part"):
            monkeypatch.setattr(module, "score_part", lambda s, part, *q: parts.append(part) or look(s, part, *q))
    found = tune(log, tmp_path, settings=BASE, space=SPACE, trials=2)
    test = log.split()[2]
    assert parts
    assert all(part.t[-1] < test.t[0] for part in parts)
    assert len(found.trials) == 2


def test_a_search_goes_on_where_it_was(log, tmp_path):
    epochs = []

    def stop(entry):
        if "value" in entry and entry["trial"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(log, tmp_path, settings=BASE, space=SPACE, trials=4, progress=stop)
    found = tune(log, tmp_path, settings=BASE, space=SPACE, trials=4, progress=epochs.append)
    states = [trial["state"] for trial in found.trials]
    assert states.count("complete") + states.count("pruned") >= 3
    assert states[1] == "fail", "the trial that was cut off is put in line again"
    assert found.trials[1]["tried"] == found.trials[2]["tried"]
    assert all(entry["trial"] != 0 for entry in epochs), "what is done is not done again"
    best = Settings.of(read_settings(tmp_path / "best.toml"))
    assert best == Settings.of(found.settings)
    assert found.value == max(t["value"] for t in found.trials if t["state"] == "complete")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # optuna leaves a connection open
def test_a_search_is_shared_by_a_database(log, tmp_path):
    storage = f"sqlite:///{tmp_path / 'trials.db'}"
    first, second = (
        tune(log, tmp_path / name / "search", settings=BASE, space=SPACE, trials=trials, storage=storage)
        for name, trials in (("one", 1), ("other", 2))
    )
    assert [len(found.trials) for found in (first, second)] == [1, 2]
    assert second.trials[0] == first.trials[0]


def test_another_search_is_not_mixed_in(log, tmp_path):
    tune(log, tmp_path, settings=BASE, space=SPACE, trials=1)
    with pytest.raises(BadInput, match="another space"):
        tune(log, tmp_path, settings=BASE, space={"model.layers": [1, 2]}, trials=1)
    with pytest.raises(BadInput, match="another data"):
        tune(random_log(400, 20, seed=3), tmp_path, settings=BASE, space=SPACE, trials=1)


@pytest.mark.learning
def test_hopeless_trials_are_pruned(log, tmp_path):
    space = {"train.learning_rate": [1e-2, 3e-3, 1e-3, 5e-3, 1e-12, 2e-12, 3e-12, 4e-12]}
    base = {"model": {"dim": 8, "positions": 2}, "train": QUICK | {"epochs": 4, "patience": 4}}
    found = tune(log, tmp_path, settings=base, space=space, trials=8)
    assert "pruned" in [trial["state"] for trial in found.trials]


def test_a_trial_that_fails_does_not_end_the_search(log, tmp_path):
    space = {"train.learning_rate": [1e30, 1e-3], "train.clip": [0.0]}
    base = {"model": {"dim": 4, "positions": 2}, "train": QUICK | {"epochs": 6}}
    found = tune(log, tmp_path, settings=base, space=space, trials=2)
    assert sorted(trial["state"] for trial in found.trials) == ["complete", "fail"]


def test_the_papers_grid_is_the_papers():
    grid = SPACES["paper"]
    assert [len(options) for options in grid.values()] == [2, 2, 5]
    made = _applied({}, {"model.neighbors": 20, "model.layers": 2, "model.beta_rule": "1e-5 per neighbor"})
    assert made["model"] == {"neighbors": 20, "layers": 2, "beta": pytest.approx(2e-4), "learn_beta": False} | {
        "time_unit": 1.0
    }
    made = _applied({}, {"model.neighbors": 10, "model.beta_rule": "learned from 0.5"})
    assert (made["model"]["beta"], made["model"]["learn_beta"]) == (0.5, True)


def test_a_space_of_your_own_is_a_toml_file(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text('[space]\n"model.layers" = [1, 2]\n[space.train]\nlearning_rate = { low = 1e-4, high = 1e-2 }\n')
    assert read_space(path) == {"model.layers": [1, 2], "train.learning_rate": {"low": 1e-4, "high": 1e-2}}
    with pytest.raises(BadFile, match="cannot read"):
        read_space(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        ("papr", UnknownName, "paper"),
        ({}, BadInput, "empty"),
        ({"model.layrs": [1]}, UnknownName, "layers"),
        ({"layers": [1]}, BadInput, "needs its table"),
        ({"model.layers": 3}, BadInput, "neither a list"),
        ({"model.layers": []}, BadInput, "neither a list"),
        ({"model.layers": {"low": 1}}, BadInput, "neither a list"),
    ],
)
def test_a_wrong_space_is_one_line(log, tmp_path, space, error, message):
    with pytest.raises(error, match=message):
        tune(log, tmp_path, space=space)
    assert issubclass(Interrupted, KeyboardInterrupt)
