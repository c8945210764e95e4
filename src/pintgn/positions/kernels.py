"""What both backends share around their passes: the groups of a call as pairs, and the form of the answer.

A pass takes, as plain tuples of arrays,

* groups: (one, two, times, starts, elapsed). Group g is the distinct pairs starts[g]:starts[g + 1], each with how
  often it occurs; elapsed[g] is the group's time since the first event.
* queries: (nodes (q, m), roots (q, w), row, before, ahead, elapsed). The last four list the queries in order of
  time: which one, how many groups it sees, whether it also sees the open group, its time since the first event.
* opened: (into, source, times, elapsed), the open group as directed pairs sorted by `into`: `times` of its events
  bring `source` to `into`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

L1, LOG1P, RATE = range(1, 4)
LOGS = np.log1p(np.arange(1024.0))  # most counts are small


@njit(cache=True, nogil=True)
def pair_up(src, dst, bounds, keys, one, two, times, starts):
    """The distinct pairs of each group bounds[g]:bounds[g + 1], and how often each occurs; returns their number.

    Pairs are unordered and sorted, so that sums do not depend on the order of simultaneous events.
    """
    pairs = 0
    for g in range(len(bounds) - 1):
        starts[g] = pairs
        first, last = bounds[g], bounds[g + 1]
        for i in range(first, last):
            keys[i] = (min(src[i], dst[i]) << 32) | max(src[i], dst[i])
        if last - first > 32:
            keys[first:last].sort()
        else:
            for i in range(first + 1, last):
                key, j = keys[i], i
                while j > first and keys[j - 1] > key:
                    keys[j] = keys[j - 1]
                    j -= 1
                keys[j] = key
        for i in range(first, last):
            if i > first and keys[i] == keys[i - 1]:
                times[pairs - 1] += 1.0
            else:
                one[pairs], two[pairs], times[pairs] = keys[i] >> 32, keys[i] & 0xFFFFFFFF, 1.0
                pairs += 1
    starts[len(bounds) - 1] = pairs
    return pairs


@njit(cache=True, nogil=True)
def transform_counts(raw, transform, factors, out):
    """Counts (q, w, m, d) to their wanted form (q, m, w, d). An estimate below zero counts as zero.

    factors (q,): for RATE, level k is divided by factor ** k.
    """
    queries, roots, nodes, d = raw.shape
    for q in range(queries):
        for j in range(roots):
            for i in range(nodes):
                total, scale = 0.0, 1.0
                if transform == L1:
                    for k in range(d):
                        total += max(raw[q, j, i, k], 0.0)
                for k in range(d):
                    value = raw[q, j, i, k]
                    if value <= 0.0:
                        value = 0.0
                    elif transform == L1:
                        value /= total
                    elif transform == RATE:
                        value /= scale
                    elif value < 1024.0 and value == math.floor(value):
                        value = LOGS[np.int64(value)]
                    else:
                        value = math.log1p(value)
                    out[q, i, j, k] = value
                    scale = min(scale * factors[q], 1e300)
