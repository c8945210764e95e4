"""Native look-ups about two nodes: when they last met, how often, which way. `kernels` has the arrays and gates."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.neighbors.kernels import visible

BLOCK = np.uint64(32)


@inner
def find(ids, first, stop, node):
    """First index in [first, stop) that names the node, else stop. Blocks compare as vectors."""
    p, end = np.uint64(first), np.uint64(stop)
    while p + BLOCK <= end:
        hit = False
        for j in range(BLOCK):
            hit |= ids[p + j] == node
        if hit:
            break
        p += BLOCK
    while p < end and ids[p] != node:
        p += np.uint64(1)
    return np.int64(p)


@inner
def tally(ids, first, stop, node):
    """How often [first, stop) names the node."""
    total = 0
    for p in range(np.uint64(first), np.uint64(stop)):
        total += ids[p] == node
    return total


@inner
def shorter_first(heads, times, numbers, u, v, t, before):
    """Of two nodes the entries that a query may see, and whom to look for in them; the shorter list comes first.

    Both hold an entry for what they had with each other, so the shorter list will do. Only where trimming was `uneven`
    it may have dropped one of the two: each list keeps its newest, so then the other is read where the first has less.
    """
    first, stop = visible(heads, times, numbers, u, t, before, False, t)
    other_first, other_stop = visible(heads, times, numbers, v, t, before, False, t)
    if other_stop - other_first < stop - first:
        return other_first, other_stop, u, first, stop, v
    return first, stop, v, other_first, other_stop, u


@kernel
def last(heads, ids, times, numbers, uneven, src, dst, t, before, out_t, out_numbers, out_met):
    """The last event between two nodes that each query may see."""
    for q in range(src.shape[0]):
        first, stop, target, other_first, other_stop, other = shorter_first(
            heads, times, numbers, src[q], dst[q], t[q], before[q]
        )
        p = find(ids, first, stop, target)
        if p == stop and uneven:
            p, stop = find(ids, other_first, other_stop, other), other_stop
        out_met[q] = p < stop
        out_t[q] = times[p] if p < stop else 0
        out_numbers[q] = numbers[p] if p < stop else 0


@kernel
def count(heads, ids, times, numbers, uneven, src, dst, t, before, out):
    """How many events between two nodes each query may see."""
    for q in range(src.shape[0]):
        first, stop, target, other_first, other_stop, other = shorter_first(
            heads, times, numbers, src[q], dst[q], t[q], before[q]
        )
        out[q] = tally(ids, first, stop, target)
        if uneven:
            out[q] = max(out[q], tally(ids, other_first, other_stop, other))


@inner
def count_outgoing(outgoing, first, stop):
    """How many entries of [first, stop) go out."""
    total = 0
    for p in range(np.uint64(first), np.uint64(stop)):
        total += outgoing[p]
    return total


@inner
def tally_outgoing(ids, outgoing, first, stop, node):
    """How often [first, stop) names the node in an entry that goes out."""
    total = 0
    for p in range(np.uint64(first), np.uint64(stop)):
        total += (ids[p] == node) & (outgoing[p] == 1)
    return total


@inner
def newest(ids, times, outgoing, first, node, direction):
    """Time of the newest entry from `first` on that names the node (-1: anyone) and goes this way; there is one."""
    p = first
    while (node >= 0 and ids[p] != node) or outgoing[p] != direction:
        p += 1
    return times[p]


@kernel
def pair_history(heads, ids, times, numbers, uneven, outgoing, src, dst, t, before, counts, dt):
    """How often, and how long ago at last: u to v, v to u, u to anyone, anyone to u, v to anyone, anyone to v.

    What two nodes had with each other stands in both lists, so the shorter one is read; see `shorter_first`.
    """
    for q in range(src.shape[0]):
        u, v, now, gate = src[q], dst[q], t[q], before[q]
        for i in range(6):
            counts[q, i] = 0
            dt[q, i] = 0
        first_u, stop_u = visible(heads, times, numbers, u, now, gate, False, now)
        first_v, stop_v = visible(heads, times, numbers, v, now, gate, False, now)
        for side in range(2):
            first, stop = (first_u, stop_u) if side == 0 else (first_v, stop_v)
            out = count_outgoing(outgoing, first, stop)
            if out > 0:
                counts[q, 2 + 2 * side] = out
                dt[q, 2 + 2 * side] = now - newest(ids, times, outgoing, first, -1, 1)
            if stop - first > out:
                counts[q, 3 + 2 * side] = stop - first - out
                dt[q, 3 + 2 * side] = now - newest(ids, times, outgoing, first, -1, 0)
        shorter_is_u = stop_u - first_u <= stop_v - first_v
        for again in range(2 if uneven else 1):
            reads_u = shorter_is_u == (again == 0)
            first, stop, target = (first_u, stop_u, v) if reads_u else (first_v, stop_v, u)
            met, out = tally(ids, first, stop, target), 0
            if met > 0:
                out = tally_outgoing(ids, outgoing, first, stop, target)
            forward, back = (out, met - out) if reads_u else (met - out, out)  # from u to v, from v to u
            if forward > counts[q, 0]:
                counts[q, 0] = forward
                dt[q, 0] = now - newest(ids, times, outgoing, first, target, 1 if reads_u else 0)
            if back > counts[q, 1]:
                counts[q, 1] = back
                dt[q, 1] = now - newest(ids, times, outgoing, first, target, 0 if reads_u else 1)
