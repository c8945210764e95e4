"""Fused loops of message passing. Plain arrays in and out; float32 or float64.

A slot is one neighbor of one parent; the k slots of parent p are p*k … p*k + k - 1. The pre-activation of a slot is

    z = row[row_of[slot]] + event[event_of[slot]] + Σ_j own[slot, j] · mix[j]

where either of the last two parts may be absent (an array of no rows). Slots of weight 0 are empty: nothing is read for
them. Gradients of weights are written only if their array is not empty.

The inner loops run along a row and mix no types (hence `zero`), so that the compiler makes vector instructions of them.
Scratch rows are padded with zeros to whole vectors (`full` columns).
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from pintgn.compiled import inner, kernel

# sin(2π g) = g · P(g²) for g in [-1/4, 1/4]; P by least squares, error below 4e-9
SINE = np.array([6.28318515961, -41.3416549293, 81.6009981926, -76.5496568205, 39.5358137107])
SINES = {np.dtype(kind): SINE.astype(kind) for kind in ("float32", "float64")}
TURN = 1 / (2 * np.pi)
NAN_SAFE_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
"""What the compiler may do to be fast while NaNs propagate: broken weights must not look healthy."""


@intrinsic
def wide_vectors(typing_context):
    """Asks LLVM for the widest vectors there are in the function that calls it; by default it stops at 32 bytes."""

    def generate(context, builder, signature, arguments):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # llvmlite's own `add` knows few names
        return context.get_dummy_value()

    return types.void(), generate


@inner
def aligned(rows, width, kind):
    """Rows of zeros, aligned to lines of the cache if their width is a multiple of one."""
    buffer = np.zeros(rows * width + 16, kind)
    first = (-buffer.ctypes.data) % 64 // buffer.itemsize
    return buffer[first : first + rows * width].reshape((rows, width))


@inner
def padded_width(width):
    """The width padded to whole vectors: the rest would be done one by one."""
    return width + (-width) % (64 if width > 32 else 8)


@inner
def padded(rows):
    """The rows, padded with zeros to whole vectors."""
    count, width = rows.shape
    out = aligned(count, padded_width(width), rows.dtype)
    for i in range(count):  # `out[:, :width] = rows` takes Numba seconds to compile
        for j in range(width):
            out[i, j] = rows[i, j]
    return out


@kernel(fastmath=True)
def weighted_relu_sum(first, last, k, row, row_of, event, event_of, own, mix, weight, out):
    """out[p] = Σ over the slots of p of weight · relu(z), for the parents first … last - 1."""
    wide_vectors()  # type: ignore[call-arg]
    width, zero = out.shape[1], out.dtype.type(0)
    with_event, length = event.shape[0] > 0, mix.shape[0]
    alone = not with_event and length == 0  # z is a row as it stands
    by_four = length - length % 4  # columns are added four at a time: fewer passes over z
    mix = padded(mix)
    full = mix.shape[1]
    z, total = aligned(1, full, out.dtype)[0], aligned(1, full, out.dtype)[0]
    for parent in range(first, last):
        for d in range(full):
            total[d] = zero
        for slot in range(parent * k, parent * k + k):
            w = weight[slot]
            if w == zero:
                continue
            # z; repeated in the backward pass, because a function of its own, inlined or not, is ten times slower
            at = row_of[slot]
            if alone:
                for d in range(width):
                    total[d] += w * max(row[at, d], zero)
                continue
            for d in range(width):
                z[d] = row[at, d]
            if with_event:
                at = event_of[slot]
                for d in range(width):
                    z[d] += event[at, d]
            for j in range(0, by_four, 4):
                a, b, c, e = own[slot, j], own[slot, j + 1], own[slot, j + 2], own[slot, j + 3]
                for d in range(full):
                    z[d] += a * mix[j, d] + b * mix[j + 1, d] + c * mix[j + 2, d] + e * mix[j + 3, d]
            for j in range(by_four, length):
                a = own[slot, j]
                for d in range(full):
                    z[d] += a * mix[j, d]
            for d in range(full):
                total[d] += w * max(z[d], zero)
        for d in range(width):
            out[parent, d] = total[d]


@kernel(fastmath=True)
def weighted_relu_sum_backward(
    first, last, k, row, row_of, event, event_of, own, mix, weight, grad, grad_row, grad_event, grad_mix, grad_weight
):
    """Add to the gradients of everything but the slots' own columns, for the parents first … last - 1. z is computed
    again."""
    wide_vectors()  # type: ignore[call-arg]
    width, zero, wanted = grad.shape[1], grad.dtype.type(0), grad_weight.shape[0] > 0
    with_event, length = event.shape[0] > 0, mix.shape[0]
    alone = not with_event and length == 0 and not wanted
    by_four = length - length % 4
    mix = padded(mix)
    full = mix.shape[1]
    to_mix = aligned(length, full, grad.dtype)
    z, g = aligned(1, full, grad.dtype)[0], aligned(1, full, grad.dtype)[0]
    for parent in range(first, last):
        for d in range(width):
            g[d] = grad[parent, d]
        for slot in range(parent * k, parent * k + k):
            w = weight[slot]
            if w == zero:
                continue
            at = row_of[slot]
            if alone:
                for d in range(width):
                    grad_row[at, d] += w * g[d] if row[at, d] > zero else zero
                continue
            for d in range(width):
                z[d] = row[at, d]
            if with_event:
                at = event_of[slot]
                for d in range(width):
                    z[d] += event[at, d]
            for j in range(0, by_four, 4):
                a, b, c, e = own[slot, j], own[slot, j + 1], own[slot, j + 2], own[slot, j + 3]
                for d in range(full):
                    z[d] += a * mix[j, d] + b * mix[j + 1, d] + c * mix[j + 2, d] + e * mix[j + 3, d]
            for j in range(by_four, length):
                a = own[slot, j]
                for d in range(full):
                    z[d] += a * mix[j, d]

            if wanted:
                along = zero
                for d in range(full):
                    along += g[d] * max(z[d], zero)
                grad_weight[slot] = along
            for d in range(full):
                z[d] = w * g[d] if z[d] > zero else zero
            at = row_of[slot]
            for d in range(width):
                grad_row[at, d] += z[d]
            if with_event:
                at = event_of[slot]
                for d in range(width):
                    grad_event[at, d] += z[d]
            for j in range(0, by_four, 4):
                a, b, c, e = own[slot, j], own[slot, j + 1], own[slot, j + 2], own[slot, j + 3]
                for d in range(full):
                    to_mix[j, d] += a * z[d]
                    to_mix[j + 1, d] += b * z[d]
                    to_mix[j + 2, d] += c * z[d]
                    to_mix[j + 3, d] += e * z[d]
            for j in range(by_four, length):
                a = own[slot, j]
                for d in range(full):
                    to_mix[j, d] += a * z[d]
    for j in range(length):
        for d in range(width):
            grad_mix[j, d] += to_mix[j, d]
