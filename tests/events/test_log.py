from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pintgn.errors import BadInput, EventOrderError, UnknownName
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import ADD, DELETE, NODE, Schema, TimeUnit


def small(**more):
    return EventLog([0, 1, 0, 2], [1, 2, 2, 2], [1, 1, 2, 5], **more)


def test_a_log_is_closed():
    log = small(features=np.ones((4, 2)))
    for column in (log.src, log.t, log.features, log[1:3].dst):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7


def test_building_a_log_does_not_freeze_the_callers_arrays():
    t = np.array([1, 2])
    EventLog(np.array([0, 1]), np.array([1, 0]), t)
    t[0] = 0


def test_times_keep_every_digit():
    wide = 2**53 + 1
    assert EventLog([0], [1], [wide]).t[0] == wide
    assert EventLog([0], [1], [0.1 + 0.2]).t[0] == 0.1 + 0.2


@pytest.mark.parametrize(
    ("t", "message"),
    [
        (np.array([1, 2, 3, 4], np.float32), "merges distinct times"),
        (np.array([1.0, np.nan, 3, 4]), "event 1 has t=nan"),
        (np.array([1.0, np.inf, 3, 4]), "event 1 has t=inf"),
        (np.array(["a", "b", "c", "d"]), "pass int64 or float64"),
        (np.zeros((2, 2)), "one time per event"),
    ],
)
def test_unusable_times_are_refused(t, message):
    with pytest.raises(BadInput, match=message):
        EventLog([0, 1, 0, 2], [1, 2, 2, 2], t)


def test_an_unsorted_log_names_the_row():
    with pytest.raises(EventOrderError, match=r"event 2 has t=3, earlier than event 1 \(t=4\)"):
        EventLog([0, 1, 2], [1, 2, 0], [1, 4, 3])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"features": np.ones((3, 1))}, "features has shape"),
        ({"features": [[1], [np.nan], [2], [3]]}, "features row 1, column 0 is nan"),
        ({"op": [1, 1, 5, 1]}, "event 2 has op=5"),
        ({"node_features": np.ones((2, 1))}, "2 rows of node features for 3 nodes"),
        ({"ids": IdMap(pa.array(["a", "b"]))}, "names node 2, but there are only 2 nodes"),
        ({"label": [1, 2]}, "label has shape"),
        ({"schema": Schema(node_updates=("u",))}, "node_updates have 0 columns, the schema says 1"),
    ],
)
def test_columns_that_do_not_fit_are_refused(more, message):
    with pytest.raises(BadInput, match=message):
        small(**more)


def test_negative_and_fractional_nodes_are_refused():
    with pytest.raises(BadInput, match="node numbers start at 0"):
        EventLog([0, -1], [1, 1], [1, 2])
    with pytest.raises(BadInput, match="not node numbers"):
        EventLog([0.5, 1.0], [1, 1], [1, 2])


def test_repr_reads_like_a_sentence():
    schema = Schema(time=TimeUnit("s"))
    log = EventLog([0, 1], [1, 2], [1609718400, 1640822400], schema=schema)
    assert repr(log) == "EventLog: 2 events, 3 nodes, 2021-01-04 to 2021-12-30"
    assert repr(small(features=np.ones((4, 1)))) == "EventLog: 4 events, 3 nodes, 1 to 5, 1 feature"
    assert repr(EventLog([], [], [])) == "EventLog: 0 events, 0 nodes"


def test_equality_needs_the_same_columns_ids_and_schema():
    assert small() == small()
    assert small() != EventLog([0, 1, 0, 2], [1, 2, 2, 2], [1, 1, 2, 6])
    assert small() != EventLog([0, 1, 0, 2], [1, 2, 2, 2], [1.0, 1.0, 2.0, 5.0])
    assert small() != small(ids=IdMap(pa.array(["a", "b", "c"])))
    assert small() != small(label=[0, 0, 0, 1])


