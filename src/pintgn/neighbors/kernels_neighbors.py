"""Native look-ups over a time-sorted adjacency: plain arrays in, plain arrays out.

The adjacency is five arrays. `heads[v] = (first, length)` says where node v's entries lie in the four arenas `ids` (the
other endpoint), `times`, `numbers` (event numbers) and `sent` (how many entries of the list go out, from the oldest to
this one). Entries lie **newest first**, so that "the k most recent" is one forward copy, and a time or event gate is a
cut at the front of a sorted run.

Two nodes that both have `hub` entries and more have a list of their own in the same arenas, so that nobody has to read
through either's: `pair_heads[slot]`, where `slot` is that of the two in `pair_keys`. It counts as sent what goes from
the smaller node to the larger.

Per-query arguments are flat arrays with one value each, checked by whoever calls (`queries`). A node of -1 is one
that is not to be looked at: it has no entries. Kernels release the GIL and use one thread.
"""

from __future__ import annotations

import math

import numpy as np

from pintgn.compiled import inner, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
UNIT = 1.0 / (1 << 53)
BLOCKS = 64  # entries of a node are fewer than 2**63, so doubling blocks are fewer than this


# --- a counter-based generator: draw number i of a key is a pure function of (key, i) --------------------


@kernel
def mix(z):
    """The finalizer of splitmix64: a bijection of 64 bits that passes for random."""
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@inner
def branch(key, i):
    """The i-th child key of a key."""
    return mix(key + (np.uint64(i) + np.uint64(1)) * GOLDEN)


@inner
def unit(key, i):
    """The i-th number of a key, uniform in [0, 1) with 53 bits."""
    return np.float64(branch(key, i) >> np.uint64(11)) * UNIT


@inner
def below(key, i, count):
    """The i-th number of a key, uniform among 0 … count - 1."""
    return np.int64(min(np.int64(unit(key, i) * count), count - 1))


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
    """Where the list of two nodes is, or the free slot (-1) where it would be; the table is never full, its size a
    power of two."""
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


@inner
def draw_subset(key, count, picks):
    """Fill `picks` with distinct numbers below `count`, in increasing order, every subset equally likely.

    Floyd's algorithm: exactly len(picks) draws whatever the count. Needs len(picks) <= count.
    """
    k = picks.shape[0]
    for i in range(k):
        top = count - k + i
        pick = below(key, i, top + 1)
        j = i
        while j > 0 and picks[j - 1] > pick:
            j -= 1
        if j > 0 and picks[j - 1] == pick:
            picks[i] = top  # taken: `top` itself is new and larger than all before
        else:
            for m in range(i, j, -1):
                picks[m] = picks[m - 1]
            picks[j] = pick


@kernel
def uniform(
    heads, ids, times, numbers, nodes, t, before, keys, out_ids, out_t, out_dt, out_numbers, out_mask
):  # fmt: skip
    """k distinct entries of each query, each subset equally likely, newest first; all when there are at most k."""
    k = out_ids.shape[1]
    picks = np.empty(k, np.int64)
    for q in range(nodes.shape[0]):
        now = t[q]
        first, stop = visible(heads, times, numbers, nodes[q], now, before[q])
        count = min(stop - first, k)
        if stop - first > k:
            draw_subset(mix(keys[q] + GOLDEN), stop - first, picks)
        else:
            for j in range(count):
                picks[j] = j
        for j in range(count):
            p = first + picks[j]
            out_ids[q, j] = ids[p]
            out_t[q, j] = times[p]
            out_dt[q, j] = now - times[p]
            out_numbers[q, j] = numbers[p]
            out_mask[q, j] = True
        for j in range(count, k):
            out_ids[q, j] = 0
            out_t[q, j] = 0
            out_dt[q, j] = 0
            out_numbers[q, j] = 0
            out_mask[q, j] = False


@kernel
def count(heads, ids, times, numbers, nodes, t, before, out):
    """How many entries each query may see."""
    for q in range(nodes.shape[0]):
        first, stop = visible(heads, times, numbers, nodes[q], t[q], before[q])
        out[q] = stop - first


# --- walks ------------------------------------------------------------------------------------------------


