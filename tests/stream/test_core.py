from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn.check import random_log, scramble
from pintgn.errors import BadFile, BadInput, EventOrderError, StaleQuery
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import LATEST, LATEST_ASKED
from pintgn.models.heuristics import Heuristic
from pintgn.models.history_view import Events
from pintgn.models.pint import PINT
from pintgn.models.tgn import TGN
from pintgn.positions import RelativePositions
from pintgn.stream import Stream, core
from pintgn.stream.history import KnownHistory
from tests.test_check import Honest


def query(u, v, t):
    return Query(np.array([u]), np.array([v]), np.array([t]))


def one_by_one(stream: Stream, log: EventLog, queries: Query) -> torch.Tensor:
    """The meaning of replay: for each group of simultaneous events, score its queries, then observe it."""
    scores = torch.full((len(queries),), torch.nan)
    for t in np.unique(np.concatenate([log.t, queries.t])):
        rows = np.flatnonzero(queries.t == t)
        if len(rows):
            scores[rows] = stream.score(queries[rows])
        group = log.between(t, t + 1)
        if len(group):
            stream.observe(group)
    return scores


@settings(max_examples=40, deadline=None)
@given(
    st.data(),
    st.sampled_from([{"positions": 3}, {"positions": 0, "memory": 3}, {"positions": 2, "memory": 3, "layers": 2}]),
    st.sampled_from(["event", "block"]),
)
def test_replay_equals_one_group_at_a_time(data, given, refresh):
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 3)] * 2, st.integers(0, 5)), min_size=1, max_size=18))
    asked = data.draw(st.lists(st.tuples(*[st.integers(0, 5)] * 2, st.integers(0, 7)), min_size=1, max_size=8))
    src, dst, t = (np.array(c) for c in zip(*sorted(rows, key=lambda row: row[2]), strict=True))
    log = EventLog(src, dst, t)
    queries = Query(*(np.array(c) for c in zip(*asked, strict=True)))
    batch, block = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 5))
    model = PINT(dim=3, neighbors=2, **given)

    def make():
        return Stream(model, log.schema, memory_block=block, positions_refresh=refresh)

    with torch.no_grad():
        expected = one_by_one(make(), log, queries)
        stream, found = make(), torch.full((len(queries),), torch.nan)
        left = np.ones(len(queries), bool)
        for events in log.batches(batch):
            # ask with each batch what can no longer be asked after it
            due = np.flatnonzero(left & (queries.t <= events.t[-1]))
            left[due] = False
            if len(due):
                found[due] = stream.replay(events, [queries[due]])[0]
            else:
                stream.observe(events)
        if left.any():
            found[left] = stream.score(queries[left])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("given", [{}, {"memory": 8}, {"positions": 0}])
def test_a_query_at_the_clock_does_not_see_the_open_group(given):
    log = EventLog([0, 1, 0, 2], [1, 2, 2, 3], [1, 1, 4, 4])
    model = PINT(dim=6, **given)
    before, after = (Stream(model, log.schema, memory_block=1) for _ in range(2))
    before.observe(log[:2])
    after.observe(log[:3])
    with torch.no_grad():
        asked = query(0, 3, 4)
        torch.testing.assert_close(before.score(asked), after.score(asked))
        after.observe(log[3:])  # the group goes on
        torch.testing.assert_close(before.score(asked), after.score(asked))
        assert not torch.allclose(before.score(query(0, 3, 5)), after.score(query(0, 3, 5)))


def test_a_query_before_the_clock_is_refused():
    stream = Stream(Honest(), random_log().schema, node_features=random_log().node_features)
    stream.observe(random_log())
    with pytest.raises(StaleQuery, match=r"asked for a score at t=3; this stream has already observed t=\d+"):
        stream.score(query(0, 1, 3))


def plain(**settings):
    return Stream(PINT(dim=4, **settings), EventLog([0], [1], [0]).schema)


