"""Intake: what clients may send, and the one clear line they get when it is something else."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pintgn import read_events
from pintgn.errors import BadInput
from pintgn.ingest.codec import Codec, EventBatch
from pintgn.learn.run import Run
from pintgn.live.live import Live
from pintgn.serve.requests import Requests
from tests.serve.helpers import TRAINED, assert_same_state, happened, trained


@pytest.fixture(scope="module")
def plain(run_folder):
    return Requests(Codec.of(Run.open(run_folder).log))


@pytest.fixture(scope="module")
def rich(rich_folder):
    return Requests(Codec.of(Run.open(rich_folder).log))


def body(value) -> bytes:
    return json.dumps(value).encode()


EVENT = {"src": "ann", "dst": "bob", "t": 2_000}
CARD = EVENT | {"features": {"amount": 3.5, "kind": "card"}}


@pytest.mark.parametrize(
    "given", [EVENT, [EVENT], {"events": [EVENT]}, {"columns": {"src": ["ann"], "dst": ["bob"], "t": [2_000]}}]
)
def test_one_event_can_be_said_in_many_ways(plain, given):
    found = plain.events(body(given))
    assert (found.src, found.dst, found.t.tolist(), found.features, found.keys) == (
        ["ann"],
        ["bob"],
        [2_000],
        None,
        None,
    )


def test_columns_rows_and_lists_mean_the_same(rich):
    events = [CARD | {"t": 2_000 + k, "features": {"amount": k / 3, "kind": "wire"}} for k in range(5)]
    by_name = rich.events(body({"events": events}))
    by_place = rich.events(body({"events": [e | {"features": list(e["features"].values())} for e in events]}))
    columns = {name: [e[name] for e in events] for name in ("src", "dst", "t")}
    features = {name: [e["features"][name] for e in events] for name in ("amount", "kind")}
    wide = rich.events(body({"columns": columns | {"features": features}}))
    for other in (by_place, wide):
        assert (other.src, other.dst, other.t.tolist()) == (by_name.src, by_name.dst, by_name.t.tolist())
        assert np.array_equal(other.features, by_name.features)


def test_features_are_encoded_as_the_log_was(rich):
    log = read_events({"src": ["a"], "dst": ["b"], "t": [1], "amount": [3.5], "kind": ["card"]},
                      features=["amount", "kind"], like=empty_log(rich))  # fmt: skip
    assert np.array_equal(rich.events(body(CARD)).features, log.marked_features)


def empty_log(rich):
    from pintgn import EventLog

    none = np.zeros(0, np.int64)
    return EventLog(none, none, none, features=np.zeros((0, rich.codec.schema.feature_width)), schema=rich.codec.schema,
                    ids=read_events({"src": ["x"], "dst": ["y"], "t": [0]}).ids)  # fmt: skip


def test_a_category_never_seen_counts_as_none(rich):
    strange = rich.events(body(CARD | {"features": {"amount": 1, "kind": "barter"}}))
    assert strange.features[0, 1:].tolist() == [0] * (rich.codec.schema.feature_width - 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "event 0: expected 'object', got 'array'"),
        (b"1" * 10_000, "out of range"),
        (b'{"src": "a", "dst": "b", "t": NaN}', "no JSON"),
        (b'{"src": "a", "dst": "b", "t": -Infinity}', "no JSON"),
        (b"3", "the body: expected"),
        (b"[3]", "event 0: expected 'object', got 'int'"),
        (b"[]", "no events"),
        ({"events": {}}, "events: expected 'array"),
        ({"events": [], "more": 1}, 'field "more"'),
        ({"event": [EVENT]}, "Did you mean"),
        ({"columns": []}, "columns: expected 'object"),
        ({"columns": {"src": ["a"], "dst": ["b"]}}, "has no t"),
        ({"columns": {"src": None, "dst": ["b"], "t": [1]}}, "src: expected 'array'"),
        ({"columns": {"src": ["a"], "dst": ["b"], "t": [1, 2]}}, "2 values"),
        ({"columns": {"src": "a", "dst": "b", "t": 1}}, "src: expected 'array', got 'str'"),
        ({"events": [EVENT, {"src": "a", "dst": "b"}]}, "event 1 has no t"),
        ({"events": [EVENT, {"dst": "b", "t": 1}]}, "has no src"),
        (EVENT | {"scr": "x"}, "Did you mean 'src'"),
        (EVENT | {"src": 5}, "ids here are text"),
        (EVENT | {"src": True}, "ids here are text"),
        (EVENT | {"dst": ["b"]}, "ids here are text"),
        (EVENT | {"src": ""}, "1 to 1,000 characters"),
        (EVENT | {"src": "x" * 1_001}, "1 to 1,000 characters"),
        (b'{"src": "\\ud800", "dst": "b", "t": 2000}', "no JSON: JSON is malformed"),
        (EVENT | {"t": "soon"}, "numbers"),
        (EVENT | {"t": 1.5}, "whole numbers"),
        (EVENT | {"t": True}, "t: expected .* got 'bool'"),
        (EVENT | {"t": 10**30}, r"within ±"),
        (EVENT | {"t": 1e300}, r"within ±"),
        ([EVENT, EVENT | {"t": 1_999}], "event 1 is at 1999, earlier than event 0"),
        (EVENT | {"key": ""}, "a key is a text"),
        (EVENT | {"key": 7}, "a key is a text"),
        (EVENT | {"key": "k" * 201}, "a key is a text"),
        (EVENT | {"op": "delete"}, "additions only"),
        (EVENT | {"op": ["add"]}, "op: expected .* got 'array'"),
        (EVENT | {"features": {"amount": 1}}, "trained without any"),
        (EVENT | {"features": 3}, "features: expected .* got 'int'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(plain, given, said):
    with pytest.raises(BadInput, match=said) as error:
        plain.events(given if isinstance(given, bytes) else body(given))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (None, "has no features"),
        ({"amount": 1}, "no feature 'kind'"),
        ({"amount": 1, "kind": "card", "x": 2}, "'x' is|unknown"),
        ({"amout": 1, "kind": "card"}, "Did you mean 'amount'"),
        ({"amount": "1", "kind": "card"}, "finite number"),
        ({"amount": True, "kind": "card"}, "finite number"),
        ({"amount": 1e39, "kind": "card"}, "single precision"),
        ({"amount": 10**400, "kind": "card"}, "single precision"),
        ({"amount": 1, "kind": ["card"]}, "event 1: expected .* got 'array'"),
        ({"amount": 1, "kind": None}, "a category"),
        ([1], "2 are expected"),
        ([1, "card", 3], "2 are expected"),
        (["card", 1], "finite number"),
    ],
)
def test_wrong_features_are_named(rich, features, said):
    with pytest.raises(BadInput, match=said):
        rich.events(body([CARD, EVENT | {"features": features}]))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([2_000, "ann"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
odd_events = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("src", "dst", "t", "features", "op", "key", "x"), values)
)
bodies = st.one_of(
    st.binary(max_size=40),
    values.map(lambda v: json.dumps(v).encode()),
    odd_events.map(lambda v: json.dumps(v).encode()),
    st.lists(odd_events | st.just(EVENT), max_size=3).map(lambda v: json.dumps({"events": v}).encode()),
    odd_events.map(lambda v: json.dumps({"columns": v}).encode()),
)


@settings(max_examples=150)
@given(bodies)
def test_nothing_that_a_client_sends_is_more_than_refused(plain, rich, given):
    for requests in (plain, rich):
        try:
            found = requests.events(given)
        except BadInput:
            continue
        assert isinstance(found, EventBatch)
        assert len(found) == len(found.src) == len(found.dst) > 0


def test_deletions_are_marked_and_removals_are_refused(tmp_path):
    columns = happened(500, seed=5, features=True, op=True)
    folder = trained(tmp_path / "run", columns)
    one, other = Live(Run.open(folder)), Live(Run.open(folder))
    from tests.serve.helpers import as_batch

    for begin in range(TRAINED, 500, 50):
        one.observe_batch(as_batch(one, columns, begin, begin + 50))
    other.observe_batch(as_batch(other, columns, TRAINED, 500))
    assert_same_state(one, other)
    live = Live(Run.open(folder))
    rows = {name: column[TRAINED:] for name, column in columns.items()}
    live.observe(pa.table(rows))  # the way of a file, for comparison
    assert np.array_equal(one.stream.history.event_table[:500], live.stream.history.event_table[:500])
    with pytest.raises(BadInput, match="deletion for each of its edges"):
        Requests(one.codec).events(body(EVENT | {"op": "remove"}))
    with pytest.raises(BadInput, match="Did you mean 'delete'"):
        Requests(one.codec).events(body(EVENT | {"op": "delet"}))


def test_whole_numbers_as_ids_and_dates_as_times(tmp_path):
    import datetime

    when = [datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=k) for k in range(TRAINED + 10)]
    columns = happened(TRAINED + 10)
    numbers = {name: [int(id.split()[1]) for id in columns[name]] for name in ("src", "dst")}
    folder = trained(tmp_path / "run", numbers | {"t": when})
    requests = Requests(Codec.of(Run.open(folder).log))
    found = requests.events(body({"src": 1, "dst": 2, "t": "2024-02-01T12:00"}))
    assert requests.codec.schema.time.show(found.t[0]).startswith("2024-02-01 12:00:00")
    for wrong, said in (({"src": "1"}, "whole numbers"), ({"src": 2**63}, "between"), ({"t": "later"}, "date")):
        with pytest.raises(BadInput, match=said):
            requests.events(body({"src": 1, "dst": 2, "t": "2024-02-01"} | wrong))
