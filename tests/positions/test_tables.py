"""Tables under stress: shapes, growth, sweeping, widening, and crowded keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from pintgn.positions import RelativePositions, kernels_arena, kernels_tables
from pintgn.positions.exact import ExactTables
from pintgn.positions.kernels_arena import CAP, EMPTY, FREE, FREED, HELD, NODES, RATIO, SIZES, SPREAD, TOP, UNIT, WIDTH
from tests.positions.helpers import everything, numpy_rows


def check(store: ExactTables) -> None:
    """What the module says about tables holds for every one of them."""
    slots, ratio = store.arena.view(np.uint32), int(store.book[RATIO])
    blocks = []
    for off, cap, spread, held, last, _ in store.heads[store.heads[:, CAP] != 0].tolist():
        start = off * UNIT
        size = -cap if cap < 0 else cap + (cap + WIDTH) // ratio
        blocks.append((start, start + int(SIZES[np.searchsorted(SIZES, size)])))
        if cap < 0:
            assert not store.arena[start + last + 1 : start - cap].any()
            continue
        keys = slots[ratio * (start + cap) : ratio * (start + cap) + cap + WIDTH]
        used = np.flatnonzero(keys != EMPTY)
        assert len(used) == held <= cap
        assert (np.diff(keys[used].astype(np.int64)) > 0).all()
        assert max(kernels_arena.unscramble(key) for key in keys[used]) == last
        assert (keys[cap:] == EMPTY).all()
        homes = (keys[used].astype(np.uint64) * np.uint64(spread)) >> np.uint64(32)
        assert (homes <= used).all()
        for home, place in zip(homes.tolist(), used.tolist(), strict=True):
            assert (keys[home:place] != EMPTY).all()
        assert not store.arena[start : start + cap][keys[:cap] == EMPTY].any()
    blocks.sort()
    assert all(a[1] <= b[0] for a, b in zip(blocks, blocks[1:], strict=False))  # noqa: RUF007
    assert sum(b - a for a, b in blocks) + store.book[FREED] == store.book[TOP]
    assert store.book[TOP] <= len(store.arena)


@given(st.integers(0, 2**31 - 2))
def test_scrambling_is_undone_and_never_gives_the_mark_of_empty_slots(node):
    key = kernels_arena.scramble(node)
    assert kernels_arena.unscramble(key) == node
    assert key != EMPTY


FAR = ([0], [20_000], [-1])  # an event that makes the graph large and so the tables sparse


@given(st.lists(st.integers(0, 2**32 - 1), min_size=20, max_size=20), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_the_vector_comparison_counts_unsigned_numbers(numbers, first, key):
    found = count_below(np.array(numbers, np.uint32), np.uint64(first), np.uint32(key))
    assert found == sum(number < key for number in numbers[first : first + WIDTH])


@njit
def count_below(slots, first, key):
    return kernels_arena.count_below(slots, first, key)


@pytest.mark.parametrize("nodes", [30, 700, 3000])
@pytest.mark.parametrize("far", [False, True])
def test_tables_keep_their_promises_while_they_grow(nodes, far):
    rng = np.random.default_rng(nodes)
    src, dst = np.minimum(rng.integers(0, nodes, (2, 4000)), rng.integers(0, nodes, (2, 4000)))
    t = np.sort(rng.integers(0, 3000, 4000))
    positions = RelativePositions(4, "exact")
    if far:
        positions.observe(*FAR)
    for start in range(0, 4000, 1000):
        positions.observe(*(column[start : start + 1000] for column in (src, dst, t)))
        check(positions._store)
    shapes = positions._store.heads[:, CAP]
    assert (shapes > 0).any() if far or nodes == 3000 else (shapes < 0).any()
    ids = rng.integers(1, nodes, (2, 3000))
    if nodes <= 700 and not far:
        expected = numpy_rows((src, dst, t), nodes, 4)[ids[1], :, ids[0]]
        assert np.array_equal(positions.read(*ids, transform="raw"), expected)


def test_sweeping_moves_tables_and_no_count():
    rng = np.random.default_rng(0)
    positions = RelativePositions(4, "exact")
    positions.observe(*FAR)
    positions.observe(rng.integers(0, 300, 5000), rng.integers(0, 300, 5000), np.arange(5000))
    store, before = positions._store, everything(positions, 300, None)
    assert store.book[FREED] > 0
    kernels_arena.compact(store.heads, store.arena, store.book, store._by_offset())
    assert store.book[FREED] == 0
    assert not store.book[FREE:].any()
    check(store)
    assert np.array_equal(everything(positions, 300, None), before)
    positions.observe(rng.integers(0, 300, 5000), rng.integers(0, 300, 5000), np.arange(5000, 10_000))
    check(store)


@pytest.mark.parametrize("far", [False, True])
def test_widening_changes_no_count(far):
    rng = np.random.default_rng(1)
    positions = RelativePositions(4, "exact")
    if far:
        positions.observe(*FAR)
    positions.observe(rng.integers(0, 300, 4000), rng.integers(0, 300, 4000), np.arange(4000))
    store, before = positions._store, everything(positions, 300, None)
    assert store.arena.dtype == np.uint32
    store.extend(2)  # as the pass asks for when a count might pass 2**31
    assert store.arena.dtype == np.float64
    check(store)
    assert np.array_equal(everything(positions, 300, None), before)


def test_counts_widen_exactly_when_they_must():
    # two nodes meeting n times have C(n, 2) walks of two steps each; C(65537, 2) is just above 2**31 - 1
    for meetings, dtype in ((65_000, np.uint32), (66_000, np.float64)):
        positions = RelativePositions(3, "exact")
        positions.observe(np.zeros(meetings, int), np.ones(meetings, int), np.arange(meetings))
        positions.advance(meetings)
        assert positions._store.arena.dtype == dtype
        assert positions.read(0, 0, transform="raw")[2] == meetings * (meetings - 1) // 2


def test_crowded_keys_cost_time_and_nothing_else():
    """Nodes chosen so that all their keys lie at the very end of the range, where the homes are the last slots."""
    ends = np.arange(2**32 - 1_000_000, 2**32 - 1, dtype=np.uint32)
    crowd = np.array([kernels_arena.unscramble(key) for key in ends], np.int64)
    crowd = crowd[crowd < 2**20]
    assert len(crowd) > 150
    positions = RelativePositions(3, "exact")
    hub, leaf = 2**20 - 1, 2**20 - 2
    positions.observe(np.full(len(crowd), hub), crowd, np.arange(len(crowd)))
    positions.observe([leaf], [hub], [len(crowd)])
    positions.advance(len(crowd) + 1)
    heads = positions._store.heads[hub * 2]
    assert heads[SPREAD] < heads[CAP] // 2  # the table gave way
    assert heads[HELD] == len(crowd) + 1
    check_one = positions.read(crowd, hub, transform="raw")
    assert (check_one[:, 1] == 1).all()
    assert (positions.read(crowd, leaf, transform="raw")[:, 2] == 1).all()
    assert positions._store.book[NODES] == 2**20


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(100, 100_000))
@settings(max_examples=60, deadline=None)
def test_a_table_holds_what_was_put_in(partners, hint):
    positions = RelativePositions(2, "exact")
    positions.observe([hint], [hint], [-1])
    positions.observe(np.full(len(partners), 50), partners, np.arange(len(partners)))
    found = positions.read(np.arange(51), 50, transform="raw")[:, 1]
    assert found.tolist() == np.bincount(partners, minlength=51).tolist()
    check(positions._store)


@given(st.lists(st.integers(0, 2**32 - 2), max_size=80, unique=True))
def test_sorting_sorts(drawn):
    total = len(drawn)
    keys = np.zeros(2 * total + kernels_arena.BINS, np.uint32)
    vals = np.zeros(2 * total)
    keys[:total], vals[:total] = drawn, drawn
    kernels_tables.sort_pairs(keys, vals, np.uint64(total))
    assert keys[:total].tolist() == sorted(drawn)
    assert vals[:total].tolist() == sorted(drawn)
