"""Attention over a node's neighbors: gather, softmax and weighted sum in one loop. Plain arrays in and out; float32 or
float64.

A slot is one neighbor of one parent; the k slots of parent p are p*k … p*k + k - 1. What a slot holds is the vector

    c = node[node_of[slot]] ‖ event[event_of[slot]] ‖ position[slot] ‖ cos(frequency · dt[slot] + phase)

where any part may have width 0. Linear maps of keys and values commute with what is done here, so queries come mapped
into the space of c, and the answer is Σ weight · c, to be mapped once per parent: no slot is ever multiplied by a
matrix, and the time encodings of all slots are never stored.

The inner loops run along a row and mix no types, so that the compiler makes vector instructions of them. A place that
is a sum (`at_wave + d`) is unsigned for the same reason: a sum that could be negative would be looked at one by one.
Heads go in pairs, so that a row is read once for both, and rows have room for whole vectors: what is left over would be
done one by one. An odd number of heads gets one more, which asks nothing.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.models.kernels import HEEDFUL, TURN, lined_up, whole, wide_vectors


@inner(fastmath=HEEDFUL)
def lay_out(parent, k, node, node_of, event, event_of, position, dt, mask, frequency, phase, sine, c, slots):
    """Write c of every slot of a parent that is not empty, and which slots these are; returns how many.

    Frequency and phase in turns; `sine` is SINE in the type of the arrays.
    """
    wide_vectors()  # type: ignore[call-arg]
    states, features, positions = np.uint64(node.shape[1]), np.uint64(event.shape[1]), np.uint64(position.shape[1])
    waves = np.uint64(frequency.shape[0])
    at_event, at_position, at_wave = states, states + features, states + features + positions
    half, quarter = c.dtype.type(0.5), c.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    there = 0
    for slot in range(parent * k, parent * k + k):
        if not mask[slot]:
            continue
        row, carried, since = node_of[slot], event_of[slot], dt[slot]
        for d in range(states):
            c[there, d] = node[row, d]
        for d in range(features):
            c[there, at_event + d] = event[carried, d]
        for d in range(positions):
            c[there, at_position + d] = position[slot, d]
        for d in range(waves):
            turns = since * frequency[d] + phase[d]
            g = quarter - abs(turns - np.floor(turns + half))  # cos(2π x) = sin(2π (1/4 - |x|)), |x| <= 1/2
            y = g * g
            c[there, at_wave + d] = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4))))
        slots[there] = slot
        there += 1
    return there


@kernel(fastmath=HEEDFUL, error_model="numpy")
def attend(
    first, last, k, query, query_of, offset, slope, node, node_of, event, event_of, position, dt, mask, frequency,
    phase, sine, out, weight,
):  # fmt: skip
    """For the parents p = first … last - 1 with r = query_of[p]:

        weight[h, p] = softmax over the slots of leaky(query[h, r] · c + offset[h, r])        out[h, p] = Σ weight · c

    Zeros for a parent without neighbors. leaky(x) is x, and slope · x where negative; slope 1 is no bend.
    """
    wide_vectors()  # type: ignore[call-arg]
    heads, width = query.shape[0], query.shape[2]
    zero, one = query.dtype.type(0), query.dtype.type(1)
    turn = query.dtype.type(TURN)
    frequency, phase = frequency * turn, phase * turn
    room = whole(width)
    c, slots = lined_up(k + 1, room, query.dtype), np.empty(k, np.int64)
    q, total = lined_up(2, room, query.dtype), lined_up(2, room, query.dtype)
    score = np.empty((2, k + 1), query.dtype)
    for parent in range(first, last):
        asks = query_of[parent]
        there = lay_out(parent, k, node, node_of, event, event_of, position, dt, mask, frequency, phase, sine, c, slots)
        for head in range(0, heads, 2):
            pair = min(2, heads - head)
            for one_of in range(pair):
                for d in range(width):
                    q[one_of, d] = query[head + one_of, asks, d]
                for child in range(k):
                    weight[head + one_of, parent, child] = zero
            for child in range(there):
                a = b = zero
                for d in range(room):
                    a += q[0, d] * c[child, d]
                    b += q[1, d] * c[child, d]
                score[0, child], score[1, child] = a, b
            for one_of in range(pair):
                shift = offset[head + one_of, asks]
                most = -query.dtype.type(np.inf)
                for child in range(there):
                    s = score[one_of, child] + shift
                    if s < zero:
                        s *= slope
                    score[one_of, child] = s
                    most = max(most, s)
                mass = zero
                for child in range(there):
                    score[one_of, child] = np.exp(score[one_of, child] - most)
                    mass += score[one_of, child]
                share = one / mass if there else zero
                for child in range(there):
                    score[one_of, child] *= share
                    weight[head + one_of, parent, slots[child] - parent * k] = score[one_of, child]
            for d in range(room):
                total[0, d] = zero
                total[1, d] = zero
            score[0, there] = score[1, there] = zero
            for child in range(0, there, 2):  # two at a time: fewer passes over the totals
                a, b, e, f = score[0, child], score[1, child], score[0, child + 1], score[1, child + 1]
                for d in range(room):
                    total[0, d] += a * c[child, d] + e * c[child + 1, d]
                    total[1, d] += b * c[child, d] + f * c[child + 1, d]
            for one_of in range(pair):
                for d in range(width):
                    out[head + one_of, parent, d] = total[one_of, d]


@kernel(fastmath=HEEDFUL)
def attend_backward(
    first, last, k, query, query_of, offset, slope, node, node_of, event, event_of, position, dt, mask, frequency,
    phase, sine, weight, grad, grad_query, grad_offset, grad_node, grad_frequency, grad_phase,
):  # fmt: skip
    """Add to the gradients of queries, offsets, nodes and waves what the parents first … last - 1 give to them.

    c is computed again.
    """
    wide_vectors()  # type: ignore[call-arg]
    heads, width = query.shape[0], query.shape[2]
    states, waves = np.uint64(node.shape[1]), np.uint64(frequency.shape[0])
    at_wave = np.uint64(width) - waves
    zero, one = query.dtype.type(0), query.dtype.type(1)
    half, quarter = query.dtype.type(0.5), query.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    turn = query.dtype.type(TURN)
    frequency, phase = frequency * turn, phase * turn
    room = whole(width)
    c, to_c = lined_up(k, room, query.dtype), lined_up(k, room, query.dtype)
    q, g_out, to_q = (lined_up(2, room, query.dtype), lined_up(2, room, query.dtype), lined_up(2, room, query.dtype))
    slots, along = np.empty(k, np.int64), np.empty((2, k), query.dtype)
    to_phase, to_frequency = np.zeros(waves, query.dtype), np.zeros(waves, query.dtype)
    for parent in range(first, last):
        asks = query_of[parent]
        there = lay_out(parent, k, node, node_of, event, event_of, position, dt, mask, frequency, phase, sine, c, slots)
        for head in range(0, heads, 2):
            pair = min(2, heads - head)
            for one_of in range(pair):
                for d in range(width):
                    q[one_of, d] = query[head + one_of, asks, d]
                for d in range(width):
                    g_out[one_of, d] = grad[head + one_of, parent, d]
            if pair == 1:
                for d in range(room):
                    q[1, d] = zero
                    g_out[1, d] = zero
            for d in range(room):
                to_q[0, d] = zero
                to_q[1, d] = zero
            for child in range(there):
                a = b = zero
                for d in range(room):
                    a += g_out[0, d] * c[child, d]
                    b += g_out[1, d] * c[child, d]
                along[0, child], along[1, child] = a, b
            for one_of in range(pair):
                mine = head + one_of
                mean = zero
                for child in range(there):
                    mean += weight[mine, parent, slots[child] - parent * k] * along[one_of, child]
                shift, to_shift = offset[mine, asks], zero
                for child in range(there):  # from here on `along` is the gradient of the score
                    to_score = weight[mine, parent, slots[child] - parent * k] * (along[one_of, child] - mean)
                    if slope != one:
                        s = shift
                        for d in range(width):
                            s += q[one_of, d] * c[child, d]
                        if s < zero:
                            to_score *= slope
                        to_shift += to_score
                    along[one_of, child] = to_score
                grad_offset[mine, asks] += to_shift
            for child in range(there):
                at = slots[child] - parent * k
                a, ta = weight[head, parent, at], along[0, child]
                b, tb = (weight[head + 1, parent, at], along[1, child]) if pair == 2 else (zero, zero)
                if head:
                    for d in range(room):
                        to_c[child, d] += a * g_out[0, d] + ta * q[0, d] + b * g_out[1, d] + tb * q[1, d]
                else:
                    for d in range(room):
                        to_c[child, d] = a * g_out[0, d] + ta * q[0, d] + b * g_out[1, d] + tb * q[1, d]
                for d in range(room):
                    to_q[0, d] += ta * c[child, d]
                    to_q[1, d] += tb * c[child, d]
            for one_of in range(pair):
                for d in range(width):
                    grad_query[head + one_of, asks, d] += to_q[one_of, d]
        for child in range(there):
            row, since = node_of[slots[child]], dt[slots[child]]
            for d in range(states):
                grad_node[row, d] += to_c[child, d]
            for d in range(waves):
                turns = since * frequency[d] + phase[d] - quarter  # sin(x) = cos(x - a quarter turn)
                g = quarter - abs(turns - np.floor(turns + half))
                y = g * g
                s = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4)))) * to_c[child, at_wave + d]
                to_phase[d] += s
                to_frequency[d] += since * s
    for d in range(waves):
        grad_phase[d] -= to_phase[d]
        grad_frequency[d] -= to_frequency[d]
