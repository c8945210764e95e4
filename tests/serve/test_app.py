"""The HTTP interface: what each route answers, who may ask, how much, and that the future never leaks."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from pintgn.events.log import Query
from pintgn.serve.api import create_app
from pintgn.serve.api_keys import Keys, add_key
from pintgn.serve.limits import Limits, Options
from pintgn.serve.service import Service
from tests.serve.helpers import TRAINED, TestClient, as_events, assert_same_state, replayed, trained


@pytest.fixture
def service(run_folder, tmp_path):
    with Service.open(run_folder, tmp_path / "store", Options(evaluate_every=2)) as made:
        yield made


@pytest.fixture
def client(service):
    with TestClient(create_app(service)) as made:
        yield made


@pytest.fixture(scope="module")
def still(run_folder, tmp_path_factory):
    """A client of a service to which nothing happens."""
    with Service.open(run_folder, tmp_path_factory.mktemp("still")) as service:
        yield TestClient(create_app(service))


def refused(answer, status, error):
    """Every refusal has one shape: what went wrong, and what to do."""
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"error", "message", "next"}
    assert told["error"] == error
    assert told["message"]
    assert told["next"]
    return told["message"]


# -- what each route answers -------------------------------------------------------------------------------------------


def test_events_are_acknowledged(client, columns):
    told = client.post("/events", json={"events": as_events(columns, TRAINED, 300)}).json()
    assert told == {"accepted": 60, "duplicates": 0, "clock": columns["t"][299], "total": 300, "event": 60}
    told = client.post("/events", json={"src": "ann", "dst": "bob", "t": 9_000, "key": "k"}).json()
    assert told["accepted"] == 1
    assert client.post("/events", json={"src": "ann", "dst": "bob", "t": 9_000, "key": "k"}).json()["duplicates"] == 1


def test_scores_of_one_several_and_pairs_agree(client, columns):
    client.post("/events", json={"events": as_events(columns, TRAINED, 400)})
    several = client.post("/score", json={"src": "person 1", "dst": ["person 2", "person 3"]}).json()
    assert several["at"] == columns["t"][399] + 1
    pairs = [{"src": "person 1", "dst": name} for name in ("person 2", "person 3")]
    paired = client.post("/score", json={"pairs": pairs}).json()
    one = client.post("/score", json={"src": "person 1", "dst": "person 3"}).json()
    for k in (0, 1):
        assert paired["scores"][k] == several["scores"][k] | {"src": "person 1"}
        assert 0 < several["scores"][k]["probability"] < 1
    assert one["scores"][0]["logit"] == pytest.approx(several["scores"][1]["logit"], abs=1e-4)


def test_recommendations_are_the_best_scores(still):
    told = still.get("/recommend/person 1", params={"k": 5}).json()
    assert told["node"] == "person 1"
    logits = [item["logit"] for item in told["items"]]
    assert len(logits) == 5
    assert logits == sorted(logits, reverse=True)
    everyone = list(still.app.state.service.live.names.ids)
    scores = still.post("/score", json={"src": "person 1", "dst": everyone}).json()["scores"]
    assert max(one["logit"] for one in scores) == pytest.approx(logits[0], abs=1e-4)


def test_recommending_from_many_destinations_takes_turns(client, service, monkeypatch):
    whole = client.get("/recommend/person 1", params={"k": 7}).json()
    monkeypatch.setattr("pintgn.serve.answers.RANKED", 9)
    parts = client.get("/recommend/person 1", params={"k": 7}).json()
    assert [item["dst"] for item in parts["items"]] == [item["dst"] for item in whole["items"]]


def test_a_node_is_described(client, columns):
    client.post("/events", json={"events": as_events(columns, TRAINED, 500)})
    told = client.get("/nodes/person 1", params={"depth": 2, "neighbors": 3}).json()
    rows = [k for k in range(500) if "person 1" in (columns["src"][k], columns["dst"][k])]
    assert told["known"]
    assert told["degree"] == len(rows)
    assert (told["first_seen"], told["last_seen"]) == (columns["t"][rows[0]], columns["t"][rows[-1]])
    for contact, row in zip(told["recent"], rows[::-1], strict=False):
        src, dst = columns["src"][row], columns["dst"][row]
        kind = "self" if src == dst else "out" if src == "person 1" else "in"
        other = dst if src == "person 1" else src
        assert contact == {"other": other, "t": columns["t"][row], "direction": kind}
    assert len(told["recent"]) == 3
    children = told["tree"]["children"]
    assert [child["id"] for child in children] == [contact["other"] for contact in told["recent"]]
    assert all(child["dt"] == told["at"] - child["t"] > 0 for child in children)
    assert all(len(child["children"]) == 3 for child in children)


def test_a_stranger_is_nobody_yet_but_can_be_asked_about(still):
    told = still.get("/nodes/nobody").json()
    assert (told["known"], told["degree"], told["recent"], told["tree"]["children"]) == (False, 0, [], [])
    assert len(still.get("/recommend/nobody").json()["items"]) == 10
    assert np.isfinite(still.post("/score", json={"src": "nobody", "dst": "no one"}).json()["scores"][0]["logit"])


def test_nodes_are_found_by_how_they_begin(client):
    found = client.get("/nodes", params={"prefix": "PERSON 1"}).json()["nodes"]
    assert found[0] == "person 1"
    assert all(name.startswith("person 1") for name in found)
    client.post("/events", json={"src": "Zoë", "dst": "person 1", "t": 9_000})
    assert client.get("/nodes", params={"prefix": "zo"}).json()["nodes"] == ["Zoë"]
    assert client.get("/nodes", params={"limit": 3}).json()["nodes"].__len__() == 3


def test_without_a_prefix_the_nodes_that_were_active_last_are_suggested(client, columns):
    client.post("/events", json={"events": as_events(columns, TRAINED, 300)})
    client.post("/events", json={"src": "new here", "dst": "person 3", "t": 9_000})
    found = client.get("/nodes", params={"limit": 3}).json()["nodes"]
    assert found[:2] == ["person 3", "new here"], "of the same moment, the busier one first"
    ends = zip(columns["src"][:300], columns["dst"][:300], columns["t"][:300], strict=True)
    last = {end: t for src, dst, t in ends for end in (src, dst)}
    assert last[found[2]] == max(t for end, t in last.items() if end != "person 3")


def test_status_has_what_the_page_shows(client, columns):
    client.post("/events", json={"events": as_events(columns, TRAINED, 600)})
    told = client.get("/status").json()
    assert (told["clock"], told["events"], told["live_events"]) == (columns["t"][599], 600, 360)
    assert told["rate_1m"] == pytest.approx(6.0)
    assert len(told["rate_history"]) == 120
    assert told["quality"]["scored"] > 100
    assert 0 < told["quality"]["ap_rolling"] <= 1
    assert told["quality"]["reference_ap"] > 0
    assert told["model"]["name"] == "pint"
    assert told["data"]["events"] == TRAINED
    assert told["uptime"] >= 0


def test_reasons_are_given(client, columns):
    client.post("/events", json={"events": as_events(columns, TRAINED, 400)})
    told = client.get("/explain", params={"src": "person 1", "dst": "person 2"}).json()
    assert (told["src"], told["dst"]) == ("person 1", "person 2")
    score = client.post("/score", json={"src": "person 1", "dst": "person 2"}).json()["scores"][0]
    assert told["logit"] == pytest.approx(score["logit"], abs=1e-4)


def test_metrics_can_be_read_by_prometheus(client, columns):
    client.post("/events", json={"events": as_events(columns, TRAINED, 300)})
    client.post("/events", json={"events": []})
    text = client.get("/metrics").text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, value in lines}
    assert values["pintgn_events_total"] == 60
    assert values['pintgn_requests_total{route="/events",status="200"}'] == 1
    assert values['pintgn_refused_total{reason="bad_input"}'] == 1
    assert values['pintgn_request_seconds_count{route="/events"}'] == 2
    assert values["pintgn_quality_ap"] <= 1
    assert not any(name.partition("{")[0].endswith("_created") for name in values)
    for name in {key.partition("{")[0] for key in values}:
        plain = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        assert f"# TYPE {name} " in text or f"# TYPE {plain} histogram" in text


def test_a_snapshot_on_request(client, service, columns):
    client.post("/events", json={"events": as_events(columns, TRAINED, 300)})
    assert client.post("/snapshot").json()["events"] == 60
    assert service.writer.snapshots.numbers() == [60]


def test_the_interface_describes_itself(still):
    told = still.get("/openapi.json").json()
    assert set(told["paths"]) >= {
        "/events", "/score", "/recommend/{node}", "/nodes", "/nodes/{node}", "/explain", "/status", "/health",
        "/metrics", "/snapshot", "/models",
    }  # fmt: skip
    schemas = told["components"]["schemas"]
    assert schemas["Fault"]["required"] == ["error", "message", "next"]
    for path in told["paths"].values():
        for operation in path.values():
            assert operation["summary"]
            for status, answer in operation["responses"].items():
                schema = answer["content"].get("application/json", {}).get("schema", {})
                assert status in ("200", "202") or schema == {"$ref": "#/components/schemas/Fault"}
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)))
    assert named <= set(schemas)


def test_sources_and_destinations_named_apart(tmp_path):
    from pintgn import PINT, fit, read_events

    rng = np.random.default_rng(0)
    given = {"src": rng.integers(0, 9, 400), "dst": rng.integers(0, 9, 400), "t": np.arange(400)}
    fit(PINT(dim=8), read_events(given, bipartite=True), folder=tmp_path / "run", epochs=1, batch=100)
    with Service.open(tmp_path / "run") as service:
        client = TestClient(create_app(service))
        client.post("/events", json=[{"src": 3, "dst": 77, "t": 500}, {"src": 88, "dst": 3, "t": 501}])
        one, other = (client.get("/nodes/3", params={"side": side}).json() for side in ("src", "dst"))
        assert one["recent"][0] | {"side": None} == {"other": 77, "t": 500, "direction": "out", "side": None}
        assert other["recent"][0]["other"] == 88
        assert other["recent"][0]["direction"] == "in"
        assert 77 in [item["dst"] for item in client.get("/recommend/3?k=50").json()["items"]]
        assert 88 not in [item["dst"] for item in client.get("/recommend/3?k=50").json()["items"]]
        assert client.get("/nodes?prefix=3").json()["nodes"] == [3]
        refused(client.get("/nodes/three"), 422, "bad_input")
        refused(client.get("/nodes/1_000"), 422, "bad_input")


def test_a_model_that_judges_no_links_takes_events_and_says_what_it_cannot(columns, tmp_path):
    folder = trained(tmp_path / "run", columns, "ctdne", dim=4, walks=2, length=4)
    with Service.open(folder) as service:
        client = TestClient(create_app(service))
        assert client.post("/events", json={"events": as_events(columns, TRAINED, 300)}).json()["accepted"] == 60
        for answer in (
            client.post("/score", json={"src": "person 1", "dst": "person 2"}),
            client.get("/recommend/person 1"),
        ):
            assert "scores no links" in refused(answer, 422, "bad_input")
        assert client.get("/explain", params={"src": "person 1", "dst": "person 2"}).json()["logit"] is None
        assert client.get("/status").json()["quality"]["active"] is False
        assert client.get("/metrics").status_code == 200


# -- time --------------------------------------------------------------------------------------------------------------


def test_answers_equal_those_of_a_stream_that_never_saw_the_future(client, run_folder, columns):
    """Scores over HTTP at every stop equal a clean replay of the prefix alone."""
    pairs = [{"src": f"person {a}", "dst": f"person {b}"} for a in range(6) for b in range(6)]
    stops = [300, 301, 444, 600]
    for begin, end in zip([TRAINED, *stops[:-1]], stops, strict=True):
        client.post("/events", json={"events": as_events(columns, begin, end)})
        at = columns["t"][end - 1] + 3
        told = client.post("/score", json={"pairs": pairs, "at": at}).json()
        clean = replayed(run_folder, columns, end)
        nodes = clean.names.numbers[0]
        src, dst = ([nodes.get(pair[end], 10**6) for pair in pairs] for end in ("src", "dst"))
        clean.model.eval()
        with torch.no_grad():  # as it is served: to the last bit
            expected = clean.stream.score(Query(np.array(src), np.array(dst), np.full(len(src), at))).tolist()
        assert [one["logit"] for one in told["scores"]] == expected


def test_scrambling_the_future_changes_no_answer(run_folder, columns, tmp_path):
    """Two services are told the same past and different futures: what they answered before is the same; the past can
    no longer be asked about, nor changed."""
    answers = []
    rng = np.random.default_rng(0)
    for name in ("true", "scrambled"):
        with Service.open(run_folder, tmp_path / name) as service, TestClient(create_app(service)) as client:
            client.post("/events", json={"events": as_events(columns, TRAINED, 400)})
            clock = columns["t"][399]
            told = []
            for at in (clock, clock + 1, clock + 500):
                pairs = [{"src": f"person {a}", "dst": f"person {b}"} for a in range(5) for b in range(5)]
                told.append(client.post("/score", json={"pairs": pairs, "at": at}).json())
                told.append(client.get("/recommend/person 1", params={"at": at}).json())
            future = as_events(columns, 400, 600)
            if name == "scrambled":
                ends = rng.permutation([event["dst"] for event in future]).tolist()
                future = [event | {"dst": end} for event, end in zip(future, ends, strict=True)]
            same_time = [event for event in future if event["t"] == clock]
            if same_time:  # the clock's own group goes on: a question at the clock does not see it
                client.post("/events", json={"events": same_time})
                told.append(client.post("/score", json={"pairs": pairs, "at": clock}).json())
            client.post("/events", json={"events": [event for event in future if event["t"] > clock]})
            refused(client.post("/score", json={"pairs": pairs, "at": clock}), 409, "stale_query")
            refused(client.get("/recommend/person 1", params={"at": clock}), 409, "stale_query")
            refused(
                client.get("/explain", params={"src": "person 1", "dst": "person 2", "at": clock}), 409, "stale_query"
            )
            refused(client.post("/events", json=as_events(columns, 399, 400)), 409, "late_event")
            answers.append(told)
    assert answers[0] == answers[1]


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_an_event_far_ahead_is_refused_by_name(client, service):
    far = {"src": "ann", "dst": "bob", "t": service.live.clock * 1_000}
    answer = client.post("/events", json={"events": [far | {"t": service.live.clock}, far]})
    assert "event 1 ('ann' → 'bob')" in refused(answer, 422, "far_ahead")
    assert "--max-ahead" in answer.json()["message"]


def test_a_late_event_is_refused_by_name(client, columns, service):
    client.post("/events", json={"events": as_events(columns, TRAINED, 400)})
    answer = client.post("/events", json={"src": "ann", "dst": "bob", "t": 0})
    assert "event 0 ('ann' → 'bob')" in refused(answer, 409, "late_event")
    assert "Nothing of this batch was applied" in answer.json()["message"]
    assert service.store.total == 160


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/events", 405, "not_allowed"),
        ("DELETE", "/nodes/x", 405, "not_allowed"),
        ("GET", "/recommend/x?k=0", 422, "bad_input"),
        ("GET", "/recommend/x?k=many", 422, "bad_input"),
        ("GET", "/recommend/x?at=soon", 422, "bad_input"),
        ("GET", "/recommend/x?at=nan", 422, "bad_input"),
        ("GET", f"/recommend/x?at={10**30}", 422, "bad_input"),
        ("GET", "/recommend/x?at=1", 409, "stale_query"),
        ("GET", "/nodes/x?depth=9", 422, "bad_input"),
        ("GET", "/nodes/x?side=left", 422, "bad_input"),
        ("GET", f"/nodes/{'x' * 1_001}", 422, "bad_input"),
        ("GET", "/explain?src=x", 422, "bad_input"),
        ("GET", "/nodes?limit=1000", 422, "bad_input"),
    ],
)
def test_a_wrong_request_is_told_so(still, method, path, status, error):
    refused(still.request(method, path), status, error)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"pairs": 3}', b'{"pairs": []}', b'{"pairs": [3]}', b'{"src": "a"}',
     b'{"src": "a", "dst": []}',
     b'{"src": "a", "dst": "b", "at": []}', b'{"src": 3, "dst": "b"}', b'{"src": "a", "dst": "b", "when": 3}'],
)  # fmt: skip
def test_a_malformed_question_is_told_so(still, body):
    refused(still.post("/score", content=body, headers={"content-type": "application/json"}), 422, "bad_input")


def test_bodies_batches_and_questions_are_bounded(run_folder, tmp_path):
    limits = Limits(body=2_000, batch=3, pairs=4)
    with Service.open(run_folder, tmp_path / "store", limits=limits) as service:
        client = TestClient(create_app(service))
        event = {"src": "a", "dst": "b", "t": 9_000}
        assert client.post("/events", json=[event] * 3).status_code == 200
        refused(client.post("/events", json=[event] * 4), 413, "too_large")
        refused(client.post("/events", json=[event | {"src": "a" * 900}] * 3), 413, "too_large")
        refused(client.post("/score", json={"src": "a", "dst": ["b"] * 5}), 413, "too_large")

        headers = {"content-type": "application/json"}
        in_parts = (b" " * 500 for _ in range(9))  # no Content-Length that would tell
        refused(client.post("/events", content=in_parts, headers=headers), 413, "too_large")
        assert service.store.total == 3


def test_back_pressure_is_429_with_a_time_to_wait(run_folder, tmp_path):
    with Service.open(run_folder, tmp_path / "store", limits=Limits(asking=0)) as service:
        answer = TestClient(create_app(service)).get("/recommend/person 1")
        refused(answer, 429, "busy")
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_page_of_somebody_elses_cannot_send_events_unasked(still, kind):
    headers = {} if kind is None else {"content-type": kind}
    body = json.dumps({"src": "a", "dst": "b", "t": 9_000})
    refused(still.post("/events", content=body, headers=headers), 415, "wrong_type")


def test_a_failed_service_says_so(client, service, columns, monkeypatch, caplog):
    monkeypatch.setattr(service.live, "observe_batch", lambda *_: 1 / 0)
    refused(client.post("/events", json={"events": as_events(columns, TRAINED, 300)}), 503, "stopped")
    assert client.get("/health").status_code == 503
    assert client.get("/health").json()["status"] == "failed"


def test_a_fault_of_ours_shows_no_trace(client, service, monkeypatch, caplog):
    monkeypatch.setattr(service, "asking", lambda: 1 / 0)
    told = refused(client.get("/recommend/person 1"), 500, "failed")
    assert "division" not in told
    assert "ZeroDivisionError" in caplog.text


# -- who may ask -------------------------------------------------------------------------------------------------------


def test_a_key_is_needed_where_one_was_made(service, tmp_path, caplog):
    text = add_key(tmp_path, "ann")
    client = TestClient(create_app(service, Keys.of_store(tmp_path)))
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": text}, {"x-api-key": text[:-1]}):
        answer = client.get("/status", headers=headers)
        refused(answer, 401, "no_key")
        assert answer.headers["www-authenticate"] == "Bearer"
    for headers in ({"authorization": f"Bearer {text}"}, {"x-api-key": text}):
        assert client.get("/status", headers=headers).status_code == 200
    assert client.get("/health").status_code == 200
    assert client.get("/").status_code == 200
    told = client.get("/openapi.json", headers={"x-api-key": text}).json()
    assert told["security"] == [{"key": []}]
    assert text not in caplog.text


def test_a_name_that_is_not_ours_is_refused(service):
    """Against pages that make their own name point to this machine."""
    app = create_app(service, hosts=("localhost",))
    refused(TestClient(app, base_url="http://evil.example").get("/status"), 421, "wrong_host")
    for name in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert TestClient(app).get("/status", headers={"host": name}).status_code == 200


def test_answers_forbid_what_a_page_does_not_need(still):
    headers = still.get("/").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_the_pages_of_the_interface_need_no_network(still):
    page = still.get("/docs").text
    parts = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert parts
    for part in parts:
        assert "//" not in part, "everything is served from here"
        assert still.get(f"/{part}").status_code == 200, part


def test_what_requests_hold_is_declared_once(still, service):
    """The schema that is shown is the one that decodes: ids of this log are text."""
    shown = still.get("/openapi.json").json()
    event = shown["components"]["schemas"]["Event"]
    assert event["required"] == ["src", "t"]
    assert event["properties"]["src"] == {"type": "string", "minLength": 1, "maxLength": 1000}
    assert event["additionalProperties"] is False
    kinds = shown["paths"]["/events"]["post"]["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert [kind["$ref"].rpartition("/")[2] for kind in kinds] == ["EventList", "Event", "EventColumns"]


def test_events_are_scored_as_of_just_before_them(run_folder, columns, tmp_path):
    """The score in the acknowledgement is what a question about the event's own time got right before it."""
    events = as_events(columns, TRAINED, TRAINED + 40, keyed=True)
    with Service.open(run_folder, tmp_path / "one") as service, Service.open(run_folder, tmp_path / "two") as other:
        client, beside = TestClient(create_app(service)), TestClient(create_app(other))
        told = client.post("/events?scores=true", json={"events": events}).json()
        assert len(told["scores"]) == 40
        for event, score in zip(events, told["scores"], strict=True):
            asked = {"src": event["src"], "dst": event["dst"], "at": event["t"]}
            found = beside.post("/score", json=asked).json()["scores"][0]["probability"]
            assert abs(found - score) < 1e-5
            assert "scores" not in beside.post("/events", json=event).json()
        assert_same_state(service.live, other.live)
        again = client.post("/events?scores=1", json={"events": [*events[-2:], {**events[-1], "key": "new"}]}).json()
        assert again["scores"][:2] == [None, None]
        assert 0 < again["scores"][2] < 1
        assert client.post("/events?scores=perhaps", json=events[0]).status_code == 422
