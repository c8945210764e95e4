"""The exact backend's pass: serve every query as of its own time while groups of simultaneous events close.

Observing is a pass without queries, reading is a pass without events. Whoever calls hands over groups that are
complete, as distinct pairs, and queries in order of time. The last group is still open and not applied: a query that
may see it adds its part on the fly. A pass that cannot go on says why, and continues when called again with the same
`progress`.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.positions.kernels_arena import (
    CAP,
    FREED,
    MOST,
    NODES,
    RATIO,
    SIZES,
    SPREAD,
    TOP,
    WIDEST,
    head,
    offset_of,
    scramble,
)
from pintgn.positions.kernels_counts import first_of
from pintgn.positions.kernels_tables import add_node, add_table, dense_class, fits, look_up

DONE, NO_SPACE, TOO_NARROW, TOO_BIG = range(4)
QUERY, GROUP, LEVEL, PAIR = range(4)  # in `progress`; level 0: the group has not begun


@inner(allocates=False)
def begin_group(book, levels, two, first, last, budget, per_node):
    """Make the group's nodes known; False if the tables are too big for that."""
    nodes = book[NODES]
    for i in range(first, last):
        nodes = max(nodes, two[i] + 1)
    size = (book[TOP] - book[FREED]) * 4 * book[RATIO] + nodes * levels * 24
    if size > budget and size > nodes * per_node:
        return False
    if nodes > book[NODES]:
        book[NODES], book[WIDEST] = nodes, SIZES[dense_class(nodes)]
    return True


@inner(allocates=False)
def close_group(heads, slots, counts, book, levels, one, two, times, first, last, progress, keys, vals):
    """Apply one group, Eqs. 10-11 and the appendix: r(v) += P * sum of r(u), right-hand sides from before.

    Levels go from the last to the first, each over the whole group: level k needs level k - 1 as it was before
    the group, and that is written only afterwards. So nothing has to be copied.
    """
    # No pair takes more: both directions, enlarging the target and then inserting into it or making it dense.
    last_top, narrow = len(counts) - 4 * book[WIDEST] - SIZES[16], book[RATIO] == 1
    for k in range(progress[LEVEL], 0, -1):
        for i in range(progress[PAIR], last):
            u, v = one[i], two[i]
            a, b, directions = u * levels + k - 1, v * levels + k - 1, 1 if u == v else 2
            status = DONE if book[TOP] <= last_top else NO_SPACE
            if narrow:
                for direction in range(directions):
                    into, source = (b, a - 1) if direction == 0 else (a, b - 1)
                    if not fits(heads, counts, into, source if k > 1 else -1, times[i]):
                        status = TOO_NARROW
            if status != DONE:
                progress[LEVEL], progress[PAIR] = k, i
                return status
            for direction in range(directions):
                into, source, other = (b, a - 1, u) if direction == 0 else (a, b - 1, v)
                if k > 1:
                    add_table(heads, slots, counts, book, into, source, counts.dtype.type(times[i]), keys, vals)
                else:
                    add_node(heads, slots, counts, book, into, other, counts.dtype.type(times[i]), keys, vals)
        progress[PAIR] = first
    progress[LEVEL] = 0
    return DONE


@inner(allocates=False, forceinline=True)
def count_level(heads, slots, counts, book, table, nodes, names, times, raw, k):
    """raw[:, k] += times * what the table counts."""
    cap, offset, spread = head(heads, table, CAP), offset_of(heads, table), np.uint64(head(heads, table, SPREAD))
    if cap == 0:
        return
    for i in range(len(nodes)):
        if 0 <= nodes[i] < book[NODES]:
            value = look_up(slots, counts, book, offset, cap, spread, nodes[i], names[i])
            raw[i, k] = min(raw[i, k] + times * value, MOST)


@inner(allocates=False)
def count_walks(heads, slots, counts, book, nodes, names, root, sees_open, open_pairs, raw):
    """Counts (m, d) of each node relative to one root; `sees_open`: the open group is seen, too.

    `names` are the nodes' keys in sparse tables.
    """
    levels = raw.shape[1] - 1
    for i in range(len(nodes)):
        for k in range(levels + 1):
            raw[i, k] = 0.0
        if nodes[i] == root and root >= 0:
            raw[i, 0] = 1.0
    if root < 0 or levels == 0 or root * levels >= len(heads):
        return
    for k in range(levels):
        count_level(heads, slots, counts, book, root * levels + k, nodes, names, 1.0, raw, k + 1)
    if sees_open:
        into, source, times = open_pairs
        for p in range(first_of(into, root), first_of(into, root + 1)):
            other = source[p]
            for i in range(len(nodes)):
                if nodes[i] == other:
                    raw[i, 1] = min(raw[i, 1] + times[p], MOST)
            for k in range(levels - 1):
                count_level(heads, slots, counts, book, other * levels + k, nodes, names, times[p], raw, k + 2)


@kernel(allocates=False)
def exact_pass(
    heads, slots, counts, book, budget, per_node, groups, queries, open_pairs, progress, keys, vals, names, out
):
    """The interleaved pass. out: counts (q, w, m, d). See `kernels_counts` for groups, queries and open_pairs.

    It stops with TOO_BIG before a group if the tables take more than `budget` bytes and more than `per_node`
    bytes a node. What they take depends on the events so far alone, not on calls or spare memory.
    """
    one, two, times, starts = groups
    nodes, roots, rows, before, sees_open = queries
    closing, levels = len(starts) - 1, out.shape[3] - 1
    while True:
        q = progress[QUERY]
        wanted = before[q] if q < len(rows) else closing
        while progress[GROUP] < wanted:
            g = progress[GROUP]
            first, last = starts[g], starts[g + 1]
            if progress[LEVEL] == 0:
                if not begin_group(book, levels, two, first, last, budget, per_node):
                    return TOO_BIG
                progress[LEVEL], progress[PAIR] = levels, first
            status = close_group(heads, slots, counts, book, levels, one, two, times, first, last, progress, keys, vals)
            if status != DONE:
                return status
            progress[GROUP] += 1
        if q == len(rows):
            return DONE
        row = rows[q]
        for i in range(len(names)):
            names[i] = scramble(nodes[row, i])
        for j in range(out.shape[1]):
            count_walks(
                heads, slots, counts, book, nodes[row], names, roots[row, j], sees_open[q], open_pairs, out[row, j]
            )
        progress[QUERY] += 1
