"""Co-visits: how many others who visited a source's last destinations also visited a candidate. See `kernels_lookups`
for the arrays and gates.

Nothing is kept for this: the newest visitors of a source's last destinations go into a small table, where the newest
visitors of each candidate are looked up. Consecutive queries of one source and time share the table, so ranking many
candidates costs little more than reading through their visitors. They come in any `order`.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.neighbors.kernels_lookups import mix, visible, window_end


@inner
def goes_out(sent, p, stop):
    """Whether the node was the source of the entry at p, of a list that ends at `stop`."""
    return sent[p] > (sent[p + 1] if p + 1 < stop else 0)


@inner
def visitor_slot(keys, node):
    """The slot of a visitor in the table, or the free slot (-1) where it would go; the size is a power of two."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = mix(np.uint64(node)) & mask
    while keys[slot] >= 0 and keys[slot] != node:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@inner
def last_destinations(heads, ids, times, numbers, sent, u, t, before, newest_k, items):
    """The last distinct destinations of a node, newest first, as many as fit; returns how many."""
    first, stop = visible(heads, times, numbers, u, t, before)
    count = 0
    for p in range(first, min(stop, first + newest_k)):
        i = np.int64(ids[p])
        known = i == u or not goes_out(sent, p, stop)
        for j in range(count):
            known |= items[j] == i
        if not known:
            items[count] = i
            count += 1
            if count == items.shape[0]:
                break
    return count


@inner
def around(heads, times, numbers, node, when, t, before, near, window):
    """The times between which a node's `near` entries before and after a moment lie."""
    first, stop = visible(heads, times, numbers, node, t, before)
    older = window_end(times, first, stop, when)  # the first entry before the moment
    newer = older
    while newer > first and times[newer - 1] == when:
        newer -= 1
    window[0] = window[1] = when
    if older + near - 1 < stop:
        window[0] = times[older + near - 1]
    elif stop > first:
        window[0] = times[stop - 1]
    if newer - near >= first:
        window[1] = times[newer - near]
    elif stop > first:
        window[1] = times[first]


@kernel
def co_visits(
    heads, ids, times, numbers, sent, src, dst, t, before, order, newest_k, near, unit, items, keys, table, out
):  # fmt: skip
    """See `NeighborIndex.co_visits`; `items` (k,), `keys` (size,), -1 all over, and `table` (size,) are scratch."""
    k = items.shape[0]
    most = k * newest_k
    slots, item, after = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    seen, when, window = np.empty(most, np.int64), np.empty(most, times.dtype), np.empty(2, times.dtype)
    held, both, close, onward, aged = np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    count, entries, last = 0, 0, -1
    for q in order:
        u, v, now, gate = src[q], dst[q], t[q], before[q]
        if last < 0 or u != src[last] or now != t[last] or gate != before[last]:
            for e in range(entries):
                keys[slots[e]] = -1
            entries = 0
            count = last_destinations(heads, ids, times, numbers, sent, u, now, gate, newest_k, items)
            for j in range(count):
                held[j] = 0
                first, stop = visible(heads, times, numbers, items[j], now, gate)
                for p in range(first, min(stop, first + newest_k)):
                    s = np.int64(ids[p])
                    if s == u or goes_out(sent, p, stop):
                        continue
                    held[j] += 1
                    slot = visitor_slot(keys, s)
                    if keys[slot] < 0:
                        keys[slot], table[slot] = s, -1
                    elif item[table[slot]] == j:  # its newest visit counts
                        continue
                    slots[entries], item[entries], when[entries] = slot, j, times[p]
                    after[entries], seen[entries] = table[slot], -1
                    table[slot] = entries
                    entries += 1
        last = q
        for j in range(count):
            both[j] = close[j] = onward[j] = aged[j] = 0
        visitors = 0
        if entries > 0:
            first, stop = visible(heads, times, numbers, v, now, gate)
            for p in range(first, min(stop, first + newest_k)):
                s = np.int64(ids[p])
                if s == u or goes_out(sent, p, stop):
                    continue
                visitors += 1
                slot = visitor_slot(keys, s)
                if keys[slot] < 0 or seen[table[slot]] == q:
                    continue
                seen[table[slot]] = q
                around(heads, times, numbers, s, times[p], now, gate, near, window)
                e = table[slot]
                while e >= 0:
                    j = item[e]
                    both[j] += 1
                    if window[0] <= when[e] <= window[1]:
                        close[j] += 1
                        onward[j] += times[p] > when[e]
                        aged[j] += 1 / (1 + (now - max(times[p], when[e])) / unit)
                    e = after[e]
        for c in range(out.shape[1]):
            out[q, c] = 0
        for j in range(count):
            if items[j] == v:
                continue
            share = 1 / np.sqrt(max(visitors, 1) * max(held[j], 1.0))
            fade = share / (1 + j)
            out[q, 0] += both[j]
            out[q, 1] = max(out[q, 1], both[j])
            out[q, 2] += share * both[j]
            out[q, 3] += fade * both[j]
            out[q, 4] += share * close[j]
            out[q, 5] += fade * close[j]
            out[q, 6] = max(out[q, 6], share * close[j])
            out[q, 7] += fade * onward[j]
            out[q, 8] += fade * aged[j]
            if j == 0:
                out[q, 9] = share * onward[j]
