"""Saving and opening restores a log exactly; other programs can read the file; text keeps every digit."""

from __future__ import annotations

import csv as python_csv
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn import NODE, Columns, EventLog, read_events, write_events
from pintgn.errors import BadFile, BadInput
from pintgn.events.ids import IdMap
from pintgn.events.schema import Feature, Schema, TimeUnit


def rich(count: int = 400, **options) -> EventLog:
    """A log with everything that a log can have."""
    rng = np.random.default_rng(1)
    op = rng.choice(["add", "add", "delete", "node"], count)
    src, dst = (np.array([f"n{v}" for v in rng.integers(0, 40, count)], object) for _ in range(2))
    dst[op == "node"] = None
    data = {
        "who": src,
        "whom": dst,
        "when": np.sort(rng.integers(1_600_000_000, 1_600_000_900, count)).astype("datetime64[s]"),
        "what": op,
        "w": rng.normal(size=count),
        "kind": rng.choice(["x", "y", "z", ""], count),
        "code": rng.integers(5, 9, count),
        "flag": rng.random(count) < 0.5,
        "y": rng.integers(0, 2, count),
        "u0": rng.normal(size=count),
        "u1": rng.normal(size=count),
    }
    sides = {"side": ["src"] * 42} if options.get("bipartite") else {}
    nodes = {"id": [f"n{v}" for v in range(40)] + ["lonely", 'ä,"b\n'], "x": rng.normal(size=42)} | sides
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # destinations are not in the table
        return read_events(
            data, "who", "whom", "when", features=["w", "kind", "code", "flag"], label="y",
            columns=Columns("what", ["u0", "u1"], nodes, categorical=["code"], encoding={"code": "code"}), **options,
        )  # fmt: skip


def saved(log: EventLog, tmp_path) -> EventLog:
    log.save(tmp_path / "log.parquet")
    return EventLog.open(tmp_path / "log.parquet")


@pytest.mark.parametrize("bipartite", [False, True])
def test_a_rich_log_and_its_cuts_are_restored_exactly(tmp_path, bipartite):
    log = rich(bipartite=bipartite)
    assert log.nodes > 41
    for part in (log, log[100:250], log[7:7], log.between(log.t[50], log.t[90]), log.where(log.op == NODE)):
        again = saved(part, tmp_path)
        assert again == part
        assert again.first == part.first
        assert again.t.dtype == part.t.dtype
        assert again.label.dtype == part.label.dtype


def test_reading_a_saved_file_restores_it_unless_columns_are_named(tmp_path):
    log = rich()
    log.save(tmp_path / "log.parquet")
    assert read_events(tmp_path / "log.parquet") == log
    assert read_events(str(tmp_path / "log.parquet"), "who", "whom", "when") == log
    plain = read_events(tmp_path / "log.parquet", "who", "whom", "when", columns=Columns(op="what"))
    assert plain.features is None
    assert len(plain) == len(log)


def test_any_reader_sees_the_users_own_columns(tmp_path):
    log = rich()
    log.save(tmp_path / "log.parquet")
    frame = pd.read_parquet(tmp_path / "log.parquet")
    assert list(frame) == ["who", "whom", "when", "what", "y", "w", "kind", "code", "flag", "u0", "u1"]
    assert frame.who.tolist() == log.ids.decode(log.src).to_pylist()
    assert frame.when.dt.as_unit("s").astype("int64").tolist() == log.t.tolist()
    assert set(frame.kind.dropna()) == {"x", "y", "z"}
    assert frame.u0.notna().sum() == len(log.node_updates)
    metadata = pq.read_schema(tmp_path / "log.parquet").metadata
    assert all(value.decode() for value in metadata.values())  # UTF-8, which some readers demand


@pytest.mark.parametrize(
    "ids",
    [
        None,
        pa.array([5, 3, -1]),
        pa.array([5, 3, 7], pa.int32()),
        pa.array([2**64 - 1, 0, 1], pa.uint64()),
        pa.array(["007", "7", "ü"]),
        pa.array(["a", "b", "c"], pa.large_string()),
        pa.array([b"0123456789abcdef", b"fedcba9876543210", b"0" * 16], pa.binary(16)),
        pa.array([0.5, 1.5, 2.5]),
        pa.array(["same", "same", ""]),
    ],
)
def test_hand_made_ids_of_any_type_are_restored(tmp_path, ids):
    log = EventLog([0, 1, 2], [1, 2, 2], [1, 2, 3], ids=None if ids is None else IdMap(ids))
    again = saved(log, tmp_path)
    assert again == log
    assert again.ids.type == log.ids.type


