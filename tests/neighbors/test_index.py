"""NeighborIndex answers as a list of events read from end to end would, whatever it holds besides."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.neighbors import NeighborIndex, Neighbors, kernels_lookups, query_keys
from tests.neighbors.oracle import Naive, logs, questions, rows

many = settings(max_examples=200, deadline=None)


def example() -> NeighborIndex:
    """0-1 at 1, 0-2 at 2, 0-0 at 2, 1-2 at 4, 0-1 at 4."""
    index = NeighborIndex()
    index.append([0, 0, 0, 1, 0], [1, 2, 0, 2, 1], [1, 2, 2, 4, 4])
    return index


# --- by hand -------------------------------------------------------------------------------------------------


def test_recent_gives_the_newest_first_with_masks_and_ages():
    found = example().recent([0, 2, 7], [4, 5, 5], k=3)
    # node 0 before 4: event 2 (itself, t=2), event 1 (node 2, t=2), event 0 (node 1, t=1)
    assert found.ids.tolist() == [[0, 2, 1], [1, 0, 0], [0, 0, 0]]
    assert found.t.tolist() == [[2, 2, 1], [4, 2, 0], [0, 0, 0]]
    assert found.dt.tolist() == [[2, 2, 3], [1, 3, 0], [0, 0, 0]]
    assert found.events.tolist() == [[2, 1, 0], [3, 1, 0], [0, 0, 0]]
    assert found.mask.tolist() == [[True] * 3, [True, True, False], [False] * 3]
    assert [array.dtype for array in found] == [np.int64, np.int64, np.int64, np.int64, np.bool_]


def test_a_self_loop_is_one_entry_and_repeats_count_each_time():
    index = NeighborIndex()
    index.append([3, 3, 3], [3, 4, 4], [0, 1, 1])
    assert index.size == 5
    assert index.count([3, 4], 2).tolist() == [3, 2]
    assert index.count_pair(3, [3, 4], 2).tolist() == [1, 2]


def test_last_finds_the_newest_event_between_two_nodes_either_way_round():
    last = example().last([0, 1, 0, 2, 9], [1, 0, 0, 0, 0], [5, 4, 5, 2, 5])
    assert last.mask.tolist() == [True, True, True, False, False]
    assert last.t.tolist() == [4, 1, 2, 0, 0]
    assert last.events.tolist() == [4, 0, 2, 0, 0]


def test_an_empty_index_answers_any_question_with_nothing():
    index = NeighborIndex()
    assert index.clock is None
    for t in (5, 5.5):
        found = index.recent([0, 1], t, k=2)
        assert not found.mask.any()
        assert found.dt.dtype == np.asarray(t).dtype
        assert not index.last(0, 1, t).mask
    assert index.append([], [], []) == 0
    assert index.time is None


def test_the_second_hop_can_be_asked_for_a_padded_first_hop():
    index = example()
    hop = index.recent([0, 1], [4, 4], k=3)
    second = index.recent(hop.ids, np.array([[4], [4]]), k=2, valid=hop.mask)
    assert second.ids.shape == (2, 3, 2)
    assert not second.mask[1, 1:].any()  # node 1 has one entry before 4; the padding has none
    assert second.mask[0].sum(-1).tolist() == [2, 1, 1]
    assert index.count(hop.ids, 4, valid=hop.mask).tolist() == [[3, 1, 1], [3, 0, 0]]


# --- against the oracle ----------------------------------------------------------------------------------------


@many
@given(st.data())
def test_recent_count_and_last_equal_the_definition(data):
    log = data.draw(logs())
    index, naive = log.index(), log.naive()
    nodes, t, before = data.draw(questions(log))
    k = data.draw(st.integers(1, 6))
    gate = data.draw(st.sampled_from([None, before]))
    found = index.recent(nodes, t, k, before=gate)
    counted = index.count(nodes, t, before=gate)
    last = index.last(nodes, nodes[::-1], t, before=gate)
    together = index.count_pair(nodes, nodes[::-1], t, before=gate)
    for q, (node, other, when) in enumerate(zip(nodes, nodes[::-1], t, strict=True)):
        gates = {} if gate is None else {"before": gate[q]}
        assert rows(found, q) == naive.recent(node, when, k, **gates)
        assert counted[q] == len(naive.entries(node, when, **gates))
        pair = naive.pair(node, other, when, **gates)
        assert together[q] == len(pair)
        assert last.mask[q] == bool(pair)
        assert (last.t[q], last.events[q]) == (pair[0] if pair else (0, 0))
    assert (found.dt == np.where(found.mask, t[:, None] - found.t, 0)).all()
    for array in (found.ids, found.t, found.events):
        assert not array[~found.mask].any()


@many
@given(st.data())
def test_later_events_never_change_an_answer(data):
    """The training path appends a whole batch and then asks as of each query's own time."""
    log = data.draw(logs())
    nodes, t, _ = data.draw(questions(log))
    full = log.index()
    keys = query_keys(7, np.arange(len(nodes)))
    answers = full.recent(nodes, t, 4), full.uniform(nodes, t, 2, keys)
    for q in range(len(nodes)):
        only = log.index(stop=int(np.searchsorted(np.array(log.t, log.kind), t[q])))
        one = slice(q, q + 1)
        for full_answer, lone in zip(
            answers, (only.recent(nodes[one], t[one], 4), only.uniform(nodes[one], t[one], 2, keys[one])), strict=True
        ):
            for name in Neighbors._fields:
                assert (getattr(full_answer, name)[one] == getattr(lone, name)).all(), name


