"""What both backends share around their passes: the groups of a call as pairs, and the form of the answer.

A pass takes, as plain tuples of arrays,

* groups: (one, two, times, starts). Group g is the distinct pairs starts[g]:starts[g + 1], and how often each occurs.
* queries: (nodes (q, m), roots (q, w), row, before, sees_open). The last three list the queries in order of time: which
  one, how many groups it sees, whether it also sees the open group.
* open_pairs: (into, source, times), the open group as directed pairs sorted by `into`: `times` of its events
  bring `source` to `into`.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel

INVERSES = 1.0 / (1.0 + (np.arange(2048) + 0.5) / 2048)
LOGS = -np.log(INVERSES)
LOG_2 = np.log(2.0)
HALVINGS = np.ldexp(1.0, 1023 - np.arange(2046))


@inner(allocates=False)
def first_of(sorted_nodes, node):
    """The index of `node`, or where it would go (`np.searchsorted` takes Numba a second to compile)."""
    low, high = 0, len(sorted_nodes)
    while low < high:
        middle = (low + high) // 2
        if sorted_nodes[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def pair_up(keys, bounds):
    """The distinct pairs of each group bounds[g]:bounds[g + 1] as (one, two, times, starts).

    keys: for each event, its smaller node << 32 | its greater one; they are overwritten. Pairs come out sorted, so
    that sums do not depend on the order of simultaneous events; that is fast for small groups and sorted ones.
    """
    times, starts, pairs = np.empty(len(keys)), np.empty(len(bounds), np.int64), 0
    for g in range(len(bounds) - 1):
        starts[g] = pairs
        for i in range(bounds[g], bounds[g + 1]):  # insertion sort into the group's pairs so far
            key, j = keys[i], pairs
            while j > starts[g] and keys[j - 1] > key:
                j -= 1
            if j > starts[g] and keys[j - 1] == key:
                times[j - 1] += 1.0
                continue
            for later in range(pairs, j, -1):
                keys[later], times[later] = keys[later - 1], times[later - 1]
            keys[j], times[j] = key, 1.0
            pairs += 1
    starts[len(bounds) - 1] = pairs
    one, two = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    for i in range(pairs):
        one[i], two[i] = keys[i] >> 32, keys[i] & 0xFFFFFFFF
    return one, two, times[:pairs], starts


@kernel
def log_counts(raw, bits, out):
    """log(1 + count) of counts (q, w, m, d), which are used up, as (q, m, w, d). `bits` is raw's view as int64.

    1 + count is 2**e * m: the table gives log(m) near m's first eleven bits, a short series the rest. That is exact
    to 12 digits, several times faster than the library's log1p, and the same at every index.
    """
    queries, roots, nodes, d = raw.shape
    for q in range(queries):
        for j in range(roots):
            for i in range(nodes):
                for k in range(d):
                    value = raw[q, j, i, k]
                    if value <= 0.0:  # also an estimate below zero
                        out[q, i, j, k] = 0.0
                    elif value < 0.01:
                        out[q, i, j, k] = value * (1 - value * (1 / 2 - value * (1 / 3 - value * (1 / 4 - value / 5))))
                    else:
                        raw[q, j, i, k] = 1.0 + value
                        word = np.uint64(bits[q, j, i, k])
                        power, near = word >> np.uint64(52), (word >> np.uint64(41)) & np.uint64(2047)
                        rest = raw[q, j, i, k] * (HALVINGS[power] * INVERSES[near]) - 1.0
                        series = rest * (1 - rest * (1 / 2 - rest / 3))
                        out[q, i, j, k] = (np.int64(power) - 1023) * LOG_2 + (LOGS[near] + series)


@kernel
def divide_counts(raw, factors, out):
    """Counts (q, w, m, d) as (q, m, w, d), level k divided by factors[q] ** k, or (no factors) by the sum over k."""
    queries, roots, nodes, d = raw.shape
    for q in range(queries):
        for j in range(roots):
            for i in range(nodes):
                total = 1.0
                if not len(factors):
                    total = 0.0
                    for k in range(d):
                        total += max(raw[q, j, i, k], 0.0)
                for k in range(d):
                    value = raw[q, j, i, k]
                    out[q, i, j, k] = value / total if value > 0.0 else 0.0  # an estimate may be below zero
                    if len(factors):
                        total = min(total * factors[q], 1e300)
