"""Damage is never silent: each file of a store, in each way, and what an operator can do about it."""

from __future__ import annotations

import json
import shutil
import sqlite3

import numpy as np
import pytest
from typer.testing import CliRunner

from pintgn.cli.app import app
from pintgn.errors import BadFile, BadInput
from pintgn.ingest.codec import EventBatch
from pintgn.learn.run import Run
from pintgn.serve import answers
from pintgn.serve.app import create_app
from pintgn.serve.export import whole_log
from pintgn.serve.highwater import SLOT, HighWater, Mark
from pintgn.serve.limits import Degraded
from pintgn.serve.rewind import undo_after
from pintgn.serve.sqlite import SqliteStore
from tests.serve import hardship
from tests.serve.helpers import TRAINED, TestClient, as_batch, assert_same_state, replayed, restarted, served

TOTAL = 600 - TRAINED


@pytest.fixture(scope="module")
def killed(run_folder, columns, tmp_path_factory):
    """What a killed service leaves: 360 events with keys, the newest half only in the log of SQLite, a snapshot."""
    folder = tmp_path_factory.mktemp("damage") / "killed"
    served(run_folder, columns, folder, upto=range(270, 601, 30), snapshot=300, keyed=True)
    return folder


@pytest.fixture(scope="module")
def stopped(run_folder, columns, tmp_path_factory):
    """What a service leaves that was stopped and whose last snapshots are gone."""
    folder = tmp_path_factory.mktemp("damage") / "stopped"
    served(run_folder, columns, folder, upto=range(270, 601, 30), snapshot=300, keyed=True)
    restarted(run_folder, folder).close()
    shutil.rmtree(max((folder / "snapshots").iterdir()))
    return folder


def send(service, columns, start, stop):
    return service.submit(as_batch(service.live, columns, start, stop, keyed=True)).result(30)


def change(folder, statement, *values):
    db = sqlite3.connect(folder / "events.db")
    assert db.execute(statement, values).rowcount > 0
    db.commit()
    db.close()


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "store")


# -- the matrix --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", hardship.HARMS)
@pytest.mark.parametrize("file", hardship.FILES)
@pytest.mark.parametrize("state", ["killed", "stopped"])
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_is_lost_silently(run_folder, columns, tmp_path, request, state, file, harm, seed):
    folder = copied(request.getfixturevalue(state), tmp_path)
    if hardship.damage(folder, file, harm, seed):
        hardship.survive_damage(run_folder, columns, folder, 600)


# -- event by event ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET dst = 'person 1' WHERE number = 300",
        "UPDATE events SET t = 'soon' WHERE number = 300",
        "UPDATE events SET key = 'another' WHERE number = 300",
        "UPDATE events SET checksum = checksum + 1 WHERE number = 300",
        "DELETE FROM events WHERE number = 300",
    ],
)
def test_one_damaged_event_costs_one_event(run_folder, columns, tmp_path, killed, statement):
    folder = copied(killed, tmp_path)
    change(folder, statement)
    for _ in range(2):  # also after a restart
        with restarted(run_folder, folder) as service:
            told = answers.health(service)
            assert told["status"] == "degraded"
            assert not told["taking"]
            assert [(gap["first"], gap["last"]) for gap in told["missing"]] == [(300, 300)]
            assert any("events 300 (1 in all) are missing" in report for report in told["reports"])
            assert service.live.total == TOTAL
            assert service.live.events == 600
            assert service.replayed == TOTAL - 60 - 1, "all others count"
            with pytest.raises(Degraded, match="events 300 "):
                send(service, columns, 600, 610)
            client = TestClient(create_app(service))
            refused = client.post("/events", json={"src": "person 1", "dst": "person 2", "t": 5_000})
            assert (refused.status_code, refused.json()["error"]) == (503, "degraded")
            assert client.post("/snapshot").status_code == 503
            assert client.post("/score", json={"src": "person 1", "dst": "person 2"}).status_code == 200
            assert client.get("/health").json()["missing"] == told["missing"]
    assert len(list(folder.glob("damaged-*.db"))) == 1, "kept for people to look at, once"
    with restarted(run_folder, folder) as service:
        assert [str(gap) for gap in service.accept_loss()] == ["300"]
        assert send(service, columns, 600, 700)["accepted"] == 100
        control = service.live
        assert answers.health(service)["taking"]
    with restarted(run_folder, folder) as service:
        assert answers.health(service)["status"] == "ok"
        assert_same_state(service.live, control)
        assert len(whole_log(service.live, service.store)) == 699


def test_the_key_of_a_lost_event_is_told_where_a_copy_survives(run_folder, tmp_path, killed):
    folder = copied(killed, tmp_path)
    sqlite3.connect(folder / "events.db").execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = bytearray((folder / "events.db").read_bytes())
    for place in hardship.pages_of(raw, "events")[2:3]:
        raw[place : place + 4096] = bytes(4096)
    (folder / "events.db").write_bytes(raw)
    with restarted(run_folder, folder) as service:
        (gap,) = answers.health(service)["missing"]
        numbers = range(gap["first"], gap["last"] + 1)
        assert 1 < len(numbers) < 120, "one page of events, not a chunk"
        assert gap["keys"] == {str(number): f"event {number + TRAINED - 1}" for number in numbers}


