"""Jobs (`benchmarks/jobs`): baselines know nothing of the future, figures are paired, rows are made once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pintgn
from benchmarks.jobs import __main__ as jobs
from benchmarks.jobs import bitcoin_otc, cdnow, chess, f1, mathoverflow_kind, mathoverflow_return, payments, wikipedia
from benchmarks.jobs.common import DAY, FIGURES, Asked, Sums, bootstrap
from benchmarks.jobs.next_item import ItemKNN, Ranked, Scorer
from benchmarks.jobs.ranker import Ranker
from benchmarks.jobs.table import Table, ahead
from benchmarks.jobs.what_next import what_next
from pintgn.learn.metrics import class_metrics, rank_metrics, value_metrics
from pintgn.learn.tasks.task import Answers
from tests.conftest import ROOT

EVENTS, NODES = 600, 12


def table(seed: int) -> pl.DataFrame:
    """Events of few nodes with many ties over some months, with every column that a job reads."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, EVENTS // 3, EVENTS)) * DAY
    src, dst = rng.integers(0, NODES, EVENTS), rng.integers(0, NODES, EVENTS)
    ints = {name: rng.integers(1, 9, EVENTS) for name in ("grid", "starters", "positionOrder", "laps", "circuitId")}
    return pl.DataFrame({
        "src": src, "dst": dst, "t": t, **ints,
        "customer": src, "terminal": dst, "driverId": src, "constructorId": dst, "raceId": t // DAY,
        "amount": rng.random(EVENTS) * 300, "fraud": rng.random(EVENTS) < 0.3, "points": rng.random(EVENTS),
        "number_of_cds": rng.random(EVENTS), "dollar_value": rng.random(EVENTS),
        "result": rng.integers(-1, 2, EVENTS), "rating": rng.integers(-10, 11, EVENTS),
        "label": rng.integers(0, 2, EVENTS), "kind": rng.choice(["a2q", "c2q", "c2a"], EVENTS),
    })  # fmt: skip


class Read:
    """What columns are computed from: a table and its log."""

    def __init__(self, frame: pl.DataFrame):
        self.frame, self.log = frame, pintgn.read_events(frame.select("src", "dst", "t"))


def timed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(t=pl.from_epoch("t"))


COLUMNS = {
    "payments": lambda frame: payments.columns(timed(frame)),
    "f1": lambda frame: f1.columns(timed(frame.drop("kind"))),
    "chess": lambda frame: chess.columns(Read(frame)),
    "bitcoin_otc": lambda frame: bitcoin_otc.columns(Read(frame)),
    "wikipedia": lambda frame: wikipedia.columns(Read(frame)),
    "mathoverflow_kind": lambda frame: mathoverflow_kind.columns(Read(frame)),
}
GIVEN = {  # what is known with the question, beside its ends and its time
    "payments": ["amount"],
    "f1": ["grid", "starters", "circuitId"],
}
LATE = {"payments": 7 * DAY}


