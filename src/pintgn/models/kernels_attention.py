"""Fused loops of attention over a node's neighbors. Plain arrays in and out; float32 or float64.

A slot is one neighbor of one parent; the k slots of parent p are p*k … p*k + k - 1. What a slot holds is the vector

    c = node[node_of[slot]] ‖ event[event_of[slot]] ‖ position[slot] ‖ cos(frequency · dt[slot] + phase)

where any part may have width 0. Linear maps of keys and values commute with what is done here, so queries come mapped
into the space of c, and the answer is Σ weight · c, to be mapped once per parent: no slot is ever multiplied by a
matrix, and the time encodings of all slots are never stored.

The inner loops run along a row and mix no types, so that the compiler makes vector instructions of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# sin(2π g) = g · P(g²) for g in [-1/4, 1/4]; P by least squares, error below 4e-9
SINE = np.array([6.28318515961, -41.3416549293, 81.6009981926, -76.5496568205, 39.5358137107])
TURN = 1 / (2 * np.pi)


@njit(cache=True, nogil=True, fastmath=True)
def attend(
    first, last, k, query, query_of, offset, slope, node, node_of, event, event_of, position, dt, mask, frequency,
    phase, sine, out, weight,
):  # fmt: skip
    """For the parents p = first … last - 1 with r = query_of[p]:

        weight[p, h] = softmax over the slots of leaky(query[r, h] · c + offset[r, h])        out[p, h] = Σ weight · c

    Zeros for a parent without neighbors. leaky(x) is x, and slope · x where negative; slope 1 is no bend.

    `frequency` and `phase` are given in turns (divided by 2π); `sine` is SINE in the type of the arrays.
    """
    heads, width = query.shape[1], query.shape[2]
    states, features, positions, waves = node.shape[1], event.shape[1], position.shape[1], frequency.shape[0]
    at_event, at_position, at_wave = states, states + features, states + features + positions
    zero, one = query.dtype.type(0), query.dtype.type(1)
    half, quarter = query.dtype.type(0.5), query.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    c = np.empty((k, width), query.dtype)
    q, total = np.empty(width, query.dtype), np.empty(width, query.dtype)
    score = np.empty(k, query.dtype)
    for parent in range(first, last):
        asks, there = query_of[parent], 0
        for child in range(k):
            slot = parent * k + child
            if not mask[slot]:
                continue
            there += 1
            row, carried, since = node_of[slot], event_of[slot], dt[slot]
            for d in range(states):
                c[child, d] = node[row, d]
            for d in range(features):
                c[child, at_event + d] = event[carried, d]
            for d in range(positions):
                c[child, at_position + d] = position[slot, d]
            for d in range(waves):
                turns = since * frequency[d] + phase[d]
                g = quarter - abs(turns - np.floor(turns + half))  # cos(2π x) = sin(2π (1/4 - |x|)), |x| <= 1/2
                y = g * g
                c[child, at_wave + d] = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4))))
        for head in range(heads):
            for d in range(width):
                total[d] = zero
            if there:
                for d in range(width):
                    q[d] = query[asks, head, d]
                shift = offset[asks, head]
                most = -query.dtype.type(np.inf)
                for child in range(k):
                    if mask[parent * k + child]:
                        s = zero
                        for d in range(width):
                            s += q[d] * c[child, d]
                        s += shift
                        if s < zero:
                            s *= slope
                        score[child] = s
                        most = max(most, s)
                mass = zero
                for child in range(k):
                    if mask[parent * k + child]:
                        score[child] = np.exp(score[child] - most)
                        mass += score[child]
                share = one / mass
                for child in range(k):
                    a = score[child] * share if mask[parent * k + child] else zero
                    weight[parent, head, child] = a
                    if a != zero:
                        for d in range(width):
                            total[d] += a * c[child, d]
            else:
                for child in range(k):
                    weight[parent, head, child] = zero
            for d in range(width):
                out[parent, head, d] = total[d]


@njit(cache=True, nogil=True, fastmath=True)
def attend_backward(
    first, last, k, query, query_of, offset, slope, node, node_of, event, event_of, position, dt, mask, frequency,
    phase, sine, weight, grad, grad_query, grad_offset, grad_node, grad_frequency, grad_phase,
):  # fmt: skip
    """Add to the gradients of queries, offsets, nodes and waves what the parents first … last - 1 give to them.

    c is computed again. Gradients of frequency and phase are in radians, as if they had not been given in turns.
    """
    heads, width = query.shape[1], query.shape[2]
    states, features, positions, waves = node.shape[1], event.shape[1], position.shape[1], frequency.shape[0]
    at_event, at_position, at_wave = states, states + features, states + features + positions
    zero, one = query.dtype.type(0), query.dtype.type(1)
    half, quarter = query.dtype.type(0.5), query.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    c, to_c = np.empty((k, width), query.dtype), np.empty((k, width), query.dtype)
    q, g_out, to_q = np.empty(width, query.dtype), np.empty(width, query.dtype), np.empty(width, query.dtype)
    along = np.empty(k, query.dtype)
    for parent in range(first, last):
        asks = query_of[parent]
        for child in range(k):
            slot = parent * k + child
            if not mask[slot]:
                continue
            row, carried, since = node_of[slot], event_of[slot], dt[slot]
            for d in range(states):
                c[child, d] = node[row, d]
            for d in range(features):
                c[child, at_event + d] = event[carried, d]
            for d in range(positions):
                c[child, at_position + d] = position[slot, d]
            for d in range(waves):
                turns = since * frequency[d] + phase[d]
                g = quarter - abs(turns - np.floor(turns + half))  # cos(2π x) = sin(2π (1/4 - |x|)), |x| <= 1/2
                y = g * g
                c[child, at_wave + d] = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4))))
            for d in range(width):
                to_c[child, d] = zero
        for head in range(heads):
            for d in range(width):
                q[d] = query[asks, head, d]
                g_out[d] = grad[parent, head, d]
                to_q[d] = zero
            mean = zero
            for child in range(k):
                if mask[parent * k + child]:
                    s = zero
                    for d in range(width):
                        s += g_out[d] * c[child, d]
                    along[child] = s
                    mean += weight[parent, head, child] * s
            shift, to_shift = offset[asks, head], zero
            for child in range(k):
                if mask[parent * k + child]:
                    a = weight[parent, head, child]
                    to_score = a * (along[child] - mean)
                    if slope != one:
                        s = shift
                        for d in range(width):
                            s += q[d] * c[child, d]
                        if s < zero:
                            to_score *= slope
                        to_shift += to_score
                    for d in range(width):
                        to_q[d] += to_score * c[child, d]
                        to_c[child, d] += a * g_out[d] + to_score * q[d]
            grad_offset[asks, head] += to_shift
            for d in range(width):
                grad_query[asks, head, d] += to_q[d]
        for child in range(k):
            slot = parent * k + child
            if not mask[slot]:
                continue
            row, since = node_of[slot], dt[slot]
            for d in range(states):
                grad_node[row, d] += to_c[child, d]
            for d in range(waves):
                turns = since * frequency[d] + phase[d] - quarter  # sin(x) = cos(x - a quarter turn)
                g = quarter - abs(turns - np.floor(turns + half))
                y = g * g
                s = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4)))) * to_c[child, at_wave + d]
                grad_phase[d] -= s
                grad_frequency[d] -= since * s
