"""Truths of a column are those of the log, also where one value is so large that 32 bits tell no others apart."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pintgn import PINT, Live, fit, read_events
from pintgn.errors import BadInput

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
    truth = live.prequential.held()[:, -1]
    assert truth == pytest.approx(np.round(truth), rel=0, abs=1e-3)
    assert len(set(np.round(truth))) > 1


@pytest.mark.parametrize("model", ["pint", "boosted"])
def test_a_column_far_from_zero_is_learned_as_the_same_near_it(model):
    src, dst = np.random.default_rng(1).integers(0, 12, (2, 600))
    y = (src + np.random.default_rng(2).integers(0, 3, 600)).astype(np.float64)
    near, far = (
        fit(
            PINT(dim=8) if model == "pint" else model,
            read_events({"src": src, "dst": dst, "t": np.arange(600), "y": y + add}, features=["y"]),
            predict="y", epochs=1, progress=False,
        )
        for add in (0, FAR)
    )  # fmt: skip
    found = [one.view(one.log).features[:, -2:] for one in (near, far)]
    assert np.array_equal(*found)  # what is learned and read
    weights, others = near.model.state_dict(), far.model.state_dict()
    assert all(weights[name].equal(others[name]) for name in weights)
    assert far.test["all"]["rmse"] == pytest.approx(near.test["all"]["rmse"], abs=1e-3)


NANOSECONDS = 1_700_000_000 * 10**9
"""A unix time in nanoseconds, which 64 bits of a float tell apart by 256."""


@pytest.mark.parametrize("read", [{"features": ["y"]}, {"label": "y"}])
@pytest.mark.parametrize(
    ("unit", "begin"), [(10**9, NANOSECONDS), (100, 0), (1, 10**15)], ids=["times", "cents", "ids"]
)
def test_times_in_nanoseconds_and_cents_are_targets(unit, begin, read):
    """Whole numbers of 64 bits: figures are those of the plain column, in other units."""
    src, dst = np.random.default_rng(1).integers(0, 12, (2, 600))
    y = src * 50 + np.random.default_rng(2).integers(0, 1_000, 600)
    plain, moved = (
        fit(
            PINT(dim=8), read_events({"src": src, "dst": dst, "t": np.arange(600), "y": column}, **read),
            predict="y", epochs=1, progress=False,
        )
        for column in (y, begin + y * unit)
    )  # fmt: skip
    rows = [(plain.test, moved.test), *((plain.heuristics[name], moved.heuristics[name]) for name in plain.heuristics)]
    for one, other in rows:
        assert other["all"]["rmse"] == pytest.approx(one["all"]["rmse"] * unit, rel=1e-4)
        assert other["all"]["r2"] == pytest.approx(one["all"]["r2"], abs=1e-3)


def test_numbers_that_64_bits_do_not_tell_apart_are_refused_in_one_line():
    y = NANOSECONDS + np.random.default_rng(2).integers(0, 1_000, 600)  # a microsecond of nanoseconds
    src, dst = np.random.default_rng(1).integers(0, 12, (2, 600))
    log = read_events({"src": src, "dst": dst, "t": np.arange(600), "y": y}, features=["y"])
    with pytest.raises(BadInput, match=r"'y' .* 1\.7e\+18.* 256; .*deviation") as refused:
        fit(PINT(dim=8), log, predict="y", epochs=1, progress=False)
    assert len(str(refused.value).splitlines()) == 1


def test_decimals_are_targets():
    src, dst = np.random.default_rng(1).integers(0, 12, (2, 600))
    cents = np.random.default_rng(2).integers(100, 10_000, 600)
    amount = pa.array([Decimal(int(one)) / 100 for one in cents], pa.decimal128(12, 2))
    table = pa.table({"src": src, "dst": dst, "t": np.arange(600), "amount": amount})
    run = fit(PINT(dim=8), read_events(table, features=["amount"]), predict="amount", epochs=1, progress=False)
    assert run.task.decoded(run.view(run.log)) == pytest.approx(cents / 100)
    assert run.test["all"]["rmse"] < 100
