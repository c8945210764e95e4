"""A run with relations in use: asked, observed, served, at the command line."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import pintgn
from pintgn.cli.app import app
from pintgn.errors import BadInput, UnknownName
from pintgn.events.log import Query
from tests.learn.test_relations import asked, facts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("relations") / "run"
    pintgn.fit(asked(model={"pair_history": True}), facts(300), folder=path, progress=False)
    return path


def test_scores_and_recommendations_are_by_relation(folder):
    live = pintgn.open(folder)
    likes, owns = (live.score(3, [1, 2, 5], relation=word) for word in ("likes", "owns"))
    assert likes != owns
    assert live.score(3, [1], relation="^likes") != {1: likes[1]}
    assert sum(live.next_probability(3, [1, 2, 5], relation="likes").values()) == pytest.approx(1)
    best = live.recommend(3, 4, relation="likes")
    every = live.score(3, range(12), relation="likes")
    assert best[0].logit == pytest.approx(max(value for dst, value in every.items() if dst in {*range(12)}), abs=1e-4)
    table = live.predict({"s": [3, 3], "o": [1, 1], "type": ["likes", "owns"]})
    assert np.allclose(table["logit"].to_pylist(), [likes[1], owns[1]], atol=1e-5)


def test_what_is_observed_counts_for_its_relation(folder):
    live, other = pintgn.open(folder), pintgn.open(folder)
    live.observe([(3, 1, 100, {"type": "likes"}), (3, 2, 101, {"type": "owns"})])
    assert live.score(3, [1], relation="likes") != other.score(3, [1], relation="likes")
    held, asked_for = live.stream.history.relations.index, (live.run.log.node(3), live.run.log.node(1))
    found = held.look_up(*(np.array([n]) for n in (asked_for[0], live.task.number("likes"), asked_for[1], 200)))
    assert found.dt[0, 0] == 100


@pytest.fixture(scope="module")
def shop():
    """Users and items with the same ids, named apart."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 8, 300), rng.integers(0, 5, 300)
    kind = np.array(["views", "buys"])[rng.integers(0, 2, 300)]
    table = {"user": user, "item": item, "t": np.arange(300), "type": kind.tolist()}
    log = pintgn.read_events(table, "user", "item", "t", features=["type"], bipartite=True)
    return pintgn.open(pintgn.fit(asked(model={"pair_history": True}), log, progress=False))


def test_by_an_inverse_relation_a_destination_asks_for_sources(shop):
    back = shop.recommend(3, 20, relation="^buys")
    assert {one.dst for one in back} == set(range(8))
    assert {one.dst for one in shop.recommend(3, 20, relation="buys")} == set(range(5))
    assert not any(one.notes for one in back)
    scores = shop.score(3, [one.dst for one in back], relation="^buys")
    assert [one.logit for one in back] == pytest.approx([scores[one.dst] for one in back], abs=1e-4)
    item, user = (shop.names.numbers[side][3] for side in (1, 0))
    asked_about = Query(np.array([item]), np.array([user]), np.array([300]), shop.task.by("^buys", 1))
    with torch.no_grad():
        expected = shop.stream.score(asked_about).item()
    assert scores[3] == pytest.approx(expected, abs=1e-5)
    every = shop.recommend_many("all", 2, relation="^buys")
    assert set(every["user"].to_pylist()) == set(range(5))
    assert shop.recommend(7, 1, relation="^buys")[0].notes == "unknown src"
    table = shop.predict({"user": [4, 7], "item": [7, 4], "type": ["^buys", "^buys"]})
    assert table["notes"].to_pylist() == ["", "unknown src"]
    why = shop.explain(3, 7, relation="^buys")
    assert why.logit == pytest.approx(shop.score(3, [7], relation="^buys")[7], abs=1e-5)
    assert not any(reason.nodes[0] != 3 for reason in why.reasons if reason.of == "pair")


def test_a_relation_is_needed_and_known(folder):
    live = pintgn.open(folder)
    with pytest.raises(BadInput, match="this run asks by 'type'"):
        live.recommend(3)
    with pytest.raises(UnknownName, match="there is no type 'lieks'"):
        live.score(3, [1], relation="lieks")


def test_the_command_line_knows_relations(tmp_path, folder):
    log = facts(200)
    path = tmp_path / "facts.csv"
    log.to_pandas().to_csv(path, index=False)
    run = CliRunner()
    options = ["--src", "s", "--dst", "o", "--relation", "type", "--epochs", "1", "--set", "model.dim=8", "--no-report"]
    made = run.invoke(app, ["train", str(path), *options, "-o", str(tmp_path / "run"), "--json"])
    assert made.exit_code == 0, made.output
    said = run.invoke(app, ["recommend", str(tmp_path / "run"), "--src", "3", "--relation", "likes", "--json"])
    assert said.exit_code == 0, said.output
    assert "logit" in json.dumps(json.loads(said.stdout))
    wrong = run.invoke(app, ["recommend", str(tmp_path / "run"), "--src", "3", "--relation", "lykes"])
    assert "Did you mean 'likes'?" in str(wrong.exception)


def test_a_report_is_written_about_relations(folder, tmp_path):
    from pintgn.report.write import write_report

    made = write_report([folder], tmp_path / "report.html")
    assert "type" in (tmp_path / "report.html").read_text()
    assert made.headline
