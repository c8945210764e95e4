"""Targets told to a running service: durable, in their place, replayed to the same state; on both stores."""

from __future__ import annotations

import contextlib
import sqlite3
import time

import numpy as np
import pytest

from pintgn import evaluate, fit, read_events
from pintgn.errors import BadFile
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.serve.api import create_app
from pintgn.serve.event_store import batch_of, checksums, columns
from pintgn.serve.export import full_log
from pintgn.serve.limits import Options
from pintgn.serve.recovery import accept_loss, undo_after
from pintgn.serve.service import Service
from tests.serve.helpers import TRAINED, TestClient, happened


@pytest.fixture(scope="module")
def payments():
    found = happened(seed=3, features=True)
    rng = np.random.default_rng(0)
    found["fraud"] = (rng.random(len(found["t"])) < np.where(np.array(found["kind"]) == "wire", 0.7, 0.1)).tolist()
    return found


@pytest.fixture(scope="module")
def folder(payments, tmp_path_factory):
    head = {name: column[:TRAINED] for name, column in payments.items()}
    log = read_events(head, features=["amount", "kind", "fraud"])
    place = tmp_path_factory.mktemp("targets") / "run"
    fit("pint", log, folder=place, predict="fraud", given=["amount", "kind"], epochs=1, hidden=0.0, progress=False)
    return place


def event(columns, k):
    features = {name: columns[name][k] for name in ("amount", "kind")}
    return {"src": columns["src"][k], "dst": columns["dst"][k], "t": columns["t"][k], "features": features}


def target(columns, k, value=None):
    return {name: columns[name][k] for name in ("src", "dst", "t")} | {
        "value": columns["fraud"][k] if value is None else value
    }


BODY = {
    "pairs": [{"src": "person 1", "dst": f"person {k}", "given": {"amount": 30.0, "kind": "wire"}} for k in (2, 3, 5)]
}


def asked(client, at=None):
    return client.post("/score", json=BODY | ({} if at is None else {"at": at})).json()["scores"]


def sent(client, payments, begin, end):
    """Events, and with each the targets of those ten before it."""
    for k in range(begin, end):
        assert client.post("/events", json=event(payments, k)).status_code == 200
        if k % 10 == 9:
            some = [target(payments, one) for one in range(k - 9, k - 4)]
            told = client.post("/targets", json={"targets": some})
            assert told.status_code == 200, told.text
            assert told.json()["accepted"] == 5


def test_targets_are_durable_and_replayed_in_their_place(folder, payments, new_store):
    where = new_store()
    with Service(Run.open(folder), where) as service, TestClient(create_app(service)) as client:
        before = asked(client)
        sent(client, payments, TRAINED, TRAINED + 40)
        end = asked(client)
        assert end != before
        status = client.get("/status").json()
        assert status["events"] == TRAINED + 40
        assert status["event"] == 60
        late = service.live.stream.history.late
        state = late.values[: TRAINED + 40].copy(), late.known[: TRAINED + 40].copy()
        service.saver.tried = 10**9  # no snapshot at the end: all is replayed
        service.saver.at = 10**9
    with Service(Run.open(folder), where) as again, TestClient(create_app(again)) as client:
        assert again.replayed == 60
        assert asked(client) == end
        late = again.live.stream.history.late
        assert (late.values[: TRAINED + 40] == state[0]).all()
        assert (late.known[: TRAINED + 40] == state[1]).all()
        shown = client.get("/status").json()
        assert shown["events"] == TRAINED + 40 == shown["data"]["events"] + shown["live_events"], (
            "targets are no events"
        )
        client.post("/snapshot")
        sent(client, payments, TRAINED + 40, TRAINED + 60)
        end = asked(client)
    with Service(Run.open(folder), where) as third, TestClient(create_app(third)) as client:
        assert asked(client) == end
        assert client.get("/health").json()["status"] == "ok"


