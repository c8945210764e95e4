"""Tables as they come: bad rows, repeats, decimal commas, comments, zones, text in node tables."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pintgn import Cleaning, Columns, EventLog, FileFormat, read_events, write_events
from pintgn.errors import BadInput, EventOrderError, PintgnWarning, UnknownName
from pintgn.events.categories import BITS, category_codes, from_signs, hashes, signs
from pintgn.ingest import textfile
from pintgn.ingest.encode import encode_features


@pytest.fixture
def csv(tmp_path):
    def write(text: str, name: str = "events.csv") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def noted(source, *arguments, **options):
    """A log, and the notes that came with it."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", PintgnWarning)
        log = read_events(source, *arguments, **options)
    return log, [str(note.message) for note in notes]


def ids(log: EventLog) -> list:
    return log.ids.decode().to_pylist()


# --- bad rows -------------------------------------------------------------------------------------------------

ROWS = [
    ("ann", "x", "2024-01-01T10:00", "1.5"),
    ("", "x", "2024-01-01T11:00", "1"),
    ("bob", "y", "2024-01-01T12:00", "2"),
    ("bob", "", "2024-01-01T12:00", "2"),
    ("cay", "x", "soon", "2"),
    ("cay", "x", "", "2"),
    ("cay", "x", "2024-01-01T13:00", "lots"),
    ("cay", "x", "2024-01-01T13:00", ""),
    ("dan", "z", "2024-01-01T14:00", "1e99"),
    ("ann", "y", "2024-01-01T15:00", "7"),
]
HEAD = ("who", "what", "when", "amount")
OPTIONS = {"features": ["amount"], "cleaning": Cleaning(skip_bad=True, max_bad=0.9)}


def dirty(csv, *more: str) -> str:
    return csv("\n".join([",".join(HEAD), *(",".join(row) for row in ROWS), *more]) + "\n")


def test_bad_rows_are_skipped_counted_and_named(csv):
    log, notes = noted(dirty(csv, "too,short", "eve,z,2024-01-01T16:00,1,extra,values"), *HEAD[:3], **OPTIONS)
    assert ids(log) == ["ann", "x", "bob", "y"]
    assert log.features.ravel().tolist() == [1.5, 2, 7]
    (note,) = notes
    assert note.startswith("skipped 9 of 12 rows: 2 with another number of values than 4 (line 12, line 13); ")
    for part in (
        "1 without 'who' (line 3)",
        "1 without 'what' (line 5)",
        "1 with no time in 'when' (line 6: 'soon')",
        "1 without 'when' (line 7)",
        "1 with no number in 'amount' (line 8: 'lots')",
        "1 without 'amount' (line 9)",
        "1 with too large a number in 'amount' (line 10: '1e99')",
    ):
        assert part in note


@pytest.mark.parametrize("block", [64, 1 << 22])
def test_what_is_left_is_what_a_clean_file_has(csv, monkeypatch, block, tmp_path):
    monkeypatch.setattr(textfile, "BLOCK", block)
    log, _ = noted(dirty(csv, "too,short"), *HEAD[:3], **OPTIONS)
    good = [",".join(ROWS[k]) for k in (0, 2, 9)]
    assert log == read_events(
        csv("\n".join([",".join(HEAD), *good]) + "\n", "clean.csv"), *HEAD[:3], features=["amount"]
    )


def test_bad_rows_of_tables_and_json_are_skipped_too(tmp_path):
    frame = pd.DataFrame({"src": ["a", None, "b", "c"], "dst": ["x", "x", None, "y"], "t": [1.0, 2.0, 3.0, np.nan]})
    for source in (frame, pa.Table.from_pandas(frame)):
        log, (note,) = noted(source, cleaning=Cleaning(skip_bad=True, max_bad=3))
        assert len(log) == 1
        assert "1 without 'src' (row 1)" in note
        assert "(row 3)" in note
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "events.parquet")
    assert len(noted(tmp_path / "events.parquet", cleaning=Cleaning(skip_bad=True, max_bad=3))[0]) == 1
    rows = [
        json.dumps({"src": "a", "dst": "x", "t": 1}),
        "{half",
        "[1, 2]",
        json.dumps({"src": "b", "dst": "y", "t": 2}),
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(rows) + "\n")
    log, (note,) = noted(tmp_path / "events.jsonl", cleaning=Cleaning(skip_bad=True, max_bad=0.5))
    assert ids(log) == ["a", "x", "b", "y"]
    assert note == "skipped 2 of 4 rows: 2 that are no objects ('{half', '[1, 2]')."


