"""Clients that mean no good, or know no better: tiny bodies that want huge work, slow ones, idle ones, foreign pages.

Every limit is tried just below, at and above it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest

from pintgn.errors import BadInput
from pintgn.ingest.codec import Codec
from pintgn.learn.run import Run
from pintgn.serve import answers, http_server
from pintgn.serve.api import SMALL, create_app
from pintgn.serve.api_keys import Keys, add_key
from pintgn.serve.http_server import Server
from pintgn.serve.limits import Limits, TooMuch
from pintgn.serve.requests import FIELDS, SPARE, Requests
from pintgn.serve.service import Service
from tests.serve.helpers import TRAINED, TestClient, as_events

JSON = {"content-type": "application/json"}
EVENT = {"src": "ann", "dst": "bob", "t": 9_000}
CHUNKED = (
    b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
KNOWN = ["src", "dst", "t", "op", "key", "amount"]
ROOM = 1 << 20


@pytest.fixture(scope="module")
def plain(run_folder):
    return Requests(Codec.of(Run.open(run_folder).log))


@pytest.fixture(scope="module")
def rich(rich_folder):
    return Requests(Codec.of(Run.open(rich_folder).log))


@pytest.fixture
def service(run_folder, tmp_path):
    with Service.open(run_folder, tmp_path / "store") as made:
        yield made


def refused(answer, status, error):
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"error", "message", "next"}
    assert told["error"] == error
    return told["message"]


# -- JSON --------------------------------------------------------------------------------------------------------------


def limited(requests: Requests, **limits) -> Requests:
    return Requests(requests.codec, Limits(**limits))


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_no_more_events_than_allowed(plain, extra):
    few = limited(plain, batch=2_500)
    events = [EVENT] * (2_500 + extra)
    columns = {name: [EVENT[name]] * len(events) for name in EVENT}
    for body in (events, {"events": events}, {"columns": columns}):
        with contextlib.nullcontext() if extra <= 0 else pytest.raises(TooMuch, match="2,501 events at once"):
            assert len(few.events(json.dumps(body).encode())) == 2_500 + extra


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_commas_and_brackets_are_counted_before_anything_is_made(plain, extra):
    """Texts may hold some; far more than all events need are refused."""
    few = limited(plain, batch=10)
    for mark, most in ((",", SPARE + 10 * FIELDS), ("{", SPARE + 2 * 10)):
        event = json.dumps(EVENT)
        text = json.dumps(EVENT | {"dst": mark * (most - event.count(mark) + extra)})
        with pytest.raises(BadInput, match="1,000 characters") if extra <= 0 else pytest.raises(TooMuch):
            few.events(text.encode())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"src": 5}, "event 2345: node ids here are text"),
        ({"dst": ""}, "event 2345: an id has"),
        ({"dst": "\ud800"}, "no JSON: JSON is malformed"),
        ({"t": "soon"}, "event 2345: "),
        ({"t": 1}, "event 2345 is at 1, earlier than event 2344"),
        ({"key": 7}, "event 2345: a key is a text"),
        ({"op": "delete"}, "event 2345 has op"),
        ({"features": [1]}, "event 2345 has 1 features"),
        ({"features": {"amount": 1, "kind": []}}, "event 2345: expected .* got 'array'"),
        ({"features": {"amount": 1e39, "kind": "card"}}, "event 2345: 'amount' is a finite|event 2345 has a feature"),
        ({"features": None}, "event 2345 has no features"),
        ({"when": 3}, 'event 2345 has a field "when"'),
    ],
)
def test_the_wrong_one_of_many_events_is_named_by_its_number(rich, change, said):
    events = [EVENT | {"features": {"amount": 1, "kind": "card"}} for _ in range(3_000)]
    events[2345] = events[2345] | change
    with pytest.raises(BadInput, match=said):
        rich.events(json.dumps(events).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * 3_000_000 + b"{}]",
        b'{"events": [' + b"{}," * 3_000_000 + b"{}]}",
        b"[[" + b"{}," * 3_000_000 + b"{}]]",
        b'{"src": [' + b"[]," * 3_000_000 + b"[]]}",
        b'{"columns": {"src": [[' + b"[]," * 3_000_000 + b"[]]], 'dst': [1], 't': [1]}}",
        b"{" + b",".join(b'"%d":{}' % k for k in range(700_000)) + b"}",
        b'{"events": [{' + b",".join(b'"%d":1' % k for k in range(800_000)) + b"}]}",
        b"[" * 9_000_000,
        b'{"events": [' + b",".join([b'{"src":"a","dst":"b","t":1}'] * 1_000_000) + b"]}",
    ],
    ids=["list", "events", "within", "single", "columns", "object", "event", "deep", "valid"],
)
def test_a_body_that_would_become_much_is_refused_before_it_does(plain, body):
    """[{},{},…] of 31 MB took 1.1 GB to refuse."""
    for read in (plain.events, plain.pairs):
        tracemalloc.start()
        try:
            with pytest.raises((TooMuch, BadInput)):
                read(body)
            assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
        finally:
            tracemalloc.stop()


def test_many_events_hold_little_while_they_are_read(plain):
    body = json.dumps({"events": [EVENT | {"key": None, "features": {}, "op": "add"}] * 50_000}).encode()
    tracemalloc.start()
    try:
        assert len(plain.events(body)) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 8 * len(body)
    finally:
        tracemalloc.stop()


def test_one_event_with_long_lists(rich):
    event = EVENT | {"features": [1.5, "card"]}
    assert len(rich.events(json.dumps(event).encode())) == 1
    for wrong in (event | {"features": [1] * 60_000}, event | {"src": [1] * 60_000}):
        with pytest.raises((BadInput, TooMuch)):
            rich.events(json.dumps(wrong).encode())


# -- a server, as clients meet it --------------------------------------------------------------------------------------


@contextlib.contextmanager
def listening(service):
    """The service on a port of its own; yields the server and a way to connect."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen(128)
    server = Server(create_app(service), service.limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    lines: list[socket.socket] = []

    def connect(sent: bytes = b"") -> socket.socket:
        line = socket.create_connection(bound.getsockname(), timeout=30)
        lines.append(line)
        line.sendall(sent)
        return line

    try:
        yield server, connect
    finally:
        server.should_exit = True
        thread.join(60)
        for line in lines:
            line.close()
        assert not thread.is_alive(), "the server did not stop"


def asked(path: str, body: bytes = b"", method: str = "GET", length: int | None = None, more: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}"
    if method == "POST":
        length = len(body) if length is None else length
        head += f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"{head}\r\n".encode() + body


def answered(line: socket.socket) -> tuple[int, dict]:
    """Status and JSON of the next answer; 0 when the connection is closed without one."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            more = line.recv(4096)
            if not more:
                return 0, {}
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            int(row.split(b":")[1]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length")
        )
        while len(body) < length:
            body += line.recv(4096)
    except ConnectionError:
        return 0, {}
    return int(head.split()[1]), json.loads(body)


def closed(line: socket.socket) -> bool:
    """Waits until the other side has closed."""
    with contextlib.suppress(ConnectionError):
        while line.recv(4096):
            pass
    return True


def opened(run_folder, tmp_path, **limits) -> Service:
    return Service.open(run_folder, tmp_path / "store", limits=Limits(**limits))


def until(condition) -> None:
    """Wait for something that is about to be."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def test_half_a_body_holds_up_the_end_for_a_while_only(service, monkeypatch):
    monkeypatch.setattr(http_server, "GRACE", 0.5)
    with listening(service) as (server, connect):
        slow, headless = connect(asked("/events", b'{"src"', "POST", length=100)), connect(b"POST /events HT")
        until(lambda: server.server_state.tasks)
        server.should_exit = True
        status, told = answered(slow)
        assert (status, told["error"]) == (503, "stopped")
        assert closed(headless)
    assert service.store.total == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on Unix")
def test_sigterm_ends_the_command_while_clients_dawdle(run_folder, columns, tmp_path):
    import httpx

    command = [sys.executable, "-m", "pintgn", "serve", str(run_folder), "--store", str(tmp_path / "s"), "--port", "0"]
    served = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        port = int(json.loads(served.stdout.readline())["address"].rpartition(":")[2])
        told = httpx.post(f"http://127.0.0.1:{port}/events", json=as_events(columns, TRAINED, 300)).json()
        assert told["accepted"] == 60
        with socket.create_connection(("127.0.0.1", port)) as line, socket.create_connection(("127.0.0.1", port)):
            line.sendall(asked("/events", b'{"src"', "POST", length=100))
            served.send_signal(signal.SIGTERM)
            _, said = served.communicate(timeout=60)
        assert served.returncode == 0
        assert b"Traceback" not in said, said.decode()
    finally:
        served.kill()
        served.wait()
    assert (tmp_path / "s" / "snapshots" / f"{60:012d}" / "manifest.json").exists()


def test_a_body_that_is_too_slow_is_refused_and_the_next_request_answered(run_folder, tmp_path):
    with opened(run_folder, tmp_path, arrival=0.3) as service, listening(service) as (_, connect):
        status, told = answered(connect(asked("/events", b'{"src"', "POST", length=100)))
        assert (status, told["error"]) == (408, "too_slow")
        assert "6 bytes" in told["message"]
        quick = connect(asked("/events", json.dumps(EVENT).encode(), "POST"))
        assert answered(quick)[0] == 200


@pytest.mark.parametrize(("extra", "status"), [(-1, 200), (0, 200), (1, 429)])
def test_all_bodies_together_are_bounded_just_below_at_and_above(run_folder, tmp_path, extra, status):
    body = json.dumps(EVENT).encode()
    with opened(run_folder, tmp_path, bodies=len(body) - extra) as service:
        client = TestClient(create_app(service))
        for _ in range(2):  # what a body held is given back, whatever became of it
            answer = client.post("/events", content=body, headers=JSON)
            assert answer.status_code == status, answer.text
            assert status == 200 or int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(("extra", "status"), [(-1, 200), (0, 200), (1, 413)])
def test_one_body_is_bounded_just_below_at_and_above(run_folder, tmp_path, extra, status):
    body = json.dumps(EVENT).encode().ljust(1_000 + extra)
    with opened(run_folder, tmp_path, body=1_000) as service:
        client = TestClient(create_app(service))
        assert client.post("/events", content=body, headers=JSON).status_code == status
        in_parts = (body[k : k + 100] for k in range(0, len(body), 100))  # no Content-Length that would tell
        assert client.post("/events", content=in_parts, headers=JSON).status_code == status


@pytest.mark.parametrize(("extra", "status"), [(-1, 200), (0, 200), (1, 413)])
def test_pairs_of_a_question_are_bounded_just_below_at_and_above(run_folder, tmp_path, extra, status):
    with opened(run_folder, tmp_path, pairs=2_000) as service:
        client = TestClient(create_app(service))
        for body in (
            {"src": "ann", "dst": ["person 1"] * (2_000 + extra)},
            {"pairs": [{"src": "ann", "dst": "a person with such a long name"}] * (2_000 + extra)},
        ):
            assert client.post("/score", json=body).status_code == status


@pytest.mark.parametrize("size", ["99999999999999999999", "9" * 18, "33554433"])
def test_a_length_that_is_too_large_is_refused_before_a_byte_is_read(service, size):
    with listening(service) as (_, connect):
        line = connect(f"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       f"Content-Length: {size}\r\n\r\n".encode())  # fmt: skip
        assert answered(line)[0] == 413


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_bodies_around_the_size_that_the_event_loop_reads_itself(service, extra):
    client = TestClient(create_app(service))
    assert (
        client.post("/events", content=json.dumps(EVENT).encode().ljust(SMALL + extra), headers=JSON).status_code == 200
    )


def test_what_is_asked_most_is_counted_as_every_other_route(service):
    client = TestClient(create_app(service))
    client.post("/events", json=EVENT)
    client.post("/score", json={"src": "a"})
    client.get("/health")
    text = client.get("/metrics").text
    for route, status in (("/events", 200), ("/score", 422), ("/health", 200)):
        assert f'pintgn_requests_total{{route="{route}",status="{status}"}} 1' in text
    assert client.get("/events").status_code == client.post("/health").status_code == 405


# -- connections -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", [2, 3, 4])
def test_connections_are_bounded_just_below_at_and_above(run_folder, tmp_path, idle):
    """Three at once, idle ones included; one more is told so."""
    with opened(run_folder, tmp_path, connections=3) as service, listening(service) as (_, connect):
        lines = [connect(asked("/health")) for _ in range(min(idle, 3))]
        assert all(answered(line)[0] == 200 for line in lines)
        if idle == 4:
            assert connect(asked("/health")).recv(4096).split()[1] == b"503"
        lines[0].sendall(asked("/health"))
        assert answered(lines[0])[0] == 200


def test_a_connection_that_asks_nothing_more_is_closed(run_folder, tmp_path):
    with opened(run_folder, tmp_path, idle=1) as service, listening(service) as (_, connect):
        line = connect(asked("/health"))
        assert answered(line)[0] == 200
        assert closed(line)


def test_requests_sent_ahead_are_answered_in_turn(service):
    with listening(service) as (_, connect):
        line = connect(asked("/health") * 2 + asked("/events", json.dumps(EVENT).encode(), "POST") + asked("/health"))
        file = line.makefile("rb")
        for _ in range(4):
            assert file.readline().split()[1] == b"200"
            length = 0
            while (row := file.readline().strip().lower()) != b"":
                length = int(row.split(b":")[1]) if row.startswith(b"content-length") else length
            file.read(length)


# -- floods ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("route", "name", "limit"),
    [("/explain?src=a&dst=b", "explain", "explaining"), ("/recommend/a", "recommend", "asking")],
)
def test_questions_of_every_kind_are_bounded_and_stop_nobody_else(
    run_folder, tmp_path, monkeypatch, route, name, limit
):
    """48 connections at /explain pushed /health to 5 s: it was outside of every limit."""
    may_go = threading.Event()

    def waits(*_, **given):
        """Until it may go."""
        may_go.wait(30)
        return {}

    monkeypatch.setattr(answers, name, waits)
    with opened(run_folder, tmp_path, **{limit: 3}) as service, listening(service) as (_, connect):
        try:
            for _ in range(3):  # just below, and at the limit
                line = connect(asked(route))
                line.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    line.recv(1)
            status, told = answered(connect(asked(route)))
            assert (status, told["error"]) == (429, "busy")
            assert f"3 {'explanations' if name == 'explain' else 'questions'}" in told["message"]
            for path in ("/health", "/status"):
                assert answered(connect(asked(path)))[0] == 200
            if name == "explain":
                body = json.dumps({"src": "a", "dst": "b"}).encode()
                assert answered(connect(asked("/score", body, "POST")))[0] == 200
        finally:
            may_go.set()


def test_a_full_executor_is_empty_again_when_its_work_is_done(run_folder, tmp_path):
    with opened(run_folder, tmp_path, explaining=1) as service:
        client = TestClient(create_app(service))
        for _ in range(3):
            assert client.get("/explain?src=person 1&dst=person 2").status_code == 200
            assert client.get("/explain?src=person 1&dst=person 2&at=1").status_code == 409


# -- pages of somebody else's ------------------------------------------------------------------------------------------


FOREIGN = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://evil.example"},
    {"origin": "https://testserver"[:13] + "evil"},
    {"origin": "http://testserver:3000"},
    {"origin": "https://testserver"},
    {"origin": "null"},
    {"origin": "http://testserver.evil.example", "sec-fetch-site": "same-origin"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("path", ["/snapshot", "/events", "/score"])
def test_a_foreign_page_can_change_nothing(service, headers, path):
    client = TestClient(create_app(service))
    sent = {} if path == "/snapshot" else {"json": EVENT if path == "/events" else {"src": "a", "dst": "b"}}
    refused(client.post(path, headers=headers, **sent), 403, "foreign_page")
    assert service.store.total == 0
    assert not service.writer.snapshots.numbers()
    assert client.get("/health", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"sec-fetch-site": "same-origin", "origin": "http://testserver"},
                                     {"sec-fetch-site": "none"}, {"origin": "http://testserver"}])  # fmt: skip