@many
@given(st.data())
def test_the_cuts_between_appends_mean_nothing(data):
    log = data.draw(logs())
    pieces, whole = log.index(), NeighborIndex()
    whole.append(log.src, log.dst, np.array(log.t, log.kind))
    assert (pieces.events, pieces.size, pieces.nodes, pieces.clock) == (
        whole.events, whole.size, whole.nodes, whole.clock
    )  # fmt: skip
    nodes = np.arange(whole.nodes + 1)
    t = log.kind((log.t[-1] if log.t else 0) + 1)
    for a, b in zip(pieces.recent(nodes, t, 50), whole.recent(nodes, t, 50), strict=True):
        assert (a == b).all()


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_a_long_stream_with_a_hub_keeps_every_entry_through_many_relocations(kind):
    rng = np.random.default_rng(3)
    size = 6_000
    src, dst = rng.zipf(1.3, (2, size)) % 200
    t = np.cumsum(rng.integers(0, 2, size)).astype(kind)
    index, naive, at = NeighborIndex(), Naive(), 0
    for step in itertools.cycle([1, 7, 100, 1000]):
        index.append(src[at : at + step], dst[at : at + step], t[at : at + step])
        at += step
        if at >= size:
            break
    naive.append(src.tolist(), dst.tolist(), t.tolist())
    nodes, when = rng.integers(0, 210, 300), rng.choice(t, 300)
    found = index.recent(nodes, when, 40)
    for q in range(300):
        assert rows(found, q) == naive.recent(nodes[q], when[q], 40)
    hub = index.recent([1], t[-1] + 1, 2 * size)
    assert rows(hub, 0) == naive.recent(1, t[-1] + 1, 2 * size)


def test_event_numbers_may_be_given_where_not_every_row_is_an_interaction():
    index = NeighborIndex()
    assert index.append([0, 0], [1, 2], [1, 1], numbers=[3, 8]) == 3
    assert index.append(1, 2, 5) == 9
    assert index.recent([0, 2], 9, 3).events.tolist() == [[8, 3, 0], [9, 8, 0]]
    assert index.recent(0, 9, 3, before=8).events.tolist() == [3, 0, 0]
    assert index.events == 10


