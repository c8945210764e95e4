"""Look-ups over a time-sorted adjacency: plain arrays in, plain arrays out.

The adjacency is five arrays. `heads[v] = (first, length)` says where node v's entries lie in the four arenas `ids` (the
other endpoint), `times`, `numbers` (event numbers) and `sent` (how many entries of the list go out, from the oldest to
this one). Entries lie **newest first**, so that "the k most recent" is one forward copy, and a time or event gate is a
cut at the front of a sorted run.

Two nodes that both have `hub` entries and more have a list of their own in the same arenas, so that nobody has to read
through either's: `pair_heads[slot]`, where `slot` is that of the two in `pair_keys`. It counts as sent what goes from
the smaller node to the larger.

Per-query arguments are flat arrays with one value each, checked by whoever calls (`queries`). A node of -1 is one
that is not to be looked at: it has no entries. Kernels release the GIL and use one thread.

Of two nodes: `sent` counts what went out, so questions about a whole list take a few steps however long it is. Only
where one has fewer than `hub` entries (`own_list`), entries are read through.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
BLOCK = np.uint64(32)
"""Entries of a list that are compared at once."""


# --- a counter-based generator: draw number i of a key is a pure function of (key, i) --------------------


@kernel
def mix(z):
    """The finalizer of splitmix64: a bijection of 64 bits that passes for random."""
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


# --- cuts -------------------------------------------------------------------------------------------------


@inner
def newest_before(times, numbers, first, stop, t, before):
    """First index in [first, stop) from which on every time is < t and every event number < before.

    Times and numbers fall together along a run, so both gates cut a prefix. The usual query is later than
    everything stored and costs one comparison; else gallop from the newest, because the entries to skip are few.
    Only among simultaneous entries numbers may rise (see `kernels_storage`): a gate that parts them hides all that
    follow one of the hidden.
    """
    index = first_below(times, numbers, first, stop, t, before)
    end = index + 1
    while end < stop and times[end] == times[index]:
        if numbers[end] >= before:
            index = end + 1
        end += 1
    return index


@inner
def first_below(times, numbers, first, stop, t, before):
    """First index in [first, stop) with time < t and event number < before, if both fall."""
    if first >= stop or (times[first] < t and numbers[first] < before):
        return first
    low, step = first, 1
    while low + step < stop and not (times[low + step] < t and numbers[low + step] < before):
        low += step
        step *= 2
    high = min(low + step, stop)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < t and numbers[middle] < before:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def window_end(times, first, stop, oldest):
    """First index in [first, stop) with time < oldest."""
    low, high = first, stop
    while low < high:
        middle = (low + high) >> 1
        if times[middle] >= oldest:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def visible(heads, times, numbers, node, t, before):
    """The indices [first, stop) of a node's entries that a query may see."""
    if node < 0 or node >= heads.shape[0]:
        return 0, 0
    first = heads[node, 0]
    stop = first + heads[node, 1]
    first = newest_before(times, numbers, first, stop, t, before)
    return first, stop


# --- busy pairs -------------------------------------------------------------------------------------------


@inner
def pair_slot(keys, u, v):
    """The slot of two nodes' list, or the free slot (-1) where it would go; the table is never full, its size a power
    of two."""
    a, b = min(u, v), max(u, v)
    mask = np.uint64(keys.shape[0] - 1)
    slot = mix(np.uint64(a) << np.uint64(32) | np.uint64(b)) & mask
    while keys[slot, 0] >= 0 and (keys[slot, 0] != a or keys[slot, 1] != b):
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@inner
def is_hub(heads, node, hub):
    return 0 <= node < heads.shape[0] and heads[node, 1] >= hub


# --- look-ups ---------------------------------------------------------------------------------------------


@kernel
def recent(
    heads, ids, times, numbers, nodes, t, before, out_ids, out_t, out_dt, out_numbers, out_mask
):  # fmt: skip
    """The most recent entries of each query, newest first; the rest of each row is zero and masked out."""
    k = out_ids.shape[1]
    for q in range(nodes.shape[0]):
        now = t[q]
        first, stop = visible(heads, times, numbers, nodes[q], now, before[q])
        # One loop per array and unsigned indices: each becomes a plain vector copy.
        p, count, width = np.uint64(first), np.uint64(min(stop - first, k)), np.uint64(k)
        row_ids, row_t, row_dt = out_ids[q], out_t[q], out_dt[q]
        row_numbers, row_mask = out_numbers[q], out_mask[q]
        for j in range(count):
            row_ids[j] = ids[p + j]
        for j in range(count):
            row_t[j] = times[p + j]
        for j in range(count):
            row_dt[j] = now - times[p + j]
        for j in range(count):
            row_numbers[j] = numbers[p + j]
        for j in range(count):
            row_mask[j] = True
        for j in range(count, width):
            row_ids[j] = 0
        for j in range(count, width):
            row_t[j] = 0
        for j in range(count, width):
            row_dt[j] = 0
        for j in range(count, width):
            row_numbers[j] = 0
        for j in range(count, width):
            row_mask[j] = False