def test_more_bad_rows_than_allowed_are_an_error_that_counts_them(csv):
    for most in (0.1, 0.69, 6):
        with pytest.raises(BadInput, match=r"^7 of 10 rows cannot be used, more than the .*--max-bad 7\.$"):
            read_events(dirty(csv), *HEAD[:3], features=["amount"], cleaning=Cleaning(skip_bad=True, max_bad=most))
    for most in (0.7, 7):
        assert (
            len(noted(dirty(csv), *HEAD[:3], features=["amount"], cleaning=Cleaning(skip_bad=True, max_bad=most))[0])
            == 3
        )
    with pytest.raises(BadInput, match="max_bad=-1"):
        read_events(dirty(csv), *HEAD[:3], cleaning=Cleaning(skip_bad=True, max_bad=-1))


def test_a_clean_file_is_read_alike_and_without_a_note(csv):
    path = csv("src,dst,t,w\n" + "".join(f"{k % 7},{k % 5},{k},{k / 4}\n" for k in range(500)))
    log, notes = noted(path, features=["w"], cleaning=Cleaning(skip_bad=True))
    assert not notes
    assert log == read_events(path, features=["w"])


def test_a_row_after_skipped_ones_is_still_named_by_its_line(csv):
    path = csv("src,dst,t\n1,2,1\n,2,2\nshort\n1,2,3\n3,,4\n1,2,2\n")
    with pytest.raises(EventOrderError, match=r"^line 7 has t=2, earlier than the event before it \(t=3\)"):
        read_events(path, cleaning=Cleaning(skip_bad=True, max_bad=0.9, sort=False))


def test_a_spoilt_first_value_makes_no_categories_of_numbers(csv):
    path = csv("src,dst,t,w\n1,2,1,oops\n" + "".join(f"1,2,{k},{k}\n" for k in range(2, 30)))
    log, (note,) = noted(path, features=["w"], cleaning=Cleaning(skip_bad=True))
    assert log.schema.feature_columns() == ["w"]
    assert len(log) == 28
    assert "line 2: 'oops'" in note


def test_ops_say_which_ends_a_row_needs(csv):
    path = csv("src,dst,t,op,load\na,b,1,add,\na,,2,add,\nb,,3,node,0.5\nb,,4,node,\n,,5,remove,\na,b,6,what,\n")
    log, (note,) = noted(
        path, columns=Columns(op="op", node_updates=["load"]), cleaning=Cleaning(skip_bad=True, max_bad=0.9)
    )
    assert log.op.tolist() == [1, 0]
    for part in ("1 without 'dst' (line 3)", "1 without 'load' (line 5)", "(line 7: 'what')"):
        assert part in note


# --- order and repeats ----------------------------------------------------------------------------------------


def test_unsorted_events_are_sorted_with_a_note():
    late = {"src": ["a", "b", "c"], "dst": ["b", "c", "a"], "t": [3, 1, 3]}
    log, (note,) = noted(late)
    assert log == read_events(late, cleaning=Cleaning(sort=True))
    assert note == "row 1 has t=1, earlier than the event before it (t=3): the events were sorted by time."


def test_the_note_on_order_comes_once_though_a_file_is_read_twice(csv, monkeypatch):
    monkeypatch.setattr(textfile, "SAMPLE", 64)
    path = csv("src,dst,t,w\n" + "".join(f"1,2,{k},1\n" for k in (5, 4, *range(6, 60))) + "1,2,99,1 000\n")
    log, notes = noted(path, features=["w"])
    assert log.features[-1] == 1000
    assert len(notes) == 1


