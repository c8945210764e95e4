"""What the feeder does with a service that is busy, away or refuses."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pintgn.errors import BadInput
from pintgn.feed.client import Client
from pintgn.feed.feeder import Feeder, Refused
from pintgn.feed.mapping import ColumnMapping
from pintgn.feed.refused_rows import RefusedRows
from pintgn.feed.stream_source import Batch, Row, Source
from tests.feed.helpers import fed
from tests.serve.helpers import TRAINED, as_events


class Listed(Source):
    """Rows from a list."""

    name = "list"

    def __init__(self, rows):
        self.rows = [Row(f"list:{k}", values) for k, values in enumerate(rows)]
        self.at = self.committed = 0

    def read(self, most, wait):
        rows = self.rows[self.at : self.at + most]
        self.at += len(rows)
        return Batch(rows, self.at, end=not rows)

    def commit(self, position):
        self.committed = position


@pytest.fixture
def scripted():
    """A service that answers as a list says: (status, headers, body); the last answer stays. And what it was sent."""
    sent, script = [], []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            sent.append(body)
            answer = script.pop(0) if len(script) > 1 else script[0]
            if callable(answer):
                answer = answer(body)
            status, headers, found = answer
            if status == 0:  # hang up
                self.close_connection = True
                self.connection.close()
                return
            data = json.dumps(found).encode()
            self.send_response(status)
            for name, value in {"Content-Length": len(data), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.script, server.sent, server.clients = script, sent, []
    server.address_text = f"http://127.0.0.1:{server.server_port}"
    yield server
    for client in server.clients:
        client.close()
    server.shutdown()
    server.server_close()
    thread.join()


def taken(body):
    return 200, {}, {"accepted": len(body["events"]), "duplicates": 0, "clock": 0, "total": 0}


def feeder_of(server, rows, **more):
    client, _ = Client.of(server.address_text)
    server.clients.append(client)
    return Feeder(Listed(rows), client, ColumnMapping("src", "dst", "t"), **more)


@pytest.fixture
def refused(tmp_path):
    made = RefusedRows(tmp_path / "refused")
    yield made
    made.close()


ROWS = [{"src": "a", "dst": "b", "t": k} for k in range(10)]


def test_a_busy_service_is_waited_for_as_long_as_it_says(scripted, monkeypatch):
    busy = {"error": "busy", "message": "too much waits.", "next": "wait."}
    scripted.script[:] = [(429, {"Retry-After": "7"}, busy), (503, {}, busy), (0, {}, {}), (507, {}, busy), taken]
    feeder = feeder_of(scripted, ROWS)
    waits = []
    monkeypatch.setattr(feeder.stopping, "wait", lambda seconds: waits.append(seconds))
    counts = feeder.run(once=True)
    assert waits == [7.0, 0.5, 1.0, 2.0]
    assert (counts.accepted, counts.retries, counts.waiting_for) == (10, 4, "")
    assert scripted.sent == [scripted.sent[0]] * 5, "the same request, with the same keys"
    assert feeder.source.committed == 10


def test_what_was_not_acknowledged_is_not_committed(scripted, monkeypatch):
    scripted.script[:] = [taken, (503, {}, {"error": "stopped", "message": "m", "next": "n"})]
    feeder = feeder_of(scripted, ROWS, batch=4)
    monkeypatch.setattr(feeder.stopping, "wait", lambda seconds: feeder.stop() or True)
    feeder.run(once=True)
    assert feeder.source.committed == 4


def refusing(wrong, error="late_event", status=409):
    """A service that takes a batch only as a whole, and refuses it because of some times."""

    def answer(body):
        found = [event["t"] for event in body["events"] if event["t"] in wrong]
        return (status, {}, {"error": error, "message": f"{found} no.", "next": "n"}) if found else taken(body)

    return answer


@pytest.mark.parametrize("batch", [1, 2, 3, 9, 10, 11])
@pytest.mark.parametrize("wrong", [{0}, {9}, {3, 4}, {0, 2, 9}, set(range(10))])
def test_refused_rows_are_set_aside_and_no_others(scripted, tmp_path, refused, batch, wrong):
    scripted.script[:] = [refusing(wrong)]
    feeder = feeder_of(scripted, ROWS, batch=batch, refused=refused)
    counts = feeder.run(once=True)
    letters = [json.loads(line) for line in (tmp_path / "refused").read_text().splitlines()]
    assert [letter["row"]["t"] for letter in letters] == sorted(wrong)
    assert {letter["error"] for letter in letters} == {"late_event"}
    assert (counts.accepted, counts.refused) == (10 - len(wrong), len(wrong))
    assert feeder.source.committed == 10


def test_without_a_place_for_them_the_first_refused_row_stops_the_feed(scripted):
    scripted.script[:] = [refusing({5, 7})]
    feeder = feeder_of(scripted, ROWS)
    with pytest.raises(Refused, match=r"row list:5 is refused \(late_event\)"):
        feeder.run(once=True)
    assert feeder.source.committed == 0
    assert feeder.counts.accepted == 5
    feeder = feeder_of(scripted, [*ROWS[:2], {"src": "a", "dst": "b"}])
    scripted.script[:] = [taken]
    with pytest.raises(Refused, match="it has no 't'"):
        feeder.run(once=True)
    assert feeder.counts.accepted == 2, "everything before it was sent"


@pytest.mark.parametrize(("status", "error"), [(409, "key_reused"), (401, "no_key"), (403, "forbidden")])
def test_what_is_no_row_s_fault_stops_the_feed(scripted, tmp_path, refused, status, error):
    scripted.script[:] = [(status, {}, {"error": error, "message": "no.", "next": "Do this."})]
    with pytest.raises(BadInput, match=r"no. Do this."):
        feeder_of(scripted, ROWS, refused=refused).run(once=True)
    assert (tmp_path / "refused").read_text() == ""
    scripted.script[:] = [(404, {}, "nothing here")]
    with pytest.raises(BadInput, match="not as a pintgn service does"):
        feeder_of(scripted, ROWS, refused=refused).run(once=True)


def test_a_refused_row_is_written_once_and_whole(tmp_path):
    path = tmp_path / "refused"
    letters = [{"key": f"k{n}", "error": "e", "message": "m", "row": {}} for n in range(3)]
    refused = RefusedRows(path)
    refused.add(letters[:2])
    refused.close()
    with open(path, "a") as file:
        file.write('{"key": "k2", "err')  # a kill
    refused = RefusedRows(path)
    refused.add(letters)
    refused.close()
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["k0", "k1", "k2"]


def test_columns_are_the_run_s_own_unless_others_are_named():
    data = {
        "columns": {"src": "buyer", "dst": "seller", "t": "when", "op": None},
        "features": ["amount", "kind", "zone", "new"],
        "feature_kinds": ["number", "text", "whole", "boolean"],
        "ids": "numbers",
    }
    columns = ColumnMapping.of(data, {"dst": "shop", "key": "order"}, text=True)
    given = {"buyer": "17", "shop": "4", "when": "2024-01-31", "order": "o-9", "amount": "2.50", "kind": "card"}
    row = Row("p:1", given | {"zone": "3", "new": "True", "ignored": "x"})
    assert columns.event(row) == {
        "src": 17, "dst": 4, "t": "2024-01-31", "key": "o-9",
        "features": {"amount": 2.5, "kind": "card", "zone": 3, "new": True},
    }  # fmt: skip
    for change, said in [
        ({"buyer": "x"}, "buyer is 'x', which is not a whole number"),
        ({"when": ""}, "it has no 'when'"),
        ({"order": ""}, "it has no 'order', which names the events"),
        ({"amount": "much"}, "amount is 'much', which is not a number"),
    ]:
        with pytest.raises(BadInput, match=said):
            columns.event(Row("p:1", row.values | change))


def test_refused_rows_of_a_file_are_counted_and_set_aside(alive, columns, tmp_path):
    events = as_events(columns, TRAINED, TRAINED + 60)
    events.insert(20, {"src": "x", "dst": "y", "t": 1})
    events.insert(40, {"src": "x", "dst": "y"})
    path, aside = tmp_path / "events.ndjson", tmp_path / "refused.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + "nonsense\n")
    code, said, noise = fed(path, alive.address, "--once")
    assert code == 2
    assert "late_event" in noise
    code, said, noise = fed(path, alive.address, "--once", "--json", "--refused", aside)
    assert code == 0, noise
    told = json.loads(said)
    assert (told["accepted"] + told["duplicates"], told["refused"]) == (60, 3)
    letters = [json.loads(line) for line in aside.read_text().splitlines()]
    assert sorted(letter["error"] for letter in letters) == ["bad_row", "bad_row", "late_event"]
    assert len(alive.end()) == 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x.csv", "ftp://x"], "no address of a service"),
        (["x.csv", "http://a:b@x"], "no user or password"),
        (["x.csv", "http://127.0.0.1:1/path"], "has a path"),
        (["kafak://x/y", "http://127.0.0.1:1"], "Did you mean 'kafka://'?"),
        (["kafka://x", "http://127.0.0.1:1"], "names no topic"),
        (["nats://x/a/b", "http://127.0.0.1:1"], "names no stream"),
        (["postgresql://x/y", "http://127.0.0.1:1"], "--increasing id"),
        (["x.csv", "http://127.0.0.1:1", "--set", "a"], "write NAME=VALUE"),
        (["x.csv", "http://127.0.0.1:1", "--format", "xml"], "csv or ndjson"),
        (["x.csv", "http://127.0.0.1:1", "--api-key", "nowhere"], "cannot read the API key"),
    ],
)
def test_what_is_wrong_with_a_command_is_said_in_one_line(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, out, noise = fed(*arguments, "--once")
    assert (code, out) == (2, "")
    assert said in noise
    assert noise.count("\n") == 1


def test_an_address_of_no_source_says_which_there_are_once():
    from pintgn.feed.endpoints import open_source
    from pintgn.feed.options import SourceOptions

    with pytest.raises(BadInput, match=r"Did you mean 'kafka://'\?$"):
        open_source("kafk://broker/orders", "http://127.0.0.1:1", SourceOptions(), {})
    with pytest.raises(BadInput, match=r"events\. There are: 'a file', 'kafka://', [^.]*\.$"):
        open_source("ftp-mirror://host/orders", "http://127.0.0.1:1", SourceOptions(), {})
