"""Logs that are mapped instead of read: restored exactly, refused when damaged, readable by others, not copied."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pintgn import NODE, Columns, EventLog, Run, fit, read_events, simulate, write_events
from pintgn.cli.app import app
from pintgn.errors import BadFile
from pintgn.events import mapped
from pintgn.events.ids import IdMap
from pintgn.events.seal import seal
from pintgn.events.store import saved_schema
from pintgn.learn.fit import resume
from tests.events.test_store import rich
from tests.learn.helpers import QUICK, random_log


def saved(log, tmp_path):
    log.save(tmp_path / "log.arrow")
    return EventLog.open(tmp_path / "log.arrow")


@pytest.mark.parametrize("bipartite", [False, True])
def test_a_rich_log_and_its_cuts_are_restored_exactly(tmp_path, bipartite):
    log = rich(bipartite=bipartite)
    for part in (log, log[100:250], log[7:7], log.between(log.t[50], log.t[90]), log.where(log.op == NODE)):
        again = saved(part, tmp_path)
        assert again == part
        assert again.first == part.first
        assert again.t.dtype == part.t.dtype
        assert again.label.dtype == part.label.dtype
        assert again.fingerprint == part.fingerprint
        assert saved_schema(tmp_path / "log.arrow") == part.schema


@pytest.mark.parametrize(
    "ids",
    [
        None,
        pa.array([5, 3, -1]),
        pa.array([2**64 - 1, 0, 1], pa.uint64()),
        pa.array(["007", "7", "ü"]),
        pa.array(["a", "b", "c"], pa.large_string()),
        pa.array([b"0123456789abcdef", b"fedcba9876543210", b"0" * 16], pa.binary(16)),
        pa.array(["same", "same", ""]),
    ],
)
@pytest.mark.parametrize("label", [None, [True, False, True], [1.5, np.nan, 2]])
def test_ids_and_labels_of_any_type_are_restored(tmp_path, ids, label):
    given = None if ids is None else IdMap(ids)
    log = EventLog([0, 1, 2], [1, 2, 2], [1.5, 2.5, 3.5], ids=given, label=None if label is None else np.array(label))
    again = saved(log, tmp_path)
    assert again == log
    assert again.ids.type == log.ids.type
    assert again.label is None or again.label.dtype == log.label.dtype


def test_columns_are_mapped_and_not_copied(tmp_path):
    log = saved(simulate("shop", events=500), tmp_path)
    held = pa.total_allocated_bytes()
    again = EventLog.open(tmp_path / "log.arrow")
    assert pa.total_allocated_bytes() - held < again.src.nbytes  # what Arrow allocated, the file aside
    for column in (again.src, again.dst, again.t):
        assert not column.flags.owndata
        assert not column.flags.writeable
    assert again == log


def test_other_programs_see_the_users_ids(tmp_path):
    log = rich()
    log.save(tmp_path / "log.arrow")
    table = pa.ipc.open_file(tmp_path / "log.arrow").read_all()
    assert table["src"].to_pylist() == log.ids.decode(log.src).to_pylist()
    assert table["t"].cast(pa.int64()).to_pylist() == log.t.tolist()


def test_a_saved_file_is_read_as_it_is_or_by_its_columns(tmp_path):
    log = rich()
    write_events(log, tmp_path / "log.arrow")
    assert read_events(tmp_path / "log.arrow") == log
    assert read_events(tmp_path / "log.arrow", "who", "whom", "when") == log
    plain = read_events(tmp_path / "log.arrow", "who", "whom", "when", columns=Columns(op="what"))
    assert plain.features is None
    assert plain.t.tolist() == log.t.tolist()
    found = CliRunner().invoke(app, ["data", "convert", str(tmp_path / "log.arrow"), "-o", str(tmp_path / "b.parquet")])
    assert found.exit_code == 0, found.stderr
    assert EventLog.open(tmp_path / "b.parquet") == log


def test_any_flipped_or_lost_byte_is_found(tmp_path):
    log = rich(60)
    path = tmp_path / "log.arrow"
    log.save(path)
    good = path.read_bytes()
    for place in {*range(0, len(good), 211), *range(len(good) - 14, len(good))}:
        bad = bytearray(good)
        bad[place] ^= 4
        path.write_bytes(bad)
        with pytest.raises(BadFile) as error:
            EventLog.open(path)
        assert "\n" not in str(error.value)
    for bad in (good[:-1], good[: len(good) // 2], good + b"\0", good[:8] + good[9:]):
        path.write_bytes(bad)
        with pytest.raises(BadFile):
            EventLog.open(path)
    path.write_bytes(good)
    assert EventLog.open(path) == log


def test_what_a_sealed_file_says_is_not_trusted(tmp_path, monkeypatch):
    log, path = random_log(), tmp_path / "log.arrow"
    wrong = EventLog.trusted({"src": log.src + 10**6, "dst": log.dst.copy(), "t": log.t.copy()}, log.ids, log.schema)
    wrong.save(path)
    with pytest.raises(Exception, match="only") as error:
        EventLog.open(path)
    assert "\n" not in str(error.value)
    monkeypatch.setattr(mapped, "FORMAT", 2)
    log.save(path)
    monkeypatch.undo()
    with pytest.raises(BadFile, match="newer"):
        EventLog.open(path)


def test_an_arrow_file_of_others_is_refused_with_what_helps(tmp_path):
    table = pa.table({"src": [1], "dst": [2], "t": [3]})
    with pa.ipc.new_file(tmp_path / "theirs.arrow", table.schema) as writer:
        writer.write_table(table)
    for read in (EventLog.open, read_events):
        with pytest.raises(BadFile, match="Arrow file of others. Read it with pyarrow, and pass the table"):
            read(tmp_path / "theirs.arrow")
    seal(tmp_path / "theirs.arrow")  # sealed, and still no log
    with pytest.raises(BadFile, match="damaged"):
        EventLog.open(tmp_path / "theirs.arrow")


@pytest.mark.learning
@pytest.mark.parametrize(("offset", "name"), [(-1, "parquet"), (0, "arrow"), (1, "arrow")])
def test_a_run_on_many_events_keeps_its_log_mapped(tmp_path, monkeypatch, offset, name):
    log = random_log()
    monkeypatch.setattr("pintgn.learn.run.MAPPED", len(log) - offset)
    run = fit("edgebank", log, folder=tmp_path / "run", **QUICK)
    assert run.folder.events.name == f"events.{name}"
    again = Run.open(tmp_path / "run")
    assert again.log == log
    assert again.test == run.test
    assert resume(tmp_path / "run").finished
    found = CliRunner().invoke(app, ["data", "info", str(tmp_path / "run"), "--json"])
    assert json.loads(found.stdout)["events"] == len(log)
    (run.folder.events).write_bytes(b"")
    with pytest.raises(BadFile, match="is damaged"):
        Run.open(tmp_path / "run")
