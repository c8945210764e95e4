from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.splits import hidden_nodes, seen_nodes, split_points, touches
from pintgn.ingest.read import read_events

times = st.lists(st.integers(0, 12), min_size=1, max_size=60).map(sorted)


@given(times, st.sampled_from([(0.15, 0.15), (0.0, 0.3), (0.2, 0.0), (0.49, 0.5)]))
def test_splits_never_cut_a_group_of_simultaneous_events(t, shares):
    log = EventLog(np.zeros(len(t), int), np.ones(len(t), int), t)
    parts = log.split(*shares)
    assert sum(map(len, parts)) == len(log)
    ends = [set(part.t.tolist()) for part in parts]
    assert not (ends[0] & ends[1]) | (ends[1] & ends[2]) | (ends[0] & ends[2])


@given(times, st.floats(0, 0.45), st.floats(0, 0.45))
def test_split_points_are_the_time_quantiles_of_the_papers(t, val, test):
    """TGN: train has t <= quantile(1 - val - test), validation t <= quantile(1 - test)."""
    t = np.array(t)
    low, high = np.quantile(t, [1 - val - test, 1 - test])
    first, second = split_points(t, val, test)
    # quantile() interpolates with rounding; allow it to sit on either side of a time it should equal
    assert first in {int((t <= low + e).sum()) for e in (-1e-6, 1e-6)}
    assert second in {int((t <= high + e).sum()) for e in (-1e-6, 1e-6)}


def test_nanoseconds_are_split_exactly():
    base = 1_700_000_000_000_000_000
    t = base + np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert split_points(t, 0.2, 0.2) == (6, 8)


def test_shares_that_leave_nothing_are_refused():
    with pytest.raises(BadInput, match="leave something to train on"):
        split_points(np.arange(10), 0.5, 0.5)


def test_hidden_nodes_come_from_after_training_and_are_seeded():
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 50, 400), rng.integers(0, 50, 400), np.arange(400))
    train, val, test = log.split()
    hidden = hidden_nodes(log, train, seed=3)
    later = np.union1d(np.concatenate([val.src, test.src]), np.concatenate([val.dst, test.dst]))
    assert hidden.sum() == 5  # 10 % of all 50 nodes
    assert np.isin(np.flatnonzero(hidden), later).all()
    assert (hidden == hidden_nodes(log, train, seed=3)).all()
    assert (hidden != hidden_nodes(log, train, seed=4)).any()
    kept = ~touches(train, hidden)
    assert not (hidden[train.src[kept]] | hidden[train.dst[kept]]).any()
    assert not (seen_nodes(train, hidden) & hidden).any()


@pytest.mark.parametrize("apart", [False, True])
def test_dyglib_hides_what_its_own_rule_draws(apart):
    """The rule of TGN's and DyGLib's loaders, on their numbers: users from 1 on, items after all users."""
    rng = np.random.default_rng(1)
    src, dst, t = rng.integers(0, 900, 3_000), rng.integers(0, 700, 3_000), np.sort(rng.integers(0, 2_000, 3_000))
    table = pa.table({"src": src, "dst": dst, "t": t})
    log = read_events(table, bipartite=apart)
    u, i = src + 1, dst + 1 + (src.max() + 1 if apart else 0)
    later = t > np.quantile(t, 0.7)
    random.seed(2020)
    count = int(0.1 * len(set(u) | set(i)))
    expected = random.sample(list(set(u[later]).union(set(i[later]))), count)
    train, _, _ = log.split()
    for seed in (0, 7):
        hidden = hidden_nodes(log, train, "dyglib", seed)
        assert hidden.sum() == count == len(expected)
        users = src.max() + 1 if apart else 10_000
        sides = ("src", "dst") if apart else (None, None)
        assert set(np.flatnonzero(hidden)) == {
            log.node(n - 1, sides[0]) if n <= users else log.node(n - 1 - users, sides[1]) for n in expected
        }


def test_dyglib_says_when_there_are_too_few_to_hide():
    log = EventLog(np.r_[np.arange(100), 0, 1], np.r_[np.arange(100, 200), 1, 0], np.r_[np.zeros(100), 1, 2])
    with pytest.raises(BadInput, match="hides 20 nodes, but only 2 appear after the training part"):
        hidden_nodes(log, log[:100], "dyglib")
    with pytest.raises(BadInput, match="a share of the nodes between 0 and 1, or 'dyglib'"):
        hidden_nodes(log, log[:100], "tgn")


def test_wikipedia_splits_as_published(shared_data):
    table = pq.read_table(shared_data("wikipedia"))
    log = EventLog(table["src"].to_numpy(), table["dst"].to_numpy(), table["t"].to_numpy())
    # 70/15/15 of 157,474 events
    assert [len(part) for part in log.split()] == [110232, 23621, 23621]
