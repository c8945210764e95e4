"""Causal walks go back in time, step by step with CAW's probabilities, as their keys say."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pintgn.errors import BadInput
from pintgn.neighbors import NeighborIndex, Walks, causal_walks, kernels_draws, query_keys
from tests.neighbors.oracle import Naive, logs, questions


def index_of(events: list[tuple[int, int, float]]) -> tuple[NeighborIndex, Naive]:
    index, naive = NeighborIndex(), Naive()
    src, dst, t = zip(*events, strict=True)
    index.append(src, dst, t)
    naive.append(src, dst, t)
    return index, naive


def probabilities(naive: Naive, node: int, t: float, length: int, bias: float) -> dict[tuple[int, ...], float]:
    """Every walk (as its event numbers) and its probability by definition."""
    steps = naive.entries(node, t) if length else []
    if not steps:
        return {(): 1.0}
    highest = max(when for _, when, _ in steps)
    weights = [math.exp(bias * (when - highest)) for _, when, _ in steps]  # a common factor cancels
    walks: dict[tuple[int, ...], float] = {}
    for weight, (other, when, number) in zip(weights, steps, strict=True):
        for rest, chance in probabilities(naive, other, when, length - 1, bias).items():
            walks[(number, *rest)] = weight / sum(weights) * chance
    return walks


SMALL = [(0, 1, 1), (1, 2, 2), (0, 2, 3), (0, 0, 4), (2, 3, 4), (1, 0, 5), (0, 3, 5), (0, 1, 7), (0, 1, 7), (2, 0, 8)]


@pytest.mark.parametrize("bias", [0.0, 0.01, 0.3, 2.0])
def test_whole_walks_occur_as_often_as_their_definition_says(bias):
    index, naive = index_of(SMALL)
    walks_of = probabilities(naive, 0, 9, 3, bias)
    assert math.isclose(sum(walks_of.values()), 1)
    draws = 40_000
    walks = causal_walks(index, 0, 9, walks=draws, length=3, bias=bias, keys=3)
    seen = Counter(tuple(events[mask].tolist()) for events, mask in zip(walks.events, walks.mask[:, 1:], strict=True))
    assert set(seen) <= set(walks_of)
    common = [walk for walk, chance in walks_of.items() if chance * draws >= 5]
    rare = draws - sum(seen[walk] for walk in common)
    expected = [walks_of[walk] * draws for walk in common]
    observed = [seen[walk] for walk in common]
    if draws - sum(expected) > 1e-6:
        observed.append(rare)
        expected.append(draws - sum(expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-3  # the keys are fixed, so is the outcome


@pytest.mark.parametrize("count", [2, 3, 5, 64, 1000])
@pytest.mark.parametrize("bias", [0.001, 0.05, 1.5])
def test_one_step_follows_the_bias_for_any_degree(count, bias):
    """Long runs exercise the blocks and the rejection; ties and long gaps are among the times."""
    rng = np.random.default_rng(count)
    t = np.cumsum(rng.choice([0, 0, 1, 2, 40], count))
    index = NeighborIndex()
    index.append(np.zeros(count, int), np.arange(1, count + 1), t)
    weights = np.exp(bias * (t - t[-1]))
    draws = 40_000
    events = causal_walks(index, 0, t[-1] + 1, walks=draws, length=1, bias=bias, keys=11).events[:, 0]
    # Pool neighboring entries until each pool is expected at least 20 times.
    expected = weights / weights.sum() * draws
    pool = np.minimum((np.cumsum(expected) // 20).astype(int), int(draws // 20) - 1)
    _, pool = np.unique(pool, return_inverse=True)
    observed, wanted = np.bincount(pool, np.bincount(events, minlength=count)), np.bincount(pool, expected)
    if wanted[0] < 5 and len(wanted) > 1:
        observed, wanted = (np.r_[a[0] + a[1], a[2:]] for a in (observed, wanted))
    if len(wanted) > 1:
        assert stats.chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue > 1e-3


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_walk_is_a_walk_back_in_time_and_ends_only_where_it_must(data):
    log = data.draw(logs())
    index, naive = log.index(), log.naive()
    nodes, t, before = data.draw(questions(log))
    length = data.draw(st.integers(1, 4))
    bias = data.draw(st.sampled_from([0.0, 0.1, 5.0, 1e300]))
    keys = query_keys(0, np.arange(len(nodes)))
    walks = causal_walks(index, nodes, t, walks=3, length=length, bias=bias, keys=keys, before=before)
    for q in range(len(nodes)):
        for w in range(3):
            node, now, gate = nodes[q], t[q], before[q]
            assert walks.mask[q, w, 0]
            assert (walks.nodes[q, w, 0], walks.times[q, w, 0]) == (node, now)
            for step in range(length):
                seen = naive.entries(node, now, before=gate)
                taken = (walks.nodes[q, w, step + 1], walks.times[q, w, step + 1], walks.events[q, w, step])
                assert walks.mask[q, w, step + 1] == bool(seen)
                if not seen:
                    assert not walks.mask[q, w, step + 1 :].any()
                    assert not walks.events[q, w, step:].any()
                    assert not walks.nodes[q, w, step + 1 :].any()
                    assert not walks.times[q, w, step + 1 :].any()
                    break
                assert taken in seen
                node, now, gate = taken


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_later_events_never_change_a_walk(data):
    log = data.draw(logs())
    nodes, t, _ = data.draw(questions(log))
    keys = query_keys(2, np.arange(len(nodes)))
    settings = {"walks": 3, "length": 3, "bias": 0.4}
    full = causal_walks(log.index(), nodes, t, keys=keys, **settings)
    for q in range(len(nodes)):
        only = log.index(stop=int(np.searchsorted(np.array(log.t, log.kind), t[q])))
        lone = causal_walks(only, nodes[q], t[q], keys=keys[q], **settings)
        for name in Walks._fields:
            assert (getattr(full, name)[q] == getattr(lone, name)).all(), name


def test_a_strong_bias_takes_the_newest_and_nothing_overflows():
    t = np.array([0, 10**6, 2**60, 2**60 + 1])
    index = NeighborIndex()
    index.append([0, 0, 0, 0], [1, 2, 3, 4], t)
    for bias in (1.0 * 800, 1e12, 1e300):
        walks = causal_walks(index, 0, 2**61, walks=200, length=1, bias=bias, keys=0)
        assert (walks.events == 3).all()
    floats = NeighborIndex()
    floats.append([0, 0, 0], [1, 2, 3], [-8e307, 0.0, 8e307])
    assert (causal_walks(floats, 0, 8.1e307, walks=50, length=1, bias=1e300, keys=0).events == 2).all()
    assert set(causal_walks(floats, 0, 8.1e307, walks=50, length=1, bias=0.0, keys=0).events.flat) == {0, 1, 2}


def test_the_reference_time_cancels_however_far_away_the_query_is():
    index = NeighborIndex()
    index.append([0, 0], [1, 2], [0, 1])
    near = causal_walks(index, 0, 2, walks=500, length=1, bias=1.0, keys=5)
    far = causal_walks(index, 0, 10**15, walks=500, length=1, bias=1.0, keys=5)
    assert (near.events == far.events).all()
    assert 0.6 < near.events.mean() < 0.85  # e / (1 + e) = 0.73


def test_walks_ignore_order_batching_and_how_many_are_asked_for():
    rng = np.random.default_rng(0)
    index = NeighborIndex()
    index.append(rng.integers(0, 30, 3000), rng.integers(0, 30, 3000), np.sort(rng.integers(0, 1000, 3000)))
    nodes, t = rng.integers(0, 30, 100), rng.integers(0, 1000, 100)
    keys, order = query_keys(9, np.arange(100)), rng.permutation(100)
    settings = {"length": 4, "bias": 0.01}
    whole = causal_walks(index, nodes, t, walks=8, keys=keys, **settings)
    shuffled = causal_walks(index, nodes[order], t[order], walks=8, keys=keys[order], **settings)
    few = causal_walks(index, nodes, t, walks=3, keys=keys, **settings)
    short = causal_walks(index, nodes, t, walks=8, keys=keys, length=2, bias=0.01)
    for a, b, c, d in zip(whole, shuffled, few, short, strict=True):
        assert (a[order] == b).all()
        assert (a[:, :3] == c).all()
        assert (a[..., : d.shape[-1]] == d).all()
    assert len(np.unique(whole.events[:, :, 0])) > 100  # and keys matter


def test_walks_take_any_shape_of_nodes_and_skip_masked_ones():
    index, _ = index_of(SMALL)
    nodes, valid = np.array([[0, 1, -7], [2, 3, 99]]), np.array([[True, True, False], [True, True, True]])
    walks = causal_walks(index, nodes, np.array([[9], [8]]), walks=2, length=3, keys=1, valid=valid)
    assert walks.nodes.shape == (2, 3, 2, 4)
    assert walks.events.shape == (2, 3, 2, 3)
    assert not walks.mask[0, 2].any()
    assert not walks.nodes[0, 2].any()
    assert walks.mask[1, 2].tolist() == [[True, False, False, False]] * 2  # a node never seen: only its start


def test_block_bounds_cover_the_run_and_stay_within_three_times_its_weight():
    rng = np.random.default_rng(4)
    top, bounds = np.empty(kernels_draws.BLOCKS), np.empty(kernels_draws.BLOCKS)
    for count in (1, 2, 3, 7, 8, 9, 500):
        for bias in (1e-4, 0.1, 3.0):
            times = np.sort(rng.integers(0, 1000, count))[::-1].copy()
            weights = np.exp(-bias * (times[0] - times).astype(float))
            blocks = kernels_draws.block_table(times, 0, count, bias, top, bounds)
            assert weights.sum() * (1 - 1e-12) <= bounds[blocks - 1] <= 3 * weights.sum() * (1 + 1e-12)
            assert blocks <= 2 + math.log2(count)


def test_walks_on_a_real_stream_never_leave_the_past(shared_data):
    table = pq.read_table(shared_data("enron"))
    src, dst, t = (table[column].to_numpy() for column in ("src", "dst", "t"))
    index = NeighborIndex()
    index.append(src, dst, t)
    chosen = np.arange(1000, len(t), 977)
    walks = causal_walks(index, src[chosen], t[chosen], walks=16, length=5, bias=1e-6, keys=query_keys(0, chosen))
    step = walks.mask[..., 1:]
    assert step.mean() > 0.9
    assert (walks.times[..., :-1] > walks.times[..., 1:])[step].all()
    assert (walks.events[step] < np.broadcast_to(chosen[:, None, None], step.shape)[step]).all()
    a, b, number = walks.nodes[..., :-1][step], walks.nodes[..., 1:][step], walks.events[step]
    assert (((src[number] == a) & (dst[number] == b)) | ((src[number] == b) & (dst[number] == a))).all()
    assert (t[number] == walks.times[..., 1:][step]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": -1.0}, "bias must be finite and at least 0, got -1.0"),
        ({"bias": math.nan}, "bias must be finite"),
        ({"bias": "high"}, "bias must be a number, got 'high'"),
        ({"walks": 0}, "walks must be at least 1, got 0"),
        ({"length": 0}, "length must be at least 1, got 0"),
        ({"keys": [0.5]}, "keys must be integers, got float64"),
        ({"keys": [1, 2, 3]}, r"keys has shape \(3,\), which does not fit nodes of shape \(1,\)"),
        ({"nodes": [-1]}, "query 0 asks about node -1"),
        ({"t": math.nan}, "t is float64"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(change, message):
    index, _ = index_of(SMALL)
    good = {"nodes": [0], "t": 9, "walks": 2, "length": 2, "keys": [1], "bias": 0.0}
    with pytest.raises(BadInput, match=message) as caught:
        causal_walks(index, **(good | change))
    assert "\n" not in str(caught.value)