def test_repeated_rows_are_dropped_on_demand():
    data = {
        "src": [1, 1, 1, 1, 2, 1],
        "dst": [2, 2, 2, 2, 2, 2],
        "t": [0, 0, 0, 1, 1, 0],
        "w": [1.0, 1.0, 2.0, 1.0, 1.0, 1.0],
        "y": [0, 0, 0, 0, 0, 1],
    }
    log, (note,) = noted(data, features=["w"], cleaning=Cleaning(drop_duplicates=True, sort=True))
    assert log.t.tolist() == [0, 0, 1, 1]
    assert log.features.ravel().tolist() == [1, 2, 1, 1]
    assert note == "dropped 2 of 6 events, which are equal to an earlier one."
    assert len(noted(data, features=["w"], label="y", cleaning=Cleaning(drop_duplicates=True, sort=True))[0]) == 5
    assert len(noted(data, cleaning=Cleaning(drop_duplicates=True, sort=True))[0]) == 3
    assert len(read_events(data, cleaning=Cleaning(sort=True))) == 6


def test_repeats_are_those_that_statistics_count(tmp_path):
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, 4, 300) for name in ("src", "dst", "t", "w")} | {"op": rng.choice([1, -1], 300)}
    whole = read_events(data, features=["w"], columns=Columns(op="op"), cleaning=Cleaning(sort=True))
    log, _ = noted(data, features=["w"], columns=Columns(op="op"), cleaning=Cleaning(sort=True, drop_duplicates=True))
    assert len(whole) - len(log) == whole.statistics().exact_repeats
    assert log.statistics().exact_repeats == 0
    whole.save(tmp_path / "log.parquet")
    assert noted(tmp_path / "log.parquet", cleaning=Cleaning(drop_duplicates=True))[0] == log


# --- zones ----------------------------------------------------------------------------------------------------


def zoned(*texts, **options):
    rows = {"src": [1] * len(texts), "dst": [2] * len(texts), "t": list(texts)}
    return read_events(rows, **options)


def test_times_without_a_zone_are_in_the_one_that_is_assumed():
    log = zoned(
        "2024-01-01T12:00", "2024-01-01T12:30+01:00", "2024-07-01T12:00", format=FileFormat(assume_zone="Europe/Berlin")
    )
    expected = zoned("2024-01-01T11:00Z", "2024-01-01T11:30Z", "2024-07-01T10:00Z")
    assert log.t.tolist() == expected.t.tolist()
    assert log.schema.time.zone == "UTC"
    alone = zoned("2024-01-01T12:00", "2024-01-02", format=FileFormat(assume_zone="Europe/Berlin"))
    assert alone.schema.time.zone == "Europe/Berlin"
    assert alone.schema.time.show(alone.t[0]) == "2024-01-01 12:00:00+01:00"
    fixed = zoned("2024-01-01T12:00", format=FileFormat(assume_zone="+02:00"))
    assert fixed.t.tolist() == zoned("2024-01-01T10:00Z").t.tolist()
    stamps = pd.to_datetime(pd.Series(["2024-01-01T12:00"]))
    typed = read_events(
        pd.DataFrame({"src": [1], "dst": [2], "t": stamps}), format=FileFormat(assume_zone="Europe/Berlin")
    )
    assert np.datetime64(int(typed.t[0]), typed.schema.time.unit) == np.datetime64("2024-01-01T11:00")
    german = zoned("01.07.2024 12:00", format=FileFormat(time_format="%d.%m.%Y %H:%M", assume_zone="Europe/Berlin"))
    assert german.t.tolist() == zoned("2024-07-01T10:00Z").t.tolist()


def test_hours_that_a_zone_has_twice_or_not_at_all_are_read():
    twice = zoned("2024-10-27T02:30", format=FileFormat(assume_zone="Europe/Berlin"))
    assert twice.t.tolist() == zoned("2024-10-27T00:30Z").t.tolist()
    never = zoned("2024-03-31T02:30", format=FileFormat(assume_zone="Europe/Berlin"))
    assert never.t.tolist() == zoned("2024-03-31T01:00Z").t.tolist()


def test_later_files_and_questions_take_the_assumed_zone(tmp_path):
    log = zoned("2024-07-01T12:00", format=FileFormat(assume_zone="Europe/Berlin"))
    log.save(tmp_path / "log.parquet")
    for known in (log, EventLog.open(tmp_path / "log.parquet")):
        later = zoned("2024-07-02T12:00", like=known)
        assert later.t[0] - log.t[0] == 86_400
        assert known.time("2024-07-01") == log.t[0] - 12 * 3600
        assert known.time("2024-07-01T12:00+02:00") == log.t[0]
        assert known.time(np.datetime64("2024-07-01T12:00")) == log.t[0]


