"""The store: what was written comes back; damage is found, reported, survived, and never overwritten."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from pintgn import read_events
from pintgn.errors import BadFile, BadInput
from pintgn.ingest.codec import EventBatch
from pintgn.serve.event_store import log_fingerprint
from pintgn.serve.service import Service
from pintgn.serve.sqlite import SqliteStore
from tests.serve.helpers import (
    TRAINED,
    as_batch,
    assert_same_state,
    compacted,
    open_to_others,
    replayed,
    restarted,
    served,
)

IO = Path("/proc/thread-self/io")


def batch(numbers, keys=None, width=0, dtype=np.int64) -> EventBatch:
    rng = np.random.default_rng(numbers[0])
    features = rng.normal(size=(len(numbers), width)).astype(np.float32) if width else None
    return EventBatch(
        [f"a{k}\0ü" for k in numbers], [f"b{k}" for k in numbers], np.array(numbers, dtype), features, None, keys
    )


def opened(folder, width=0, dtype=np.int64, log="log") -> SqliteStore:
    return SqliteStore(folder, log, width, np.dtype(dtype))


def test_what_is_damaged_or_missing_is_found_and_leaves_once_it_is_accepted(tmp_path, monkeypatch):
    monkeypatch.setattr("pintgn.serve.event_store.CHUNK", 10)
    with opened(tmp_path) as store:
        store.append(batch(range(1, 31)))
        store.db.execute("UPDATE events SET dst = 'c' || number WHERE number IN (15, 30)")
        store.db.execute("DELETE FROM events WHERE number IN (4, 5, 21)")
        with pytest.raises(BadFile, match="event 15 is not what was written"):
            list(store.read(10))
    with opened(tmp_path) as store:
        assert store.missing == 3
        assert "3 of 30 acknowledged events are missing" in store.loss
        assert store.inspect() == ([15, 30], [4, 15, 21, 30, 31])
        store.accept_loss([15, 30], 0)
        assert (store.total, store.missing, store.loss) == (29, 0, None), "the number of the last is given again"
        found = [number for first, part in store.read() for number in range(first, first + len(part))]
        assert found == [*range(1, 4), *range(6, 15), *range(16, 21), *range(22, 30)]
        store.append(batch(range(31, 33)))
    with opened(tmp_path) as store:
        assert (store.total, store.loss) == (31, None)
        (aside,) = store.db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'damaged_%'").fetchone()
        assert store.db.execute(f"SELECT number FROM {aside}").fetchall() == [(15,), (30,)]
        assert store.drop(10) == 8
        assert store.undo(19)[0] == 11
    with opened(tmp_path) as store:
        assert (store.total, store.dropped, store.fact("lost"), store.loss) == (19, 10, 1, None)


def test_a_mark_that_is_gone_is_told(tmp_path):
    with opened(tmp_path) as store:
        store.append(batch(range(1, 4)))
    (tmp_path / "high-water").unlink()
    for _ in range(2):
        with opened(tmp_path) as store:
            assert "whether the newest acknowledged events are missing cannot be told" in store.loss
    with opened(tmp_path) as store:
        store.accept_loss([], 0)
    with opened(tmp_path) as store:
        assert (store.total, store.loss) == (3, None)


@pytest.mark.skipif(not IO.exists(), reason="what a thread writes is counted by Linux")
def test_dropping_writes_each_page_of_keys_once(tmp_path):
    """Their hashes are all over the table: in the order of events, each key would cost a page, and more with every
    event that there ever was."""

    def written() -> int:
        return int(IO.read_text().split("wchar:")[1].split()[0])

    with opened(tmp_path) as store:
        store.db.execute("PRAGMA cache_size = 20")
        for begin in range(1, 20_001, 5_000):
            numbers = range(begin, begin + 5_000)
            store.append(batch(numbers, keys=[f"key {k}" for k in numbers]))
            store.settle()
            store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            before = written()
            store.drop(begin + 4_999)
        pages = store.db.execute("PRAGMA page_count").fetchone()[0]
        assert written() - before < 4 * 4096 * pages, "into the log, into the file, and a few more than once"


def test_events_that_are_taken_back_are_alone_in_their_table(tmp_path, monkeypatch):
    """Also those of two attempts in one second."""
    monkeypatch.setattr("time.strftime", lambda form: "now")
    with opened(tmp_path / "store") as store:
        store.append(batch(range(1, 11)))
        assert store.undo(7)[0] == 3
        store.append(batch(range(11, 13)))
        count, table = store.undo(7)
        assert count == 2
        rows = store.db.execute(f"SELECT number, dst FROM {table}").fetchall()
    assert rows == [(8, "b11"), (9, "b12")]


def test_events_can_be_read_with_nothing_but_sqlite(tmp_path):
    with opened(tmp_path) as store:
        store.append(batch(range(1, 4), keys=["x", None, "z"]))
    rows = sqlite3.connect(tmp_path / "events.db").execute("SELECT number, dst, t, key FROM events").fetchall()
    assert rows == [(1, "b1", 1, "x"), (2, "b2", 2, None), (3, "b3", 3, "z")]


def test_every_commit_is_flushed_to_the_disk(tmp_path):
    with opened(tmp_path) as store:
        assert store.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store.db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_a_log_is_known_by_its_events_and_its_ids(columns):
    head = {name: column[:50] for name, column in columns.items()}
    logs = [read_events(head), read_events(head | {"src": [f"{id}!" for id in head["src"]]}), read_events(head)]
    logs += [logs[0][:49]]
    first, renamed, again, shorter = map(log_fingerprint, logs)
    assert first == again
    assert len({first, renamed, shorter}) == 3


def test_a_store_is_its_owners_alone_also_one_that_was_not(run_folder, columns, tmp_path, permissive):
    store = tmp_path / "store"
    with restarted(run_folder, store) as service:
        service.submit(as_batch(service.live, columns, TRAINED, 300)).result(30)
        service.snapshot().result(30)
        assert {"events.db", "events.db-wal", "high-water"} <= {path.name for path in store.iterdir()}
        assert len(list(store.glob("snapshots/*/*"))) > 2
        assert open_to_others(store) == []
    for path in (store, *store.rglob("*")):  # as an older pintgn left it
        path.chmod(0o777 if path.is_dir() else 0o666)
    with restarted(run_folder, store) as service:
        service.submit(as_batch(service.live, columns, 300, 310)).result(30)
        assert open_to_others(store) == []


@pytest.mark.parametrize("name", ["events.db", "high-water"])
def test_a_store_is_no_pipe(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(BadFile, match=f"{name} is a pipe"):
        opened(tmp_path)


def test_a_store_is_for_one_process(tmp_path):
    with opened(tmp_path), pytest.raises(BadInput, match="in use by process"):
        opened(tmp_path)


# -- snapshots ---------------------------------------------------------------------------------------------------------


def torn(folder):
    file = folder / "stream" / "neighbors.npz"
    file.write_bytes(file.read_bytes()[:-100])


def rotten(folder):
    file = folder / "stream" / "positions.npz"
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


def headless(folder):
    (folder / "manifest.json").unlink()


def garbled(folder):
    (folder / "manifest.json").write_text('{"format": 1')


def foreign(folder):
    told = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(told | {"run": "another"}))


def other_weights(folder):
    told = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(told | {"weights": "others"}))


def partial(folder):
    (folder / "live.json").unlink()


@pytest.mark.parametrize("harm", [torn, rotten, headless, garbled, foreign, other_weights, partial])
def test_a_bad_snapshot_is_passed_over_and_told(run_folder, columns, tmp_path, harm):
    store = tmp_path / "store"
    with Service.open(run_folder, store) as service:
        service.submit(as_batch(service.live, columns, TRAINED, 400)).result(30)
        service.snapshot().result(30)
        service.submit(as_batch(service.live, columns, 400, 600)).result(30)
    newest = max((store / "snapshots").iterdir())
    harm(newest)
    with restarted(run_folder, store) as service:
        if harm is foreign:
            assert not service.reports, "what was served before a promotion left it"
        else:
            assert newest.name in service.reports[0]
        assert service.replayed == 200, "the older snapshot and the events after it do as well"
        assert_same_state(service.live, replayed(run_folder, columns, 600))


def test_a_snapshot_that_was_being_written_leaves_nothing(run_folder, columns, tmp_path):
    store = tmp_path / "store"
    served(run_folder, columns, store, snapshot=400)
    whole = max((store / "snapshots").iterdir())
    shutil.copytree(whole, store / "snapshots" / ".000000000360.1.part")
    with restarted(run_folder, store) as service:
        assert not service.reports
        service.snapshot().result(30)
        assert [p.name for p in (store / "snapshots").glob(".*")] == []


def test_a_compacted_store_without_snapshots_says_that_it_cannot_start(run_folder, columns, tmp_path):
    store = tmp_path / "store"
    with Service.open(run_folder, store) as service:
        service.submit(as_batch(service.live, columns, TRAINED, 400)).result(30)
        compacted(service)
    torn(max((store / "snapshots").iterdir()))
    with pytest.raises(BadFile, match="compacted, and none of its snapshots"):
        restarted(run_folder, store)
