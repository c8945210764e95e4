"""PINT and trees: the network first, then trees on the same columns, weighed by validation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pintgn
from pintgn import fit
from pintgn.check import check_model, random_log
from pintgn.datasets.simulate import simulate
from pintgn.errors import BadInput
from pintgn.learn.figures_text import run_table
from pintgn.learn.run import Run
from pintgn.learn.stack import SHARES
from pintgn.models.boosted import Boosted
from pintgn.models.pint import PINT
from pintgn.models.stacked import PINTAndTrees
from pintgn.stream import Stream

SMALL = {"rounds": 20, "leaves": 4, "least_rows": 5, "dim": 8}


def shop():
    """A shop whose products are of a kind that decides what is paid."""
    rng = np.random.default_rng(0)
    product = rng.integers(0, 20, 1_500)
    amount = product % 5 + rng.normal(0, 0.3, 1_500)
    table = {"who": rng.integers(0, 60, 1_500), "what": product, "t": np.arange(1_500), "amount": amount}
    return pintgn.read_events(table, src="who", dst="what", t="t", features="all")


def test_it_keeps_every_promise_with_what_its_trees_have_learned():
    check_model(PINTAndTrees(historical=True, **SMALL))


def test_until_trees_count_it_is_the_network_to_the_bit():
    log = random_log()
    first, second = (Stream(model, log.schema, node_features=log.node_features, seed=3) for model in
                     (PINTAndTrees(**SMALL), PINT(dim=8, pair_history=True, aggregates=True)))  # fmt: skip
    first.observe(log[:50])
    second.observe(log[:50])
    assert torch.equal(first.score(log[50:].query), second.score(log[50:].query))


def test_ranking_is_scoring_pair_by_pair():
    log = simulate("repeat", events=400)
    run = fit(PINTAndTrees(**SMALL), log, epochs=1)
    run.model.trees_share.fill_(0.5)
    among = np.tile(np.unique(log.dst)[:10], (5, 1))
    query = log[-5:].query
    later = pintgn.Query(query.src, query.dst, np.full(5, log.t[-1] + 1))
    ranked = run.stream.rank(None, later, among)
    paired = run.stream.score(pintgn.Query(query.src.repeat(10), among.ravel(), np.full(50, log.t[-1] + 1)))
    torch.testing.assert_close(ranked, paired.view(5, 10), rtol=1e-4, atol=1e-4)


@pytest.mark.learning
@pytest.mark.parametrize(
    "settings", [{}, {"predict": "amount"}, {"predict": "kind"}], ids=["links", "values", "classes"]
)
def test_a_run_says_what_trees_are_worth_and_answers_the_same_when_it_is_opened(tmp_path, settings):
    log = shop()
    if settings.get("predict") == "kind":
        table = {"who": log.src, "what": log.dst, "t": log.t, "kind": np.where(log.dst % 5 > 2, "dear", "cheap")}
        log = pintgn.read_events(table, src="who", dst="what", t="t", features="all")
    run = fit("pint+trees", log, folder=tmp_path / "run", epochs=2, refit=True, **settings)
    found = run.history[-1]["trees"]
    assert found["share"] in (0.0, *SHARES)
    better = min if found["chosen_by"] == "rmse" else max
    assert found["both"] == better(found["both"], found["network"], found["trees"])
    assert f"Trees are {found['share']:.0%}" in run_table(run)
    assert float(run.model.trees_share.ravel()[0]) == found["share"]
    again = Run.open(tmp_path / "run")
    assert torch.equal(again.model.boosted.trees, run.model.boosted.trees)
    assert torch.equal(again.refit.model.trees_share, run.model.trees_share)
    assert not torch.equal(again.refit.model.boosted.trees, again.model.boosted.trees), "grown on the whole log"
    later = pintgn.Query(log.src[:5], log.dst[:5], np.full(5, log.t[-1] + 1))
    assert torch.equal(again.stream.replay(None, [later])[0], run.stream.replay(None, [later])[0])


def test_trees_need_the_columns_that_they_are_grown_on():
    with pytest.raises(BadInput, match="pair_history"):
        PINTAndTrees(pair_history=False)


@pytest.mark.learning
def test_where_trees_do_not_help_they_do_not_count(monkeypatch):
    monkeypatch.setattr(Boosted, "forward", lambda self, inputs, state: torch.from_numpy(-100 * inputs[:, :1]))
    run = fit(PINTAndTrees(**SMALL), simulate("repeat", events=800), epochs=2)
    assert run.history[-1]["trees"]["share"] < 1
