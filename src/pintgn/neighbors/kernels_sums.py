"""Running sums of what happened, and became known, of sources, destinations and pairs: plain arrays.

A list belongs to a key (a, b): the events of a pair, of a source (a, ANY), of a destination (ANY, b), or all. Its
entries lie in one piece, the oldest first. An entry is one moment: when it was, how many values there were by its end,
and the sums of the values and of their squares. So what happened between two times is the difference of two entries.
Capacities are powers of two; a list that outgrows its piece moves, and the piece is used again.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel

FREE, ANY = -1, -2
BEGIN, USED, SIZE = 0, 1, 2  # columns of `lists`; the capacity is 2 ** SIZE
STEPS = 2.0**24
"""Values are summed in whole multiples of 1 / STEPS, so that a sum does not depend on the order; 6e-8 is far below what
float32 tells apart of values around 1."""


@inner
def slot_of(keys, a, b):
    """The slot of a key, or the free one where it would be; the table is never full, its size a power of two."""
    mask = np.uint64(len(keys) - 1)
    mixed = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) ^ (np.uint64(b) + np.uint64(0x7F4A7C15)) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    mixed ^= mixed >> np.uint64(29)
    slot = (mixed * np.uint64(0x94D049BB133111EB)) >> np.uint64(20) & mask
    while keys[slot, 0] != FREE and (keys[slot, 0] != a or keys[slot, 1] != b):
        slot = (slot + np.uint64(1)) & mask
    return slot


@inner
def key_of(chain, u, v):
    """The key of a chain of `running_sums.CHAINS` for a source and a destination."""
    if chain == 0:
        return u, ANY
    if chain == 1:
        return ANY, v
    if chain == 2:
        return u, v
    if chain == 3:
        return ANY, ANY
    if chain == 4:
        return ANY, u
    if chain == 5:
        return v, ANY
    return v, u


@inner
def first_from(times, begin, count, t):
    """How many of a list's entries lie strictly before a time."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if times[begin + middle] < t:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def move(lists, slot, pieces, times, counts, sums, used):
    """Give a list twice the room, in a piece that others have left or at the end of what is used."""
    size = lists[slot, SIZE] + 1
    begin = pieces[size]
    if begin >= 0:
        pieces[size] = counts[begin]
    else:
        begin = used
        used += 1 << size
    old, count = lists[slot, BEGIN], lists[slot, USED]
    for k in range(count):
        times[begin + k] = times[old + k]
        counts[begin + k] = counts[old + k]
        for c in range(sums.shape[1]):
            sums[begin + k, c] = sums[old + k, c]
    counts[old] = pieces[size - 1]
    pieces[size - 1] = old
    lists[slot, BEGIN] = begin
    lists[slot, SIZE] = size
    return used


@inner
def enter(lists, slot, when, value, times, counts, sums):
    """A value enters a list that has room; later entries count it, too."""
    width = len(value)
    begin, count = lists[slot, BEGIN], lists[slot, USED]
    k = count
    while k > 0 and times[begin + k - 1] > when:
        k -= 1
    if k == 0 or times[begin + k - 1] < when:
        for j in range(count, k, -1):
            times[begin + j] = times[begin + j - 1]
            counts[begin + j] = counts[begin + j - 1]
            for c in range(2 * width):
                sums[begin + j, c] = sums[begin + j - 1, c]
        times[begin + k] = when
        counts[begin + k] = 0 if k == 0 else counts[begin + k - 1]
        for c in range(2 * width):
            sums[begin + k, c] = 0.0 if k == 0 else sums[begin + k - 1, c]
        count += 1
        lists[slot, USED] = count
    else:
        k -= 1
    for j in range(k, count):
        counts[begin + j] += 1
        for c in range(width):
            sums[begin + j, c] += np.rint(value[c] * STEPS) / STEPS
            sums[begin + j, width + c] += np.rint(value[c] * value[c] * STEPS) / STEPS