def test_zones_that_make_no_sense_are_refused():
    for zone, message in {
        "Berlin": "there is no time zone 'Berlin'. Did you mean 'Europe/Berlin'",
        "Nowhere/At all": "Write it as Europe/Berlin or",
        "+99:00": "there is no time zone",
    }.items():
        with pytest.raises(BadInput, match=message):
            zoned("2024-01-01", format=FileFormat(assume_zone=zone))
    with pytest.raises(BadInput, match="are numbers, which have no time zone"):
        zoned(1, 2, format=FileFormat(assume_zone="UTC"))
    with pytest.raises(BadInput, match="counts since 1970 UTC"):
        zoned(1, 2, format=FileFormat(assume_zone="UTC", time_format="s"))
    with pytest.raises(BadInput, match="as in --assume-zone Europe/Berlin"):
        zoned("2024-01-01T12:00", "2024-01-01T12:30+01:00")


# --- numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "decimal", "numbers"),
    [
        (["12.50", "-3", "1,200.50"], None, [12.5, -3, 1200.5]),
        (["12,5", "1.200,50", "1.200", "-3"], ",", [12.5, 1200.5, 1200, -3]),
        (["1,200", "12.5", "1,234,567.25"], ".", [1200, 12.5, 1234567.25]),
        (["1 200", "1\u00a0200,5", "3"], ",", [1200, 1200.5, 3]),
        (["1'200.50", "7"], None, [1200.5, 7]),
        (["1,5e3", "2"], ",", [1500, 2]),
        (["5", "NA", "1,5"], ",", [5, 0, 1.5]),
    ],
)
def test_amounts_are_read_as_people_write_them(csv, texts, decimal, numbers):
    rows = "".join(f"1;2;{k};{text}\n" for k, text in enumerate(texts))
    log = read_events(
        csv("src;dst;t;w\n" + rows), features=["w"], format=FileFormat(decimal=decimal), cleaning=Cleaning(fill=0)
    )
    assert log.features.ravel().tolist() == np.array(numbers, np.float32).tolist()
    assert log.schema.feature_columns() == ["w"]


@pytest.mark.parametrize(
    ("texts", "decimal", "message"),
    [
        (
            ["3", "12,5"],
            None,
            r"line 3 has w='12,5' in a column of numbers. If the comma is a decimal comma, pass FileFormat.dec",
        ),
        (["12,5", "3"], None, r"line 2 has w='12,5' .* \(--decimal ,\)"),
        (
            ["1,200"],
            None,
            r"Is the comma a decimal comma, pass FileFormat\(decimal=','\).*does it group thousands, decimal='.'",
        ),
        (["1,5", "1.5"], ",", r"line 3 has w='1.5' in a column of numbers"),
        (["3"], ";", "the decimal mark is ',' or '.'"),
    ],
)
def test_a_doubtful_comma_is_asked_about(csv, texts, decimal, message):
    rows = "".join(f"1;2;{k};{text}\n" for k, text in enumerate(texts))
    with pytest.raises(BadInput, match=message):
        read_events(csv("src;dst;t;w\n" + rows), features=["w"], format=FileFormat(decimal=decimal))


@pytest.mark.parametrize("text", ["$12.50", "-$3", "12 €", "1.200,50 €", "£-2"])
def test_an_amount_with_a_currency_sign_is_refused_and_no_category(csv, text):
    with pytest.raises(BadInput, match=f"line 2 has w={re.escape(repr(text))}.*Remove the currency sign"):
        read_events(csv(f"src;dst;t;w\n1;2;3;{text}\n"), features=["w"])


def test_codes_that_end_in_digits_stay_names(csv):
    log = read_events(csv("src,dst,t,sku\n1,2,3,ABC123\n1,2,4,ABD124\n"), features=["sku"])
    assert log.schema.feature_columns() == ["sku=ABC123", "sku=ABD124"]


# --- layout ---------------------------------------------------------------------------------------------------

SNAP = "# Directed graph: sx\n# Nodes: 3 Edges: 3\n# FromNodeId\tToNodeId\tTime\n1\t2\t100\n2\t3\t200\n3\t1\t300\n"
KONECT = "% asym positive\n% 3 3 3\n1 2 \t 1 \t 100\n2 3 \t 1 \t 200\n3 1 \t 1 \t 300\n"


