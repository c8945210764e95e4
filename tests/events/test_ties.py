"""Keys that decide among simultaneous events: a function of what an event is, not of where it stands."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
import torch

import pintgn
from pintgn import PINT, EventLog, Query, Stream, read_events
from pintgn.events.ids import IdMap
from pintgn.events.ties import id_marks
from pintgn.live.nodes import Names

MASK = 2**64 - 1
FNV = 0x100000001B3


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def key(src: int, dst: int, t: float, features=()) -> int:
    """The key of an event between nodes that are called by their numbers, in Python's own whole numbers."""
    found = mix(struct.unpack("<Q", struct.pack("<d", t))[0])
    for node in (src, dst):
        found = mix((found * FNV + mix(node)) & MASK)
    for feature in features:
        found = (found ^ struct.unpack("<I", struct.pack("<f", feature))[0]) * FNV & MASK
    return mix(found)


def test_a_key_is_what_its_definition_says():
    features = np.array([[1.5, -2.0], [0.25, 3.0], [7.0, 8.0]], np.float32)
    log = EventLog([0, 3, 3], [1, 2, 2], [5, 5, 5], features=features)
    assert log.ties.tolist() == [key(0, 1, 5.0, (1.5, -2.0)), key(3, 2, 5.0, (0.25, 3.0)), key(3, 2, 5.0, (7.0, 8.0))]


def test_only_events_that_may_have_company_have_a_key():
    log = EventLog([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 2, 3, 4])
    assert (log.ties != 0).tolist() == [True, True, True, False, True]  # the first and last may go on elsewhere
    assert len(EventLog([], [], np.zeros(0, np.int64)).ties) == 0


def test_whole_and_decimal_times_and_both_zeros_have_one_key():
    whole, decimal = EventLog([0, 0], [1, 2], [0, 0]), EventLog([0, 0], [1, 2], [0.0, -0.0])
    assert whole.ties.tolist() == decimal.ties.tolist()


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.uint64(), pa.large_string()])
def test_marks_follow_the_id_and_not_the_number(kind):
    ids = pa.array([7, 0, 123_456_789_012]).cast(kind)
    marks = id_marks(ids)
    assert len(set(marks.tolist())) == 3
    assert id_marks(ids.take(pa.array([2, 0, 1]))).tolist() == marks[[2, 0, 1]].tolist()
    assert id_marks(ids[1:]).tolist() == marks[1:].tolist()


def test_a_plain_number_is_called_by_itself():
    assert len(IdMap(size=5).marks) == 0
    assert id_marks(pa.array([0, 1, 9])).tolist() == [mix(0), mix(1), mix(9)]
    plain, named = EventLog([0, 0], [1, 2], [5, 5]), EventLog([0, 0], [1, 2], [5, 5], ids=IdMap(pa.array([0, 1, 2])))
    assert plain.ties.tolist() == named.ties.tolist()


def test_the_two_sides_of_one_id_are_told_apart():
    one, other = id_marks(pa.array(["a", "a"]), np.array([0, 1], np.int8))
    assert one != other


def test_a_running_system_knows_the_same_marks():
    for side in (None, np.array([0, 0, 1], np.int8)):
        ids = IdMap(pa.array(["ann", "bob", "cay"]), side)
        names = Names(ids)
        assert names.marks.tolist() == ids.marks.tolist()
        names.add("dan", 1)
        assert names.marks[:3].tolist() == ids.marks.tolist()
        assert names.marks[3] == id_marks(pa.array(["dan"]), None if side is None else np.ones(1, np.int8))[0]


def mails(seed=0, times=6):
    """One sender, many recipients, few times: far more contacts at once than a model looks at."""
    rng = np.random.default_rng(seed)
    src = rng.choice(["ann", "bob"], 200)
    return {
        "src": src.tolist(),
        "dst": [f"person {k}" for k in rng.integers(0, 60, 200)],
        "t": np.sort(rng.integers(0, times, 200)).tolist(),
        "size": rng.integers(0, 3, 200).astype(float).tolist(),
    }


def taken(columns, order):
    return {name: [column[row] for row in order] for name, column in columns.items()}


def scores(log: EventLog, batch: int, asked) -> list[float]:
    """Of pairs of ids, after all has happened."""
    stream = Stream(PINT(dim=8, neighbors=3, layers=2), log.schema, seed=3)
    for part in log.batches(batch):
        stream.observe(part)
    ends = (log.ids.encode([pair[side] for pair in asked]) for side in (0, 1))
    with torch.no_grad():
        return stream.score(Query(*ends, np.full(len(asked), 9))).tolist()


def test_the_order_of_rows_in_the_file_changes_no_score():
    columns = mails()
    log = read_events(columns, features=["size"])
    asked = [("ann", "person 7"), ("bob", "person 9"), ("person 3", "person 5")]
    expected = scores(log, 1_000, asked)
    numbers = set()
    for seed in range(4):
        order = np.lexsort((np.random.default_rng(seed).random(200), columns["t"]))
        other = read_events(taken(columns, order), features=["size"])
        numbers.add(other.node("person 7"))
        for batch in (1, 7, 1_000):
            assert np.allclose(scores(other, batch, asked), expected, atol=1e-6)
    assert len(numbers) > 1  # nodes are numbered otherwise, and still the same ones are chosen


def test_the_order_of_arrival_changes_no_score(tmp_path):
    columns = mails(times=40)
    head, tail = ({name: column[rows] for name, column in columns.items()} for rows in (slice(150), slice(150, 200)))
    pintgn.fit(PINT(dim=8, neighbors=3), read_events(head, features=["size"]), folder=tmp_path / "run", epochs=1)
    late = [(f"new {k}", "ann", 50, {"size": 1.0}) for k in range(9)]  # all new, all at once
    sizes = [{"size": size} for size in tail["size"]]
    more = [*zip(tail["src"], tail["dst"], tail["t"], sizes, strict=True), *late]
    answers = []
    for seed in range(3):
        live = pintgn.open(tmp_path / "run")
        order = np.lexsort((np.random.default_rng(seed).random(len(more)), [event[2] for event in more]))
        for begin in range(0, len(more), 4):
            live.observe([more[row] for row in order[begin : begin + 4]])
        answers.append([live.score("ann", "new 4")["new 4"], live.score("ann", "bob")["bob"]])
    assert np.allclose(answers, answers[0], atol=1e-6)