def test_after_going_back_what_was_lost_and_came_later_can_be_sent_again(run_folder, columns, tmp_path, killed):
    folder = copied(killed, tmp_path)
    change(folder, "UPDATE events SET dst = 'person 1' WHERE number IN (300, 310, 311)")
    with restarted(run_folder, folder) as service:
        (report,) = [report for report in service.reports if "--undo-after" in report]
        since = int(report.partition("--undo-after '")[2].partition("'")[0])
    done = undo_after(Run.open(run_folder), folder, since)
    assert done["left"] <= 299
    with restarted(run_folder, folder) as service:
        assert answers.health(service)["status"] == "ok"
        told = send(service, columns, TRAINED, 700)  # all of it: keys say what is known
        assert told["duplicates"] == done["left"]
        assert_same_state(service.live, replayed(run_folder, columns, 700))


def test_a_lost_log_is_told_and_can_be_sent_again_after_the_loss_is_accepted(run_folder, columns, tmp_path, killed):
    folder = copied(killed, tmp_path)
    (folder / "events.db-wal").unlink()
    with restarted(run_folder, folder) as service:
        (gap,) = answers.health(service)["missing"]
        assert gap["last"] == TOTAL
        left = gap["first"] - 1
        assert service.live.total == max(left, 60)
        service.accept_loss()
    with restarted(run_folder, folder) as service:
        assert answers.health(service)["status"] == "ok"
        assert send(service, columns, TRAINED, 700)["duplicates"] == left
        assert_same_state(service.live, replayed(run_folder, columns, 700))


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_lost_database_costs_nothing_that_a_snapshot_holds(run_folder, columns, tmp_path, killed, snapshot):
    folder = copied(killed, tmp_path)
    for name in ("events.db", "events.db-wal", "events.db-shm"):
        (folder / name).unlink(missing_ok=True)
    if not snapshot:
        shutil.rmtree(folder / "snapshots")
    known = 300 if snapshot else TRAINED
    with restarted(run_folder, folder) as service:
        assert_same_state(service.live, replayed(run_folder, columns, known))
        (gap,) = answers.health(service)["missing"]
        assert (gap["first"], gap["last"]) == (1, TOTAL)
        assert ("still count, by a snapshot" in service.reports[-1]) == snapshot
        service.accept_loss()
        service.submit(as_batch(service.live, columns, known, 700)).result(30)
    with restarted(run_folder, folder) as service:
        assert answers.health(service)["status"] == "ok"
        assert_same_state(service.live, replayed(run_folder, columns, 700))


def test_a_repair_that_was_interrupted_begins_again(run_folder, columns, tmp_path, killed, monkeypatch):
    folder = copied(killed, tmp_path)
    (folder / "events.db-wal").write_bytes((folder / "events.db-wal").read_bytes()[:20_000])

    def dies(path):
        assert not (folder / "events.db-wal").exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("pintgn.files.sync_folder", dies)
        with pytest.raises(KeyboardInterrupt):
            restarted(run_folder, folder)
    hardship.survive_damage(run_folder, columns, folder, 600)


def test_events_longer_than_a_page_and_keys_of_dropped_events_are_recovered(tmp_path):
    """Without SQLite's own header, nothing but the pages themselves tells where anything is."""
    wide, long = 1_500, "ü" * 1_000

    def batch(begin, end):
        features = np.random.default_rng(begin).normal(size=(end - begin, wide)).astype(np.float32)
        names = [f"{long} {k}" for k in range(begin, end)]
        return EventBatch(
            names, names, np.arange(begin, end) / 7, features, None, [f"key {k}" for k in range(begin, end)]
        )

    with SqliteStore(tmp_path, "run", wide, np.dtype(float)) as store:
        store.append(batch(0, 20))
        store.append(batch(20, 50))
        store.drop(8)
        store.append(batch(50, 60))
        store.settle()
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copytree(tmp_path, tmp_path / "copy")
    raw = bytearray((tmp_path / "copy" / "events.db").read_bytes())
    raw[:4096] = bytes(4096)
    (tmp_path / "copy" / "events.db").write_bytes(raw)
    with SqliteStore(tmp_path / "copy", "run", wide, np.dtype(float)) as store:
        assert (store.total, store.dropped, store.missing) == (60, 8, [])
        assert "nothing is missing" in store.reports[0]
        found = EventBatch.concat([part for _, part in store.read(8)])
        expected = EventBatch.concat([batch(0, 20), batch(20, 50), batch(50, 60)])[8:]
        assert (found.src, found.keys, found.t.tolist()) == (expected.src, expected.keys, expected.t.tolist())
        assert np.array_equal(found.features, expected.features)
        assert store.known([f"key {k}" for k in range(60)]).keys() == {f"key {k}" for k in range(60)}


