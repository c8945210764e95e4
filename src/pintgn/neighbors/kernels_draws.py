"""Random draws from a time-sorted adjacency: k entries of a node, and causal walks. Arrays: `kernels_lookups`.

The generator counts: draw number i of a key is a pure function of (key, i).
"""

from __future__ import annotations

import math

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.neighbors.kernels_lookups import GOLDEN, mix, visible

UNIT = 1.0 / (1 << 53)
BLOCKS = 64  # entries of a node are fewer than 2**63, so doubling blocks are fewer than this


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


# --- entries ----------------------------------------------------------------------------------------------------------


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
