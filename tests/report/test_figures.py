from __future__ import annotations

import numpy as np
import pytest

import pintgn
from pintgn.learn.metrics import mean_and_std
from pintgn.report.figures import RANKING, Figures
from pintgn.report.spread import DRAWS
from pintgn.report.study import study


def row(figures: Figures, name: str):
    return next(row for row in figures.study.rows if row.name == name)


def test_figures_are_those_that_the_run_recorded(run):
    """Negatives of seed 0 are those of a run of seed 0, so the report and result.json agree to the last digit."""
    found = Figures(study([run])).table["pint"]["random"]
    for group, metrics in run.test.items():
        for name in ("ap", "auc", "chunked_ap"):
            assert found[group][name].value == metrics[name]
        assert found[group]["ap"].events == metrics["events"]


def test_figures_are_those_of_evaluate(run):
    kinds = ["historical", "per-event"]
    told = pintgn.evaluate(run, negatives=kinds, rank=20)
    found = Figures(study([run])).table
    for name in ("pint", "edgebank", "heuristic"):
        for kind in kinds:
            assert found[name][kind]["all"]["ap"].value == told.negatives[kind][name]["all"]["ap"]
        assert found[name][RANKING]["new"]["mrr"].value == told.ranking[name]["new"]["mrr"]


def test_runs_that_differ_in_their_seed_share_a_row_of_mean_and_deviation(figures, run, other_seed):
    assert [row.name for row in figures.study.trained] == ["pint (positions=4)", "pint (positions=0)"]
    each = [one.scores["random"].metrics() for one in row(figures, "pint (positions=4)").members]
    mean, deviation = mean_and_std(each)["ap"]
    found = figures.table["pint (positions=4)"]["random"]["all"]["ap"]
    assert (found.value, found.spread) == (pytest.approx(mean), pytest.approx(deviation))
    assert figures.spread_of(row(figures, "pint (positions=4)")) == "seeds"
    assert figures.spread_of(row(figures, "pint (positions=0)")) == "blocks"


def test_paired_differences_equal_a_direct_computation(figures):
    """Rows written out draw by draw, both rows by the same draws, the metric of each, and their difference."""
    first, second = row(figures, "pint (positions=0)"), row(figures, "heuristic")
    found = figures.find(first.name, second.name, "historical", "ap")
    mine, theirs = first.members[0].scores["historical"], second.members[0].scores["historical"]
    assert found.value == pytest.approx(mine.metrics()["ap"] - theirs.metrics()["ap"])
    blocks, direct = figures.blocks, []
    for k in range(DRAWS):
        rows = np.repeat(np.arange(len(mine)), blocks.weights[k][blocks.of])
        direct.append(mine[rows].metrics()["ap"] - theirs[rows].metrics()["ap"])
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(direct, [0.025, 0.975])))


def test_differences_of_groups_are_over_events_that_both_rows_call_new(figures):
    first, second = row(figures, "pint (positions=4)"), row(figures, "pint (positions=0)")
    both = np.logical_and.reduce([one.new for one in (*first.members, *second.members)])
    assert 0 < both.sum() < first.members[0].new.sum()  # seeds hide different nodes
    (ap, _) = figures.difference(first, second, "random", "new")
    assert ap.events == both.sum()
    mine = np.mean([one.scores["random"][both].metrics()["ap"] for one in first.members])
    assert ap.value == pytest.approx(mine - second.members[0].scores["random"][both].metrics()["ap"])


def test_a_row_does_not_differ_from_itself(figures):
    one = row(figures, "heuristic")
    for difference in figures.difference(one, one, "random"):
        assert (difference.value, difference.low, difference.high) == (0, 0, 0)
        assert not difference.is_clear


def test_everything_for_machines_is_plain(figures):
    import json

    told = json.loads(json.dumps(figures.to_dict(), allow_nan=False))
    assert told["rows"]["heuristic"]["random"]["all"]["ap"]["value"] > 0.5
    assert {one["metric"] for one in told["differences"]} == {"ap", "auc", "mrr"}
