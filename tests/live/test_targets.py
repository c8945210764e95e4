"""Targets that arrive by themselves: part of the past from their own time on, and the same state however they came."""

from __future__ import annotations

import numpy as np
import pytest

import pintgn
from pintgn import read_events
from pintgn.errors import BadInput
from pintgn.ingest.codec import TARGET
from pintgn.ingest.late_targets import TargetBatch
from pintgn.learn import fit as fitting
from pintgn.live.snapshot import Snapshot, restore
from tests.learn.test_tasks import FEATURES, FRAUD, TIP, asked, events, payments

TRAINED = 300
DELAY = 60


def head() -> pintgn.EventLog:
    found = events()
    some = {name: column[:TRAINED] for name, column in found.items()}
    return read_events(some, features=FEATURES, label="tip")


@pytest.fixture(scope="module", params=["fraud", "tip"])
def run(request):
    return fitting.fit(asked(**(FRAUD if request.param == "fraud" else TIP), known_after=DELAY), head())


def event(columns, k, target, known=True):
    features = {name: columns[name][k] for name in [*FEATURES, *(["tip"] if target == "tip" else [])]}
    if not known:
        features.pop(target)
    return int(columns["src"][k]), int(columns["dst"][k]), int(columns["t"][k]), features


def label(columns, k, target):
    return int(columns["src"][k]), int(columns["dst"][k]), int(columns["t"][k]), columns[target][k]


def answers(live, at=None):
    given = {name: {"amount": 30.0, "channel": "web"}[name] for name in live.run.settings.task.given}
    src, dst = [0, 1, 2, 3, 4], [12, 13, 14, 15, 18]
    found = live.ask(src, dst, [given] * 5, at)
    return np.array([column for column in found.values() if not isinstance(column, list)])


def delivered(run, upto=400, batch=1):
    """A state to which events came without targets, and each target when it had become known."""
    columns, target = events(), run.settings.task.predict
    live, waiting = pintgn.open(run), []
    for k in range(TRAINED, upto):
        now = int(columns["t"][k])
        while waiting and int(columns["t"][waiting[0]]) + DELAY < now:
            one = waiting.pop(0)
            assert live.observe_targets([label(columns, one, target)], int(columns["t"][one]) + DELAY) == 1
        live.observe([event(columns, k, target, known=False)])
        waiting.append(k)
    end = int(columns["t"][upto - 1])
    for one in waiting:
        live.observe_targets([label(columns, one, target)], int(columns["t"][one]) + DELAY)
    return live, end


def test_a_target_that_comes_by_itself_is_as_one_that_was_declared_late(run):
    columns, target = events(), run.settings.task.predict
    together = pintgn.open(run)
    together.observe([event(columns, k, target) for k in range(TRAINED, 400)])
    alone, end = delivered(run)
    assert alone.events == together.events == 400
    assert alone.total == 200
    for at in (end, end + 1, end + DELAY, end + DELAY + 1, end + 500):
        np.testing.assert_allclose(answers(alone, at), answers(together, at), rtol=0, atol=1e-6)
    assert not np.allclose(answers(alone, end + 1), answers(alone, end + 500))


def test_a_target_tells_nothing_until_its_time_has_passed(run):
    """Whatever it is: answers up to the time at which it becomes known are the same, bit for bit; later ones not."""
    columns, target = events(), run.settings.task.predict
    end = int(columns["t"][399])
    told = []
    for other in (False, True):
        live = pintgn.open(run)
        live.observe([event(columns, k, target, known=False) for k in range(TRAINED, 400)])
        before = answers(live, end + 20)
        value = [(not columns["fraud"][k]) if target == "fraud" else 1000.0 for k in range(380, 400)]
        some = [
            (*label(columns, k, target)[:3], value[k - 380]) if other else label(columns, k, target)
            for k in range(380, 400)
        ]
        assert live.observe_targets(some, end + 20) == 20
        assert (answers(live, end + 20) == before).all()
        told.append((before, answers(live, end + 21)))
    assert (told[0][0] == told[1][0]).all()
    assert not np.allclose(told[0][1], told[1][1])
    assert not np.allclose(told[0][0], told[0][1])


