"""Sets of walks as tries, and how often each node occurs at each step. Plain arrays in and out.

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
            one shorter (its index in the level above), the row of its last node, the event of its last step (-1 at the
            root), the time that step took, how many walks end with it, and the root it belongs to (q * w).
        query_of, node_of (rows,), counts (rows, w, l + 1): filled for every distinct node of a query: how many walks of
            each root have it at each step (g of the paper). Returns the number of rows.
    """
    queries, roots, walks, length = nodes.shape
    rows = 0
    for level in range(length):
        sizes[level] = 0
    index = np.empty(walks, np.int64)  # of each walk's prefix, in the level reached so far
    for q in range(queries):
        first_row = rows
        for r in range(roots):
            which = q * roots + r
            for m in range(walks):
                index[m] = 0
            begin_above = 0
            for level in range(length):
                begin = sizes[level]
                for m in range(walks):
                    if level and not mask[q, r, m, level]:
                        continue
                    above = begin_above + index[m] if level else 0
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
                    index[m] = found - begin
                    if level + 1 == length or not mask[q, r, m, level + 1]:
                        ends[level, found] += 1
                begin_above = begin
    return rows
