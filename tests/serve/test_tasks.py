"""A service of a run that predicts a column: answers about events, quality by the task's own figure."""

from __future__ import annotations

import json
import shutil
import time

import numpy as np
import pytest

from pintgn import fit, read_events
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.serve.api import create_app
from pintgn.serve.limits import Options
from pintgn.serve.models import promote
from pintgn.serve.service import Service
from pintgn.serve.stores import open_store
from tests.serve.helpers import TRAINED, TestClient, happened


@pytest.fixture(scope="module")
def payments():
    found = happened(seed=3, features=True)
    rng = np.random.default_rng(0)
    found["fraud"] = (rng.random(len(found["t"])) < np.where(np.array(found["kind"]) == "wire", 0.7, 0.1)).tolist()
    found["tip"] = (np.array(found["amount"]) / 10 + rng.normal(size=len(found["t"]))).tolist()
    return found


@pytest.fixture(scope="module", params=["fraud", "tip"])
def folder(request, payments, tmp_path_factory):
    head = {name: column[:TRAINED] for name, column in payments.items()}
    log = read_events(head, features=["amount", "kind", "fraud"], label="tip")
    place = tmp_path_factory.mktemp("serve") / request.param
    given = ["amount", "kind"] if request.param == "fraud" else ["amount"]
    fit("pint", log, folder=place, predict=request.param, given=given, epochs=1, hidden=0.0, progress=False)
    return place


def events(columns, begin, end, known=True, target="fraud"):
    found = []
    for k in range(begin, end):
        features = {name: columns[name][k] for name in ("amount", "kind", "fraud")}
        if target == "tip":
            features["tip"] = columns["tip"][k]
        if not known:
            features.pop(target)
        found.append({"src": columns["src"][k], "dst": columns["dst"][k], "t": columns["t"][k], "features": features})
    return found


def test_a_service_answers_about_events_and_measures_itself(folder, payments, new_store):
    run, where = Run.open(folder), new_store()
    target, given = run.settings.task.predict, {"amount": 30.0} | ({"kind": "wire"} if folder.name == "fraud" else {})
    body = {"pairs": [{"src": "person 1", "dst": "person 2", "given": given}]}
    options = Options(evaluate_every=2)
    with Service(run, where, options) as service, TestClient(create_app(service)) as client:
        first = client.post("/score", json=body).json()
        assert first["predict"] == target
        assert target in first["scores"][0]
        assert client.post("/events", json={"events": events(payments, TRAINED, 700, target=target)}).status_code == 200
        unknown = events(payments, 700, 720, known=False, target=target)
        assert client.post("/events", json={"events": unknown}).json()["accepted"] == 20
        quality = client.get("/status").json()["quality"]
        assert quality["measure"] == {"fraud": "AP", "tip": "MAE"}[target]
        assert quality["scored"] > 150
        assert quality["rolling"] is not None
        assert quality["reference"] == next(v for name, v in run.test["all"].items() if name != "events")
        assert "quality_rolling" in client.get("/metrics").text
        second = client.post("/score", json=body).json()
        assert second["scores"] != first["scores"]
        answer = client.get("/recommend/person 1")
        assert answer.status_code in (400, 422)
        assert "no destination can be recommended" in answer.text
        wrong = client.post("/score", json={"src": "person 1", "dst": "person 2", "given": {"amuont": 3}})
        assert wrong.status_code in (400, 422)
        assert "amount" in wrong.text
        client.post("/snapshot")
    with Service(Run.open(folder), where, options) as again, TestClient(create_app(again)) as client:
        assert client.post("/score", json=body).json() == second
        assert client.get("/status").json()["quality"]["scored"] == quality["scored"]
    store, _ = open_store(where, run)
    with store:
        read = EventBatch.concat([batch for _, batch in store.read()])
        assert (len(read), read.features.shape[1]) == (720 - TRAINED, run.event_schema[0].width)


def test_given_belongs_to_runs_about_columns(run_folder, tmp_path):
    with Service(Run.open(run_folder), tmp_path / "live") as service, TestClient(create_app(service)) as client:
        answer = client.post("/score", json={"src": "person 1", "dst": "person 2", "given": {"amount": 3}})
        assert answer.status_code in (400, 422)
        assert "nothing is given" in answer.text


def test_a_service_that_asks_about_time_observes_and_answers(payments, tmp_path):
    head = {name: column[:TRAINED] for name, column in payments.items()}
    log = read_events(head, features=["amount", "kind", "fraud"])
    span = (log.t[-1] - log.t[0]) / 50
    fit(
        "pint", log, folder=tmp_path / "run", predict="return", within=float(span), epochs=1, hidden=0.0, progress=False
    )
    where = tmp_path / "live"
    with Service(Run.open(tmp_path / "run"), where) as service, TestClient(create_app(service)) as client:
        assert client.post("/events", json={"events": events(payments, TRAINED, 700)}).status_code == 200
        said = client.post("/score", json={"pairs": [{"src": "person 1", "dst": "person 1"}]}).json()
        assert 0 <= said["scores"][0]["probability"] <= 1
        why = client.get("/explain", params={"src": "person 1"}).json()
        assert why["dst"] is None
        assert "within" in why["said"]
        asks = client.get("/status").json()["model"]["asks"]
        assert asks["sides"] == [0]
        assert client.get("/status").json()["quality"]["active"] is False


