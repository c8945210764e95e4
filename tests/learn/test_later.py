"""Events after a run's log: measured by the run as it is."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import pintgn
from pintgn import EventLog, evaluate, fit
from pintgn.cli.app import app
from pintgn.errors import BadInput, EventOrderError
from pintgn.learn import metrics
from pintgn.learn.newer_events import longer_log
from tests.learn.helpers import QUICK, tiny
from tests.learn.test_no_future import plain

pytestmark = pytest.mark.learning


def shop(events=1_200) -> EventLog:
    return pintgn.simulate("shop", events=events, seed=0)


def of(log: EventLog, begin: int, end: int) -> EventLog:
    """Some events as a log of their own, with nodes numbered anew, as a user would have them."""
    return pintgn.read_events(log[begin:end].to_table())


def quick(log: EventLog, **settings):
    return fit(pintgn.PINT(dim=8, neighbors=4, memory=6, historical=True), log, **QUICK | settings)


@pytest.fixture(scope="module")
def run():
    return quick(of(shop(), 0, 800))


def test_a_log_goes_on_with_the_same_nodes_and_new_ones_behind(run):
    whole = longer_log(run.log, of(shop(), 800, 1_200))
    assert whole.to_table().drop(["t"]).equals(of(shop(), 0, 1_200).to_table().drop(["t"]))
    assert whole.ids.decode()[: run.log.nodes].equals(run.log.ids.decode())
    assert whole.nodes > run.log.nodes


def test_the_whole_log_again_with_more_events_behind_is_the_same(run):
    assert longer_log(run.log, of(shop(), 0, 1_200)) == longer_log(run.log, of(shop(), 800, 1_200))


@pytest.mark.parametrize("name", ["pint", "tgn", "gat", "caw", "edgebank", "heuristic"])
def test_later_events_are_measured_as_a_test_part_would_be(name):
    """The log up to test, then its test part as later events: all figures are those of a run's own test part.

    Every node of the test part has occurred before, so that nothing depends on how many nodes there are.
    """
    log = plain()
    known = EventLog(log.src, log.dst, log.t, features=log.features)
    given = tiny(name, hidden=0.0, epochs=2)
    end = int(known.t[400 - 60])
    given["train"] |= {"train_until": int(known.t[200]), "val_until": int(known.t[280])}
    whole = fit(pintgn.learn.settings.Settings.of(given), known)
    assert whole.parts.test.t[0] == known.t[280]
    short = fit(pintgn.learn.settings.Settings.of(given), known.between(None, end))
    for left, right in zip(whole.model.state_dict().values(), short.model.state_dict().values(), strict=True):
        assert (left == right).all()
    found = evaluate(short, ["random", "historical"], 5, on=known.between(end).to_table())
    parts = whole.parts
    later = parts.log[340:]
    stream = whole.new_stream()
    stream.observe(parts.log[:340])
    drawn = pintgn.learn.negatives.draw_each(["random", "historical"], parts.log, later, 0, parts.log[:340])
    expected = pintgn.learn.measure.compare(stream, later, drawn, parts.is_new(later)).figures
    for kind in ("random", "historical"):
        assert found.negatives[kind][name]["all"] == pytest.approx(expected[kind]["all"], abs=1e-6)
    assert found.part == "later"


def test_a_run_that_was_measured_on_later_events_is_as_it_was(run):
    before = pintgn.open(run).score("user1", ["item1", "item2"])
    first = evaluate(run, rank=10, negatives="random", on=of(shop(), 800, 1_200))
    assert pintgn.open(run).score("user1", ["item1", "item2"]) == before
    assert evaluate(run, rank=10, negatives="random", on=of(shop(), 800, 1_200)) == first
    assert first.negatives["random"]["pint"]["all"]["events"] == 400
    assert first.negatives["random"]["heuristic"]["all"]["ap"] > 0.5
    assert first.ranking["pint"]["all"]["mrr"] > 0


@pytest.mark.parametrize("refit", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_model_that_learns_is_trained_beside_it_on_the_same_parts(refit):
    """Its row is what a run of its own with the same parts and seed has, also after a refit."""
    old, later = of(shop(), 0, 800), of(shop(), 800, 1_200)
    times = {"train_until": int(old.t[500]), "val_until": int(old.t[650])}
    settings = {"epochs": 3, "patience": 3, **times}
    for on in (None, later):
        one = evaluate(fit("jodie", old, refit=refit, **settings), baselines=["tgat"], on=on)
        same = {"tgat": fit("tgat", old, refit=refit, **times), "jodie": fit("jodie", old, refit=refit, **settings)}
        for name, other in same.items():
            assert one.negatives["random"][name] == evaluate(other, baselines=(), on=on).negatives["random"][name]
    first = fit("jodie", old, **settings)
    with pytest.raises(BadInput, match="no initial weights"):
        evaluate(fit(first, later, epochs=0), baselines=["tgat"])


def test_what_comes_later_still_changes_nothing_before(run):
    """The first half of the later events is scored alike whatever the second half is."""
    stream = run.stream.fork()
    log = longer_log(run.log, of(shop(), 800, 1_200))
    other = longer_log(run.log, of(shop(), 800, 1_000))
    scores = [
        pintgn.learn.measure.score_part(stream.fork(), one[800:1_000], [one[800:1_000].query])[0]
        for one in (log, other)
    ]
    assert (scores[0] == scores[1]).all()


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        (700, 1_200, "begins at .* but the run has learned from events up to"),
        (0, 800, "begins at .* but the run has learned from events up to"),
        (800, 800, "has no events"),
        (800, 805, "5 events after the run's log to measure by, which takes at least 10"),
    ],
)
def test_events_that_are_not_later_are_refused_in_one_line(run, begin, end, message):
    with pytest.raises(EventOrderError if "begins" in message else BadInput, match=message):
        evaluate(run, on=shop()[begin:end].to_table())


@pytest.mark.parametrize("events", [metrics.LEAST - 1, metrics.LEAST, metrics.LEAST + 1])
def test_so_many_later_events_and_no_fewer(run, events):
    if events < metrics.LEAST:
        with pytest.raises(BadInput, match="at least 10"):
            evaluate(run, on=of(shop(), 800, 800 + events), baselines=())
    else:
        found = evaluate(run, on=of(shop(), 800, 800 + events), baselines=())
        assert found.negatives["random"]["pint"]["all"]["events"] == events


def test_evaluate_on_later_events_from_the_shell(tmp_path):
    log = shop()
    pintgn.write_events(log[:800], tmp_path / "old.csv")
    pintgn.write_events(log[800:], tmp_path / "later.parquet")
    times = [log.schema.time.show(log.t[row]) for row in (500, 700)]
    command = ["train", str(tmp_path / "old.csv"), "-o", str(tmp_path / "run"), "--epochs", "1", "--set", "dim=8"]
    command += ["--train-until", times[0], "--val-until", times[1], "--json", "--no-report"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    parts = pintgn.Run.open(tmp_path / "run").parts
    assert (parts.val.t[0], parts.test.t[0]) == (log.t[500], log.t[700])
    assert json.loads(result.stdout)["settings"]["train"]["train_until"] == times[0]
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), "--on", str(tmp_path / "later.parquet")])
    assert result.exit_code == 0, result.output
    assert "later events, random negatives" in result.stdout
    refused = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), "--on", str(tmp_path / "old.csv")])
    assert refused.exit_code != 0
    assert "begins at" in str(refused.exception)
