"""Damage is never silent: each file of a store, in each way, and what an operator can do about it."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3

import pytest
from typer.testing import CliRunner

from pintgn.cli.app import app
from pintgn.errors import BadFile, BadInput
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.serve.export import full_log
from pintgn.serve.high_water import SLOT, HighWater, Mark
from pintgn.serve.recovery import accept_loss, undo_after
from pintgn.serve.store_backup import back_up
from tests.serve import hardship
from tests.serve.helpers import TRAINED, as_batch, assert_same_state, compacted, replayed, restarted, served

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
def test_nothing_is_lost_silently(run_folder, columns, tmp_path, request, state, file, harm):
    folder = copied(request.getfixturevalue(state), tmp_path)
    if hardship.damage(folder, file, harm, 0):
        hardship.survive_damage(run_folder, columns, folder, 600)


# -- event by event ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE events SET dst = 'person 1' WHERE number = 300", "1 events are not what was written"),
        ("UPDATE events SET t = 'soon' WHERE number = 300", "the first is number 300"),
        ("DELETE FROM events WHERE number = 300", "1 of 360 acknowledged events are missing"),
    ],
)
def test_a_lost_event_costs_one_event_once_that_is_accepted(run_folder, columns, tmp_path, killed, statement, said):
    folder = copied(killed, tmp_path)
    change(folder, statement)
    for _ in range(2):  # also after a restart
        with pytest.raises(BadFile, match=f"{said}.*pintgn restore.*sqlite3 events.db .recover.*--accept-loss 1"):
            restarted(run_folder, folder)
    done = accept_loss(Run.open(run_folder), folder, 1)
    assert (done["lost"], done["first"], done["events"], done["snapshots"]) == (1, 300, TOTAL, [])
    with restarted(run_folder, folder) as service:
        clean = Live(Run.open(run_folder), evaluate_every=10)
        for begin, end in ((0, 299), (300, TOTAL)):
            clean.skip_to(begin)
            clean.observe_batch(as_batch(clean, columns, TRAINED + begin, TRAINED + end))
        assert_same_state(service.live, clean)
        assert send(service, columns, 600, 700)["accepted"] == 100
        control = service.live
    with restarted(run_folder, folder) as service:
        assert not service.reports
        assert_same_state(service.live, control)
        assert len(full_log(service.live, service.store)) == 699


def test_snapshots_that_have_seen_what_is_missing_go_with_it(run_folder, columns, tmp_path, killed):
    """What was lost can be sent again, and counts once."""
    folder = copied(killed, tmp_path)
    for name in ("events.db", "events.db-wal", "events.db-shm"):
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(BadFile, match="360 of 360 acknowledged events are missing"):
        restarted(run_folder, folder)
    assert accept_loss(Run.open(run_folder), folder, 360)["snapshots"] == [60]
    with restarted(run_folder, folder) as service:
        assert service.live.total == 0
        assert send(service, columns, TRAINED, 700)["accepted"] == 460
        assert_same_state(service.live, replayed(run_folder, columns, 700))


def test_a_lost_event_that_only_a_snapshot_holds_counts_by_it(run_folder, columns, tmp_path, killed):
    """In a compacted store there is nothing to begin with but the snapshots."""
    folder = copied(killed, tmp_path)
    with restarted(run_folder, folder) as service:
        service.store.drop(30)
        send(service, columns, 600, 700)
        control = replayed(run_folder, columns, 700)
    change(folder, "DELETE FROM events WHERE number = 40")
    with pytest.raises(BadFile, match="1 of 460 acknowledged events are missing"):
        restarted(run_folder, folder)
    done = accept_loss(Run.open(run_folder), folder, 1)
    assert (done["first"], done["events"], done["snapshots"]) == (40, 460, [])
    with restarted(run_folder, folder) as service:
        assert service.store.dropped == 60, "by the snapshot after event 60"
        assert_same_state(service.live, control)


def test_a_lost_log_of_the_database_can_be_sent_again_after_the_loss_is_accepted(run_folder, columns, tmp_path, killed):
    folder = copied(killed, tmp_path)
    (folder / "events.db-wal").unlink()
    with pytest.raises(BadFile) as found:
        restarted(run_folder, folder)
    count = int(re.search(r"--accept-loss (\d+)", str(found.value))[1])
    assert 0 < count < TOTAL
    accept_loss(Run.open(run_folder), folder, count)
    with restarted(run_folder, folder) as service:
        assert send(service, columns, TRAINED, 700)["duplicates"] == TOTAL - count
        assert_same_state(service.live, replayed(run_folder, columns, 700))


def test_what_is_damaged_says_what_can_be_put_back(run_folder, columns, tmp_path, killed):
    run = tmp_path / "run"
    shutil.copytree(run_folder, run, ignore=shutil.ignore_patterns("live"))
    folder = shutil.copytree(killed, run / "live")
    for name in ("one.tar", "two.tar"):
        back_up(run, folder, tmp_path / name)
    (tmp_path / "two.tar").write_bytes((tmp_path / "two.tar").read_bytes()[:-20_000])  # no backup any more
    raw = bytearray((folder / "events.db").read_bytes())
    raw[4096:16_384] = bytes(12_288)
    (folder / "events.db").write_bytes(raw)
    with pytest.raises(BadFile, match=r"events.db is damaged .*of 360 acknowledged events") as found:
        restarted(run, folder)
    assert f"{tmp_path / 'one.tar'} (360 live events) with pintgn restore" in str(found.value)
    assert "sqlite3 events.db .recover" in str(found.value)
    assert "\n" not in str(found.value)


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
        db = sqlite3.connect(folder / "events.db")
        rows = db.execute(f"SELECT number, src, dst, t, key FROM {done['table']}").fetchall()
        names = ("src", "dst", "t")
        expected = [(k - TRAINED + 1, *(columns[name][k] for name in names), f"event {k}") for k in range(kept, 600)]
        assert rows == expected, "nothing is lost"


def test_going_back_to_dropped_events_is_refused_and_nothing_changes(run_folder, columns, tmp_path, killed):
    folder = copied(killed, tmp_path)
    with restarted(run_folder, folder) as service:
        compacted(service)
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


def test_a_loss_is_accepted_from_the_command_line_and_written_down(run_folder, columns, tmp_path, killed):
    folder = copied(killed, tmp_path)
    change(folder, "DELETE FROM events WHERE number = 300")
    command = ["serve", str(run_folder), "--store", str(folder), "--audit", str(tmp_path / "audit"), "--accept-loss"]
    assert "1 events are missing" in str(CliRunner().invoke(app, [*command, "2"]).exception)
    said = CliRunner().invoke(app, [*command, "1"]).stdout
    assert "goes on without 1 events, of which 300 is the first; the next event will be number 361" in said
    assert "nothing is missing" in CliRunner().invoke(app, [*command, "0"]).stdout
    line = json.loads((tmp_path / "audit").read_text().splitlines()[0])
    assert (line["action"], line["done"]["lost"]) == ("accept-loss", 1)