def test_our_own_page_and_programs_can(service, headers):
    client = TestClient(create_app(service))
    assert client.post("/events", json=EVENT, headers=headers).status_code == 200
    assert client.post("/snapshot", headers=headers).json()["events"] == 1


def test_behind_tls_our_own_page_is_the_one_by_https(service):
    client = TestClient(create_app(service), base_url="https://testserver")
    assert client.post("/events", json=EVENT, headers={"origin": "https://testserver"}).status_code == 200
    refused(client.post("/events", json=EVENT, headers={"origin": "http://testserver"}), 403, "foreign_page")


@pytest.mark.parametrize("path", ["/events", "/score", "/snapshot", "/nowhere"])
def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(service, path):
    """RFC 9112, 6.1: a proxy that believes the other one would let a second request through."""
    body = json.dumps(EVENT).encode()
    chunked = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(chunked)}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with listening(service) as (_, connect):
        line = connect(head.encode() + chunked + asked("/health"))
        status, told = answered(line)
        assert (status, told["error"]) == (400, "two_lengths")
        assert line.recv(4096) == b"", "closed, and the next request unanswered"
        assert answered(connect(asked("/health")))[0] == 200
    assert service.store.total == 0


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_form_makes_no_snapshot(service, kind):
    client = TestClient(create_app(service))
    refused(client.post("/snapshot", content=b"a=b", headers={"content-type": kind}), 415, "wrong_type")
    assert client.post("/snapshot", headers=JSON).status_code == 200


def test_behind_a_proxy_that_renames_it_a_key_lets_the_page_in(service, tmp_path):
    """With a key the name is not compared: no foreign page knows the key, and a proxy may have changed the name."""
    text = add_key(tmp_path, "page")
    keys = Keys.of_store(tmp_path)
    client = TestClient(create_app(service, keys), headers={"x-api-key": text})
    sent = {"origin": "https://shop.example", "sec-fetch-site": "same-origin"}
    assert client.post("/events", json=EVENT, headers=sent).status_code == 200
    refused(client.post("/events", json=EVENT, headers=sent | {"sec-fetch-site": "cross-site"}), 403, "foreign_page")
    refused(TestClient(create_app(service, keys)).post("/snapshot", headers=sent), 401, "no_key")


def test_every_limit_is_written_down():
    """docs/serving.md has a row for each, with its value."""
    from dataclasses import fields

    from tests.conftest import ROOT

    page = (ROOT / "docs" / "serving.md").read_text()
    for field in fields(Limits):
        assert f"`{field.name}`" in page, field.name
    for number in (SPARE, http_server.GRACE):
        assert f"{number:,} " in page