def test_cuts_by_number_and_by_time():
    log = small(features=np.arange(8).reshape(4, 2), label=[0, 1, 2, 3])
    assert log[1:3].t.tolist() == [1, 2]
    assert log[1:3].label.tolist() == [1, 2]
    assert log[1:3].first == 1
    assert log[1:][1:].first == 2
    assert log.between(1, 5).t.tolist() == [1, 1, 2]
    assert log.between(t0=2).t.tolist() == [2, 5]
    assert np.shares_memory(log[1:3].features, log.features)
    assert len(log[3:1]) == 0
    assert log.where(log.src == 0).dst.tolist() == [1, 2]
    with pytest.raises(BadInput, match="plain slice"):
        log[::2]


def test_node_updates_travel_with_their_events():
    op = [ADD, NODE, DELETE, NODE]
    log = EventLog([0, 1, 0, 2], [1, 1, 1, 2], [1, 2, 3, 4], op=op, node_updates=[[1.5], [2.5]])
    assert log[2:].node_updates.tolist() == [[2.5]]
    assert log[:2].node_updates.tolist() == [[1.5]]
    assert log.where(np.array([True, False, True, True])).node_updates.tolist() == [[2.5]]


def test_marked_features_say_what_kind_of_event_it_is():
    log = EventLog(
        [0, 1, 0], [1, 1, 1], [1, 2, 3], op=[ADD, NODE, DELETE], features=[[7], [8], [9]], node_updates=[[0.5]]
    )
    # columns: the feature, deleted?, node event?, what the node event carries
    assert log.marked_features.tolist() == [[7, 0, 0, 0], [8, 0, 1, 0.5], [9, 1, 0, 0]]
    assert log.schema.width == 4
    assert small().marked_features is None


def test_the_time_scale_follows_the_unit_and_ignores_the_last_events():
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 9, (2, 100))
    t = np.sort(rng.integers(0, 1000, 100))
    scale = EventLog(src, dst, t).schema.time_scale
    assert np.isclose(EventLog(src, dst, t * 1000).schema.time_scale, 1000 * scale)
    late = t.copy()
    late[70:] += 10**6
    assert EventLog(src, dst, late).schema.time_scale == scale
    assert EventLog(src, dst, t)[50:].schema.time_scale == scale


def test_batches_cover_the_log_in_order():
    log = small()
    assert [len(b) for b in log.batches(3)] == [3, 1]
    assert [b.first for b in log.batches(3)] == [0, 3]
    with pytest.raises(BadInput):
        next(log.batches(0))


def test_users_see_their_own_ids():
    log = small(ids=IdMap(pa.array(["ann", "bob", "cay"])))
    assert log.node("bob") == 1
    assert log.id(2) == "cay"
    with pytest.raises(UnknownName, match=r"node 'bobb' is not in this log\. Did you mean 'bob'"):
        log.node("bobb")
    with pytest.raises(BadInput, match="ids of this log are string"):
        log.node(3)
    with pytest.raises(BadInput, match="no node number 3"):
        log.id(3)


def test_two_name_spaces_keep_equal_ids_apart():
    ids = IdMap(pa.array([7, 7, 8]), side=np.array([0, 1, 1]))
    log = EventLog([0, 0], [1, 2], [1, 2], ids=ids)
    assert (log.node(7, "src"), log.node(7, "dst")) == (0, 1)
    with pytest.raises(UnknownName, match="node 8 is not"):
        log.node(8, "src")
    with pytest.raises(BadInput, match="two name spaces"):
        log.node(7)


def test_unknown_ids_can_be_marked():
    assert IdMap(size=3).encode([2, 5], missing="mark").tolist() == [2, -1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 40), st.integers(0, 40))
def test_cutting_twice_is_cutting_once(times, a, b):
    log = EventLog(np.arange(len(times)), np.zeros(len(times), int), sorted(times))
    assert log[a:][b:] == log[a + b :]
    assert log[a:][b:].first == min(a + b, len(log)) or not len(log[a:][b:])
