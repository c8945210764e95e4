"""Keys: what each may do, how often, and that a running service takes up changes without a stop."""

from __future__ import annotations

import hashlib
import json
import logging

import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.serve import api_keys as module
from pintgn.serve.api import create_app
from pintgn.serve.api_keys import FILE, Keys, add_key, hold_to, remove_key, stored
from pintgn.serve.service import Service
from tests.feed.helpers import ran
from tests.serve.helpers import TestClient, open_to_others
from tests.serve.victims import Served

EVENT = {"src": "ann", "dst": "bob", "t": 9_000}


@pytest.fixture(scope="module")
def service(run_folder, tmp_path_factory):
    with Service.open(run_folder, tmp_path_factory.mktemp("keys") / "store") as made:
        yield made


@pytest.fixture
def client(service, tmp_path):
    return TestClient(create_app(service, Keys.of_store(tmp_path)))


def asked(client, text, method="GET", path="/status", **more):
    headers = {} if text is None else {"authorization": f"Bearer {text}"}
    answer = client.request(method, path, headers=headers, **more)
    return answer.status_code, answer.json().get("error")


def may(client, text):
    """What a key lets one do: ask, send events, look after the service."""
    score = {"src": "ann", "dst": "bob"}
    return [
        asked(client, text)[0],
        asked(client, text, "POST", "/score", json=score)[0],
        asked(client, text, "POST", "/events", json=EVENT)[0],
        asked(client, text, "POST", "/snapshot")[0],
    ]


def test_a_scope_allows_what_it_says_and_no_more(client, tmp_path):
    made = {scope: add_key(tmp_path, scope, scope) for scope in ("read", "write", "admin")}
    assert may(client, made["read"]) == [200, 200, 403, 403]
    assert may(client, made["write"]) == [200, 200, 200, 403]
    assert may(client, made["admin"]) == [200, 200, 200, 200]
    assert may(client, "wrong") == may(client, None) == [401] * 4
    assert asked(client, made["read"], "POST", "/events", json=EVENT) == (403, "forbidden")
    assert asked(client, made["write"], "DELETE", "/anything") == (403, "forbidden")
    assert client.get("/health").status_code == 200


def test_keys_change_without_a_stop(client, tmp_path):
    assert asked(client, None)[0] == 200, "open, until there is a key"
    old = add_key(tmp_path, "feed-1", "write")
    assert asked(client, None) == (401, "no_key")
    new = add_key(tmp_path, "feed-2", "write")
    assert (asked(client, old)[0], asked(client, new)[0]) == (200, 200), "both, while clients change over"
    assert remove_key(tmp_path, "feed-1") == 1
    assert (asked(client, old)[0], asked(client, new)[0]) == (401, 200)
    remove_key(tmp_path, "feed-2")
    assert asked(client, None) == asked(client, new) == (401, "no_key"), "closed stays closed"


def test_a_file_that_cannot_be_read_changes_nothing(client, tmp_path, caplog):
    text = add_key(tmp_path, "ann", "read")
    assert asked(client, text)[0] == 200
    (tmp_path / FILE).write_text("{")
    assert asked(client, text)[0] == 200
    assert "the keys stay as they were" in caplog.text
    (tmp_path / FILE).unlink()
    assert asked(client, None)[0] == 401


def test_a_key_file_is_read_again_when_it_changes(service, tmp_path):
    path = tmp_path / "secret"
    path.write_text("one key of twenty letters\n")
    client = TestClient(create_app(service, Keys.of_file(path)))
    assert may(client, "one key of twenty letters") == [200] * 4
    path.write_text("another key, as long as that\n")
    assert asked(client, "one key of twenty letters")[0] == 401
    assert asked(client, "another key, as long as that")[0] == 200
    path.write_text("x" * (module.SHORTEST - 1))
    with pytest.raises(BadFile, match="has 19 characters; use at least 20"):
        Keys.of_file(path)
    path.write_text("x" * module.SHORTEST)
    assert Keys.of_file(path)
    with pytest.raises(BadFile, match="cannot read the key"):
        Keys.of_file(tmp_path / "nowhere")