def test_int64_and_float64_times_are_kept_to_the_last_bit():
    near = 2**53  # float64 cannot tell near from near + 1
    index = NeighborIndex()
    index.append([0, 0], [1, 2], np.array([near, near + 1]))
    assert index.recent(0, near + 1, 2).ids.tolist() == [1, 0]
    assert index.recent(0, near + 2, 2).t.tolist() == [near + 1, near]
    index = NeighborIndex()
    early, late = 1e9, np.nextafter(1e9, 2e9)  # float32 cannot tell these apart
    index.append([0, 0], [1, 2], [early, late])
    assert index.recent(0, late, 2).ids.tolist() == [1, 0]
    assert index.recent(0, 1_000_000_000, 2).mask.sum() == 0  # an integer that float64 holds exactly is welcome
    assert index.clock == late


# --- uniform -------------------------------------------------------------------------------------------------


MASK64 = 2**64 - 1


def splitmix(z: int) -> int:
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK64
    return z ^ z >> 31


def floyd(key: int, count: int, k: int) -> list[int]:
    """The subset that a key draws, in plain Python."""
    golden = 0x9E3779B97F4A7C15
    key = splitmix((key + golden) & MASK64)
    chosen: set[int] = set()
    for i, top in enumerate(range(count - k, count)):
        draw = (splitmix((key + (i + 1) * golden) & MASK64) >> 11) / 2**53
        pick = int(draw * (top + 1))
        chosen.add(top if pick in chosen else pick)
    return sorted(chosen)


@many
@given(st.data())
def test_uniform_draws_what_its_key_says_from_what_the_query_may_see(data):
    log = data.draw(logs())
    index, naive = log.index(), log.naive()
    nodes, t, before = data.draw(questions(log))
    k = data.draw(st.integers(1, 5))
    keys = query_keys(data.draw(st.integers(0, 2**64 - 1)), np.arange(len(nodes)))
    found = index.uniform(nodes, t, k, keys, before=before)
    for q in range(len(nodes)):
        seen = naive.entries(nodes[q], t[q], before=before[q])
        picks = range(len(seen)) if len(seen) <= k else floyd(int(keys[q]), len(seen), k)
        assert rows(found, q) == [seen[place] for place in picks]


def test_uniform_is_uniform_over_subsets():
    index = NeighborIndex()
    index.append([0] * 6, range(1, 7), range(6))
    draws = 60_000
    found = index.uniform(np.zeros(draws, int), 10, 3, query_keys(1, np.arange(draws)))
    subsets = Counter(map(tuple, found.ids.tolist()))
    assert len(subsets) == 20  # 6 choose 3
    expected = draws / 20
    chi2 = sum((seen - expected) ** 2 / expected for seen in subsets.values())
    assert chi2 < 43.8  # 99.9 % of chi-square with 19 degrees of freedom; the keys are fixed, so is the outcome


def test_uniform_ignores_order_and_batching():
    rng = np.random.default_rng(0)
    index = NeighborIndex()
    index.append(rng.integers(0, 20, 2000), rng.integers(0, 20, 2000), np.arange(2000))
    nodes, t = rng.integers(0, 20, 300), rng.integers(0, 2000, 300)
    keys = query_keys(5, np.arange(300))
    order = rng.permutation(300)
    whole = index.uniform(nodes, t, 8, keys)
    shuffled = index.uniform(nodes[order], t[order], 8, keys[order])
    for a, b in zip(whole, shuffled, strict=True):
        assert (a[order] == b).all()
    assert (index.uniform(nodes[7], t[7], 8, keys[7]).events == whole.events[7]).all()


# --- shapes, kinds of arrays --------------------------------------------------------------------------------------


def test_answers_have_the_shape_of_the_nodes_and_t_broadcasts_to_it():
    index = example()
    assert index.recent(0, 5, 4).ids.shape == (4,)
    assert index.recent(np.zeros((2, 3), int), np.array([[4], [5]]), 4).ids.shape == (2, 3, 4)
    assert index.recent(np.zeros((0, 3), int), 5, 4).ids.shape == (0, 3, 4)
    assert index.last(np.zeros((2, 1), int), np.arange(3), 5).mask.shape == (2, 3)
    assert index.count(0, 5).shape == ()


