"""Kernels of the sketch: every level of a root's row, projected to `width` numbers by random signs.

row_u[k] = sum over nodes i of r_{i->u}[k] * g_i, where g_i is a vector of +1 and -1. The signs of a node are the bits
of a hash of seed, node and column: no table of them exists, and new nodes need no resize. Since signs are +-1,
<row_u[k], g_i> / width is an unbiased estimate of r_{i->u}[k], with variance (|r_u[k]|^2 - r_{i->u}[k]^2) / width.

The update is the exact one (Eqs. 10-11), for projections are linear. Level 0 is the node itself and is not stored.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel, prefetch
from pintgn.positions.kernels_arena import first_of

MOST = np.float32(1e37)  # sums stop here, well inside single precision
QUERY, GROUP = range(2)  # in `progress`
WORD = 64
PREFETCH = 4  # pairs and queries whose rows are on their way from memory
LINE = 16  # numbers that come from memory together


@inner(allocates=False)
def prefetch_row(rows, node):
    """A root's sums will be needed soon."""
    if 0 <= node < rows.shape[0]:
        length = rows.shape[1] * rows.shape[2]
        for i in range(0, length, LINE):
            prefetch(rows, node * length + i)


@kernel(allocates=False)
def sign_word(seed, node, word):
    """64 signs of a node as bits (splitmix64's mixing, twice)."""
    bits = seed ^ (np.uint64(node) * np.uint64(0x9E3779B97F4A7C15))
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = (bits ^ (bits >> np.uint64(31))) + np.uint64(word + 1) * np.uint64(0xD1B54A32D192ED03)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@inner(allocates=False)
def write_signs(seed, node, signs):
    for word in range((len(signs) + WORD - 1) // WORD):
        bits, some = sign_word(seed, node, word), signs[word * WORD : (word + 1) * WORD]
        for i in range(len(some)):
            bit = (bits >> np.uint64(i)) & np.uint64(1)
            some[i] = np.float32(1.0) - np.float32(2.0) * np.float32(np.int32(bit))


@inner(allocates=False)
def add(into, source, times):
    for i in range(len(into)):
        into[i] = min(max(into[i] + times * source[i], -MOST), MOST)


@inner(allocates=False, fastmath={"reassoc", "nsz"})
def dot(row, signs):
    total = 0.0
    for i in range(len(row)):
        total += np.float64(row[i]) * np.float64(signs[i])
    return total


@inner(allocates=False)
def close_group(rows, seen, seed, one, two, times, first, last, signs):
    """Apply one group: levels from the last to the first, so that right-hand sides are from before the group."""
    for i in range(first, last):
        if i + PREFETCH < len(one):
            prefetch_row(rows, one[i + PREFETCH])
            prefetch_row(rows, two[i + PREFETCH])
        seen[one[i]] = seen[two[i]] = True
    for k in range(rows.shape[1], 0, -1):
        for i in range(first, last):
            for direction in range(1 if one[i] == two[i] else 2):
                source, into = (one[i], two[i]) if direction == 0 else (two[i], one[i])
                if k > 1:
                    add(rows[into, k - 1], rows[source, k - 2], np.float32(times[i]))
                else:
                    write_signs(seed, source, signs)
                    add(rows[into, 0], signs, np.float32(times[i]))


@inner(allocates=False)
def view_root(rows, seed, root, sees_open, open_pairs, signs, view):
    """Write to `view` the root's row as a query sees it: with the open group's part."""
    levels = rows.shape[1]
    view[:] = 0.0
    if root < 0 or root >= len(rows):
        return
    for k in range(levels):
        for i in range(view.shape[1]):
            view[k, i] = rows[root, k, i]
    if sees_open:
        into, source, times = open_pairs
        begin, end = first_of(into, root), first_of(into, root + 1)
        for p in range(begin, end if levels else begin):
            other = source[p]
            for k in range(1, levels):
                add(view[k], rows[other, k - 1], np.float32(times[p]))
            write_signs(seed, other, signs)
            add(view[0], signs, np.float32(times[p]))


@kernel(allocates=False)
def sketch_pass(rows, seen, seed, groups, queries, open_pairs, progress, signs, views, out):
    """The interleaved pass. out: estimates (q, w, m, d); views (w, levels, width) and signs (width,) are scratch."""
    one, two, times, starts = groups
    nodes, roots, order, before, sees_open = queries
    closing, levels = len(starts) - 1, rows.shape[1]
    while True:
        q = progress[QUERY]
        wanted = before[q] if q < len(order) else closing
        while progress[GROUP] < wanted:
            g = progress[GROUP]
            close_group(rows, seen, seed, one, two, times, starts[g], starts[g + 1], signs)
            progress[GROUP] += 1
        if q == len(order):
            return
        row = order[q]
        if q + PREFETCH < len(order):
            for j in range(out.shape[1]):
                prefetch_row(rows, roots[order[q + PREFETCH], j])
        for j in range(out.shape[1]):
            view_root(rows, seed, roots[row, j], sees_open[q], open_pairs, signs, views[j])
        for i in range(out.shape[2]):
            node = nodes[row, i]
            reached = 0 <= node < len(seen) and seen[node]
            if not reached and sees_open[q]:
                index = first_of(open_pairs[0], node)
                reached = index < len(open_pairs[0]) and open_pairs[0][index] == node
            if reached:
                write_signs(seed, node, signs)
            for j in range(out.shape[1]):
                out[row, j, i, 0] = 1.0 if node == roots[row, j] and node >= 0 else 0.0
                for k in range(levels):
                    out[row, j, i, k + 1] = dot(views[j, k], signs) / len(signs) if reached else 0.0
        progress[QUERY] += 1


@kernel(allocates=False)
def project(rows, seed, owners, nodes, counts, signs):
    """Add exact counts to the sketch: row owners[i] (root * levels + level) gets counts[i] of node nodes[i]."""
    levels = rows.shape[1]
    for i in range(len(owners)):
        write_signs(seed, nodes[i], signs)
        add(rows[owners[i] // levels, owners[i] % levels], signs, np.float32(min(counts[i], MOST)))