def test_events_before_the_clock_are_refused_and_nothing_changes():
    stream = plain()
    stream.observe(EventLog([0], [1], [7]))
    with pytest.raises(EventOrderError, match=r"before the clock \(t=7\)"):
        stream.observe(EventLog([0], [1], [6]))
    assert (stream.events, stream.clock) == (1, 7)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Query(np.array(["ann"]), np.array([1]), np.array([9])), "src holds <U3; a stream takes node numbers"),
        (Query(np.array([0.5]), np.array([1]), np.array([9])), "src holds float64"),
        (Query(np.array([-1]), np.array([1]), np.array([9])), "node numbers start at 0"),
        (Query(np.array([1]), np.array([1]), np.array([9.5])), "times of this stream are int64"),
        (Query(np.array([1]), np.array([1]), np.array([9], np.float32)), "times are float32"),
        (Query(np.array([1]), np.array([1]), np.array([np.nan])), "not finite"),
    ],
)
def test_unusable_queries_are_refused(asked, message):
    stream = plain()
    stream.observe(EventLog([0], [1], [7]))
    with pytest.raises(BadInput, match=message):
        stream.score(asked)


def test_unusable_features_are_refused():
    log = random_log()
    stream = Stream(Honest(), log.schema, node_features=log.node_features)
    with pytest.raises(BadInput, match="events carry 2 feature columns; this stream expects 3"):
        stream.observe(Events(log.src, log.dst, log.t, log.features[:, :2]))
    bad = log.features.copy()
    bad[4, 1] = np.nan
    with pytest.raises(BadInput, match="event 4 has a feature that is not finite"):
        stream.observe(Events(log.src, log.dst, log.t, bad))
    with pytest.raises(BadInput, match="2 node features, given 0"):
        Stream(Honest(), log.schema)


def test_whole_numbers_in_a_float_stream_are_the_same_times():
    stream = plain()
    stream.observe(EventLog([0], [1], [7.5]))
    with torch.no_grad():
        assert torch.equal(stream.score(query(0, 1, 9)), stream.score(query(0, 1, 9.0)))


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.uint64])
def test_times_beyond_what_can_be_counted_with_are_refused_and_those_up_to_it_work(kind):
    log = random_log(events=20)
    stream = Stream(PINT(dim=4, positions=2), log.schema, node_features=log.node_features)
    stream.observe(log)
    last = log[-1:]

    def at(t):
        return Events(last.src, last.dst, np.array([t], kind), last.marked_features)

    for t in (LATEST + 1024, LATEST_ASKED, LATEST_ASKED + 1024, 2**63 + 2048):
        if t < 2**63 or kind != np.int64:
            with pytest.raises(BadInput, match="within"):
                stream.observe(at(t))
    assert stream.events == len(log)
    stream.observe(at(LATEST))
    assert torch.isfinite(stream.score(Query(last.src, last.dst, np.array([LATEST_ASKED], kind)))).all()
    with pytest.raises(BadInput, match="within"):
        stream.score(Query(last.src, last.dst, np.array([LATEST_ASKED + 1024], kind)))


def test_one_event_or_many_and_strangers():
    stream = plain()
    stream.observe(EventLog([], [], np.zeros(0, np.int64)))
    with torch.no_grad():
        assert torch.isfinite(stream.score(query(10**6, 3, 5))).all()
        stream.observe(EventLog([0], [1], [7]))
        assert torch.isfinite(stream.score(query(10**6, 1, 8))).all()
    assert stream.replay(None, []) == []


