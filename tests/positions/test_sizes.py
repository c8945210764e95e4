"""Sizes of tables of positions: counts are what plain arithmetic says on either side of each."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.errors import BadInput, TooLarge
from pintgn.neighbors import queries
from pintgn.positions import RelativePositions, capacity, exact, sketch
from pintgn.positions.kernels_arena import BINS, DENSE_SHARE, FEW, UNIT, WIDTH
from tests.conftest import around
from tests.positions.helpers import SHAPES, everything, numpy_rows


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "leaves",
    sorted({
        n for size in (WIDTH, 2 * WIDTH, UNIT, 8 * UNIT, 9 * UNIT, BINS - 1, FEW, FEW + DENSE_SHARE, exact.START // 8)
        for n in around(size)
    }),
)  # fmt: skip
def test_positions_of_stars_of_any_size(kind, leaves):
    """A hub meets every leaf twice, so its tables grow through every size of block, and its leaves all know it."""
    log = star(leaves)
    positions, nodes = SHAPES[kind](3), np.arange(leaves + 1)
    positions.observe(*log)
    expected = numpy_rows(log, leaves + 1, 3)  # (root, d, node)
    for root in (0, 1, leaves):
        found = positions.read(nodes, np.full(leaves + 1, root), transform="raw")
        assert (found == expected[root].T).all()


def star(leaves):
    rounds = np.concatenate([np.arange(1, leaves + 1), np.arange(leaves, 0, -1)])
    return np.zeros(2 * leaves, np.int64), rounds, np.arange(2 * leaves)


def busy(events=600, nodes=40):
    rng = np.random.default_rng(0)
    return rng.integers(0, nodes, events), rng.integers(0, nodes, events), np.arange(events)


def test_a_long_arena_of_positions_changes_no_count(monkeypatch):
    """Counts of four bytes become eight-byte floats where the arena gets too long for numbers of four bytes."""
    log = busy()
    expected = RelativePositions(4)
    expected.observe(*log)
    for longest in (0, *around(exact.START), *around(2 * exact.START)):
        monkeypatch.setattr(exact, "LONGEST", longest)
        positions = RelativePositions(4)
        positions.observe(*log)
        assert (everything(positions, 40, None) == everything(expected, 40, None)).all()


def test_positions_of_more_nodes_than_can_be_numbered_are_refused(monkeypatch):
    monkeypatch.setattr(queries, "LARGEST_ID", 40)
    for node in (38, 39):
        positions = RelativePositions(3)
        positions.observe([0], [node], [1])
        assert positions.read([node], [0], transform="raw").tolist() == [[0, 1, 0]]
    with pytest.raises(
        BadInput, match="node id 40 is too large: ids are indices into a table and end at 39. Map your own ids"
    ):
        RelativePositions(3).observe([0], [40], [1])


@pytest.mark.parametrize("width", [1, *around(64), *around(128)])
def test_sketches_of_any_width(width):
    """The only count of a row is exact, whatever the width; rows are as wide as asked."""
    positions = RelativePositions(2, "sketch", width=width)
    positions.observe([0] * 5, [1] * 5, np.arange(5))
    assert positions.read([1], [0], transform="raw").tolist() == [[0, 5]]
    log = busy(100, 12)
    several = RelativePositions(3, "sketch", width=width, seed=1)
    several.observe(*log)
    one_by_one = RelativePositions(3, "sketch", width=width, seed=1)
    for k in range(100):
        one_by_one.observe(*(column[k : k + 1] for column in log))
    assert (everything(several, 12, None) == everything(one_by_one, 12, None)).all()
    assert np.isfinite(everything(several, 12, None)).all()


@pytest.mark.parametrize("size", [1, *around(20), *around(40)])
def test_exact_positions_become_a_sketch_in_pieces_of_any_size(size, monkeypatch):
    log = busy()
    monkeypatch.setattr(sketch, "CHUNK", size)
    auto, own = RelativePositions(4, "auto", width=4, budget=20_000), RelativePositions(4, "sketch", width=4)
    for positions in (auto, own):
        positions.observe(*log)
    assert auto.backend == "sketch"
    assert np.array_equal(everything(auto, 40, None), everything(own, 40, None))


def test_the_budget_is_kept_to_the_byte():
    log = busy()

    def backend(budget):
        positions = RelativePositions(4, "auto", width=4, budget=budget)
        positions.observe(*log)
        return positions.backend

    few, enough = 0, 10**6
    assert (backend(few), backend(enough)) == ("sketch", "exact")
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if backend(middle) == "exact" else (middle, enough)
    roomy = RelativePositions(4)
    roomy.observe(*log)
    assert [backend(budget) for budget in around(enough)] == ["sketch", "exact", "exact"]
    assert enough <= roomy.nbytes


def test_memory_is_asked_about_where_it_matters(monkeypatch):
    asked = []
    monkeypatch.setattr(capacity, "available", lambda: asked.append(1) or 0)
    for more in around(capacity.SMALL)[:2]:
        capacity.require_memory(more, more, "this", "Take less.")
    assert not asked
    with pytest.raises(TooLarge, match=r"this needs 16.8 MB.* 0 B are free. Take less."):
        capacity.require_memory(capacity.SMALL + 1, capacity.SMALL + 1, "this", "Take less.")
    monkeypatch.setattr(capacity, "available", lambda: capacity.SMALL + 1)
    capacity.require_memory(capacity.SMALL + 1, capacity.SMALL + 1, "this", "Take less.")


def test_freed_memory_is_given_back_or_nothing_happens(monkeypatch):
    asked = []

    class Library:
        def __init__(self, name):
            pass

        def malloc_trim(self, keep):
            asked.append(keep)

    monkeypatch.setattr(capacity.ctypes, "CDLL", Library)
    capacity.give_back()
    assert asked == [0]
    monkeypatch.setattr(capacity.ctypes, "CDLL", lambda name: object())  # another C library
    capacity.give_back()
