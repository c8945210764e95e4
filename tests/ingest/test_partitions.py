"""A folder of Parquet files in partitions reads as the one file that they make together."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pintgn
from pintgn.errors import BadFile, BadInput, EventOrderError


def written(folder, name, t, **more):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    columns = {"src": [f"a{k % 3}" for k in t], "dst": [f"b{k % 4}" for k in t], "t": list(t)} | more
    pq.write_table(pa.table(columns), folder / name, row_group_size=4)


def test_partitions_are_read_in_the_order_of_their_times_whatever_they_are_called(tmp_path):
    written(tmp_path / "log", "day=zebra/part-0.parquet", range(0, 10))
    written(tmp_path / "log", "day=ant/part-1.parquet", range(20, 30))
    written(tmp_path / "log", "day=ant/part-0.parquet", range(10, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing had to be sorted
        log = pintgn.read_events(tmp_path / "log", cleaning=pintgn.Cleaning(sort=False))
    written(tmp_path, "one.parquet", range(30))
    assert log.t.tolist() == list(range(30))
    assert log.fingerprint == pintgn.read_events(tmp_path / "one.parquet").fingerprint


@pytest.mark.parametrize(("days", "kind"), [(("2", "10"), "number"), (("2024-01-02", "2024-01-10"), "text")])
def test_what_folders_say_is_a_column(tmp_path, days, kind):
    written(tmp_path, f"day={days[0]}/a.parquet", range(5))
    written(tmp_path, f"day={days[1]}/b.parquet", range(5, 12))
    log = pintgn.read_events(tmp_path, features=["day"])
    wanted = [[2.0]] * 5 + [[10.0]] * 7 if kind == "number" else [[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 7
    np.testing.assert_array_equal(log.features, wanted)


def test_the_folder_may_hold_the_time_itself(tmp_path):
    for day in ("2024-01-01", "2024-01-02"):
        (tmp_path / f"date={day}").mkdir()
        pq.write_table(pa.table({"src": ["a", "b"], "dst": ["c", "c"]}), tmp_path / f"date={day}" / "x.parquet")
    log = pintgn.read_events(tmp_path, t="date")
    assert (np.diff(log.t) != 0).tolist() == [False, True, False]


def test_parts_that_overlap_in_time_are_sorted_with_a_note_or_refused(tmp_path):
    written(tmp_path, "a/x.parquet", range(0, 20, 2))
    written(tmp_path, "b/x.parquet", range(1, 21, 2))
    with pytest.warns(pintgn.errors.PintgnWarning, match="sorted"):
        log = pintgn.read_events(tmp_path)
    assert log.t.tolist() == list(range(20))
    with pytest.raises(EventOrderError, match=r"x\.parquet"):
        pintgn.read_events(tmp_path, cleaning=pintgn.Cleaning(sort=False))


def test_files_that_others_keep_beside_are_left_out(tmp_path):
    written(tmp_path, "part.parquet", range(3))
    written(tmp_path, "_delta_log/old.parquet", range(3))
    written(tmp_path, ".tmp/half.parquet", range(3))
    assert len(pintgn.read_events(tmp_path)) == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadFile, match="has no Parquet files"):
        pintgn.read_events(tmp_path / "empty")


def test_partitions_of_different_kinds_are_refused_in_one_line(tmp_path):
    written(tmp_path, "day=1/x.parquet", range(3))
    written(tmp_path, "hour=1/x.parquet", range(3))
    with pytest.raises(BadInput, match=r"hour=1/x.parquet is in partitions by hour, day=1/x.parquet by day"):
        pintgn.read_events(tmp_path)
