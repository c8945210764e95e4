"""The judgement of pairs whose ends are shared: what both ends add, a ReLU, a weighted sum. Plain arrays in and out."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.models.blas import gemm
from pintgn.models.kernels import HEEDFUL


@inner
def number_roles(tree_of, table, rows, places):
    """Number the distinct sources and, apart from them, the distinct destinations of pairs; returns how many of each.

    `tree_of` (2q,) are source and destination of one pair after the other, `table` a -1 for every tree, left so. Filled
    are rows (2, q), the trees that occur in each role, and places (2, q), which of them each pair has.
    """
    counts = [0, 0]
    for role in range(2):
        count = 0
        for pair in range(tree_of.shape[0] // 2):
            tree = tree_of[2 * pair + role]
            if table[tree] < 0:
                table[tree] = count
                rows[role, count] = tree
                count += 1
            places[role, pair] = table[tree]
        for i in range(count):
            table[rows[role, i]] = -1
        counts[role] = count
    return counts[0], counts[1]


@kernel(fastmath=HEEDFUL)
def judge(tree_of, h, first, bias, last, last_bias, rows, places, ends, mapped, out):
    """out[i] = last · relu(first (h_u ‖ h_v) + bias) + last_bias of the i-th pair; last is (1, d).

    Filled are rows and places (see `number_roles`, which gives what is returned), and for each role ends (2, q, d'),
    the rows of h in it, and mapped (2, q, d), what they add.
    """
    width, zero = h.shape[1], out.dtype.type(0)
    counts = number_roles(tree_of, np.full(h.shape[0], -1), rows, places)
    for role in range(2):
        count, half = counts[role], slice(role * width, (role + 1) * width)
        for i in range(count):
            tree = rows[role, i]
            for d in range(width):
                ends[role, i, d] = h[tree, d]
        gemm(1, ends[role, :count], first[:, half].T, 0, mapped[role, :count])
    source, destination = mapped[0], mapped[1]
    for i in range(counts[0]):
        for d in range(bias.shape[0]):
            source[i, d] += bias[d]
    for pair in range(out.shape[0]):
        one, two = places[0, pair], places[1, pair]
        total = last_bias[0]
        for d in range(bias.shape[0]):
            total += last[0, d] * max(source[one, d] + destination[two, d], zero)
        out[pair] = total
    return counts


@kernel(fastmath=HEEDFUL)
def judge_backward(
    grad, first, last, counts, rows, places, ends, mapped, to_h, to_first, to_bias, to_last, to_last_bias
):
    """Fill the gradients of h and the parameters."""
    to_h[:], to_bias[:], to_last[:], to_last_bias[:] = 0, 0, 0, 0
    width, zero = to_h.shape[1], grad.dtype.type(0)
    to_mapped = np.empty_like(mapped)
    for role in range(2):
        to_mapped[role, : counts[role]] = 0
    source, destination, to_source, to_destination = mapped[0], mapped[1], to_mapped[0], to_mapped[1]
    for pair in range(grad.shape[0]):
        one, two, g = places[0, pair], places[1, pair], grad[pair]
        for d in range(to_bias.shape[0]):
            z = max(source[one, d] + destination[two, d], zero)
            to_last[0, d] += g * z
        for d in range(to_bias.shape[0]):
            to = g * last[0, d] if source[one, d] + destination[two, d] > zero else zero
            to_source[one, d] += to
            to_destination[two, d] += to
            to_bias[d] += to
        to_last_bias[0] += g
    for role in range(2):
        count, half = counts[role], slice(role * width, (role + 1) * width)
        gemm(1, to_mapped[role, :count].T, ends[role, :count], 0, to_first[:, half])
        to_ends = np.empty((count, width), grad.dtype)
        gemm(1, to_mapped[role, :count], first[:, half], 0, to_ends)
        for i in range(count):
            tree = rows[role, i]
            for d in range(width):
                to_h[tree, d] += to_ends[i, d]


@kernel(fastmath=HEEDFUL)
def fold(first, bias, before, before_bias, folded, folded_bias):
    """Two maps in one: with h = before z + before_bias, first (h_u ‖ h_v) + bias = folded (z_u ‖ z_v) + folded_bias."""
    dim, width = first.shape[0], before.shape[0]
    halves = first.reshape(2 * dim, width)
    gemm(1, halves, before, 0, folded.reshape(2 * dim, before.shape[1]))
    for i in range(dim):
        folded_bias[i] = bias[i]
        for d in range(width):
            folded_bias[i] += (halves[2 * i, d] + halves[2 * i + 1, d]) * before_bias[d]


@kernel(fastmath=HEEDFUL)
def fold_backward(to_folded, to_bias, first, before, before_bias, to_first, to_before, to_before_bias):
    """Fill the gradients of what was folded; that of `bias` is the one of `folded_bias`."""
    dim, width = first.shape[0], before.shape[0]
    halves, to_halves = first.reshape(2 * dim, width), to_first.reshape(2 * dim, width)
    to_folded = to_folded.reshape(2 * dim, before.shape[1])
    gemm(1, to_folded, before.T, 0, to_halves)
    gemm(1, halves.T, to_folded, 0, to_before)
    to_before_bias[:] = 0
    for i in range(2 * dim):
        g = to_bias[i // 2]
        for d in range(width):
            to_halves[i, d] += g * before_bias[d]
            to_before_bias[d] += g * halves[i, d]
