from __future__ import annotations

import numpy as np
import pytest

from pintgn.learn.metrics import Scores
from pintgn.report.spread import BLOCKS, DRAWS, BootstrapBlocks, interval, standard_error


def some_scores(events=600, seed=0, distinct=None) -> Scores:
    rng = np.random.default_rng(seed)
    positive, negative = rng.normal(1, 1, events), rng.normal(0, 1, events)
    if distinct:  # equal scores are one threshold
        positive, negative = (np.round(v * distinct) / distinct for v in (positive, negative))
    return Scores(positive.astype(np.float32), negative.astype(np.float32))


def drawn_rows(blocks: BootstrapBlocks, draw: int, mask: np.ndarray) -> np.ndarray:
    """The rows of a draw, written out: each row as often as its block was drawn."""
    return np.repeat(np.flatnonzero(mask), blocks.weights[draw][blocks.of[mask]])


@pytest.mark.parametrize("distinct", [None, 2])
def test_draws_equal_the_metrics_of_the_rows_written_out(distinct):
    scores, blocks = some_scores(distinct=distinct), BootstrapBlocks.cut(np.arange(600) // 2)
    mask = np.random.default_rng(1).random(600) < 0.4
    for keep in (np.ones(600, bool), mask):
        draws = blocks.precision(scores, keep)
        for k in (0, 7, DRAWS - 1):
            direct = scores[drawn_rows(blocks, k, keep)].metrics()
            assert draws["ap"][k] == pytest.approx(direct["ap"], abs=1e-12)
            assert draws["auc"][k] == pytest.approx(direct["auc"], abs=1e-12)


def test_means_equal_those_of_the_rows_written_out():
    values, blocks = np.random.default_rng(0).random(600), BootstrapBlocks.cut(np.arange(600))
    mask = np.arange(600) % 3 > 0
    draws = blocks.mean(values, mask)
    for k in (0, 11):
        assert draws[k] == pytest.approx(values[drawn_rows(blocks, k, mask)].mean())


def test_blocks_are_consecutive_about_equal_and_never_part_simultaneous_events():
    t = np.sort(np.random.default_rng(0).integers(0, 700, 5_000))
    blocks = BootstrapBlocks.cut(t)
    assert blocks.count == BLOCKS
    assert (np.diff(blocks.of) >= 0).all()
    for time in np.unique(t):
        assert len(np.unique(blocks.of[t == time])) == 1
    sizes = np.bincount(blocks.of)
    assert sizes.max() < 2 * 5_000 / BLOCKS
    assert (blocks.weights.sum(1) == BLOCKS).all()


def test_the_same_test_part_is_always_drawn_alike():
    t = np.arange(500)
    assert (BootstrapBlocks.cut(t).weights == BootstrapBlocks.cut(t).weights).all()
    assert (BootstrapBlocks.cut(t, seed=1).weights != BootstrapBlocks.cut(t).weights).any()


def test_few_blocks_say_nothing_about_the_spread():
    t = np.repeat(np.arange(6), 100)  # six times only
    blocks = BootstrapBlocks.cut(t)
    assert not blocks.has_enough
    draws = blocks.precision(some_scores())
    assert standard_error(draws["ap"]) is None
    assert interval(draws["auc"]) is None


def test_standard_error_is_that_of_independent_events_where_they_are_independent():
    values = np.random.default_rng(3).random(20_000)
    error = standard_error(BootstrapBlocks.cut(np.arange(20_000)).mean(values))
    assert error == pytest.approx(values.std() / np.sqrt(20_000), rel=0.35)