@pytest.mark.parametrize("job", COLUMNS)
def test_columns_of_a_baseline_are_the_same_whatever_happens_at_that_time_or_later(job):
    frame, other = table(0), table(1)
    at = int(frame["t"][EVENTS // 2])
    known = GIVEN.get(job, [])
    learned = ("fraud", "positionOrder", "points", "laps", "result", "rating", "label", "kind", "amount")
    later = pl.concat([frame.filter(pl.col("t") < at), other.with_columns(frame["t"]).filter(pl.col("t") >= at)])
    changed = frame.with_columns(later[name] for name in learned if name not in known)
    asked = (frame["t"] <= at).to_numpy()
    np.testing.assert_array_equal(COLUMNS[job](changed)[asked], COLUMNS[job](frame)[asked])
    long_after = (frame["t"] > at + 8 * DAY).to_numpy()
    assert not np.array_equal(COLUMNS[job](changed)[long_after], COLUMNS[job](frame)[long_after], equal_nan=True)


def test_a_fraud_is_known_to_the_trees_a_week_later():
    frame = table(0)
    at = int(frame["t"][EVENTS // 3])
    changed = frame.with_columns(fraud=pl.col("fraud") ^ (pl.col("t") == at))
    before, after = payments.columns(timed(frame)), payments.columns(timed(changed))
    known = (frame["t"] > at + payments.DELAY).to_numpy()
    np.testing.assert_array_equal(before[~known], after[~known])
    assert not np.array_equal(before[known], after[known], equal_nan=True)


@pytest.mark.parametrize("job", [cdnow, mathoverflow_return])
def test_columns_about_a_return_are_the_same_whatever_happens_at_that_time_or_later(job):
    frame = table(0)
    asked = Read(frame)
    asked.frame = frame
    if job is cdnow:
        asked.log = pintgn.read_events(timed(frame), "customer", None)
    t = np.asarray(asked.log.t)
    at = t[EVENTS // 2]
    part = type("Part", (), {"src": np.arange(NODES), "t": np.full(NODES, at)})
    whole = job.columns(asked, part)
    asked.log, asked.frame = asked.log[: int(np.searchsorted(t, at))], frame[: int(np.searchsorted(t, at))]
    np.testing.assert_array_equal(whole, job.columns(asked, part))


def test_sums_are_those_of_a_loop_over_the_events_before():
    rng = np.random.default_rng(0)
    key, t, value = rng.integers(0, 4, 200), np.sort(rng.integers(0, 40, 200)), rng.random(200)
    sums = Sums(key, t, value)
    for window in (5, None):
        since = None if window is None else t - window
        found = sums(key, t, since)
        for row in range(200):
            mine = (key == key[row]) & (t < t[row]) & (True if window is None else t >= t[row] - window)
            np.testing.assert_allclose(found[row], [mine.sum(), value[mine].sum()], atol=1e-9)
    newest = [max(t[(key == key[k]) & (t < t[k])], default=None) for k in range(200)]
    gaps = [np.nan if last is None else t[k] - last for k, last in enumerate(newest)]
    np.testing.assert_array_equal(sums.since(key, t), gaps)


@pytest.mark.parametrize("scorer", [Scorer, ItemKNN, Ranker])
def test_scorers_do_not_see_simultaneous_events(scorer, tmp_path):
    frame = table(0).select("src", "dst", "t")
    job = what_next("some", "Who?", lambda folder: (frame, pintgn.read_events(frame)))
    asked = Ranked(job, tmp_path)
    seen = []

    class Watched(scorer):
        def observe(self, src, dst, t):
            seen.extend(t.tolist())

    rows = np.arange(EVENTS // 2, EVENTS, 7)
    for now, *_ in asked.walk(Watched(asked.log.nodes), rows):
        assert seen == asked.log.t[asked.log.t < asked.log.t[now]].tolist()


def test_popular_ranks_what_was_met_most(tmp_path):
    frame = pl.DataFrame({"src": [0, 1] * 100, "dst": [7, 7, 8, 7] * 50, "t": range(200)})
    job = what_next("some", "Who?", lambda folder: (frame, pintgn.read_events(frame)))
    asked = Ranked(job, tmp_path)
    true = frame["dst"].to_numpy()[asked.parts.test.first :]
    np.testing.assert_array_equal(asked.ranks(Scorer(asked.log.nodes), "test"), np.where(true == 7, 1, 2))


# -- rows and the table ------------------------------------------------------------------------------------------------


def row(job: str, model: str, values: np.ndarray, turn: str = "", seed: int = 0) -> dict:
    figure = jobs.jobs()[job].figure
    return {
        "round": turn, "job": job, "model": model, "seed": seed, "figure": figure, "questions": len(values),
        "test": {figure: float(values.mean())}, "resampled": bootstrap(values, lambda some: float(some.mean())),
        "versions": {"commit": "abc"},
    }  # fmt: skip


@pytest.mark.parametrize("name", ["ap", "auc", "log_loss"])
def test_leading_figures_of_classes_are_those_of_pintgn(name):
    rng = np.random.default_rng(0)
    for classes in (2,) if name != "log_loss" else (2, 3):
        found = Answers(rng.normal(size=(50, classes)), rng.integers(0, classes, 50).astype(float))
        assert FIGURES[name](found) == pytest.approx(class_metrics(found.given, found.truth)[name])


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("name", ["mae", "rmse"])
def test_leading_figures_of_values_are_those_of_pintgn(name, width):
    rng = np.random.default_rng(0)
    found = Answers(rng.normal(size=(50, width)), rng.normal(size=50))
    assert FIGURES[name](found) == pytest.approx(value_metrics(found.given, found.truth)[name])


def test_leading_figures_of_ranks_are_those_of_pintgn():
    found = np.random.default_rng(0).integers(1, 30, (50, 2)).astype(float)
    assert FIGURES["mrr"](found[:, 0]) == pytest.approx(rank_metrics(found[:, 0])["mrr"])
    assert FIGURES["hits@10"](found) == pytest.approx(rank_metrics(found[:, 0])["hits@10"])


def test_a_difference_is_paired_by_question():
    rng = np.random.default_rng(0)
    hard = rng.random(400)  # what makes a question hard for all is no difference
    mine, theirs = row("f1", "pint", hard - 0.01), row("f1", "LightGBM", hard + 0.001 * rng.random(400))
    middle, low, high = ahead([mine], [theirs], smaller=True)
    assert 0.009 < low < middle < high < 0.012
    assert ahead([mine], [theirs], smaller=False)[2] < 0
    assert ahead([mine], [mine], smaller=True) == (0, 0, 0)


def test_seeds_make_the_interval_wider():
    values = np.random.default_rng(0).random(400)
    theirs = [row("f1", "LightGBM", values)]
    one = ahead([row("f1", "pint", values)], theirs, smaller=True)
    two = ahead([row("f1", "pint", values - 0.05), row("f1", "pint", values + 0.05, seed=1)], theirs, smaller=True)
    assert two[2] - two[1] > one[2] - one[1] + 0.05


def test_the_table_is_led_by_the_best_baseline():
    rng = np.random.default_rng(0)
    values = rng.random(100)
    rows = [row("chess", "LightGBM", values), row("chess", "Glicko", values + 1), row("chess", "pint", values, "now")]
    line = next(line for line in Table(jobs.jobs(), rows).markdown().splitlines() if "`chess`" in line)
    assert line.index("LightGBM") < line.index("Glicko")
    assert "+0.000 (+0.000 to +0.000)" in line


def test_a_row_that_is_there_is_not_made_again(tmp_path, monkeypatch):
    frame = table(0).with_columns(rating=pl.col("src") + pl.col("dst") % 3)
    frame.select("src", "dst", "t", "rating").write_parquet(tmp_path / "bitcoin_otc.parquet")
    results = tmp_path / "jobs.jsonl"
    command = ["jobs", "--data-folder", str(tmp_path), "--results", str(results), "--only", "bitcoin_otc"]
    monkeypatch.setattr(sys, "argv", [*command, "--model", "baselines", "heuristic"])
    monkeypatch.setattr(jobs, "pintgn_answers", fitted_for_an_epoch)
    jobs.main()
    made = results.read_text()
    jobs.main()
    assert results.read_text() == made
    first, second = map(json.loads, made.splitlines())
    assert (first["model"], first["round"], second["round"]) == ("LightGBM", "", "now")
    assert first["test"]["rmse"] < 1  # the rating is a sum over the ends
    assert len(first["resampled"]) == len(second["resampled"]) == 500
    monkeypatch.setattr(sys, "argv", [*command, "--model", "heuristic", "--round", "later"])
    jobs.main()
    assert len(results.read_text().splitlines()) == 3


def fitted_for_an_epoch(job, asked, model, seed):
    run = pintgn.fit("pint", asked.log, seed=seed, epochs=1, progress=False, **job.fit)
    found = {}
    for name in ("val", "test"):
        part = run.parts.named(name)
        found[name] = run.task.answers(run.stream_after(run.parts.before(part)), part, run.parts, {})[0]
    return found, run


def test_questions_of_a_job_are_those_of_a_run(tmp_path):
    frame = table(0).select("src", "dst", "t", "rating")
    frame.write_parquet(tmp_path / "bitcoin_otc.parquet")
    asked = Asked(bitcoin_otc.JOB, tmp_path)
    run = pintgn.fit("pint", asked.log, epochs=1, progress=False, **bitcoin_otc.JOB.fit)
    for name in ("val", "test"):
        _, query, truth = run.task.questions(run.parts.named(name), run.parts)
        mine = getattr(asked, name)
        np.testing.assert_array_equal([mine.src, mine.dst, mine.t], [query.src, query.dst, query.t])
        np.testing.assert_allclose(mine.truth, truth)
        np.testing.assert_allclose(mine.truth, frame["rating"].to_numpy()[mine.rows], atol=1e-9)
    assert asked.train.rows.max() < asked.val.rows.min()
    assert asked.val.rows.max() < asked.test.rows.min()


def test_every_job_is_one_file_of_at_most_120_lines():
    for path in Path(jobs.__file__).parent.glob("*.py"):
        if "JOB = " in (text := path.read_text()):
            assert len(text.splitlines()) <= 120, path.name


def test_the_page_has_the_table_of_the_rows():
    found = Table(jobs.jobs(), list(jobs.rows().values()))
    page = (ROOT / "docs" / "jobs.md").read_text()
    assert found.markdown() in page
    assert found.made_by() in page
