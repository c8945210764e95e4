"""Polars frames and JSON lines as input, embeddings as Parquet and NumPy, against the real packages."""

from __future__ import annotations

import gzip
import json

import pytest

from pintgn import Cleaning, FileFormat, read_events
from pintgn.errors import BadFile, BadInput, PintgnError

ROWS = [
    {"src": "007", "dst": "ann", "t": "2021-01-04T09:30:00Z", "amount": 1.5, "kind": "card"},
    {"src": "ann", "dst": "bob", "t": "2021-01-04T09:30:00.250Z", "amount": 2, "kind": "cash"},
    {"src": "bob", "dst": "007", "t": "2021-01-05T09:30:00+01:00", "amount": 0.1, "kind": "card"},
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


def read(source, **options):
    return read_events(source, features=["amount", "kind"], **options)


def lines(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# -- Polars ------------------------------------------------------------------------------------------------


def test_a_polars_frame_is_read_like_any_other():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame(COLUMNS, strict=False)
    assert read(frame) == read(COLUMNS)
    dated = frame.with_columns(polars.col("t").str.to_datetime(time_unit="ms", time_zone="UTC"))
    assert read(dated).t.tolist() == read(COLUMNS).t.tolist()
    assert read(frame.with_columns(polars.col("kind").cast(polars.Categorical))).features.tolist() == (
        read(COLUMNS).features.tolist()
    )


def test_a_lazy_polars_frame_says_what_to_do():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(BadInput, match=r"lazy: pass source\.collect\(\)"):
        read(polars.DataFrame(COLUMNS, strict=False).lazy())


def test_polars_reads_what_we_write(tmp_path):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    read(COLUMNS).save(tmp_path / "log.parquet")
    assert polars.read_parquet(tmp_path / "log.parquet")["src"].to_list() == COLUMNS["src"]


# -- JSON --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.txt"])
def test_json_lines_are_read_like_any_other_table(tmp_path, name):
    assert read(lines(tmp_path / name)) == read(COLUMNS)


def test_packed_json_an_array_and_a_list_of_dicts(tmp_path):
    text = lines(tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    (tmp_path / "array.json").write_text(json.dumps(ROWS, indent=2))
    for source in (tmp_path / "a.jsonl.gz", tmp_path / "array.json", ROWS):
        assert read(source) == read(COLUMNS)


def test_json_values_keep_their_types(tmp_path):
    rows = [{"src": 2**53 + 1, "dst": 2, "t": 0.1}, {"src": 7, "dst": 2**53 + 1, "t": 0.30000000000000004}]
    log = read_events(lines(tmp_path / "a.jsonl", rows))
    assert log.ids.decode().to_pylist() == [2**53 + 1, 2, 7]
    assert log.t.tolist() == [0.1, 0.30000000000000004]
    text = read_events(lines(tmp_path / "b.jsonl", [{"src": "007", "dst": "7", "t": 1}]))
    assert text.ids.decode().to_pylist() == ["007", "7"]


def test_objects_and_lists_within_events_are_taken_apart(tmp_path):
    rows = [{"actor": {"id": k}, "target": {"id": k + 1}, "at": k, "v": [k / 2, k / 4]} for k in range(3)]
    path = lines(tmp_path / "a.jsonl", rows)
    log = read_events(path, "actor.id", "target.id", "at", features=["v"])
    assert log.schema.feature_columns() == ["v0", "v1"]
    assert log.features.tolist() == [[0, 0], [0.5, 0.25], [1, 0.5]]
    assert read_events(path, "actor.id", "target.id", "at", features="all") == log


def test_absent_keys_are_missing_values_and_blank_lines_nothing(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"src": 1, "dst": 2, "t": 1}\n\n{"src": 2, "dst": 3, "t": 2, "w": 5}\n')
    assert read_events(path, features=["w"], cleaning=Cleaning(fill=0)).features.tolist() == [[0], [5]]
    with pytest.raises(BadInput, match="line 1 has no w"):
        read_events(path, features=["w"])


@pytest.mark.parametrize("batch", [2, 1 << 16])
def test_a_bad_value_is_named_by_its_line(tmp_path, monkeypatch, batch):
    monkeypatch.setattr("pintgn.ingest.jsonfile.BATCH", batch)
    good = [{"src": k, "dst": k + 1, "t": k} for k in range(5)]
    for bad, message in {
        '{"src": 1, "dst": 2, "t": 2': "line 6 is not JSON",
        "[1, 2, 3]": "line 6 is no object",
        '{"src": 1, "t": 7}': "line 6 has no dst",
        '{"src": 1, "dst": 2, "t": 0}': r"line 6 has t=0, earlier than the event before it \(t=4\)",
        '{"src": 1, "dst": 2}': "line 6 has no time",
        '{"src": 1, "dst": 2, "t": "soon"}': "soon|mixes int and str in 't'",
    }.items():
        path = lines(tmp_path / "a.jsonl", good)
        with open(path, "a") as file:
            file.write(bad + "\n")
        with pytest.raises(PintgnError, match=message):
            read_events(path, cleaning=Cleaning(sort=False))


def test_what_is_no_json_or_not_about_it(tmp_path):
    (tmp_path / "empty.jsonl").write_text(" \n")
    with pytest.raises(BadInput, match=r"empty\.jsonl is empty"):
        read_events(tmp_path / "empty.jsonl")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"src": 1, "dst": 2, "t": 3}\n' * 999)[:60])
    with pytest.raises(BadFile, match="cannot be read to its end"):
        read_events(tmp_path / "cut.jsonl.gz")
    path = lines(tmp_path / "a.jsonl")
    with pytest.raises(BadInput, match="JSON; delimiter is about text"):
        read_events(path, format=FileFormat(delimiter=";"))
    with pytest.raises(BadInput, match="no column 'dest'"):
        read_events(path, dst="dest")
    (tmp_path / "latin.jsonl").write_bytes('{"src": "é", "dst": "b", "t": 1}'.encode("latin-1"))
    with pytest.raises(BadFile, match="--charset"):
        read_events(tmp_path / "latin.jsonl")
    assert read_events(tmp_path / "latin.jsonl", format=FileFormat(charset="latin-1")).id(0) == "é"


def test_temporal_data_is_sent_to_its_own_door():
    data = pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed").TemporalData()
    with pytest.raises(BadInput, match="from_pyg"):
        read_events(data)