@pytest.mark.parametrize("name", ["uci", "enron", "wikipedia"])
def test_the_future_changes_nothing_on_real_logs(name, shared_data):
    import pyarrow.parquet as pq

    table = pq.read_table(shared_data(name))
    log = EventLog(*(table[c].to_numpy()[:3000] for c in ("src", "dst", "t")))
    rng = np.random.default_rng(0)
    start = int(np.searchsorted(log.t, log.t[1500]))  # the beginning of a group
    asked = log.query[: start + int((log.t == log.t[start]).sum())]
    model = PINT(dim=8, layers=2, neighbors=5, memory=8)
    scores = []
    with torch.no_grad():
        for version in (log, scramble(log, start, rng)):
            for batch in (200, 3000):
                stream, found = Stream(model, log.schema), []
                for events in version.batches(batch):
                    rows = slice(events.first, min(events.first + len(events), len(asked)))
                    found.append(stream.replay(events, [asked[rows]])[0])
                scores.append(torch.cat(found))
    for other in scores[1:]:
        torch.testing.assert_close(other, scores[0], rtol=1e-4, atol=1e-5)


def test_a_checkpoint_of_another_model_or_log_is_refused(tmp_path):
    stream = plain(memory=4)
    stream.observe(EventLog([0], [1], [7]))
    stream.save(tmp_path / "s")
    with pytest.raises(BadInput, match="saved with the model pint, not tests.test_check.Honest"):
        Stream.open(tmp_path / "s", Honest)
    with pytest.raises(BadInput, match="made for other data: its label is None, yours 'label'"):
        Stream.open(tmp_path / "s", schema=EventLog([0], [1], [0], label=[1]).schema)
    with pytest.raises(BadFile, match="holds no saved stream"):
        Stream.open(tmp_path)
    (tmp_path / "s" / "neighbors.npz").write_bytes(b"no")
    with pytest.raises(BadFile, match="damaged"):
        Stream.open(tmp_path / "s")


def test_saving_again_replaces_the_folder_and_leaves_nothing_behind(tmp_path):
    stream = plain()
    stream.observe(EventLog([0], [1], [7]))
    stream.save(tmp_path / "s")
    stream.observe(EventLog([0], [1], [8]))
    stream.save(tmp_path / "s")
    assert Stream.open(tmp_path / "s").clock == 8
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


AHEAD = ["in a thread", "in turn", "when asked to"]
"""How the next batch is looked up."""


@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize("given", [{"positions": 3}, {"positions": 0, "memory": 4}])
def test_following_gives_the_scores_of_replaying(given, ahead):
    log = random_log(events=120)
    log = EventLog(log.src, log.dst, log.t)
    model = PINT(dim=4, neighbors=3, **given)
    with torch.no_grad():
        stream = Stream(model, log.schema, memory_block=11)
        expected = [stream.replay(events, [events.query])[0] for events in log.batches(16)]
        stream = Stream(model, log.schema, memory_block=11)
        stream.prefetch_in_thread = ahead == "in a thread"
        found = []
        for _, scores in stream.prefetch(log.batches(16), lambda events: [events.query]):
            for _ in range(2 * (ahead == "when asked to")):  # asked twice, it looks no further
                stream.prefetch_next()
            found.append(scores[0])
    torch.testing.assert_close(torch.cat(found), torch.cat(expected))


@pytest.mark.parametrize("ahead", AHEAD)
def test_following_can_be_left_early_and_reports_errors(ahead):
    log = EventLog([0, 1, 0, 2, 1, 0], [1, 2, 2, 1, 0, 2], [1, 2, 3, 4, 5, 6])
    model = PINT(dim=4, memory=3)
    stream, control = Stream(model, log.schema, memory_block=2), Stream(model, log.schema, memory_block=2)
    stream.prefetch_in_thread = ahead == "in a thread"
    for _ in stream.prefetch(log.batches(2), lambda events: [events.query]):
        if ahead == "when asked to":
            stream.prefetch_next()
        break
    assert stream.events == (2 if ahead == "in turn" else 4)
    control.observe(log[: stream.events])
    with torch.no_grad():
        torch.testing.assert_close(stream.score(query(0, 1, 9)), control.score(query(0, 1, 9)))
    unsorted = [log[2:4], log[0:2]]
    with pytest.raises(StaleQuery, match="already observed t=4"):
        list(Stream(model, log.schema).prefetch(unsorted, lambda events: [events.query]))


