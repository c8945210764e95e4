"""Many questions at once: pairs in a frame, recommendations for many sources; what is doubtful is flagged."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pintgn
from pintgn import PINT, EventLog, Run, fit
from pintgn.cli.app import app
from pintgn.errors import BadInput
from pintgn.live import recommend
from pintgn.live.predict import predict
from tests.learn.helpers import QUICK, random_log
from tests.learn.test_train import Killed

pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "run"
    fit(PINT(dim=8, neighbors=4), pintgn.simulate("shop", events=1_500, seed=0), folder=path, **QUICK)
    return path


@pytest.fixture(scope="module")
def live(folder):
    return pintgn.open(folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was killed in its second epoch."""
    path, epochs = tmp_path_factory.mktemp("stopped") / "run", iter(range(1))

    def kill(entry):
        if "done" in entry and entry["epoch"] == 2 and next(epochs, None) is None:
            raise Killed
        if "done" in entry and entry["epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        fit(PINT(dim=8), random_log(), folder=path, progress=kill, **QUICK)
    return path


def rows_of(table: pa.Table, src) -> list[dict]:
    return [row for row in table.to_pylist() if row["src"] == src]


# -- pairs -----------------------------------------------------------------------------------------------------------


def test_a_frame_of_pairs_gives_a_frame_with_logit_probability_and_notes(live):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"src": ["user1", "nobody", "user2"], "dst": ["item1", "item2", "nothing"]}, index=[7, 3, 9]
    )
    found = live.predict(frame)
    assert isinstance(found, pandas.DataFrame)
    assert found.index.tolist() == [7, 3, 9]
    assert found.columns.tolist() == ["src", "dst", "t", "logit", "probability", "notes"]
    assert found["notes"].tolist() == ["", "unknown src", "unknown dst"]
    assert found["logit"][7] == pytest.approx(live.score("user1", "item1")["item1"], abs=1e-6)
    assert found["probability"][7] == pytest.approx(live.probability("user1", "item1")["item1"], abs=1e-6)
    both = live.predict({"src": ["nobody"], "dst": ["nothing"]})
    assert isinstance(both, pa.Table)
    assert both["notes"].to_pylist() == ["unknown src, unknown dst"]
    assert predict(live, {"src": [], "dst": []}).num_rows == 0


def test_a_frame_of_polars_gives_one_of_polars(live):
    polars = pytest.importorskip("polars")
    found = live.predict(polars.DataFrame({"src": ["user1"], "dst": ["item1"]}))
    assert isinstance(found, polars.DataFrame)
    assert found["notes"].to_list() == [""]


def test_every_answer_of_a_run_that_has_not_ended_is_flagged(stopped, tmp_path):
    live = pintgn.open(stopped)
    assert set(live.predict({"src": [1, 2, 99], "dst": [3, 4, 5]})["notes"].to_pylist()) == {
        "training unfinished",
        "unknown src, training unfinished",
    }
    assert {one.notes for one in live.recommend(1)} == {"training unfinished"}
    command = ["recommend", str(stopped), "--src", "1", "--src", "99", "-k", "2", "--json"]
    result = CliRunner().invoke(app, command)
    notes = [row["notes"] for row in json.loads(result.stdout)["recommended"]]
    assert notes == ["training unfinished"] * 2 + ["unknown src, training unfinished"] * 2
    assert "note: 2 rows noted: training unfinished" in result.stderr


def test_a_run_whose_refit_was_stopped_is_flagged_until_it_has_ended(tmp_path):
    def kill(entry):
        if entry.get("phase") == "training on the whole log":
            raise Killed

    log = random_log()
    with pytest.raises(Killed):
        fit("heuristic", log, folder=tmp_path / "run", refit=True, progress=kill)
    assert {one.notes for one in pintgn.open(tmp_path / "run").recommend(1)} == {"refit unfinished"}
    fit("heuristic", log, folder=tmp_path / "run", refit=True)
    assert {one.notes for one in pintgn.open(tmp_path / "run").recommend(1)} == {""}
    assert Run.open(tmp_path / "run").unfinished == ""


# -- sources ---------------------------------------------------------------------------------------------------------