@kernel
def count(heads, ids, times, numbers, nodes, t, before, out):
    """How many entries each query may see."""
    for q in range(nodes.shape[0]):
        first, stop = visible(heads, times, numbers, nodes[q], t[q], before[q])
        out[q] = stop - first


# --- look-ups about two nodes ---------------------------------------------------------------------------------


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
    """The number of entries in [first, stop) that name the node."""
    total = 0
    for p in range(np.uint64(first), np.uint64(stop)):
        total += ids[p] == node
    return total


@inner
def own_list(heads, times, numbers, pair_keys, pair_heads, hub, u, v, t, before):
    """For two busy nodes, which have a list of their own: the entries that a query may see, and True."""
    if not (is_hub(heads, u, hub) and is_hub(heads, v, hub)):
        return 0, 0, False
    slot = pair_slot(pair_keys, u, v)
    if pair_keys[slot, 0] < 0:
        return 0, 0, True
    first, stop = visible(pair_heads, times, numbers, slot, t, before)
    return first, stop, True


@inner
def shorter_first(heads, times, numbers, u, v, t, before):
    """The visible entries of two nodes and the node to look for in each list, the shorter list first.

    Both hold an entry for what they had with each other, so the shorter list will do. Only where trimming was `uneven`
    it may have dropped one of the two: each list keeps its newest, so then the other is read where the first has less.
    """
    first, stop = visible(heads, times, numbers, u, t, before)
    other_first, other_stop = visible(heads, times, numbers, v, t, before)
    if other_stop - other_first < stop - first:
        return other_first, other_stop, u, first, stop, v
    return first, stop, v, other_first, other_stop, u


@kernel
def last(
    heads, ids, times, numbers, pair_keys, pair_heads, hub, uneven, src, dst, t, before, out_t, out_numbers,
    out_met,
):  # fmt: skip
    """The last event between two nodes that each query may see."""
    for q in range(src.shape[0]):
        p, stop, known = own_list(heads, times, numbers, pair_keys, pair_heads, hub, src[q], dst[q], t[q], before[q])
        if not known:
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
def count_pairs(heads, ids, times, numbers, pair_keys, pair_heads, hub, uneven, src, dst, t, before, out):
    """How many events between two nodes each query may see."""
    for q in range(src.shape[0]):
        first, stop, known = own_list(
            heads, times, numbers, pair_keys, pair_heads, hub, src[q], dst[q], t[q], before[q]
        )
        out[q] = stop - first
        if not known:
            first, stop, target, other_first, other_stop, other = shorter_first(
                heads, times, numbers, src[q], dst[q], t[q], before[q]
            )
            out[q] = tally(ids, first, stop, target)
            if uneven:
                out[q] = max(out[q], tally(ids, other_first, other_stop, other))


@inner
def going(sent, first, stop, direction):
    """The number of entries from `first` to the list's end, at `stop`, that go out (direction 1) or come in (0)."""
    out = sent[first] if first < stop else 0
    return out if direction == 1 else stop - first - out


@inner
def newest(times, sent, first, stop, direction):
    """Time of the newest of a list's entries from `first` on that goes this way; there is one.

    It is the last entry up to which as many go that way as up to `first`: gallop, because it is mostly near.
    """
    whole, low, step = going(sent, first, stop, direction), first, 1
    while low + step < stop and going(sent, low + step, stop, direction) == whole:
        low += step
        step *= 2
    high = min(low + step, stop)
    while high - low > 1:
        middle = (low + high) >> 1
        if going(sent, middle, stop, direction) == whole:
            low = middle
        else:
            high = middle
    return times[low]


@inner
def count_list(times, sent, first, stop, now, oldest, counts, dt, within, out, into):
    """Outgoing and incoming entries of a list, from `first` to its end: their number, the age of the newest, and how
    many are not before each `oldest`; columns `out` and `into` of the answers."""
    total = going(sent, first, stop, 1)
    for k in range(oldest.shape[0]):
        end = window_end(times, first, stop, oldest[k])
        within[out, k] = total - going(sent, end, stop, 1)
        within[into, k] = end - first - within[out, k]
    counts[out], counts[into] = total, stop - first - total
    if counts[out] > 0:
        dt[out] = now - newest(times, sent, first, stop, 1)
    if counts[into] > 0:
        dt[into] = now - newest(times, sent, first, stop, 0)


