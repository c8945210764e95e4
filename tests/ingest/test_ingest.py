"""Reading events: any source, any ids, any times; the same log whatever the form of the data."""

from __future__ import annotations

import gzip
import uuid
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from pintgn import ADD, DELETE, NODE, Cleaning, Columns, EventLog, FileFormat, read_events, write_events
from pintgn.errors import BadInput, EventOrderError, PintgnWarning, UnknownName
from pintgn.events.schema import LATEST
from pintgn.ingest import table_source, textfile

ROWS = {"src": ["b", "a", "b", "c"], "dst": ["a", "c", "b", "d"], "t": [1, 2, 2, 5]}


@pytest.fixture
def csv(tmp_path):
    """A text file with this content."""

    def write(text: str | bytes, name: str = "events.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write


def ids(log: EventLog) -> list:
    return log.ids.decode().to_pylist()


def oracle(src, dst, separate_namespaces=False):
    """Numbers by first appearance, the obvious way."""
    known: dict = {}
    numbers = []
    for one, other in zip(src, dst, strict=True):
        keys = ((0, one), (1, other)) if separate_namespaces else (one, other)
        numbers.append([known.setdefault(key, len(known)) for key in keys])
    return np.array(numbers).T, list(known)


# --- sources --------------------------------------------------------------------------------------------------


def test_every_source_gives_the_same_log(tmp_path, csv):
    table = pa.table(ROWS | {"w": [0.5, 1.5, -2.0, 0.0], "kind": ["x", "y", "x", "x"]})
    expected = read_events(table, features=["w", "kind"], label="t")
    assert ids(expected) == ["b", "a", "c", "d"]
    frame = table.to_pandas()
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "parts").mkdir()
    pq.write_table(table.slice(2), tmp_path / "parts" / "b.parquet")
    pq.write_table(table.slice(0, 2), tmp_path / "parts" / "a.parquet")
    text = frame.to_csv(index=False)
    structured = np.array(
        list(map(tuple, frame.values.tolist())),
        [("src", "U1"), ("dst", "U1"), ("t", "i8"), ("w", "f8"), ("kind", "U1")],
    )
    several = {
        "frame": frame,
        "frame with dictionaries": frame.astype({"src": "category", "dst": "category", "kind": "category"}),
        "reader": table.to_reader(max_chunksize=3),
        "batch": table.combine_chunks().to_batches()[0],
        "dict of lists": table.to_pydict(),
        "dict of arrays": {
            name: column.to_numpy() for name, column in zip(table.column_names, table.columns, strict=True)
        },
        "structured array": structured,
        "parquet": str(tmp_path / "one.parquet"),
        "folder": tmp_path / "parts",
        "csv": csv(text),
        "semicolons": csv(text.replace(",", ";"), "semicolons.csv"),
        "tabs": csv(text.replace(",", "\t"), "tabs.tsv"),
        "blanks": csv(text.replace(",", " "), "blanks.txt"),
        "bars": csv(text.replace(",", "|"), "bars.txt"),
        "padded": csv(text.replace(",", ", "), "padded.csv"),
        "quoted": csv("\n".join(",".join(f'"{v}"' for v in line.split(",")) for line in text.split()), "quoted.csv"),
        "windows": csv(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), "windows.csv"),
        "blank lines": csv(text.replace("\n", "\n\n"), "blank.csv"),
        "gzip": csv(gzip.compress(text.encode()), "events.csv.gz"),
        "gzip by another name": csv(gzip.compress(text.encode()), "packed.csv"),
        "zstd": csv(pa.compress(text.encode(), "zstd", asbytes=True), "events.csv.zst"),
        "utf-16": csv(text.encode("utf-16"), "utf16.csv"),
    }
    for name, source in several.items():
        log = read_events(
            source,
            features=["w", "kind"],
            label="t",
            format=FileFormat(charset="utf-16" if name == "utf-16" else "utf-8"),
        )
        assert log == expected, name


def test_a_polars_like_frame_is_read_through_the_arrow_interface():
    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(ROWS).__arrow_c_stream__(requested_schema)

    assert read_events(Frame()) == read_events(ROWS)


