"""Our best: rows are run once, measured as they say, and put into tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paper import best_page
from paper.best import best_jobs, run_best
from paper.command import app
from paper.results import Results
from paper.training_free import TRAINING_FREE
from pintgn.datasets.simulate import simulate
from pintgn.errors import UnknownName
from pintgn.learn.run import Run
from pintgn.learn.settings import Settings
from pintgn.learn.settings_files import published_rows, read_settings
from tests.conftest import ROOT

CONFIG = """
[train]
epochs = 1

[rows."default/wikipedia"]
model = { name = "pint", dim = 8, neighbors = 4 }

[rows."stale/wikipedia"]
model = { name = "pint", dim = 8, neighbors = 4 }
stream = { positions_refresh = "block", history_refresh = "block" }

[rows."without-positions/wikipedia"]
model = { name = "pint", dim = 8, neighbors = 4, positions = 0 }
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    place = tmp_path_factory.mktemp("best")
    (place / "best.toml").write_text(CONFIG)
    simulate("shop", events=900, seed=1).save(place / "wikipedia.parquet")
    results = Results(place / "results.jsonl")
    jobs = best_jobs(place / "best.toml", None, None, [0])
    rows = list(run_best(jobs, place / "runs", results, place / "best.toml", place, lambda entry: None))
    return place, results, jobs, rows


def test_every_row_is_run_once(done):
    place, results, jobs, rows = done
    assert [row["job"] for row in rows] == [job.key for job in jobs]
    again = run_best(jobs, place / "runs", results, place / "best.toml", place, lambda entry: None)
    assert list(again) == []


def test_the_stream_figures_are_those_of_the_run_itself(done):
    place, _, jobs, rows = done
    run = Run.open(place / "runs" / jobs[0].place)
    assert rows[0]["test"]["stream"]["random"]["all"]["ap"] == pytest.approx(run.test["all"]["ap"], abs=1e-6)


def test_refreshing_positions_by_block_matters_only_where_there_are_positions(done):
    _, _, _, rows = done
    by_model = {row["model"]: row["test"] for row in rows if row["task"] == "best"}
    assert by_model["default"]["papers"] != by_model["default"]["blocks"]
    assert by_model["without-positions"]["papers"] == by_model["without-positions"]["blocks"]
    assert by_model["without-positions"]["stale"] != by_model["without-positions"]["blocks"]


def test_ranking_is_measured_by_how_fresh_the_past_is_and_stale_where_it_was_trained_stale(done):
    found = {row["model"]: row["ranking"] for row in done[3] if row["task"] == "rank"}
    assert list(found["default"]) == ["papers", "blocks", "stale"]
    assert len({figures["all"]["mrr"] for figures in found["default"].values()}) == 3
    assert list(found["stale"]) == ["stale"]


def test_tables_hold_the_figures_of_the_rows(done):
    _, results, _, rows = done
    page = best_page.markdown(list(results.newest().values()))
    default = next(row for row in rows if row["task"] == "best" and row["model"] == "default")
    rank = next(row for row in rows if row["task"] == "rank")
    assert f"{100 * default['test']['papers']['random']['all']['chunked_ap']:.2f}" in page
    for view in ("papers", "blocks", "stale"):
        assert f"{rank['ranking'][view]['all']['mrr']:.4f}" in page
    assert best_page.text(list(results.newest().values())).count("seeds") == 3


def test_the_command_shows_and_writes_what_is_there(done):
    place, results, _, _ = done
    page = place / "page.md"
    page.write_text("before\n<!-- reproduce:begin -->\n<!-- reproduce:end -->\nafter\n")
    told = ["--results", str(results.path), "--config", str(place / "best.toml"), "--page", str(page)]
    shown = CliRunner().invoke(app, ["best", "--show", "--json", *told])
    assert shown.exit_code == 0
    assert len(json.loads(shown.stdout)["rows"]) == 5
    assert page.read_text().startswith("before\n")
    assert "Ranked against all destinations" in page.read_text()


def test_a_dry_run_lists_what_is_left_and_trains_nothing(done, tmp_path):
    place, results, jobs, _ = done
    told = ["--config", str(place / "best.toml"), "--seeds", "0", "--dry-run", "--json"]
    left = CliRunner().invoke(app, ["best", "--folder", str(tmp_path / "runs"), *told])
    assert json.loads(left.stdout)["jobs"] == [job.key for job in jobs]
    assert not (tmp_path / "runs").exists()
    nothing = CliRunner().invoke(app, ["best", "--results", str(results.path), *told])
    assert json.loads(nothing.stdout)["jobs"] == []


def test_data_that_is_not_here_is_said_and_nothing_there_yet_too(done, tmp_path, monkeypatch):
    place, *_ = done
    monkeypatch.setenv("PINTGN_CACHE", str(tmp_path / "cache"))
    told = ["--config", str(place / "best.toml"), "--folder", str(tmp_path / "runs")]
    ended = CliRunner().invoke(app, ["best", *told])
    assert "wikipedia needs the data" in ended.stderr
    assert "has no rows yet" in ended.stdout


def test_a_row_that_does_not_exist_is_refused(done):
    place, *_ = done
    with pytest.raises(UnknownName, match="default"):
        best_jobs(place / "best.toml", ["defualt"], None, None)


def test_every_row_of_our_settings_can_be_read():
    path = ROOT / "paper" / "best.toml"
    rows = published_rows(path)
    assert {row.split("/")[0] for row in rows} >= {"default", "blocks", "stale", *TRAINING_FREE}
    for row in rows:
        given = read_settings(path, row)
        assert given["train"]["hidden"] == "dyglib"
        assert given["model"]["name"] in TRAINING_FREE or Settings.of(given).name in ("pint", "boosted")


def test_the_page_holds_the_committed_results():
    page = Path(ROOT / "docs" / "best.md").read_text()
    rows = list(Results(ROOT / "results" / "best.jsonl").newest().values())
    assert best_page.markdown(rows) in page, (
        "run `python -m paper best --show --results results/best.jsonl --page docs/best.md`"
    )


def test_simpler_models_stand_below_ours_and_the_best_published():
    def row(model, ap):
        groups = {group: {"chunked_ap": ap} for group in ("all", "new")}
        kinds = dict.fromkeys(("random", "historical", "inductive"), groups)
        facts = {"task": "best", "model": model, "data": "uci", "seed": 0, "versions": {"commit": "1a2b3c4"}}
        views = {"papers": kinds, "stale": kinds, "blocks": kinds, "stream": kinds}
        return facts | {"row": f"{model}/uci", "test": views, "one_score": views, "processor_seconds": 1.0}

    page = best_page.markdown([row("default", 0.97), row("pair-recency", 0.9)])
    table = page.split("### Compared with simpler models")[1].split("###")[0]
    assert "| historical, best published | - | 93.96 |" in table
    assert "| historical, pintgn | 1 | 97.00 / 97.00 |" in table
    assert "| historical, pintgn, one score for all kinds | 1 | 97.00 / 97.00 |" in table
    assert "| historical, pair recency | 1 | 90.00 / 90.00 |" in table
    assert "EdgeBank" not in table  # nothing measured
    assert "### Compared with simpler models" not in best_page.markdown([row("default", 0.97)])
