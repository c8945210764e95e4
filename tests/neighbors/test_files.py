"""A saved index comes back whole, or not at all."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pintgn.errors import BadFile
from pintgn.neighbors import NeighborIndex, adjacency
from tests.neighbors.oracle import logs


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=logs(), keep=st.sampled_from([None, 2]))
def test_a_reopened_index_answers_and_goes_on_like_the_saved_one(tmp_path, log, keep):
    index = log.index()
    if keep:
        index.trim(keep_last=keep)
    index.save(tmp_path / "index")
    again = NeighborIndex.open(tmp_path / "index")
    late = log.kind((log.t[-1] if log.t else 0) + 1)
    for one in (index, again):
        one.append([0, 7], [1, 7], np.array([late, late]))
    facts = ("events", "size", "nodes", "clock", "time", "forgotten")
    assert [getattr(index, fact) for fact in facts] == [getattr(again, fact) for fact in facts]
    nodes = np.arange(9)
    for a, b in zip(index.recent(nodes, late + 1, 50), again.recent(nodes, late + 1, 50), strict=True):
        assert (a == b).all()
    pairs = nodes[:, None], nodes, late + 1
    assert (index.last(*pairs).events == again.last(*pairs).events).all()


@pytest.mark.parametrize("piece", [1, 39, 40, 41, 79, 80, 81, 1_000])
def test_what_is_saved_in_pieces_opens_as_a_whole(piece, tmp_path, monkeypatch):
    """Five nodes of 40, 10, 10, 10 and 10 entries."""
    index = NeighborIndex()
    index.append(np.zeros(40, int), np.arange(40) % 4 + 1, np.arange(40))
    monkeypatch.setattr(adjacency, "PIECE", piece)
    index.save(tmp_path / "index")
    found = NeighborIndex.open(tmp_path / "index").pair_history([0, 1], [1, 3], 50, windows=[20])
    for one, other in zip(found, index.pair_history([0, 1], [1, 3], 50, windows=[20]), strict=True):
        assert np.array_equal(one, other)


def test_an_empty_index_can_be_saved(tmp_path):
    NeighborIndex(nodes=4).save(tmp_path / "index")
    again = NeighborIndex.open(tmp_path / "index")
    assert (again.nodes, again.size, again.clock, again.time) == (4, 0, None, None)
    NeighborIndex(time="float64").save(tmp_path / "index")
    assert NeighborIndex.open(tmp_path / "index").time == np.float64


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    index = NeighborIndex()
    index.append(0, 1, 1)
    index.save(tmp_path / "index")
    index.append(0, 1, 2)

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(BadFile, match="the disk is full"):
        index.save(tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert NeighborIndex.open(tmp_path / "index").events == 1


def test_missing_foreign_and_damaged_files_are_refused(tmp_path):
    path = tmp_path / "index"
    with pytest.raises(BadFile, match="there is no file"):
        NeighborIndex.open(path)
    with pytest.raises(BadFile, match="cannot write"):
        NeighborIndex().save(tmp_path / "nowhere" / "index")
    path.write_text("src,dst,t\n")
    with pytest.raises(BadFile, match="is not a saved NeighborIndex"):
        NeighborIndex.open(path)
    index = NeighborIndex()
    index.append([0, 1, 0], [1, 2, 1], [1, 2, 2])
    index.save(path)
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(BadFile):
            NeighborIndex.open(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ids", lambda a: a + 5),
        ("ids", lambda a: a.astype(np.int64)),
        ("times", lambda a: a[::-1]),
        ("times", lambda a: a.astype(np.float32)),
        ("numbers", lambda a: a * 0),
        ("numbers", lambda a: a[:-1]),
        ("lengths", lambda a: a + 1),
        ("lengths", lambda a: a - 2),
        ("clock", lambda a: a[:0]),
        ("clock", lambda a: a - 1),
        ("head", lambda a: a + 1),
        ("head", lambda a: a[:2]),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(tmp_path, name, change):
    index = NeighborIndex()
    index.append([0, 1, 0], [1, 2, 1], [1, 2, 3])
    index.save(tmp_path / "index")
    with np.load(tmp_path / "index") as archive:
        arrays = dict(archive)
    arrays[name] = change(arrays[name])
    with open(tmp_path / "index", "wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(BadFile):
        NeighborIndex.open(tmp_path / "index")
