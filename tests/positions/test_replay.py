"""The interleaved pass equals reading and observing one group at a time, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.positions import RelativePositions
from tests.positions.helpers import SHAPES, Columns, columns, cuts, everything, groups, logs, oracle


def one_group_at_a_time(positions, log: Columns, nodes, roots, at, transform: str = "raw") -> np.ndarray:
    """What `replay` means."""
    out = np.full((*nodes.shape, roots.shape[1], positions.d), np.nan)
    asked = np.full(len(at), False)

    def answer(which):
        for q in np.flatnonzero(which & ~asked):
            out[q] = positions.read(nodes[q][:, None], roots[q][None, :], at=at[q], transform=transform)
        asked[which] = True

    for group in groups(log):
        answer(at <= group[2][0])
        positions.observe(*group)
    answer(np.full(len(at), True))
    return out


@st.composite
def queries(draw: st.DrawFn, first: int, last: int):
    q, m, w = draw(st.integers(0, 5)), draw(st.integers(0, 3)), draw(st.integers(0, 2))
    ids = st.integers(-1, 6)
    nodes = np.array(draw(st.lists(ids, min_size=q * m, max_size=q * m)), np.int64).reshape(q, m)
    roots = np.array(draw(st.lists(ids, min_size=q * w, max_size=q * w)), np.int64).reshape(q, w)
    at = np.array(draw(st.lists(st.integers(first, last), min_size=q, max_size=q)), np.int64)
    return nodes, roots, at


@pytest.mark.parametrize(
    ("kind", "backend", "settings_"),
    [
        (SHAPES["dense"], "exact", {}),
        (SHAPES["sparse"], "exact", {}),
        (SHAPES["dense"], "sketch", {"width": 16}),
        (SHAPES["sparse"], "sketch", {"width": 16}),
    ],
    ids=["dense", "sparse", "sketch", "sparse sketch"],
)
@given(data=st.data(), log=logs())
@settings(max_examples=60, deadline=None)
def test_replay_equals_one_group_at_a_time(kind, backend, settings_, data, log):
    batched = kind(4, backend, **settings_)
    looped = kind(4, backend, **settings_)
    for piece in data.draw(cuts(len(log[0]))):
        batch = tuple(column[piece] for column in log)
        asked = data.draw(queries(0 if batched.clock is None else batched.clock, 8))
        found = batched.replay(*batch, *asked, transform="raw")
        expected = one_group_at_a_time(looped, batch, *asked)
        assert found.shape == expected.shape
        if backend == "exact":
            assert np.array_equal(found, expected)
        else:
            assert np.allclose(found, expected, atol=1e-5)
        assert batched.clock == looped.clock
        assert batched.size == looped.size
    assert np.array_equal(everything(batched, 6, None), everything(looped, 6, None))


@given(data=st.data(), log=logs())
@settings(max_examples=60, deadline=None)
def test_every_query_sees_the_past_of_its_own_time(data, log):
    """Of all events in one batch, and of those that follow a cut, which may part simultaneous ones."""
    for cut in (0, data.draw(st.integers(0, len(log[0])))):
        positions = RelativePositions(4, "exact")
        positions.observe(*(column[:cut] for column in log))
        times = np.arange(8)[::-1].copy()  # unsorted on purpose
        times = times if positions.clock is None else times[times >= positions.clock]
        asked = np.tile(np.arange(5), (len(times), 1))
        found = positions.replay(*(column[cut:] for column in log), asked, asked, times, transform="raw")
        for t, answer in zip(times, found, strict=True):
            assert np.array_equal(answer, oracle(log, 5, int(t), 4))


@pytest.mark.parametrize("backend", ["exact", "sketch"])
@pytest.mark.parametrize("size", [1, 50, 200, 2000])
def test_batch_size_changes_no_answer_on_real_data(shared_data, backend, size):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(shared_data("enron"), columns=["src", "dst", "t"]).slice(0, 2000)
    src, dst, t = (table[column].to_numpy() for column in ("src", "dst", "t"))
    rng = np.random.default_rng(0)
    nodes = rng.integers(0, 184, (2000, 6))
    roots = np.stack([src, dst], 1)

    def run(size):
        positions = RelativePositions(4, backend, width=32)
        pieces = [slice(start, start + size) for start in range(0, 2000, size)]
        return np.concatenate([positions.replay(src[p], dst[p], t[p], nodes[p], roots[p], t[p]) for p in pieces])

    assert np.array_equal(run(size), run(700))


def test_replay_leaves_the_state_of_observe():
    log = columns([(0, 1, 1), (1, 2, 1), (0, 0, 2), (3, 1, 4)])
    replayed, observed = RelativePositions(4), RelativePositions(4)
    replayed.replay(*log, np.zeros((1, 1), int), np.zeros((1, 1), int), [9])
    observed.observe(*log)
    assert repr(replayed) == repr(observed)
    assert np.array_equal(everything(replayed, 4, None), everything(observed, 4, None))


def test_queries_without_a_time_see_everything():
    log = columns([(0, 1, 1), (1, 2, 2)])
    found = RelativePositions(3).replay(*log, [[0]], [[2]], None, transform="raw")
    assert found.tolist() == [[[[0, 0, 1]]]]


def test_answers_are_single_precision_and_raw_is_double():
    positions = RelativePositions(3)
    assert positions.replay([0], [1], [1], [[0]], [[1]], [1]).dtype == np.float32
    assert positions.replay([0], [1], [2], [[0]], [[1]], [2], transform="raw").dtype == np.float64
    assert positions.read(0, 1, transform="l1").dtype == np.float32
