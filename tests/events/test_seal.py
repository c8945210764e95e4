"""A Parquet file that pintgn wrote gives its rows or is refused; other programs read it, and theirs are read."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pintgn import EventLog, read_events
from pintgn.errors import BadFile, PintgnError
from pintgn.events import seal
from pintgn.events.seal import MARK, SEAL, check_seal
from tests.events.test_store import rich


@pytest.fixture
def saved(tmp_path):
    log = rich(60)
    log.save(tmp_path / "log.parquet")
    return tmp_path / "log.parquet", log


def without_seal(data: bytes) -> bytes:
    """The file as a pintgn that knew no seals would have written it."""
    at = data.rindex(MARK)
    return data[:at] + data[at + SEAL :]


def test_any_flipped_bit_is_found(saved):
    path, log = saved
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    places = {
        *range(0, len(good), 61),
        *range(len(good) - 12, len(good)),
        *range(good.rindex(MARK), good.rindex(MARK) + 40),
    }
    for place in sorted(places):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(bad)
        for read in (EventLog.open, lambda path: read_events(path, "who", "whom", "when", features=["w"])):
            with pytest.raises(BadFile) as error:
                read(path)
            assert "\n" not in str(error.value)
    path.write_bytes(good)
    assert EventLog.open(path) == log


def test_lost_added_and_exchanged_bytes_are_found(saved):
    path, _ = saved
    good = path.read_bytes()
    half = len(good) // 2
    for bad in (good[:-1], good[:half], good[:half] + good[half + 1 :], good + b"\0", good[:half] + b"\0" + good[half:],
                good[:-8] + good[-9:], b"PAR1" + good, good[:4] + bytes(len(good) - 12) + good[-8:]):  # fmt: skip
        path.write_bytes(bad)
        with pytest.raises(BadFile):
            EventLog.open(path)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_digest_covers_the_file_whatever_it_is_read_by(saved, monkeypatch, more):
    path, log = saved
    good = path.read_bytes()
    monkeypatch.setattr(seal, "CHUNK", good.rindex(MARK) + more)
    assert check_seal(path)
    assert EventLog.open(path) == log


def test_other_programs_read_a_sealed_file(saved):
    path, log = saved
    assert check_seal(path)
    assert pq.read_table(path).num_rows == len(log)
    assert len(pd.read_parquet(path)) == len(log)
    pl = pytest.importorskip("polars")
    assert pl.read_parquet(path).height == len(log)


def test_a_file_that_another_program_wrote_is_read(tmp_path, saved):
    path, log = saved
    again = tmp_path / "again.parquet"
    pq.write_table(pq.read_table(path), again)  # our metadata goes with it, the seal does not
    assert not check_seal(again)
    assert EventLog.open(again) == log
    pq.write_table(pa.table({"src": [1, 2], "dst": [2, 1], "t": [1, 2]}), again)
    assert len(read_events(again)) == 2


def test_a_log_saved_without_a_seal_is_still_read(saved):
    path, log = saved
    path.write_bytes(without_seal(path.read_bytes()))
    assert not check_seal(path)
    assert EventLog.open(path) == log


def test_an_embedded_node_table_is_not_trusted(saved):
    """The cause of a segmentation fault: lengths and offsets of a table within the footer, believed."""
    path, log = saved
    table = pq.read_table(path)
    told = json.loads(table.schema.metadata[b"pintgn"])
    good = log.ids.ids
    offsets = np.frombuffer(good.buffers()[1], np.int32).copy()
    offsets[len(offsets) // 2] = 2**30
    wild = pa.StringArray.from_buffers(len(good), pa.py_buffer(offsets), good.buffers()[2])
    features = pa.array(np.zeros(len(good), np.float32))
    for column in (wild, good[:-1], pa.array([None, *good.to_pylist()[1:]]), pa.array(np.zeros(len(good)))):
        nodes = pa.table({"id": column, "features": pa.FixedSizeListArray.from_arrays(features[: len(column)], 1)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, nodes.schema) as writer:
            writer.write_table(nodes)
        import base64

        embedded = {b"pintgn.nodes": base64.b64encode(sink.getvalue()), b"pintgn": json.dumps(told).encode()}
        pq.write_table(table.replace_schema_metadata(table.schema.metadata | embedded), path)
        with pytest.raises(PintgnError):
            EventLog.open(path)


def test_text_of_another_program_that_is_no_text_is_refused(tmp_path):
    wrong = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
    path = tmp_path / "wrong.parquet"
    pq.write_table(pa.table({"src": wrong, "dst": ["a", "b"], "t": [1, 2]}), path)
    with pytest.raises(BadFile, match="UTF8"):
        read_events(path)
