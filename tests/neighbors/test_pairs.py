"""What the index knows about two nodes, against reading the whole log."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pintgn.neighbors import NeighborIndex, adjacency
from pintgn.neighbors.index import CO_VISITS, WAYS
from tests.neighbors.oracle import logs, loops


@st.composite
def asked(draw, log):
    """Pairs with times and gates: around and beyond what the log holds."""
    nodes = st.integers(0, 7)
    rows = draw(st.lists(st.tuples(nodes, nodes, st.integers(0, 10), st.integers(0, 45)), min_size=1, max_size=8))
    times = sorted({*log.t, (log.t[-1] if log.t else 0) + 1})
    u, v, which, before = (np.array(column) for column in zip(*rows, strict=True))
    return u, v, np.array([times[k % len(times)] for k in which], log.kind), before


@given(st.data())
def test_pair_history_is_what_the_log_says(data):
    log = data.draw(logs())
    u, v, t, before = data.draw(asked(log))
    windows = data.draw(st.sampled_from([(), (1,), (1, 2, 5, 100), (3, 3)]))
    found, naive = log.index().pair_history(u, v, t, before=before, windows=windows), log.naive()
    for row in range(len(u)):
        counts, dt, within = naive.pair_history(u[row], v[row], t[row].item(), before[row], windows)
        assert found.counts[row].tolist() == counts
        assert found.dt[row].tolist() == dt
        assert found.within[row].tolist() == within


@given(st.data())
def test_recent_contacts_are_what_the_log_says(data):
    """Gates are those of queries in use: numbers at which a group of simultaneous events begins."""
    log = data.draw(logs())
    u, v, t, _ = data.draw(asked(log))
    before = np.searchsorted(np.array(log.t), t)
    k, unit = data.draw(st.sampled_from([1, 2, 5, 32])), data.draw(st.sampled_from([0.5, 3.0]))
    found, naive = log.index().recent_contacts(u, v, t, k, unit, before=before), log.naive()
    for row in range(len(u)):
        wanted = naive.recent_contacts(u[row], v[row], t[row].item(), k, unit, before[row])
        for name, values in wanted.items():
            np.testing.assert_allclose(getattr(found, name)[row], values, rtol=1e-6, err_msg=name)


@given(st.data())
def test_co_visits_are_what_the_log_says(data):
    """With repeats, self-loops and ties; one source's queries in a row share what is known of it."""
    log = data.draw(st.one_of(logs(), loops()))
    u, v, t, _ = data.draw(asked(log))
    u, t, v = u.repeat(4), t.repeat(4), (v[:, None] + np.arange(4)).ravel()
    before = np.searchsorted(np.array(log.t), t)
    last, k, near = (data.draw(st.sampled_from(sizes)) for sizes in ([1, 2, 10], [1, 3, 64], [1, 2, 10]))
    found, naive = log.index().co_visits(u, v, t, last, k, near, 3.0, before=before), log.naive()
    for row in range(len(u)):
        wanted = naive.co_visits(u[row], v[row], t[row].item(), last, k, near, 3.0, before[row])
        assert dict(zip(CO_VISITS, found[row].tolist(), strict=True)) == pytest.approx(
            dict(zip(CO_VISITS, wanted, strict=True)), rel=1e-5
        )


def test_co_visits_by_hand():
    """3 went to 0 and then to 1, 4 to 1 and then to 0, 5 to 1 alone; 2 was at 0. Is 1 next?"""
    index = NeighborIndex()
    index.append([3, 2, 3, 4, 4, 5], [0, 0, 1, 1, 0, 1], [1, 2, 3, 4, 5, 6])
    found = dict(zip(CO_VISITS, index.co_visits(2, 1, 7, 10, 64, 10, 1.0).tolist(), strict=True))
    cosine = 1 / math.sqrt(3 * 2)  # of three visits to 1 and two of others to 0
    assert found["visitors of both"] == found["visitors of both, most"] == 2
    assert found["cosine"] == pytest.approx(2 * cosine)
    assert found["from the last to v"] == found["near, then v"] == pytest.approx(cosine), "3 alone, in this order"
    assert found["near, recent"] == pytest.approx(cosine * (1 / 5 + 1 / 3))
    assert not index.co_visits(2, 1, 3, 10, 64, 10, 1.0).any(), "by then nobody had been at both"
    assert not index.co_visits(2, 0, 7, 10, 64, 10, 1.0).any(), "0 does not go with itself"


@pytest.mark.parametrize("hub", [2, adjacency.HUB])
@given(log=loops())
def test_a_self_loop_goes_out_and_never_comes_in(hub, log):
    """With repeats and ties, in lists of one node and of a busy pair; about every pair at every time."""
    with patch.object(adjacency, "HUB", hub):
        index, naive = log.index(), log.naive()
    times = np.array(sorted({*log.t, (log.t[-1] if log.t else 0) + 1}), log.kind)
    u, v, t = (one.ravel() for one in np.meshgrid(np.arange(3), np.arange(3), times, indexing="ij"))
    found, of_one = index.pair_history(u, v, t, windows=[1, 5]), index.count(u, t)
    for row in range(len(u)):
        counts, dt, within = naive.pair_history(u[row], v[row], t[row].item(), windows=[1, 5])
        assert found.counts[row].tolist() == counts
        assert found.dt[row].tolist() == dt
        assert found.within[row].tolist() == within
    by_way = dict(zip(WAYS, found.counts.T, strict=True))
    assert (by_way["u to anyone"] + by_way["anyone else to u"] == of_one).all(), "a self-loop is one entry"
    assert not by_way["v to u"][u == v].any()


@given(logs())
def test_saved_forked_and_trimmed_indexes_keep_the_direction_of_events(tmp_path_factory, log):
    index, path = log.index(), tmp_path_factory.mktemp("index") / "index.npz"
    index.save(path)
    u, v = np.divmod(np.arange(36), 6)
    now = np.array((log.t[-1] if log.t else 0) + 1, log.kind)
    wanted = index.pair_history(u, v, now, windows=[2, 9])
    trimmed = index.fork()
    trimmed.trim(keep_last=1_000)
    for other in (NeighborIndex.open(path), index.fork(), trimmed):
        if other.time is not None:
            found = other.pair_history(u, v, now, windows=[2, 9])
            for mine, theirs in zip(found, wanted, strict=True):
                assert np.array_equal(mine, theirs)


def test_after_uneven_trimming_the_list_that_still_remembers_an_event_decides():
    index = NeighborIndex()
    index.append([0, 0, 1, 2], [1, 2, 2, 2], [1, 2, 3, 4])
    index.trim(keep_last=2)  # node 2 keeps 1 -> 2 and its self-loop; node 0 still knows 0 -> 2
    found = index.pair_history(0, 2, 10, windows=[7, 8])
    assert found.counts[:2].tolist() == [1, 0]
    assert found.dt[:2].tolist() == [8, 0]
    assert found.within[:2].tolist() == [[0, 1], [0, 0]]
    back = index.pair_history(2, 0, 10, windows=[7, 8])  # lists of one length: that of 2, read first, has forgotten
    assert back.counts[:2].tolist() == [0, 1]
    assert back.dt[:2].tolist() == [0, 8]
    assert back.within[:2].tolist() == [[0, 0], [0, 1]]
