"""Ties decide which of simultaneous entries counts as the newer, in whatever order and batches they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.errors import BadInput
from pintgn.neighbors import NeighborIndex, causal_walks, query_keys
from pintgn.neighbors.contents import left_out
from pintgn.neighbors.kernels_storage import FEW
from tests.neighbors.oracle import Log, Naive, logs, questions, rows

many = settings(max_examples=200, deadline=None)


def keys_for(log: Log, draw) -> np.ndarray:
    """Few different ones, so that some are equal."""
    some = st.lists(st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]), min_size=len(log.t), max_size=len(log.t))
    return np.array(draw(some), np.uint64)


def shuffled(log: Log, ties: np.ndarray, seed: int) -> tuple[Log, np.ndarray]:
    """The rows of each time in another order, cut elsewhere."""
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(log.t)), np.array(log.t, log.kind)))
    take = lambda column: [column[row] for row in order]  # noqa: E731
    cuts = sorted(rng.integers(0, len(log.t) + 1, 3).tolist())
    return Log(take(log.src), take(log.dst), take(log.t), cuts, log.kind), ties[order]


@many
@given(st.data())
def test_ties_decide_as_the_definition_says(data):
    log = data.draw(logs())
    ties = keys_for(log, data.draw)
    index, naive = log.index(ties=ties), Naive()
    naive.append(log.src, log.dst, log.t, ties)
    nodes, t, _ = data.draw(questions(log))
    before = np.searchsorted(np.array(log.t, log.kind), t)  # where each query's own group begins
    k = data.draw(st.integers(1, 6))
    found, last = index.recent(nodes, t, k, before=before), index.last(nodes, nodes[::-1], t, before=before)
    for q, (node, other, when) in enumerate(zip(nodes, nodes[::-1], t, strict=True)):
        assert rows(found, q) == naive.recent(node, when, k)
        pair = naive.pair(node, other, when)
        assert (last.t[q], last.events[q]) == (pair[0] if pair else (0, 0))


@many
@given(st.data())
def test_the_order_of_simultaneous_events_has_no_say(data):
    """Equal events may change places, so what is compared is what they are, not their numbers."""
    log = data.draw(logs())
    # equal keys belong to equal events
    ties = np.array([hash((u, v)) % 2**64 for u, v in zip(log.src, log.dst, strict=True)], np.uint64)
    other, other_ties = shuffled(log, ties, data.draw(st.integers(0, 99)))
    one, two = log.index(ties=ties), other.index(ties=other_ties)
    nodes, t, _ = data.draw(questions(log))
    k = data.draw(st.integers(1, 6))
    keys = query_keys(3, np.arange(len(nodes)))
    for ask in (lambda index: index.recent(nodes, t, k), lambda index: index.uniform(nodes, t, k, keys)):
        for name in ("ids", "t", "dt", "mask"):
            assert (getattr(ask(one), name) == getattr(ask(two), name)).all(), name
    for bias in (0.0, 0.5):
        walks = [causal_walks(index, nodes, t, walks=3, length=3, keys=keys, bias=bias) for index in (one, two)]
        assert (walks[0].nodes == walks[1].nodes).all()
        assert (walks[0].times == walks[1].times).all()


@many
@given(st.data())
def test_an_event_gate_never_shows_what_it_should_hide(data):
    """Also where it parts simultaneous entries, which it should not be asked to."""
    log = data.draw(logs())
    ties = keys_for(log, data.draw)
    nodes, t, before = data.draw(questions(log))
    found = log.index(ties=ties).recent(nodes, t, 40, before=before)
    assert (found.events < before[:, None])[found.mask].all()
    assert (found.t < t[:, None])[found.mask].all()


@many
@given(data=st.data())
def test_what_was_saved_amid_a_group_goes_on_as_if_it_had_not_been(data, tmp_path_factory):
    log = data.draw(logs())
    ties = keys_for(log, data.draw)
    cut = data.draw(st.integers(0, len(log.t)))
    t = np.array(log.t, log.kind)
    index = NeighborIndex(time=log.kind)
    index.append(log.src[:cut], log.dst[:cut], t[:cut], ties=ties[:cut])
    path = tmp_path_factory.mktemp("ties") / "index.npz"
    index.save(path)
    again = NeighborIndex.open(path)
    for one in (index, again):
        one.append(log.src[cut:], log.dst[cut:], t[cut:], ties=ties[cut:])
    nodes, when, _ = data.draw(questions(log))
    found, expected = again.recent(nodes, when, 5), index.recent(nodes, when, 5)
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("size", [1, 2, FEW - 1, FEW, FEW + 1, 2 * FEW, 700])
def test_a_group_in_many_parts_is_ordered_as_in_one(size):
    rng = np.random.default_rng(0)
    ties = rng.integers(0, 50, size).astype(np.uint64)
    dst = rng.integers(1, 40, size)
    whole, parts = NeighborIndex(), NeighborIndex()
    whole.append(np.zeros(size, int), dst, np.full(size, 7), ties=ties)
    for begin in range(0, size, 5):
        some = slice(begin, begin + 5)
        parts.append(np.zeros(len(dst[some]), int), dst[some], np.full(len(dst[some]), 7), ties=ties[some])
    expected = sorted(range(size), key=lambda row: (ties[row], row), reverse=True)
    assert whole.recent(0, 8, size).events.tolist() == expected
    assert parts.recent(0, 8, size).events.tolist() == expected


def test_events_can_be_left_out_though_their_numbers_do_not_fall():
    index = NeighborIndex()
    index.append([0, 0, 0, 0], [1, 2, 3, 4], [5, 5, 5, 6], ties=np.array([2, 9, 4, 0], np.uint64))
    assert index.recent(0, 7, 4).events.tolist() == [3, 1, 2, 0]
    with left_out(index, np.array([2]), np.array([0, 3])):
        assert index.recent(0, 7, 3).events.tolist() == [3, 1, 0]
    assert index.recent(0, 7, 4).events.tolist() == [3, 1, 2, 0]


def test_own_numbers_and_ties_go_together():
    index = NeighborIndex()
    index.append([0, 0], [1, 2], [5, 5], numbers=[10, 20], ties=np.array([7, 3], np.uint64))
    index.append([0, 0], [3, 4], [5, 5], numbers=[30, 45], ties=np.array([5, 9], np.uint64))
    assert index.recent(0, 6, 4).events.tolist() == [45, 10, 30, 20]


def test_ties_of_another_length_are_refused():
    with pytest.raises(BadInput, match=r"columns of one length.*ties \(1,\)"):
        NeighborIndex().append([0, 0], [1, 2], [5, 5], ties=np.zeros(1, np.uint64))
