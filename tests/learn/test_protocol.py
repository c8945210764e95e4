"""Parts of a log: what is trained on, what is measured, and logs that cannot be cut."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from pintgn import DELETE, EventLog, read_events
from pintgn.errors import BadInput, PintgnWarning
from pintgn.learn.metrics import LEAST
from pintgn.learn.protocol import Parts, cut
from pintgn.learn.settings import Settings, Training
from tests.learn.helpers import random_log


def test_trained_events_touch_no_hidden_node_and_new_events_touch_a_node_never_trained_on():
    log = random_log(1_000, 40)
    parts = Parts.of(log, hidden=0.2, seed=3)
    touched = set(parts.trained.src.tolist()) | set(parts.trained.dst.tolist())
    assert set(np.flatnonzero(parts.seen).tolist()) == touched
    for row, new in enumerate(parts.is_new(parts.test)):
        assert new == bool({parts.test.src[row], parts.test.dst[row]} - touched)
    assert len(parts.trained) < len(parts.train)


def test_the_hidden_nodes_of_others_are_the_same_for_every_seed():
    log = random_log(1_000, 40)
    seen = [Parts.of(log, hidden="dyglib", seed=seed).seen for seed in range(3)]
    assert (~seen[0]).sum() >= 4
    assert (seen[0] == seen[1]).all()
    assert (seen[0] == seen[2]).all()


def test_simultaneous_events_are_never_parted():
    parts = Parts.of(random_log(1_000, 40, ties=20))
    assert parts.train.t[-1] < parts.val.t[0]
    assert parts.val.t[-1] < parts.test.t[0]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (EventLog([0, 1], [1, 2], [1, 2]), "2 events at 2 distinct times cannot be cut"),
        (EventLog([0] * 50, [1, 2] * 25, [7] * 50), "50 events at 1 distinct time cannot be cut"),
        (EventLog([0, 1], [1, 2], [1, 1]), "2 events at 1 distinct time cannot be cut"),
        (EventLog(np.arange(90), np.full(90, 99), np.arange(90)), "one destination"),
        (EventLog([0] * 40, [1, 2] * 20, np.arange(40), op=[1] * 20 + [DELETE] * 20), "only 20 of them are additions"),
        (EventLog([0, 1] * 20, [1, 2] * 20, np.arange(40)), "leaves 6 events to choose the epoch by"),
    ],
)
def test_a_log_that_cannot_be_learned_from_is_refused_in_one_line(log, message):
    with pytest.raises(BadInput, match=message):
        Parts.of(log)


@pytest.mark.parametrize("sizes", [(180, LEAST, LEAST), (180, LEAST - 1, LEAST), (180, LEAST, LEAST - 1)])
def test_a_part_of_just_enough_events_is_found_where_there_is_no_other(sizes):
    """Both quantiles fall into the first group."""
    t = np.repeat([0, 1, 2], sizes)
    log = EventLog(np.arange(len(t)) % 7, np.arange(len(t)) % 5, t)
    if min(sizes) < LEAST:
        with pytest.raises(BadInput, match="too few"):
            cut(log, 0.15, 0.15)
    else:
        assert [len(part) for part in cut(log, 0.15, 0.15)] == list(sizes)


def test_large_groups_are_cut_where_they_can_be_and_that_is_said():
    """As in a log of snapshots whose last one has 30 % of all events: quantiles alone would leave nothing to test."""
    t = np.repeat([0, 1, 2, 3, 4], [40, 20, 5, 5, 30])
    log = EventLog(np.arange(100) % 7, np.arange(100) % 5, t)
    with pytest.warns(PintgnWarning, match="cut 60 / 10 / 30 %"):
        parts = Parts.of(log)
    assert [len(parts.train), len(parts.val), len(parts.test)] == [60, 10, 30]
    assert parts.before(parts.test).t[-1] < parts.test.t[0]


def test_measured_events_of_a_plain_log_are_the_log_itself():
    log = random_log()
    assert log.scored_events is log


# -- parts at times ------------------------------------------------------------------------------------------------


def dated(days=100) -> EventLog:
    """An event an hour, from 2024-01-01 on."""
    hours = np.arange(np.datetime64("2024-01-01T00"), np.datetime64("2024-01-01T00") + 24 * days)
    names = {"src": np.arange(len(hours)) % 7, "dst": np.arange(len(hours)) % 5, "t": hours.astype("datetime64[s]")}
    return read_events(names)


@pytest.mark.parametrize(
    ("until", "then"),
    [
        ("2024-03-01", "2024-04-01"),
        ("2024-03-01T00:00", "2024-04-01T00:00:00"),
        (datetime.date(2024, 3, 1), datetime.datetime(2024, 4, 1)),
        (np.datetime64("2024-03-01"), np.datetime64("2024-04-01T00:00:00.000000000")),
        (1_709_251_200, np.int64(1_711_929_600)),
    ],
)
def test_parts_end_at_times_in_every_form_that_a_time_has(until, then):
    settings = Training(train_until=until, val_until=then)
    parts = Parts.of(dated(), hidden=0.0, **settings.split)
    begins = [parts.log.schema.time.show(part.t[0])[:10] for part in (parts.train, parts.val, parts.test)]
    assert begins == ["2024-01-01", "2024-03-01", "2024-04-01"]
    assert len(parts.train) + len(parts.val) + len(parts.test) == len(parts.log)
    again = Settings.from_toml(Settings.of({"train": {"train_until": until, "val_until": then}}).to_toml())
    assert again.train.split == settings.split


def test_simultaneous_events_at_a_border_belong_to_the_later_part():
    log = EventLog(np.arange(90) % 7, np.arange(90) % 5, np.repeat(np.arange(9), 10))
    parts = Parts.of(log, train_until=5, val_until=7, hidden=0.0)
    assert [part.t[0] for part in (parts.train, parts.val, parts.test)] == [0, 5, 7]


@pytest.mark.parametrize(
    ("until", "then", "message"),
    [
        ("2023-01-01", "2024-04-01", "no event to train on. The log goes from 2024-01-01 to 2024-04-09"),
        ("2024-03-01", "2024-03-01", "0 events to choose the epoch by"),
        ("2024-03-01", "2024-02-01", "0 events to choose the epoch by"),
        ("2024-03-01", "2025-01-01", "0 events to measure by, which takes at least 10"),
        ("March", "April", "neither a number nor a date"),
        ("2024-03-01Z", "2024-04-01", "neither a number nor a date"),
        ("2024-03-01T00:00Z", "2024-04-01T00:00Z", "without a time zone"),
    ],
)
def test_times_that_leave_too_little_are_refused_in_one_line(until, then, message):
    with pytest.raises(BadInput, match=message) as error:
        Parts.of(dated(), train_until=until, val_until=then)
    assert "\n" not in str(error.value)


def test_both_times_or_none():
    with pytest.raises(BadInput, match="go together"):
        Training(train_until="2024-03-01")


@pytest.mark.parametrize("name", ["val", "test"])
def test_no_part_is_left_out_and_who_wants_to_train_on_everything_is_told_how(name):
    with pytest.raises(BadInput, match=rf"train\.{name}=0 leaves no events .* add --refit"):
        Parts.of(random_log(), **{name: 0.0})


def test_validation_and_test_have_at_least_so_many_events():
    for events in (LEAST - 1, LEAST, LEAST + 1):
        log = EventLog(np.arange(200) % 7, np.arange(200) % 5, np.arange(200))
        for times in ({"train_until": 100, "val_until": 100 + events}, {"train_until": 50, "val_until": 200 - events}):
            if events < LEAST:
                with pytest.raises(BadInput, match=f"{events} events to .* by, which takes at least {LEAST}"):
                    Parts.of(log, **times)
            else:
                assert events in [len(part) for part in cut(log, **times)[1:]]
