from __future__ import annotations

import shutil

import numpy as np
import pytest

import pintgn
from pintgn.errors import BadFile, BadInput
from pintgn.events.log import EventLog
from pintgn.learn.measure import evenly
from pintgn.report.slices import prior_history
from pintgn.report.study import Study, open_runs, study


def scrambled(log: EventLog, first: int) -> EventLog:
    """The log with everything from event `first` on among other nodes; times stay."""
    rng = np.random.default_rng(0)
    src, dst = log.src.copy(), log.dst.copy()
    src[first:], dst[first:] = rng.integers(0, log.nodes, (2, len(log) - first))
    return EventLog(src, dst, log.t, ids=log.ids)


def test_what_is_prior_history_an_event_does_not_depend_on_what_comes_later(run):
    parts = run.parts
    half = len(parts.test) // 2
    other = scrambled(parts.log, parts.test.first + half)
    early = parts.test[:half]
    early = early.where(early.t < parts.test.t[half])
    prior = []
    for log in (parts.log, other):
        cut = type(parts)(log, parts.train, parts.val, parts.test, parts.trained, parts.seen)
        prior.append(prior_history(Study(cut, early, {}, 1)))
    for name in ("src_events", "dst_events", "src_idle", "apart"):
        np.testing.assert_array_equal(getattr(prior[0], name), getattr(prior[1], name))


@pytest.mark.parametrize("most", [199, 200])
def test_what_a_sample_says_about_an_event_is_what_all_of_them_say(run, log, monkeypatch, most):
    whole = study([run], rank=5)
    count = len(whole.events)
    assert whole.of_events == count
    assert most < count
    monkeypatch.setattr("pintgn.report.study.MOST", most)
    some = study([run], rank=5)
    only = evenly(count, most)
    assert len(some.events) == only.sum() <= max(most, 200)
    assert some.of_events == count
    assert (some.events.src == whole.events.src[only]).all()
    for mine, all_of_them in zip(some.rows, whole.rows, strict=True):
        one, other = mine.members[0], all_of_them.members[0]
        assert (one.new == other.new[only]).all()
        assert (one.ranks == other.ranks[only]).all()
        for kind, scores in one.scores.items():
            assert (scores.positive == other.scores[kind].positive[only]).all()
            assert (scores.negative == other.scores[kind].negative[only]).all()


def test_a_sample_is_taken_of_more_events_than_are_measured_and_no_others():
    for most in (200, 1_000):
        assert evenly(most - 1, most).all()
        assert evenly(most, most).all()
        assert evenly(most + 1, most).sum() in (most - most % 200, most - 199 + most % 200)
    taken = np.flatnonzero(evenly(10_000, 1_000).reshape(-1, 200).all(1))
    assert len(taken) == 5
    assert (taken[0], taken[-1]) == (0, 49)
    assert np.diff(taken).max() - np.diff(taken).min() <= 1


def test_runs_on_other_data_or_another_test_part_are_refused(run, log):
    other = pintgn.fit(pintgn.PINT(dim=4), pintgn.simulate("repeat", events=300, seed=5), epochs=0)
    with pytest.raises(BadInput, match="different data; write a report for each"):
        study([run, other])
    other = pintgn.fit(pintgn.PINT(dim=4), log, epochs=0, test=0.3)
    with pytest.raises(BadInput, match="different parts of the log"):
        study([run, other])


def test_a_folder_of_several_runs_is_all_of_them_and_none_is_counted_twice(run, other_seed, tmp_path):
    for seed, one in ((0, run), (10, other_seed)):
        shutil.copytree(one.folder.path, tmp_path / "many" / f"seed-{seed}")
    assert [one.seed for one in open_runs([tmp_path / "many", tmp_path / "many" / "seed-0"])] == [0, 1]
    assert open_runs([run, run]) == [run]


def test_rows_are_named_by_what_tells_them_apart(run, without, place, tmp_path):
    from pintgn.report.row_names import row_names

    assert row_names([run]) == ["pint"]
    assert row_names([run, without]) == ["pint (positions=4)", "pint (positions=0)"]
    shutil.copytree(run.folder.path, tmp_path / "copy")
    assert row_names(open_runs([run.folder.path, tmp_path / "copy"])) == ["pint (pint)", "pint (copy)"]
    assert row_names([run, without], ["with", "without"]) == ["with", "without"]
    with pytest.raises(BadInput, match="1 names for 2 runs"):
        row_names([run, without], ["with"])


def test_a_folder_that_is_no_run_says_so(tmp_path, run):
    with pytest.raises(BadFile, match="holds no run"):
        open_runs(tmp_path)
    with pytest.raises(BadInput, match="no run to report on"):
        open_runs([])
    shutil.copytree(run.folder.path, tmp_path / "begun")
    for name in ("last.safetensors", "best.safetensors", "result.json"):
        (tmp_path / "begun" / name).unlink()
    with pytest.raises(BadFile, match="--resume"):
        open_runs(tmp_path / "begun")


def test_a_run_that_was_stopped_is_measured_as_it_is(run, tmp_path):
    shutil.copytree(run.folder.path, tmp_path / "stopped")
    (tmp_path / "stopped" / "result.json").unlink()
    (one,) = open_runs(tmp_path / "stopped")
    assert not one.finished
    (row, *_) = study([one]).rows
    assert row.members[0].calibration == run.calibration
    assert row.members[0].scores["random"].metrics() == study([run]).rows[0].members[0].scores["random"].metrics()


def test_a_run_keeps_the_time_and_memory_it_took(run):
    assert run.spent["training_seconds"] == sum(entry["seconds"] for entry in run.history)
    assert run.spent["testing_seconds"] > 0
    assert pintgn.Run.open(run.folder.path).spent == run.spent
