"""Targets that come late count in live quality: what was said just before an event is judged once they are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pintgn.learn import fit as fitting
from pintgn.live import pending
from pintgn.live.live import Live
from pintgn.live.snapshot import Snapshot, restore
from tests.learn.test_tasks import FRAUD, TIP, asked
from tests.live.test_targets import DELAY, TRAINED, event, events, head, label

EVERY, END, FIRST = 2, 399, 340


@pytest.fixture(scope="module", params=["fraud", "tip"])
def run(request):
    return fitting.fit(asked(**(FRAUD if request.param == "fraud" else TIP)), head())


@pytest.fixture(scope="module")
def delayed():
    return fitting.fit(asked(**FRAUD, known_after=DELAY), head())


def opened(run, every=EVERY) -> Live:
    return Live(run, run.deployed.stream.fork(), evaluate_every=every)


def same(k, value):
    return value


def steps(columns):
    """Events one after the other, each followed by the targets that have become known: (event, targets, when)."""
    late = []
    for k in range(TRAINED, END):
        now = int(columns["t"][k])
        due = [one for one in late if int(columns["t"][one]) + DELAY < now]
        late = [one for one in late if one not in due]
        yield k, due, now
        late.append(k)


def happened(live, columns, target, batch=1, scramble=same):
    """Events without targets, in batches where nothing comes between them, and targets as they become known."""
    held = []
    for k, due, _ in steps(columns):
        if held and (due or len(held) >= batch):
            live.observe([event(columns, one, target, known=False) for one in held])
            held = []
        if due:
            told = [(*label(columns, one, target)[:3], scramble(one, columns[target][one])) for one in due]
            assert live.observe_targets(told) == len(due)
        held.append(k)
    live.observe([event(columns, one, target, known=False) for one in held])
    return live


def alike(one: Live, other: Live) -> bool:
    """Whether two states have judged the same in the same order, and wait for the same: to the last bit but for
    answers, which are rounded by the size of the batch that they are computed in."""
    mine, theirs = one.prequential.facts(), other.prequential.facts()
    rows = [np.array(facts.pop("waiting"), float) for facts in (mine, theirs)]
    said = [np.array(facts.pop("answers")) for facts in (mine, theirs)]
    seen = [[t for t, _ in facts.pop("history")] for facts in (mine, theirs)]
    same = mine == theirs and seen[0] == seen[1] and said[0].shape == said[1].shape and rows[0].shape == rows[1].shape
    if not same or not np.allclose(*said, atol=1e-4):
        return False
    exact = np.array_equal(rows[0][:, :7], rows[1][:, :7], equal_nan=True) if len(rows[0]) else True
    return exact and np.allclose(*(some[:, 7:] for some in rows), atol=1e-4) if len(rows[0]) else exact


def state(live: Live) -> str:
    return json.dumps(live.prequential.facts())


@pytest.mark.parametrize("batch", [7, 1000])
def test_late_targets_count_whatever_the_batches(run, batch):
    columns, target = events(), run.settings.task.predict
    one, other = (happened(opened(run), columns, target, size) for size in (1, batch))
    assert alike(one, other)
    status = one.prequential.status()
    assert status["scored"] > 5
    assert status["waiting"] > 5
    assert status["rolling"] is not None
    assert len(one.prequential.rows) == status["scored"]


def test_what_is_judged_was_said_just_before_the_event(run):
    """Each answer is that of a state that has seen nothing from the event's time on, and no target that came later."""
    columns, target = events(), run.settings.task.predict
    live, clean = opened(run), opened(run)
    given = list(run.settings.task.given)
    said = {}
    for k, due, now in steps(columns):
        if due:
            for one in (live, clean):
                one.observe_targets([label(columns, k, target) for k in due])
        src, dst, t, features = event(columns, k, target, known=False)
        before = clean.ask([src], [dst], [{name: features[name] for name in given}], now)
        said[src, dst, t] = [np.asarray(column)[0] for column in before.values() if not isinstance(column, list)]
        live.observe([(src, dst, t, features)])
        clean.observe([(src, dst, t, features)])
    kept = {(e.src, e.dst, e.t): one for e, one in live.prequential.pending.kept.items()}
    assert len(kept) > 5
    for (src, dst, t), one in kept.items():
        shown = live.task.shown(np.array([one.answer]))
        found = [np.asarray(column)[0] for column in shown.values() if not isinstance(column, list)]
        assert found == pytest.approx(said[live.names.ids[src], live.names.ids[dst], t], abs=1e-5)