def test_two_name_spaces_used_across_are_restored(tmp_path):
    ids = IdMap(pa.array(["a", "a", "b"]), np.array([0, 1, 1]))
    for dst in ([1, 2, 1], [0, 2, 1]):  # in the second a source is a destination
        log = EventLog([0, 0, 0], dst, [1, 2, 3], ids=ids)
        assert saved(log, tmp_path) == log


@pytest.mark.parametrize(
    "label", [[0, 1, 0], [0.5, np.nan, 1], [True, False, True], ["a", "bb", ""], np.array([1, 2, 3], "int8")]
)
def test_labels_of_any_type_are_restored(tmp_path, label):
    log = EventLog([0, 1, 2], [1, 2, 2], [1, 2, 3], label=np.asarray(label))
    again = saved(log, tmp_path)
    assert again == log
    assert again.label.dtype == log.label.dtype


def test_features_that_are_no_encoding_of_their_categories_are_restored(tmp_path):
    schema = Schema(features=(Feature("k", "onehot", ("a", "b")), Feature("c", "code", ("a",)), Feature("t")))
    log = EventLog([0, 1], [1, 0], [1, 2], features=[[0.5, 2, 7, 1], [1, 0, 1, 2]], schema=schema)
    assert saved(log, tmp_path) == log
    twice = Schema(features=(Feature("k", "onehot", (1, "1")), Feature("e", "onehot", ("", "x"))))
    log = EventLog([0, 1], [1, 0], [1, 2], features=[[0, 1, 1, 0], [1, 0, 0, 1]], schema=twice)
    assert saved(log, tmp_path) == log


@pytest.mark.parametrize(
    ("unit", "zone"), [("s", None), ("ms", "UTC"), ("us", "Europe/Berlin"), ("ns", "+05:30"), (None, None)]
)
def test_times_in_any_unit_and_zone_are_restored(tmp_path, unit, zone):
    # Parquet has no seconds, so they pass through milliseconds
    t = np.array([-5, 0, 1_600_000_000_123_456_789 // {"s": 10**9, "ms": 10**6, "us": 10**3}.get(unit, 1)])
    log = EventLog([0, 1, 0], [1, 0, 1], t, schema=Schema(time=TimeUnit(unit, zone)))
    assert saved(log, tmp_path) == log
    if zone != "Europe/Berlin":
        write_events(log, tmp_path / "log.csv")
        assert read_events(tmp_path / "log.csv") == log


def test_dates_that_text_cannot_write_are_refused(tmp_path):
    log = EventLog([0], [1], [2**60], schema=Schema(time=TimeUnit("ms")))
    assert saved(log, tmp_path) == log
    with pytest.raises(BadInput, match="beyond the years 0 to 9999"):
        write_events(log, tmp_path / "log.csv")


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.floats(-3e18, 3e18), min_size=1, max_size=8),
    names=st.lists(
        st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1).filter(
            lambda name: name.strip() == name and not name.lstrip("-").isdecimal() and name.isprintable()
        ),
        min_size=2,
        max_size=5,
        unique=True,
    ),
)
def test_any_times_and_names_survive_parquet_and_csv(tmp_path_factory, times, names):
    folder = tmp_path_factory.mktemp("any")
    t = np.sort(np.array(times))
    log = read_events({"src": [names[k % len(names)] for k in range(len(t))], "dst": [names[0]] * len(t), "t": t})
    assert saved(log, folder) == log
    write_events(log, folder / "log.csv")
    again = read_events(folder / "log.csv")
    assert again.t.tolist() == t.tolist()
    assert again.ids == log.ids


def test_text_is_what_python_reads_too(tmp_path):
    log = rich()
    write_events(log, tmp_path / "log.csv")
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(python_csv.DictReader(file))
    assert len(rows) == len(log)
    assert [row["who"] for row in rows] == log.ids.decode(log.src).to_pylist()
    again = read_events(
        tmp_path / "log.csv", "who", "whom", "when", features=["w", "kind", "code", "flag"], label="y",
            columns=Columns("what", ["u0", "u1"], categorical=["code"], encoding={"code": "code"}),
    )  # fmt: skip
    for name in ("src", "dst", "t", "op", "label", "features", "node_updates"):
        assert np.array_equal(getattr(again, name), getattr(log, name)), name