def test_damage_that_only_an_export_meets_is_told(run_folder, tmp_path, killed):
    folder = copied(killed, tmp_path)
    change(folder, "UPDATE events SET dst = 'person 1' WHERE number = 7")  # a snapshot has seen it
    with restarted(run_folder, folder) as service:
        assert service.live.total == TOTAL
        assert not service.reports, "its effect counts, and nothing has looked at the row"
        assert len(whole_log(service.live, service.store)) == 599
        assert "damaged" in service.reports[-1]
    with restarted(run_folder, folder) as service:
        assert [str(gap) for gap in service.missing] == ["7"]


# -- the mark ----------------------------------------------------------------------------------------------------------


def test_a_mark_survives_what_hits_one_of_its_slots(tmp_path):
    mark = HighWater(tmp_path / "mark", "run")
    assert mark.known is None
    for total in (5, 9, 12):
        mark.advance(Mark(total, 3))
    mark.close()
    assert HighWater(tmp_path / "mark", "run").known == (12, 3)
    assert HighWater(tmp_path / "mark", "another").known is None
    whole = (tmp_path / "mark").read_bytes()
    for place in (0, SLOT):
        raw = bytearray(whole)
        raw[place + 20] ^= 1
        (tmp_path / "mark").write_bytes(raw)
        assert HighWater(tmp_path / "mark", "run").known in ((12, 3), (9, 3))
    (tmp_path / "mark").write_bytes(bytes(2 * SLOT))
    assert HighWater(tmp_path / "mark", "run").known is None


def test_a_store_from_before_the_mark_is_refused_in_one_line(run_folder, tmp_path, killed):
    folder = copied(killed, tmp_path)
    change(folder, "UPDATE facts SET value = '1' WHERE name = 'format'")
    with pytest.raises(BadFile, match="written by an older pintgn"):
        restarted(run_folder, folder)


# -- the way back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upto", [240, 299, 300, 301, 455, 599, 600])
def test_going_back_is_exact(run_folder, columns, tmp_path, killed, upto):
    folder = copied(killed, tmp_path)
    t = columns["t"][upto - 1]
    kept = max(k for k in range(600) if columns["t"][k] <= t) + 1  # simultaneous events go together
    done = undo_after(Run.open(run_folder), folder, t)
    assert (done["undone"], done["left"]) == (600 - kept, kept - TRAINED)
    with restarted(run_folder, folder) as service:
        assert not service.reports
        assert_same_state(service.live, replayed(run_folder, columns, kept))
        told = send(service, columns, TRAINED, 700)
        assert told["duplicates"] == kept - TRAINED, "keys of what was taken back can be sent again"
        assert_same_state(service.live, replayed(run_folder, columns, 700))
    if kept < 600:
        db = sqlite3.connect(folder / done["file"])
        rows = db.execute("SELECT number, src, dst, t, key FROM events").fetchall()
        names = ("src", "dst", "t")
        expected = [(k - TRAINED + 1, *(columns[name][k] for name in names), f"event {k}") for k in range(kept, 600)]
        assert rows == expected, "nothing is lost"


def test_going_back_to_dropped_events_is_refused_and_nothing_changes(run_folder, columns, tmp_path, killed):
    folder = copied(killed, tmp_path)
    with restarted(run_folder, folder) as service:
        service.compact()
    before = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(BadInput, match="cannot be rewound"):
        undo_after(Run.open(run_folder), folder, columns["t"][270])
    assert sorted(path.name for path in folder.rglob("*")) == before
    with restarted(run_folder, folder) as service:
        assert_same_state(service.live, replayed(run_folder, columns, 600))


def test_a_clock_that_ran_away_comes_back(run_folder, columns, tmp_path, killed):
    """From the command line, as an operator would."""
    folder = copied(killed, tmp_path)
    with restarted(run_folder, folder, max_ahead=float("inf")) as service:
        service.observe([{"src": "person 1", "dst": "person 2", "t": 1_700_000_000_000}])
    command = ["serve", str(run_folder), "--store", str(folder), "--undo-after", "1000000"]
    said = CliRunner().invoke(app, command).stdout
    assert "1 events later than 1000000 (numbers 361 to 361)" in said
    assert "nothing was changed" in CliRunner().invoke(app, command).stdout
    with restarted(run_folder, folder) as service:
        send(service, columns, 600, 700)
        assert_same_state(service.live, replayed(run_folder, columns, 700))


def test_a_loss_is_accepted_from_the_command_line(run_folder, columns, tmp_path, killed):
    folder = copied(killed, tmp_path)
    change(folder, "DELETE FROM events WHERE number = 300")
    command = ["serve", str(run_folder), "--store", str(folder), "--accept-loss"]
    assert "lost 300; the next event will be number 361" in CliRunner().invoke(app, command).stdout
    assert "nothing is missing" in CliRunner().invoke(app, command).stdout
    assert json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout) == {
        "lost": [],
        "events": TOTAL,
        "waiting": [],
    }
