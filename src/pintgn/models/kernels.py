"""Fused loops of message passing. Plain arrays in and out; float32 or float64.

A slot is one neighbor of one parent; the k slots of parent p are p*k … p*k + k - 1. The pre-activation of a slot is

    z = bias + node[node_of[slot]] + event[event_of[slot]] + Σ_j position[slot, j] · mix[j]

where any of the three parts may be absent (an array of no rows). Slots of weight 0 are empty: nothing is read for them.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _preactivation(z, slot, bias, node, node_of, event, event_of, position, mix):
    width = z.shape[0]
    for d in range(width):
        z[d] = bias[d]
    if node.shape[0]:
        row = node_of[slot]
        for d in range(width):
            z[d] += node[row, d]
    if event.shape[0]:
        row = event_of[slot]
        for d in range(width):
            z[d] += event[row, d]
    for j in range(mix.shape[0]):
        value = position[slot, j]
        if value != 0:
            for d in range(width):
                z[d] += value * mix[j, d]


@njit(cache=True, nogil=True, fastmath=True)
def weighted_relu_sum(first, last, k, bias, node, node_of, event, event_of, position, mix, weight, out):
    """out[p] = Σ over the slots of p of weight · relu(z), for the parents first … last - 1."""
    width = out.shape[1]
    z = np.empty(width, out.dtype)
    for parent in range(first, last):
        for d in range(width):
            out[parent, d] = 0
        for slot in range(parent * k, parent * k + k):
            w = weight[slot]
            if w == 0:
                continue
            _preactivation(z, slot, bias, node, node_of, event, event_of, position, mix)
            for d in range(width):
                out[parent, d] += w * max(z[d], 0)


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
    width = grad.shape[1]
    z = np.empty(width, grad.dtype)
    for parent in range(first, last):
        for slot in range(parent * k, parent * k + k):
            w = weight[slot]
            if w == 0:
                continue
            _preactivation(z, slot, bias, node, node_of, event, event_of, position, mix)
            along = grad.dtype.type(0)
            for d in range(width):
                g = grad[parent, d]
                along += g * max(z[d], 0)
                z[d] = w * g if z[d] > 0 else 0
            grad_weight[slot] = along
            for d in range(width):
                grad_bias[d] += z[d]
            if node.shape[0]:
                row = node_of[slot]
                for d in range(width):
                    grad_node[row, d] += z[d]
            if event.shape[0]:
                row = event_of[slot]
                for d in range(width):
                    grad_event[row, d] += z[d]
            for j in range(mix.shape[0]):
                value = position[slot, j]
                if value != 0:
                    for d in range(width):
                        grad_mix[j, d] += value * z[d]


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