def test_many_sources_are_recommended_what_each_is_recommended_alone(live):
    table = live.recommend_many(["user1", "user7", "stranger"], k=4)
    assert table.column_names == ["src", "dst", "rank", "next_probability", "probability", "logit", "notes"]
    for src in ("user1", "user7", "stranger"):
        scores = live.score(src, [live.names.ids[node] for node in recommend.candidates(live, src)])
        best = sorted(scores, key=scores.get, reverse=True)[:4]
        rows = rows_of(table, src)
        assert [row["rank"] for row in rows] == [1, 2, 3, 4]
        assert [row["logit"] for row in rows] == pytest.approx([scores[dst] for dst in best], abs=1e-5)
        assert {row["notes"] for row in rows} == {"unknown src" if src == "stranger" else ""}
        alone = live.recommend(src, k=4)
        assert [one.dst for one in alone] == [row["dst"] for row in rows]
        assert [one.logit for one in alone] == pytest.approx([row["logit"] for row in rows], abs=1e-5)


def test_all_are_those_who_have_acted(live):
    log = live.run.log
    found = live.recommend_many("all", k=1)["src"].to_pylist()
    assert found == [log.id(node) for node in np.unique(log.src).tolist()]
    fresh = pintgn.open(live.run)
    fresh.observe([("newcomer", "item3", int(log.t[-1]) + 5)])
    assert fresh.recommend_many("all", k=1)["src"].to_pylist() == [*found, "newcomer"]


def test_whom_a_source_has_met_can_be_left_out(live):
    log = live.run.log
    table = live.recommend_many("all", k=10_000, exclude_met=True)
    every = {log.id(node) for node in np.unique(log.dst).tolist()}
    met = {}
    for src, dst in zip(log.src.tolist(), log.dst.tolist(), strict=True):
        met.setdefault(log.id(src), set()).add(log.id(dst))
    for src in list(met)[:20]:
        assert {row["dst"] for row in rows_of(table, src)} == every - met[src]
    assert [one.dst for one in live.recommend("user1", 10_000, exclude_met=True)] == [
        row["dst"] for row in rows_of(table, "user1")
    ]


def test_at_the_clock_simultaneous_events_have_not_been_met_yet():
    log = EventLog([0, 1, 2, 3] * 50, [4, 5, 6, 7] * 50, np.arange(200))
    live = pintgn.open(fit("edgebank", log))
    live.observe([(0, 5, 500)])
    assert 5 in [one.dst for one in live.recommend(0, at=500, exclude_met=True)]
    assert 5 not in [one.dst for one in live.recommend(0, at=501, exclude_met=True)]
    assert 4 not in [one.dst for one in live.recommend(0, at=500, exclude_met=True)]


def test_only_among_these_and_only_the_active(live):
    log, wanted = live.run.log, ["item5", "item3", "nothing", "item9", "item5"]
    found = live.recommend("user1", among=wanted)
    assert {one.dst for one in found} == set(wanted)
    assert {one.dst: one.notes for one in found}["nothing"] == "unknown dst"
    since = log.t[-100]
    active = {log.id(node) for node in np.unique(log.dst[log.t >= since]).tolist()}
    shown = log.schema.time.show(since)
    for time in (since, shown):
        assert {one.dst for one in live.recommend("user1", 10_000, active_since=time)} == active
    both = live.recommend("user1", among=wanted, active_since=since)
    assert {one.dst for one in both} == set(wanted) & active
    assert live.recommend("user1", active_since=int(log.t[-1]) + 1) == []
    assert live.recommend_many([]).num_rows == 0


def test_a_stranger_is_not_taken_for_another_stranger():
    """Two ids that were never seen are two nodes, also when one asks about the other."""
    live = pintgn.open(fit(PINT(dim=8), random_log(), **QUICK))
    one, other = live.recommend(1_000, among=[2_000, 1_000], k=2)
    expected = live.score(1_000, [2_000, 1_000])
    assert {one.dst: one.logit, other.dst: other.logit} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"src": "user1"}, "a list of ids, or 'all'"),
        ({"src": [1]}, "node ids here are text"),
        ({"src": ["user1"], "k": 0}, "k=0"),
        ({"src": ["user1"], "among": "item1"}, "a list of ids"),
        ({"src": ["user1"], "active_since": "yesterday"}, "neither a number nor a date"),
    ],
)
def test_mistakes_are_one_line(live, arguments, message):
    with pytest.raises(BadInput, match=message):
        live.recommend_many(**arguments)


