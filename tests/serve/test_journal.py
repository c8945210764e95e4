"""What is written down: ids of requests, lines for machines, and who changed something or was refused."""

from __future__ import annotations

import json
import logging

import pytest

from pintgn.errors import BadFile
from pintgn.serve import journal
from pintgn.serve.api import create_app
from pintgn.serve.api_keys import Keys, add_key
from pintgn.serve.limits import Logs
from pintgn.serve.service import Service
from tests.serve.helpers import TestClient, open_to_others

EVENT = {"src": "ann", "dst": "bob", "t": 9_000}


@pytest.fixture(scope="module")
def service(run_folder, tmp_path_factory):
    with Service.open(run_folder, tmp_path_factory.mktemp("journal") / "store") as made:
        yield made


@pytest.fixture
def lines(tmp_path):
    """What the audit log says so far, line by line; ended with the test."""
    journal.write_logs(Logs(audit=tmp_path / "audit.log"))
    yield lambda name="audit.log": [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
    for handler in journal.audit.handlers[:]:
        journal.audit.removeHandler(handler)
        handler.close()
    journal.audit.setLevel(logging.NOTSET)


def test_a_request_keeps_the_id_it_came_with_or_gets_one(service):
    client = TestClient(create_app(service))
    for given in ("a-proxy:17.b", "x" * 100):
        assert client.get("/health", headers={"x-request-id": given}).headers["x-request-id"] == given
    for given in ("", "x" * 101, "two words", "new\tline", "ä".encode()):
        made = client.get("/health", headers={"x-request-id": given}).headers["x-request-id"]
        assert len(made) == 16
        assert journal.ID.fullmatch(made)
    ids = {client.get("/nowhere").headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_a_fault_is_logged_with_the_id_that_the_client_was_given(service, monkeypatch, caplog):
    monkeypatch.setattr(service, "asking", lambda: 1 / 0)
    client = TestClient(create_app(service), raise_server_exceptions=False)
    client.get("/status", headers={"x-request-id": "find-me"})
    assert [record.facts for record in caplog.records] == [{"request_id": "find-me"}]
    line = json.loads(journal.JsonLines().format(caplog.records[0]))
    assert (line["request_id"], line["level"], line["logger"]) == ("find-me", "error", "pintgn.serve")
    assert line["message"] == "GET /status failed"
    assert "ZeroDivisionError" in line["exception"]


def test_every_request_is_logged_when_asked_for(service, caplog):
    client = TestClient(create_app(service))
    client.get("/status")
    assert not caplog.records
    caplog.set_level(logging.INFO, "pintgn.access")
    client.get("/nodes/a%0Ab", headers={"x-request-id": "one"})
    (record,) = caplog.records
    assert record.facts | {"ms": 0} == {
        "request_id": "one", "key": None, "client": "testclient", "method": "GET", "path": "/nodes/a\nb", "status": 404,
        "ms": 0,
    }  # fmt: skip
    assert "GET /nodes/a%0Ab 404" in record.getMessage()
    assert "\n" not in journal.JsonLines().format(record)


def test_the_audit_log_has_writes_administration_and_refusals(service, tmp_path, lines):
    keys = {name: add_key(tmp_path, name, scope) for name, scope in (("feed", "write"), ("ops", "admin"))}
    client = TestClient(create_app(service, Keys.of_store(tmp_path)))
    as_feed, as_ops = ({"x-api-key": keys[name]} for name in ("feed", "ops"))
    client.get("/status", headers=as_feed)
    client.get("/health")
    assert lines() == []
    client.post("/events", json=EVENT, headers=as_feed | {"x-request-id": "sent"})
    client.post("/events", json=EVENT | {"t": 0}, headers=as_feed)
    client.post("/snapshot", headers=as_feed)
    client.post("/snapshot", headers=as_ops)
    client.get("/status")
    client.post("/score", json={}, headers=as_feed | {"origin": "null", "sec-fetch-site": "cross-site"})
    journal.note_action("compact", {"dropped": 3})
    found = lines()
    assert [(line.get("key"), line.get("path"), line.get("status"), line.get("refused")) for line in found] == [
        ("feed", "/events", 200, None),
        ("feed", "/events", 409, None),
        ("feed", "/snapshot", 403, "forbidden"),
        ("ops", "/snapshot", 200, None),
        (None, "/status", 401, "no_key"),
        (None, "/score", 403, "foreign_page"),
        (None, None, None, None),
    ]
    assert (found[0]["request_id"], found[0]["done"]["accepted"]) == ("sent", 1)
    assert found[3]["done"]["events"] == service.store.total
    assert (found[6]["action"], found[6]["done"]) == ("compact", {"dropped": 3})
    assert found[6]["user"]
    assert all(line["time"].endswith("+00:00") for line in found)
    assert not any(text in json.dumps(found) for text in keys.values())


def test_an_audit_log_that_was_moved_away_begins_anew(service, tmp_path, lines):
    """As logrotate does it."""
    client = TestClient(create_app(service))
    client.post("/snapshot")
    (tmp_path / "audit.log").rename(tmp_path / "audit.log.1")
    client.post("/snapshot")
    assert (len(lines("audit.log.1")), len(lines())) == (1, 1)
    before = (tmp_path / "audit.log").read_bytes()
    client.post("/snapshot")
    assert (tmp_path / "audit.log").read_bytes().startswith(before)


def test_an_audit_log_is_its_owners_alone_also_one_that_was_not(service, tmp_path, permissive, lines):
    path = tmp_path / "audit.log"
    assert open_to_others(path) == []
    path.rename(tmp_path / "audit.log.1")
    TestClient(create_app(service)).post("/events", json=EVENT | {"t": 9_600})
    assert len(lines()) == 1
    assert open_to_others(path) == []
    (tmp_path / "old.log").touch(0o666)
    journal.write_logs(Logs(audit=tmp_path / "old.log"))
    assert open_to_others(tmp_path / "old.log") == []


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path):
    with pytest.raises(BadFile, match="cannot write .*/nowhere/audit.log: .* --audit"):
        journal.write_logs(Logs(audit=tmp_path / "nowhere" / "audit.log"))
