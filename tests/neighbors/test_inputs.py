"""What cannot be used is refused in one line that says what was given, what is allowed and what to do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pintgn.errors import BadInput, EventOrderError, PintgnError, TooLarge
from pintgn.neighbors import NeighborIndex, query_keys


def example(kind=np.int64) -> NeighborIndex:
    index = NeighborIndex()
    index.append([0, 1], [1, 2], np.array([5, 9], kind))
    return index


APPEND = [
    (([0], [1], [8]), EventOrderError, "event 0 has t=8, before the clock (t=9). Events come in order of time"),
    (([0, 1], [1, 0], [12, 11]), EventOrderError, "event 1 has t=11, earlier than event 0 (t=12). Sort"),
    (([0, -1], [1, 0], [9, 9]), BadInput, "event 1 has src=-1; node ids are 0 or more"),
    (([0, 1], [1, -3], [9, 9]), BadInput, "event 1 has dst=-3; node ids are 0 or more"),
    (([0.0], [1], [9]), BadInput, "src must be node ids (integers), got float64"),
    (([0], [True], [9]), BadInput, "dst must be node ids (integers), got bool"),
    ((["a"], [1], [9]), BadInput, "src must be node ids (integers), got <U1"),
    (([[0], [1, 2]], [1], [9]), BadInput, "a list of lists of unequal length"),
    (([0, 1], [1], [9, 9]), BadInput, "columns of one length; got shapes src (2,), dst (1,), t (2,)"),
    (([[0]], [[1]], [[9]]), BadInput, "columns of one length"),
    (([0], [1], [9.5]), BadInput, "t is float64 (9.5…), but times are kept as int64 here"),
    (([0], [1], np.array([9], np.float32)), BadInput, "float32 merges neighboring times"),
    (([0], [1], np.array(["2020-01-01"], "datetime64[s]")), BadInput, "astype('datetime64[s]').astype('int64')"),
    (([0], [1], ["noon"]), BadInput, "t must be int64 or float64, got <U4"),
    (([0], [1], [2**62 + 1]), BadInput, "times must be finite and within ±4.61e+18"),
    (([0], [1], [2**64]), BadInput, "t must be int64 or float64, got object"),
    (([2**40], [1], [9]), BadInput, "node id 1099511627776 is too large"),
]


@pytest.mark.parametrize(("columns", "error", "message"), APPEND, ids=[m[:40] for _, _, m in APPEND])
def test_bad_events_are_refused_and_change_nothing(columns, error, message):
    index = example()
    with pytest.raises(error) as caught:
        index.append(*columns)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (index.events, index.size, index.nodes, index.clock) == (2, 4, 3, 9)
    assert index.recent([0, 1, 2], 10, 5).mask.sum() == 4


@pytest.mark.parametrize("t", [math.nan, math.inf, -math.inf])
def test_times_that_are_no_times_are_refused(t):
    index = example(np.float64)
    with pytest.raises(BadInput, match=f"event 0 has t={t}; times must be finite"):
        index.append(0, 1, t)
    with pytest.raises(BadInput, match=f"query 1 has t={t}; times must be finite"):
        index.recent([0, 1], [6.0, t], 2)
    with pytest.raises(BadInput, match=f"query 0 has t={t}; times must be finite"):
        index.last(0, 1, t)
    with pytest.raises(BadInput, match=f"query 0 has t={t}; times must be finite"):
        index.count(0, t)


ASK = [
    ({"k": 0}, "k must be at least 1, got 0"),
    ({"k": 2.5}, "k must be a whole number, got 2.5"),
    ({"nodes": [-1, 0]}, "query 0 asks about node -1; node ids are 0 or more"),
    ({"nodes": [0.5, 1]}, "nodes must be node ids (integers), got float64 (0.5…). Map your own ids"),
    ({"t": [5, 6, 7]}, "t has shape (3,), which does not fit nodes of shape (2,)"),
    ({"t": 5.5}, "t is float64 (5.5…), but times are kept as int64 here"),
    ({"before": [1, 2, 3]}, "before has shape (3,)"),
    ({"before": 1.5}, "before must be event numbers (integers), got float64"),
    ({"valid": [1, 0]}, "valid must be booleans, got int64"),
    ({"t": 2**62 + 1}, "query 0 has t=4611686018427387905; times must be finite and within"),
]


@pytest.mark.parametrize(("change", "message"), ASK, ids=[m[:40] for _, m in ASK])
def test_bad_questions_are_refused(change, message):
    index = example()
    good = {"nodes": [0, 1], "t": 10, "k": 4}
    for look_up, more in ((index.recent, {}), (index.uniform, {"keys": 1})):
        with pytest.raises(BadInput) as caught:
            look_up(**(good | more | change))
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_masked_query_is_never_looked_at():
    found = example().recent([-1, 0], 10, 2, valid=[False, True])
    assert found.mask.tolist() == [[False, False], [True, False]]
    floats = example(np.float64).recent([0, 0], [math.nan, 10.0], 2, valid=[False, True])
    assert floats.mask.tolist() == [[False, False], [True, False]]
    assert np.isfinite(floats.dt).all()


def test_bad_pairs_numbers_keys_and_settings_are_refused():
    index = example()
    with pytest.raises(BadInput, match=r"u and v do not fit together: shapes \(2,\) and \(3,\)"):
        index.last([0, 1], [0, 1, 2], 9)
    with pytest.raises(BadInput, match="query 1 asks about node -2"):
        index.last(0, [1, -2], 9)
    with pytest.raises(BadInput, match="event 1 has number 7; numbers must rise, here from 8 on"):
        index.append([0, 0], [1, 1], [9, 9], numbers=[7, 7])
    with pytest.raises(BadInput, match="event 0 has number 1; numbers must rise, here from 2 on"):
        index.append(0, 1, 9, numbers=1)
    with pytest.raises(BadInput, match="keys must be integers, got float64"):
        index.uniform(0, 9, 2, keys=0.5)
    with pytest.raises(BadInput, match="time must be 'int64' or 'float64', got 'float32'"):
        NeighborIndex(time="float32")
    with pytest.raises(BadInput, match="nodes must be at least 0, got -1"):
        NeighborIndex(nodes=-1)
    with pytest.raises(BadInput, match="before_t must be one time"):
        index.trim(before_t=[1, 2])
    with pytest.raises(BadInput, match="keep_last must be at least 0, got -1"):
        index.trim(keep_last=-1)
    assert issubclass(EventOrderError, ValueError)


def test_integers_that_float64_cannot_hold_are_not_rounded():
    index = NeighborIndex(time="float64")
    index.append(0, 1, 5)  # exact in float64
    assert index.clock == 5.0
    with pytest.raises(BadInput, match=r"integers beyond 2\*\*53"):
        index.append(0, 1, 2**53 + 1)


def test_more_memory_than_the_machine_has_is_refused_with_what_would_fit(monkeypatch):
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    index = NeighborIndex()
    with pytest.raises(TooLarge, match=r"1,000,001 nodes need 0.0 GB; this machine has 0.0 GB, which holds 256,000"):
        index.append(1_000_000, 0, 1)
    assert index.events == 0
    # An arena that cannot grow stops between two events: what is in stays in, and is counted.
    for start in range(0, 30_000, 1000):
        index.append(np.zeros(1000, int), np.ones(1000, int), np.arange(start, start + 1000))
    with pytest.raises(TooLarge, match="entries need"):
        index.append(np.zeros(10**6, int), np.ones(10**6, int), np.arange(30_000, 30_000 + 10**6))
    assert index.events > 30_000
    assert index.size == 2 * index.events == 2 * index.count(0, 10**6)
    assert index.clock == index.events - 1


def test_keys_depend_on_seed_and_parts_and_on_nothing_else():
    keys = query_keys(3, np.arange(1000)[:, None], [0, 1])
    assert keys.shape == (1000, 2)
    assert keys.dtype == np.uint64
    assert len(np.unique(keys)) == 2000
    assert (query_keys(3, np.arange(500, 1000)[:, None], [0, 1]) == keys[500:]).all()
    assert not (query_keys(4, np.arange(1000)[:, None], [0, 1]) == keys).any()
    assert query_keys(3).shape == ()
    assert query_keys(-1, -1) == query_keys(2**64 - 1, np.uint64(2**64 - 1))
    with pytest.raises(PintgnError):
        query_keys(0, [0.5])
