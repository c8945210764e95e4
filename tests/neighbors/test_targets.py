"""What became known, against a slow count over all that was added."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.neighbors.target_index import CHAINS, FewTargets, TargetIndex


def slow(src, dst, when, values, u, v, t):
    """Count, time since, mean and last of the source, the destination and the pair, strictly before t."""
    found = []
    for mine in (src == u, dst == v, (src == u) & (dst == v)):
        known = mine & (when < t)
        if not known.any():
            found.append((0, 0.0, np.zeros(values.shape[1]), np.zeros(values.shape[1])))
            continue
        last = when[known].max()
        found.append((known.sum(), t - last, values[known].mean(0), values[known & (when == last)].mean(0)))
    return found


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("delay", ["none", "one", "any"])
def test_look_ups_agree_with_a_slow_count(dtype, delay):
    rng = np.random.default_rng(5)
    count = 400
    src, dst = rng.integers(0, 9, count), rng.integers(0, 9, count)
    t = np.sort(rng.integers(0, 150, count)).astype(dtype)
    when = t + {"none": 0, "one": 7, "any": rng.integers(0, 60, count)}[delay]
    when = when.astype(dtype)
    values = rng.normal(size=(count, 2))
    index, begin = TargetIndex(2, np.dtype(dtype)), 0
    for end in (1, 2, 50, 51, 300, count):
        rows = slice(begin, end)
        index.add(src[rows], dst[rows], when[rows], values[rows])
        begin = end
        u, v, at = rng.integers(0, 12, 40), rng.integers(0, 12, 40), rng.integers(0, 230, 40).astype(dtype)
        found = index.look_up(u, v, at)
        for q in range(len(u)):
            expected = slow(src[:end], dst[:end], when[:end], values[:end], u[q], v[q], at[q])
            for chain, (number, dt, mean, last) in enumerate(expected):
                assert found.count[q, chain] == number
                assert found.dt[q, chain] == dt
                np.testing.assert_allclose(found.mean[q, chain], mean, atol=1e-12)
                np.testing.assert_allclose(found.last[q, chain], last, atol=1e-12)


def test_what_is_known_of_a_self_loop_is_known_of_its_node_at_either_end():
    """Node 4 loops twice at once, with 1 and 5, and writes to 5 with 6."""
    index = TargetIndex(1, np.dtype(np.int64))
    index.add(np.array([4, 4, 4]), np.array([4, 4, 5]), np.array([10, 10, 20]), np.array([[1.0], [5.0], [6.0]]))
    found = index.look_up(np.array([4, 9]), np.array([4, 4]), np.array([21, 21]))
    assert found.count.tolist() == [[3, 2, 2], [0, 2, 0]]  # as a source, as a destination, with itself
    assert found.mean[:, :, 0].tolist() == [[4, 3, 3], [0, 3, 0]]


def test_a_copy_is_independent_and_saved_arrays_restore_it():
    index = TargetIndex(1, np.dtype(np.int64))
    one = np.array([0]), np.array([1]), np.array([5]), np.array([[2.0]])
    index.add(*one)
    copy, again = index.fork(), TargetIndex.of_arrays(index.arrays())
    index.add(*one)
    again.add(np.array([3]), np.array([70]), np.array([6]), np.array([[4.0]]))
    asked = np.array([0]), np.array([1]), np.array([9])
    assert index.look_up(*asked).count.tolist() == [[2, 2, 2]]
    assert copy.look_up(*asked).count.tolist() == again.look_up(*asked).count.tolist() == [[1, 1, 1]]
    assert again.look_up(np.array([3]), np.array([70]), np.array([9])).mean.ravel().tolist() == [4, 4, 4]


@pytest.mark.parametrize("pairs", [15, 16, 17, 31, 33, 200])
def test_tables_grow_as_pairs_arrive(pairs):
    index, nodes = TargetIndex(1, np.dtype(np.int64)), np.arange(pairs)
    for k in range(pairs):
        index.add(nodes[k : k + 1], nodes[k : k + 1], np.array([k]), np.array([[float(k)]]))
    found = index.look_up(nodes, nodes, np.full(pairs, pairs))
    assert found.last[:, 2, 0].tolist() == nodes.tolist()


@pytest.mark.parametrize("delay", [0, 40])
def test_chains_without_some_values_are_those_to_which_they_were_never_added(delay):
    rng = np.random.default_rng(6)
    count = 300
    src, dst = rng.integers(0, 4, count), rng.integers(0, 4, count)
    when = np.sort(rng.integers(0, 90, count)) + rng.integers(0, delay + 1, count)
    values = rng.normal(size=(count, 2))
    at = np.arange(0, 140, 3)
    for gone in (
        np.zeros(0, np.int64),
        rng.choice(count, 40, replace=False),
        np.arange(count),
        np.flatnonzero(src == 2),
    ):
        index, rest = (TargetIndex(2, np.dtype(np.int64)) for _ in range(2))
        index.add(src, dst, when, values)
        stays = np.setdiff1d(np.arange(count), gone)
        rest.add(src[stays], dst[stays], when[stays], values[stays])
        for u, v in ((2, 3), (0, 0), (9, 1)):
            mine = {"src": src[gone] == u, "dst": dst[gone] == v, "pair": (src[gone] == u) & (dst[gone] == v)}
            few = FewTargets.of(index, u, v)
            chains = zip(few.chains, CHAINS, strict=True)
            lacking = [chain.without(when[gone[mine[k]]], values[gone[mine[k]]]) for chain, k in chains]
            found = FewTargets(tuple(lacking)).look_up(np.full(len(at), u), np.full(len(at), v), at)
            expected = rest.look_up(np.full(len(at), u), np.full(len(at), v), at)
            assert (found.count == expected.count).all()
            assert (found.dt == expected.dt).all()
            np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
            np.testing.assert_allclose(found.last, expected.last, atol=1e-12)
