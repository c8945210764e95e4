"""AP, AUC and ranks agree with scikit-learn and with the Temporal Graph Benchmark's own evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.errors import BadInput
from pintgn.learn.metrics import (
    CHUNK,
    Scores,
    area_under_curve,
    average_precision,
    by_novelty,
    drifted,
    mean_and_std,
    rank_metrics,
    ranks,
)


def scores(rng, size, levels):
    """Scores with ties: few levels, many ties."""
    return rng.integers(0, levels, size).astype(np.float32) / 7


@pytest.mark.parametrize("levels", [2, 5, 10_000])
def test_ap_and_auc_agree_with_scikit_learn(levels):
    from sklearn.metrics import average_precision_score, roc_auc_score

    rng = np.random.default_rng(levels)
    for _ in range(20):
        truth = rng.random(rng.integers(2, 60)) < 0.4
        truth[:2] = True, False
        given = scores(rng, len(truth), levels)
        assert average_precision(truth, given) == pytest.approx(average_precision_score(truth, given), abs=1e-12)
        assert area_under_curve(truth, given) == pytest.approx(roc_auc_score(truth, given), abs=1e-12)


@pytest.mark.parametrize("levels", [3, 10_000])
def test_ranks_agree_with_the_temporal_graph_benchmark(levels):
    evaluator = pytest.importorskip("tgb.linkproppred.evaluate", reason="py-tgb is not installed").Evaluator
    rng = np.random.default_rng(0)
    positive, negative = scores(rng, 300, levels), scores(rng, (300, 40), levels)
    for k in (1, 3, 10):
        theirs = evaluator("tgbl-wiki", k_value=k).eval(
            {"y_pred_pos": positive, "y_pred_neg": negative, "eval_metric": ["mrr", "hits@"]}
        )
        ours = rank_metrics(ranks(positive, negative), [k])
        assert ours["mrr"] == pytest.approx(theirs["mrr"], abs=1e-6)
        assert ours[f"hits@{k}"] == pytest.approx(theirs[f"hits@{k}"], abs=1e-6)


def test_a_tie_counts_half():
    # one above, two equal, one below: 1 + 1 + 2/2
    assert ranks(np.array([0.5]), np.array([[0.9, 0.5, 0.5, 0.1]])).tolist() == [3.0]


def test_masked_candidates_do_not_count():
    valid = np.array([[False, True, True]])
    assert ranks(np.array([0.5]), np.array([[0.9, 0.6, 0.1]]), valid).tolist() == [2.0]
    assert ranks(np.array([0.5]), np.array([[np.nan, 0.6, 0.1]]), valid).tolist() == [2.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused_and_never_wins(bad):
    with pytest.raises(BadInput, match="not finite"):
        ranks(np.array([bad]), np.zeros((1, 3)))
    with pytest.raises(BadInput, match="not finite"):
        ranks(np.zeros(1), np.array([[0.0, bad]]))
    with pytest.raises(BadInput, match="not finite"):
        Scores(np.array([0.0, bad]), np.zeros(2)).metrics()


def test_one_class_only_is_an_error_that_says_so():
    with pytest.raises(BadInput, match="all 3 examples are positive"):
        average_precision(np.ones(3, bool), np.arange(3.0))
    with pytest.raises(BadInput, match="all 2 examples are negative"):
        area_under_curve(np.zeros(2, bool), np.arange(2.0))


def test_chunks_are_fixed_rows_of_the_split():
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(1)
    both = Scores(rng.normal(0.5, 1, 450), rng.normal(0, 1, 450))
    expected = []
    for start in range(0, 450, CHUNK):
        part = both[start : start + CHUNK]
        truth = np.repeat([1, 0], len(part))
        expected.append(average_precision_score(truth, np.concatenate([part.positive, part.negative])))
    assert both.metrics()["chunked_ap"] == pytest.approx(np.mean(expected))


def test_a_part_without_new_nodes_has_no_figure_for_them():
    both = Scores(np.array([1.0, 2.0]), np.array([0.0, 0.5]))
    found = by_novelty(both, np.zeros(2, bool), Scores.metrics)
    assert found["new"] == {"events": 0, "ap": None, "chunked_ap": None, "auc": None}
    assert found["seen"] == found["all"]
    assert rank_metrics(np.zeros(0))["mrr"] is None
    assert mean_and_std([found["new"], found["new"]])["ap"] is None


def test_mean_and_standard_deviation_are_the_papers():
    assert mean_and_std([{"ap": 0.2}, {"ap": 0.4}])["ap"] == (pytest.approx(0.3), pytest.approx(0.02**0.5))


def test_drift_is_a_plain_bool_that_json_takes():
    few = np.zeros(10)  # chance explains much: the bound is that of standard errors
    for then in (0.5, 1.0, 1.5):
        assert type(drifted({"rmse": 1.0}, {"rmse": then}, few)) is bool