def test_a_key_is_used_as_often_as_its_rate_allows(service, tmp_path, monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    three, slow, free = (add_key(tmp_path, name, "read", rate) for name, rate in (("a", 3), ("b", 0.1), ("c", None)))
    client = TestClient(create_app(service, Keys.of_store(tmp_path)))
    assert [asked(client, three)[0] for _ in range(4)] == [200, 200, 200, 429]
    assert asked(client, three) == (429, "too_often")
    assert [asked(client, free)[0] for _ in range(9)] == [200] * 9
    now[0] += 0.34
    assert [asked(client, three)[0] for _ in range(2)] == [200, 429]
    now[0] += 1_000
    assert [asked(client, three)[0] for _ in range(4)] == [200, 200, 200, 429]
    assert asked(client, slow)[0] == 200
    answer = client.get("/status", headers={"x-api-key": slow})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")
    now[0] += 10
    assert asked(client, slow)[0] == 200
    add_key(tmp_path, "d")  # the file is read again: what was used stays used
    assert asked(client, slow)[0] == 429


def test_a_key_is_nowhere_to_be_read(tmp_path):
    text = add_key(tmp_path, "ann")
    path = tmp_path / FILE
    assert text not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert hashlib.sha256(text.encode()).hexdigest() == stored(path)[0].sha256
    assert "ann" in repr(stored(path)[0])
    assert stored(path)[0].sha256 not in repr(stored(path))


def test_what_is_no_key_is_refused_in_one_line(tmp_path):
    add_key(tmp_path, "ann")
    for name, more, said in [
        ("ann", {}, "there is a key 'ann' already"),
        ("", {}, "no name of a key"),
        ("two words", {}, "no name of a key"),
        ("x" * 65, {}, "64 at most"),
        ("x", {"scope": "wirte"}, "Did you mean 'write'"),
        ("x", {"rate": 0}, "more than 0"),
        ("x", {"rate": float("nan")}, "more than 0"),
    ]:
        with pytest.raises(BadInput, match=said):
            add_key(tmp_path, name, **more)
    add_key(tmp_path, "x" * 64)
    with pytest.raises(BadInput, match="there is no key 'anna'. Did you mean 'ann'"):
        remove_key(tmp_path, "anna")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 99}, "newer pintgn"),
        ({"keys": [{"name": "ann"}]}, "is damaged: keys.0. has no 'scope'"),
        ({"keys": [{"name": "a", "scope": "all", "sha256": "0" * 64, "rate": None, "made": ""}]}, "scope is 'all'"),
        ({"keys": [{"name": "a", "scope": "read", "sha256": "0" * 63, "rate": None, "made": ""}]}, "has no hash"),
        ({"keys": [{"name": "a", "scope": "read", "sha256": "0" * 64, "rate": -1, "made": ""}]}, "or no rate"),
    ],
)
def test_a_damaged_file_of_keys_is_refused(tmp_path, change, said):
    (tmp_path / FILE).write_text(json.dumps({"format": 1, "keys": []} | change))
    with pytest.raises(BadFile, match=said):
        Keys.of_store(tmp_path)


