"""The sketch: estimates with the stated error, the same rules of time, and the way from exact to it."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.positions import RelativePositions, relative
from pintgn.positions.kernels_sketch import sign_word
from tests.positions.helpers import cuts, everything, groups, logs, numpy_rows, oracle


def busy_log(nodes: int = 60, events: int = 1500, seed: int = 0):
    rng = np.random.default_rng(seed)
    drawn = np.minimum(rng.integers(0, nodes, (2, events)), rng.integers(0, nodes, (2, events)))
    return drawn[0], drawn[1], np.sort(rng.integers(0, events // 2, events))


def signs(seed: int, nodes: int, width: int) -> np.ndarray:
    words = [[sign_word(np.uint64(seed), i, word) for word in range(-(-width // 64))] for i in range(nodes)]
    bits = (np.array(words, np.uint64)[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    return 1.0 - 2.0 * bits.reshape(nodes, -1)[:, :width]


@pytest.mark.parametrize("width", [1, 16, 64, 100])
@given(data=st.data(), log=logs())
@settings(max_examples=40, deadline=None)
def test_rows_are_the_projection_of_the_exact_rows(width, data, log):
    """The estimate is the definition: <sum over i of r_i g_i, g_j> / width, r from the oracle."""
    positions = RelativePositions(4, "sketch", width=width, seed=7)
    for piece in data.draw(cuts(len(log[0]))):
        positions.observe(*(column[piece] for column in log))
    g = signs(7, 6, width)
    exact = oracle(log, 6, 99, 4)  # (i, u, d)
    expected = np.einsum("iuk,iw,jw->juk", exact, g, g) / width
    expected[:, :, 0] = np.eye(6)
    unseen = ~np.isin(np.arange(6), log[:2])
    expected[unseen] = expected[:, unseen] = 0.0  # never observed: certainly zero
    expected[:, :, 0] = np.eye(6)
    assert np.allclose(everything(positions, 6, None), expected, atol=1e-6)


@given(data=st.data(), log=logs())
@settings(max_examples=40, deadline=None)
def test_a_read_of_the_sketch_sees_only_what_is_strictly_earlier(data, log):
    """At each time of the log: between batches, in one batch with all events, and with those that follow a cut, which
    may part simultaneous ones."""
    positions, past, whole = (RelativePositions(4, "sketch", width=32) for _ in range(3))
    everyone, times, strictly = np.arange(5), np.append(np.unique(log[2]), 99), []
    for group in groups(log):
        positions.observe(*group)
        strictly.append(everything(past, 5, None))
        assert np.allclose(everything(positions, 5, positions.clock), strictly[-1], atol=1e-5)
        past.observe(*group)
        assert np.allclose(everything(positions, 5, None), everything(past, 5, past.clock + 1), atol=1e-5)
    strictly.append(everything(past, 5, None))
    asked = np.tile(everyone, (len(times), 1))
    found = whole.replay(*log, asked, asked, times, "raw")
    assert np.allclose(found, np.reshape(strictly, found.shape), atol=1e-5)
    parted, cut = RelativePositions(4, "sketch", width=32), data.draw(st.integers(0, len(log[0])))
    parted.observe(*(column[:cut] for column in log))
    now = np.full(len(times), True) if parted.clock is None else times >= parted.clock
    at_once = parted.replay(*(column[cut:] for column in log), asked[now], asked[now], times[now], "raw")
    assert np.allclose(at_once, found[now], atol=1e-5)


def test_the_error_law_holds():
    """Unbiased, with standard deviation sqrt((|row|**2 - count**2) / width): over seeds, nodes and roots."""
    log, width, nodes = busy_log(), 64, 60
    exact = numpy_rows(log, nodes, 4).transpose(2, 0, 1)  # (i, u, k)
    norm = np.sqrt((exact**2).sum(0, keepdims=True))
    law = np.sqrt(np.maximum(norm**2 - exact**2, 0.0) / width)
    scaled = []
    for seed in range(40):
        positions = RelativePositions(4, "sketch", width=width, seed=seed)
        positions.observe(*log)
        error = everything(positions, nodes, None) - exact
        assert not error[law == 0].any()  # a count that is alone in its row
        scaled.append(np.divide(error, law, where=law > 0, out=np.full(law.shape, np.nan))[:, :, 1:])
        # every single estimate is within the law's reach: six standard deviations
        assert np.nanmax(np.abs(scaled[-1])) < 6.5
    scaled = np.array(scaled)
    # 40 seeds x 60 nodes x 60 roots, roots of one seed correlated: each level has the law's mean and spread
    assert np.abs(np.nanmean(scaled, (0, 1, 2))).max() < 0.05
    assert np.abs(np.nanstd(scaled, (0, 1, 2)) - 1.0).max() < 0.05


def test_a_wider_sketch_is_as_much_better_as_the_law_says():
    log, nodes = busy_log(), 60
    exact = numpy_rows(log, nodes, 4).transpose(2, 0, 1)[:, :, 1:]

    def error(width):
        spread = []
        for seed in range(8):
            positions = RelativePositions(4, "sketch", width=width, seed=seed)
            positions.observe(*log)
            spread.append(((everything(positions, nodes, None)[:, :, 1:] - exact) ** 2).mean())
        return np.sqrt(np.mean(spread))

    assert error(32) / error(512) == pytest.approx(4.0, rel=0.2)  # the square root of 16


def test_the_only_count_of_a_row_is_exact():
    positions = RelativePositions(3, "sketch", width=16)
    positions.observe([0, 0, 0], [1, 1, 1], [1, 2, 3])
    assert positions.read(1, 0, transform="raw")[1] == 3


def test_estimates_below_zero_count_as_zero_except_raw():
    log = busy_log()
    positions = RelativePositions(4, "sketch", width=16, time_unit=10.0)
    positions.observe(*log)
    assert everything(positions, 60, None, "raw").min() < 0
    for transform in ("log1p", "l1", "rate"):
        found = everything(positions, 60, None, transform)
        assert found.min() == 0
        assert np.isfinite(found).all()


def test_sums_stop_inside_single_precision():
    positions = RelativePositions(60, "sketch", width=8)
    positions.observe(np.zeros(300, int), np.ones(300, int), range(300))
    for transform in ("raw", "l1", "log1p"):
        assert np.isfinite(everything(positions, 2, None, transform)).all()


def test_signs_are_balanced_and_independent():
    g = signs(3, 400, 128)
    assert abs(g.mean()) < 4 / np.sqrt(g.size)
    products = g @ g.T / np.sqrt(128)  # standard normal off the diagonal
    products = products[np.triu_indices(400, 1)]
    assert abs(products.std() - 1.0) < 0.02
    assert abs(products.mean()) < 0.02
    assert (signs(3, 50, 64) != signs(4, 50, 64)).mean() == pytest.approx(0.5, abs=0.04)


def test_new_nodes_change_no_other_estimate():
    log = busy_log()
    small, large = RelativePositions(4, "sketch", width=32), RelativePositions(4, "sketch", width=32, nodes=5000)
    small.observe(*log)
    large.observe(*log)
    assert np.array_equal(everything(small, 60, None), everything(large, 60, None))


# --- auto -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", [0, 5000])
@pytest.mark.parametrize("size", [1, 40, 1500])
def test_auto_becomes_the_sketch_it_would_have_been(caplog, monkeypatch, hint, size):
    monkeypatch.setattr(relative, "_noted", False)
    log = busy_log(nodes=300)
    auto = RelativePositions(4, "auto", width=4, budget=60_000, nodes=hint)
    sketch = RelativePositions(4, "sketch", width=4)
    assert auto.backend == "exact"
    with caplog.at_level(logging.WARNING, "pintgn"):
        for start in range(0, 1500, size):
            auto.observe(*(column[start : start + size] for column in log))
    sketch.observe(*log)
    assert auto.backend == "sketch"
    assert "estimated" in caplog.text
    assert np.array_equal(everything(auto, 300, None), everything(sketch, 300, None))


def test_that_positions_are_estimated_is_said_once_however_often_a_log_is_replayed(caplog, monkeypatch):
    monkeypatch.setattr(relative, "_noted", False)
    with caplog.at_level(logging.WARNING, "pintgn"):
        for _ in range(3):
            RelativePositions(4, "auto", width=4, budget=60_000).observe(*busy_log(nodes=300))
    assert caplog.text.count("estimated from here on") == 1


def test_auto_switches_at_the_same_event_whatever_the_calls():
    log, nodes, roots = busy_log(nodes=300), np.arange(20)[None, :], np.arange(2)[None, :]

    def answers(size, hint=0):
        positions = RelativePositions(4, "auto", width=4, budget=60_000, nodes=hint)
        out = []
        for start in range(0, 1500, size):
            src, dst, t = (column[start : start + size] for column in log)
            repeat = (len(t), 1)
            out.append(positions.replay(src, dst, t, np.tile(nodes, repeat), np.tile(roots, repeat), t))
        assert positions.backend == "sketch"
        return np.concatenate(out)

    assert np.array_equal(answers(1), answers(1500))
    assert np.array_equal(answers(7), answers(1500))
    assert np.array_equal(answers(7), answers(1500, hint=5000))


def test_auto_stays_exact_while_the_sketch_would_be_larger():
    log = busy_log()
    positions = RelativePositions(4, "auto", width=4096, budget=0)
    positions.observe(*log)
    assert positions.backend == "exact"
    assert np.array_equal(everything(positions, 60, None), numpy_rows(log, 60, 4).transpose(2, 0, 1))
