"""`python -m paper` as a person uses it, on a paper small enough for a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from paper.command import main
from tests.conftest import ROOT
from tests.paper.helpers import small_paper


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    return small_paper(tmp_path_factory.mktemp("paper"))


@pytest.fixture
def reproduce(monkeypatch, capsys, tmp_path, paper):
    """The command with the small paper, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PINTGN_CACHE", str(tmp_path / "cache"))

    def run(*arguments):
        given = ["paper", "--config", paper[0], "--data-folder", paper[1], *arguments]
        monkeypatch.setattr(sys, "argv", [str(one) for one in given])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_table_is_made_row_by_row_and_shown_beside_the_papers(reproduce, tmp_path):
    code, out, err = reproduce("table1", "--data", "uci", "--seeds", "0", "--page", "page/results.md")
    assert code == 0, err
    assert "Jodie on UCI, seed 0: AP" in err  # one line per row as soon as it is done
    assert "(paper 96.01" in err
    assert "epoch 3/3" in err
    assert "Transductive" in out
    assert "96.01 ± 0.1" in out
    rows = [json.loads(line) for line in (tmp_path / "runs/paper/results.jsonl").read_text().splitlines()]
    assert [row["row"] for row in rows] == ["jodie/uci", "pint/uci"]
    assert "### Table 1" in (tmp_path / "page/results.md").read_text()
    assert (tmp_path / "page/img/reproduce-dims.svg").exists()

    code, out, err = reproduce("table1", "--data", "uci", "--seeds", "0", "--json")
    answer = json.loads(out)
    assert code == 0
    assert "2 of them done" in err
    assert {row["row"] for row in answer["rows"]} == {"jodie/uci", "pint/uci"}

    code, out, _ = reproduce("table1", "--show")
    assert code == 0
    assert "pintgn data fetch enron" in out


def test_a_dry_run_lists_what_would_run_and_runs_nothing(reproduce, tmp_path):
    code, out, err = reproduce("table1", "--dry-run")
    assert code == 0, err
    assert "needs the data" in out
    assert "pintgn data fetch reddit" in out
    assert "to do" in out
    assert not (tmp_path / "runs").exists()
    code, out, _ = reproduce("all", "--dry-run", "--json", "--runs", "2", "--models", "jodie", "--data", "wikipedia")
    jobs = json.loads(out)["jobs"]
    assert [(job["task"], job["row"], job["seed"]) for job in jobs] == [
        ("links", "jodie/wikipedia", 0),
        ("nodes", "jodie/wikipedia", 0),
        ("links", "jodie/wikipedia", 1),
        ("nodes", "jodie/wikipedia", 1),
        ("time", "jodie/wikipedia", 0),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tabel1",), "Did you mean 'table1'"),
        (("table1", "--models", "pnt"), "--models pnt"),
        (("table1", "--seeds", "x"), "--seeds x"),
        (("table1", "--seeds", "7", "--runs", "7"), "--runs 7"),
        (("table1", "--cap", "-1"), "--cap -1"),
        (("table2", "--models", "tgn"), "table2 has no such rows"),
        (("table1", "--data-folder", "nowhere", "--data", "uci"), "nowhere is not a folder"),
    ],
)
def test_bad_input_is_one_line(reproduce, arguments, message):
    code, out, err = reproduce(*arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_ctrl_c_says_that_the_same_command_goes_on(reproduce, monkeypatch):
    from paper.runner import Runner
    from pintgn.learn.hooks import Interrupted

    def stopped(self, job):
        raise Interrupted("Stopped in epoch 1, step 3.")

    monkeypatch.setattr(Runner, "train", stopped)
    code, _, err = reproduce("table1", "--data", "uci", "--seeds", "0")
    assert code == 130
    assert "same command" in err


@pytest.mark.slow
def test_rows_are_computed_on_a_ray_cluster_and_written_here(paper, tmp_path):
    pytest.importorskip("ray", reason="Ray is not here (pip install 'pintgn[ray]')")
    options = ["--config", paper[0], "--data-folder", paper[1], "--on", "ray", "--workers", "2", "--json"]
    command = [sys.executable, "-m", "paper", "table1", "--data", "uci", "--seeds", "0", *map(str, options)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    given = {"PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | given, timeout=300)
    assert done.returncode == 0, done.stderr
    assert sorted(row["row"] for row in json.loads(done.stdout)["rows"]) == ["jodie/uci", "pint/uci"]
    rows = [json.loads(line) for line in (tmp_path / "runs/paper/results.jsonl").read_text().splitlines()]
    assert sorted(row["row"] for row in rows) == ["jodie/uci", "pint/uci"]
    assert all(row["ended"] == "by itself" for row in rows)
    assert "Jodie on UCI, seed 0: AP" in done.stderr


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["best", "--workers", "2"], "--workers and --on spread the rows of the paper's tables"),
        (["table1", "--workers", "2", "--threads", "2"], "workers have one thread each"),
        (["table1", "--on", "rai"], "on='rai' does not exist. Did you mean 'ray'"),
    ],
)
def test_what_cannot_be_spread_is_refused_in_one_line(reproduce, options, line):
    code, _, err = reproduce(*options)
    assert code == 2
    assert line in err
