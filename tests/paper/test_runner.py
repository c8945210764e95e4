"""A runner that is stopped, capped, killed or fails leaves the rows that it would have left otherwise."""

from __future__ import annotations

import json

import pytest

from paper.jobs import Job
from paper.results import Results
from paper.runner import Meter, Runner, units_of
from paper.sets import read
from pintgn.errors import BadInput
from pintgn.learn.evaluate import evaluate
from pintgn.learn.protocol import Parts
from pintgn.learn.run import Run
from pintgn.workers.jobs import open_jobs
from tests.paper.helpers import link_row, runner, small_paper

JODIE, PINT = Job("links", "jodie", "uci"), Job("links", "pint", "uci")


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    return small_paper(tmp_path_factory.mktemp("paper"))


@pytest.fixture(scope="module")
def whole(paper, tmp_path_factory):
    """Two rows that nobody disturbed."""
    made = runner(tmp_path_factory.mktemp("whole"), paper)
    return {row["row"]: row for row in made.run([JODIE, PINT])}


def figures(row: dict) -> dict:
    return {name: row[name] for name in ("ended", "epochs", "best_epoch", "test", "val", "curve", "settings")}


def test_a_row_says_what_was_measured_how_and_on_what(whole):
    row = whole["pint/uci"]
    assert row["ended"] == "by itself"
    assert row["epochs"] == len(row["curve"]) == 3
    assert 0 < row["test"]["all"]["chunked_ap"] < 1
    assert row["test"]["new"]["events"] > 0
    assert row["settings"]["train"]["protocol"] == "paper"
    assert row["settings"]["stream"]["positions_refresh"] == "block"
    assert (row["seed"], row["events"], row["features"]) == (0, 600, 0)
    assert row["processor_seconds"] > 0
    assert row["wall_seconds"] > 0
    assert {"pintgn", "torch", "numpy", "python"} <= set(row["versions"])
    assert row["load"] >= 0
    assert row["machine"]["cores"] >= 1


def test_a_row_is_on_disk_before_the_next_job_begins(paper, tmp_path):
    made = runner(tmp_path, paper)
    rows = made.run([JODIE, PINT])
    assert next(rows)["row"] == "jodie/uci"
    assert [row["row"] for row in Results(made.results.path).rows()] == ["jodie/uci"]
    rows.close()


def test_what_is_done_is_not_done_again(paper, tmp_path):
    made = runner(tmp_path, paper)
    assert len(list(made.run([JODIE]))) == 1
    assert list(made.run([JODIE])) == []
    assert made.open_jobs([JODIE, PINT]) == [PINT]


@pytest.mark.parametrize("batch", [1, 5, 13])
def test_a_run_that_is_killed_goes_on_to_the_same_row(paper, tmp_path, whole, batch):
    class Killed(BaseException):
        pass

    seen = 0

    def kill(entry):
        nonlocal seen
        seen += "done" in entry
        if seen == batch:
            raise Killed

    made = runner(tmp_path, paper, told=kill)
    with pytest.raises(Killed):
        list(made.run([PINT]))
    assert made.results.rows() == []
    made.told = lambda entry: None
    (row,) = made.run([PINT])
    assert figures(row) == figures(whole["pint/uci"])


def test_a_capped_run_is_measured_with_its_best_epoch_so_far_and_its_row_says_so(paper, tmp_path, monkeypatch):
    made = runner(tmp_path, paper, cap=10.0)
    spend(monkeypatch, per_epoch=4.0)  # the third epoch would pass the cap
    (row,) = made.run([JODIE])
    assert (row["ended"], row["cap"], row["epochs"]) == ("capped", 10.0, 2)
    run = Run.open(made.folder / JODIE.place)
    assert not run.finished
    again = evaluate(run, protocol="paper", baselines=(), seed=0).negatives["random"]["jodie"]
    assert row["test"]["all"]["chunked_ap"] == pytest.approx(again["all"]["chunked_ap"], abs=1e-6)
    assert row["test"]["new"]["ap"] == pytest.approx(again["new"]["ap"], abs=1e-6)


def test_a_higher_cap_goes_on_to_the_row_that_no_cap_gives(paper, tmp_path, monkeypatch, whole):
    made = runner(tmp_path, paper, cap=10.0)
    spend(monkeypatch, per_epoch=4.0)
    (capped,) = made.run([JODIE])
    assert list(made.run([JODIE])) == []  # the same cap would change nothing
    made.cap = 100.0
    (row,) = made.run([JODIE])
    assert figures(row) == figures(whole["jodie/uci"])
    assert (capped["processor_seconds"], row["processor_seconds"]) == (8.0, 12.0)
    assert made.results.newest()[JODIE.key]["ended"] == "by itself"
    assert len(made.results.rows()) == 2


def test_the_last_epoch_is_no_cap(paper, tmp_path, monkeypatch):
    made = runner(tmp_path, paper, cap=12.0)
    spend(monkeypatch, per_epoch=4.0)
    (row,) = made.run([JODIE])
    assert (row["ended"], row["epochs"]) == ("by itself", 3)


def test_a_cap_within_the_first_epoch_measures_the_last_checkpoint_and_says_its_share(paper, tmp_path, whole):
    made = runner(tmp_path, paper, cap=1e-9)
    (row,) = made.run([JODIE])
    assert (row["ended"], row["epochs"], row["best_epoch"]) == ("capped", 0, 0)
    assert 0 < row["first_epoch_share"] < 1
    assert 0 < row["test"]["all"]["chunked_ap"] < 1
    made.cap = None
    (row,) = made.run([JODIE])
    assert figures(row) == figures(whole["jodie/uci"])


