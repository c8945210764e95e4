"""Training by itself: when it is time, within a budget, beside the service, and never in its way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pintgn.errors import BadInput
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.live.prequential import Prequential
from pintgn.serve import answers
from pintgn.serve import retrain as module
from pintgn.serve.limits import Options
from pintgn.serve.models import promote
from pintgn.serve.retraining import train
from pintgn.serve.service import Service
from pintgn.serve.stores import home_of
from tests.serve.helpers import TRAINED, as_events, assert_same_state, trained


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(module, "LOOK", 0.05)


def opened(run, where, retrain="drift", **more):
    return Service.open(run, where, Options(snapshot_every=10**6, evaluate_every=2, retrain=retrain, **more))


def until(done, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := done():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def drifting(monkeypatch):
    monkeypatch.setattr(Prequential, "drift", property(lambda self: True))


def test_it_trains_compares_and_promotes_while_events_come(run_folder, columns, tmp_path, monkeypatch):
    """The whole of it, with a real training in a process of its own."""
    drifting(monkeypatch)
    where = tmp_path / "store"
    with opened(run_folder, where) as service:
        service.observe(as_events(columns, TRAINED, 500))
        now = until(lambda: service.retrainer.now)
        assert (now["why"], now["state"], now["events"]) == ("drift", "training", 260)
        assert answers.models(service)["retraining"]["when"] == "drift"
        folder = Path(now["run"])
        assert folder.parent == home_of(run_folder, where) / "retrained"
        service.observe(as_events(columns, 500, 510))  # nothing waits for it
        candidate = until(lambda: service.candidate)
        candidate.enough = 20
        until(lambda: candidate.state == "compared" or not candidate.busy)
        for begin in range(510, 700, 10):
            service.observe(as_events(columns, begin, begin + 10))
        entry = until(lambda: service.models.entries and service.models.entries[-1])
        assert entry["why"] == "drift"
        assert entry["state"] in ("promoted", "rejected"), entry["said"]
        assert entry["interval"][0] <= entry["difference"] <= entry["interval"][1]
        until(lambda: service.retrainer.now is None)
        assert service.retrainer.due() is None, "not again at once"
        assert folder.exists() == (entry["state"] == "promoted")
        if entry["state"] == "promoted":
            assert service.run.folder.path == folder
            covered = service.covered
            assert 260 <= covered <= 270
            fresh = Live(Run.open(folder), None, None, 2, covered)
            for _, batch in service.call(lambda: list(service.store.read(covered))).result():
                fresh.observe_batch(batch)
            assert_same_state(service.live, fresh)
        assert not service.reports


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"retrain_time": 0.3}, "it took longer than 0.3 s (--retrain-time)"),
        ({"retrain_memory": 1}, "--retrain-memory"),
    ],
)
def test_over_its_budget_it_ends_and_nothing_else_does(run_folder, columns, tmp_path, monkeypatch, budget, said):
    drifting(monkeypatch)
    children = watched(monkeypatch)
    with opened(run_folder, tmp_path / "store", **budget) as service:
        service.observe(as_events(columns, TRAINED, 500))
        entry = until(lambda: service.models.entries and service.models.entries[-1])
        assert (entry["state"], entry["why"]) == ("failed", "drift")
        assert said in entry["said"]
        assert "\n" not in entry["said"]
        assert children[-1].returncode is not None
        until(lambda: service.retrainer.now is None)
        assert not list((tmp_path / "store" / "retrained").glob("*"))
        assert service.observe(as_events(columns, 500, 520))["accepted"] == 20
        assert not service.reports
    with opened(run_folder, tmp_path / "store") as service:
        assert service.models.entries[-1] == entry
        assert service.retrainer.due() is None, "an hour has to pass"


def watched(monkeypatch):
    found, real = [], subprocess.Popen

    def started(*given, **more):
        found.append(real(*given, **more))
        return found[-1]

    monkeypatch.setattr(module.subprocess, "Popen", started)
    return found


def test_a_training_that_fails_is_one_line_in_the_history(run_folder, columns, tmp_path, monkeypatch):
    drifting(monkeypatch)
    monkeypatch.setattr(module.sys, "executable", "/bin/false")
    with opened(run_folder, tmp_path / "store") as service:
        service.observe(as_events(columns, TRAINED, 500))
        entry = until(lambda: service.models.entries and service.models.entries[-1])
        assert entry["state"] == "failed"
        assert service.taking


def test_a_service_that_ends_ends_its_training_and_begins_anew(run_folder, columns, tmp_path, monkeypatch):
    drifting(monkeypatch)
    children = watched(monkeypatch)
    with opened(run_folder, tmp_path / "store") as service:
        service.observe(as_events(columns, TRAINED, 500))
        until(lambda: children)
    assert children[0].returncode is not None
    assert not service.models.entries
    (tmp_path / "store" / "retrained" / "left").mkdir(parents=True, exist_ok=True)  # as a kill leaves it
    with opened(run_folder, tmp_path / "store") as service:
        until(lambda: len(children) == 2)
        assert not (tmp_path / "store" / "retrained" / "left").exists()


def test_a_training_ends_when_its_service_is_killed(run_folder, tmp_path):
    command = [sys.executable, "-m", "pintgn.serve.retraining"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.mkfifo(tmp_path / "events.db")  # which nobody writes to: it would wait for ever
    job = {"run": str(run_folder), "store": str(tmp_path), "log": "", "covered": 0, "folder": str(tmp_path / "new")}
    child.stdin.write(json.dumps(job).encode() + b"\n")
    child.stdin.flush()
    child.stdin.close()  # the end of the one that writes here
    assert child.wait(60) != 0
    child.stderr.close()


def test_a_training_reads_either_store_beside_its_service(run_folder, columns, new_store, tmp_path):
    where = new_store()
    with Service.open(run_folder, where, Options(evaluate_every=2)) as service:
        service.observe(as_events(columns, TRAINED, 600))
        job = {"run": str(run_folder), "store": str(where), "log": service.store.log, "covered": 0}
        assert train(job | {"folder": str(tmp_path / "new")})["events"] == 600
        candidate = promote(service, tmp_path / "new", force=True, why="daily")
        candidate.join(60)
        assert candidate.state == "promoted"
        assert service.covered == 360
        entry = service.models.entries[-1]
        assert (entry["why"], entry["state"]) == ("daily", "promoted")
        service.observe(as_events(columns, 600, 620))
        with pytest.raises(BadInput, match="no events after"):
            train({**job, "run": str(tmp_path / "new"), "covered": 380, "folder": str(tmp_path / "newer")})


def test_one_that_was_given_up_does_not_count_as_tried(run_folder, columns, tmp_path, monkeypatch):
    drifting(monkeypatch)
    monkeypatch.setattr(module, "LOOK", 3600.0)
    with opened(run_folder, tmp_path / "store") as service:
        service.observe(as_events(columns, TRAINED, 500))
        candidate = promote(service, run_folder, why="drift")
        until(lambda: candidate.state == "compared")
    assert service.models.entries[-1]["given_up"]
    with opened(run_folder, tmp_path / "store") as service:
        assert service.retrainer.due() == "drift"


def test_when_it_is_time(run_folder, columns, tmp_path, monkeypatch):
    run = trained(tmp_path / "run", columns, "heuristic")
    monkeypatch.setattr(module, "LOOK", 3600.0)
    with opened(run, tmp_path / "store", "daily") as service:
        due = service.retrainer.due
        service.observe(as_events(columns, TRAINED, TRAINED + module.NEW - 1))
        os.utime(run / "run.json", (0, time.time() - 2 * module.DAY))
        assert due() is None, "too few events"
        service.observe(as_events(columns, TRAINED + module.NEW - 1, TRAINED + module.NEW))
        assert due() == "daily"
        os.utime(run / "run.json", (0, time.time() - module.DAY + 60))
        assert due() is None, "trained today"
        os.utime(run / "run.json", (0, 0))
        tried = {"why": "daily", "ended": time.time() - module.DAY + 60, "events": 0}
        service.models.entries.append(tried)
        assert due() is None, "tried today"
        tried["ended"] -= 120
        assert due() == "daily"
        tried["events"] = 10
        assert due() is None, "too few events since"
        service.models.entries.clear()
        service.retrainer.when = "drift"
        assert due() is None, "it does not drift"
        drifting(monkeypatch)
        assert due() == "drift"
        candidate = promote(service, run_folder)
        assert due() is None, "a candidate is under way"
        candidate.give_up()


def test_what_is_neither_served_nor_was_goes(run_folder, columns, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LOOK", 3600.0)
    with opened(run_folder, tmp_path / "store") as service:
        folder = service.retrainer.folder
        for name in ("one", "two", "three"):
            trained(folder / name, columns, "heuristic")
        (folder / "half").mkdir()
        for name in ("one", "two"):
            candidate = promote(service, folder / name, force=True)
            candidate.join(60)
            assert candidate.state == "promoted"
        service.retrainer.sweep()
        assert sorted(path.name for path in folder.iterdir()) == ["one", "two"]


def test_what_does_not_go_together_is_refused(run_folder, tmp_path):
    for options, said in [
        ({"retrain": "weekly"}, "it is daily or drift"),
        ({"evaluate_every": 0}, "does not go with --evaluate-every 0"),
        ({"keep_events": 100}, "does not go with --keep-events"),
        ({"retrain_time": 0}, "are more than 0"),
    ]:
        with pytest.raises(BadInput, match=said):
            Service.open(run_folder, tmp_path / "store", Options(**({"retrain": "daily"} | options)))