@kernel
def block_table(times, first, stop, bias, top, bounds):
    """Cut a run into blocks of 1, 1, 2, 4, 8, … entries, newest first, and bound each block's weight.

    `top[b]` is the weight of block b's newest entry relative to the newest of all, and `bounds[b]` the sum of
    size * top up to and with block b. Returns the number of blocks. Weights never grow along the run, so a block
    weighs at least half of the next one's bound, and all bounds together are at most 3 times the true weight.
    A tail too light to be drawn by 53 random bits is left out.
    """
    newest = times[first]
    total = 0.0
    blocks, p, size = 0, first, 1
    while p < stop:
        weight = math.exp(-bias * np.float64(newest - times[p]))
        if weight * (stop - p) < 1e-17 * total:
            break
        size = min(size, stop - p)
        total += size * weight
        top[blocks] = weight
        bounds[blocks] = total
        p += size
        size = p - first
        blocks += 1
    return blocks


@inner
def draw_biased(times, first, stop, bias, top, bounds, blocks, key):
    """Draw an index of [first, stop) with probability proportional to exp(bias * time), by rejection.

    Propose a block by its bound and an entry uniformly within it; accept with its weight over the block's
    top. Weights are relative to the newest entry, so none overflows and the sum is at least 1.
    """
    newest = times[first]
    total = bounds[blocks - 1]
    trial = 0
    while True:
        x = unit(key, trial) * total
        b, start, size, passed = 0, 0, 1, 0.0
        while x >= bounds[b] and b + 1 < blocks:
            passed = bounds[b]
            b += 1
            start += size
            size = start
        size = min(size, stop - first - start)
        index = first + start + min(np.int64((x - passed) / top[b]), size - 1)
        weight = math.exp(-bias * np.float64(newest - times[index]))
        if unit(key, trial + 1) * top[b] < weight:
            return index
        trial += 2


@kernel
def causal_walks(
    heads, ids, times, numbers, nodes, t, before, keys, bias, out_nodes, out_t, out_numbers, out_mask
):  # fmt: skip
    """Backward walks with strictly falling times; see `pintgn.neighbors.causal_walks`."""
    walks, length = out_numbers.shape[1], out_numbers.shape[2]
    top, bounds = np.empty(BLOCKS), np.empty(BLOCKS)
    root_top, root_bounds = np.empty(BLOCKS), np.empty(BLOCKS)
    for q in range(nodes.shape[0]):
        root, now, usable, root_blocks = nodes[q], t[q], nodes[q] >= 0, 0
        root_first, root_stop = visible(heads, times, numbers, root, now, before[q])
        if root_stop > root_first and bias > 0:  # every walk of a query starts from the same run: one table
            root_blocks = block_table(times, root_first, root_stop, bias, root_top, root_bounds)
        query_key = mix(keys[q] + GOLDEN)
        for w in range(walks):
            walk_key = branch(query_key, w)
            out_nodes[q, w, 0] = root if usable else 0
            out_t[q, w, 0] = now if usable else 0
            out_mask[q, w, 0] = usable
            first, stop = root_first, root_stop
            step = 0
            while step < length and first < stop:
                key = branch(walk_key, step)
                if stop - first == 1:
                    index = first
                elif bias == 0:
                    index = first + below(key, 0, stop - first)
                elif step == 0:
                    index = draw_biased(times, first, stop, bias, root_top, root_bounds, root_blocks, key)
                else:
                    blocks = block_table(times, first, stop, bias, top, bounds)
                    index = draw_biased(times, first, stop, bias, top, bounds, blocks, key)
                node, then = np.int64(ids[index]), times[index]
                out_numbers[q, w, step] = numbers[index]
                step += 1
                out_nodes[q, w, step] = node
                out_t[q, w, step] = then
                out_mask[q, w, step] = True
                if step < length:
                    # Times fall along a walk and event numbers with them: the event gate is a second lock.
                    gate = np.int64(numbers[index])
                    first, stop = visible(heads, times, numbers, node, then, gate)
            for rest in range(step, length):
                out_numbers[q, w, rest] = 0
                out_nodes[q, w, rest + 1] = 0
                out_t[q, w, rest + 1] = 0
                out_mask[q, w, rest + 1] = False
