"""Sizes in reading and writing: what is read does not depend on the pieces in which it is read."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pintgn import Cleaning, Columns, EventLog, read_events, write_events
from pintgn.datasets import simulate
from pintgn.errors import BadFile, BadInput, TooLarge
from pintgn.events import categories as hashed
from pintgn.events import numbering, table
from pintgn.events.kernels import LONGEST_TEXT, RUN
from pintgn.ingest import feature_columns as features
from pintgn.ingest import jsonfile, table_source, textfile
from tests.conftest import around
from tests.learn.helpers import random_log

ROWS = 12


def columns():
    rng = np.random.default_rng(0)
    return {
        "src": [f"user {k}" for k in rng.integers(0, 5, ROWS)],
        "dst": [f"item {k}" for k in rng.integers(0, 7, ROWS)],
        "t": np.arange(100, 100 + ROWS).tolist(),
        "kind": [["a", "b", ""][k] for k in rng.integers(0, 3, ROWS)],
        "amount": rng.normal(size=ROWS).round(3).tolist(),
        "label": (np.arange(ROWS) % 2).tolist(),
    }


def written(form: str, folder):
    """The same events in a file or in memory."""
    path, given = folder / f"events.{form}", columns()
    rows = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
    if form == "csv":
        path.write_text("\n".join([",".join(given), *(",".join(map(str, row.values())) for row in rows)]) + "\n")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "json":
        path.write_text(json.dumps(rows))
    elif form == "parquet":
        pq.write_table(pa.table(given), path)
    else:
        return pa.table(given) if form == "arrow" else given
    return path


OPTIONS = {"features": ["kind", "amount"], "label": "label"}


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet", "arrow", "columns"])
@pytest.mark.parametrize("encoding", ["onehot", "code"])
def test_a_file_is_read_alike_in_pieces_of_any_size(form, encoding, tmp_path, monkeypatch):
    path = written(form, tmp_path)
    expected = read_events(written("columns", tmp_path), columns=Columns(encoding=encoding), **OPTIONS)
    assert read_events(path, columns=Columns(encoding=encoding), **OPTIONS) == expected
    size = path.stat().st_size if form == "csv" else 1_000
    longest = max(map(len, path.read_bytes().splitlines(keepends=True))) if form == "csv" else 1
    for rows in (1, 5, *around(ROWS)):
        for module in (table_source, jsonfile):
            monkeypatch.setattr(module, "BATCH", rows)
        monkeypatch.setattr(hashed, "PIECE", rows)
        assert read_events(path, columns=Columns(encoding=encoding), **OPTIONS) == expected
    for block in (longest, longest + 1, *around(size // 2), *around(size)):
        monkeypatch.setattr(textfile, "BLOCK", block)
        assert read_events(path, columns=Columns(encoding=encoding), **OPTIONS) == expected


def test_a_row_longer_than_a_block_is_read(tmp_path, monkeypatch):
    path = tmp_path / "long.csv"
    path.write_text(f"src,dst,t,note\n1,2,3,short\n1,3,4,{'long ' * 50}\n2,3,5,short\n")
    expected = read_events(path)
    for block in (16, *around(250), *around(len("1,3,4,") + 250 + 1)):
        monkeypatch.setattr(textfile, "BLOCK", block)
        assert read_events(path) == expected


def test_a_text_file_is_understood_by_a_beginning_of_any_size(tmp_path, monkeypatch):
    path = written("csv", tmp_path)
    expected = read_events(path, **OPTIONS)
    lines = path.read_bytes().splitlines(keepends=True)
    ends = np.cumsum([len(line) for line in lines[:3]]).tolist()
    for size in (16, *(size for end in ends for size in around(end)), *around(path.stat().st_size)):
        monkeypatch.setattr(textfile, "SAMPLE", size)
        assert read_events(path, **OPTIONS) == expected


def test_a_line_of_any_length_is_read_up_to_the_longest(tmp_path, monkeypatch):
    path = tmp_path / "wide.csv"
    names = [f"feature{k}" for k in range(40)]
    path.write_text(",".join(["src", "dst", "t", *names]) + "\n" + "1,2,3" + ",0.5" * 40 + "\n")
    header = path.read_text().index("\n")
    monkeypatch.setattr(textfile, "SAMPLE", 16)
    for longest in around(header):
        monkeypatch.setattr(textfile, "LONGEST_LINE", longest)
        if longest > header:
            assert read_events(path, features="all").features.shape == (1, 40)
        else:
            with pytest.raises(BadFile, match=f"a line of more than {longest} bytes"):
                read_events(path, features="all")


def test_a_row_that_is_longer_than_a_block_and_comes_late_is_refused_in_words(tmp_path, monkeypatch):
    path = tmp_path / "late.csv"
    path.write_text("src,dst,t,note\n" + "1,2,3,short\n" * 30 + f"1,3,4,{'long ' * 50}\n")
    monkeypatch.setattr(textfile, "SAMPLE", 64)
    monkeypatch.setattr(textfile, "BLOCK", 64)
    with pytest.raises(BadFile, match="a row of more than 64 bytes. Events come one on each line; is a quotation mark"):
        read_events(path, features=["note"])


@pytest.mark.parametrize("first", [2, 999, 1_000, 1_001, 1_500])
def test_a_key_of_json_is_a_column_wherever_it_first_occurs(first, tmp_path):
    """There was a size here: keys were looked for in the first 1,000 objects."""
    rows = [{"src": k % 5, "dst": k % 7, "t": k} for k in range(1_600)]
    rows[first - 1] |= {"amount": 2.5, "more": {"weight": 3}, "v": [1, 2]}
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = read_events(path, features="all", cleaning=Cleaning(fill=0))
    assert log.schema.feature_columns() == ["amount", "more.weight", "v0", "v1"]
    assert log.features[first - 1].tolist() == [2.5, 3, 1, 2]
    assert log.features.sum() == 8.5


@pytest.mark.parametrize("rows", [1, 2, *around(6)])
@pytest.mark.parametrize("column", ["src", "amount"])
def test_a_column_of_two_types_is_refused_wherever_the_second_begins(column, rows, tmp_path, monkeypatch):
    lines = [{"src": 1, "dst": 2, "t": k, "amount": 1.5} for k in range(6)]
    lines[-1][column] = "many"
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    monkeypatch.setattr(jsonfile, "BATCH", rows)
    with pytest.raises(BadInput, match="many|mixes|are text"):
        read_events(path, features=["amount"])


@pytest.mark.parametrize("kinds", ["numbers", "texts"])
@pytest.mark.parametrize("rows", [1, *around(RUN), *around(2 * RUN)])
def test_nodes_are_numbered_by_first_appearance(kinds, rows):
    rng = np.random.default_rng(rows)
    ends = rng.integers(0, 10**9, (rows, 2)) // rng.integers(1, 10**8, (rows, 1))
    src, dst = (ends[:, side].tolist() if kinds == "numbers" else [f"n{k}" for k in ends[:, side]] for side in (0, 1))
    log = read_events({"src": src, "dst": dst, "t": range(rows)})
    number: dict = {}
    for one, other in zip(src, dst, strict=True):
        number.setdefault(one, len(number))
        number.setdefault(other, len(number))
    assert log.src.tolist() == [number[one] for one in src]
    assert log.dst.tolist() == [number[one] for one in dst]
    assert log.ids.decode().to_pylist() == list(number)


def test_the_longest_id():
    names = ["a" * (LONGEST_TEXT - 1), "b" * LONGEST_TEXT]
    log = read_events({"src": names, "dst": ["x", "x"], "t": [1, 2]})
    assert [len(log.id(node)) for node in (0, 2)] == [LONGEST_TEXT - 1, LONGEST_TEXT]
    with pytest.raises(BadInput, match=f"an id is longer than {LONGEST_TEXT:,} bytes. Use a shorter name."):
        read_events({"src": ["c" * (LONGEST_TEXT + 1)], "dst": ["x"], "t": [1]})


def test_more_nodes_than_can_be_numbered_are_refused(monkeypatch):
    def read():
        return read_events({"src": [1, 2, 3], "dst": [4, 5, 6], "t": [1, 2, 3]})

    for most in around(6)[1:]:
        monkeypatch.setattr(numbering, "MOST_NODES", most)
        assert read().nodes == 6
    monkeypatch.setattr(numbering, "MOST_NODES", 5)
    with pytest.raises(TooLarge, match="more than 5 nodes"):
        read()


@pytest.mark.parametrize("count", around(features.MOST_ONE_HOT))
def test_few_categories_are_columns_and_many_are_hashed(count):
    kinds = [f"k{k:02}" for k in range(count)]
    log = read_events({"src": [1] * count, "dst": [2] * count, "t": range(count), "kind": kinds}, features=["kind"])
    one_hot = count <= features.MOST_ONE_HOT
    assert log.schema.features[0].kind == ("onehot" if one_hot else "hash")
    assert log.features.tolist() == (np.eye(count) if one_hot else hashed.signs(hashed.hashes(kinds))).tolist()


@pytest.mark.parametrize("empty", [False, True])
def test_so_many_categories_and_no_more(empty, monkeypatch):
    monkeypatch.setattr(features, "MOST_CATEGORIES", 5)
    for count in around(5):
        kinds = [f"k{k}" for k in range(count)] + [""] * empty
        given = {"src": [1] * len(kinds), "dst": [2] * len(kinds), "t": range(len(kinds)), "kind": kinds}
        if count <= 5:
            assert len(read_events(given, features=["kind"]).schema.features[0].categories) == count
        else:
            with pytest.raises(BadInput, match="more than 5 different values"):
                read_events(given, features=["kind"])


@pytest.mark.parametrize("width", [1, *around(32), *around(64)])
def test_a_log_of_any_width_is_kept(width, tmp_path):
    log = random_log(20, 6, features=width)
    log.save(tmp_path / "log.parquet")
    assert EventLog.open(tmp_path / "log.parquet") == log


def test_a_log_is_written_alike_in_pieces_of_any_size(tmp_path, monkeypatch):
    rows = 3_000
    kinds = np.array(["a", "b", "c"])[np.arange(rows) % 3].tolist()
    given = {"src": np.arange(rows) % 9, "dst": np.arange(rows) % 7, "t": np.arange(rows), "kind": kinds}
    log = read_events(given, features=["kind"])
    write_events(log, tmp_path / "whole.csv")
    for name, size in [("ROWS", n) for n in (1, *around(rows // 2), *around(rows))] + [
        ("BYTES", 16 * n) for n in around(rows // 2)
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(table, name, size)
            log.save(tmp_path / "log.parquet")
            assert EventLog.open(tmp_path / "log.parquet") == log
            write_events(log, tmp_path / "again.csv")
            assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("world", ["repeat", "shop"])
def test_the_truth_of_a_world_is_the_same_in_pieces_of_any_size(world, monkeypatch):
    made = simulate.make_world(world)
    log = made.simulate(300, seed=1)
    expected = made.best_ap(log)
    for size in (7, *around(150), *around(300)):
        monkeypatch.setattr(simulate, "PIECE", size)
        assert made.best_ap(log) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_ids_keep_their_numbers_while_their_table_grows(kind):
    """Batch after batch, through many sizes of the table and thousands of collisions in it."""
    rng = np.random.default_rng(0)
    ids = rng.choice(2**62, 6_000, replace=False)
    src, dst = rng.choice(ids, (2, 9_000))
    table = pa.table({"src": pa.array(src).cast(kind), "dst": pa.array(dst).cast(kind), "t": np.arange(9_000)})
    log = read_events(pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=500)))
    ends = np.stack([src, dst], 1).ravel()
    first = ends[np.sort(np.unique(ends, return_index=True)[1])]
    assert log.ids.decode().to_pylist() == pa.array(first).cast(kind).to_pylist()
    number = {name: k for k, name in enumerate(first.tolist())}
    assert log.src.tolist() == [number[one] for one in src.tolist()]
    assert log.dst.tolist() == [number[one] for one in dst.tolist()]
