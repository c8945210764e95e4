"""The report predicts what it should for worlds whose truth is known, and agrees with `distinguish`."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest

from pintgn.datasets.simulate import make_world
from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.theory.comparison import distinguish
from pintgn.theory.data_report import DataReport, _sample_links, report
from pintgn.theory.event_history import TIMES, EventHistory
from pintgn.theory.separation import CLASSES, Separation
from tests.theory.helpers import mirrored_log, random_log

WITHOUT_POSITIONS = ("mp-tgn", "mp-tgn+memory", "tgat", "tgn-att", "temporal-wl")


@cache
def world_report(name: str) -> DataReport:
    settings = {"twins": {"communities": 8, "roles": 6}, "repeat": {"nodes": 200}}[name]
    world = make_world(name, **settings)
    log = world.simulate(3000, seed=1)
    return report(log, pairs=100, negatives=world.negatives(log, seed=1))


def test_in_the_world_twins_only_positions_and_walks_can_win():
    """What trained models must show: at chance without positions, whatever they are; above it with them."""
    made = world_report("twins")
    for view in made.views.values():
        for model in WITHOUT_POSITIONS:
            assert view.links[model].can == 0
            assert view.links[model].ceiling == 0.5
        for model in ("pint", "caw"):
            assert view.links[model].cannot == 0
            assert view.links[model].ceiling == 1.0
        assert view.gain == 1.0
    assert made.probe.nodes == 0.5  # twins have the same number of events at the same times
    assert made.probe.positions == made.probe.both == 1.0
    assert made.advice.startswith("Positions are necessary: without them 100% of the links")


def test_in_the_world_repeat_all_can_separate_but_positions_say_which():
    """What trained models must show: no ceiling below 1 for anyone, and positions help all the same."""
    made = world_report("repeat")
    for model in CLASSES:
        assert made.views["exact"].links[model].ceiling == 1.0
    assert made.views["exact"].gain == 0
    assert made.probe.nodes < 0.65
    assert made.probe.positions > 0.75
    assert made.probe.useful
    assert made.probe.gain > 0.1
    assert made.advice.startswith("Positions are worth their cost")


def test_where_partners_are_random_positions_are_not_worth_it():
    rng = np.random.default_rng(0)
    src = rng.integers(0, 100, 4000)
    made = report(EventLog(src, (src + rng.integers(1, 100, 4000)) % 100, np.arange(4000)), pairs=60)
    assert not made.probe.useful
    assert made.advice.startswith("Positions are hardly worth their cost")


def test_bulk_verdicts_equal_distinguish():
    for log in (mirrored_log(1), random_log(2, times=2), random_log(5, features=2, kinds=2)):
        pairs = [((0, 1), (0, 3)), ((0, 1), (2, 3)), ((2, 2), (1, 4)), ((1, 5), (0, 4)), ((0, 1), (1, 0))]
        nodes = [((0,), (3,)), ((1,), (4,)), ((2,), (5,))]
        for times in TIMES:
            separation = Separation(EventHistory(log, times=times), depth=2, d=3, steps=2)
            for a, b in pairs:
                answer = distinguish(log, a, b, depth=2, d=3, steps=2, times=times)
                for model in CLASSES:
                    assert separation.verdicts(model, [(a, b)]) == [answer.can(model)], (a, b, model, times)
            for (a,), (b,) in nodes:
                answer = distinguish(log, a, b, depth=2, d=3, times=times)
                for model in CLASSES:
                    assert separation.verdicts(model, [((a,), (b,))]) == [answer.can(model)]


def test_the_same_seed_gives_the_same_report_and_another_draws_others():
    log = make_world("repeat", nodes=50).simulate(600, seed=3)
    one, same, other = (report(log, pairs=40, seed=seed).to_dict() for seed in (0, 0, 1))
    assert one == same
    assert one["probe"] != other["probe"]


def test_a_report_is_text_and_json():
    made = world_report("twins")
    text = str(made)
    for word in (*CLASSES, *TIMES, "positions add", "Positions are necessary"):
        assert word in text
    plain = json.loads(json.dumps(made.to_dict()))
    assert plain["views"]["exact"]["links"]["mp-tgn"] == {"can": 0, "cannot": 100, "unknown": 0, "ceiling": 0.5}
    assert plain["views"]["exact"]["gain_of_positions"] == 1.0
    assert 0 < plain["position_density"] < 1


def test_progress_is_told():
    told: list = []
    log = make_world("repeat", nodes=30).simulate(300, seed=0)
    report(log, pairs=10, progress=lambda done, total, what: told.append((done, total, what)))
    assert [done for done, *_ in told] == list(range(6))
    assert told[-1] == (5, 5, "done")


def test_depth_and_colors_are_those_of_the_wl_test():
    made = world_report("repeat")
    exact = made.views["exact"]
    assert exact.colors[0] == 1
    assert exact.colors[-1] == made.active_nodes  # distinct times name every node
    assert exact.depth == 1
    assert sum(exact.levels) == 100


def test_deletions_are_events_but_never_asked_about(shared_data, monkeypatch):
    monkeypatch.setattr("pintgn.theory.data_report.PROBED", 50)
    table = pq.read_table(shared_data("as733_adddel"))
    log = EventLog(table["src"].to_numpy(), table["dst"].to_numpy(), table["t"].to_numpy(), op=table["op"].to_numpy())
    made = report(log, pairs=20, roots=20)
    assert made.views["exact"].links["pint"].pairs == 20
    history = EventHistory(log, made.at)
    later = log.op[history.count :]
    assert (later == -1).any()
    asked = _sample_links(history, 10**6, None, np.random.default_rng(0))
    assert len(asked) == (later == 1).sum()


def test_bad_input_is_named():
    log = random_log(0, events=40, times=20)
    with pytest.raises(BadInput, match="no event at or after t=99"):
        report(log, at=99)
    with pytest.raises(BadInput, match="has no event before it"):
        report(log, at=0)
    with pytest.raises(BadInput, match=r"negatives has shape \(3,\); one node number for each of 40 events"):
        report(log, negatives=np.zeros(3, int))
    with pytest.raises(BadInput, match="pairs=0; a whole number of at least 1"):
        report(log, pairs=0)
    with pytest.raises(BadInput, match="all events before t=2 are simultaneous"):
        report(EventLog([0, 1, 2, 3], [1, 2, 3, 0], [1, 1, 1, 2]), at=2, pairs=3)