@kernel
def add(src, dst, when, values, keys, lists, pieces, times, counts, sums, begin, used, filled):
    """Values (e, c) of events from `begin` on enter their lists, until a table may be too small; returns the first that
    did not, how much of the entries is used, and how many slots are filled."""
    for e in range(begin, len(src)):
        if 2 * (filled + 4) > len(keys):
            return e, used, filled
        needed = 0
        for chain in range(4):
            a, b = key_of(chain, src[e], dst[e])
            slot = slot_of(keys, a, b)
            if keys[slot, 0] == FREE:
                needed += 1
            elif lists[slot, USED] == 1 << lists[slot, SIZE]:
                needed += 2 << lists[slot, SIZE]
        if used + needed > len(times):
            return e, used, filled
        for chain in range(4):
            a, b = key_of(chain, src[e], dst[e])
            slot = slot_of(keys, a, b)
            if keys[slot, 0] == FREE:
                keys[slot, 0], keys[slot, 1] = a, b
                lists[slot, USED] = 0
                lists[slot, SIZE] = 0
                if pieces[0] >= 0:
                    lists[slot, BEGIN] = pieces[0]
                    pieces[0] = counts[pieces[0]]
                else:
                    lists[slot, BEGIN] = used
                    used += 1
                filled += 1
            elif lists[slot, USED] == 1 << lists[slot, SIZE]:
                used = move(lists, slot, pieces, times, counts, sums, used)
            enter(lists, slot, when[e], values[e], times, counts, sums)
    return len(src), used, filled


@kernel
def rehash(old_keys, old_lists, keys, lists):
    """The lists of a table in a larger one."""
    for old in range(len(old_keys)):
        if old_keys[old, 0] != FREE:
            new = slot_of(keys, old_keys[old, 0], old_keys[old, 1])
            keys[new, 0], keys[new, 1] = old_keys[old, 0], old_keys[old, 1]
            for k in range(3):
                lists[new, k] = old_lists[old, k]


@kernel
def look_up(
    src, dst, t, windows, newest, chains, keys, lists, times, counts, sums, out_count, out_dt, out_sums, out_last
):
    """For each query and chain what happened strictly before its time: within each window and ever, how many values,
    their sums and those of their squares; how long ago the last was; the means of the newest few moments."""
    width = sums.shape[1] // 2
    ever = len(windows)
    for q in range(len(src)):
        for at in range(len(chains)):
            a, b = key_of(chains[at], src[q], dst[q])
            if q > 0 and t[q] == t[q - 1]:  # candidates of one source share what is not theirs
                before = key_of(chains[at], src[q - 1], dst[q - 1])
                if before[0] == a and before[1] == b:
                    out_count[q, at] = out_count[q - 1, at]
                    out_dt[q, at] = out_dt[q - 1, at]
                    out_sums[q, at] = out_sums[q - 1, at]
                    out_last[q, at] = out_last[q - 1, at]
                    continue
            slot = slot_of(keys, a, b)
            if keys[slot, 0] == FREE:
                continue
            begin = lists[slot, BEGIN]
            count = first_from(times, begin, lists[slot, USED], t[q])
            if count == 0:
                continue
            last = begin + count - 1
            out_dt[q, at] = t[q] - times[last]
            for w in range(ever + 1):
                first = 0 if w == ever else first_from(times, begin, count, t[q] - windows[w])
                if first == count:
                    continue
                out_count[q, at, w] = counts[last] - (0 if first == 0 else counts[begin + first - 1])
                for c in range(2 * width):
                    out_sums[q, at, w, c] = sums[last, c] - (0.0 if first == 0 else sums[begin + first - 1, c])
            for k in range(len(newest)):
                first = max(count - newest[k], 0)
                few = counts[last] - (0 if first == 0 else counts[begin + first - 1])
                for c in range(width):
                    total = sums[last, c] - (0.0 if first == 0 else sums[begin + first - 1, c])
                    out_last[q, at, k, c] = total / few
