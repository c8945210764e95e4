"""Targets over time of sources, destinations and pairs, as linked chains: plain arrays, newest entry first.

An entry of a chain is one moment: when it was, how many values had become known by its end, their sum, and the entry
before it. So a mean as of any time is found at the newest entry before that time, and the last value as the difference
of two entries. What becomes known about a self-loop is known of its node as a source and as a destination.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel

SRC, DST, PAIR = 0, 1, 2


@inner
def slot_of(keys, src, dst):
    """The slot of a pair, or the free slot where it would go; the table is never full, its size a power of two."""
    mask = np.uint64(len(keys) - 1)
    mixed = np.uint64(src) * np.uint64(0x9E3779B97F4A7C15) ^ (np.uint64(dst) + np.uint64(0x7F4A7C15)) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    mixed ^= mixed >> np.uint64(29)
    slot = (mixed * np.uint64(0x94D049BB133111EB)) >> np.uint64(20) & mask
    while keys[slot, 0] >= 0 and (keys[slot, 0] != src or keys[slot, 1] != dst):
        slot = (slot + np.uint64(1)) & mask
    return slot


@inner
def enter(heads, at, when, value, times, before, counts, sums, used):
    """Insert one value into a chain; later moments count it, too."""
    newer = -1
    entry = heads[at]
    while entry >= 0 and times[entry] > when:
        counts[entry] += 1
        for c in range(len(value)):
            sums[entry, c] += value[c]
        newer, entry = entry, before[entry]
    if entry >= 0 and times[entry] == when:
        counts[entry] += 1
        for c in range(len(value)):
            sums[entry, c] += value[c]
        return used
    times[used] = when
    before[used] = entry
    counts[used] = 1 if entry < 0 else counts[entry] + 1
    for c in range(len(value)):
        sums[used, c] = value[c] + (0.0 if entry < 0 else sums[entry, c])
    if newer < 0:
        heads[at] = used
    else:
        before[newer] = used
    return used + 1


@kernel
def add(src, dst, when, values, by_src, by_dst, keys, by_pair, times, before, counts, sums, used, pairs):
    """Append values (e, c) that become known, to tables with free space; returns how many entries and pairs are used
    then."""
    for e in range(len(src)):
        used = enter(by_src, src[e], when[e], values[e], times, before, counts, sums, used)
        used = enter(by_dst, dst[e], when[e], values[e], times, before, counts, sums, used)
        slot = slot_of(keys, src[e], dst[e])
        if keys[slot, 0] < 0:
            keys[slot, 0], keys[slot, 1] = src[e], dst[e]
            pairs += 1
        used = enter(by_pair, slot, when[e], values[e], times, before, counts, sums, used)
    return used, pairs


@kernel
def rehash(old_keys, old_heads, keys, heads):
    """The pairs of a table in a larger one."""
    for slot in range(len(old_keys)):
        if old_keys[slot, 0] >= 0:
            new = slot_of(keys, old_keys[slot, 0], old_keys[slot, 1])
            keys[new, 0], keys[new, 1] = old_keys[slot, 0], old_keys[slot, 1]
            heads[new] = old_heads[slot]


@kernel
def look_up(src, dst, t, by_src, by_dst, keys, by_pair, times, before, counts, sums, out_count, out_dt, mean, last):
    """Targets known strictly before the time of each query, of its source, its destination and the pair."""
    for q in range(len(src)):
        for chain in range(3):
            if chain == SRC:
                entry = by_src[src[q]] if src[q] < len(by_src) else -1
            elif chain == DST:
                entry = by_dst[dst[q]] if dst[q] < len(by_dst) else -1
            else:
                entry = by_pair[slot_of(keys, src[q], dst[q])]
            while entry >= 0 and times[entry] >= t[q]:
                entry = before[entry]
            if entry < 0:
                continue
            older = before[entry]
            out_count[q, chain] = counts[entry]
            out_dt[q, chain] = t[q] - times[entry]
            fresh = counts[entry] - (0 if older < 0 else counts[older])
            for c in range(sums.shape[1]):
                mean[q, chain, c] = sums[entry, c] / counts[entry]
                last[q, chain, c] = (sums[entry, c] - (0.0 if older < 0 else sums[older, c])) / fresh
