"""Every kind of spoilt input ends in one clear line: what and where, and what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pintgn import Cleaning, Columns, FileFormat, read_events
from pintgn.errors import BadFile, BadInput, EventOrderError, PintgnError, PintgnWarning, UnknownName

FOLDER = Path(__file__).parent / "malformed"

CASES = {
    "missing_column.csv": (UnknownName, "missing_column.csv has no column 'src'. Did you mean 'sorce'?", {}),
    "no_header.csv": (
        UnknownName,
        "no_header.csv has no column 'src'. There are: '1', '2', '3'. The first line looks like data; if there is no "
        "header, name columns by position, from 0.",
        {},
    ),
    "empty.csv": (BadInput, "empty.csv is empty. An event file has at least one event.", {}),
    "blank.csv": (BadInput, "blank.csv is empty. An event file has at least one event.", {}),
    "header_only.csv": (BadInput, "header_only.csv has a header but no events.", {}),
    "no_rows.parquet": (BadInput, "no_rows.parquet has no events.", {}),
    "nan_time.csv": (BadInput, "line 3 has t=nan. Every event needs a finite time.", {}),
    "nan_time.parquet": (BadInput, "row 1 has t=nan. Every event needs a finite time.", {}),
    "infinite_time.csv": (BadInput, "line 4 has t=inf. Every event needs a finite time.", {}),
    "no_time.csv": (
        BadInput,
        "line 3 has no time: 't' is empty. Correct it, or pass Cleaning(skip_bad=True) (--skip-bad).",
        {},
    ),
    "no_time.parquet": (
        BadInput,
        "row 1 has no time: 't' is empty. Correct it, or pass Cleaning(skip_bad=True) (--skip-bad).",
        {},
    ),
    "words_for_time.csv": (
        BadInput,
        "line 3 has t='yesterday', neither a number nor an ISO-8601 date such as 2021-01-04T09:30:00Z. Correct it, "
        "or pass Cleaning(skip_bad=True) (--skip-bad).",
        {},
    ),
    "numbers_and_dates.csv": (
        BadInput,
        "line 3 has t='2020-01-01', unlike the rows before it: numbers and dates are mixed. Use one of the two.",
        {},
    ),
    "some_with_zone.csv": (
        BadInput,
        "line 3 has t='2020-01-01T11:00:00', without a time zone, unlike the rows before it. Write the zone in all "
        "rows or in none, or say where the others were written: FileFormat(assume_zone=…), as in "
        "--assume-zone Europe/Berlin.",
        {},
    ),
    "unsorted.csv": (
        EventOrderError,
        "line 3 has t=4, earlier than the event before it (t=5). Sort the events by time, or pass "
        "Cleaning(sort=True) (--sort).",
        {"cleaning": Cleaning(sort=False)},
    ),
    "nan_feature.csv": (
        BadInput,
        "line 3 has no amount; a feature must be a finite float32 number. Correct it, or pass Cleaning(fill=0)",
        {"features": ["amount"]},
    ),
    "no_feature.csv": (
        BadInput,
        "line 3 has no amount; a feature must be a finite float32 number. Correct it, or pass Cleaning(fill=0)",
        {"features": ["amount"]},
    ),
    "infinite_feature.csv": (
        BadInput,
        "line 3 has amount=-inf; a feature must be a finite float32 number. Correct it, or rescale the column.",
        {"features": ["amount"]},
    ),
    "huge_feature.csv": (
        BadInput,
        "line 3 has amount=1e+300; a feature must be a finite float32 number. Correct it, or rescale the column.",
        {"features": ["amount"]},
    ),
    "mixed_feature.csv": (
        BadInput,
        "line 3 has amount='twelve' in a column of numbers. Correct it, or say Columns(categorical=['amount']) "
        "(--categorical amount) if its values are names.",
        {"features": ["amount"]},
    ),
    "mixed_category.csv": (
        BadInput,
        "column 'kind' mixes numbers such as '7' with text such as 'red'. Correct it, or say "
        "Columns(categorical=['kind']) (--categorical kind) if they are all names.",
        {"features": ["kind"]},
    ),
    "null_id.csv": (BadInput, "line 3 has no src. Correct it, or pass Cleaning(skip_bad=True) (--skip-bad).", {}),
    "null_id.parquet": (BadInput, "row 1 has no src. Correct it, or pass Cleaning(skip_bad=True) (--skip-bad).", {}),
    "mixed_types.parquet": (
        BadInput,
        "ids in 'src' are whole numbers, ids in 'dst' are text. Pass bipartite=True (--bipartite) if they name "
        "different things, or cast both to text.",
        {},
    ),
    "ragged_row.csv": (
        BadInput,
        "line 3 of ragged_row.csv has 2 values where 3 are expected. Correct it (the delimiter is ','), "
        "or pass Cleaning(skip_bad=True) (--skip-bad).",
        {},
    ),
    "ragged_long_row.csv": (
        BadInput,
        "line 3 of ragged_long_row.csv has 4 values where 3 are expected. Correct it (the delimiter is ','), "
        "or pass Cleaning(skip_bad=True) (--skip-bad).",
        {},
    ),
    "open_quote.csv": (
        BadInput,
        "line 3 of open_quote.csv opens a quotation mark that is never closed, which would swallow every event after "
        "it. Correct it.",
        {},
    ),
    "latin_1.csv": (
        BadFile,
        "line 3 of latin_1.csv is not utf-8 text. Say how it is written, for example FileFormat(charset='latin-1') "
        "(--charset latin-1).",
        {},
    ),
    "utf_16.csv": (BadFile, "utf_16.csv is UTF-16 text. Pass FileFormat(charset='utf-16') (--charset utf-16).", {}),
    "duplicate_header.csv": (
        BadInput,
        "duplicate_header.csv has two columns called 'src' (numbers 0 and 3, from 0). Rename one, or give all names "
        "with names=[…] (and header=True).",
        {},
    ),
    "unknown_op.csv": (
        BadInput,
        "line 3 has op='delte'. Did you mean 'delete'? An op can also be 1, -1 or 0.",
        {"columns": Columns(op="op")},
    ),
    "no_op.csv": (BadInput, "line 3 has no op. Write add, delete, node or remove.", {"columns": Columns(op="op")}),
    "deletes_nothing.csv": (
        BadInput,
        "line 3 deletes 2 → 1, which was never added or is already gone. Correct it, or leave out "
        "Cleaning(strict=True) (--strict).",
        {"columns": Columns(op="op"), "cleaning": Cleaning(strict=True)},
    ),
    "node_event_of_two.csv": (
        BadInput,
        "line 3 is a node event but names two: '1' and '2'. Leave 'dst' empty.",
        {"columns": Columns(op="op")},
    ),
    "cut_off.csv.gz": (BadFile, "cut_off.csv.gz cannot be read as gzip to its end", {}),
    "excel.csv": (BadFile, "excel.csv is a zip file. Unpack it.", {}),
    "rows.json": (BadFile, "rows.json is not JSON", {}),
    "binary.csv": (BadFile, "binary.csv is not a text file. Events come as CSV or Parquet.", {}),
    "no_parquet": (BadFile, "no_parquet has no Parquet files. Name a file, or a folder that holds *.parquet.", {}),
    "unlike_parts": (BadInput, "b.parquet has no column 'dst', which a.parquet has.", {}),
    "truncated.parquet": (
        BadFile,
        "truncated.parquet is cut off or damaged: its Parquet footer is gone. Copy it again.",
        {},
    ),
    "not_parquet.parquet": (
        BadFile,
        "not_parquet.parquet is not a Parquet file. Give it the ending of what it is, such as .csv.",
        {},
    ),
    "not_there.csv": (BadFile, "not_there.csv.", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_malformed_files_end_in_one_clear_line(name):
    kind, message, options = CASES[name]
    with pytest.raises(PintgnError) as caught:
        read_events(FOLDER / name, **options)
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_file_of_the_folder_has_its_case():
    assert {path.name for path in FOLDER.iterdir()} | {"not_there.csv"} == set(CASES)


def test_a_file_name_that_is_nearly_right_is_suggested():
    with pytest.raises(BadFile, match="Did you mean 'unsorted.csv'"):
        read_events(FOLDER / "unsorte.csv")


@pytest.mark.parametrize("block", [1 << 22, 200])
def test_a_bad_value_far_down_is_found_and_named(tmp_path, monkeypatch, block):
    """The first rows suggest numbers; what contradicts them later is named, whatever the size of the batches."""
    monkeypatch.setattr("pintgn.ingest.textfile.BLOCK", block)
    monkeypatch.setattr("pintgn.ingest.textfile.SAMPLE", 150)
    good = [f"{k % 9},{k % 7},{k},{k / 8}" for k in range(3000)]

    def read(bad: str):
        (tmp_path / "long.csv").write_text("\n".join(["src,dst,t,w", *good, bad, "1,2,4000,0.5"]) + "\n")
        return read_events(tmp_path / "long.csv", features=["w"], cleaning=Cleaning(sort=False))

    assert len(read("1,2,3000,1")) == 3002
    assert read("1,2,3000.5,1").t.dtype == np.float64
    for bad, message in {
        "1,2,soon,1": "line 3002 has t='soon'",
        "1,2,2020-01-01,1": "line 3002 has t='2020-01-01', unlike the rows before it",
        "1,2,,1": "line 3002 has no time",
        "1,,3000,1": "line 3002 has no dst",
        "1,2,3000,lots": "line 3002 has w='lots' in a column of numbers",
        "1,2,3000,NA": "line 3002 has no w",
        "1,2,3000,1e99": "line 3002 has w=1e\\+99",
        "1,2,3000": "line 3002 of long.csv has 3 values",
        "1,2,17,1": r"line 3002 has t=17, earlier than the event before it \(t=2999\)",
    }.items():
        with pytest.raises(BadInput, match=message):
            read(bad)


def test_a_frame_with_mixed_types_names_the_row():
    frame = pd.DataFrame({"src": [1, "a"], "dst": [2, 3], "t": [0, 1]}, dtype=object)
    with pytest.raises(BadInput, match=r"row 1 has 'a' \(str\) in column 'src', where there was int before"):
        read_events(frame)


def test_types_may_not_change_between_batches(monkeypatch):
    monkeypatch.setattr("pintgn.ingest.table_source.BATCH", 2)
    data = {"src": [1, 2, "x", "y"], "dst": [1, 2, "x", "y"], "t": [0, 1, 2, 3]}
    with pytest.raises(BadInput, match="ids are text from row 2 on, but whole numbers before"):
        read_events(data)
    dates = {"src": [1] * 4, "dst": [2] * 4, "t": [0, 1, "2020-01-01", "2020-01-02"]}
    with pytest.raises(BadInput, match="row 2 has a date in 't', where there were numbers"):
        read_events(dates)


def test_frames_and_arrays_of_the_wrong_shape():
    with pytest.raises(BadInput, match="the columns of the dict have different lengths"):
        read_events({"src": [1, 2], "dst": [1], "t": [0, 1]})
    with pytest.raises(BadInput, match="an array needs named columns"):
        read_events(np.zeros((3, 3)))
    with pytest.raises(BadInput, match="two columns called 'a'"):
        read_events(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "t"]))
    with pytest.raises(BadInput, match="the table has two columns called 'a'"):
        read_events(pa.Table.from_arrays([pa.array([1])] * 3, names=["a", "a", "t"]))
    with pytest.raises(BadInput, match="'when' holds timestamp.*neither a number nor a category"):
        read_events({"src": [1], "dst": [2], "t": [3], "when": np.array([5], "datetime64[s]")}, features=["when"])


def test_things_that_are_no_table():
    for thing in (None, 5, [(1, 2, 3)], iter([1]), pd.Series([1, 2])):
        with pytest.raises(BadInput, match=f"events cannot be read from {type(thing).__name__}. Pass the path of"):
            read_events(thing)


def test_ids_that_pandas_made_floats_are_refused_with_the_way_out():
    frame = pd.DataFrame({"src": [1, 2, 3], "dst": [7, None, 8], "t": [0, 1, 2]})
    with pytest.raises(BadInput, match=r"'dst' are double.*missing \(row 1\).*skip_bad=True.*astype\('Int64'\)"):
        read_events(frame)
    with pytest.raises(BadInput, match="skip_bad=True"):  # where this batch has none that is missing
        read_events(frame.dropna())
    with pytest.raises(BadInput, match="'dst' are double; an id is"):
        read_events({"src": [1, 2], "dst": [1.5, None], "t": [0, 1]})
    assert read_events(frame.dropna().astype({"dst": "Int64"})).ids.decode().to_pylist() == [1, 7, 3, 8]


def test_skip_bad_turns_such_floats_back_into_whole_ids():
    frame = pd.DataFrame({"src": [1, 2, 3], "dst": [7, None, 8], "t": [0, 1, 2]})
    with pytest.warns(PintgnWarning, match="skipped 1 of 3 rows: 1 without 'dst'"):
        log = read_events(frame, cleaning=Cleaning(skip_bad=True, max_bad=1))
    assert log.ids.decode().to_pylist() == [1, 7, 3, 8]
    merged = {"src": [1, 2], "dst": [2.0**53, 2.0**53 + 2], "t": [0, 1]}  # two ids may have become one here
    with pytest.raises(BadInput, match="'dst' are double; an id is"):
        read_events(merged, cleaning=Cleaning(skip_bad=True))


def test_layouts_that_make_no_sense():
    good = FOLDER / "unsorted.csv"
    with pytest.raises(BadInput, match="a delimiter is one character"):
        read_events(good, format=FileFormat(delimiter="::"))
    with pytest.raises(BadInput, match="charset 'klingon' does not exist"):
        read_events(good, format=FileFormat(charset="klingon"))
    with pytest.raises(BadInput, match="2 names are given in names=, but unsorted.csv has 3 columns"):
        read_events(good, format=FileFormat(names=["a", "b"]))


def test_a_text_with_far_too_many_values_is_no_category(monkeypatch):
    monkeypatch.setattr("pintgn.ingest.feature_columns.MOST_CATEGORIES", 5)
    data = {"src": range(9), "dst": range(9), "t": range(9), "note": [f"note {k}" for k in range(9)]}
    with pytest.raises(BadInput, match="'note' has more than 5 different values"):
        read_events(data, features=["note"])
