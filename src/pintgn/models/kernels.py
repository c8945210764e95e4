"""Fused loops of message passing. Plain arrays in and out; float32 or float64.

A slot is one neighbor of one parent; the k slots of parent p are p*k … p*k + k - 1. The pre-activation of a slot is

    z = bias + node[node_of[slot]] + event[event_of[slot]] + Σ_j position[slot, j] · mix[j]

where any of the three parts may be absent (an array of no rows). Slots of weight 0 are empty: nothing is read for them.

The inner loops run along a row and mix no types (hence `zero`), so that the compiler makes vector instructions of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath=True)
def weighted_relu_sum(first, last, k, bias, node, node_of, event, event_of, position, mix, weight, out):
    """out[p] = Σ over the slots of p of weight · relu(z), for the parents first … last - 1."""
    width, zero = out.shape[1], out.dtype.type(0)
    with_node, with_event, length = node.shape[0] > 0, event.shape[0] > 0, mix.shape[0]
    whole = length - length % 4  # positions are added four at a time: fewer passes over z
    z, total = np.empty(width, out.dtype), np.empty(width, out.dtype)
    for parent in range(first, last):
        for d in range(width):
            total[d] = zero
        for slot in range(parent * k, parent * k + k):
            w = weight[slot]
            if w == zero:
                continue
            # z; written out here and below, because a function of its own, inlined or not, is ten times slower
            if with_node:
                row = node_of[slot]
                for d in range(width):
                    z[d] = bias[d] + node[row, d]
            else:
                for d in range(width):
                    z[d] = bias[d]
            if with_event:
                row = event_of[slot]
                for d in range(width):
                    z[d] += event[row, d]
            for j in range(0, whole, 4):
                a, b, c, e = position[slot, j], position[slot, j + 1], position[slot, j + 2], position[slot, j + 3]
                if a != zero or b != zero or c != zero or e != zero:
                    for d in range(width):
                        z[d] += a * mix[j, d] + b * mix[j + 1, d] + c * mix[j + 2, d] + e * mix[j + 3, d]
            for j in range(whole, length):
                a = position[slot, j]
                for d in range(width):
                    z[d] += a * mix[j, d]
            for d in range(width):
                total[d] += w * max(z[d], zero)
        for d in range(width):
            out[parent, d] = total[d]


@njit(cache=True, nogil=True, fastmath=True)
def weighted_relu_sum_backward(
    first,
    last,
    k,
    bias,
    node,
    node_of,
    event,
    event_of,
    position,
    mix,
    weight,
    grad,
    grad_bias,
    grad_node,
    grad_event,
    grad_mix,
    grad_weight,
):
    """Add to the gradients of everything but the positions, for the parents first … last - 1. z is computed again."""
    width, zero = grad.shape[1], grad.dtype.type(0)
    with_node, with_event, length = node.shape[0] > 0, event.shape[0] > 0, mix.shape[0]
    whole = length - length % 4  # positions are added four at a time: fewer passes over z
    z, g = np.empty(width, grad.dtype), np.empty(width, grad.dtype)
    padded = k + 3  # a multiple of four slots is always there to be read
    by_slot = np.zeros((padded, width), grad.dtype)  # gradients of z of one parent's slots; zeros where empty
    for parent in range(first, last):
        for d in range(width):
            g[d] = grad[parent, d]
        for child in range(k):
            slot = parent * k + child
            w = weight[slot]
            if w == zero:
                for d in range(width):
                    by_slot[child, d] = zero
                continue
            if with_node:
                row = node_of[slot]
                for d in range(width):
                    z[d] = bias[d] + node[row, d]
            else:
                for d in range(width):
                    z[d] = bias[d]
            if with_event:
                row = event_of[slot]
                for d in range(width):
                    z[d] += event[row, d]
            for j in range(0, whole, 4):
                a, b, c, e = position[slot, j], position[slot, j + 1], position[slot, j + 2], position[slot, j + 3]
                if a != zero or b != zero or c != zero or e != zero:
                    for d in range(width):
                        z[d] += a * mix[j, d] + b * mix[j + 1, d] + c * mix[j + 2, d] + e * mix[j + 3, d]
            for j in range(whole, length):
                a = position[slot, j]
                for d in range(width):
                    z[d] += a * mix[j, d]

            along = zero
            for d in range(width):
                along += g[d] * max(z[d], zero)
            grad_weight[slot] = along
            for d in range(width):
                by_slot[child, d] = w * g[d] if z[d] > zero else zero
            if with_node:
                row = node_of[slot]
                for d in range(width):
                    grad_node[row, d] += by_slot[child, d]
            if with_event:
                row = event_of[slot]
                for d in range(width):
                    grad_event[row, d] += by_slot[child, d]
        for child in range(0, k, 4):
            for d in range(width):
                grad_bias[d] += (
                    by_slot[child, d] + by_slot[child + 1, d] + by_slot[child + 2, d] + by_slot[child + 3, d]
                )
            slot = parent * k + child
            for j in range(length):
                a = position[slot, j]
                b = position[slot + 1, j] if child + 1 < k else zero
                c = position[slot + 2, j] if child + 2 < k else zero
                e = position[slot + 3, j] if child + 3 < k else zero
                if a != zero or b != zero or c != zero or e != zero:
                    for d in range(width):
                        grad_mix[j, d] += (
                            a * by_slot[child, d]
                            + b * by_slot[child + 1, d]
                            + c * by_slot[child + 2, d]
                            + e * by_slot[child + 3, d]
                        )


@njit(cache=True, nogil=True)
def number_distinct(values, valid, table, distinct, where):
    """Number the distinct valid values in order of first appearance; returns how many there are.

    `table` has a -1 for every possible value and is left so. Invalid entries get number 0.
    """
    count = 0
    for i in range(values.shape[0]):
        if not valid[i]:
            where[i] = 0
            continue
        value = values[i]
        if table[value] < 0:
            table[value] = count
            distinct[count] = value
            count += 1
        where[i] = table[value]
    for i in range(count):
        table[distinct[i]] = -1
    return count