def test_whole_days_are_written_as_dates(tmp_path):
    log = read_events({"src": [1, 2], "dst": [2, 1], "t": ["2020-01-01", "2020-02-01"]})
    write_events(log, tmp_path / "days.tsv")
    assert (tmp_path / "days.tsv").read_text() == "src\tdst\tt\n1\t2\t2020-01-01\n2\t1\t2020-02-01\n"
    assert read_events(tmp_path / "days.tsv") == log


def test_columns_of_one_name_are_kept_apart(tmp_path):
    log = read_events({"src": [1, 2], "dst": [2, 1], "t": [0.5, 1.5], "y": [3, 4]}, features=["y", "t"], label="y")
    again = saved(log, tmp_path)
    assert again == log
    assert log.to_table().column_names == ["src", "dst", "t", "y", "y_2", "t_2"]


def test_a_table_has_the_users_terms():
    log = read_events({"a": ["x"], "b": ["y"], "t": [1], "k": ["red"]}, "a", "b", features=["k"])
    assert log.to_table().to_pydict() == {"a": ["x"], "b": ["y"], "t": [1], "k": ["red"]}
    assert log[:0].to_table().schema == log.to_table().schema


def test_nothing_is_left_of_a_write_that_fails(tmp_path, monkeypatch):
    log = rich()
    log.save(tmp_path / "log.parquet")
    before = (tmp_path / "log.parquet").read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pintgn.events.table.Layout.batches", fail)
    with pytest.raises(OSError, match="disk full"):
        log.save(tmp_path / "log.parquet")
    with pytest.raises(OSError, match="disk full"):
        write_events(log, tmp_path / "log.csv")
    assert (tmp_path / "log.parquet").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_places_that_cannot_be_written_to(tmp_path):
    log = rich(20)
    with pytest.raises(BadFile, match="there is no folder"):
        log.save(tmp_path / "nowhere" / "log.parquet")
    with pytest.raises(BadFile, match="is a folder; name a file"):
        log.save(tmp_path)
    with pytest.raises(BadInput, match=r"log.cvs ends in nothing that pintgn can write. Did you mean '.csv'"):
        write_events(log, tmp_path / "log.cvs")


def test_files_that_are_no_saved_log(tmp_path):
    with pytest.raises(BadFile, match="there is no file"):
        EventLog.open(tmp_path / "log.parquet")
    with pytest.raises(BadFile, match="is a folder; a saved log is one file"):
        EventLog.open(tmp_path)
    pq.write_table(pa.table({"src": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadFile, match="was not saved by pintgn. Use pintgn.read_events"):
        EventLog.open(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("src,dst,t\n")
    with pytest.raises(BadFile, match="is not a Parquet file"):
        EventLog.open(tmp_path / "text.parquet")


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "log.parquet"
    log = rich()
    log.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadFile, match="is cut off or damaged"):
        EventLog.open(path)
    log.save(path)
    table = pq.read_table(path)
    told = json.loads(table.schema.metadata[b"pintgn"])
    for change, message in (
        ({b"pintgn": b"{}"}, "the metadata of log.parquet is damaged: it has no 'format'"),
        ({b"pintgn.nodes": b"!!"}, "log.parquet is damaged: Error"),
        ({b"pintgn": json.dumps(told | {"format": 99}).encode()}, "written by a newer pintgn"),
        ({b"pintgn": json.dumps(told | {"format": 1}).encode()}, "written by an older pintgn"),
        ({b"pintgn": json.dumps(told | {"events": 3}).encode()}, "was changed after pintgn saved it"),
    ):
        pq.write_table(table.replace_schema_metadata(table.schema.metadata | change), path)
        with pytest.raises(BadFile, match=message):
            EventLog.open(path)


def test_wide_features_are_opened_without_being_held_twice(tmp_path):
    """In a process of its own: what opening takes at its peak, against what the log takes."""
    rng = np.random.default_rng(0)
    count, width = 40_000, 200
    wide = EventLog(
        rng.integers(0, 99, count), rng.integers(0, 99, count), np.arange(count),
        features=rng.normal(size=(count, width)).astype(np.float32),
    )  # fmt: skip
    wide.save(tmp_path / "wide.parquet")
    assert (tmp_path / "wide.parquet").stat().st_size < 1.05 * wide.features.nbytes
    wide[:1000].save(tmp_path / "warm.parquet")
    code = (
        "import resource, sys, pintgn\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "pintgn.EventLog.open('warm.parquet')\n"
        "before = peak()\n"
        "log = pintgn.EventLog.open('wide.parquet')\n"
        "print((peak() - before) / log.features.nbytes)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(result.stdout) < 2
    assert EventLog.open(tmp_path / "wide.parquet") == wide