@pytest.mark.parametrize("given", [{}, {"memory": 4, "layers": 2, "neighbors": 3}, {"positions": 0}])
@pytest.mark.parametrize("candidates", [3, 40])
def test_ranking_equals_scoring_pair_by_pair(given, candidates):
    log = random_log(events=150)
    model = PINT(dim=6, **{"neighbors": 4} | given)
    make = lambda: Stream(model, log.schema, node_features=log.node_features, memory_block=9)  # noqa: E731
    rng = np.random.default_rng(0)
    one, two = make(), make()
    with torch.no_grad():
        for events in log.batches(30):
            wide = rng.integers(0, log.nodes + 2, (len(events), candidates))
            ranked = one.rank(events, events.query, wide)
            pairs = two.replay(events, [events.query.toward(wide[:, j]) for j in range(candidates)])
            torch.testing.assert_close(ranked, torch.stack(pairs, 1), rtol=1e-5, atol=1e-5)
    assert (one.clock, one.events) == (two.clock, two.events)
    with pytest.raises(BadInput, match="one row for each of the 2 queries"):
        one.rank(None, log.query[:2], np.zeros(3, int))


def test_what_a_fork_sees_at_the_clock_does_not_reach_the_block_of_the_original():
    rng = np.random.default_rng(0)
    log = EventLog(rng.integers(0, 30, 40), rng.integers(0, 30, 40), np.arange(40))
    simultaneous = EventLog([1, 5, 6, 20], [3, 11, 12, 21], [39] * 4)
    later = EventLog([1, 2], [3, 4], [39, 40])
    ask, found = Query(np.arange(30), np.arange(30)[::-1].copy(), np.full(30, 50)), []
    for forks in (False, True):
        stream = Stream(TGN(dim=8, memory=8, time_dim=8), log.schema, seed=1, memory_block=10)
        stream.observe(log)  # a block ends here, until something else of the same time arrives
        if forks:
            stream.fork().observe(simultaneous)
        stream.observe(later)
        found.append(stream.score(ask))
    assert torch.equal(*found)


@pytest.mark.parametrize("batch", [1, 7, 260])
def test_a_history_refreshed_by_block_sees_whole_blocks_only(batch):
    """As published code measures: contacts and pair histories of the block's start, times of the query."""
    log, size = random_log(3), 10
    model = PINT(dim=8, neighbors=4, positions=0, pair_history=True)
    stale = Stream(model, log.schema, node_features=log.node_features, memory_block=size, history_refresh="block")
    with torch.no_grad():
        found = torch.cat([stale.replay(part, [part.query])[0] for part in log.batches(batch)])
    fresh, seen = Stream(model, log.schema, node_features=log.node_features), 0
    for row, before in enumerate(np.searchsorted(log.t, log.t, "left").tolist()):
        whole = int(np.searchsorted(log.t, log.t[before - before % size], "left"))  # simultaneous events stay together
        fresh.observe(log[seen:whole])
        seen = max(seen, whole)
        with torch.no_grad():
            torch.testing.assert_close(fresh.score(log[row : row + 1].query)[0], found[row])