def test_look_ups_may_run_in_several_python_threads_at_once():
    rng = np.random.default_rng(0)
    index = NeighborIndex()
    index.append(rng.integers(0, 20, 2000), rng.integers(0, 20, 2000), np.arange(2000))
    nodes, t = rng.integers(0, 20, 5000), rng.integers(0, 2000, 5000)
    wanted = index.recent(nodes, t, 8).events
    found: list[np.ndarray] = []
    workers = [threading.Thread(target=lambda: found.append(index.recent(nodes, t, 8).events)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all((events == wanted).all() for events in found)


def test_read_only_strided_and_narrow_arrays_are_welcome_and_compile_nothing_new():
    index = example()
    nodes, t = np.array([0, 1, 2, 0]), np.array([5, 4, 3, 2])
    wanted = index.recent(nodes, t, 3)
    known = len(kernels_lookups.recent.signatures)
    frozen = nodes.copy()
    frozen.flags.writeable = False
    strided = np.stack([nodes, nodes], 1)[:, 0]
    for kind in (frozen, strided, nodes.astype(np.int16), nodes.astype(np.uint64), nodes.astype(">i8"), list(nodes)):
        assert (index.recent(kind, t, 3).events == wanted.events).all()
        assert (index.recent(nodes, t[::-1][::-1], 3, before=np.broadcast_to(9, 4)).events == wanted.events).all()
    assert len(kernels_lookups.recent.signatures) == known


# --- growth, forks, memory ---------------------------------------------------------------------------------------


@many
@given(log=logs(), other=logs(), at=st.integers(0, 40), spare=st.sampled_from([0, 20]))
def test_a_fork_and_its_origin_never_see_each_others_events(log, other, at, spare):
    """Both go on from the same past, in turn, with room to spare in every array or without."""
    size = min(len(other.t), len(log.t) - at)
    past, mine = slice(0, at), slice(at, at + max(size, 0))
    t = np.array(log.t, log.kind)
    index = NeighborIndex(nodes=spare)
    index.append(log.src[past], log.dst[past], t[past])
    fork = index.fork()
    theirs = (other.src[: max(size, 0)], other.dst[: max(size, 0)], t[mine])
    for i in range(max(size, 0)):
        fork.append(*(column[i] for column in theirs))
        index.append(log.src[at + i], log.dst[at + i], t[at + i])
    for one, tail in ((index, (log.src[mine], log.dst[mine], t[mine])), (fork, theirs)):
        naive = Naive()
        naive.append(log.src[past], log.dst[past], log.t[past])
        naive.append(*tail)
        late = log.kind((log.t[-1] if log.t else 0) + 1)
        found = one.recent(np.arange(8), late, 100)
        for node in range(8):
            assert rows(found, node) == naive.entries(node, late)


def test_memory_stays_within_a_constant_factor_of_the_entries():
    rng = np.random.default_rng(1)
    index = NeighborIndex()
    for start in range(0, 100_000, 1000):
        index.append(rng.zipf(1.5, 1000) % 3000, rng.integers(0, 3000, 1000), np.arange(start, start + 1000))
    bare = 20 * index.size + 16 * index.nodes
    assert bare < index.nbytes < 4 * bare


def test_nodes_is_a_hint_and_the_index_grows_past_it():
    index = NeighborIndex(nodes=3)
    assert (index.nodes, index.size, index.events) == (3, 0, 0)
    index.append(10, 2, 0)
    assert index.nodes == 11
    assert index.recent(10, 1, 1).ids.tolist() == [2]
    assert repr(index) == "NeighborIndex: 1 events, 2 entries, 11 nodes, clock 0"


# --- trim --------------------------------------------------------------------------------------------------------


@many
@given(st.data())
def test_trimming_by_time_answers_as_if_older_events_had_never_been(data):
    log = data.draw(logs())
    index, naive = log.index(), log.naive()
    nodes, t, _ = data.draw(questions(log))
    floor = t[0].item()
    whole = index.size
    dropped = index.trim(before_t=floor)
    naive.events = [event for event in naive.events if event[2] >= floor]
    found, counted = index.recent(nodes, t, 50), index.count(nodes, t)
    last, together = index.last(nodes, nodes[::-1], t), index.count_pair(nodes, nodes[::-1], t)
    for q in range(len(nodes)):
        assert rows(found, q) == naive.entries(nodes[q], t[q])
        assert counted[q] == len(rows(found, q))
        pair = naive.pair(nodes[q], nodes[::-1][q], t[q])
        assert (together[q], last.mask[q], last.events[q]) == (len(pair), bool(pair), pair[0][1] if pair else 0)
    assert (index.size, index.forgotten) == (whole - dropped, dropped)
    assert index.events == len(log.t)


@many
@given(st.data())
def test_trimming_to_the_newest_keeps_each_list_short_and_later_appends_go_on(data):
    log = data.draw(logs())
    index, naive = log.index(), log.naive()
    keep = data.draw(st.integers(0, 4))
    nodes, _, _ = data.draw(questions(log))
    clock = index.clock
    index.trim(keep_last=keep)
    late = log.kind((log.t[-1] if log.t else 0) + 1)
    found = index.recent(nodes, late, 50)
    last, together = index.last(nodes, nodes[::-1], late), index.count_pair(nodes, nodes[::-1], late)
    for q, (u, v) in enumerate(zip(nodes, nodes[::-1], strict=True)):
        assert rows(found, q) == naive.recent(u, late, keep)
        # An event between two nodes is known as long as either of their lists still holds it.
        known = [n for o, _, n in naive.recent(u, late, keep) if o == v]
        known = sorted({*known, *(n for o, _, n in naive.recent(v, late, keep) if o == u)}, reverse=True)
        assert (together[q], last.mask[q], last.events[q]) == (len(known), bool(known), known[0] if known else 0)
    assert (index.clock, index.events) == (clock, len(log.t))
    index.append([0, 0], [1, 0], np.array([late, late]))
    naive.events = []
    assert index.recent(0, log.kind(late + 1), 2).events.tolist() == [len(log.t) + 1, len(log.t)]


def test_trimming_frees_memory():
    index = NeighborIndex()
    index.append(np.zeros(50_000, int), np.arange(50_000) % 10, np.arange(50_000))
    before = index.nbytes
    index.trim(keep_last=20)
    assert index.nbytes < before / 50


# --- real data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wikipedia", "enron", "as733_adddel"])
def test_real_streams_replayed_in_batches_answer_as_of_each_query(shared_data, name):
    table = pq.read_table(shared_data(name))
    src, dst, t = (table[column].to_numpy() for column in ("src", "dst", "t"))
    index = NeighborIndex()
    rng = np.random.default_rng(0)
    chosen = set(rng.choice(len(t), 200, replace=False).tolist())
    for start in range(0, len(t), 2000):
        part = slice(start, start + 2000)
        index.append(src[part], dst[part], t[part])
        for event in chosen & set(range(start, start + 2000)):
            found = index.recent(src[event], t[event], 20)
            past = np.flatnonzero(((src == src[event]) | (dst == src[event])) & (t < t[event]))[::-1][:20]
            assert found.events[found.mask].tolist() == past.tolist()
            other = np.where(src[past] == src[event], dst[past], src[past])
            assert found.ids[found.mask].tolist() == other.tolist()
            ends = {src[event], dst[event]}
            met = [n for n in np.flatnonzero(np.isin(src, [*ends]) & (t < t[event])) if {src[n], dst[n]} == ends]
            last = index.last(src[event], dst[event], t[event])
            assert (bool(last.mask), int(last.events)) == ((True, met[-1]) if len(met) else (False, 0))
    assert index.size == 2 * len(t) - np.count_nonzero(src == dst)
