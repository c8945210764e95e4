"""The store: what was written comes back; damage is found, reported, survived, and never overwritten."""

from __future__ import annotations

import json
import shutil
import sqlite3

import numpy as np
import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.serve.batch import Batch
from pintgn.serve.limits import Options
from pintgn.serve.service import Service
from pintgn.serve.store import Store
from tests.serve.helpers import TRAINED, as_batch, assert_same_state, replayed


def batch(numbers, keys=None, width=0, dtype=np.int64) -> Batch:
    rng = np.random.default_rng(numbers[0])
    features = rng.normal(size=(len(numbers), width)).astype(np.float32) if width else None
    return Batch(
        [f"a{k}\0ü" for k in numbers], [f"b{k}" for k in numbers], np.array(numbers, dtype), features, None, keys
    )


def opened(folder, width=0, dtype=np.int64, run="run") -> Store:
    return Store(folder, run, width, np.dtype(dtype))


@pytest.mark.parametrize(("width", "dtype"), [(0, np.int64), (3, np.float64)])
def test_what_was_written_comes_back_to_the_bit(tmp_path, width, dtype):
    with opened(tmp_path, width, dtype) as store:
        for begin in range(0, 60, 20):
            store.append(batch(range(begin, begin + 20), width=width, dtype=dtype))
    with opened(tmp_path, width, dtype) as store:
        assert store.total == 60
        for after in (0, 20, 33):
            found = Batch.joined(list(store.read(after)))
            expected = Batch.joined([batch(range(k, k + 20), width=width, dtype=dtype) for k in (0, 20, 40)])[after:]
            assert (found.src, found.dst, found.t.tolist()) == (expected.src, expected.dst, expected.t.tolist())
            assert found.t.dtype == dtype
            if width:
                assert np.array_equal(found.features, expected.features)
        assert not store.reports


def test_events_can_be_read_with_nothing_but_sqlite(tmp_path):
    with opened(tmp_path) as store:
        store.append(batch(range(1, 4), keys=["x", None, "z"]))
    rows = sqlite3.connect(tmp_path / "events.db").execute("SELECT number, dst, t, key FROM events").fetchall()
    assert rows == [(1, "b1", 1, "x"), (2, "b2", 2, None), (3, "b3", 3, "z")]


def test_every_commit_is_flushed_to_the_disk(tmp_path):
    with opened(tmp_path) as store:
        assert store.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store.db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_a_store_of_another_run_is_refused(tmp_path):
    opened(tmp_path, run="one").close()
    with pytest.raises(BadInput, match="belongs to another run"):
        opened(tmp_path, run="two")
    opened(tmp_path, run="one").close()  # the lock was given back


def test_a_store_is_for_one_process(tmp_path):
    with opened(tmp_path), pytest.raises(BadInput, match="in use by process"):
        opened(tmp_path)


def test_keys_that_were_stored_are_known(tmp_path):
    with opened(tmp_path) as store:
        store.append(batch(range(3), keys=["x", "y", None]))
        assert store.known(["x", "nobody"]) == {"x": (1, "a0\0ü", "b0", 0, None, None)}


# -- damage ------------------------------------------------------------------------------------------------------------


def served(run_folder, columns, folder, upto=(400, 500, 600), snapshot=None):
    """A store with a commit for each part, as a killed process leaves it."""
    with Service.open(run_folder, folder, Options(snapshot_every=10**6)) as service:
        begin = TRAINED
        for end in upto:
            service.submit(as_batch(service.engine, columns, begin, end)).result(30)
            if end == snapshot:
                service.snapshot().result(30)
            begin = end
        service.saver.at = 10**9  # as if it were killed: no snapshot at the end


def restarted(run_folder, folder):
    return Service.open(run_folder, folder, Options(snapshot_every=10**6))


