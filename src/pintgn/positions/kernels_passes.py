"""Passes over events and queries: groups of simultaneous events as pairs, the exact pass, transforms of counts.

A pass of either backend takes, as plain tuples of arrays,

* groups: (one, two, times, starts). Group g is the distinct pairs starts[g]:starts[g + 1], and how often each occurs.
* queries: (nodes (q, m), roots (q, w), row, before, sees_open). The last three list the queries in order of time: which
  one, how many groups it sees, whether it also sees the open group.
* open_pairs: (into, source, times), the open group as directed pairs sorted by `into`: `times` of its events
  bring `source` to `into`.

It serves every query as of its own time while groups of simultaneous events close. Observing is a pass without
queries, reading is a pass without events. Whoever calls hands over groups that are complete, as distinct pairs, and
queries in order of time. The last group is still open and not applied: a query that may see it adds its part on the
fly. The exact pass, where it cannot go on, says why, and continues when called again with the same `progress`.
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
    first_of,
    head,
    offset_of,
    scramble,
)
from pintgn.positions.kernels_tables import add_node, add_table, dense_class, fits, look_up

DONE, NO_SPACE, TOO_NARROW, TOO_BIG = range(4)
QUERY, GROUP, LEVEL, PAIR = range(4)  # in `progress`; level 0: the group has not begun
INVERSES = 1.0 / (1.0 + (np.arange(2048) + 0.5) / 2048)
LOGS = -np.log(INVERSES)
LOG_2 = np.log(2.0)
HALVINGS = np.ldexp(1.0, 1023 - np.arange(2046))


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


@inner(allocates=False)
def begin_group(book, levels, two, first, last, budget, per_node):
    """Register the group's nodes; False if the tables are too big for that."""
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
    """The interleaved pass. out: counts (q, w, m, d).

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
