"""An index without some events answers as one that never saw them; afterwards it is as it was."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn import NeighborIndex
from pintgn.neighbors.contents import contents, left_out
from tests.learn.helpers import random_log


@pytest.mark.parametrize("seed", range(3))
def test_leaving_events_out_is_never_having_appended_them(seed):
    log = random_log(200, 12, seed=seed)
    rng = np.random.default_rng(seed)
    gone = np.sort(rng.choice(200, 40, replace=False))
    stays = np.setdiff1d(np.arange(200), gone)
    index, never = NeighborIndex(), NeighborIndex()
    index.append(log.src, log.dst, log.t)
    never.append(log.src[stays], log.dst[stays], log.t[stays], numbers=stays)
    everyone, at = np.arange(12), int(log.t[-1]) + 1
    before = index.recent(everyone, at, 60)
    with left_out(index, gone, np.concatenate([log.src[gone], log.dst[gone]])):
        for when in (at, int(log.t[100])):
            for mine, other in zip(index.recent(everyone, when, 60), never.recent(everyone, when, 60), strict=True):
                assert np.array_equal(mine, other)
        assert np.array_equal(index.count(everyone, at), never.count(everyone, at))
        assert np.array_equal(index.count_pair(3, everyone, at), never.count_pair(3, everyone, at))
    for mine, other in zip(index.recent(everyone, at, 60), before, strict=True):
        assert np.array_equal(mine, other)


def test_what_was_left_out_comes_back_after_an_error():
    index = NeighborIndex()
    index.append([0, 1], [1, 2], [1, 2])

    inside = []

    def fail():
        inside.append(int(index.count(1, 9)))
        raise RuntimeError

    with pytest.raises(RuntimeError), left_out(index, np.array([0]), np.array([0, 1, 99])):
        fail()
    assert inside == [1]
    assert index.count([0, 1, 2], 9).tolist() == [1, 2, 1]
    held = contents(index)
    assert held.ids[held.starts[1] : held.starts[1] + held.lengths[1]].tolist() == [2, 0]


def test_the_direction_of_any_stretch_of_a_list():
    index = NeighborIndex()
    index.append([0, 1, 0, 0, 2], [1, 0, 2, 0, 0], [1, 2, 3, 4, 5])
    held, out = contents(index), [False, True, True, False, True]  # of node 0, the newest first; a self-loop goes out
    for first in range(6):
        for stop in range(first, 8):
            assert held.outgoing(0, first, stop).tolist() == out[first:stop]
    assert held.outgoing(1, 0, 1).tolist() == [True]
