"""The judgement of pairs whose ends are shared: what both ends add, a ReLU, a weighted sum. Plain arrays in and out."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, fastmath=True)
def judge(places, source, destination, weight, bias, out):
    """out[i] = weight · relu(source[places[0, i]] + destination[places[1, i]]) + bias; weight is (1, d), bias (1,)."""
    zero = out.dtype.type(0)
    for pair in range(out.shape[0]):
        one, two = places[0, pair], places[1, pair]
        total = bias[0]
        for d in range(weight.shape[1]):
            total += weight[0, d] * max(source[one, d] + destination[two, d], zero)
        out[pair] = total


@njit(cache=True, nogil=True, fastmath=True)
def judge_backward(
    places, source, destination, weight, grad, to_source, to_destination, to_source_bias, to_weight, to_bias
):  # fmt: skip
    """Add to the gradients of everything; `to_source_bias` is that of all sources together."""
    zero = grad.dtype.type(0)
    for pair in range(grad.shape[0]):
        one, two, g = places[0, pair], places[1, pair], grad[pair]
        for d in range(weight.shape[1]):
            z = max(source[one, d] + destination[two, d], zero)
            to_weight[0, d] += g * z
        for d in range(weight.shape[1]):
            to = g * weight[0, d] if source[one, d] + destination[two, d] > zero else zero
            to_source[one, d] += to
            to_destination[two, d] += to
            to_source_bias[d] += to
        to_bias[0] += g