def test_a_service_explains_what_it_answers(folder, payments, tmp_path):
    target = folder.name
    given = {"amount": 30.0} | ({"kind": "wire"} if target == "fraud" else {})
    with Service(Run.open(folder), tmp_path / "live") as service, TestClient(create_app(service)) as client:
        asked = {"src": "person 1", "dst": "person 2"}
        why = client.get("/explain", params=asked | {"given": json.dumps(given)}).json()
        said = client.post("/score", json={"pairs": [asked | {"given": given}]}).json()["scores"][0]
        assert why["answer"][target] == pytest.approx(said[target])
        assert {"given", "known"} <= {reason["kind"] for reason in why["reasons"]}
        assert len(why["sentences"]) == 3
        asks = client.get("/status").json()["model"]["asks"]
        assert [one["name"] for one in asks["given"]] == list(given)
        assert [one["kind"] for one in asks["given"]] == ["number", "text"][: len(given)]
        for wrong in ("{", "[1]", json.dumps({"amuont": 3})):
            answer = client.get("/explain", params=asked | {"given": wrong})
            assert answer.status_code == 422
            assert "message" in answer.json()
        assert client.get("/explain", params={"src": "person 1"}).status_code == 422


def second_run(folder, payments, place, predict=None, **more):
    """Another run of the same log, of the same task unless another is named."""
    log, task = Run.open(folder).log, Run.open(folder).settings.task
    fit(
        "pint", log, folder=place, predict=predict or task.predict, given=list(task.given), epochs=1, hidden=0.0,
        seed=1, progress=False, **more,
    )  # fmt: skip
    return place


def outcome(candidate):
    candidate.join(60)
    assert not candidate.is_alive(), candidate.state
    return candidate.state


def test_a_run_of_the_same_task_is_compared_by_the_task_own_figure(folder, payments, new_store, tmp_path):
    target = Run.open(folder).settings.task.predict
    with Service.open(folder, new_store(), Options(evaluate_every=2)) as service:
        service.observe(events(payments, TRAINED, 300, target=target))
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        candidate = promote(service, copy, enough=60)
        until_compared(candidate)
        service.observe(events(payments, 300, 700, target=target))
        assert outcome(candidate) == "promoted", candidate.said
        told = service.writer.models.entries[-1]
        assert told["measure"] == {"fraud": "AP", "tip": "RMSE"}[target]
        assert told["scored"] >= 60
        assert told["old"] == pytest.approx(told["new"], abs=1e-3), "the same run, on the same events"
        assert told["measure"] in told["said"]
        if target == "tip":  # in the unit of tips, and less is better
            rows = np.array([row for _, row in sorted(candidate._theirs.items())][: told["scored"]])
            assert told["old"] == pytest.approx(np.sqrt(np.mean((rows[:, 0] - rows[:, -1]) ** 2)))
            assert f"{told['old']:.4g}" in told["said"]
        assert service.run.folder.path == copy


def test_a_worse_run_of_a_task_is_rejected_unless_it_is_forced(folder, payments, tmp_path):
    target = Run.open(folder).settings.task.predict
    other = second_run(folder, payments, tmp_path / "other")
    with Service.open(folder, tmp_path / "store", Options(evaluate_every=2)) as service:
        service.observe(events(payments, TRAINED, 300, target=target))
        candidate = promote(service, other, enough=100)
        until_compared(candidate)

        def said(rows, wrong):
            """Answers that are all right, or all wrong."""
            if target == "tip":
                return [[row[-1] + wrong * (-9.0) ** k] * 4 + row[-1:] for k, row in enumerate(rows)]
            return [[*((2.0, -2.0) if bool(row[-1]) == wrong else (-2.0, 2.0)), row[-1]] for row in rows]

        mine, theirs = candidate._mine_scored, candidate._theirs_scored
        candidate.live.prequential.on_scored = lambda numbers, rows: mine(numbers, said(rows, True))
        service.live.prequential.on_scored = lambda numbers, rows: theirs(numbers, said(rows, False))
        service.observe(events(payments, 300, 800, target=target))
        assert outcome(candidate) == "rejected", candidate.said
        assert service.run.folder.path == folder
        assert outcome(promote(service, other, force=True)) == "promoted"
        assert service.run.folder.path == other
        service.observe(events(payments, 800, 820, target=target))


def test_a_run_that_is_asked_something_else_is_not_compared_but_can_be_forced(folder, payments, tmp_path):
    target = Run.open(folder).settings.task.predict
    links = tmp_path / "links"
    fit("heuristic", Run.open(folder).log, folder=links, progress=False)
    with Service.open(folder, tmp_path / "store", Options(evaluate_every=2)) as service:
        service.observe(events(payments, TRAINED, 300, target=target))
        candidate = promote(service, links)
        assert outcome(candidate) == "failed"
        assert target in candidate.said
        assert "links" in candidate.said
        assert "--force" in candidate.said
        forced = promote(service, links, force=True)
        if target == "tip":  # which is no feature of that run's events: it could not read them
            assert outcome(forced) == "failed"
            assert "other features" in forced.said
            return
        assert outcome(forced) == "promoted", forced.said
        service.observe(events(payments, 300, 310, target=target))
        assert outcome(promote(service, None)) == "promoted"
        assert service.run.folder.path == folder


def until_compared(candidate):
    for _ in range(600):
        if candidate.state == "compared" or not candidate.busy:
            break
        time.sleep(0.05)
    assert candidate.state == "compared", candidate.said
