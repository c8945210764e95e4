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
def judge(places, source, destination, weight, out):
    """out[i] = weight · relu(source[places[0, i]] + destination[places[1, i]])."""
    zero = out.dtype.type(0)
    for pair in range(out.shape[0]):
        one, two = places[0, pair], places[1, pair]
        total = zero
        for d in range(weight.shape[0]):
            total += weight[d] * max(source[one, d] + destination[two, d], zero)
        out[pair] = total


@njit(cache=True, nogil=True, fastmath=True)
def judge_backward(places, source, destination, weight, grad, to_source, to_destination, to_weight):
    """Add to the gradients of everything."""
    zero = grad.dtype.type(0)
    for pair in range(grad.shape[0]):
        one, two, g = places[0, pair], places[1, pair], grad[pair]
        for d in range(weight.shape[0]):
            z = max(source[one, d] + destination[two, d], zero)
            to_weight[d] += g * z
        for d in range(weight.shape[0]):
            to = g * weight[d] if source[one, d] + destination[two, d] > zero else zero
            to_source[one, d] += to
            to_destination[two, d] += to