def test_recommendations_are_the_same_in_pieces_of_any_size(live, monkeypatch):
    expected = live.recommend_many(["user1", "user2", "user3"], k=5, exclude_met=True)
    pool = len(live.destinations)
    for size in (1, pool - 1, pool, pool + 1, 2 * pool, 3 * pool):
        monkeypatch.setattr(recommend, "PAIRS", size)
        found = live.recommend_many(["user1", "user2", "user3"], k=5, exclude_met=True)
        assert found["dst"].to_pylist() == expected["dst"].to_pylist()
        assert found["logit"].to_pylist() == pytest.approx(expected["logit"].to_pylist(), abs=1e-5)


# -- what is next ------------------------------------------------------------------------------------------------------


def test_probabilities_of_being_the_next_add_up_to_one_over_those_who_were_asked(live):
    for options in ({}, {"exclude_met": True}, {"among": ["item1", "item2", "item3"]}):
        table = live.recommend_many(["user1", "user2"], k=10_000, **options)
        for src in ("user1", "user2"):
            chances = [row["next_probability"] for row in rows_of(table, src)]
            assert sum(chances) == pytest.approx(1)
            assert chances == sorted(chances, reverse=True)
    asked = live.next_probability("user1", ["item1", "item2", "item3"])
    assert sum(asked.values()) == pytest.approx(1)
    found = {one.dst: one.next_probability for one in live.recommend("user1", among=asked)}
    assert asked == pytest.approx(found, abs=1e-6)


# -- from the shell ----------------------------------------------------------------------------------------------------


def run(*arguments) -> object:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_recommend_for_many_to_files_and_back(folder, live, tmp_path):
    expected = live.recommend_many("all", k=2)
    for name, read in (("out.csv", pa.csv.read_csv), ("out.parquet", pq.read_table)):
        result = run("recommend", folder, "--all", "-k", 2, "-o", tmp_path / name)
        assert result.exit_code == 0, result.output
        found = read(tmp_path / name)
        assert found["dst"].to_pylist() == expected["dst"].to_pylist()
        assert found["logit"].to_pylist() == pytest.approx(expected["logit"].to_pylist(), abs=1e-5)
    (tmp_path / "who.csv").write_text("id\nuser1\nuser2\nuser1\n")
    (tmp_path / "what.csv").write_text("dst,price\nitem1,3\nitem2,4\nitem3,5\n")
    command = ["recommend", folder, "--src-file", tmp_path / "who.csv", "--among-file", tmp_path / "what.csv"]
    result = run(*command, "--json")
    rows = json.loads(result.stdout)["recommended"]
    assert [row["src"] for row in rows] == ["user1"] * 3 + ["user2"] * 3
    assert {row["dst"] for row in rows} == {"item1", "item2", "item3"}
    result = run("recommend", folder, "--src", "user1", "--src", "user2", "-k", "1", "--exclude-met")
    assert result.stdout.splitlines()[0] == '"src","dst","rank","next_probability","probability","logit","notes"'
    assert len(result.stdout.splitlines()) == 3
    result = run("recommend", folder, "--src", "user1", "--among", "item1", "--among", "item2")
    assert result.stdout.splitlines()[0].split("  ")[0] == "dst"
    assert "against one random" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say whose destinations"),
        (["--all", "--src", "user1"], "say whose destinations"),
        (["--src", "user1", "--among", "item1", "--among-file", "x.csv"], "cannot both be given"),
        (["--src-file", "nowhere.csv"], "there is no file"),
        (["--src", "user1", "-o", "out.txt"], "neither .csv nor .parquet"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(folder, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("recommend", folder, *options)
    assert result.exit_code != 0
    assert message in str(result.exception)


def test_every_column_of_an_answer_can_be_read_as_an_attribute_of_a_frame(live):
    found = live.predict(pd.DataFrame({"src": ["user1", "nobody"], "dst": ["item1", "item2"]}))
    assert found.notes.tolist() == ["", "unknown src"]
    assert not [name for name in found.columns if hasattr(pd.DataFrame, name)]
