"""Train on everything after the measurement: what was measured stays as it was, what is used has seen all."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import pintgn
from pintgn import EventLog, Run, evaluate, fit, write_report
from pintgn.cli.app import app
from pintgn.errors import BadFile, BadInput
from pintgn.learn import fit as fitting
from pintgn.learn.settings import Settings
from pintgn.models.registry import MODELS
from tests.learn.helpers import QUICK, tiny
from tests.learn.test_no_future import KNOWN_BEFORE_TEST, borders, plain, scrambled, trained, with_categories
from tests.learn.test_train import Killed, outcome

pytestmark = pytest.mark.learning


def weights(run: Run) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in run.model.state_dict().items()}


def shop(events=1_000) -> EventLog:
    return pintgn.simulate("shop", events=events, seed=0)


def quick(log, **options) -> Run:
    return fit(pintgn.PINT(dim=8, neighbors=4, memory=6), log, **QUICK | {"checkpoint_seconds": 0} | options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("refit") / "run"
    quick(shop(), folder=path, refit=True, epochs=3)
    return path


# -- what was measured stays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_honest_run_is_the_same_to_the_last_bit_with_and_without_refitting(name):
    settings = Settings.of(tiny(name, epochs=2, hidden=0.1))
    once, again = (fit(settings, plain(), refit=refit) for refit in (False, True))
    assert weights(again) == weights(once)
    assert again.test == once.test
    assert again.heuristics == once.heuristics
    assert again.calibration == once.calibration
    assert again.refit is not None
    assert once.refit is None


@pytest.mark.parametrize("name", ["pint", "tgn"])
def test_nothing_that_was_measured_or_calibrated_knows_the_test_part_although_the_refit_does(name):
    given = tiny(name, hidden=0.0, epochs=2)
    one, other = (fit(Settings.of(given), log, refit=True) for log in (plain(), scrambled(borders(plain())[1])))
    before = [trained(plain(), given), trained(scrambled(borders(plain())[1]), given)]
    for run, known in zip((one, other), before, strict=True):
        assert weights(run) == known["weights"]
    assert {key: before[0][key] for key in KNOWN_BEFORE_TEST} == {key: before[1][key] for key in KNOWN_BEFORE_TEST}
    assert one.refit.calibration == other.refit.calibration == one.calibration
    assert weights(one.refit) != weights(other.refit), "else it has not been trained on the test part"


def test_a_refitted_run_is_evaluated_and_reported_by_what_was_measured(folder, tmp_path):
    honest = quick(shop(), epochs=3)
    for run in (Run.open(folder), quick(shop(), epochs=3, refit=True)):
        pintgn.open(run).recommend("user1")  # using it must not change what is measured afterwards
        assert evaluate(run, rank=5).to_dict() == evaluate(honest, rank=5).to_dict()
        report = write_report(run, tmp_path / "report.html").to_dict()
        expected = write_report(honest, tmp_path / "honest.html").to_dict()
        assert report["rows"] == expected["rows"]
        words = "These figures belong to the model trained on the first 700 events. The one that is used was then"
        assert words in report["summary"][-1]
        assert words in str(run)
        assert words in (tmp_path / "report.html").read_text().replace("\u00a0", " ")


# -- what is used ----------------------------------------------------------------------------------------------------


def test_the_model_in_use_was_trained_on_the_whole_log_for_the_chosen_epochs(folder):
    run = Run.open(folder)
    assert run.refit.best_epoch == run.best_epoch == len(run.refit.history)
    assert len(run.refit.parts.trained) == len(run.log) == 1_000
    assert run.refit.parts.seen.sum() == len(np.union1d(run.log.src, run.log.dst))
    assert weights(run.refit) != weights(run)
    live = pintgn.open(folder)
    assert weights(run.refit) == {name: w.numpy().tobytes() for name, w in live.model.state_dict().items()}
    assert live.calibration == run.calibration
    assert live.events == 1_000
    assert run.result()["refit"] == {"epochs": run.best_epoch, "events": 1_000}


def test_a_refit_in_memory_and_one_that_was_opened_answer_alike(folder):
    made = quick(shop(), epochs=3, refit=True)
    asked = ["user1", ["item1", "item2", "item3"]]
    assert pintgn.open(made).score(*asked) == pintgn.open(folder).score(*asked)
    assert outcome(made.refit)["memory"] == outcome(Run.open(folder).refit)["memory"]


@pytest.mark.filterwarnings("ignore:the training part has no kind:pintgn.errors.PintgnWarning")
def test_categories_that_the_training_part_lacks_are_known_after_refitting():
    log = with_categories(["b", "d"], ["a", "d"], "onehot", ["kind"])
    run = fit(Settings.of(tiny("tgn", hidden=0.0)), log, refit=True)
    assert run.schema.feature_columns() == ["kind=b", "kind=d"]
    assert run.refit.schema.feature_columns() == ["kind=a", "kind=b", "kind=d"]
    scores = []
    for kind in ("a", "b", "d"):
        live = pintgn.open(run)
        live.observe([(3, 4, int(log.t[-1]) + 1, {"kind": kind})])
        scores.append(live.score(3, 5, at=int(log.t[-1]) + 9)[5])
    assert len(set(scores)) == 3


def test_later_events_are_measured_by_the_model_in_use():
    log = shop(1_200)
    old = pintgn.read_events(log[:1_000].to_table())
    once, again = quick(old, epochs=2), quick(old, epochs=2, refit=True)
    figures = [evaluate(run, on=log[1_000:], baselines=()).negatives["random"]["pint"] for run in (once, again)]
    assert figures[0]["all"]["ap"] != figures[1]["all"]["ap"]


# -- stopped and continued -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [1, 9, 16])
def test_a_refit_that_was_killed_is_continued_to_a_bit_identical_end(folder, tmp_path, moment):
    """An epoch of the training part has 14 steps of 50 events, one of the whole log 20."""
    whole, steps = Run.open(folder), iter(range(3 * 14 + moment))

    def kill(entry):
        if "done" in entry and next(steps, None) is None:
            raise Killed

    with pytest.raises(Killed):
        quick(shop(), folder=tmp_path / "run", refit=True, epochs=3, progress=kill)
    stopped = Run.open(tmp_path / "run")
    assert (stopped.finished, stopped.refit) == (True, None)
    assert stopped.test == whole.test
    fitting.resume(tmp_path / "run")
    assert weights(Run.open(tmp_path / "run").refit) == weights(whole.refit)


def test_a_run_that_has_ended_can_still_be_refitted(folder, tmp_path):
    options = {"folder": tmp_path / "run", "epochs": 3}
    assert quick(shop(), **options).refit is None
    assert weights(quick(shop(), **options, refit=True).refit) == weights(Run.open(folder).refit)
    assert quick(shop(), **options).refit is not None, "what there is, is used"


def test_a_refit_that_is_damaged_is_said_in_one_line(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "refit" / "stream")
    with pytest.raises(BadFile, match="stream"):
        pintgn.open(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "refit")
    with pytest.raises(BadFile, match="refit"):
        pintgn.open(tmp_path / "run")


def test_refitting_from_the_shell(tmp_path):
    pintgn.write_events(shop(), tmp_path / "shop.csv")
    command = ["train", str(tmp_path / "shop.csv"), "-o", str(tmp_path / "run"), "--epochs", "1", "--set", "dim=8"]
    result = CliRunner().invoke(app, [*command, "--refit"])
    assert result.exit_code == 0, result.output
    assert "nothing is left to measure it by" in result.stdout
    assert "refit, epoch 1/1  loss" in result.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "--refit" in page
    result = CliRunner().invoke(app, ["train", str(tmp_path / "run"), "--resume", "--json", "--no-report"])
    assert json.loads(result.stdout)["refit"] == {"epochs": 1, "events": 1_000}
    several = [*command[:2], "-o", str(tmp_path / "two"), *command[4:], "--runs", "2", "--refit", "--no-report"]
    result = CliRunner().invoke(app, several)
    assert result.exit_code == 0, result.output
    assert Run.open(tmp_path / "two" / "seed-1").refit is not None


def test_a_model_that_does_not_learn_in_epochs_is_prepared_on_the_whole_log():
    run = fit(pintgn.EdgeBank(window="test"), plain(), refit=True)
    assert run.refit.model.window > run.model.window
    assert run.refit.best_epoch == 0


def test_a_figure_on_one_event_is_no_figure():
    """Nine events of the test part touch a node that training has not met, then ten."""
    for count in (9, 10):
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 10, 400), rng.integers(10, 20, 400)
        src[-count:] = 20
        run = fit("heuristic", EventLog(src, dst, np.arange(400)), hidden=0.0)
        assert run.test["new"]["events"] == count
        assert (run.test["new"]["ap"] is None) == (count == 9)
        assert ("fewer than 10 events" in str(run)) == (count == 9)
        assert run.test["all"]["ap"] is not None


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    path, log = tmp_path_factory.mktemp("files"), shop(2_000)
    pintgn.write_events(log[:1_000], path / "old.csv")
    pintgn.write_events(log[1_000:1_600], path / "newer.csv")
    pintgn.write_events(log[:1_600], path / "all.csv")
    pintgn.write_events(log[1_600:], path / "newest.csv")
    return path


@pytest.fixture(scope="module")
def earlier(files):
    return quick(pintgn.read_events(files / "old.csv"), folder=files / "earlier", epochs=3)


def test_a_run_on_a_longer_log_begins_with_the_weights_of_the_earlier_one(earlier, files):
    run = fit(earlier, files / "newer.csv", epochs=0)
    assert weights(run) == weights(earlier)
    assert len(run.log) == 1_600
    assert run.parts.val.first == 1_420, "70 % of what is new is trained on"
    assert run.parts.test.first == 1_510
    assert run.scaling == earlier.scaling
    assert run.schema.time_scale == earlier.schema.time_scale
    learned = fit(earlier, files / "newer.csv", epochs=2)
    assert weights(learned) != weights(earlier)
    assert learned.history[0]["loss"] < earlier.history[0]["loss"], "it knows something from the start"


def test_the_longer_log_may_come_whole(earlier, files):
    one, other = (fit(earlier, files / name, epochs=1) for name in ("newer.csv", "all.csv"))
    assert weights(one) == weights(other)
    assert one.test == other.test


def test_measured_is_only_what_is_new_whatever_came_before(earlier, files):
    """Scrambling what is tested changes no weight, as for any run."""
    newer = pintgn.read_events(files / "newer.csv").to_table()
    rows = np.arange(600)
    rows[510:] = np.random.default_rng(0).permutation(rows[510:])
    other = newer.set_column(1, "dst", newer["dst"].take(rows))
    one, two = (fit(earlier, table, epochs=2) for table in (newer, other))
    assert weights(one) == weights(two)
    assert one.calibration == two.calibration
    assert one.test != two.test
    with pytest.raises(BadInput, match="is before the end of what the run has learned from"):
        fit(earlier, newer, train_until="2024-01-01T01:00Z", val_until="2025-01-01T00:00Z")
    with pytest.raises(BadInput, match="of what is new, .* too few"):
        fit(earlier, newer.slice(0, 30))


def test_a_run_that_goes_on_is_kept_continued_and_refitted(earlier, files, tmp_path):
    whole = fit(earlier, files / "newer.csv", epochs=2, refit=True)
    steps = iter(range(40))

    def kill(entry):
        if "done" in entry and next(steps, None) is None:
            raise Killed

    with pytest.raises(Killed):
        fit(
            Run.open(files / "earlier"),
            files / "newer.csv",
            folder=tmp_path / "next",
            epochs=2,
            refit=True,
            progress=kill,
        )
    fitting.resume(tmp_path / "next")
    found = Run.open(tmp_path / "next")
    assert outcome(found) == outcome(whole)
    assert weights(found.refit) == weights(whole.refit)
    assert found.scaling == found.refit.scaling == earlier.scaling
    with pytest.raises(BadInput, match="began with other weights"):
        fit(whole.settings, whole.log, folder=tmp_path / "next")
    third = fit(found, files / "newest.csv", epochs=0)
    assert weights(third) == weights(found.refit), "the model in use is what goes on"
    assert third.scaling == earlier.scaling


def test_going_on_from_the_shell(earlier, files, monkeypatch, tmp_path):
    folder = str(files / "earlier")
    result = CliRunner().invoke(app, ["train", folder, "--with", str(files / "newer.csv"), "--epochs", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["folder"] == f"{folder}-2"
    assert json.loads(result.stdout)["settings"]["train"]["hidden"] == 0.0
    assert (files / "earlier-2" / "report.html").exists()
    for options, message in (
        ([str(files / "old.csv"), "--with", str(files / "newer.csv")], "is none. Name the folder"),
        ([folder, "--with", str(files / "newer.csv"), "--set", "model.dim=4"], "goes on with the model of the run"),
        ([folder, "--with", str(files / "newer.csv"), "--runs", "2"], "leave out --runs"),
        ([folder, "--with", str(files / "old.csv")], "begins at"),
    ):
        result = CliRunner().invoke(app, ["train", *options])
        assert message in str(result.exception)
