"""Late events beyond the lateness (`--too-late rewind`): durable at once, and then as if they had come in order."""

from __future__ import annotations

import random
import threading
import time

import httpx
import numpy as np
import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.serve import follow
from pintgn.serve import late as module
from pintgn.serve.app import create_app
from pintgn.serve.backup import back_up, restore
from pintgn.serve.late import Merge
from pintgn.serve.limits import Busy, LateEvent, Options
from pintgn.serve.models import promote
from pintgn.serve.rewind import undo_after
from pintgn.serve.rows import Gap
from pintgn.serve.service import Service
from pintgn.serve.store import StoreFull
from tests.serve.helpers import TRAINED, TestClient, as_events, assert_same_state, trained
from tests.serve.victims import Gone, Served


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "GATHER", 0.0)


def opened(run, where, **more):
    given = {"snapshot_every": 10**6, "too_late": "rewind"} | more
    return Service.open(run, where, Options(**given))


def parted(columns, stop=600, seed=0):
    """Events in order of time, but one in nine, which come long after."""
    events, rng = as_events(columns, TRAINED, stop, keyed=True), np.random.default_rng(seed)
    late = rng.random(len(events)) < 1 / 9
    late[-20:] = False
    return [e for e, one in zip(events, late, strict=True) if not one], [
        e for e, one in zip(events, late, strict=True) if one
    ]


def check(service, run, events):
    """Each event is stored once, in order of time, late ones after all of their time; the state is that of a clean
    replay of the store, and the store that of a service to which they came in order."""
    service.unnumbered.settle()
    assert not service.reports, service.reports
    rows = [
        (src, dst, t, key)
        for _, batch in service.call(lambda: list(service.store.read())).result()
        for src, dst, t, key in zip(batch.src, batch.dst, batch.t.tolist(), batch.keys, strict=True)
    ]
    expected = sorted(((e["src"], e["dst"], e["t"], e["key"]) for e in events), key=lambda row: row[2])
    assert rows == expected
    live = Live(Run.open(run), None, None, evaluate_every=10)
    live.observe([row[:3] for row in rows])
    assert_same_state(service.live, live)