@pytest.mark.parametrize("batch", [7, 260])
@pytest.mark.parametrize(
    "how",
    [
        {"history_refresh": "block"},
        {"positions_refresh": "block"},
        {"history_refresh": "block", "positions_refresh": "block"},
        {"positions_backend": "sketch", "positions_width": 64},
        {"positions_backend": "sketch", "positions_width": 64, "positions_refresh": "block"},
    ],
    ids=lambda how: " ".join(map(str, how.values())),
)
@pytest.mark.parametrize("row", [145, 150], ids=["amid a block", "at its end"])
def test_blocks_and_estimated_positions_know_nothing_of_the_future(how, batch, row):
    """Scores up to T are the same, bit for bit, when everything at and after T is others: ends, features, and times
    two blocks later (before that, as many queries are computed together: a sum's last bit depends on it)."""
    log, size = random_log(3), 10
    first, stop = (int(np.searchsorted(log.t, log.t[row], side)) for side in ("left", "right"))
    rng, later = np.random.default_rng(1), len(log) - first
    src, dst, t, features = (np.array(column) for column in (log.src, log.dst, log.t, log.features))
    src[first:], dst[first:] = rng.permutation(src[first:]), rng.permutation(dst[first:])
    t[first + 2 * size :] = t[first + 2 * size] + np.arange(later - 2 * size)
    features[first:] = 100 * rng.normal(size=(later, features.shape[1]))
    other = EventLog(
        src, dst, t, features=features, op=log.op, node_features=log.node_features, ids=log.ids, schema=log.schema
    )
    model = PINT(dim=8, neighbors=4, positions=4, pair_history=True, memory=6)
    found = []
    for one in (log, other):
        stream = Stream(model, log.schema, node_features=log.node_features, memory_block=size, **how)
        asked = Query(*(np.r_[getattr(log, name)[:stop], getattr(one, name)[stop:]] for name in ("src", "dst", "t")))
        with torch.no_grad():
            parts = [
                stream.replay(part, [asked[part.first : part.first + len(part)]])[0] for part in one.batches(batch)
            ]
        found.append(torch.cat(parts))
    up_to_t, later = ([one[part] for one in found] for part in (slice(0, stop), slice(stop, None)))
    assert stop > first + 1, "several events at T"
    assert torch.equal(*up_to_t)
    assert not torch.equal(*later), "else nothing was scrambled"


def test_how_a_history_is_refreshed_is_kept_on_disk(tmp_path):
    log = random_log(3)
    stream = Stream(Honest(), log.schema, node_features=log.node_features, memory_block=7, history_refresh="block")
    stream.observe(log)
    stream.save(tmp_path / "stream")
    again = Stream.open(tmp_path / "stream", Honest)
    assert again.history.block == stream.fork().history.block == 7
    assert again.history.block_starts.tolist() == stream.history.block_starts.tolist()
    with pytest.raises(BadInput, match="history_refresh='hour'; it is 'event' or 'block'"):
        Stream(Honest(), log.schema, node_features=log.node_features, history_refresh="hour")


def test_ranking_while_a_batch_happens_is_scoring_while_it_happens():
    log = random_log(5)
    model = PINT(dim=8, neighbors=4, positions=2)
    stream = Stream(model, log.schema, node_features=log.node_features)
    stream.observe(log[:100])
    batch, other = log[100:200], stream.fork()
    candidates = np.tile(np.arange(14), (len(batch), 1))
    pairs = batch.query[np.repeat(np.arange(len(batch)), 14)].toward(candidates.ravel())
    with torch.no_grad():
        ranked, scored = stream.rank(batch, batch.query, candidates), other.replay(batch, [pairs])[0]
        torch.testing.assert_close(ranked, scored.view(candidates.shape), rtol=1e-5, atol=1e-5)
        assert stream.events == other.events == 200
        later = Query(np.arange(14), np.arange(14)[::-1].copy(), np.full(14, log.t[199] + 3))
        assert stream.score(later).tolist() == other.score(later).tolist()


def test_a_block_that_ended_at_the_clock_goes_on_after_saving(tmp_path):
    """The fourth event ends a block of four, until another of the same time arrives: also when saved in between."""
    rng = np.random.default_rng(2)
    log = EventLog(rng.integers(0, 5, 9), rng.integers(0, 5, 9), np.array([1, 2, 3, 4, 4, 5, 6, 7, 8]))
    stream = Stream(TGN(dim=8, memory=6), log.schema, memory_block=4)
    stream.observe(log[:4])
    stream.save(tmp_path / "stream")
    again = Stream.open(tmp_path / "stream")
    later = Query(np.arange(5), np.arange(5)[::-1].copy(), np.full(5, 9))
    with torch.no_grad():
        for one in (stream, again):
            one.observe(log[4:])
        assert again.score(later).tolist() == stream.score(later).tolist()