def test_a_target_never_becomes_known_before_it_arrived(run):
    columns, target = events(), run.settings.task.predict
    end = int(columns["t"][399])
    live = pintgn.open(run)
    live.observe([event(columns, k, target, known=False) for k in range(TRAINED, 400)])
    before = answers(live, end)
    live.observe_targets([label(columns, k, target) for k in range(350, 360)], int(columns["t"][360]))
    assert (answers(live, end) == before).all()
    late = live.stream.history.late
    assert (late.known[350:360] == end).all()


def test_a_snapshot_holds_targets_and_goes_on(run, tmp_path):
    live, end = delivered(run, 350)
    (tmp_path / "state").mkdir()
    Snapshot.of(live).write(tmp_path / "state")
    again = restore(run, tmp_path / "state")
    assert (again.events, again.total, again.targets) == (live.events, live.total, live.targets)
    assert (answers(again, end + 500) == answers(live, end + 500)).all()
    columns, target = events(), run.settings.task.predict
    for one in (live, again):
        one.observe([event(columns, 350, target, known=False)])
        assert one.observe_targets([label(columns, 350, target)]) == 1
    assert (answers(again) == answers(live)).all()


def test_rows_of_a_store_give_the_same_state(run):
    """Targets as rows, read back, in other batches."""
    columns, target = events(), run.settings.task.predict
    live, again = pintgn.open(run), pintgn.open(run)
    for one in (live, again):
        one.observe([event(columns, k, target, known=False) for k in range(TRAINED, 400)])
    some = [label(columns, k, target) for k in range(310, 340)]
    live.observe_targets(some)
    from pintgn.live.arriving_targets import read_targets

    rows = read_targets(again, some).as_events(again.clock)
    assert (rows.op == TARGET).all()
    back = TargetBatch.of_events(rows)
    assert (back.values == read_targets(again, some).values).all()
    again.observe_batch(rows[:7])
    again.observe_batch(rows[7:])
    assert (answers(again) == answers(live)).all()


def test_what_is_known_already_is_left_out_and_what_cannot_be_is_refused(run):
    columns, target = events(), run.settings.task.predict
    live = pintgn.open(run)
    live.observe([event(columns, k, target, known=k % 2 == 0) for k in range(TRAINED, 320)])
    assert live.observe_targets([label(columns, 301, target)]) == 1
    assert live.observe_targets([label(columns, 301, target), label(columns, 303, target)]) == 1
    other = (not columns["fraud"][301]) if target == "fraud" else 99.0
    after = answers(live)
    for wrong, words in [
        ((*label(columns, 301, target)[:3], other), "another target already"),
        (
            (*label(columns, 302, target)[:3], (not columns["fraud"][302]) if target == "fraud" else 99.0),
            "another target",
        ),
        ((0, 12, 1, columns[target][301]), "was not observed"),
        ((999, 12, int(columns["t"][301]), columns[target][301]), "was not observed"),
        ((*label(columns, 305, target)[:3], "much"), "fraud='much'" if target == "fraud" else "tip"),
        ((*label(columns, 305, target)[:3], None), "has no value"),
        (label(columns, 305, target)[:3], "\\(src, dst, t, value\\)"),
    ]:
        with pytest.raises(BadInput, match=words):
            live.observe_targets([label(columns, 307, target), wrong])
    assert (answers(live) == after).all(), "a refused batch changes nothing"
    assert live.observe_targets([label(columns, 307, target)]) == 1


def test_runs_about_links_and_times_wait_for_no_target():
    for task in ({}, {"predict": "return", "within": 50}):
        live = pintgn.open(fitting.fit(asked(**task), payments()))
        with pytest.raises(BadInput, match="no target to wait for"):
            live.observe_targets([(0, 12, 5, True)])
