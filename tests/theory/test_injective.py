"""Prop. 8: the code is read back exactly."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from pintgn.errors import BadInput
from tests.theory.injective import TemporalCode


@pytest.mark.parametrize("base", [2, 10])
def test_any_multiset_is_read_back(base):
    rng = np.random.default_rng(0)
    times = [1.5, 2.0, 7.25, 100.0]
    code = TemporalCode(times, most=50, base=base)
    for _ in range(50):
        multiset = [(f"s{rng.integers(6)}", times[rng.integers(4)]) for _ in range(rng.integers(0, 49))]
        assert code.decode(code.encode(multiset)) == Counter(multiset)


def test_the_proof_s_numbers():
    # N=10: beta = ceil(log10 10) = 1; two times: k = 1 * (2 + 1) = 3; a has psi 0, b psi 1:
    # (a, 1) adds 10^-1, (a, 2) 10^-2, (b, 1) 10^-(3+1), (b, 2) 10^-(3+2)
    code = TemporalCode([1, 2], most=10)
    assert (code.beta, code.k) == (1, 3)
    assert code.encode([("a", 1)]) == Fraction(1, 10)
    assert code.encode([("b", 2), ("b", 1), ("a", 2)]) == Fraction(1, 10**5) + Fraction(1, 10**4) + Fraction(1, 100)
    assert TemporalCode([1], most=11).beta == 2


def test_nine_equal_pairs_do_not_carry_over():
    code = TemporalCode([1, 2], most=10)
    nine = [("a", 2)] * 9
    assert code.encode(nine) != code.encode([("a", 1)])
    with pytest.raises(BadInput, match="10 pairs; this code is for fewer than 10"):
        code.encode([("a", 2)] * 10)


def test_bad_input_is_named():
    with pytest.raises(BadInput, match="at least one time"):
        TemporalCode([], most=3)
    with pytest.raises(BadInput, match="time 9 is not among the 2 times"):
        TemporalCode([1, 2], most=3).encode([("a", 9)])


def test_an_old_event_is_forgotten_when_its_weight_falls_below_the_last_bit():
    for alpha, beta in ((2.0, 1.0), (2.0, 0.25), (10.0, 1.0)):
        age = 24 / (beta * math.log2(alpha))  # float32 keeps 24 bits
        one = np.float32(1)
        assert one + np.float32(alpha ** (-beta * (age * 1.001))) == one
        assert one + np.float32(alpha ** (-beta * (age * 0.95))) != one