def until(done):
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize("snapshot", [False, True])
def test_late_events_are_put_in_their_places(run_folder, columns, new_store, snapshot):
    events, late = parted(columns)
    with opened(run_folder, new_store()) as service:
        for begin in range(0, 200, 50):
            service.observe(events[begin : begin + 50])
            if snapshot and begin == 100:
                service.snapshot().result(30)
        assert [number for number in service.snapshots.numbers() if number] == [150] * snapshot
        on_time = [one for one in late if one["t"] > events[199]["t"]]
        late = [one for one in late if one["t"] < events[199]["t"]]
        told = service.observe([*late, *events[200:210]])  # late ones and others in one batch
        assert told["accepted"] == len(late) + 10
        assert 0 < told["late"] <= len(late)
        service.observe(events[210:])
        check(service, run_folder, events + late)
        assert service.metrics.rewinds._value.get() == 1
        told = service.observe(late)
        assert (told["accepted"], told["duplicates"], told["late"]) == (0, len(late), 0)
        some, rest = on_time[: len(on_time) // 2], on_time[len(on_time) // 2 :]
        for one in some:  # many in a row are put in their places together
            service.observe([one])
        check(service, run_folder, events + late + some)
        assert service.metrics.rewinds._value.get() <= 1 + len(some)
        service.observe(rest)
        check(service, run_folder, events + late + some + rest)
        service.snapshot().result(30)
    with opened(run_folder, service.where) as service:
        assert service.replayed == 0
        check(service, run_folder, events + late + on_time)


@pytest.mark.parametrize(("keep", "slow"), [(None, 0.0), (30, 0.0), (None, 0.3)])
def test_where_events_are_late_all_the_time_snapshots_go_on_all_the_same(
    run_folder, columns, new_store, keep, slow, monkeypatch
):
    """Every snapshot of the newest state is of no use soon: one of the state before the late events has to be made.
    Also where each of the newest state takes as long to write as a rebuild takes."""
    events = as_events(columns, TRAINED, 900, keyed=True)
    with opened(run_folder, new_store(), snapshot_every=60, keep_events=keep) as service:
        write = service.snapshots.write

        def slowly(captured):
            if threading.current_thread().name == "pintgn-snapshot":
                time.sleep(slow)
            return write(captured)

        monkeypatch.setattr(service.snapshots, "write", slowly)
        sent = []
        for begin in range(0, 600, 20):
            some = events[begin : begin + 20]
            late = [] if begin < 60 else [events[begin - 40] | {"key": f"late {begin}", "src": "late"}]
            service.observe([*late, *some])
            sent += [*late, *some]
            service.unnumbered.settle()
        assert not service.reports
        assert service.live.total == len(sent)
        bases = service.snapshots.numbers()
        assert min(bases) > len(sent) - 200, "snapshots advance"
        if keep is None:
            check(service, run_folder, sent)
        else:
            assert service.call(lambda: service.store.dropped).result() > len(sent) - 250
    with opened(run_folder, service.where) as again:
        assert_same_state(again.live, service.live)


def test_answers_meanwhile_are_of_the_old_state_and_say_so(run_folder, columns, new_store, monkeypatch):
    monkeypatch.setattr(module, "GATHER", 3600.0)
    events, _ = parted(columns)
    with opened(run_folder, new_store()) as service, TestClient(create_app(service)) as client:
        client.post("/events", json={"events": events[:200]})
        before = client.post("/score", json={"src": "person 1", "dst": "person 2"}).json()
        assert "late" not in before
        one = {"src": "newcomer", "dst": "person 1", "t": events[100]["t"], "key": "late"}
        told = client.post("/events?scores=true", json={"events": [one, events[200]]}).json()
        assert (told["accepted"], told["late"], told["scores"][0]) == (2, 1, None)
        assert told["scores"][1] > 0
        assert client.get("/health").json()["late"] == {"events": 1, "rewinding": 0}
        assert client.get("/status").json()["late"]["events"] == 1
        assert "pintgn_late_events 1.0" in client.get("/metrics").text
        assert client.get("/nodes/newcomer").json()["known"] is False
        for asked in ("/recommend/person%201", "/nodes/person%201", "/explain?src=person%201&dst=person%202"):
            assert client.get(asked).json()["late"] == 1
        again = client.post("/score", json={"src": "person 1", "dst": "person 2"}).json()
        assert (again["late"], again["event"]) == (1, 201)
        assert client.post("/snapshot").status_code == 429, "it may be what the state is rebuilt from"
        with pytest.raises(BadInput, match="another event was sent before"):
            service.observe([one | {"dst": "somebody else"}])
        rewinder = service.unnumbered.rewinder
        rewinder._ending.set()  # as if it had waited long enough
        rewinder.join()
        rewinder._ending.clear()
        service.call(rewinder._begin).result()
        rewinder._rebuild()
        assert client.get("/nodes/newcomer").json()["known"] is True
        assert client.get("/health").json()["late"]["events"] == 0
        assert "pintgn_rewinds_total 1.0" in client.get("/metrics").text
        assert client.post("/snapshot").status_code == 200


def test_what_cannot_be_rebuilt_is_refused_in_one_line(run_folder, columns, new_store):
    events, _ = parted(columns)
    where = new_store()
    with opened(run_folder, where, too_late="refuse") as service:
        service.observe(events[:100])
        with pytest.raises(LateEvent, match="has been observed already"):
            service.observe([events[50] | {"key": "again"}])
    with opened(run_folder, where) as service:
        end = service.run.log.t[-1].item()
        taken = {"src": "a", "dst": "b", "key": "taken"}
        with pytest.raises(LateEvent, match="no state from before it is left, to put it in its place: that of"):
            service.observe([taken | {"t": end - 1}])
        assert service.observe([taken | {"t": end}])["accepted"] == 1
        service.unnumbered.settle()
        service.observe(events[100:200])
        service.snapshot().result(30)
        at = service.live.clock
        service.call(lambda: service.store.drop(service.live.total)).result()
        service.observe(events[200:300])
        for t, said in ((at - 1, "no state from before it is left"), (end, "no state from before it is left")):
            with pytest.raises(LateEvent, match=said):
                service.observe([taken | {"t": t, "key": f"{t}"}])
        assert service.observe([taken | {"t": at, "key": "at"}])["accepted"] == 1
        service.unnumbered.settle()
        assert not service.reports
        assert service.live.total == 302
    with opened(run_folder, where) as service:  # from the one snapshot that is left
        assert service.live.total == 302
    with pytest.raises(BadInput, match="it is refuse or rewind"):
        opened(run_folder, where, too_late="drop")
    bare = Run.open(run_folder)
    bare.folder = None
    with pytest.raises(BadInput, match="needs a run in a folder"):
        Service(bare, new_store(), Options(too_late="rewind"))


@pytest.mark.parametrize("choice", ["rewind", "refuse"])
def test_a_restart_in_the_middle_goes_on(run_folder, columns, new_store, monkeypatch, choice):
    """Also without the option: what was acknowledged counts."""
    events, late = parted(columns)
    where = new_store()
    with monkeypatch.context() as patched:
        patched.setattr(module, "GATHER", 3600.0)
        with opened(run_folder, where) as service:
            service.observe(events)
            service.snapshot().result(30)
            service.observe(late)
            numbers = service.snapshots.numbers()
        assert service.snapshots.numbers() == numbers, "no snapshot at the end, which could push out the base"
    with opened(run_folder, where, too_late=choice) as service:
        check(service, run_folder, events + late)


def test_a_snapshot_that_a_kill_left_half_deleted_is_passed_over(run_folder, columns, tmp_path):
    events, late = parted(columns)
    with opened(run_folder, tmp_path) as service:
        service.observe(events[:100])
        service.snapshot().result(30)
        service.observe(events[100:])
    for path in (tmp_path / "snapshots").iterdir():
        (path / "manifest.json").unlink()
    with opened(run_folder, tmp_path) as service:
        service.observe(late)
        service.unnumbered.settle()
        assert service.unnumbered.trouble is None
        assert service.live.total == len(events) + len(late)


def test_what_a_kill_leaves_in_both_counts_once(run_folder, columns, new_store, monkeypatch):
    events, late = parted(columns)
    where = new_store()
    with opened(run_folder, where) as service:
        service.observe(events)
        rows = type(service.unnumbered.late.rows)
        real = rows.change
        monkeypatch.setattr(rows, "change", lambda self, gone, more: real(self, [], more))  # killed before
        service.observe(late)
        check(service, run_folder, events + late)
    monkeypatch.undo()
    with opened(run_folder, where) as service:
        assert not service.unnumbered.late
        check(service, run_folder, events + late)


def test_a_store_that_is_full_keeps_the_order_that_it_has(run_folder, columns, new_store, monkeypatch):
    monkeypatch.setattr(module, "AGAIN", 0.05)
    events, late = parted(columns)
    with opened(run_folder, new_store()) as service:
        service.observe(events)
        real = service.store.insert

        def full(*given):
            raise StoreFull("no space")

        monkeypatch.setattr(service.store, "insert", full)
        service.observe(late)
        until(lambda: service.reports)
        assert f"{len(late)} late events wait, and could not be put in their places: no space" in service.reports[0]
        assert service.live.total == len(events)
        with pytest.raises(Busy, match="late events have to be put in their places first"):
            service.snapshot().result(30)
        monkeypatch.setattr(service.store, "insert", real)
        until(lambda: not service.unnumbered.late and not service.reports)
        check(service, run_folder, events + late)
        # neither late ones nor others of a group are kept when one of the two cannot be
        monkeypatch.setattr(service.store, "append", full)
        newest = {"src": "a", "dst": "b", "t": events[-1]["t"] + 1, "key": "newest"}
        with pytest.raises(StoreFull):
            service.observe([{"src": "a", "dst": "b", "t": events[5]["t"], "key": "late"}, newest])
        assert not service.unnumbered.late


def test_lateness_and_rewinding_together(run_folder, columns, new_store):
    events, late = parted(columns)
    with opened(run_folder, new_store(), lateness=20) as service:
        told = service.observe(events)
        assert told["held"] > 0
        service.observe([late[0]])
        service.unnumbered.settle()
        service.observe(late)
        far = {"src": "a", "dst": "b", "t": events[-1]["t"] + 500, "key": "far"}
        service.observe([far])
        check(service, run_folder, events + late)


def test_the_way_back_and_a_backup_take_late_events_along(run_folder, columns, tmp_path, monkeypatch):
    events, late = parted(columns)
    with monkeypatch.context() as patched:
        patched.setattr(module, "GATHER", 3600.0)
        with opened(run_folder, tmp_path / "store") as service:
            service.observe(events)
            service.observe(late)
            back_up(run_folder, tmp_path / "store", tmp_path / "backup.tar")
    assert restore(tmp_path / "backup.tar", tmp_path / "again")["events"] == len(events)
    with opened(tmp_path / "again", tmp_path / "again" / "live") as service:
        check(service, run_folder, events + late)
    after = events[250]["t"]
    gone = [one for one in events + late if one["t"] > after]
    assert undo_after(Run.open(run_folder), tmp_path / "store", after)["undone"] == len(gone)
    with opened(run_folder, tmp_path / "store") as service:
        check(service, run_folder, [one for one in events + late if one["t"] <= after])
        service.observe(sorted(gone, key=lambda one: one["t"]))
        service.unnumbered.settle()
        assert service.live.total == len(events) + len(late)


def test_services_that_follow_are_rebuilt_too(run_folder, columns, cluster):
    events, late = parted(columns)
    where = cluster.database()
    with (
        opened(run_folder, where) as first,
        opened(run_folder, where, follow=True) as second,
        opened(run_folder, where) as third,
    ):
        first.observe(events[:300])
        first.snapshot().result(30)
        until(lambda: second.live.total == third.live.total == 300)
        first.observe([one for one in late if one["t"] < events[299]["t"]])
        first.observe(events[300:])
        first.observe([one for one in late if one["t"] >= events[299]["t"]])
        check(first, run_folder, events + late)
        for other in (second, third):
            until(lambda other=other: other.live.total == first.live.total)
            assert_same_state(other.live, first.live)
            assert other.healthy
            assert not other.reports
        one = {"src": "a", "dst": "b", "t": events[-1]["t"] + 1, "key": "then"}
        first.close()
        until(lambda: third.taking)  # and takes over
        third.observe([one | {"t": events[50]["t"], "key": "again late"}, one])
        third.unnumbered.settle()
        until(lambda: second.live.total == third.live.total == len(events) + len(late) + 2)
        assert_same_state(second.live, third.live)


@pytest.mark.parametrize("meanwhile", ["more events", "more late events", "no snapshots", "no connection"])
def test_a_service_that_follows_is_rebuilt_whatever_happens_meanwhile(
    run_folder, columns, cluster, monkeypatch, meanwhile
):
    events, late = parted(columns)
    where, real, done, also_late = cluster.database(), follow.base, [], meanwhile == "more late events"
    with opened(run_folder, where) as first, opened(run_folder, where) as second:

        def base(service, *given):
            live = real(service, *given)
            if service is second and not done:  # in the middle of its rebuild
                done.append(True)
                first.observe(events[200:300])
                if also_late:
                    first.observe([late[1]])
                    first.unnumbered.settle()
                elif meanwhile == "no snapshots":
                    raise BadFile("the connection was lost")
                elif meanwhile == "no connection":
                    second.store.close()
            return live

        first.observe(events[:200])
        until(lambda: second.live.total == 200)
        monkeypatch.setattr(follow, "base", base)
        first.observe([late[0]])
        until(lambda: done and second.live.total == first.live.total == 301 + also_late)
        until(lambda: not second.reports)
        assert second.healthy
        assert_same_state(second.live, first.live)
        first.close()
        until(lambda: second.taking)
        check(second, run_folder, events[:300] + late[: 1 + also_late])


def test_a_candidate_begins_again(run_folder, columns, tmp_path):
    events, late = parted(columns)
    other = trained(tmp_path / "other", columns, dim=12)
    with opened(run_folder, tmp_path / "store", evaluate_every=2) as service:
        service.observe(events[:200])
        candidate = promote(service, other, enough=10**6)
        until(lambda: candidate.state == "compared")
        service.observe([one for one in late if one["t"] < events[199]["t"]])
        service.unnumbered.settle()
        until(lambda: candidate.state == "compared")
        service.observe(events[200:])
        until(lambda: candidate.live.total == service.live.total)
        assert candidate.busy
        fresh = Live(Run.open(other), None, None, 2)
        for _, batch in service.call(lambda: list(service.store.read())).result():
            fresh.observe_batch(batch)
        assert_same_state(candidate.live, fresh)


@pytest.mark.parametrize("seed", range(8))
def test_events_are_merged_as_a_sort_by_time_would(seed):
    rng = np.random.default_rng(seed)
    t, when = np.sort(rng.integers(0, 12, 30)), np.sort(rng.integers(0, 11, 7))
    stored = EventBatch([f"s{k}" for k in range(30)], ["x"] * 30, t, None, None, None)
    late = EventBatch([f"late{k}" for k in range(7)], ["x"] * 7, when, None, None, None)
    merge, found = Merge(late), []
    for begin in range(0, 30, 4):
        found += merge(begin + 1, stored[begin : begin + 4]).src
    if (rest := merge.rest(30)) is not None:
        found += rest.src
    order = np.argsort(np.concatenate([t, when]), kind="stable")
    assert found == [(stored.src + late.src)[k] for k in order]
    assert merge.after == np.searchsorted(t, when, side="right").tolist()


def test_a_gap_moves_with_the_events_after_it(run_folder, columns, tmp_path):
    with opened(run_folder, tmp_path) as service:
        service.observe(as_events(columns, TRAINED, 300, keyed=True))
    db = service_db(tmp_path)
    db.execute("DELETE FROM events WHERE number BETWEEN 20 AND 24")
    db.close()
    with opened(run_folder, tmp_path) as service:
        assert [str(gap) for gap in service.missing] == ["20 to 24"]
        service.accept_loss()
    with opened(run_folder, tmp_path) as service:
        t = service.store.time_before(Gap(40, 40))
        early = columns["t"][TRAINED]
        service.observe(
            [{"src": "a", "dst": "b", "t": early, "key": "x"}, {"src": "a", "dst": "b", "t": t, "key": "y"}]
        )
        service.unnumbered.settle()
        assert [(gap.first, gap.last) for gap in service.store.gaps] == [(21, 25)]
        assert service.live.total == 62
        assert not service.reports
    with opened(run_folder, tmp_path) as service:
        assert service.live.total == 62
        assert not service.missing


def service_db(folder):
    import sqlite3

    return sqlite3.connect(folder / "events.db", isolation_level=None)


def test_killed_again_and_again_late_events_take_their_places_once(run_folder, columns, new_store):
    rng, (events, late), where = random.Random(0), parted(columns), new_store()
    sent = [*events, *late]
    order = sorted(range(len(sent)), key=lambda k: k if k < len(events) else 150 + 8 * (k - len(events)))
    sent = [sent[k] for k in order]  # late ones among the others
    begin, kills = 0, 0
    while begin < len(sent) or kills < 6:
        alive = Served(run_folder, where, "--too-late", "rewind")
        timer = threading.Timer(0.2 + rng.random() * 0.8, alive.kill)
        try:
            alive.started()
            timer.start()
            with alive.client() as client:
                while True:
                    again = max(0, min(begin, len(sent) - 1) - rng.choice([0, 0, 5]))
                    end = min(begin + rng.randint(1, 9), len(sent))
                    some = sorted(sent[again:end], key=lambda one: one["t"])
                    answer = client.post("/events", json={"events": some})
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
        service.unnumbered.settle()
        assert service.unnumbered.trouble is None
        rows = [
            (t, key) for _, b in service.call(lambda: list(service.store.read())).result()
            for t, key in zip(b.t.tolist(), b.keys, strict=True)
        ]  # fmt: skip
        assert [t for t, _ in rows] == sorted(t for t, _ in rows)
        assert sorted(key for _, key in rows) == sorted(one["key"] for one in sent)
        live = Live(Run.open(run_folder), None, None, evaluate_every=10)
        for _, batch in service.call(lambda: list(service.store.read())).result():
            live.observe_batch(batch)
        assert_same_state(service.live, live)