def test_files_of_snap_and_konect_are_read_as_they_are(csv, monkeypatch):
    log = read_events({"src": [1, 2, 3], "dst": [2, 3, 1], "t": [100, 200, 300]})
    for block in (16, 40, 1 << 22):
        monkeypatch.setattr(textfile, "BLOCK", block)
        for text, columns in (
            (SNAP, (0, 1, 2)),
            (SNAP, ("FromNodeId", "ToNodeId", "Time")),
            (KONECT, (0, 1, 3)),
            (KONECT.replace(" \t ", "\t"), (0, 1, 3)),
            (KONECT.replace(" \t ", " "), (0, 1, 3)),
            (KONECT.replace("\n", " \n"), (0, 1, 3)),
        ):
            found = read_events(csv(text, "out.net"), *columns)
            assert (found.ids, found.t.tolist()) == (log.ids, log.t.tolist()), text


def test_comments_anywhere_are_left_out_and_lines_are_still_counted(csv):
    text = "# one\n# two\nsrc,dst,t\n1,2,3\n# three\n2,3,4\n#\n2,,5\n"
    with pytest.raises(BadInput, match="^line 8 has no dst"):
        read_events(csv(text))
    log = read_events(csv(text.replace("2,,5\n", "")))
    assert log.t.tolist() == [3, 4]
    other = read_events(csv("src,dst,t\n1,2,3\n// no\n2,3,4\n"), format=FileFormat(comment="//"))
    assert other == log


def test_what_only_looks_like_a_comment_is_kept(csv):
    tags = read_events(csv("#cat,#dog,1\n#dog,#fox,2\n"), 0, 1, 2)
    assert ids(tags) == ["#cat", "#dog", "#fox"]
    first = read_events(csv("#cat,dog,1\ndog,fox,2\n"), 0, 1, 2)
    assert ids(first) == ["#cat", "dog", "fox"]
    named = read_events(csv("#src,dst,t\n1,2,3\n2,1,4\n"))
    assert named.schema.src == "src"
    as_before = read_events(csv("#src,dst,t\n1,2,3\n2,1,4\n"), "#src")
    assert as_before.schema.src == "#src"
    later = read_events(csv("src,dst,t\n#1,2,3\n2,#1,4\n"))
    assert ids(later) == ["#1", "2"]


def test_lines_can_be_skipped(csv):
    log = read_events(
        csv("exported by someone\non a day, in May\nsrc,dst,t\n1,2,3\n2,1,4\n"), format=FileFormat(skip_lines=2)
    )
    assert log.t.tolist() == [3, 4]


def test_the_delimiter_is_found_though_some_rows_are_spoilt(csv):
    rows = [f"k{k % 5};p{k % 3};{k};{k},50 €;note" for k in range(30)]
    rows[4] = rows[4].removesuffix(";note")
    log, (note,) = noted(
        csv("\n".join(["kunde;artikel;zeit;preis;note", *rows]) + "\n"), 0, 1, 2, cleaning=Cleaning(skip_bad=True)
    )
    assert len(log) == 29
    assert "1 with another number of values than 5 (line 6)" in note


def test_padded_columns_stay_what_they_are(csv):
    log = read_events(csv("src, dst, t\na b,  c,  1\nc,   a b, 2\n"))
    assert ids(log) == ["a b", "c"]


# --- categories and nodes ---------------------------------------------------------------------------------------


