from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.splits import hidden_nodes, seen_nodes, split_points, touches

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


def test_wikipedia_splits_as_published(shared_data):
    table = pq.read_table(shared_data("wikipedia"))
    log = EventLog(table["src"].to_numpy(), table["dst"].to_numpy(), table["t"].to_numpy())
    # 70/15/15 of 157,474 events
    assert [len(part) for part in log.split()] == [110232, 23621, 23621]
