"""Exact positions equal the oracle: every walk listed, on thousands of small logs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.positions import RelativePositions
from tests.positions.helpers import (
    SHAPES,
    columns,
    cuts,
    everything,
    groups,
    logs,
    numpy_rows,
    oracle,
    random_log,
)


@pytest.mark.parametrize("kind", SHAPES.values(), ids=SHAPES)
@given(data=st.data(), log=logs(), d=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_counts_equal_the_oracle_however_the_log_is_cut(kind, data, log, d):
    positions = kind(d, "exact")
    for piece in data.draw(cuts(len(log[0]))):
        positions.observe(*(column[piece] for column in log))
    after = 1 + (int(log[2][-1]) if len(log[2]) else 0)
    expected = oracle(log, 6, after, d)
    assert np.array_equal(everything(positions, 6, None), expected)
    assert np.array_equal(everything(positions, 6, after), expected)


@pytest.mark.parametrize("kind", SHAPES.values(), ids=SHAPES)
def test_counts_equal_the_oracle_on_thousands_of_logs(kind):
    for seed in range(3000):
        log = random_log(seed)
        positions = kind(4, "exact")
        cut = seed % (len(log[0]) + 1)
        positions.observe(*(column[:cut] for column in log))
        positions.observe(*(column[cut:] for column in log))
        assert np.array_equal(everything(positions, 5, None), oracle(log, 5, 99, 4)), seed


@pytest.mark.parametrize("kind", SHAPES.values(), ids=SHAPES)
@given(log=logs())
@settings(max_examples=60, deadline=None)
def test_a_read_sees_only_what_is_strictly_earlier(kind, log):
    positions = kind(4, "exact")
    for group in groups(log):
        positions.observe(*group)
        at = int(group[2][0])
        assert np.array_equal(everything(positions, 6, at), oracle(log, 6, at, 4))  # the open group is hidden
        assert np.array_equal(everything(positions, 6, at + 1), oracle(log, 6, at + 1, 4))


@given(data=st.data(), log=logs())
@settings(max_examples=60, deadline=None)
def test_reading_changes_nothing(data, log):
    quiet, read = RelativePositions(4, "exact"), RelativePositions(4, "exact")
    for piece in data.draw(cuts(len(log[0]))):
        for positions in (quiet, read):
            positions.observe(*(column[piece] for column in log))
        everything(read, 6, None)
        everything(read, 6, read.clock)
    assert np.array_equal(everything(quiet, 6, None), everything(read, 6, None))


def test_order_inside_a_group_does_not_matter_to_the_last_bit():
    rng = np.random.default_rng(0)
    src, dst, t = columns([tuple(row) for row in rng.integers(0, [9, 9, 40], (600, 3)).tolist()])
    shuffled = np.lexsort((rng.random(len(t)), t))
    one, two = RelativePositions(20, "exact"), RelativePositions(20, "exact")
    one.observe(src, dst, t)
    two.observe(dst[shuffled], src[shuffled], t[shuffled])
    assert everything(one, 9, None).max() > 2.0**60  # sums are rounded here
    assert np.array_equal(everything(one, 9, None), everything(two, 9, None))


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_calls_of_any_size_give_the_same_state_to_the_last_bit(size):
    rng = np.random.default_rng(1)
    log = columns([tuple(row) for row in rng.integers(0, [12, 12, 300], (1000, 3)).tolist()])
    whole, pieces = RelativePositions(16, "exact"), RelativePositions(16, "exact")
    whole.observe(*log)
    for start in range(0, 1000, size):
        pieces.observe(*(column[start : start + size] for column in log))
        everything(pieces, 12, None)
    assert np.array_equal(everything(whole, 12, None), everything(pieces, 12, None))


def test_new_nodes_need_no_announcement():
    positions, events = RelativePositions(4, "exact"), []
    rng = np.random.default_rng(2)
    for t in range(400):  # ids grow all the time: tables change shape on the way
        src, dst = rng.integers(0, 1 + t, 2)
        events.append((int(src), int(dst), t))
        positions.observe(src, dst, t)
    expected = numpy_rows(columns(events), 400, 4)
    assert positions.size == 1 + max(max(event[:2]) for event in events)
    assert np.array_equal(everything(positions, 400, None), expected.transpose(2, 0, 1))


def test_a_node_never_seen_has_its_own_position_only():
    positions = RelativePositions(3, "exact")
    positions.observe([0], [1], [5])
    assert positions.read([9, 0, 9, 2**40], [9, 9, 0, 2**40], transform="raw").tolist() == [
        [1, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
        [1, 0, 0],
    ]


def test_padding_gives_zeros():
    positions = RelativePositions(3, "exact")
    positions.observe([0], [1], [5])
    assert not positions.read([-1, 0, -1], [0, -1, -1], transform="raw").any()


def test_counts_stay_exact_when_four_bytes_no_longer_hold_them():
    # two nodes that meet n times: C(n, k) walks of k steps. C(60, 8) is above 2**31, and exact in float64.
    positions = RelativePositions(10, "exact")
    positions.observe([0] * 60, [1] * 60, range(60))
    found = positions.read([[0], [1]], [[0, 1]], transform="raw")
    for k in range(10):
        assert found[k % 2, 0, k] == found[(k + 1) % 2, 1, k] == math.comb(60, k)


@pytest.mark.parametrize("kind", SHAPES.values(), ids=SHAPES)
def test_counts_stop_at_1e300_and_are_never_inf_or_nan(kind):
    positions = kind(120, "exact")
    rng = np.random.default_rng(3)
    positions.observe(*(np.repeat(rng.integers(0, 4, 300), 500) for _ in range(2)), np.repeat(np.arange(300), 500))
    assert everything(positions, 4, None).max() == 1e300
    for transform in ("raw", "l1", "log1p"):
        assert np.isfinite(everything(positions, 4, None, transform)).all()


def test_d_of_one_is_identity():
    positions = RelativePositions(1, "exact")
    positions.observe([0, 1], [1, 2], [1, 2])
    assert everything(positions, 3, None)[:, :, 0].tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(("name", "events", "d"), [("uci", 6000, 4), ("enron", 8000, 4), ("enron", 4000, 8)])
def test_counts_on_real_data_equal_plain_numpy(shared_data, name, events, d):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(shared_data(name), columns=["src", "dst", "t"]).slice(0, events)
    log = tuple(table[column].to_numpy() for column in ("src", "dst", "t"))
    nodes = int(max(log[0].max(), log[1].max())) + 1
    expected = numpy_rows(log, nodes, d)
    positions = RelativePositions(d, "exact")
    positions.observe(*log)
    found = everything(positions, nodes, None).transpose(1, 2, 0)
    assert np.array_equal(found, expected) if d == 4 else np.allclose(found, expected, rtol=1e-12, atol=0)


def test_twenty_levels_of_enron_are_finite(shared_data):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(shared_data("enron"))
    positions = RelativePositions(20, "exact")
    positions.observe(*(table[column].to_numpy() for column in ("src", "dst", "t")))
    raw = everything(positions, 184, None)
    assert 1e59 < raw.max() < 1e60
    for transform in ("raw", "l1", "log1p"):
        assert np.isfinite(everything(positions, 184, None, transform)).all()