def test_scrambled_targets_change_no_answer_that_was_given_before(run):
    columns, target = events(), run.settings.task.predict

    def other(k, value):
        return value if k < FIRST else (not value) if target == "fraud" else value + 50

    plain, scrambled = (happened(opened(run, 1), columns, target, scramble=how) for how in (same, other))
    told = int(columns["t"][FIRST]) + DELAY
    before = sum(int(columns["t"][k]) <= told for k in range(TRAINED, END))  # when the first scrambled one is known
    said = [
        [*(row[:-1] for row in one.prequential.rows), *(kept.answer for kept in one.prequential.pending.kept.values())]
        for one in (plain, scrambled)
    ]
    assert FIRST - TRAINED < before < len(said[0]) == END - TRAINED
    assert said[0][:before] == said[1][:before]
    assert said[0] != said[1]
    truth = [one.prequential.held()[:, -1].tolist() for one in (plain, scrambled)]
    assert truth[0][: FIRST - TRAINED] == truth[1][: FIRST - TRAINED]
    assert len(truth[0]) > FIRST - TRAINED
    assert truth[0] != truth[1]


def test_targets_that_come_with_their_event_but_later_wait_for_their_time(delayed):
    """Declared late or told by themselves: the same answers are judged, by the same truth."""
    columns = events()
    together, alone = opened(delayed, 1), opened(delayed, 1)
    for batch in np.array_split(np.arange(TRAINED, END), 9):
        together.observe([event(columns, k, "fraud") for k in batch])
        at = together.clock
        assert all(kept.known > at for kept in together.prequential.pending.kept.values())
    one = opened(delayed, 1)
    one.observe([event(columns, k, "fraud") for k in range(TRAINED, END)])
    assert alike(one, together)
    for k, due, _ in steps(columns):
        for other in due:
            alone.observe_targets([label(columns, other, "fraud")], int(columns["t"][other]) + DELAY)
        alone.observe([event(columns, k, "fraud", known=False)])
    told, late = (found.prequential for found in (one, alone))
    few = late.scored
    assert 10 < few <= told.scored  # what becomes known at the newest event's own time is judged, and was not told yet
    assert told.held()[:few, -1].tolist() == late.held()[:, -1].tolist()
    assert np.allclose(told.held()[:few], late.held(), atol=1e-4)


def test_a_target_for_later_waits_until_then(run):
    columns, target = events(), run.settings.task.predict
    live = opened(run)
    live.observe([event(columns, k, target, known=False) for k in range(TRAINED, TRAINED + 30)])
    end = int(columns["t"][TRAINED + 29])
    many = live.observe_targets([label(columns, k, target) for k in range(TRAINED, TRAINED + 30)], end + 10)
    assert many == 30
    assert live.prequential.scored == 0
    waits = len(live.prequential.pending)
    assert waits > 3
    src, dst, _, features = event(columns, TRAINED, target)
    live.observe([(src, dst, end + 9, features)])
    assert live.prequential.scored <= 1
    live.observe([(src, dst, end + 10, features)])
    assert live.prequential.scored >= waits


def test_a_snapshot_holds_what_waits(run, tmp_path):
    columns, target = events(), run.settings.task.predict
    live = happened(opened(run), columns, target)
    (tmp_path / "state").mkdir()
    Snapshot.of(live).write(tmp_path / "state")
    again = restore(run, tmp_path / "state", evaluate_every=EVERY)
    assert state(again) == state(live)
    for one in (live, again):
        rest = [k for k in range(TRAINED, END) if int(columns["t"][k]) + DELAY >= int(columns["t"][END - 1])]
        one.observe_targets([label(columns, k, target) for k in rest])
        assert not len(one.prequential.pending)
    assert state(again) == state(live)


def test_of_events_alike_each_has_its_own_target(run):
    columns, target = events(), run.settings.task.predict
    src, dst, t, features = event(columns, END, target, known=False)
    values = [True, False] * 6 if target == "fraud" else [float(k) for k in range(12)]
    for batch in (1, 5, 12):
        live = opened(run)
        for begin in range(0, 12, batch):
            live.observe([(src, dst, t, features)] * min(batch, 12 - begin))
        ranks = [asked.rank for asked in live.prequential.pending.kept]
        assert len(ranks) > 1
        live.observe_targets([(src, dst, t, value) for value in values])
        truth = [float(value) for value in values]
        assert live.prequential.held()[:, -1].tolist() == pytest.approx([truth[rank] for rank in ranks])


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_what_waits_is_bounded_and_the_oldest_is_given_up(run, batch, monkeypatch):
    monkeypatch.setattr(pending, "MOST", 5)
    columns, target = events(), run.settings.task.predict
    live = happened(opened(run), columns, target, batch)
    status = live.prequential.status()
    assert status["waiting"] == 5
    assert status["given_up"] > 0
    assert alike(live, happened(opened(run), columns, target, 1))
    numbers = [kept.number for kept in live.prequential.pending.kept.values()]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("numbers", [1, 4])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_so_many_answers_and_so_many_numbers_wait(numbers, offset, monkeypatch):
    monkeypatch.setattr(pending, "MOST", 10)
    monkeypatch.setattr(pending, "NUMBERS", 24)
    most, kept = {1: 10, 4: 6}[numbers], pending.PendingAnswers()
    for k in range(most + offset):
        kept.keep(pending.Event(k, k, k, 0), pending.PendingAnswer(k, [0.0] * numbers))
    assert len(kept) == min(most, most + offset)
    assert kept.given_up == max(0, offset)
    assert next(iter(kept.kept)).src == max(0, offset)