@inner
def count_named(ids, times, sent, first, stop, node, now, oldest, counts, dt, within, out, into, narrowest):
    """`count_list` of the entries that name the node; an answer that counts as many already stays.

    `narrowest` (2, windows + 1) takes the entries by direction and by the narrowest window that holds each.
    """
    p, window, newest_out, newest_in = find(ids, first, stop, node), 0, stop, stop
    if p == stop:
        return
    for k in range(narrowest.shape[1]):
        narrowest[0, k] = narrowest[1, k] = 0
    while p < stop:
        while window < oldest.shape[0] and times[p] < oldest[window]:
            window += 1
        if sent[p] > (sent[p + 1] if p + 1 < stop else 0):
            newest_out = min(newest_out, p)
            narrowest[1, window] += 1
        else:
            newest_in = min(newest_in, p)
            narrowest[0, window] += 1
        p = find(ids, p + 1, stop, node)
    for direction in range(2):
        column, p, total = (out, newest_out, 0) if direction == 1 else (into, newest_in, 0)
        for k in range(narrowest.shape[1]):
            total += narrowest[direction, k]
        if total > counts[column]:
            counts[column], dt[column], total = total, now - times[p], 0
            for k in range(oldest.shape[0]):
                total += narrowest[direction, k]
                within[column, k] = total


@kernel
def pair_history(
    heads, ids, times, numbers, pair_keys, pair_heads, hub, uneven, src, dst, t, before, sent, windows, counts,
    dt, within,
):  # fmt: skip
    """Counts, age of the newest, and counts within each window of events: u to v, v to u, u to anyone, anyone else to
    u, v to anyone, anyone else to v. A self-loop goes out.

    What two nodes had with each other stands in a list of their own or in both of theirs, so the shorter one is read;
    see `shorter_first`. The arrays of answers hold zeros.
    """
    oldest, narrowest = np.empty_like(windows), np.empty((2, windows.shape[0] + 1), np.int64)
    for q in range(src.shape[0]):
        u, v, now, gate = src[q], dst[q], t[q], before[q]
        for k in range(windows.shape[0]):
            oldest[k] = now - windows[k]
        first_u, stop_u = visible(heads, times, numbers, u, now, gate)
        first_v, stop_v = visible(heads, times, numbers, v, now, gate)
        count_list(times, sent, first_u, stop_u, now, oldest, counts[q], dt[q], within[q], 2, 3)
        count_list(times, sent, first_v, stop_v, now, oldest, counts[q], dt[q], within[q], 4, 5)
        first, stop, known = own_list(heads, times, numbers, pair_keys, pair_heads, hub, u, v, now, gate)
        if known:
            out, into = (0, 1) if u <= v else (1, 0)
            count_list(times, sent, first, stop, now, oldest, counts[q], dt[q], within[q], out, into)
            continue
        shorter_is_u = stop_u - first_u <= stop_v - first_v
        for again in range(2 if uneven and u != v else 1):
            reads_u = shorter_is_u == (again == 0)
            first, stop, target = (first_u, stop_u, v) if reads_u else (first_v, stop_v, u)
            out, into = (0, 1) if reads_u else (1, 0)  # from u to v, from v to u
            count_named(
                ids, times, sent, first, stop, target, now, oldest, counts[q], dt[q], within[q], out, into, narrowest
            )


@inner
def rank_of(ids, first, stop, node):
    """The number of entries in [first, stop) newer than the first that names the node; -1 where none does."""
    p = find(ids, first, stop, node)
    return p - first if p < stop else -1


@inner
def distinct(ids, first, stop):
    """The number of distinct nodes in [first, stop)."""
    total = 0
    for p in range(first, stop):
        total += tally(ids, first, p, ids[p]) == 0
    return total


@kernel
def recent_contacts(
    heads, ids, times, numbers, src, dst, t, before, newest_k, unit, ranks, partners, held, shared
):  # fmt: skip
    """Compare the newest contacts of two nodes; see `NeighborIndex.recent_contacts`."""
    for q in range(src.shape[0]):
        u, v, now, gate = src[q], dst[q], t[q], before[q]
        first_u, stop_u = visible(heads, times, numbers, u, now, gate)
        first_v, stop_v = visible(heads, times, numbers, v, now, gate)
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
