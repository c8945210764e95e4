"""Sets of walks as tries, and how often each node stands where in them. Plain arrays in and out.

Walks of one root that begin alike share a prefix, and a recurrent net that reads them from the root on shares its
state: every distinct prefix is one entry, level by level (level 0 is the root itself).
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import kernel


@kernel
def share_prefixes(nodes, times, events, mask, sizes, parent, row, event, since, ends, root, query_of, node_of, counts):
    """Merge equal prefixes of the walks of each root, and number the distinct nodes of each query's walks.

    Args:
        nodes, times (q, w, m, l + 1), events (q, w, m, l), mask (q, w, m, l + 1): walks as `causal_walks` returns them.
        sizes (l + 1,): filled with the number of prefixes of each level.
        parent, row, event, since, ends, root (l + 1, q * w * m): filled, level by level, for every prefix: its prefix
            one shorter (a place in the level above), the row of its last node, the event of its last step (-1 at the
            root), the time that step took, how many walks end with it, and the root it belongs to (q * w).
        query_of, node_of (rows,), counts (rows, w, l + 1): filled for every distinct node of a query: how many walks of
            each root have it at each place (g of the paper). Returns the number of rows.
    """
    queries, roots, walks, length = nodes.shape
    rows = 0
    for level in range(length):
        sizes[level] = 0
    place = np.empty(walks, np.int64)  # of each walk's prefix, in the level reached so far
    for q in range(queries):
        first_row = rows
        for r in range(roots):
            which = q * roots + r
            for m in range(walks):
                place[m] = 0
            begin_above = 0
            for level in range(length):
                begin = sizes[level]
                for m in range(walks):
                    if level and not mask[q, r, m, level]:
                        continue
                    above = begin_above + place[m] if level else 0
                    step = events[q, r, m, level - 1] if level else -1
                    found = begin
                    while found < sizes[level] and not (parent[level, found] == above and event[level, found] == step):
                        found += 1
                    if found == sizes[level]:
                        node = nodes[q, r, m, level]
                        seen = first_row
                        while seen < rows and node_of[seen] != node:
                            seen += 1
                        if seen == rows:
                            node_of[rows], query_of[rows] = node, q
                            for i in range(roots):
                                for j in range(length):
                                    counts[rows, i, j] = 0
                            rows += 1
                        parent[level, found], event[level, found], row[level, found] = above, step, seen
                        since[level, found] = times[q, r, m, level - 1] - times[q, r, m, level] if level else 0
                        ends[level, found], root[level, found] = 0, which
                        sizes[level] += 1
                    counts[row[level, found], r, level] += 1
                    place[m] = found - begin
                    if level + 1 == length or not mask[q, r, m, level + 1]:
                        ends[level, found] += 1
                begin_above = begin
    return rows


@kernel(fastmath=True)
def lay_steps(since, features, frequency, phase, sine, steps):
    """steps[i] = cos(frequency · since[i] + phase) ‖ features[i]; frequency and phase in turns."""
    waves = np.uint64(frequency.shape[0])
    half, quarter = steps.dtype.type(0.5), steps.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    for i in range(since.shape[0]):
        dt = since[i]
        for j in range(waves):
            turns = dt * frequency[j] + phase[j]
            g = quarter - abs(turns - np.floor(turns + half))  # cos(2π x) = sin(2π (1/4 - |x|)), |x| <= 1/2
            y = g * g
            steps[i, j] = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4))))
        for j in range(np.uint64(features.shape[1])):
            steps[i, waves + j] = features[i, j]


@kernel(fastmath=True)
def add_known(parent, row, mapped, back, gates):
    """Add to the gates r, z and n (x, 3d) what nodes give, and to r and z what the prefixes above give."""
    d = np.uint64(gates.shape[1] // 3)
    for i in range(gates.shape[0]):
        p, v = parent[i], row[i]
        for j in range(d + d + d):
            gates[i, j] += mapped[v, j]
        for j in range(d + d):
            gates[i, j] += back[p, j]


@kernel(fastmath=True)
def add_kept(parent, back, gates):
    """Add to n what r, bent already, keeps of the prefix above."""
    d = np.uint64(gates.shape[1] // 3)
    for i in range(gates.shape[0]):
        p = parent[i]
        for j in range(d):
            gates[i, d + d + j] += gates[i, j] * back[p, d + d + j]


@kernel(fastmath=True)
def mix(parent, h, gates, out):
    """out = n + z (h - n), h of the prefix above."""
    d = np.uint64(h.shape[1])
    for i in range(out.shape[0]):
        p = parent[i]
        for j in range(d):
            n = gates[i, d + d + j]
            out[i, j] = n + gates[i, d + j] * (h[p, j] - n)


@kernel(fastmath=True)
def trie_backward(parent, row, h, back, gates, grad, to_gates, to_mapped, to_back, to_h):
    """Fill the gradient of the gates before their bends; add to those of nodes and of the prefixes above."""
    d = np.uint64(h.shape[1])
    one = grad.dtype.type(1)
    for i in range(grad.shape[0]):
        p, v = parent[i], row[i]
        for j in range(d):
            n, z = gates[i, d + d + j], gates[i, d + j]
            to_gates[i, d + d + j] = grad[i, j] * (one - z) * (one - n * n)
            to_gates[i, d + j] = grad[i, j] * (h[p, j] - n) * z * (one - z)
        for j in range(d):
            r, to_n = gates[i, j], to_gates[i, d + d + j]
            to_gates[i, j] = to_n * back[p, d + d + j] * r * (one - r)
            to_back[p, d + d + j] += to_n * r
        for j in range(d):
            to_h[p, j] += grad[i, j] * gates[i, d + j]
        for j in range(d + d):
            to_back[p, j] += to_gates[i, j]
        for j in range(d + d + d):
            to_mapped[v, j] += to_gates[i, j]


@kernel(fastmath=True)
def steps_backward(since, frequency, phase, sine, grad, to_frequency, to_phase):
    """Add up the gradients, in radians, of the waves of `lay_steps`; `grad` (x, w) is that of their values."""
    half, quarter = grad.dtype.type(0.5), grad.dtype.type(0.25)
    s0, s1, s2, s3, s4 = sine[0], sine[1], sine[2], sine[3], sine[4]
    for i in range(grad.shape[0]):
        dt = since[i]
        for j in range(frequency.shape[0]):
            turns = dt * frequency[j] + phase[j] - quarter  # sin(x) = cos(x - a quarter turn)
            g = quarter - abs(turns - np.floor(turns + half))
            y = g * g
            s = g * (s0 + y * (s1 + y * (s2 + y * (s3 + y * s4)))) * grad[i, j]
            to_phase[j] -= s
            to_frequency[j] -= dt * s
