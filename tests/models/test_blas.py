"""Products inside compiled functions, and the exponential that loops can take apart."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from numba import njit

from pintgn.models import blas
from pintgn.models.blas import gemm
from pintgn.models.kernels import exp

SIZES = [(1, 1, 1), (5, 1, 3), (1, 4, 2), (3, 2, 1), (1, 1, 4), (7, 8, 9), (0, 3, 2), (2, 3, 0), (2, 0, 3)]


def cut_out(rng, rows, columns, way, kind):
    """A matrix, whole or part of a larger one, its rows or its columns in one piece."""
    turned, part = way
    shape = (columns, rows) if turned else (rows, columns)
    whole = rng.normal(size=(shape[0] + part, shape[1] + 2 * part)).astype(kind)
    mine = whole[part:, part : shape[1] + part]
    return mine.T if turned else mine


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_a_product_is_that_of_numpy_however_the_matrices_lie(kind, size):
    (rows, inside, columns), rng = size, np.random.default_rng(0)
    ways = list(itertools.product([False, True], [0, 1]))
    for one, two, part in itertools.product(ways, ways, [0, 1]):
        a, b = cut_out(rng, rows, inside, one, kind), cut_out(rng, inside, columns, two, kind)
        c = cut_out(rng, rows, columns, (False, part), kind)
        expected = 2 * a @ b + 0.5 * c
        gemm(2, a, b, 0.5, c)
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-5)


def test_without_beta_nothing_is_read():
    c = np.full((2, 2), np.nan, np.float32)
    gemm(1, np.eye(2, dtype=np.float32), np.ones((2, 2), np.float32), 0, c)
    assert (c == 1).all()


@pytest.mark.parametrize("name", blas.NAMES.values())
def test_where_torch_hides_its_blas_that_of_scipy_does_the_same(name):
    kind = {"sgemm": ctypes.c_float, "dgemm": ctypes.c_double}[name]
    a, b = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(kind)
    found = []
    for address in filter(None, (blas.torch_address(name), blas.scipy_address(name))):
        c, call = np.zeros((3, 3), kind), ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)
        three, one, zero, plain = ctypes.c_int(3), kind(1), kind(0), ctypes.c_char(b"N")
        sizes, matrices = [ctypes.byref(three)] * 3, [x.ctypes.data for x in (b, a, c)]
        b_at, a_at, c_at = ((at, ctypes.byref(three)) for at in matrices)
        call(*[ctypes.byref(plain)] * 2, *sizes, ctypes.byref(one), *b_at, *a_at, ctypes.byref(zero), *c_at)
        found.append(c)
    for c in found:
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@njit
def each_exp(x):
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = exp(x[i])
    return out


@pytest.mark.parametrize(("kind", "error"), [("float32", 2e-7), ("float64", 3e-9)])
def test_the_exponential_is_that_of_numpy(kind, error):
    x = np.linspace(-80, 80, 100_001).astype(kind)
    off = each_exp(x) / np.exp(x.astype(np.float64)) - 1
    assert (abs(off) <= error * (1 + abs(x))).all()  # a large x is itself known only to so many digits


def test_the_exponential_ends_and_passes_on_what_is_not_a_number():
    low, high, none = each_exp(np.array([-np.inf, np.inf, np.nan], np.float32))
    assert 0 < low < 1e-37
    assert 1e37 < high < np.inf
    assert np.isnan(none)
