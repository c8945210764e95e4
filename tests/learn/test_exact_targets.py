"""Truths of a column are those of the log, also where one value is so large that 32 bits tell no others apart."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn import PINT, Live, fit, read_events

FAR = 1e12


@pytest.fixture(scope="module")
def truth():
    y = np.random.default_rng(0).integers(0, 6, 600).astype(np.float64)
    y[10] = FAR
    return y


@pytest.fixture(scope="module")
def run(truth):
    src, dst = np.random.default_rng(1).integers(0, 12, (2, 600))
    log = read_events({"src": src, "dst": dst, "t": np.arange(600), "y": truth}, features=["y"])
    return fit(PINT(dim=8), log, predict="y", epochs=1, progress=False)


def test_truths_beside_an_outlier_are_those_of_the_log(run, truth):
    view = run.view(run.log)
    assert run.task.decoded(view) == pytest.approx(truth, rel=0, abs=1e-3)
    assert view.marked_features.dtype == np.float32  # what models read


def test_figures_beside_an_outlier_know_that_truths_differ(run):
    assert run.test["all"]["r2"] is not None
    assert run.heuristics["pair's last"]["all"]["mae"] > 0.1


def test_a_target_in_use_beside_an_outlier_is_what_was_said(run):
    live = Live(run, run.deployed.stream.fork(), evaluate_every=1)
    live.observe([(1, 2, 700 + k, {}) for k in range(150)])
    live.observe_targets([(1, 2, 700 + k, k % 6) for k in range(150)])
    live.observe([(3, 4, 900 + k, {}) for k in range(2)])
    assert live.prequential.held
    assert np.array(live.prequential.truth) == pytest.approx(np.round(live.prequential.truth), rel=0, abs=1e-3)
    assert len(set(np.round(live.prequential.truth))) > 1
