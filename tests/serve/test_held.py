"""Late events (`--lateness`): durable at once, visible in order, each once, through restarts, kills and full disks."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
import time

import httpx
import numpy as np
import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.serve.api import create_app
from pintgn.serve.event_store import StoreFull
from pintgn.serve.limits import Options
from pintgn.serve.recovery import accept_loss, undo_after
from pintgn.serve.service import Service
from pintgn.serve.store_backup import back_up, restore
from tests.serve.helpers import TRAINED, TestClient, as_events, assert_same_state
from tests.serve.victims import Gone, Served

LATE = 20


def opened(run, folder, lateness: float | None = LATE, **more):
    return Service.open(run, folder, Options(snapshot_every=10**6, lateness=lateness, **more))


def jittered(columns, stop=600, seed=0, keyed=True):
    """Events in an order in which each comes at most LATE time units after one that is later."""
    events, rng = as_events(columns, TRAINED, stop, keyed), np.random.default_rng(seed)
    order = np.argsort([event["t"] + rng.uniform(0, LATE) for event in events], kind="stable")
    return [events[k] for k in order]


def until(done):
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def far(columns, key="last"):
    """An event so much later that everything before it is due."""
    return {"src": "person 1", "dst": "person 2", "t": columns["t"][-1] + 10 * LATE, "key": key}


def stored(service):
    return [
        (src, dst, t, key)
        for _, batch in service.store.read()
        for src, dst, t, key in zip(batch.src, batch.dst, batch.t.tolist(), batch.keys, strict=True)
    ]


def check(service, run, events):
    """Each event is stored once, in order of time, and the state is that of a clean replay of them."""
    rows = stored(service)
    assert sorted(row[3] for row in rows) == sorted(event["key"] for event in events)
    assert [row[2] for row in rows] == sorted(row[2] for row in rows)
    live = Live(Run.open(run), None, None, evaluate_every=10)
    live.observe([row[:3] for row in rows])
    assert_same_state(service.live, live)


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_events_that_come_late_take_their_place(run_folder, columns, new_store, batch):
    events = jittered(columns)
    assert [event["t"] for event in events] != sorted(event["t"] for event in events)
    with opened(run_folder, new_store()) as service:
        for begin in range(0, len(events), batch):
            told = service.observe(events[begin : begin + batch])
            assert told["accepted"] == len(events[begin : begin + batch])
            assert told["held"] == len(service.writer.held) > 0
            assert service.live.total + len(service.writer.held) == begin + told["accepted"]
            assert not service.live.total or service.live.clock <= service.writer.held.watermark
        service.observe([far(columns)])
        assert len(service.writer.held) == 1
        check(service, run_folder, events)


def test_what_waits_is_seen_by_nobody_and_told_to_all(run_folder, columns, new_store):
    with opened(run_folder, new_store()) as service, TestClient(create_app(service)) as client:
        before = client.get("/status").json()
        assert before["held"] == {"events": 0, "watermark": None}
        t = columns["t"][TRAINED] + 1
        told = client.post("/events?scores=true", json={"src": "newcomer", "dst": "person 1", "t": t}).json()
        assert (told["accepted"], told["held"], told["scores"]) == (1, 1, [None])
        assert client.get("/nodes/newcomer").json()["known"] is False
        assert client.get("/health").json()["held"] == {"events": 1, "watermark": t - LATE}
        assert "pintgn_held_events 1.0" in client.get("/metrics").text
        assert client.get("/status").json()["live_events"] == 0
        client.post("/events", json={"src": "person 1", "dst": "person 1", "t": t + LATE})
        assert client.get("/nodes/newcomer").json()["known"] is True


@pytest.mark.parametrize(("late", "taken"), [(LATE - 1, True), (LATE, True), (LATE + 1, False)])
def test_what_is_later_than_that_is_refused(run_folder, columns, new_store, late, taken):
    t = columns["t"][-1]
    with opened(run_folder, new_store()) as service, TestClient(create_app(service)) as client:
        for k in range(2 * LATE):
            client.post("/events", json={"src": "a", "dst": "b", "t": t + k})
        answer = client.post("/events", json={"src": "a", "dst": "b", "t": t + 2 * LATE - 1 - late})
        assert (answer.status_code == 200) == taken
        if not taken:
            assert answer.json()["error"] == "late_event"


def test_far_ahead_is_measured_from_the_newest_that_waits(run_folder, columns, new_store):
    with opened(run_folder, new_store(), max_ahead=1000) as service, TestClient(create_app(service)) as client:
        for k, status in ((1000, 200), (1990, 200), (1980, 200), (2990, 200), (3991, 422)):
            answer = client.post("/events", json={"src": "a", "dst": "b", "t": columns["t"][TRAINED - 1] + k})
            assert answer.status_code == status, answer.text


def test_a_key_counts_once_wherever_its_event_is(run_folder, columns, new_store):
    events = jittered(columns, 400)
    with opened(run_folder, new_store()) as service:
        service.observe(events)
        assert 0 < len(service.writer.held) < len(events)
        told = service.observe(events)
        assert (told["accepted"], told["duplicates"]) == (0, len(events))
        for event in (events[0], events[-1]):  # one in the store, one that waits
            with pytest.raises(BadInput, match="under which another event was sent before"):
                service.observe([event | {"dst": "somebody else"}])
        service.observe([far(columns)])
        check(service, run_folder, events)


@pytest.mark.parametrize("lateness", [LATE, 0, None])
def test_a_restart_keeps_what_waits(run_folder, columns, new_store, lateness):
    """A smaller lateness releases more."""
    events, where = jittered(columns), new_store()
    with opened(run_folder, where) as service:
        service.observe(events[:200])
        service.snapshot().result(30)
        service.observe(events[200:])
        waiting = len(service.writer.held)
    with opened(run_folder, where, lateness) as service:
        if lateness == LATE:
            assert len(service.writer.held) == waiting
            service.observe([far(columns)])
        elif lateness is None:
            assert service.writer.held is None
        check(service, run_folder, events)
        assert service.requests.codec.sorts == (lateness is not None)


def test_a_standby_goes_on_with_what_waits(run_folder, columns, cluster):
    """And a service that follows sees events in the same order, and says how many wait."""
    events, where = jittered(columns), cluster.database()
    with (
        opened(run_folder, where) as first,
        opened(run_folder, where) as second,
        opened(run_folder, where, follow=True) as third,
    ):
        assert (second.role, third.role) == ("standby", "follower")
        first.observe(events[:200])
        until(lambda: third.live.total == first.live.total and third.held_facts()["held"])
        assert third.held_facts()["held"]["events"] > 0
        epoch = first.store.epoch
        cluster.disconnect(where)
        until(lambda: max(first.store.epoch, second.store.epoch) > epoch)  # whoever comes first
        until(lambda: first.taking != second.taking)
        one, other = (first, second) if first.taking else (second, first)
        until(lambda: one.writer.held is not None)
        assert len(one.writer.held) + one.store.total == 200
        assert other.writer.held is None
        one.observe([*events[200:], far(columns)])
        check(one, run_folder, events)
        until(lambda: third.live.total == one.live.total)
        assert_same_state(third.live, one.live)


def test_events_without_keys_count_each_time(run_folder, columns, new_store):
    t = columns["t"][-1]
    with opened(run_folder, new_store()) as service:
        for _ in range(3):
            service.observe([{"src": "a", "dst": "b", "t": t}])
        service.observe([far(columns)])
        assert service.live.total == 3


def test_a_store_that_is_full_refuses_all_of_a_group(run_folder, columns, tmp_path):
    """Those that would have waited, and those whose turn it was."""
    events = jittered(columns)
    with opened(run_folder, tmp_path) as service:
        service.observe(events[:100])
        before = service.live.total, len(service.writer.held), service.writer.held.watermark
        pages = service.store.db.execute("PRAGMA page_count").fetchone()[0]
        service.store.db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull, match="Nothing of them was kept"):
            service.observe(events[100:])
        assert (service.live.total, len(service.writer.held), service.writer.held.watermark) == before
        assert not service.taking
        service.store.db.execute("PRAGMA max_page_count = 1000000")
        service.observe([*events[100:], far(columns)])
        assert service.taking
        check(service, run_folder, events)


def test_what_is_lost_of_them_is_told(run_folder, columns, tmp_path):
    with opened(run_folder, tmp_path) as service:
        service.observe(jittered(columns)[:50])
        waiting = len(service.writer.held)
    with contextlib.closing(sqlite3.connect(tmp_path / "events.db")) as db:
        db.execute("DELETE FROM held WHERE number = (SELECT max(number) FROM held)")
        db.commit()
    with pytest.raises(BadFile, match="1 of 50 acknowledged events are missing.*--accept-loss 1"):
        opened(run_folder, tmp_path)
    accept_loss(Run.open(run_folder), tmp_path, 1)
    with opened(run_folder, tmp_path) as service:
        assert len(service.writer.held) == waiting - 1
    for lateness in (-1, float("nan")):
        with pytest.raises(BadInput, match="it is 0 or more"):
            opened(run_folder, tmp_path / "other", lateness)


def test_the_way_back_takes_along_what_waits(run_folder, columns, new_store):
    events, where = jittered(columns), new_store()
    after = events[300]["t"]
    with opened(run_folder, where) as service:
        service.observe(events)
    done = undo_after(Run.open(run_folder), where, after)
    gone = [event for event in events if event["t"] > after]
    assert done["undone"] == len(gone)
    with opened(run_folder, where) as service:
        assert service.observe(gone)["accepted"] == len(gone)
        service.observe([far(columns)])
        check(service, run_folder, events)


def test_a_backup_holds_what_waits(run_folder, columns, tmp_path):
    events = jittered(columns)
    with opened(run_folder, tmp_path / "store") as service:
        service.observe(events)
        back_up(run_folder, tmp_path / "store", tmp_path / "backup.tar")
    restore(tmp_path / "backup.tar", tmp_path / "again")
    with opened(tmp_path / "again", tmp_path / "again" / "live") as service:
        service.observe([far(columns)])
        check(service, run_folder, events)


@pytest.mark.parametrize(("least", "together"), [(3, 60), pytest.param(8, 12, marks=pytest.mark.slow)])
def test_killed_again_and_again_every_event_takes_its_place_once(run_folder, columns, new_store, least, together):
    rng, events, where = random.Random(0), jittered(columns), new_store()
    begin, kills = 0, 0
    while begin < len(events) or kills < least:
        alive = Served(run_folder, where, "--lateness", str(LATE))
        timer = threading.Timer(0.2 + rng.random() * 0.6, alive.kill)
        try:
            alive.started()
            timer.start()
            with alive.client() as client:
                while True:
                    again = max(0, min(begin, len(events) - 1) - rng.choice([0, 0, 30]))
                    end = min(begin + rng.randint(1, together), len(events))
                    answer = client.post("/events", json={"events": events[again:end]})
                    assert answer.status_code in (200, 503), answer.text
                    if answer.status_code == 200:
                        begin = end
        except (httpx.HTTPError, Gone):
            kills += 1
        finally:
            timer.cancel()
            alive.bury()
        assert kills < 200
    with opened(run_folder, where) as service:
        service.observe([far(columns)])
        check(service, run_folder, events)