def test_what_is_sent_again_counts_once_and_what_is_wrong_is_refused_whole(folder, payments, new_store):
    with Service(Run.open(folder), new_store()) as service, TestClient(create_app(service)) as client:
        for k in range(TRAINED, TRAINED + 10):
            client.post("/events", json=event(payments, k))
        one = target(payments, TRAINED)
        assert client.post("/targets", json={"targets": [one]}).json()["accepted"] == 1
        told = client.post("/targets", json={"targets": [one]}).json()
        assert (told["accepted"], told["duplicates"]) == (0, 1)
        after, number = asked(client), service.live.total
        good = target(payments, TRAINED + 1)
        for wrong, words in [
            (target(payments, TRAINED, not payments["fraud"][TRAINED]), "another target already"),
            (target(payments, TRAINED + 2) | {"t": 5}, "was not observed"),
            (target(payments, TRAINED + 2) | {"src": "nobody"}, "was not observed"),
            (target(payments, TRAINED + 2) | {"value": "maybe"}, "fraud='maybe'"),
            ({"src": "person 1", "dst": "person 2", "value": True}, "has no t"),
        ]:
            answer = client.post("/targets", json={"targets": [good, wrong]})
            assert answer.status_code in (400, 422)
            assert words in answer.json()["message"]
        assert client.post("/targets", json={"targets": []}).status_code in (400, 422)
        assert client.post("/targets", json={"targets": [good], "when": 3}).status_code in (400, 422)
        assert (asked(client), service.live.total) == (after, number)
        assert client.post("/targets", json={"targets": [good]}).json()["accepted"] == 1


def test_targets_are_no_events_wherever_events_are_counted(folder, payments, tmp_path):
    with Service(Run.open(folder), tmp_path / "live") as service, TestClient(create_app(service)) as client:
        client.post("/events", json={"events": [event(payments, k) for k in range(TRAINED, TRAINED + 3)]})
        client.post("/targets", json={"targets": [target(payments, TRAINED)]})
        status = client.get("/status").json()
        assert (status["events"], status["live_events"], status["event"]) == (TRAINED + 3, 3, 4)
        assert client.get("/health").json()["events"] == TRAINED + 3
        assert "pintgn_events_total 3.0" in client.get("/metrics").text


def test_a_target_counts_only_after_its_time(folder, payments, new_store):
    told = []
    for other in (False, True):
        with Service(Run.open(folder), new_store()) as service, TestClient(create_app(service)) as client:
            for k in range(TRAINED, TRAINED + 20):
                client.post("/events", json=event(payments, k))
            at = payments["t"][TRAINED + 19] + 50
            before = asked(client, at)
            some = [target(payments, k, payments["fraud"][k] != other) for k in range(TRAINED, TRAINED + 20)]
            assert client.post("/targets", json={"targets": some, "at": at}).json()["accepted"] == 20
            assert asked(client, at) == before
            told.append((before, asked(client, at + 1)))
    assert told[0][0] == told[1][0]
    assert told[0][1] != told[1][1]


def quality(client):
    """What /status says about live quality, without digits that depend on how events were batched."""
    found = client.get("/status").json()["quality"]
    kept = {name: found[name] for name in ("scored", "window", "waiting", "given_up", "measure")}
    return kept, pytest.approx(found["rolling"], abs=1e-4)


def judged(service):
    """What was judged, in order, and which events wait."""
    facts = service.live.prequential.facts()
    return facts["scored"], facts["truth"], [row[:7] for row in facts["waiting"]]


def test_late_targets_count_in_live_quality_after_every_start(folder, payments, new_store):
    where, every = new_store(), Options(evaluate_every=2)
    with Service(Run.open(folder), where, every) as service, TestClient(create_app(service)) as client:
        sent(client, payments, TRAINED, TRAINED + 40)
        told, state = quality(client), judged(service)
        assert told[0]["scored"] >= 5
        assert told[0]["waiting"] >= 5
        text = client.get("/metrics").text
        assert f"pintgn_quality_waiting {told[0]['waiting']}" in text
        assert f"pintgn_quality_scored {told[0]['scored']}" in text
        service.saver.tried = service.saver.at = 10**9  # no snapshot at the end: all is replayed
    with Service(Run.open(folder), where, every) as again, TestClient(create_app(again)) as client:
        assert again.replayed == 60
        assert quality(client) == told
        assert judged(again) == state
        client.post("/snapshot")
        facts = again.live.prequential.facts()
    with Service(Run.open(folder), where, every) as third, TestClient(create_app(third)) as client:
        assert third.live.prequential.facts() == facts, "a snapshot has it to the last bit"
        before = third.live.prequential.scored
        some = [target(payments, k) for k in range(TRAINED + 5, TRAINED + 10)]
        waited = sum(row[2] in {one["t"] for one in some} for row in facts["waiting"])
        assert client.post("/targets", json={"targets": some}).json()["accepted"] == 5
        assert third.live.prequential.scored == before + waited > before


