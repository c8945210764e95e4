"""Backups: whole, taken while a service runs, verified by a replay; and what is damaged is never restored."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import tarfile
import threading

import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.learn.run import Run
from pintgn.serve import store_backup as module
from pintgn.serve.api_keys import FILE as KEYS
from pintgn.serve.api_keys import add_key, stored
from pintgn.serve.limits import Options
from pintgn.serve.recovery import accept_loss
from pintgn.serve.service import Service
from pintgn.serve.store_backup import back_up, read_manifest, restore
from tests.serve.helpers import (
    TRAINED,
    as_batch,
    as_events,
    assert_same_state,
    open_to_others,
    replayed,
    restarted,
    served,
)


def send(service, columns, start, stop):
    service.submit(as_batch(service.live, columns, start, stop, keyed=True)).result(30)


def copied(run_folder, tmp_path, columns, upto=(400, 500), **more):
    """A run, and a store of it as a killed process leaves it."""
    run = tmp_path / "run"
    shutil.copytree(run_folder, run, ignore=shutil.ignore_patterns("live"))
    served(run, columns, run / "live", upto, keyed=True, **more)
    return run


def test_a_backup_of_a_running_service_holds_what_was_acknowledged_before(run_folder, columns, tmp_path):
    file = tmp_path / "run.tar"
    store = tmp_path / "store"
    text = add_key(store, "feed", "write")
    with Service.open(run_folder, store, Options(snapshot_every=10**6)) as service:
        send(service, columns, TRAINED, 400)
        service.snapshot().result(30)
        send(service, columns, 400, 500)
        made = back_up(run_folder, store, file)
        send(service, columns, 500, 600)  # the service goes on
        assert service.healthy
    assert (made["events"], made["stored"], made["dropped"], made["lost"]) == (260, 260, 0, 0)
    assert read_manifest(file)["events"] == 260
    facts = restore(file, tmp_path / "back")
    assert (facts["events"], facts["replayed"], facts["clock"]) == (260, 100, columns["t"][499])
    assert text not in file.read_bytes().decode("latin-1")
    assert [key.name for key in stored(tmp_path / "back" / "live" / KEYS)] == ["feed"]
    assert (tmp_path / "back" / "live" / KEYS).stat().st_mode & 0o077 == 0
    with restarted(tmp_path / "back", tmp_path / "back" / "live") as again:
        assert not again.reports
        assert_same_state(again.live, replayed(run_folder, columns, 500))
        send(again, columns, 500, 600)
        assert again.observe(as_events(columns, 300, 301, keyed=True))["duplicates"] == 1
        assert_same_state(again.live, replayed(run_folder, columns, 600))


def test_backups_under_load_are_prefixes_of_what_happened(run_folder, columns, tmp_path):
    """With old events dropped meanwhile, so that snapshot and events have to fit."""
    options = Options(snapshot_every=40, keep_events=10)
    with Service.open(run_folder, tmp_path / "store", options) as service:
        done = threading.Event()

        def feed():
            for begin in range(TRAINED, 900, 5):
                send(service, columns, begin, begin + 5)
            done.set()

        feeding = threading.Thread(target=feed)
        feeding.start()
        taken = []
        while not done.is_set() or len(taken) < 2:
            taken.append(tmp_path / f"{len(taken)}.tar")
            back_up(run_folder, tmp_path / "store", taken[-1])
        feeding.join()
        taken.append(tmp_path / "last.tar")
        back_up(run_folder, tmp_path / "store", taken[-1])
    for file in (taken[0], taken[len(taken) // 2], taken[-1]):
        facts = restore(file, file.with_suffix(""))
        with restarted(file.with_suffix(""), file.with_suffix("") / "live") as again:
            assert not again.reports
            assert again.live.total == facts["events"]
            expected = replayed(run_folder, columns, TRAINED + facts["events"])
            assert (again.live.clock, again.live.names.ids) == (expected.clock, expected.names.ids)
    assert read_manifest(taken[-1])["events"] == 900 - TRAINED
    assert read_manifest(taken[-1])["dropped"] > 0


def test_a_store_that_was_left_by_a_crash_is_backed_up_whole(run_folder, columns, tmp_path):
    run = copied(run_folder, tmp_path, columns)
    before = sorted(path.name for path in run.rglob("*") if path.name not in ("lock", "events.db-wal", "events.db-shm"))
    assert back_up(run, run / "live", tmp_path / "run.tar")["stored"] == 260
    assert before == sorted(path.name for path in run.rglob("*") if path.name not in ("lock", "backups.txt"))
    assert restore(tmp_path / "run.tar", None)["events"] == 260
    assert not list(tmp_path.glob(".*")), "nothing is left lying around"


def test_a_store_that_has_lost_events_is_not_backed_up(run_folder, columns, tmp_path):
    run = copied(run_folder, tmp_path, columns)
    for statement, said in (
        ("DELETE FROM events WHERE number IN (7, 8)", "2 of 260 acknowledged events are missing"),
        ("UPDATE events SET dst = 'nobody' WHERE number = 9", "1 events are not what was written"),
    ):
        with sqlite3.connect(run / "live" / "events.db") as db:
            db.execute(statement)
        db.close()
        with pytest.raises(BadFile, match=said):
            back_up(run, run / "live", tmp_path / "run.tar")
        accept_loss(Run.open(run), run / "live", 2 if "DELETE" in statement else 1)
    assert not (tmp_path / "run.tar").exists()
    made = back_up(run, run / "live", tmp_path / "run.tar")
    assert (made["stored"], made["lost"]) == (257, 3)
    assert restore(tmp_path / "run.tar", tmp_path / "back")["events"] == 260


def test_a_store_with_a_flipped_bit_in_its_index_of_keys_is_not_backed_up(run_folder, columns, tmp_path):
    """A start does not see it (docs/serving.md, Damage): every row is what was written."""
    run = copied(run_folder, tmp_path, columns)
    path = run / "live" / "events.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (key,) = db.execute("SELECT key FROM events WHERE number = 77").fetchone()
    data, leaf_of_an_index = bytearray(path.read_bytes()), 10
    at = next(
        found.start()
        for found in re.finditer(re.escape(key.encode()), data)
        if data[found.start() // 4096 * 4096] == leaf_of_an_index
    )
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadFile, match=r"index event_keys.* REINDEX"):
        back_up(run, run / "live", tmp_path / "run.tar")
    assert not (tmp_path / "run.tar").exists()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("REINDEX")
    assert back_up(run, run / "live", tmp_path / "run.tar")["stored"] == 260


def test_what_cannot_be_backed_up_is_refused_in_one_line(run_folder, rich_folder, columns, tmp_path):
    run = copied(run_folder, tmp_path, columns)
    with pytest.raises(BadInput, match="there is no store in .*nowhere"):
        back_up(run, tmp_path / "nowhere", tmp_path / "x.tar")
    with restarted(run, run / "live"), pytest.raises(BadInput, match="belongs to another log"):
        back_up(rich_folder, run / "live", tmp_path / "x.tar")
    with pytest.raises(BadFile, match="no folder"):
        back_up(run, run / "live", tmp_path / "nowhere" / "x.tar")
    assert not (tmp_path / "x.tar").exists()


def rewritten(file, change):
    """The backup with its members changed: name → bytes, in order."""
    with tarfile.open(file) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}
    change(members)
    with tarfile.open(file, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def manifest(**changes):
    def change(members):
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | changes).encode()

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.update({"live/events.db": m["live/events.db"][:-1] + b"x"}), "events.db is not what was written"),
        (lambda m: m.update({"run.json": m["run.json"] + b" "}), "run.json is not what was written"),
        (lambda m: m.pop("run.json"), "run.json is missing"),
        (lambda m: m.update({"more": b""}), "holds 'more', which its manifest does not name"),
        (lambda m: m.update({"../evil": b""}), "holds '../evil'"),
        (lambda m: m.pop("manifest.json"), "does not begin with a manifest"),
        (lambda m: m.update({"manifest.json": b"{"}), "is damaged"),
        (manifest(format=99), "newer pintgn"),
        (manifest(events=9), "does not hold what it says, 9 events: it has 260 events"),
        (manifest(files={}), "which its manifest does not name"),
    ],
)
def test_a_backup_that_is_damaged_is_not_restored(run_folder, columns, tmp_path, change, said):
    run = copied(run_folder, tmp_path, columns)
    file = tmp_path / "run.tar"
    back_up(run, run / "live", file)
    rewritten(file, change)
    with pytest.raises(BadFile, match=said) as found:
        restore(file, tmp_path / "back")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "back").exists()
    assert not list(tmp_path.glob(".restore*"))


@pytest.mark.parametrize(("folders", "deep"), [(31, False), (32, False), (33, True), (1_500, True)])
def test_a_path_in_a_backup_has_so_many_folders_and_no_more(run_folder, columns, tmp_path, folders, deep):
    assert module.DEEPEST == 32
    run = copied(run_folder, tmp_path, columns)
    file, name = tmp_path / "run.tar", "a/" * folders + "x"
    back_up(run, run / "live", file)

    def change(members):
        said = json.loads(members["manifest.json"])
        said["files"][name] = [0, hashlib.sha256(b"").hexdigest()]
        members["manifest.json"], members[name] = json.dumps(said).encode(), b""

    rewritten(file, change)
    if deep:
        with pytest.raises(BadFile, match="more than 32 folders deep") as found:
            restore(file, tmp_path / "back")
        assert len(str(found.value)) < 500
    else:
        assert restore(file, tmp_path / "back")["events"] == 260
        assert (tmp_path / "back" / name).exists()


def test_a_backup_and_what_is_made_of_it_are_their_owners_alone(run_folder, columns, tmp_path, permissive):
    run = copied(run_folder, tmp_path, columns, snapshot=400)
    file = tmp_path / "run.tar"
    back_up(run, run / "live", file)
    assert open_to_others(file) == []
    restore(file, tmp_path / "back")
    assert open_to_others(tmp_path / "back") == []


def test_a_file_that_is_no_backup_is_refused(tmp_path):
    for data in (b"", b"x" * 10_000):
        (tmp_path / "x.tar").write_bytes(data)
        with pytest.raises(BadFile, match="is no backup"):
            restore(tmp_path / "x.tar", tmp_path / "back")
    with pytest.raises(BadFile, match="there is no file"):
        restore(tmp_path / "y.tar", tmp_path / "back")
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(BadFile, match="a pipe"):
        restore(tmp_path / "pipe.tar", tmp_path / "back")
    with pytest.raises(BadInput, match="exists already"):
        restore(tmp_path / "x.tar", tmp_path)


def test_a_manifest_is_read_up_to_a_length(run_folder, columns, tmp_path, monkeypatch):
    run = copied(run_folder, tmp_path, columns)
    back_up(run, run / "live", tmp_path / "run.tar")
    with tarfile.open(tmp_path / "run.tar") as archive:
        size = archive.next().size
    for longest, whole in ((size - 1, False), (size, True), (size + 1, True)):
        monkeypatch.setattr(module, "LONGEST", longest)
        if whole:
            assert read_manifest(tmp_path / "run.tar")["events"] == 260
        else:
            with pytest.raises(BadFile, match="does not begin with a manifest"):
                read_manifest(tmp_path / "run.tar")
