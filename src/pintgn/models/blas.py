"""Products of matrices inside compiled functions, by the BLAS that torch brings: its speed, and its threads."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import get_cython_function_address, intrinsic

from pintgn.compiled import inner, kernel

NAMES = {types.float32: "sgemm", types.float64: "dgemm"}
PLAIN, TURNED = np.int8(ord("N")), np.int8(ord("T"))


def torch_address(name: str) -> int | None:
    """Where torch has this function of BLAS; None where it keeps it to itself."""
    found = getattr(ctypes.CDLL(torch._C.__file__), f"{name}_", None)
    return None if found is None else ctypes.cast(found, ctypes.c_void_p).value


def scipy_address(name: str) -> int:
    return get_cython_function_address("scipy.linalg.cython_blas", name)


for _name in NAMES.values():
    binding.add_symbol(f"pintgn_{_name}", torch_address(_name) or scipy_address(_name))


@intrinsic
def _call(
    typing_context, one_turned, two_turned, rows, columns, inside, alpha, one, step, two, its_step, beta, out, far
):
    """BLAS's own gemm, as it is called from Fortran: it is told where each of its arguments is."""
    told = one_turned, two_turned, rows, columns, inside, alpha, one, step, two, its_step, beta, out, far
    if not alpha == one.dtype == two.dtype == beta == out.dtype:
        raise TypingError(f"a product of {two.dtype} and {one.dtype} into {out.dtype}: they must be of one type")

    def generate(context, builder, signature, values):
        address, where = ir.IntType(8).as_pointer(), []
        for kind, value in zip(told, values, strict=True):
            if isinstance(kind, types.Array):
                place = context.make_array(kind)(context, builder, value).data
            else:
                place = cgutils.alloca_once_value(builder, value)
            where.append(builder.bitcast(place, address))
        shape = ir.FunctionType(ir.VoidType(), [address] * len(where))
        builder.call(cgutils.get_or_insert_function(builder.module, shape, f"pintgn_{NAMES[out.dtype]}"), where)
        return context.get_dummy_value()

    return types.void(*told), generate


@inner
def _laid_out(x):
    """Whether it is the rows of a matrix that stand in one piece, or its columns; how far it is to the next."""
    (rows, columns), (down, right) = x.shape, x.strides
    if (columns <= 1 or right == x.itemsize) and (rows <= 1 or down >= columns * x.itemsize):
        return PLAIN, np.int32(max(down // x.itemsize if rows > 1 else columns, 1))
    if (rows <= 1 or down == x.itemsize) and (columns <= 1 or right >= rows * x.itemsize):
        return TURNED, np.int32(max(right // x.itemsize if columns > 1 else rows, 1))
    raise ValueError("a matrix whose rows or columns do not stand in one piece")


@kernel
def gemm(alpha, a, b, beta, c):
    """c = alpha · a b + beta · c. Rows or columns of a and b stand in one piece each, those of c are rows."""
    rows, columns = c.shape
    if a.shape[0] != rows or a.shape[1] != b.shape[0] or b.shape[1] != columns:
        raise ValueError("matrices whose shapes do not fit")
    if rows == 0 or columns == 0:
        return
    (a_turned, a_step), (b_turned, b_step), (c_turned, c_step) = _laid_out(a), _laid_out(b), _laid_out(c)
    if c_turned == TURNED:
        raise ValueError("a product whose rows do not stand in one piece")
    if rows == 1 or columns == 1:
        _one_by_one(c.dtype.type(alpha), a, b, c.dtype.type(beta), c)
        return
    # BLAS thinks in columns: it sees every matrix turned, and makes cᵀ = bᵀ aᵀ
    _call(  # type: ignore[call-arg]
        b_turned, a_turned, np.int32(columns), np.int32(rows), np.int32(a.shape[1]), c.dtype.type(alpha), b, b_step, a,
        a_step, c.dtype.type(beta), c, c_step,
    )  # fmt: skip


@kernel
def _one_by_one(alpha, a, b, beta, c):
    """`gemm` of a single row or column: BLAS shares it among threads by where in memory it happens to lie, and its last
    bits depend on that."""
    zero = c.dtype.type(0)
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = beta * c[i, j] if beta != zero else zero
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += alpha * a[i, k] * b[k, j]
