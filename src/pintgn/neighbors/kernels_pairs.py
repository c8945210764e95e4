"""Native look-ups about two nodes: when they last met, how often, which way. `kernels` has the arrays and gates.

`at_src` and `at_dst` say where the lists of two nodes are: their own numbers, unless the index is shared out by node.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.neighbors.kernels import visible, window_end

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
def shorter_first(heads, times, numbers, at_u, at_v, u, v, t, before):
    """Of two nodes the entries that a query may see, and whom to look for in them; the shorter list comes first.

    Both hold an entry for what they had with each other, so the shorter list will do. Only where trimming was `uneven`
    it may have dropped one of the two: each list keeps its newest, so then the other is read where the first has less.
    """
    first, stop = visible(heads, times, numbers, at_u, t, before, False, t)
    other_first, other_stop = visible(heads, times, numbers, at_v, t, before, False, t)
    if other_stop - other_first < stop - first:
        return other_first, other_stop, u, first, stop, v
    return first, stop, v, other_first, other_stop, u


@kernel
def last(heads, ids, times, numbers, uneven, at_src, at_dst, src, dst, t, before, out_t, out_numbers, out_met):
    """The last event between two nodes that each query may see."""
    for q in range(src.shape[0]):
        first, stop, target, other_first, other_stop, other = shorter_first(
            heads, times, numbers, at_src[q], at_dst[q], src[q], dst[q], t[q], before[q]
        )
        p = find(ids, first, stop, target)
        if p == stop and uneven:
            p, stop = find(ids, other_first, other_stop, other), other_stop
        out_met[q] = p < stop
        out_t[q] = times[p] if p < stop else 0
        out_numbers[q] = numbers[p] if p < stop else 0


@kernel
def count(heads, ids, times, numbers, uneven, at_src, at_dst, src, dst, t, before, out):
    """How many events between two nodes each query may see."""
    for q in range(src.shape[0]):
        first, stop, target, other_first, other_stop, other = shorter_first(
            heads, times, numbers, at_src[q], at_dst[q], src[q], dst[q], t[q], before[q]
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


@inner
def count_within(times, outgoing, first, stop, oldest, out, into):
    """How many entries of [first, stop) go out and come in; `out` and `into` count those not before each `oldest`."""
    going, begin = 0, first
    for k in range(oldest.shape[0]):
        end = window_end(times, begin, stop, oldest[k])
        going += count_outgoing(outgoing, begin, end)
        out[k], into[k] = going, end - first - going
        begin = end
    going += count_outgoing(outgoing, begin, stop)
    return going, stop - first - going


@inner
def meet_within(ids, times, outgoing, first, stop, node, oldest, out, into):
    """`count_within` of the entries that name the node."""
    met, going, begin = 0, 0, first
    for k in range(oldest.shape[0] + 1):
        end = window_end(times, begin, stop, oldest[k]) if k < oldest.shape[0] else stop
        here = tally(ids, begin, end, node)
        if here > 0:
            met += here
            going += tally_outgoing(ids, outgoing, begin, end, node)
        if k < oldest.shape[0]:
            out[k], into[k] = max(out[k], going), max(into[k], met - going)
        begin = end
    return going, met - going


@kernel
def pair_history(
    heads, ids, times, numbers, uneven, outgoing, at_src, at_dst, src, dst, t, before, windows, counts, dt, within
):  # fmt: skip
    """How often, how long ago at last, and how often within each window: u to v, v to u, u to anyone, anyone to u,
    v to anyone, anyone to v.

    What two nodes had with each other stands in both lists, so the shorter one is read; see `shorter_first`. The
    arrays of answers hold zeros.
    """
    oldest = np.empty_like(windows)
    for q in range(src.shape[0]):
        u, v, now, gate = src[q], dst[q], t[q], before[q]
        for k in range(windows.shape[0]):
            oldest[k] = now - windows[k]
        first_u, stop_u = visible(heads, times, numbers, at_src[q], now, gate, False, now)
        first_v, stop_v = visible(heads, times, numbers, at_dst[q], now, gate, False, now)
        for side in range(2):
            first, stop = (first_u, stop_u) if side == 0 else (first_v, stop_v)
            out, into = 2 + 2 * side, 3 + 2 * side
            found = count_within(times, outgoing, first, stop, oldest, within[q, out], within[q, into])
            counts[q, out], counts[q, into] = found
            if found[0] > 0:
                dt[q, out] = now - newest(ids, times, outgoing, first, -1, 1)
            if found[1] > 0:
                dt[q, into] = now - newest(ids, times, outgoing, first, -1, 0)
        shorter_is_u = stop_u - first_u <= stop_v - first_v
        for again in range(2 if uneven and u != v else 1):
            reads_u = shorter_is_u == (again == 0)
            first, stop, target = (first_u, stop_u, v) if reads_u else (first_v, stop_v, u)
            if tally(ids, first, stop, target) == 0:
                continue
            out, into = (0, 1) if reads_u else (1, 0)  # from u to v, from v to u
            found = meet_within(ids, times, outgoing, first, stop, target, oldest, within[q, out], within[q, into])
            if found[0] > counts[q, out]:
                counts[q, out] = found[0]
                dt[q, out] = now - newest(ids, times, outgoing, first, target, 1)
            if found[1] > counts[q, into]:
                counts[q, into] = found[1]
                dt[q, into] = now - newest(ids, times, outgoing, first, target, 0)


@inner
def rank_of(ids, first, stop, node):
    """How many entries of [first, stop) are newer than the first that names the node; -1 where none does."""
    p = find(ids, first, stop, node)
    return p - first if p < stop else -1


@inner
def distinct(ids, first, stop):
    """How many nodes [first, stop) names."""
    total = 0
    for p in range(first, stop):
        total += tally(ids, first, p, ids[p]) == 0
    return total


@kernel
def recent_contacts(
    heads, ids, times, numbers, at_src, at_dst, src, dst, t, before, newest_k, unit, ranks, partners, held, shared
):  # fmt: skip
    """What the newest contacts of two nodes say of them; see `NeighborIndex.recent_contacts`."""
    for q in range(src.shape[0]):
        u, v, now, gate = src[q], dst[q], t[q], before[q]
        first_u, stop_u = visible(heads, times, numbers, at_src[q], now, gate, False, now)
        first_v, stop_v = visible(heads, times, numbers, at_dst[q], now, gate, False, now)
        stop_u, stop_v = min(stop_u, first_u + newest_k), min(stop_v, first_v + newest_k)
        ranks[q, 0], ranks[q, 1] = rank_of(ids, first_u, stop_u, v), rank_of(ids, first_v, stop_v, u)
        partners[q, 0], partners[q, 1] = distinct(ids, first_u, stop_u), distinct(ids, first_v, stop_v)
        held[q, 0], held[q, 1] = stop_u - first_u, stop_v - first_v
        both, by_u, by_v = 0, 0.0, 0.0
        for i in range(first_u, stop_u):
            if tally(ids, first_v, stop_v, ids[i]) > 0:
                both += 1
                by_u += 1.0 / (1.0 + (now - times[i]) / unit)
                by_v += 1.0 / (1.0 + (now - times[find(ids, first_v, stop_v, ids[i])]) / unit)
        shared[q, 0], shared[q, 1], shared[q, 2] = both, by_u, by_v