def damage(folder, statement, *values):
    db = sqlite3.connect(folder / "events.db")
    assert db.execute(statement, values).rowcount > 0
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET dst = 'person 1' WHERE number = 300",
        "UPDATE events SET t = 'soon' WHERE number = 300",
        "DELETE FROM events WHERE number = 300",
        "DELETE FROM commits WHERE last = 360",
        "UPDATE commits SET first = 290 WHERE last = 360",
    ],
)
def test_a_corrupt_tail_is_found_reported_and_survived(run_folder, columns, tmp_path, statement):
    served(run_folder, columns, tmp_path / "store", snapshot=400)
    damage(tmp_path / "store", statement)
    with restarted(run_folder, tmp_path / "store") as service:
        assert service.engine.total == 500 - TRAINED, "what was intact is kept, what was not is not guessed at"
        assert_same_state(service.engine, replayed(run_folder, columns, 500))
        assert "damaged" in service.reports[0]
        assert "sent again" in service.reports[0]
        service.submit(as_batch(service.engine, columns, 500, 700)).result(30)
    kept = list((tmp_path / "store").glob("damaged-*.db"))
    assert len(kept) == 1, "the damaged file is still there for people to look at"
    with restarted(run_folder, tmp_path / "store") as service:
        assert not service.reports
        assert_same_state(service.engine, replayed(run_folder, columns, 700))


def test_bytes_that_rotted_on_the_disk_are_found(run_folder, columns, tmp_path):
    store = tmp_path / "store"
    served(run_folder, columns, store, snapshot=400)
    db = sqlite3.connect(store / "events.db")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    raw = bytearray((store / "events.db").read_bytes())
    place = raw.rindex(columns["src"][598].encode())  # late in the last commit
    raw[place : place + 6] = b"PERSON"
    (store / "events.db").write_bytes(raw)
    with restarted(run_folder, store) as service:
        assert 400 - TRAINED <= service.engine.total <= 500 - TRAINED
        assert service.reports
        assert_same_state(service.engine, replayed(run_folder, columns, TRAINED + service.engine.total))


@pytest.mark.parametrize("snapshot", [None, 500])
def test_a_file_that_is_no_database_any_more_is_set_aside(run_folder, columns, tmp_path, snapshot):
    store = tmp_path / "store"
    served(run_folder, columns, store, snapshot=snapshot)
    for name in ("events.db-wal", "events.db-shm"):
        (store / name).unlink(missing_ok=True)
    (store / "events.db").write_bytes(b"not a database, " * 1000)
    with restarted(run_folder, store) as service:
        known = TRAINED if snapshot is None else snapshot
        assert_same_state(service.engine, replayed(run_folder, columns, known))
        assert "no longer a database" in service.reports[0]
        service.submit(as_batch(service.engine, columns, known, 700)).result(30)
    with restarted(run_folder, store) as service:
        assert_same_state(service.engine, replayed(run_folder, columns, 700))


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
    (folder / "engine.json").unlink()


@pytest.mark.parametrize("harm", [torn, rotten, headless, garbled, foreign, other_weights, partial])
def test_a_bad_snapshot_is_passed_over_and_told(run_folder, columns, tmp_path, harm):
    store = tmp_path / "store"
    with Service.open(run_folder, store) as service:
        service.submit(as_batch(service.engine, columns, TRAINED, 400)).result(30)
        service.snapshot().result(30)
        service.submit(as_batch(service.engine, columns, 400, 600)).result(30)
    newest = max((store / "snapshots").iterdir())
    harm(newest)
    with restarted(run_folder, store) as service:
        assert newest.name in service.reports[0]
        assert service.replayed == 200, "the older snapshot and the events after it do as well"
        assert_same_state(service.engine, replayed(run_folder, columns, 600))


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
        service.submit(as_batch(service.engine, columns, TRAINED, 400)).result(30)
        service.compact()
    torn(max((store / "snapshots").iterdir()))
    with pytest.raises(BadFile, match="compacted, and none of its snapshots"):
        restarted(run_folder, store)