def test_no_key_is_ever_logged(client, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    text = add_key(tmp_path, "ann", "read")
    may(client, text)
    may(client, text + "x")
    assert text not in caplog.text


def test_a_file_of_keys_that_was_changed_is_refused(tmp_path):
    add_key(tmp_path, "ann", "read")
    whole = json.loads((tmp_path / FILE).read_text())
    for changed in (whole | {"keys": []}, whole | {"keys": [whole["keys"][0] | {"scope": "admin"}]}):
        (tmp_path / FILE).write_text(json.dumps(changed))
        with pytest.raises(BadFile, match=f"{FILE} is damaged: it is not what was written"):
            stored(tmp_path / FILE)
    whole.pop("checksum")  # as an older pintgn wrote it
    (tmp_path / FILE).write_text(json.dumps(whole))
    assert [key.name for key in stored(tmp_path / FILE)] == ["ann"]


@pytest.mark.parametrize("left", [None, {"format": 1, "keys": []}])
def test_a_store_that_had_keys_is_not_served_without(run_folder, new_store, tmp_path, left):
    where = new_store()
    with Service.open(run_folder, where) as service:
        hold_to(Keys.of_store(tmp_path), service)  # there were none yet
        text = add_key(tmp_path, "ann", "read")
        hold_to(Keys.of_store(tmp_path), service)
    lost = tmp_path / "lost"
    lost.mkdir()
    if left is not None:
        (lost / FILE).write_text(json.dumps(left))
    for _ in range(2):
        with Service.open(run_folder, where) as service:
            with pytest.raises(BadInput, match="has had API keys") as found:
                hold_to(Keys.of_store(lost), service)
            for word in (str(lost / FILE), "--new-key", "--without-keys"):
                assert word in str(found.value)
    with Service.open(run_folder, where) as service:
        with pytest.raises(BadInput, match="keys remove"):
            hold_to(Keys.of_store(tmp_path), service, without=True)
        hold_to(Keys.of_store(tmp_path), service)
        assert asked(TestClient(create_app(service, Keys.of_store(tmp_path))), text)[0] == 200
        hold_to(Keys.of_store(lost), service, without=True)  # which is meant
    with Service.open(run_folder, where) as service:
        hold_to(Keys.of_store(lost), service)


def test_the_first_key_of_a_running_service_is_remembered(run_folder, new_store, tmp_path):
    where = new_store()
    with Service.open(run_folder, where) as service:
        keys = Keys.of_store(tmp_path)
        hold_to(keys, service)
        client = TestClient(create_app(service, keys))
        assert asked(client, None)[0] == 200
        add_key(tmp_path, "ann", "read")
        assert asked(client, None)[0] == 401
    (tmp_path / FILE).unlink()
    with Service.open(run_folder, where) as service, pytest.raises(BadInput, match="has had API keys"):
        hold_to(Keys.of_store(tmp_path), service)


@pytest.mark.parametrize("harm", ["deleted", "emptied", "cut", "removed by name"])
def test_keys_that_are_gone_before_the_first_start_are_missed(run_folder, tmp_path, harm):
    add_key(tmp_path, "ann", "read")
    file = tmp_path / FILE
    if harm == "deleted":
        file.unlink()
    elif harm == "emptied":
        file.write_text(json.dumps({"format": 1, "keys": []}))
        (tmp_path / module.MADE).unlink()
    elif harm == "cut":
        file.write_text("")
    else:
        remove_key(tmp_path, "ann")
    with Service.open(run_folder, tmp_path) as service:
        if harm == "cut":
            with pytest.raises(BadFile, match=FILE):
                Keys.of_store(tmp_path)
            return
        for _ in range(2):
            with pytest.raises(BadInput, match="--without-keys"):
                hold_to(Keys.of_store(tmp_path), service)
        hold_to(Keys.of_store(tmp_path), service, without=True)
    with Service.open(run_folder, tmp_path) as service:
        hold_to(Keys.of_store(tmp_path), service)


def test_a_key_that_was_never_made_closes_nothing(run_folder, tmp_path):
    with pytest.raises(BadInput, match="there is no key"):
        remove_key(tmp_path, "ann")
    with Service.open(run_folder, tmp_path) as service:
        hold_to(Keys.of_store(tmp_path), service)


def test_files_of_keys_are_their_owners_alone(tmp_path, permissive):
    for _ in range(2):  # at once, and where the lock was left open by an older pintgn
        add_key(tmp_path / "store", "ann", "read", renew=True)
        assert open_to_others(tmp_path / "store") == []
        (tmp_path / "store" / f".{FILE}.lock").chmod(0o666)


def test_the_command_does_not_open_a_service_whose_keys_are_gone(run_folder, tmp_path):
    store = tmp_path / "store"
    add_key(store, "ann", "admin")
    served = Served(run_folder, store)
    served.started()
    served.bury()
    (store / FILE).unlink()
    code, out, said = ran("serve", run_folder, "--store", store, "--port", 0)
    assert (code, out) == (2, "")
    assert "--without-keys" in said
    served = Served(run_folder, store, "--without-keys")
    with served.client() as client:
        assert client.get("/status").status_code == 200
    served.bury()
    code, _, said = ran("serve", run_folder, "--store", store, "--without-keys", "--new-key")
    assert code == 2
    assert "choose one" in said