def test_columns_of_vectors_are_taken_apart(tmp_path):
    vectors = np.arange(8.0).reshape(4, 2)
    expected = read_events(ROWS | {"v0": vectors[:, 0], "v1": vectors[:, 1]}, features=["v0", "v1"])
    assert read_events(ROWS | {"v": vectors}, features=["v"]) == expected
    table = pa.table(ROWS | {"v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 2)})
    pq.write_table(table, tmp_path / "v.parquet")
    assert read_events(table, features="all") == expected
    assert read_events(tmp_path / "v.parquet", features=["v"]) == expected
    later = read_events(table, like=expected)
    assert np.array_equal(later.features, expected.features)


def test_without_a_header_columns_are_named_by_position(csv):
    path = csv("7,5.5,3,4\n8,6.5,4,3\n")
    log = read_events(path, 2, 3, 0, features=[1])
    assert log == read_events(path, "2", "3", "0", features=["1"], format=FileFormat(header=False))
    assert log.schema.src == "2"
    assert log.features.tolist() == [[5.5], [6.5]]
    named = read_events(path, "a", "b", "when", features=["w"], format=FileFormat(names=["when", "w", "a", "b"]))
    assert np.array_equal(named.features, log.features)
    assert ids(named) == [3, 4]


def test_positions_also_work_with_a_header_and_names_can_replace_it(csv):
    # the header of JODIE's files has one name for all its features
    path = csv("user,item,timestamp,label,comma_separated_list\n1,9,0.0,0,0.25,0.5\n2,9,36.0,1,0.5,0.75\n")
    columns = ["user", "item", "timestamp", "label", "f0", "f1"]
    log = read_events(
        path, "user", "item", "timestamp", features=["f0", "f1"], label="label", format=FileFormat(names=columns)
    )
    assert log.features.tolist() == [[0.25, 0.5], [0.5, 0.75]]
    assert log.label.tolist() == [0, 1]
    plain = csv("src,dst,t\n1,2,3\n", "plain.csv")
    assert read_events(plain, 0, 1, 2) == read_events(plain)


def test_names_and_positions_can_be_mixed_without_losing_the_first_event(csv):
    path = csv("7,3,4\n8,4,3\n")
    assert len(read_events(path, "a", "b", 0, format=FileFormat(names=["when", "a", "b"]))) == 2
    assert len(read_events(csv(b"\xef\xbb\xbf7,3,4\n8,4,3\n", "bom.csv"), 1, 2, 0)) == 2


def test_a_copy_of_a_file_without_header_has_names(csv, tmp_path):
    log = read_events(csv("7,3,4,0.5\n8,4,3,1.5\n"), 1, 2, 0, features=[3])
    write_events(log, tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_text().splitlines()[0] == "src,dst,t,column3"
    assert len(read_events(tmp_path / "copy.csv")) == 2
    later = read_events(csv("9,4,8,0.5\n", "later.csv"), like=log)
    assert later.dst.tolist() == [2]


def test_a_lone_quotation_mark_within_a_value_is_part_of_it(csv):
    assert ids(read_events(csv('src,dst,t\n3" pipe,b,1\nc,d,2\n'))) == ['3" pipe', "b", "c", "d"]


def test_lines_before_the_header_can_be_skipped_and_odd_delimiters_given(csv):
    path = csv("# made by hand\n#\nsrc:dst:t\n1:2:3\n")
    assert len(read_events(path, format=FileFormat(skip_lines=2, delimiter=":"))) == 1


def test_values_may_span_lines(csv, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK", 64)
    rows = "".join(f'{k},"a\nlong, quoted\nremark {k}",{k + 1},{k}\n' for k in range(50))
    log = read_events(csv("src,note,dst,t\n" + rows))
    assert len(log) == 50
    with pytest.raises(EventOrderError, match=r"^line 152 has t=1, earlier than the event before it \(t=49\)"):
        read_events(csv("src,note,dst,t\n" + rows + "1,x,2,1\n"), cleaning=Cleaning(sort=False))


def test_latin_1_text_is_read_when_said(csv):
    path = csv("src,dst,t\nMüller,José,1\n".encode("latin-1"))
    assert ids(read_events(path, format=FileFormat(charset="latin-1"))) == ["Müller", "José"]


def test_an_unnamed_column_is_named_by_its_position(csv):
    log = read_events(csv(",u,i,ts\n0,1,2,0.0\n1,2,1,5.0\n"), "u", "i", "ts", features=["0"])
    assert log.features.tolist() == [[0], [1]]


# --- ids ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separate_namespaces", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "text", "long text"])
def test_nodes_are_numbered_by_first_appearance_whatever_the_batches(kind, separate_namespaces, monkeypatch):
    rng = np.random.default_rng(3)
    src, dst = rng.zipf(1.5, (2, 5000)) % 2000
    names = {
        "dense": lambda x: x,
        "sparse": lambda x: (x.astype(np.int64) - 700) * 9_007_199_254_740_993,
        "text": lambda x: [f"n{v}" for v in x],
        "long text": lambda x: [f"{v:0300d}" + "ü" * (v % 5) for v in x],
    }[kind]
    src, dst = names(src), names(dst)
    expected, known = oracle(list(src), list(dst), separate_namespaces)
    for batch in (1 << 16, 999, 1):
        rows = 5000 if batch > 1 else 300
        monkeypatch.setattr(table_source, "BATCH", batch)
        log = read_events({"src": src[:rows], "dst": dst[:rows], "t": np.arange(rows)}, bipartite=separate_namespaces)
        assert np.array_equal([log.src, log.dst], expected[:, :rows])
        here = known[: log.nodes]
        assert ids(log) == ([name for _, name in here] if separate_namespaces else here)
        if separate_namespaces:
            assert log.ids.side.tolist() == [side for side, _ in here]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_whole_numbers_of_any_width(kind):
    log = read_events({"src": np.array([3, 1], kind), "dst": np.array([1, 2], kind), "t": [0, 1]})
    assert ids(log) == [3, 1, 2]
    assert log.ids.type == pa.int64()


def test_ids_beyond_63_bits():
    big = 2**64 - 3
    log = read_events({"src": np.array([big, 1], "uint64"), "dst": np.array([1, 2], "uint64"), "t": [0, 1]})
    assert ids(log) == [big, 1, 2]
    assert log.node(big) == 0
    with pytest.raises(BadInput, match="below 0 and beyond"):
        read_events({"src": np.array([big], "uint64"), "dst": np.array([-1]), "t": [0]})


def test_uuids_in_any_form_are_one_text(tmp_path):
    one, other = uuid.UUID(int=5), uuid.UUID(int=2**127)
    text = read_events({"src": [str(one)], "dst": [str(other)], "t": [0]})
    assert read_events({"src": [one], "dst": [other], "t": [0]}) == text
    fixed = [pa.array([u.bytes], pa.binary(16)) for u in (one, other)]
    assert read_events(pa.table({"src": fixed[0], "dst": fixed[1], "t": [0]})) == text
    extension = [pa.ExtensionArray.from_storage(pa.uuid(), values) for values in fixed]
    pq.write_table(pa.table({"src": extension[0], "dst": extension[1], "t": [0]}), tmp_path / "u.parquet")
    assert read_events(tmp_path / "u.parquet") == text


def test_text_in_any_arrow_type():
    expected = read_events(ROWS)
    for kind in (
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        table = pa.table(ROWS)
        for place, name in enumerate(("src", "dst")):
            table = table.set_column(place, name, table[name].cast(kind))
        assert read_events(table) == expected, kind


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["-5", "0"], [-5, 0]),
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        (["007", "7"], ["007", "7"]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["1.0", "1"], ["1.0", "1"]),
        (["1e5", "100000"], ["1e5", "100000"]),
        (["+1", "1"], ["+1", "1"]),
        (["-0", "0"], ["-0", "0"]),
        (["0x10", "16"], ["0x10", "16"]),
        (["NA", "null"], ["NA", "null"]),
        (["nan", "NaN"], ["nan", "NaN"]),
        (["true", "1"], ["true", "1"]),
        (["2021-01-01", "1"], ["2021-01-01", "1"]),
        (["ü", "u"], ["ü", "u"]),
    ],
)
def test_ids_of_a_text_file_never_change_their_looks(csv, values, expected):
    log = read_events(csv(f"src,dst,t\n{values[0]},{values[1]},1\n"))
    assert ids(log) == expected


def test_a_name_after_a_million_numbers_makes_all_ids_text(csv, monkeypatch):
    monkeypatch.setattr(textfile, "BLOCK", 1000)
    monkeypatch.setattr(textfile, "SAMPLE", 500)
    rows = [(k % 37, k % 11) for k in range(2000)]
    text = "src,dst,t\n" + "".join(f"{a},{b},0\n" for a, b in rows)
    numbers = read_events(csv(text))
    assert numbers.ids.type == pa.int64()
    words = read_events(csv(text + "bob,007,0\n"))
    assert ids(words) == [str(one) for one in ids(numbers)] + ["bob", "007"]
    assert np.array_equal(words.src[:-1], numbers.src)


def test_the_same_id_is_two_nodes_in_two_name_spaces(csv):
    path = csv("src,dst,t\n1,1,0\n2,1,1\n1,2,2\n")
    log = read_events(path, bipartite=True)
    assert log.nodes == 4
    assert (log.src.tolist(), log.dst.tolist()) == ([0, 2, 0], [1, 1, 3])
    assert log.node(1, "src") == 0
    assert log.node(1, "dst") == 1
    assert log.schema.separate_namespaces
    mixed = read_events({"src": [1, 2], "dst": ["x", "1"], "t": [0, 1]}, bipartite=True)
    assert ids(mixed) == ["1", "x", "2", "1"]


def test_src_and_dst_of_different_types_are_refused_with_a_way_out():
    with pytest.raises(BadInput, match="'src' are whole numbers, ids in 'dst' are text. Pass bipartite=True"):
        read_events({"src": [1], "dst": ["1"], "t": [0]})


@pytest.mark.parametrize("bad", [[1.0, 2.0], [True, False], np.array([1, 2], "datetime64[s]")])
def test_ids_of_other_types_are_refused(bad):
    with pytest.raises(BadInput, match="an id is a whole number, a text or a UUID|pandas makes floats"):
        read_events({"src": bad, "dst": bad, "t": [0, 1]})


# --- times ----------------------------------------------------------------------------------------------------


def times(csv, *values, **options):
    return read_events(csv("src,dst,t\n" + "".join(f"1,2,{value}\n" for value in values)), **options)


@pytest.mark.parametrize(
    ("values", "expected", "dtype"),
    [
        (("1", "2"), [1, 2], "int64"),
        (("1", "2.5"), [1.0, 2.5], "float64"),
        (("0.1", "1e3"), [0.1, 1000.0], "float64"),
        ((" 7", "8 "), [7, 8], "int64"),
        (("1588000000123456789", "1588000000123456790"), [1588000000123456789, 1588000000123456790], "int64"),
    ],
)
def test_times_as_numbers(csv, values, expected, dtype):
    log = times(csv, *values)
    assert log.t.tolist() == expected
    assert log.t.dtype == dtype
    assert log.schema.time.unit is None


@pytest.mark.parametrize(
    ("values", "expected", "unit", "zone"),
    [
        (("2020-01-01", "2020-01-02"), [1577836800, 1577923200], "s", None),
        (("2020-01-01T10:00", "2020-01-01 10:00:01"), [1577872800, 1577872801], "s", None),
        (("2020-01-01 10:00:00", "2020-01-01 10:00:00.5"), [1577872800000, 1577872800500], "ms", None),
        (("2020-01-01T10:00:00.000001", "2020-01-01T10:00:01"), [1577872800000001, 1577872801000000], "us", None),
        (("2020-01-01T10:00:00.000000001",), [1577872800000000001], "ns", None),
        (("2020-01-01T10:00:00Z", "2020-01-01T10:00:00+00:00"), [1577872800] * 2, "s", "UTC"),
        (("2020-01-01T12:00:00+02:00", "2020-01-01T12:00:01+0200"), [1577872800, 1577872801], "s", "+02:00"),
        (("2020-01-01T12:00:00+02", "2020-01-01T10:00:00Z"), [1577872800] * 2, "s", "UTC"),
        (("2020-01-01T04:30:00-05:30", "2020-01-01T12:00:00+02:00"), [1577872800] * 2, "s", "UTC"),
    ],
)
def test_times_as_dates_keep_their_resolution_and_zone(csv, monkeypatch, values, expected, unit, zone):
    for block in (1 << 22, 30):  # also when the finer one comes in a later batch
        monkeypatch.setattr(textfile, "BLOCK", block)
        log = times(csv, *values)
        assert log.t.tolist() == expected
        assert (log.schema.time.unit, log.schema.time.zone) == (unit, zone)


def test_timestamps_of_arrow_pandas_and_numpy():
    stamps = pd.to_datetime(["2020-01-01 10:00", "2020-01-02 11:00"])
    ends = {"src": [1, 2], "dst": [2, 3]}
    for unit in ("s", "ms", "us", "ns"):
        log = read_events(ends | {"t": stamps.as_unit(unit).to_numpy()})
        assert log.schema.time.unit == unit
        assert log.t.tolist() == stamps.as_unit(unit).astype("int64").tolist()
    zoned = read_events(pd.DataFrame(ends | {"t": stamps.tz_localize("Europe/Berlin")}))
    assert zoned.schema.time.zone == "Europe/Berlin"
    assert zoned.schema.time.show(zoned.t[0]) == "2020-01-01 10:00:00+01:00"
    days = read_events(ends | {"t": np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")})
    assert days.t.tolist() == [1577836800, 1577923200]
    assert read_events(pa.table(ends | {"t": pa.array(stamps.date)})) == days
    text = read_events(ends | {"t": ["2020-01-01", "2020-01-02"]})
    assert text == days


def test_decimals_become_float64_only_without_loss(csv, monkeypatch):
    from decimal import Decimal

    whole = pa.table({"src": [1, 2], "dst": [2, 3], "t": pa.array([Decimal(1), Decimal(2)], pa.decimal128(20, 0))})
    assert read_events(whole).t.dtype == np.int64
    part = pa.table({"src": [1, 2], "dst": [2, 3], "t": pa.array([Decimal("1.25"), Decimal("2.5")])})
    assert read_events(part).t.tolist() == [1.25, 2.5]
    with pytest.raises(BadInput, match=r"line 3 has t=1585699200.123456789, which float64 cannot tell from"):
        times(csv, "1585699200.123456788", "1585699200.123456789")
    assert len(times(csv, "1585699200.1234567880", "1585699200.123456788")) == 2
    with pytest.raises(BadInput, match="line 2 has t=9007199254740993, more digits than int64 or float64 can hold"):
        times(csv, "9007199254740993", "9007199254740994e0")
    monkeypatch.setattr(textfile, "BLOCK", 32)
    with pytest.raises(BadInput, match="line 2 has t=9007199254740993 in a column of decimal numbers"):
        times(csv, "9007199254740993", "9007199254740994e0")
    with pytest.raises(BadInput, match="line 3 has t=9223372036854775808, more digits than"):
        times(csv, "1", "9223372036854775808")


def test_times_that_are_stored_too_coarsely_or_too_large():
    small = read_events({"src": [1, 2], "dst": [2, 3], "t": np.array([0.5, 16_777_215], "float32")})
    assert small.t.dtype == np.float64
    with pytest.warns(PintgnWarning, match="were already rounded when the data was written"):
        read_events({"src": [1], "dst": [2], "t": np.array([1.6e9], "float32")})
    assert read_events({"src": [1], "dst": [2], "t": np.array([5], "uint64")}).t.tolist() == [5]
    with pytest.raises(BadInput, match=r"row 1 has t=18446744073709551615, beyond 2\*\*63 - 1"):
        read_events({"src": [1, 1], "dst": [2, 2], "t": np.array([0, 2**64 - 1], "uint64")})


@pytest.mark.parametrize("bad", [[True, False], [pd.Timedelta(1), pd.Timedelta(2)]])
def test_other_types_of_time_are_refused(bad):
    with pytest.raises(BadInput, match="they can be numbers, timestamps or ISO-8601 text"):
        read_events({"src": [1, 1], "dst": [2, 2], "t": bad})


def test_dates_too_far_away_for_their_digits_are_named(csv):
    with pytest.raises(
        BadInput, match="line 3 has t='1600-01-01': times written to the ns must lie between 1677 and 2262"
    ):
        times(csv, "1990-01-01T10:00:00.123456789", "1600-01-01", cleaning=Cleaning(sort=True))
    assert times(csv, "1600-01-01", "9999-12-31").t.tolist() == [-11676096000, 253402214400]


# --- order ----------------------------------------------------------------------------------------------------


def test_unsorted_events_name_the_first_offender_and_the_way_out(csv, monkeypatch):
    message = r"has t=2, earlier than the event before it \(t=3\)\. Sort .* pass Cleaning\(sort=True\) \(--sort\)"
    with pytest.raises(EventOrderError, match="^line 4 " + message):
        times(csv, 1, 3, 2, 1, cleaning=Cleaning(sort=False))
    monkeypatch.setattr(table_source, "BATCH", 2)  # the offender begins a batch
    with pytest.raises(EventOrderError, match="^row 2 " + message):
        read_events({"src": [1] * 4, "dst": [2] * 4, "t": [1, 3, 2, 1]}, cleaning=Cleaning(sort=False))
    with pytest.raises(EventOrderError, match="t=2020-01-01, earlier than the event before it .t=2020-01-02"):
        times(csv, "2020-01-02", "2020-01-01", cleaning=Cleaning(sort=False))


def test_sorting_is_stable_and_equals_sorted_input(monkeypatch):
    rng = np.random.default_rng(0)
    count = 3000
    data = {
        "src": rng.integers(0, 300, count) * 7,
        "dst": rng.integers(0, 300, count) * 7,
        "t": rng.integers(0, 50, count),
        "w": rng.normal(size=count),
        "kind": rng.choice(["x", "y", "z"], count),
        "y": rng.integers(0, 2, count),
        "op": rng.choice([1, 1, -1, 0], count),
        "u": rng.normal(size=count),
    }
    data["dst"] = np.where(data["op"] == 0, data["src"], data["dst"])
    order = np.argsort(data["t"], kind="stable")
    monkeypatch.setattr(table_source, "BATCH", 701)
    options = {"features": ["w", "kind"], "label": "y", "columns": Columns(op="op", node_updates=["u"])}
    log = read_events(data, cleaning=Cleaning(sort=True), **options)
    assert log == read_events({name: column[order] for name, column in data.items()}, **options)
    assert log.src[0] == 0


# --- features and labels ----------------------------------------------------------------------------------------


def test_numbers_become_float32_and_words_become_columns(csv):
    path = csv("src,dst,t,amount,kind,flag\n1,2,1,0.1,sell,true\n2,3,2,7,buy,false\n3,1,3,-1e3,,true\n")
    log = read_events(path, features="all")
    assert log.schema.feature_columns() == ["amount", "kind=buy", "kind=sell", "flag=false", "flag=true"]
    assert log.features.dtype == np.float32
    assert np.array_equal(log.features, np.array([[0.1, 0, 1, 0, 1], [7, 1, 0, 1, 0], [-1000, 0, 0, 0, 1]], np.float32))
    coded = read_events(path, features=["kind", "amount"], columns=Columns(encoding="code"))
    assert np.array_equal(coded.features, np.array([[2, 0.1], [1, 7], [0, -1000]], np.float32))


def test_the_encoding_can_be_said_for_each_column_and_follows_the_number_of_categories():
    data = {"src": range(40), "dst": range(40), "t": range(40), "a": [f"k{i}" for i in range(40)], "b": ["x"] * 40}
    log = read_events(data, features=["a", "b"])
    assert [feature.kind for feature in log.schema.features] == ["hash", "onehot"]
    other = read_events(data, features=["a", "b"], columns=Columns(encoding={"a": "onehot", "b": "code"}))
    assert other.features.shape == (40, 41)
    with pytest.raises(BadInput, match="no encoding 'onehott'. Did you mean 'onehot'"):
        read_events(data, columns=Columns(encoding="onehott"))


def test_whole_numbers_can_be_categories(csv):
    rows = "src,dst,t,code\n1,2,1,10\n2,3,2,9\n"
    log = read_events(csv(rows), features=["code"], columns=Columns(categorical=["code"]))
    assert log.schema.features[0].categories == (9, 10)
    assert log == read_events(
        {"src": [1, 2], "dst": [2, 3], "t": [1, 2], "code": [10, 9]},
        features=["code"],
        columns=Columns(categorical=["code"]),
    )
    assert read_events(csv(rows), features=["code"]).features.tolist() == [[10], [9]]


def test_bools_and_dictionaries_are_categories():
    data = pa.table(ROWS | {"flag": [True, False, None, True], "d": pa.array(["p", "q", "p", "p"]).dictionary_encode()})
    log = read_events(data, features=["flag", "d"])
    assert [feature.categories for feature in log.schema.features] == [(False, True), ("p", "q")]
    assert log.features.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 1, 0]]


def test_missing_features_can_be_filled(csv):
    path = csv("src,dst,t,w\n1,2,1,\n2,3,2,NA\n3,1,3,2.5\n")
    assert read_events(path, features=["w"], cleaning=Cleaning(fill=-1)).features.ravel().tolist() == [-1, -1, 2.5]
    frame = pd.DataFrame({"src": [1, 2], "dst": [2, 3], "t": [1, 2], "w": [np.nan, 1.0]})
    assert read_events(frame, features=["w"], cleaning=Cleaning(fill=0)).features.ravel().tolist() == [0, 1]


def test_labels_are_kept_exactly(csv):
    rows = "src,dst,t,y\n1,2,1,0\n2,3,2,9007199254740993\n"
    assert read_events(csv(rows), label="y").label.tolist() == [0, 9007199254740993]
    log = read_events(csv(rows.replace("9007199254740993", "")), label="y")
    assert log.label[0] == 0
    assert np.isnan(log.label[1])
    assert log == read_events(csv(rows.replace("9007199254740993", "NA")), label="y")
    with pytest.raises(BadInput, match="line 3 has y='spam'. A label is a number"):
        read_events(csv(rows.replace("9007199254740993", "spam")), label="y")


# --- later files ------------------------------------------------------------------------------------------------


def test_a_later_file_keeps_numbers_and_encodings(csv):
    first = read_events(
        csv("who,whom,when,kind,w\nann,bob,2020-01-01,x,1\nbob,cay,2020-01-02,y,2\n"),
        "who", "whom", "when", features=["kind", "w"],
    )  # fmt: skip
    later = csv("w,kind,whom,who,when\n3,y,dan,cay,2020-01-03\n4,z,ann,eve,2020-01-04\n", "later.csv")
    with pytest.warns(PintgnWarning, match="kind 'z' is new since the earlier log .1 of 2 events. and counts as none"):
        log = read_events(later, like=first)
    assert ids(log) == ["ann", "bob", "cay", "dan", "eve"]
    assert (log.src.tolist(), log.dst.tolist()) == ([2, 4], [3, 0])
    assert log.features.tolist() == [[0, 1, 3], [0, 0, 4]]
    assert log.schema == first.schema


def test_a_later_text_file_uses_the_encodings_of_an_earlier_frame(csv):
    data = {"src": [1, 2], "dst": [2, 3], "t": [1, 2], "code": [10, 9], "flag": [True, False]}
    first = read_events(data, features=["code", "flag"], columns=Columns(categorical=["code"]))
    later = read_events(csv("src,dst,t,code,flag\n1,2,3,9,False\n2,1,4,10,TRUE\n"), like=first)
    assert later.features.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_reading_the_same_file_again_like_itself_gives_the_same_log(shared_data):
    log = read_events(shared_data("wikipedia"), label="label")
    assert read_events(shared_data("wikipedia"), like=log) == log
    with warnings.catch_warnings():
        assert read_events(shared_data("wikipedia"), like=log[:100], label="label").nodes == log.nodes


def test_a_later_file_without_labels_and_in_a_finer_unit():
    first = read_events({"src": [1], "dst": [2], "t": np.array(["2020-01-01"], "datetime64[s]"), "y": [1]}, label="y")
    later = {"src": [2], "dst": [3], "t": np.array(["2020-01-01T00:00:01.000"], "datetime64[ms]")}
    log = read_events(later, like=first)
    assert log.label is None
    assert log.schema.label is None
    assert log.t.tolist() == [1577836801]
    later["t"] += 5
    with pytest.raises(BadInput, match="row 0 has a time finer than the s of the earlier log"):
        read_events(later, like=first)
    with pytest.raises(BadInput, match="are numbers; the earlier log has dates"):
        read_events(later | {"t": [5]}, like=first)


def test_a_later_file_must_have_the_same_kind_of_ids(csv):
    first = read_events(csv("src,dst,t\n1,2,1\n"))
    with pytest.raises(BadInput, match="ids in 'dst' are text from line 2 on, but whole numbers in the earlier log"):
        read_events(csv("src,dst,t\n1,x,1\n"), like=first)
    words = read_events(csv("src,dst,t\na,b,1\n"))
    assert ids(read_events(csv("src,dst,t\n1,b,1\n"), like=words)) == ["a", "b", "1"]
    with pytest.raises(BadInput, match="leave out features="):
        read_events(csv("src,dst,t\n1,2,1\n"), like=first, features=["t"])


# --- the node table ---------------------------------------------------------------------------------------------


def test_a_node_table_gives_features_and_nodes_without_events(csv):
    events = csv("src,dst,t\nb,a,1\na,c,2\n")
    table = csv("age,id,score\n3,a,0.5\n4,z,1\n5,b,2\n6,c,3\n", "nodes.csv")
    log = read_events(events, columns=Columns(nodes=table))
    assert ids(log) == ["b", "a", "c", "z"]
    assert log.node_features.tolist() == [[5, 2], [3, 0.5], [6, 3], [4, 1]]
    assert log.schema.node_features == ("age", "score")
    with pytest.warns(PintgnWarning, match="the node table lacks 1 of 3 nodes, such as 'b'"):
        short = read_events(events, columns=Columns(nodes={"id": ["a", "c"], "age": [3, 6]}))
    assert short.node_features.tolist() == [[0], [3], [6]]
    later = read_events(csv("src,dst,t\nz,q,3\n"), like=log)
    assert later.node_features.tolist() == [*log.node_features.tolist(), [0, 0]]
    with pytest.raises(BadInput, match="the earlier log has no node features"):
        read_events(events, like=read_events(events), columns=Columns(nodes=table))
    told = read_events(
        csv("src,dst,t\nz,q,3\n"), like=log, columns=Columns(nodes={"id": ["q"], "age": [9], "score": [8]})
    )
    assert told.node_features[-1].tolist() == [9, 8]


def test_a_node_table_of_two_name_spaces_says_which():
    events = {"src": [1, 2], "dst": [1, 5], "t": [0, 1]}
    table = {"id": [1, 2, 1, 5, 9], "side": ["src", "src", "dst", "dst", "dst"], "x": [10, 20, 11, 51, 91]}
    log = read_events(events, bipartite=True, columns=Columns(nodes=table))
    assert log.node_features.ravel().tolist() == [10, 11, 20, 51, 91]
    assert log.ids.side.tolist() == [0, 1, 0, 1, 1]
    with pytest.raises(UnknownName, match="has no column 'side'"):
        read_events(events, bipartite=True, columns=Columns(nodes={"id": [1], "x": [0]}))
    with pytest.raises(BadInput, match="side='left'; write src or dst"):
        read_events(events, bipartite=True, columns=Columns(nodes={"id": [1], "side": ["left"], "x": [0]}))


def test_a_spoilt_node_table_is_refused():
    events = {"src": [1, 2], "dst": [1, 5], "t": [0, 1]}
    with pytest.raises(BadInput, match="row 2 of the node table lists 1 a second time"):
        read_events(events, columns=Columns(nodes={"id": [1, 2, 1], "x": [0, 0, 0]}))
    with pytest.raises(BadInput, match="text in the node table but whole numbers in the events"):
        read_events(events, columns=Columns(nodes={"id": ["1"], "x": [0]}))
    with pytest.raises(BadInput, match="row 1 of the node table has x=inf"):
        read_events(events, columns=Columns(nodes={"id": [1, 2, 5], "x": [0, np.inf, 0]}))


# --- ops --------------------------------------------------------------------------------------------------------


def test_ops_are_read_in_any_spelling(csv):
    words = ["add", "+1", "DELETE", "-1", "Del", "Node", "0", "insert", "d", "1"]
    log = read_events(
        {"src": ["a"] * 10, "dst": ["b", "b", "b", "b", "b", "a", None, "b", "b", "b"], "t": range(10), "op": words},
        columns=Columns(op="op"),
    )
    assert log.op.tolist() == [ADD, ADD, DELETE, DELETE, DELETE, NODE, NODE, ADD, DELETE, ADD]
    numbers = read_events(
        {"src": [1, 1, 1], "dst": [2, 2, 1], "t": [0, 1, 2], "op": [1.0, -1.0, 0.0]}, columns=Columns(op="op")
    )
    assert numbers.op.tolist() == [ADD, DELETE, NODE]


def test_node_events_are_self_loops_with_features_of_their_own(csv):
    path = csv("src,dst,t,op,w,u,v\n1,2,0,add,0.5,,\n2,,1,node,,7,8\n1,2,2,delete,,,\n3,3,3,node,,9,10\n")
    log = read_events(path, columns=Columns(op="op", node_updates=["u", "v"]), features=["w"])
    assert log.ids.type == pa.int64()
    assert (log.src.tolist(), log.dst.tolist()) == ([0, 1, 0, 2], [1, 1, 1, 2])
    assert log.node_updates.tolist() == [[7, 8], [9, 10]]
    assert log.features.ravel().tolist() == [0.5, 0, 0, 0]
    with pytest.raises(BadInput, match="line 3 has no v; a feature must be"):
        read_events(
            csv("src,dst,t,op,v\n1,2,0,add,1\n2,,1,node,\n", "gap.csv"), columns=Columns(op="op", node_updates=["v"])
        )
    with pytest.raises(BadInput, match=r"name the column that marks those with Columns\(op="):
        read_events(path, columns=Columns(node_updates=["u"]))


def test_node_events_with_two_name_spaces_name_the_side():
    data = {"src": ["1", "1", None], "dst": ["1", None, "1"], "t": [0, 1, 2], "op": ["add", "node", "node"]}
    log = read_events(data, columns=Columns(op="op"), bipartite=True)
    assert (log.src.tolist(), log.dst.tolist()) == ([0, 0, 1], [1, 0, 1])


def test_a_node_event_names_one_node():
    data = {"src": ["a", "a"], "dst": ["b", "c"], "t": [0, 1], "op": ["add", "node"]}
    with pytest.raises(BadInput, match="row 1 is a node event but names two: 'a' and 'c'. Leave 'dst' empty"):
        read_events(data, columns=Columns(op="op"))
    with pytest.raises(BadInput, match="row 1 removes a node but names two: .* To end one edge write 'delete'"):
        read_events(data | {"op": ["add", "remove"]}, columns=Columns(op="op"))
    with pytest.raises(BadInput, match="row 1 has neither 'src' nor 'dst'; a node event names its node"):
        read_events(data | {"op": ["add", "node"], "src": ["a", None], "dst": ["b", None]}, columns=Columns(op="op"))


def settle_slowly(rows):
    """The meaning of removals, the obvious way: rows of (src, dst, t, op)."""
    alive: dict[tuple, int] = {}
    out = []
    for src, dst, t, op in rows:
        if op == "remove":
            for pair in list(alive):
                if src in pair:
                    out += [(*pair, t, DELETE)] * alive[pair]
                    alive[pair] = 0
            continue
        if op == "add":
            alive[src, dst] = alive.get((src, dst), 0) + 1
        elif alive.get((src, dst)):
            alive[src, dst] -= 1
        out.append((src, dst, t, ADD if op == "add" else DELETE))
    return out


def test_removing_a_node_deletes_its_living_edges_in_the_order_they_appeared():
    rows = [
        ("a", "b", 1, "add"), ("b", "c", 2, "add"), ("a", "b", 2, "add"), ("c", "c", 3, "add"), ("c", "a", 3, "add"),
        ("b", "c", 4, "delete"), ("b", "c", 5, "add"), ("c", None, 6, "remove"), ("a", None, 6, "remove"),
        ("b", "c", 7, "add"), ("c", None, 8, "remove"), ("c", None, 9, "remove"),
    ]  # fmt: skip
    src, dst, t, op = zip(*rows, strict=True)
    log = read_events(
        {"src": src, "dst": dst, "t": t, "op": op, "w": np.arange(12.0)}, columns=Columns(op="op"), features=["w"]
    )
    name = ids(log)
    found = [(name[a], name[b], t, op) for a, b, t, op in zip(log.src, log.dst, log.t, log.op, strict=True)]
    # derived by hand: c loses b→c, c→c, c→a; then a loses a→b twice; c→a is already gone
    assert found[7:12] == [
        ("b", "c", 6, DELETE), ("c", "c", 6, DELETE), ("c", "a", 6, DELETE),
        ("a", "b", 6, DELETE), ("a", "b", 6, DELETE),
    ]  # fmt: skip
    assert found == settle_slowly(rows)
    assert log.features[7:12].ravel().tolist() == [7, 7, 7, 8, 8]


def test_removals_equal_the_slow_way_on_random_logs():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = []
        for k in range(60):
            a, b = rng.integers(0, 5, 2).tolist()
            op = rng.choice(["add", "add", "delete", "remove"])
            rows.append((a, None if op == "remove" else b, k // 3, str(op)))
        src, dst, t, op = (list(column) for column in zip(*rows, strict=True))
        log = read_events({"src": src, "dst": dst, "t": t, "op": op}, columns=Columns(op="op"))
        name = ids(log)
        found = [(name[a], name[b], t, op) for a, b, t, op in zip(log.src, log.dst, log.t, log.op, strict=True)]
        assert found == settle_slowly(rows), seed


def test_strict_refuses_what_is_not_there(csv):
    ok = "src,dst,t,op\na,b,1,add\na,b,2,delete\n"
    assert len(read_events(csv(ok), columns=Columns(op="op"), cleaning=Cleaning(strict=True))) == 2
    for line, what in (
        ("b,a,3,delete", "line 4 deletes 'b' → 'a'"),
        ("a,b,3,delete", "line 4 deletes 'a' → 'b'"),
        ("z,,3,remove", "line 4 removes 'z'"),
    ):
        assert len(read_events(csv(ok + line + "\n"), columns=Columns(op="op"))) >= 2
        with pytest.raises(BadInput, match=what + ", which was never added or is already gone"):
            read_events(csv(ok + line + "\n"), columns=Columns(op="op"), cleaning=Cleaning(strict=True))
    unsorted = "src,dst,t,op\na,b,5,delete\nq,r,1,add\na,b,2,add\na,b,9,delete\n"
    with pytest.raises(BadInput, match="line 5 deletes 'a' → 'b'"):
        read_events(csv(unsorted), columns=Columns(op="op"), cleaning=Cleaning(strict=True, sort=True))


def test_a_later_file_can_delete_what_the_earlier_one_left_alive():
    first = read_events(
        {"src": ["a", "a"], "dst": ["b", "c"], "t": [1, 2], "op": ["add", "add"]}, columns=Columns(op="op")
    )
    later = {"src": ["a", "c"], "dst": ["b", None], "t": [2, 3], "op": ["delete", "remove"]}
    log = read_events(later, like=first, cleaning=Cleaning(strict=True))
    assert (log.src.tolist(), log.dst.tolist(), log.op.tolist()) == ([0, 0], [1, 2], [DELETE, DELETE])
    with pytest.raises(BadInput, match="read without an op column"):
        read_events(later, columns=Columns(op="op"), like=read_events({"src": ["a"], "dst": ["b"], "t": [1]}))


def test_a_real_stream_with_deletions_is_consistent(shared_data):
    log = read_events(shared_data("as733_adddel"), columns=Columns(op="op"), cleaning=Cleaning(strict=True))
    assert (len(log), log.nodes) == (9247, 3615)
    assert int((log.op == DELETE).sum()) == 1107


# --- round trips --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["uci", "enron", "wikipedia"])
def test_real_data_survives_csv_to_the_last_digit(shared_data, name, tmp_path):
    log = read_events(shared_data(name))
    for ending in (".csv", ".csv.gz", ".csv.zst", ".tsv"):
        write_events(log, tmp_path / f"{name}{ending}")
        assert read_events(tmp_path / f"{name}{ending}") == log
    plain = pacsv.read_csv(tmp_path / f"{name}.csv")
    assert plain["t"].equals(pq.read_table(shared_data(name))["t"])


def test_csv_to_log_to_csv_is_the_same_text(csv, tmp_path):
    text = (
        "who,whom,when,amount,kind\n"
        "007,bob,2020-01-01T10:00:00.125+02:00,0.1,sell\n"
        "bob,NA,2020-01-01T10:00:00.126+02:00,16777216,buy\n"
        "1e5,007,2020-01-01T10:00:00.127+02:00,3.4e+38,sell\n"
    )
    log = read_events(csv(text), "who", "whom", "when", features=["amount", "kind"])
    write_events(log, tmp_path / "again.csv")
    again = (tmp_path / "again.csv").read_text()
    assert read_events(tmp_path / "again.csv", "who", "whom", "when", features=["amount", "kind"]) == log
    assert [line.split(",")[:3] for line in again.split()] == [line.split(",")[:3] for line in text.split()]


def test_missing_names_are_suggested():
    with pytest.raises(UnknownName, match="has no column 'sorce'. Did you mean 'source'"):
        read_events({"source": [1], "dst": [2], "t": [3]}, "sorce")
    with pytest.raises(BadInput, match=r"features is a list of columns, as in features=\['w'\]"):
        read_events(ROWS | {"w": [1, 2, 3, 4]}, features="w")
    with pytest.raises(BadInput, match="events cannot be read from int"):
        read_events(5)


@pytest.mark.parametrize("shape", [int, float])
def test_times_that_leave_nothing_after_them_are_refused_by_row(csv, shape):
    edge = shape(LATEST)
    assert read_events(csv(f"src,dst,t\na,b,{-edge}\na,b,{edge}\n")).t.tolist() == [-edge, edge]
    assert EventLog([0, 0], [1, 1], [-edge, edge]).t.tolist() == [-edge, edge]
    for far in (shape(LATEST + 1024), -shape(LATEST + 1024)):
        with pytest.raises(BadInput, match=r"line 3 has t=.*within ±3.46e\+18"):
            read_events(csv(f"src,dst,t\na,b,0\na,b,{far}\n"), cleaning=Cleaning(sort=True))
        with pytest.raises(BadInput, match=r"event 1 has t=.*within ±3.46e\+18"):
            EventLog([0, 0], [1, 1], [0, far])


def test_reading_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(table_source, "BATCH", 100)
    monkeypatch.setattr(textfile, "BLOCK", 1_000)
    table = pa.table({"src": np.arange(250), "dst": np.arange(250) + 1, "t": np.arange(250)})
    pq.write_table(table, tmp_path / "rows.parquet")
    pacsv.write_csv(table, tmp_path / "rows.csv")
    for name in ("rows.parquet", "rows.csv"):
        seen = []
        read_events(tmp_path / name, progress=lambda *given, seen=seen: seen.append(given))
        done = [rows for rows, _ in seen]
        assert done == sorted(set(done))
        assert done[-1] == 250
        assert len(done) > 1
        assert all(rows <= total <= 300 for rows, total in seen)
    seen = []
    with gzip.open(tmp_path / "rows.csv.gz", "wb") as file:
        file.write((tmp_path / "rows.csv").read_bytes())
    read_events(tmp_path / "rows.csv.gz", progress=lambda *given: seen.append(given))
    assert seen[-1] == (250, None)  # nobody knows how much comes out of a compressed file