def test_a_job_that_fails_leaves_its_error_and_the_next_runs(paper, tmp_path, monkeypatch):
    made = runner(tmp_path, paper)
    train = Runner.train

    def broken(self, job):
        if job == JODIE:
            raise RuntimeError("no luck")
        return train(self, job)

    monkeypatch.setattr(Runner, "train", broken)
    rows = list(made.run([JODIE, PINT]))
    assert [row["ended"] for row in rows] == ["failed", "by itself"]
    assert rows[0]["error"] == "RuntimeError: no luck"
    assert "no luck" in (made.folder / JODIE.place / "error.txt").read_text()
    monkeypatch.undo()
    (row,) = made.run([JODIE, PINT])
    assert (row["row"], row["ended"]) == ("jodie/uci", "by itself")


def test_sets_that_are_not_here_are_left_out(paper, tmp_path, monkeypatch):
    monkeypatch.setenv("PINTGN_CACHE", str(tmp_path / "empty"))
    assert list(runner(tmp_path, paper).run([Job("links", "pint", "enron")])) == []


def test_two_processes_do_not_share_a_folder(paper, tmp_path):
    one, two = runner(tmp_path, paper), runner(tmp_path, paper)
    rows = one.run([JODIE, PINT])
    next(rows)
    with pytest.raises(BadInput, match="in use by process"):
        next(two.run([PINT]))
    rows.close()


def test_nodes_stand_on_the_run_of_links_and_follow_it(paper, tmp_path, monkeypatch):
    nodes = Job("nodes", "jodie", "wikipedia")
    made = runner(tmp_path, paper, cap=10.0)
    spend(monkeypatch, per_epoch=4.0)
    links, row = made.run([nodes])
    assert (links["task"], row["task"]) == ("links", "nodes")
    assert (row["ended"], row["epochs"]) == (links["ended"], links["epochs"]) == ("capped", 2)
    assert 0 <= row["test"]["auc"] <= 1
    assert list(made.run([nodes])) == []
    made.cap = None  # the run goes on, and so must what stands on it
    links, row = made.run([nodes])
    assert (row["ended"], row["epochs"]) == ("by itself", 3)


def test_time_is_measured_for_all_models_in_turns(paper, tmp_path):
    jobs = [Job("time", model, "uci") for model in ("jodie", "pint")]
    rows = list(runner(tmp_path, paper).run(jobs))
    assert [row["row"] for row in rows] == ["jodie/uci", "pint/uci"]
    assert all(row["epoch_processor"] > 0 and row["epoch_wall"] > 0 for row in rows)
    assert rows[0]["positions_processor"] == 0 < rows[1]["positions_processor"]
    trained = Parts.of(read("uci", paper[1]), hidden=0.1, seed=0).trained
    assert rows[0]["steps"] == rows[1]["steps"] == -(-len(trained) // 50)


def spend(monkeypatch, per_epoch: float) -> None:
    """Let every epoch cost the same, whatever the machine does."""
    monkeypatch.setattr(Meter, "_open_epoch", lambda self: (per_epoch, per_epoch))
    monkeypatch.setattr(Meter, "_total", lambda self: sum(self.processor))


# -- the file of rows ------------------------------------------------------------------------------------------------


def test_a_line_that_was_cut_short_costs_no_other(tmp_path):
    results = Results(tmp_path / "deep" / "rows.jsonl")
    results.append(JODIE, {"ended": "by itself", "epochs": 1})
    with open(results.path, "a") as file:
        file.write('{"format": 1, "job": "links pi')
    results.append(PINT, {"ended": "by itself", "epochs": 2})
    assert list(results.newest()) == [JODIE.key, PINT.key]


def test_the_newest_row_counts_but_a_failure_replaces_no_figures(tmp_path):
    results = Results(tmp_path / "rows.jsonl")
    results.append(JODIE, {"ended": "failed", "error": "first"})
    assert results.newest()[JODIE.key]["ended"] == "failed"
    results.append(JODIE, {"ended": "capped", "epochs": 1})
    results.append(JODIE, {"ended": "failed", "error": "later"})
    assert results.newest()[JODIE.key]["ended"] == "capped"
    results.append(JODIE, {"ended": "by itself", "epochs": 9})
    assert results.newest()[JODIE.key]["epochs"] == 9


def test_rows_of_a_newer_format_are_refused(tmp_path):
    from pintgn.errors import BadFile

    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(link_row(format=99)) + "\n")
    with pytest.raises(BadFile, match="newer pintgn"):
        Results(path).rows()
    path.write_text('{"format": 1}\n')
    with pytest.raises(BadFile, match="line 1, is no row"):
        Results(path).rows()


@pytest.mark.slow  # tests/workers/test_jobs.py has jobs of workers in general
def test_workers_find_the_rows_that_one_process_finds_and_one_process_writes_them(paper, tmp_path, whole):
    nodes, links = Job("nodes", "jodie", "wikipedia"), Job("links", "jodie", "wikipedia")
    made = runner(tmp_path, paper)
    with open_jobs("local", 2) as workers:
        rows = {row["job"]: row for row in made.run([JODIE, PINT, links, nodes], workers)}
        assert list(made.run([JODIE, PINT, links, nodes], workers)) == []
    assert sorted(rows) == sorted(job.key for job in (JODIE, PINT, links, nodes))
    assert len(made.results.rows()) == 4
    for job in (JODIE, PINT):
        assert figures(rows[job.key]) == figures(whole[job.row])
    assert 0 <= rows[nodes.key]["test"]["auc"] <= 1


def test_units_hold_what_one_worker_does_in_turn():
    time = [Job("time", model, "uci") for model in ("tgn", "pint")]
    jobs = [JODIE, time[0], Job("nodes", "jodie", "uci"), PINT, time[1]]
    assert units_of(jobs) == [[JODIE, jobs[2]], time, [PINT]]
