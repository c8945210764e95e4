"""Two busy nodes have a list of their own; answers are those of an index without such lists, whatever happens to it."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.errors import TooLarge
from pintgn.neighbors import NeighborIndex, adjacency
from pintgn.neighbors.contents import contents, left_out, renumber
from tests.conftest import around
from tests.neighbors.oracle import Log, Naive, logs

many = settings(max_examples=150, deadline=None)
HUBS = st.sampled_from([1, 2, 3, 6])


def both(log: Log, hub: int, ties: np.ndarray | None = None) -> tuple[NeighborIndex, NeighborIndex]:
    """An index with lists of busy pairs, and one without."""
    with patch.object(adjacency, "HUB", hub):
        busy = log.index(ties=ties)
    with patch.object(adjacency, "HUB", adjacency.NO_HUBS):
        return busy, log.index(ties=ties)


def assert_same(busy: NeighborIndex, plain: NeighborIndex) -> None:
    """About all pairs at all times, at the gates of queries in use."""
    if plain.time is None:
        return
    held = contents(plain)
    lists = [slice(start, start + length) for start, length in zip(held.starts, held.lengths, strict=True)]
    times = np.unique(np.concatenate([held.times[one] for one in lists]))
    when = np.append(times, plain._clock + 1)
    u, v, t = (one.ravel() for one in np.meshgrid(np.arange(7), np.arange(7), when, indexing="ij"))
    mine, theirs = (
        [
            *index.pair_history(u, v, t, windows=[1, 4, 30]),
            *index.last(u, v, t),
            index.count_pair(u, v, t),
            index.count_pair(u, v, t, before=np.full(len(t), plain.events)),
        ]
        for index in (busy, plain)
    )
    for one, other in zip(mine, theirs, strict=True):
        assert np.array_equal(one, other)


def keys_for(log: Log, draw) -> np.ndarray | None:
    if draw(st.booleans()):
        return None
    some = st.lists(st.integers(0, 2**64 - 1), min_size=len(log.t), max_size=len(log.t), unique=True)
    return np.array(draw(some), np.uint64)


@many
@given(st.data())
def test_lists_of_busy_pairs_change_no_answer(data):
    log, hub = data.draw(logs()), data.draw(HUBS)
    assert_same(*both(log, hub, keys_for(log, data.draw)))


@many
@given(st.data())
def test_they_are_used_where_both_ends_are_busy_and_only_there(data):
    log, hub = data.draw(logs()), data.draw(HUBS)
    busy, _ = both(log, hub)
    keys, heads, count = busy._pairs
    degree = np.zeros(7, int)
    for u, v in zip(log.src, log.dst, strict=True):
        degree[u] += 1
        degree[v] += u != v
    met = [tuple(sorted(pair)) for pair in zip(log.src, log.dst, strict=True)]
    expected = {pair: met.count(pair) for pair in met if min(degree[list(pair)]) >= hub}
    taken = keys[:, 0] >= 0
    found = {tuple(pair): length for pair, length in zip(keys[taken].tolist(), heads[taken, 1].tolist(), strict=True)}
    assert found == expected
    assert count[0] == len(expected)


@many
@given(data=st.data())
def test_nor_after_forking_saving_forgetting_numbering_and_going_on(data, tmp_path_factory):
    log, hub = data.draw(logs()), data.draw(HUBS)
    busy, plain = both(log, hub)
    what = data.draw(st.sampled_from(["fork", "save", "floor", "keep", "renumber"]))
    path = tmp_path_factory.mktemp("hubs") / "index.npz"
    made = []
    for index in (busy, plain):
        if what == "fork":
            one = index.fork()
        elif what == "save":
            index.save(path)
            with patch.object(adjacency, "HUB", index._hub):
                one = NeighborIndex.open(path)
        else:
            one = index.fork()
            one.trim(**({"keep_last": 2} if what == "keep" else {"before_t": log.t[len(log.t) // 2] if log.t else 0}))
            if what == "renumber" and one.size:
                renumber(one)
        now = (log.t[-1] if log.t else 0) + np.arange(12) // 2
        more = np.random.default_rng(len(log.t)).integers(0, 5, (2, 12))
        one.append(*more, np.asarray(now, log.kind))
        made.append(one)
    assert_same(*made)
    assert_same(busy, plain)  # what a fork appended is its own


@many
@given(st.data())
def test_events_can_be_left_out_of_them(data):
    log, hub = data.draw(logs()), data.draw(HUBS)
    busy, plain = both(log, hub)
    gone = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(log.t), max_size=len(log.t))))
    ends = np.concatenate([np.array(log.src, int)[gone], np.array(log.dst, int)[gone]])
    with left_out(busy, gone, ends), left_out(plain, gone, ends):
        assert_same(busy, plain)
    assert_same(busy, plain)


@pytest.mark.parametrize("length", around(adjacency.HUB))
def test_at_the_size_from_which_on_there_is_one(length):
    """Nodes 0 and 1 meet in every other event of each; 1 reaches the size of a hub with the last."""
    made = NeighborIndex()
    other = np.where(np.arange(length) % 2, 1, 2)
    made.append(np.zeros(length, int), other, np.arange(length))
    missing = length - length // 2
    made.append(np.full(missing, 3), np.ones(missing, int), np.arange(length, length + missing))
    assert made._pairs[2][0] == (1 if length >= adjacency.HUB else 0)
    found = made.pair_history([0, 1], [1, 0], 2 * length, windows=[length])
    half = length // 2
    assert found.counts[:, :2].tolist() == [[half, 0], [0, half]]
    assert made.count_pair([0] * 4, [1] * 4, [0, 2, 4, length]).tolist() == [0, 1, 2, half]


def test_the_list_of_a_busy_pair_sees_no_future_and_is_what_the_log_says():
    """Of two nodes with more than 4,096 entries each, with ties, repeats and self-loops; asked in the midst of them, at
    the times of events, while the future is there: this one or another."""
    rng, events = np.random.default_rng(0), 3 * adjacency.HUB
    src, dst = rng.integers(0, 3, (2, events))
    t = np.sort(rng.integers(0, events // 3, events))
    first = int(np.searchsorted(t, t[2 * events // 3], "left"))
    other = [np.r_[column[:first], rng.permutation(column[first:])] for column in (src, dst)]
    naive, found = Naive(), []
    naive.append(src[:first].tolist(), dst[:first].tolist(), t[:first].tolist())
    asked = np.sort([*rng.choice(t[:first], 6).tolist(), t[first]])
    u, v, at = (one.ravel() for one in np.meshgrid([0, 1], [0, 1], asked, indexing="ij"))
    for ends, later in (((src, dst), t), (other, np.r_[t[:first], t[first] + np.arange(events - first)])):
        made = NeighborIndex()
        made.append(*ends, later)
        assert (made.count([0, 1], t[first]) > adjacency.HUB).all()
        assert made._pairs[2][0] >= 3, "0 and 1, 0 and 0, 1 and 1 have a list each"
        found.append([*made.pair_history(u, v, at, windows=[1, 50]), *made.last(u, v, at), made.count_pair(u, v, at)])
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)
    counts, dt, within, *_, pairs = found[0]
    for row in range(len(u)):
        wanted = naive.pair_history(u[row], v[row], at[row].item(), windows=[1, 50])
        assert (counts[row].tolist(), dt[row].tolist(), within[row].tolist()) == wanted
        assert pairs[row] == len(naive.pair(u[row], v[row], at[row].item()))


def test_where_memory_runs_out_amid_becoming_a_hub_answers_are_still_right():
    with patch.object(adjacency, "HUB", 8):
        made = NeighborIndex()
        made.append(np.zeros(8, int), np.ones(8, int), np.arange(8))  # both have become hubs
        made._pairs = adjacency._pair_table(1)
        with patch.object(NeighborIndex, "_make_space", side_effect=TooLarge("no")), pytest.raises(TooLarge):
            made._enter_all_hubs()
        assert made.count_pair(0, 1, 99) == 8
