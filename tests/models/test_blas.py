"""Products inside compiled functions, and the exponential that loops can take apart."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
import torch
from numba import njit
from numba.core.errors import TypingError

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


@pytest.mark.parametrize("size", SIZES)
def test_without_beta_nothing_is_read(size):
    rows, inside, columns = size
    a, b, c = (np.ones(shape, np.float32) for shape in ((rows, inside), (inside, columns), (rows, columns)))
    c[:] = np.nan
    gemm(1, a, b, 0, c)
    assert (c == inside).all()


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_what_is_no_product_is_refused(kind):
    a, b, c = np.ones((4, 6), kind), np.ones((6, 4), kind), np.ones((4, 4), kind)
    for one, two, out in ((a, a, c), (a, b, c[:3]), (a, b, c[:, :3]), (b, b, c)):
        with pytest.raises(ValueError, match="do not fit"):
            gemm(1, one, two, 0, out)
    for one, two, out in ((np.ones((4, 12), kind)[:, ::2], b, c), (a[:, ::-1], b, c), (a, b, c.T)):
        with pytest.raises(ValueError, match="in one piece"):
            gemm(1, one, two, 0, out)
    with pytest.raises(TypingError, match="of one type"):
        gemm(1, a.astype("float32"), b.astype("float64"), 0, c)


@pytest.mark.parametrize("shape", [(1, 172, 344), (172, 172, 1)])
def test_the_last_bits_do_not_depend_on_where_in_memory_a_matrix_lies(shape):
    (rows, inside, columns), rng, threads = shape, np.random.default_rng(0), torch.get_num_threads()
    a, b = rng.normal(size=(rows, inside)).astype("f4"), rng.normal(size=(inside, columns)).astype("f4")
    found = set()
    try:
        torch.set_num_threads(2)
        for ways, first in itertools.product((False, True), range(0, 16, 4)):
            room = np.zeros(rows * columns + 32, "f4")
            first += (-room.ctypes.data) % 64 // 4
            c = room[first : first + rows * columns].reshape(rows, columns)
            gemm(1, np.asfortranarray(a) if ways else a, b, 0, c)
            found.add(c.tobytes())
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1


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
