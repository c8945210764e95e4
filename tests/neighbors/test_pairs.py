"""What the index knows about two nodes, against reading the whole log."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pintgn.neighbors import NeighborIndex
from tests.neighbors.oracle import logs


@given(st.data())
def test_acquaintance_is_what_the_log_says(data):
    log = data.draw(logs())
    index, naive = log.index(), log.naive()
    nodes = st.integers(0, 7)
    asked = data.draw(st.lists(st.tuples(nodes, nodes, st.integers(0, 10), st.integers(0, 45)), min_size=1, max_size=8))
    times = sorted({*log.t, (log.t[-1] if log.t else 0) + 1})
    u, v, which, before = (np.array(column) for column in zip(*asked, strict=True))
    t = np.array([times[k % len(times)] for k in which], log.kind)
    found = index.pair_history(u, v, t, before=before)
    for row in range(len(u)):
        counts, dt = naive.pair_history(u[row], v[row], t[row].item(), before[row])
        assert found.counts[row].tolist() == counts
        assert found.dt[row].tolist() == dt


@given(logs())
def test_saved_forked_and_trimmed_indexes_keep_the_direction_of_events(tmp_path_factory, log):
    index, path = log.index(), tmp_path_factory.mktemp("index") / "index.npz"
    index.save(path)
    u, v = np.divmod(np.arange(36), 6)
    now = np.array((log.t[-1] if log.t else 0) + 1, log.kind)
    wanted = index.pair_history(u, v, now)
    trimmed = index.fork()
    trimmed.trim(keep_last=1_000)
    for other in (NeighborIndex.open(path), index.fork(), trimmed):
        if other.time is not None:
            found = other.pair_history(u, v, now)
            assert np.array_equal(found.counts, wanted.counts)
            assert np.array_equal(found.dt, wanted.dt)


def test_after_uneven_trimming_the_list_that_still_remembers_an_event_decides():
    index = NeighborIndex()
    index.append([0, 0, 1, 2], [1, 2, 2, 2], [1, 2, 3, 4])
    index.trim(keep_last=2)  # node 2 keeps 1 -> 2 and its self-loop; node 0 still knows 0 -> 2
    found = index.pair_history(0, 2, 10)
    assert found.counts[:2].tolist() == [1, 0]
    assert found.dt[:2].tolist() == [8, 0]