@pytest.mark.parametrize("pieces", [1, 7, 59, 60, 61])
def test_a_log_is_observed_alike_in_pieces_of_any_size(pieces, monkeypatch):
    log = random_log(3, 60)
    whole, parts = (Stream(PINT(dim=8, positions=3), log.schema, node_features=log.node_features) for _ in range(2))
    whole.observe(log)
    monkeypatch.setattr(core, "OBSERVED_AT_ONCE", pieces)
    parts.observe(log)
    asked = Query(np.arange(3), np.arange(3, 6), np.full(3, log.t[-1] + 1))
    assert torch.equal(whole.score(asked), parts.score(asked))
    assert (whole.clock, whole.events) == (parts.clock, parts.events)


@pytest.mark.parametrize("least", [59, 60, 61])
@pytest.mark.parametrize("memory", [0, 6])
def test_a_log_is_observed_alike_by_one_thread_and_by_two(least, memory, monkeypatch):
    log, model = random_log(3, 60), PINT(dim=8, positions=3, memory=memory)
    one, two = (Stream(model, log.schema, node_features=log.node_features) for _ in range(2))
    one.prefetch_in_thread = False
    monkeypatch.setattr(core, "WORTH_A_THREAD", least)
    threads: list[str] = []
    append = RelativePositions.append

    def noted(self, *events, **more):
        threads.append(threading.current_thread().name)
        return append(self, *events, **more)

    monkeypatch.setattr(RelativePositions, "append", noted)
    two.observe(log)
    assert [name.startswith("pintgn-positions") for name in threads] == [least <= len(log)]
    one.observe(log)
    asked = Query(np.arange(3), np.arange(3, 6), np.full(3, log.t[-1] + 1))
    with torch.no_grad():
        assert torch.equal(one.score(asked), two.score(asked))
    assert (one.clock, one.events) == (two.clock, two.events)


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_known_history_answers_as_a_stream_of_its_own(data):
    """A stream over the index of one that has gone further scores like one that observed the beginning alone."""
    log = random_log(data.draw(st.integers(0, 50)), 80)
    starts = log.group_starts
    begin = int(starts[data.draw(st.integers(0, len(starts) - 1))])
    further = Stream(PINT(dim=8, positions=3), log.schema, node_features=log.node_features)
    further.observe(log)
    model = Heuristic()
    alone, shared = (Stream(model, log.schema, node_features=log.node_features) for _ in range(2))
    alone.observe(log[:begin])
    shared = shared.fork(history=KnownHistory(further.history, log[:begin]))
    for batch in log[begin:].batches(data.draw(st.integers(1, 9))):
        asked = [batch.query, batch.query.toward(batch.dst[::-1])]
        for one, two in zip(alone.replay(batch, asked), shared.replay(batch, asked), strict=True):
            assert torch.equal(one, two)
    assert (alone.clock, alone.events) == (shared.clock, shared.events)
    with pytest.raises(BadInput, match="events, of which"):
        shared.observe(
            Events(*(np.array([x]) for x in (0, 1, log.t[-1] + 1)), np.zeros((1, log.schema.width), np.float32))
        )


@pytest.mark.parametrize("width", [1, 64, 128])
def test_a_stream_keeps_how_wide_its_estimated_positions_are(width, tmp_path):
    log = random_log(3)
    options = {"positions_backend": "sketch", "positions_width": width, "node_features": log.node_features}
    stream = Stream(PINT(dim=8, neighbors=4), log.schema, **options)
    stream.observe(log[: len(log) // 2])
    stream.save(tmp_path / "stream")
    opened = Stream.open(tmp_path / "stream")
    assert (stream.positions_width, opened.positions_width) == (width, width)
    for one in (stream, opened):
        one.observe(log[len(log) // 2 :])
    assert stream.positions._store.rows.shape[2] == opened.positions._store.rows.shape[2] == width
    assert np.array_equal(stream.positions._store.rows, opened.positions._store.rows)