def test_many_categories_are_hashed_and_come_back(tmp_path):
    kinds = [f"kind {k}" for k in range(60)] + [None, "kind 3"]
    data = {"src": [1] * 62, "dst": [2] * 62, "t": range(62), "kind": kinds}
    log = read_events(data, features=["kind"])
    assert log.features.shape == (62, BITS)
    assert log.schema.feature_columns()[:2] == ["kind#0", "kind#1"]
    assert not log.features[60].any()
    assert np.array_equal(log.features[3], log.features[61])
    assert len(np.unique(log.features, axis=0)) == 61
    assert log.to_table()["kind"].to_pylist() == kinds
    log.save(tmp_path / "log.parquet")
    back = EventLog.open(tmp_path / "log.parquet")
    assert back == log
    assert back.schema.features[0].words == log.schema.features[0].words
    write_events(log, tmp_path / "log.csv")
    assert read_events(tmp_path / "log.csv", features=["kind"]) == log
    single = encode_features([{"kind": "kind 3"}, {"kind": ""}], None, 2, log.schema)
    assert np.array_equal(single, log.features[[61, 60]])
    later = read_events({"src": [1], "dst": [2], "t": [99], "kind": ["kind 3"]}, like=log)
    assert np.array_equal(later.features[0], log.features[3])
    new = read_events({"src": [1], "dst": [2], "t": [99], "kind": ["never seen"]}, like=log)
    assert np.array_equal(new.features, signs(hashes(["never seen"])))
    new.save(tmp_path / "new.parquet")
    assert EventLog.open(tmp_path / "new.parquet") == new
    whole = read_events(data | {"kind": list(range(62))}, features=["kind"], columns=Columns(categorical=["kind"]))
    assert whole.to_table()["kind"].to_pylist() == list(range(62))


def test_bits_of_a_hash_are_read_back():
    words = [f"w{k}" for k in range(500)]
    assert from_signs(signs(hashes(words))).tolist() == hashes(words).tolist()
    block = np.concatenate([signs(hashes(words[::-1])), np.zeros((1, BITS), np.float32), signs(hashes(["other"]))])
    assert category_codes(block, hashes(words)).tolist() == [*range(500, 0, -1), 0, 0]
    assert category_codes(block, hashes([])).tolist() == [0] * 502
    assert hashes([7]) == hashes(["7"])


EVENTS = {"user": ["ann", "bob", "ann"], "item": ["x", "x", "y"], "t": [1, 2, 3]}


def test_a_node_table_may_have_text_and_gaps(tmp_path, csv):
    table = "id,age,country\nann,30,DE\nbob,,FR\nx,1,DE\ny,2,\n"
    log, (note,) = noted(EVENTS, "user", "item", columns=Columns(nodes=csv(table, "nodes.csv")))
    assert log.schema.node_features == ("age", "country=DE", "country=FR")
    assert log.node_features[log.node("bob")].tolist() == [0, 0, 1]
    assert log.node_features[log.node("y")].tolist() == [2, 0, 0]
    assert note == "1 of 4 nodes in the node table have no age; it counts as 0 (fill= says otherwise)."
    filled = read_events(
        EVENTS, "user", "item", columns=Columns(nodes=csv(table, "nodes.csv")), cleaning=Cleaning(fill=9)
    )
    assert filled.node_features[log.node("bob")].tolist() == [9, 0, 1]
    log.save(tmp_path / "log.parquet")
    known = EventLog.open(tmp_path / "log.parquet")
    assert known == log
    more = {"id": ["eve"], "age": [5], "country": ["FR"]}
    later = read_events({"user": ["eve"], "item": ["x"], "t": [9]}, like=known, columns=Columns(nodes=more))
    assert later.node_features[later.node("eve")].tolist() == [5, 0, 1]
    assert later.node_features[: log.nodes].tolist() == log.node_features.tolist()


def test_names_in_a_node_table_are_left_out():
    users = {"id": [f"u{k}" for k in range(80)], "name": [f"N. {k}" for k in range(80)], "city": ["A", "B"] * 40}
    log, notes = noted({"src": ["u0"], "dst": ["u1"], "t": [1]}, columns=Columns(nodes=users))
    assert log.schema.node_features == ("city=A", "city=B")
    assert notes == ["column 'name' of the node table is different for nearly every node, and left out."]


def test_ids_of_a_node_table_may_be_called_as_in_the_events():
    users = {"user": ["ann", "bob"], "age": [30, 40]}
    log, _ = noted(EVENTS, "user", "item", columns=Columns(nodes=users))
    assert log.node_features[log.node("bob")].tolist() == [40]
    both, _ = noted(EVENTS, "user", "item", columns=Columns(nodes=users), bipartite=True)
    assert both.node_features[both.node("bob", side="src")].tolist() == [40]
    with pytest.raises(
        UnknownName, match="has no column 'id', nor 'user' or 'item' as in the events. There are: 'name'"
    ):
        read_events(EVENTS, "user", "item", columns=Columns(nodes={"name": ["ann"], "age": [3]}))
