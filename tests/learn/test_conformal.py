"""The rank of split conformal, size by size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pintgn.learn.tasks.column import conformal


@pytest.mark.parametrize("count", range(1, 31))
def test_an_interval_is_as_wide_as_the_exact_rank_says(count):
    order = np.random.default_rng(count).permutation(count)
    missed = (order - count // 2).astype(float)  # some lie inside of their intervals
    below = next((k for k in range(1, count + 1) if Fraction(k, count + 1) >= Fraction(9, 10)), count)
    found = conformal(missed, 0.95 - 0.05)  # as it is called: 0.8999999999999999
    assert (missed <= found).sum() == below
    if count >= 9:  # a new value falls below the k-th of n with probability k / (n + 1)
        assert Fraction(9, 10) <= Fraction(below, count + 1) < Fraction(9, 10) + Fraction(1, count + 1)


@pytest.mark.parametrize("count", range(1, 31))
def test_values_that_miss_by_the_same_share_one_end(count):
    assert conformal(np.full(count, 2.0), 0.9) == 2.0
    assert conformal(np.repeat([-1.0, 3.0], count), 0.9) == 3.0


def test_nothing_to_calibrate_by_widens_nothing():
    assert conformal(np.zeros(0), 0.9) == 0.0
