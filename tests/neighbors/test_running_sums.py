"""Sums over windows as of any time, against a slow count over all that was added."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.neighbors.kernels_sums import FREE, STEPS
from pintgn.neighbors.running_sums import CHAINS, FewSums, RunningSums

WINDOWS, NEWEST, EVERY = np.array([4, 30]), (1, 3), tuple(range(len(CHAINS)))


def members(src, dst, u, v):
    """Which events (e,) each chain of a source and a destination holds."""
    return (
        src == u, dst == v, (src == u) & (dst == v), np.ones(len(src), bool), dst == u, src == v,
        (src == v) & (dst == u),
    )  # fmt: skip


def slow(src, dst, when, values, u, v, t):
    """Of each chain strictly before t: counts, sums and squares within the windows and ever; time since; the means of
    the newest moments."""
    for mine in members(src, dst, u, v):
        known = mine & (when < t)
        spans = [known & (when >= t - window) for window in WINDOWS] + [known]
        count = [some.sum() for some in spans]
        sums = [np.concatenate([values[some].sum(0), (values[some] ** 2).sum(0)]) for some in spans]
        last = np.zeros((len(NEWEST), values.shape[1]))
        if known.any():
            moments = np.unique(when[known])
            last = np.stack([values[known & np.isin(when, moments[-k:])].mean(0) for k in NEWEST])
        yield count, sums, t - when[known].max() if known.any() else 0, last


def random_events(seed, count=400, delay="any", dtype=np.int64):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 9, count), rng.integers(0, 9, count)
    t = np.sort(rng.integers(0, 150, count)).astype(dtype)
    when = (t + {"none": 0, "one": 7, "any": rng.integers(0, 60, count)}[delay]).astype(dtype)
    return rng, src, dst, when, np.rint(rng.normal(size=(count, 2)) * STEPS) / STEPS


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("delay", ["none", "one", "any"])
def test_look_ups_agree_with_a_slow_count(dtype, delay):
    rng, src, dst, when, values = random_events(5, delay=delay, dtype=dtype)
    index, begin = RunningSums(2, np.dtype(dtype)), 0
    for end in (1, 2, 50, 51, 300, len(src)):
        rows = slice(begin, end)
        index.add(src[rows], dst[rows], when[rows], values[rows])
        begin = end
        u, v, at = rng.integers(0, 12, 40), rng.integers(0, 12, 40), rng.integers(0, 230, 40).astype(dtype)
        u[1:3], v[2], at[1:3] = u[0], v[0], at[0]  # candidates of one source
        found = index.look_up(u, v, at, WINDOWS, NEWEST, EVERY)
        for q in range(len(u)):
            expected = slow(src[:end], dst[:end], when[:end], values[:end], u[q], v[q], at[q])
            for chain, (count, sums, dt, last) in enumerate(expected):
                assert found.count[q, chain].tolist() == count
                assert found.dt[q, chain] == dt
                np.testing.assert_allclose(found.sums[q, chain], sums, atol=1e-5)
                np.testing.assert_allclose(found.last[q, chain], last, atol=1e-6)


def test_no_order_of_what_is_added_changes_a_bit():
    _, src, dst, when, values = random_events(7)
    values *= 1_000
    asked = np.arange(9), np.arange(9)[::-1].copy(), np.full(9, 120)
    found = []
    for order in (np.arange(len(src)), np.arange(len(src))[::-1], np.random.default_rng(1).permutation(len(src))):
        index = RunningSums(2, np.dtype(np.int64))
        for rows in np.array_split(order, 7):
            index.add(src[rows], dst[rows], when[rows], values[rows])
        found.append(index.look_up(*asked, WINDOWS, NEWEST, EVERY))
    for other in found[1:]:
        for name in ("count", "dt", "sums", "last"):
            assert np.array_equal(getattr(found[0], name), getattr(other, name))


def test_what_happens_on_a_self_loop_is_known_of_its_node_at_either_end():
    """Node 4 loops twice at once, with 1 and 5, and writes to 5 with 6."""
    index = RunningSums(1, np.dtype(np.int64))
    index.add(np.array([4, 4, 4]), np.array([4, 4, 5]), np.array([10, 10, 20]), np.array([[1.0], [5.0], [6.0]]))
    found = index.look_up(np.array([4, 9]), np.array([4, 4]), np.array([21, 21]))
    assert found.count[:, :, 0].tolist() == [[3, 2, 2], [0, 2, 0]]  # as a source, as a destination, with itself
    assert found.mean[:, :, 0].tolist() == [[4, 3, 3], [0, 3, 0]]


def test_a_window_begins_with_its_first_moment_and_ends_before_the_query():
    index = RunningSums(1, np.dtype(np.int64))
    index.add(np.zeros(4, np.int64), np.ones(4, np.int64), np.array([5, 6, 9, 10]), np.ones((4, 1)))
    found = index.look_up(np.array([0]), np.array([1]), np.array([10]), np.array([3, 4, 5, 6]))
    assert found.count[0, 0].tolist() == [1, 2, 3, 3, 3]


def test_a_copy_is_independent_and_saved_arrays_restore_it():
    index = RunningSums(1, np.dtype(np.int64))
    one = np.array([0]), np.array([1]), np.array([5]), np.array([[2.0]])
    index.add(*one)
    copy, again = index.fork(), RunningSums.of_arrays(index.arrays())
    index.add(*one)
    again.add(np.array([3]), np.array([70]), np.array([6]), np.array([[4.0]]))
    asked = np.array([0]), np.array([1]), np.array([9])
    assert index.look_up(*asked).count[:, :, 0].tolist() == [[2, 2, 2]]
    assert copy.look_up(*asked).count.tolist() == again.look_up(*asked).count.tolist() == [[[1], [1], [1]]]
    assert again.look_up(np.array([3]), np.array([70]), np.array([9])).mean.ravel().tolist() == [4, 4, 4]


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 200])
def test_tables_grow_as_pairs_arrive(pairs):
    """A new pair takes three keys; slots double when half of them are filled, entries when all are."""
    index, nodes = RunningSums(1, np.dtype(np.int64)), np.arange(pairs)
    for k in range(pairs):
        index.add(nodes[k : k + 1], nodes[k : k + 1], np.array([k]), np.array([[float(k)]]))
    found = index.look_up(nodes, nodes, np.full(pairs, pairs), chains=(2, 3))
    assert found.last[:, 0, 0, 0].tolist() == nodes.tolist()
    assert (found.count[:, 1, 0] == pairs).all()


@pytest.mark.parametrize("events", [1, 2, 3, 4, 5, 63, 64, 65, 1_000])
def test_a_list_that_outgrows_its_piece_keeps_all_and_leaves_it_to_others(events):
    index = RunningSums(1, np.dtype(np.int64))
    for node in range(3):
        index.add(np.full(events, node), np.full(events, 9), np.arange(events), np.ones((events, 1)))
    found = index.look_up(np.arange(3), np.full(3, 9), np.full(3, events), chains=(0, 1, 2, 3))
    assert found.count[:, :, -1].tolist() == [[events, 3 * events, events, 3 * events]] * 3
    capacities = 1 << index.lists[index.keys[:, 0] != FREE, 2]
    assert capacities.sum() <= index.used <= (2 * capacities - 1).sum() - (events > 1)


@pytest.mark.parametrize("delay", [0, 40])
def test_chains_without_some_values_are_those_to_which_they_were_never_added(delay):
    rng, src, dst, when, values = random_events(6, 300, "any" if delay else "none")
    at = np.arange(0, 240, 3)
    for gone in (
        np.zeros(0, np.int64),
        rng.choice(len(src), 40, replace=False),
        np.arange(len(src)),
        np.flatnonzero(src == 2),
    ):
        index, rest = (RunningSums(2, np.dtype(np.int64)) for _ in range(2))
        index.add(src, dst, when, values)
        stays = np.setdiff1d(np.arange(len(src)), gone)
        rest.add(src[stays], dst[stays], when[stays], values[stays])
        for u, v in ((2, 3), (0, 0), (9, 1)):
            few = FewSums.of(index, u, v).without(src[gone], dst[gone], when[gone], values[gone])
            asked = np.full(len(at), u), np.full(len(at), v), at, WINDOWS, NEWEST, EVERY
            found, expected = few.look_up(*asked), rest.look_up(*asked)
            for name in ("count", "dt", "sums", "last"):
                assert np.array_equal(getattr(found, name), getattr(expected, name))
