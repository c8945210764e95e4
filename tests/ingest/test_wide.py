"""Files with very many columns: read in one pass over their names, never in one pass for each name."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pintgn import EventLog, read_events
from pintgn.errors import BadFile, BadInput, UnknownName
from pintgn.ingest import read as ingest
from pintgn.ingest import textfile
from pintgn.ingest.sources import open_source


def wide(columns: int) -> dict[str, list]:
    return {"src": [1, 2, 3], "dst": [4, 5, 6], "t": [1, 2, 3]} | {f"c{k}": [0.5, 1.5, k] for k in range(columns)}


def written(path, columns: dict[str, list]):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def same(log: EventLog, other: EventLog) -> None:
    assert (log.src == other.src).all()
    assert (log.t == other.t).all()
    assert (log.features == other.features).all()


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_a_column_is_found_among_very_many(tmp_path, name):
    """With a look through all names for each name this takes minutes."""
    columns = wide(100_000 if name.endswith("csv") else 10_000)
    log = read_events(written(tmp_path / name, columns), features=["c7", "c9000"])
    same(log, read_events({n: columns[n] for n in ("src", "dst", "t", "c7", "c9000")}, features=["c7", "c9000"]))


@pytest.mark.parametrize("name", [pytest.param("log.parquet", marks=pytest.mark.slow), "log.csv"])
def test_all_of_many_columns_are_features(tmp_path, name):
    columns = wide(800)
    log = read_events(written(tmp_path / name, columns), features="all")
    same(log, read_events(columns, features="all"))
    assert log.features.shape == (3, 800)
    log.save(tmp_path / "saved.parquet")
    same(read_events(tmp_path / "saved.parquet"), log)


@pytest.mark.parametrize(("size", "found"), [(textfile.LOOKED_AT - 1, True), (textfile.LOOKED_AT, True),
                                             (textfile.LOOKED_AT + 1, False)])  # fmt: skip
def test_the_first_cells_tell_whether_a_header_looks_like_data(tmp_path, size, found):
    first = ["name"] * (size - 1) + ["2024-01-01"]
    names = [f"{cell}{k}" if cell == "name" else cell for k, cell in enumerate(first)]
    path = tmp_path / "log.csv"
    path.write_text(",".join(names) + "\n" + ",".join("x" * size) + "\n")
    assert open_source(path).looks_headless is found


@pytest.mark.parametrize(("count", "fits"), [(4, True), (5, True), (6, False)])
def test_features_are_bounded_and_the_message_says_what_to_do(monkeypatch, count, fits):
    monkeypatch.setattr(ingest, "MOST_FEATURES", 5)
    if fits:
        assert read_events(wide(count), features="all").features.shape[1] == count
        return
    with pytest.raises(BadInput, match=r"6 columns of the dict would be features; at most 5.*--features"):
        read_events(wide(count), features="all")
    assert read_events(wide(count), features=["c1"]).features.shape[1] == 1


@pytest.mark.parametrize("extra", [-1, 0, 1, 60_000])
def test_a_header_and_rows_longer_than_the_sample_are_read_whole(tmp_path, extra):
    """The sample ends somewhere; a line that it cuts is read to its end."""
    parts = ["a" * 100_000, "b" * 100_000]
    parts.append("c" * (textfile.SAMPLE + extra - len("src,dst,t,c0,c1,,,\n") - 200_000))
    columns = wide(2) | {part: [1, 2, 3] for part in parts}
    path = written(tmp_path / "log.csv", columns)
    assert len(path.read_text().split("\n")[0]) + 1 == textfile.SAMPLE + extra
    log = read_events(path, features="all")
    assert log.features.tolist() == [[0.5, 0.5, 1, 1, 1], [1.5, 1.5, 2, 2, 2], [0, 1, 3, 3, 3]]
    columns = wide(2) | {name: [part, "x", "y"] for name, part in zip("uvw", parts, strict=True)}
    assert len(read_events(written(tmp_path / "long.csv", columns), features=["c0"])) == 3


@pytest.mark.parametrize(("extra", "fits"), [(-1, True), (0, False), (1, False)])
def test_a_line_without_end_is_refused(tmp_path, monkeypatch, extra, fits):
    monkeypatch.setattr(textfile, "SAMPLE", 64)
    monkeypatch.setattr(textfile, "LONGEST_LINE", 1_000)
    path = tmp_path / "log.csv"
    path.write_text("src,dst,t," + "x" * (990 + extra) + "\n1,2,3,4\n" + "5,6,7,8\n" * 300)
    if fits:
        assert len(read_events(path)) == 301
        return
    with pytest.raises(BadFile, match="a line of more than 1,000 bytes"):
        read_events(path)


def test_two_columns_of_one_name_are_still_found(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("src,dst,t,a,b,c,b\n1,2,3,4,5,6,7\n")
    with pytest.raises(BadInput, match=r"two columns called 'b' \(numbers 4 and 6, from 0\)"):
        read_events(path)


def test_a_mistyped_name_among_very_many_is_answered(tmp_path):
    path = written(tmp_path / "log.csv", wide(50_000))
    with pytest.raises(UnknownName, match="Did you mean 'src'"):
        read_events(path, src="scr")
