"""Kernels over whole logs: reordering rows, renaming nodes, following edges through deletions."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import kernel
from pintgn.events.kernels import FNV, mix

ADD, DELETE, NODE, REMOVE = 1, -1, 0, 2
"""Ops of a file; `REMOVE`, the removal of a node, never reaches a log."""
NO_MARKS = np.zeros(0, np.uint64)
NO_MARKS.flags.writeable = False


@kernel
def renumber(src, dst, number, first):
    """Rename nodes in place by first appearance: `number` (n,) is filled; nodes below `first` keep their numbers.

    Nodes that never appear come last, in their old order.
    """
    number[:] = -1
    for node in range(first):
        number[node] = node
    following = first
    for row in range(len(src)):
        if number[src[row]] < 0:
            number[src[row]] = following
            following += 1
        if number[dst[row]] < 0:
            number[dst[row]] = following
            following += 1
        src[row] = number[src[row]]
        dst[row] = number[dst[row]]
    for node in range(len(number)):
        if number[node] < 0:
            number[node] = following
            following += 1


@kernel
def reorder_rows(matrix, order):
    """matrix[:] = matrix[order], in place: each cycle of the permutation is walked once."""
    width = matrix.shape[1]
    done = np.zeros(len(order), np.bool_)
    held = np.empty(width, matrix.dtype)
    for start in range(len(order)):
        if done[start]:
            continue
        for j in range(width):
            held[j] = matrix[start, j]
        row = start
        while order[row] != start:
            done[row] = True
            for j in range(width):
                matrix[row, j] = matrix[order[row], j]
            row = order[row]
        done[row] = True
        for j in range(width):
            matrix[row, j] = held[j]


# --- simultaneous events --------------------------------------------------------------------------------------


@kernel
def tie_keys(src, dst, t, marks, features, out):
    """A hash of each event that has the time of the one before or after it, and of the first and the last.

    `t` (e,) and `features` (e, f) come as bits; `marks` (n,) hash the nodes' ids, a node beyond them by its number.
    """
    rows = len(src)
    for row in range(rows):
        inside = 0 < row < rows - 1
        if inside and t[row] != t[row - 1] and t[row] != t[row + 1]:
            continue
        key = mix(t[row])
        for node in (src[row], dst[row]):
            mark = marks[node] if node < len(marks) else mix(np.uint64(node))
            key = mix(key * FNV + mark)
        for column in range(features.shape[1]):
            key = (key ^ np.uint64(features[row, column])) * FNV
        out[row] = mix(key)


def ties(src: np.ndarray, dst: np.ndarray, t: np.ndarray, marks: np.ndarray, features: np.ndarray | None) -> np.ndarray:
    """The key (e,) of each event that shares its time with others; 0 for one that is alone at its time.

    `marks` (n,) are `id_marks` of the nodes; a node beyond them is called by its number.
    """
    when = (np.asarray(t, np.float64) + 0.0).view(np.uint64)  # -0.0 and 0.0 are one time
    given = np.zeros((len(t), 0)) if features is None else features
    carried = np.ascontiguousarray(given, np.float32).view(np.uint32)
    out = np.zeros(len(t), np.uint64)
    columns = [np.ascontiguousarray(column).view() for column in (src, dst, when, marks, carried)]
    for column in columns:  # the kernel is compiled once, for columns that it cannot change
        column.flags.writeable = False
    tie_keys(*columns, out)  # type: ignore[call-arg]
    return out


# --- edges alive --------------------------------------------------------------------------------------------


@kernel
def follow_edges(src, dst, op, pair, alive, seen, heads, incident, strict, from_row, origin, edge):
    """Walk through the events and keep count of living edges.

    `pair` (e,) numbers the distinct (src, dst); node v's pairs are incident[heads[v]:heads[v + 1]]. Rows from
    `from_row` on are kept: each gives one output row, except that a removal gives one for every living edge
    of its node. `origin` and `edge` receive (row, pair) of each output row. Returns how many there are, and the
    first row that deletes something that is not there (strict), or -1.
    """
    count = 0
    for row in range(len(src)):
        kind, node = op[row], src[row]
        kept = row >= from_row
        if kind == REMOVE:
            if strict and kept and not seen[node]:
                return count, row
            for k in range(heads[node], heads[node + 1]):
                this = incident[k]
                while alive[this] > 0:
                    alive[this] -= 1
                    if kept:
                        origin[count] = row
                        edge[count] = this
                        count += 1
            seen[node] = False
            continue
        if kind == ADD:
            alive[pair[row]] += 1
        elif kind == DELETE:
            if alive[pair[row]] > 0:
                alive[pair[row]] -= 1
            elif strict and kept:
                return count, row
        seen[node] = True
        seen[dst[row]] = True
        if kept:
            origin[count] = row
            edge[count] = pair[row]
            count += 1
    return count, -1