def test_events_and_targets_that_are_undone_leave_live_quality_as_if_they_had_not_been(folder, payments, new_store):
    where, other, every, t = new_store(), new_store(), Options(evaluate_every=2), payments["t"]
    cut = next(k for k in range(TRAINED + 30, len(t)) if t[k] > t[k - 1])
    for place, extra in ((where, True), (other, False)):
        with Service(Run.open(folder), place, every) as service, TestClient(create_app(service)) as client:
            sent(client, payments, TRAINED, cut)
            if extra:
                sent(client, payments, cut, cut + 10)
            else:
                state = judged(service)
    undo_after(Run.open(folder), where, t[cut - 1])
    with Service(Run.open(folder), where, every) as again:
        assert judged(again) == state


def test_another_run_of_the_log_passes_over_targets(folder, payments, new_store, tmp_path):
    where = new_store()
    with Service(Run.open(folder), where) as service, TestClient(create_app(service)) as client:
        sent(client, payments, TRAINED, TRAINED + 20)
        numbers = service.live.total
    log = Run.open(folder).log
    fit("heuristic", log, folder=tmp_path / "links", hidden=0.0, progress=False)
    with Service(Run.open(tmp_path / "links"), where) as other:
        assert (other.live.total, other.live.events) == (numbers, TRAINED + 20)
        assert not other.store.reports


def test_a_replica_learns_of_targets(folder, payments, cluster):
    where = cluster.database()
    with (
        Service(Run.open(folder), where) as writer,
        TestClient(create_app(writer)) as client,
        Service(Run.open(folder), where, Options(follow=True)) as replica,
        TestClient(create_app(replica)) as other,
    ):
        sent(client, payments, TRAINED, TRAINED + 20)
        end = time.monotonic() + 20
        while replica.live.total < writer.live.total and time.monotonic() < end:
            time.sleep(0.02)
        assert asked(other) == asked(client)
        assert judged(replica) == judged(writer)
        assert quality(other) == quality(client)
        answer = other.post("/targets", json={"targets": [target(payments, TRAINED + 19)]})
        assert answer.status_code == 503
        assert "another service writes" in answer.json()["message"]


def test_targets_stay_where_a_loss_beside_them_is_accepted(folder, payments, tmp_path):
    where = tmp_path / "store"
    with Service(Run.open(folder), where) as service, TestClient(create_app(service)) as client:
        sent(client, payments, TRAINED, TRAINED + 20)
        service.saver.tried = service.saver.at = 10**9
    with contextlib.closing(sqlite3.connect(where / "events.db")) as db:
        db.execute("UPDATE events SET dst = 'somebody else' WHERE number = 3")
        db.commit()
    with pytest.raises(BadFile, match="--accept-loss 1"):
        Service(Run.open(folder), where)
    accept_loss(Run.open(folder), where, 1)
    with Service(Run.open(folder), where) as again:
        assert again.live.total == 30
        assert again.live.events == TRAINED + 20
        assert again.live.targets == 10


def test_an_export_has_targets_and_when_they_became_known(folder, payments, new_store, tmp_path):
    with Service(Run.open(folder), new_store(), Options(evaluate_every=0)) as service:
        with TestClient(create_app(service)) as client:
            sent(client, payments, TRAINED, TRAINED + 40)
        found = full_log(service.live, service.store)
    columns = found.schema.feature_columns()
    first, second = (columns.index(f"fraud={word}") for word in (False, True))
    assert len(found) == TRAINED + 40
    told = [k for k in range(TRAINED, TRAINED + 40) if k % 10 < 5]
    for k in range(TRAINED, TRAINED + 40):
        has = found.features[k, [first, second]].tolist()
        assert has == ([float(not payments["fraud"][k]), float(payments["fraud"][k])] if k in told else [0.0, 0.0])
    assert (found.known[told] > found.t[told]).all()
    assert (found.known[:TRAINED] == found.t[:TRAINED]).all()
    run = fit("boosted", found, predict="fraud", given=["amount"], progress=False)
    assert evaluate(run).part == "test"


def test_a_row_of_a_store_has_eight_bytes_a_number_only_where_four_would_round_it():
    batch = EventBatch(["a", "b", "c"], ["x"] * 3, np.arange(3), np.array([[1e9 + 1, 0.5], [2, 0.5], [np.nan, 1]]))
    stored = columns(batch)
    assert [len(row) for row in stored[4]] == [16, 8, 8]
    rows = [
        (k + 1, *row, sum ^ (k + 1))
        for k, (row, sum) in enumerate(zip(zip(*stored, strict=True), checksums(stored), strict=True))
    ]
    assert np.array_equal(batch_of(rows, 2, np.dtype(np.int64)).features, batch.features, equal_nan=True)
