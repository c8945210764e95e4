"""What every store promises, SQLite and PostgreSQL alike."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import numpy as np
import pytest

from pintgn import read_events
from pintgn.errors import BadFile, BadInput
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.serve.api import create_app
from pintgn.serve.event_store import Store, checksums
from pintgn.serve.event_store import columns as columns_of
from pintgn.serve.limits import Options
from pintgn.serve.recovery import undo_after
from pintgn.serve.service import Service
from pintgn.serve.sqlite import SqliteStore
from pintgn.serve.stores import is_address
from tests.serve import torture
from tests.serve.helpers import (
    TRAINED,
    TestClient,
    as_batch,
    as_events,
    assert_same_state,
    compacted,
    replayed,
    restarted,
    trained,
)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")


def batch(numbers, keys=None, width=0, dtype=np.int64, text=True) -> EventBatch:
    rng = np.random.default_rng(numbers[0])
    features = rng.normal(size=(len(numbers), width)).astype(np.float32) if width else None
    src, dst = [f"a{k}\0ü\\0\\" for k in numbers], [f"b{k}" for k in numbers]
    if not text:
        src, dst = [k - 2**63 for k in numbers], [2**63 - 1 - k for k in numbers]
    return EventBatch(src, dst, np.array(numbers, dtype), features, None, keys)


def opened(where, width=0, dtype=np.int64, log="log", text=True) -> Store:
    if is_address(where):
        from pintgn.serve.postgres import PostgresStore

        return PostgresStore(where, log, width, np.dtype(dtype), text)
    return SqliteStore(where, log, width, np.dtype(dtype))


@pytest.mark.parametrize(
    ("width", "dtype", "text"), [(0, np.int64, True), (3, np.float64, True), (0, np.int64, False), (2, np.int64, False)]
)
def test_what_was_written_comes_back_to_the_bit(new_store, width, dtype, text):
    where, made = new_store(), {"width": width, "dtype": dtype, "text": text}
    with opened(where, **made) as store:
        for begin in range(0, 60, 20):
            store.append(batch(range(begin, begin + 20), **made))
    with opened(where, **made) as store:
        assert store.total == 60
        for after in (0, 20, 33):
            parts = list(store.read(after))
            assert parts[0][0] == after + 1
            found = EventBatch.concat([part for _, part in parts])
            expected = EventBatch.concat([batch(range(k, k + 20), **made) for k in (0, 20, 40)])[after:]
            assert (found.src, found.dst, found.t.tolist()) == (expected.src, expected.dst, expected.t.tolist())
            assert found.t.dtype == dtype
            if width:
                assert np.array_equal(found.features, expected.features)
        assert not store.reports


def test_events_with_an_op_come_back(new_store):
    with opened(new_store()) as store:
        sent = batch(range(3))
        sent.op = np.array([0, 1, 0], np.int8)
        store.append(sent)
        assert [part.op.tolist() for _, part in store.read()] == [[0, 1, 0]]


def test_a_store_of_another_log_is_refused(new_store):
    where = new_store()
    opened(where, log="one").close()
    with pytest.raises(BadInput, match="belongs to another log"):
        opened(where, log="two")
    with opened(where, log="one") as store:
        assert store.writes, "the lock was given back"


def test_keys_that_were_stored_are_known_for_good(new_store):
    where = new_store()
    with opened(where) as store:
        store.append(batch(range(3), keys=["x\0\\", "y", None]))
        expected = checksums(columns_of(batch(range(1), keys=["x\0\\"])))[0]
        assert store.known(["x\0\\", "nobody"]) == {"x\0\\": expected}
        assert store.known([]) == {}
        assert store.drop(2) == 2
        assert store.drop(2) == 0
        assert store.known(["x\0\\", "y", "nobody"]).keys() == {"x\0\\", "y"}, "a key outlives its event"
    with opened(where) as store:
        assert (store.total, store.dropped) == (3, 2)
        assert [first for first, _ in store.read(2)] == [3]
        store.append(batch(range(3, 5)))
        assert store.total == 5


def test_events_that_are_taken_back_were_never(new_store):
    where = new_store()
    with opened(where) as store:
        store.append(batch(range(1, 11), keys=[f"key {k}" for k in range(1, 11)]))
        count, aside = store.undo(7)
        assert count == 3
        assert aside
        assert store.total == 7
        assert store.known(["key 7", "key 8"]).keys() == {"key 7"}, "their keys can be sent again"
        store.append(batch(range(11, 13), keys=["key 8", "key 9"]))
        assert sum(len(part) for _, part in store.read()) == 9
    with opened(where) as store:
        assert store.total == 9


def test_the_newest_event_before_a_time_is_found(new_store):
    with opened(new_store()) as store:
        store.append(batch(range(10, 20)))
        assert [store.newest_until(t) for t in (9, 10, 15, 99)] == [0, 1, 6, 10]


@pytest.mark.parametrize("count", [9, 10, 11, 20, 21])
def test_events_are_read_in_pieces_of_any_size(new_store, monkeypatch, count):
    where = new_store()
    for size in ("CHUNK", "KEYS"):
        monkeypatch.setattr(f"pintgn.serve.event_store.{size}", 10)
    with opened(where) as store:
        keys = [f"key {k}" for k in range(count)]
        store.append(batch(range(count), keys=keys))
        assert [len(part) for _, part in store.read()] == [10] * (count // 10) + [count % 10] * (count % 10 > 0)
        assert store.known(keys).keys() == set(keys)


# -- a service on it ---------------------------------------------------------------------------------------------------


def test_a_restart_changes_nothing(run_folder, columns, new_store):
    where = new_store()
    with Service.open(run_folder, where, Options(snapshot_every=10**6)) as service:
        for begin in range(TRAINED, 600, 60):
            answer = service.submit(as_batch(service.live, columns, begin, begin + 60, keyed=True)).result(30)
            assert (answer["accepted"], answer["event"]) == (60, begin + 60 - TRAINED)
            if begin == 420:
                assert service.snapshot().result(30)["events"] == 240
        service.saver.at = service.live.total  # as if it had been killed
    with restarted(run_folder, where) as service:
        assert (service.replayed, service.reports) == (120, [])
        assert_same_state(service.live, replayed(run_folder, columns, 600))
        again = service.submit(as_batch(service.live, columns, TRAINED, 610, keyed=True)).result(30)
        assert (again["accepted"], again["duplicates"]) == (10, 360)


def test_whoever_sets_the_clock_changes_nothing(run_folder, columns, new_store, monkeypatch):
    """The clock of the machine goes hours back and forth all the while."""
    where, real, rng = new_store(), time.time, random.Random(3)
    monkeypatch.setattr(time, "time", lambda: real() + rng.choice([-7_200, -60, 0, 60, 86_400]))
    for begin in (TRAINED, 420):
        with Service.open(run_folder, where, Options(snapshot_every=50, lateness=5, evaluate_every=10)) as service:
            client = TestClient(create_app(service))
            for first in range(begin, begin + 180, 20):
                sent = {"events": as_events(columns, first, first + 20, keyed=True)}
                assert client.post("/events", json=sent).json()["accepted"] == 20
            told = client.get("/status").json()
            assert told["rate_1m"] * 60 == pytest.approx(service.writer.metrics.events._value.get())
            assert 0 <= told["uptime"] < 600
            assert sum(count for _, count in told["rate_history"]) <= 360
            assert client.get("/health").json()["status"] == "ok"
    with restarted(run_folder, where, lateness=None) as service:
        assert service.reports == []
        assert_same_state(service.live, replayed(run_folder, columns, 600))


def test_a_service_with_features_is_the_same_after_a_restart(rich_folder, rich_columns, new_store):
    where = new_store()
    with Service.open(rich_folder, where) as service:
        service.submit(as_batch(service.live, rich_columns, TRAINED, 500)).result(30)
        service.saver.at = service.live.total
    with restarted(rich_folder, where) as service:
        assert service.replayed == 260
        assert_same_state(service.live, replayed(rich_folder, rich_columns, 500))


def test_another_run_of_the_same_log_is_served_on_the_same_store(run_folder, columns, new_store, tmp_path):
    where, other = new_store(), trained(tmp_path / "other", columns, "tgn")
    with Service.open(run_folder, where) as service:
        service.submit(as_batch(service.live, columns, TRAINED, 400)).result(30)
    with restarted(other, where) as service:
        assert (service.live.total, service.replayed) == (160, 160), "its own state, by a replay"
        assert_same_state(service.live, replayed(other, columns, 400))


def test_a_compacted_store_starts_from_its_snapshot_or_says_that_it_cannot(run_folder, columns, new_store, tmp_path):
    where = new_store()
    with Service.open(run_folder, where) as service:
        service.submit(as_batch(service.live, columns, TRAINED, 400, keyed=True)).result(30)
        assert compacted(service) == 160
    with restarted(run_folder, where) as service:
        assert service.replayed == 0
        again = service.submit(as_batch(service.live, columns, TRAINED, 410, keyed=True)).result(30)
        assert (again["accepted"], again["duplicates"]) == (10, 160)
        assert_same_state(service.live, replayed(run_folder, columns, 410))
    other = trained(tmp_path / "other", columns, "tgn")
    with pytest.raises(BadFile, match="compacted, and none of its snapshots"):
        restarted(other, where)


def test_going_back_to_a_time(run_folder, columns, new_store):
    where = new_store()
    with Service.open(run_folder, where, Options(snapshot_every=100)) as service:
        for begin in range(TRAINED, 600, 60):
            service.submit(as_batch(service.live, columns, begin, begin + 60, keyed=True)).result(30)
    t = columns["t"][450]
    left = int(np.searchsorted(columns["t"], t, side="right"))
    done = undo_after(Run.open(run_folder), where, t)
    assert (done["left"], done["undone"]) == (left - TRAINED, 600 - left)
    with restarted(run_folder, where) as service:
        assert_same_state(service.live, replayed(run_folder, columns, left))
        service.submit(as_batch(service.live, columns, left, 700, keyed=True)).result(30)
        assert_same_state(service.live, replayed(run_folder, columns, 700))


def test_what_happened_can_be_exported(run_folder, columns, new_store, tmp_path):
    import json

    from typer.testing import CliRunner

    from pintgn.cli.app import app

    where = new_store()
    with Service.open(run_folder, where) as service:
        service.submit(as_batch(service.live, columns, TRAINED, 500)).result(30)
    made = CliRunner().invoke(
        app, ["serve", str(run_folder), "--store", str(where), "--export", str(tmp_path / "all.parquet"), "--json"]
    )
    assert json.loads(made.stdout)["live_events"] == 260
    assert "s3cret-word" not in made.output
    found, whole = read_events(tmp_path / "all.parquet"), read_events({k: c[:500] for k, c in columns.items()})
    assert (found.src == whole.src).all()
    assert found.ids == whole.ids


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kill_9_at_random_moments_loses_nothing_and_doubles_nothing(run_folder, columns, new_store):
    torture.survive_kills(torture.Forked, run_folder, columns, new_store(), kills=3, seed=1, patience=0.4)


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kill_9_over_http_with_several_writers_loses_nothing_and_doubles_nothing(run_folder, new_store):
    torture.survive_kills_by_many(run_folder, new_store(), kills=3, writers=3, seed=1, patience=0.3)


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kill_9_while_events_come_late_loses_nothing_and_doubles_nothing(run_folder, new_store, monkeypatch):
    monkeypatch.setattr(torture, "LATENESS", ("--lateness", "2"))
    monkeypatch.setattr(torture, "BACK", (1, 2))
    torture.survive_kills_by_many(run_folder, new_store(), kills=4, writers=2, seed=1, patience=0.4, late=0.1)


def test_events_are_refused_whole_and_by_their_own_fault_alone(run_folder, columns, new_store):
    """A batch that is refused takes nothing of itself, and none of its neighbours, along."""
    with Service.open(run_folder, new_store()) as service:
        good = service.submit(as_batch(service.live, columns, TRAINED, 300, keyed=True))
        late = service.submit(service.requests.rows([{"src": "person 1", "dst": "person 2", "t": 1}]))
        more = service.submit(as_batch(service.live, columns, 300, 320, keyed=True))
        assert (good.result(30)["accepted"], more.result(30)["accepted"]) == (60, 20)
        with pytest.raises(BadInput, match="has been observed already"):
            late.result(30)
        changed = [event | {"dst": "person 9999"} for event in as_events(columns, 300, 301, keyed=True)]
        with pytest.raises(BadInput, match="another event was sent before"):
            service.observe(changed)
        assert service.store.total == 80
        assert isinstance(service.store.name, str)
        assert not Path(service.store.name).is_file()
