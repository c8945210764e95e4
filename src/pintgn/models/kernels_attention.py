"""Attention over a node's neighbors: gather, softmax and weighted sum in one loop. Plain arrays in and out; float32 or
float64.

A slot is one neighbor of one parent; the k slots of parent p are p*k … p*k + k - 1. What a slot holds is the vector

    c = node[node_of[slot]] ‖ event[event_of[slot]] ‖ position[slot] ‖ cos(frequency · dt[slot] + phase)

where any part may have width 0. Linear maps of keys and values commute with what is done here, so queries come mapped
into the space of c, and the answer is Σ weight · c, to be mapped once per parent: no slot is ever multiplied by a
matrix, and the time encodings of all slots are never stored.

The inner loops run along a row and mix no types, so that the compiler makes vector instructions of them. An index
that is a sum (`at_time + d`) is unsigned for the same reason: one that could be negative would be checked each time.
Rows are padded with zeros to whole vectors (`full` columns).
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.models.kernels_trees import NAN_SAFE_FASTMATH, TURN, aligned, padded_width, wide_vectors


@inner(fastmath=NAN_SAFE_FASTMATH)
def gather(parent, k, node, node_of, event, event_of, position, dt, mask, frequency, phase, sine, c, slots):
    """Write c of every slot of a parent that is not empty, and which slots these are; returns how many.

    Frequency and phase in turns; `sine` is SINE in the type of the arrays.
    """
    wide_vectors()  # type: ignore[call-arg]
    states, features, positions = np.uint64(node.shape[1]), np.uint64(event.shape[1]), np.uint64(position.shape[1])
    time_dim = np.uint64(frequency.shape[0])
    at_event, at_position, at_time = states, states + features, states + features + positions
    half, quarter = c.dtype.type(0.5), c.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    count = 0
    for slot in range(parent * k, parent * k + k):
        if not mask[slot]:
            continue
        row, carried, since = node_of[slot], event_of[slot], dt[slot]
        for d in range(states):
            c[count, d] = node[row, d]
        for d in range(features):
            c[count, at_event + d] = event[carried, d]
        for d in range(positions):
            c[count, at_position + d] = position[slot, d]
        for d in range(time_dim):
            turns = since * frequency[d] + phase[d]
            g = quarter - abs(turns - np.floor(turns + half))  # cos(2π x) = sin(2π (1/4 - |x|)), |x| <= 1/2
            y = g * g
            c[count, at_time + d] = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4))))
        slots[count] = slot
        count += 1
    return count


@kernel(fastmath=NAN_SAFE_FASTMATH, error_model="numpy")
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
    zero, one, turn = query.dtype.type(0), query.dtype.type(1), query.dtype.type(TURN)
    frequency, phase = frequency * turn, phase * turn
    full = padded_width(width)
    c, slots, score = aligned(k + 1, full, query.dtype), np.empty(k, np.int64), np.empty(k + 1, query.dtype)
    q, total = aligned(1, full, query.dtype)[0], aligned(1, full, query.dtype)[0]
    for parent in range(first, last):
        asks = query_of[parent]
        count = gather(parent, k, node, node_of, event, event_of, position, dt, mask, frequency, phase, sine, c, slots)
        for head in range(heads):
            shift, most, mass = offset[head, asks], -query.dtype.type(np.inf), zero
            for d in range(width):
                q[d] = query[head, asks, d]
            for child in range(count):
                s = zero
                for d in range(full):
                    s += q[d] * c[child, d]
                s += shift
                if s < zero:
                    s *= slope
                score[child] = s
                most = max(most, s)
            for child in range(count):
                score[child] = np.exp(score[child] - most)
                mass += score[child]
            share = one / mass if count else zero
            for child in range(k):
                weight[head, parent, child] = zero
            for child in range(count):
                score[child] *= share
                weight[head, parent, slots[child] - parent * k] = score[child]
            for d in range(full):
                total[d] = zero
            score[count] = zero
            for child in range(0, count, 2):  # two at a time: fewer passes over the totals
                a, b = score[child], score[child + 1]
                for d in range(full):
                    total[d] += a * c[child, d] + b * c[child + 1, d]
            for d in range(width):
                out[head, parent, d] = total[d]


@kernel(fastmath=NAN_SAFE_FASTMATH)
def attend_backward(
    first, last, k, query, query_of, offset, slope, node, node_of, event, event_of, position, dt, mask, frequency,
    phase, sine, weight, grad, grad_query, grad_offset, grad_node, grad_frequency, grad_phase,
):  # fmt: skip
    """Add to the gradients of queries, offsets, nodes, frequencies and phases, for the parents first … last - 1.

    c is computed again.
    """
    wide_vectors()  # type: ignore[call-arg]
    heads, width = query.shape[0], query.shape[2]
    states, time_dim = np.uint64(node.shape[1]), np.uint64(frequency.shape[0])
    at_time = np.uint64(width) - time_dim
    zero, one, turn = query.dtype.type(0), query.dtype.type(1), query.dtype.type(TURN)
    half, quarter = query.dtype.type(0.5), query.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    frequency, phase = frequency * turn, phase * turn
    full = padded_width(width)
    c, to_c = aligned(k, full, query.dtype), aligned(k, full, query.dtype)
    rows = aligned(3, full, query.dtype)
    q, g_out, to_q = rows[0], rows[1], rows[2]
    slots, along = np.empty(k, np.int64), np.empty(k, query.dtype)
    to_phase, to_frequency = np.zeros(time_dim, query.dtype), np.zeros(time_dim, query.dtype)
    for parent in range(first, last):
        asks = query_of[parent]
        count = gather(parent, k, node, node_of, event, event_of, position, dt, mask, frequency, phase, sine, c, slots)
        for child in range(count):
            for d in range(full):
                to_c[child, d] = zero
        for head in range(heads):
            mean, to_shift = zero, zero
            for d in range(width):
                q[d] = query[head, asks, d]
                g_out[d] = grad[head, parent, d]
            for d in range(full):
                to_q[d] = zero
            for child in range(count):
                s = zero
                for d in range(full):
                    s += g_out[d] * c[child, d]
                along[child] = s
                mean += weight[head, parent, slots[child] - parent * k] * s
            for child in range(count):
                a = weight[head, parent, slots[child] - parent * k]
                to_score = a * (along[child] - mean)
                if slope != one:
                    s = offset[head, asks]
                    for d in range(full):
                        s += q[d] * c[child, d]
                    if s < zero:
                        to_score *= slope
                    to_shift += to_score
                for d in range(full):
                    to_c[child, d] += a * g_out[d] + to_score * q[d]
                for d in range(full):
                    to_q[d] += to_score * c[child, d]
            grad_offset[head, asks] += to_shift
            for d in range(width):
                grad_query[head, asks, d] += to_q[d]
        for child in range(count):
            row, since = node_of[slots[child]], dt[slots[child]]
            for d in range(states):
                grad_node[row, d] += to_c[child, d]
            for d in range(time_dim):
                turns = since * frequency[d] + phase[d] - quarter  # sin(x) = cos(x - a quarter turn)
                g = quarter - abs(turns - np.floor(turns + half))
                y = g * g
                s = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4)))) * to_c[child, at_time + d]
                to_phase[d] += s
                to_frequency[d] += since * s
    for d in range(time_dim):
        grad_phase[d] -= to_phase[d]
        grad_frequency[d] -= to_frequency[d]
