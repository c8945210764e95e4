"""Sizes of the index: lists just shorter and longer than a block, and the largest node."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.errors import BadInput
from pintgn.neighbors import NeighborIndex, adjacency, queries
from pintgn.neighbors.kernels_lookups import BLOCK
from tests.conftest import around

B = int(BLOCK)


@pytest.mark.parametrize("length", [1, *around(B), *around(2 * B)])
def test_meetings_are_found_in_lists_of_any_length(length):
    """Node 0 meets others, and node 1 once, at any place of its list; node 1 has a list as long, so that it is read."""
    for place in sorted({0, length - 1, *(p for p in (B - 1, B, 2 * B - 1) if p < length)}):
        dst = np.full(length, 2)
        dst[place] = 1
        made = NeighborIndex()
        made.append(np.zeros(length, np.int64), dst, np.arange(length))
        made.append(np.ones(length, np.int64), np.full(length, 3), np.arange(length, 2 * length))
        for t in (place, place + 1, 2 * length):
            met = t > place
            assert made.count_pair(np.array([0]), np.array([1]), np.array([t])).tolist() == [int(met)]
            found = made.last(np.array([0]), np.array([1]), np.array([t]))
            assert bool(np.ravel(found.mask)[0]) == met
            assert not met or int(np.ravel(found.t)[0]) == place


def test_the_largest_node(monkeypatch):
    monkeypatch.setattr(queries, "LARGEST_ID", 40)
    for node in (38, 39):
        made = NeighborIndex()
        made.append([0], [node], [1])
        assert made.count(np.array([node]), np.array([2])).tolist() == [1]
    with pytest.raises(BadInput, match="node id 40 is too large: ids are indices into a table and end at 39"):
        NeighborIndex().append([0], [40], [1])


@pytest.mark.parametrize("narrow", [0, 1, 38, 39, 40, 41, 10_000])
@pytest.mark.parametrize("given", [False, True])
def test_numbers_in_four_bytes_or_eight_answer_alike(narrow, given, monkeypatch, tmp_path):
    """Whatever does not fit in four bytes any more, an event's number or where an entry stands, widens all of them."""
    src, dst, t = (np.random.default_rng(0).integers(0, 6, 40) for _ in range(3))
    t.sort()
    numbers = np.arange(40) + (np.arange(40) >= 20) if given else None

    def answers():
        index = NeighborIndex()
        for rows in np.array_split(np.arange(40), 5):
            index.append(src[rows], dst[rows], t[rows], numbers=None if numbers is None else numbers[rows])
        index.fork().save(tmp_path / "index.npz")
        opened = NeighborIndex.open(tmp_path / "index.npz")
        found = [one.recent(np.arange(6), 9, 5) for one in (index, index.fork(), opened)]
        assert all(np.array_equal(a, b) for other in found for a, b in zip(other, found[0], strict=True))
        trimmed = index.fork()
        trimmed.trim(keep_last=3)
        return index._arenas[2].dtype, [*found[0], *trimmed.recent(np.arange(6), 9, 5)]

    _, expected = answers()
    monkeypatch.setattr(adjacency, "NARROW", narrow)
    dtype, found = answers()
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert dtype == (np.int32 if narrow == 10_000 else np.int64)


@pytest.mark.parametrize("number", around(adjacency.NARROW))
def test_the_largest_number_in_four_bytes(number, tmp_path):
    index = NeighborIndex()
    index.append([0, 0], [1, 2], [1, 2], numbers=[5, number])
    assert index._arenas[2].dtype == (np.int32 if number <= adjacency.NARROW else np.int64)
    index.trim(keep_last=1)
    index.save(tmp_path / "index.npz")
    for one in (index, NeighborIndex.open(tmp_path / "index.npz")):
        assert one.recent([0, 1, 2], 9, 1).events.ravel().tolist() == [number, 5, number]
        assert one.events == number + 1


def test_an_arena_that_grows_often_wastes_nothing():
    """Two busy nodes: their segments of 2, 4, 8, … entries, each once, however often the arena had to grow."""
    index = NeighborIndex()
    for start in range(0, 3000, 10):
        index.append(np.zeros(10, int), np.ones(10, int), np.arange(start, start + 10))
    assert int(index._used[0]) <= 2 * sum(2**power for power in range(1, 13))
