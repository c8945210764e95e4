"""Native loops of ingest: numbering ids, reordering rows, following edges through deletions.

A set of known ids is an open-addressing table `slots` (a power of two long) of node numbers, -1 where free;
the ids themselves lie in `known` (whole numbers) or in an arena of bytes (`text`, `ends`) by node number. Two
name spaces are two tables over one store, so numbers are given in order of first appearance over both.
Text columns come as Arrow lays them out: the bytes `data`, and row r between offsets r and r + 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
FNV = np.uint64(0x100000001B3)
START = np.uint64(0xCBF29CE484222325)
LEAST = -(2**63 // 10)

BOTH, FROM_SRC, FROM_DST = 0, 1, 2
"""How a row names its nodes: src and dst; only src (and dst is the same node); only dst."""
ADD, DELETE, NODE, REMOVE = 1, -1, 0, 2


@njit(cache=True, nogil=True)
def mix(z):
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


# --- whole numbers ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def find_int(key, slots, known):
    """The place of a key in the table: where it is, or the free place where it belongs."""
    mask = np.int64(len(slots) - 1)
    place = np.int64(mix(np.uint64(key))) & mask
    while slots[place] >= 0 and known[slots[place]] != key:
        place = (place + 1) & mask
    return place


@njit(cache=True, nogil=True)
def number_ints(src, dst, how, src_slots, dst_slots, known, side, count, out_src, out_dst):
    """Number a run of events; new ids get the next numbers. Returns the new count of nodes."""
    for row in range(len(src)):
        way = how[row] if len(how) else BOTH
        if way != FROM_DST:
            place = find_int(src[row], src_slots, known)
            if src_slots[place] < 0:
                src_slots[place] = count
                known[count] = src[row]
                side[count] = 0
                count += 1
            out_src[row] = src_slots[place]
            if way == FROM_SRC:
                out_dst[row] = out_src[row]
        if way != FROM_SRC:
            place = find_int(dst[row], dst_slots, known)
            if dst_slots[place] < 0:
                dst_slots[place] = count
                known[count] = dst[row]
                side[count] = 1
                count += 1
            out_dst[row] = dst_slots[place]
            if way == FROM_DST:
                out_src[row] = out_dst[row]
    return count


@njit(cache=True, nogil=True)
def rehash_ints(slots, known, side, which, first, stop):
    """Enter the nodes first … stop-1 of one side (all sides when which < 0) into a table."""
    for node in range(first, stop):
        if which < 0 or side[node] == which:
            slots[find_int(known[node], slots, known)] = node


@njit(cache=True, nogil=True)
def parse_ints(data, offsets, out):
    """Whole numbers of a text column, only as Python would write them: no sign +, no leading zero, no blank.

    Returns the first row that is anything else (or does not fit 64 bits), or -1.
    """
    for row in range(len(out)):
        place, stop = offsets[row], offsets[row + 1]
        negative = place < stop and data[place] == 45
        if negative:
            place += 1
        digits = stop - place
        if digits < 1 or digits > 19 or (data[place] == 48 and (digits > 1 or negative)):
            return row
        value = np.int64(0)
        for k in range(place, stop):
            digit = np.int64(data[k]) - 48
            if digit < 0 or digit > 9:
                return row
            if value < LEAST or (value == LEAST and digit > 8):
                return row
            value = value * 10 - digit  # downwards, because -2**63 has no positive twin
        if not negative:
            if value == np.iinfo(np.int64).min:
                return row
            value = -value
        out[row] = value
    return -1


# --- text ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def hash_text(data, first, stop):
    value = START
    for k in range(first, stop):
        value = (value ^ np.uint64(data[k])) * FNV
    return mix(value)


@njit(cache=True, nogil=True)
def find_text(data, first, stop, slots, text, ends):
    """As `find_int`, for the bytes first … stop-1 of data."""
    mask = np.int64(len(slots) - 1)
    place = np.int64(hash_text(data, first, stop)) & mask
    while slots[place] >= 0:
        node = slots[place]
        begin = ends[node]
        if ends[node + 1] - begin == stop - first:
            k = 0
            while k < stop - first and text[begin + k] == data[first + k]:
                k += 1
            if k == stop - first:
                return place
        place = (place + 1) & mask
    return place


@njit(cache=True, nogil=True)
def keep_text(data, first, stop, text, ends, node):
    begin = ends[node]
    for k in range(stop - first):
        text[begin + k] = data[first + k]
    ends[node + 1] = begin + stop - first


@njit(cache=True, nogil=True)
def number_texts(src_data, src, dst_data, dst, how, src_slots, dst_slots, text, ends, side, count, out_src, out_dst):
    """As `number_ints`, for text columns."""
    for row in range(len(out_src)):
        way = how[row] if len(how) else BOTH
        if way != FROM_DST:
            place = find_text(src_data, src[row], src[row + 1], src_slots, text, ends)
            if src_slots[place] < 0:
                src_slots[place] = count
                keep_text(src_data, src[row], src[row + 1], text, ends, count)
                side[count] = 0
                count += 1
            out_src[row] = src_slots[place]
            if way == FROM_SRC:
                out_dst[row] = out_src[row]
        if way != FROM_SRC:
            place = find_text(dst_data, dst[row], dst[row + 1], dst_slots, text, ends)
            if dst_slots[place] < 0:
                dst_slots[place] = count
                keep_text(dst_data, dst[row], dst[row + 1], text, ends, count)
                side[count] = 1
                count += 1
            out_dst[row] = dst_slots[place]
            if way == FROM_DST:
                out_src[row] = out_dst[row]
    return count


@njit(cache=True, nogil=True)
def rehash_texts(slots, text, ends, side, which, first, stop):
    for node in range(first, stop):
        if which < 0 or side[node] == which:
            slots[find_text(text, ends[node], ends[node + 1], slots, text, ends)] = node


@njit(cache=True, nogil=True)
def first_blank_edge(data, offsets):
    """First row that is empty or begins or ends with a blank, or -1."""
    for row in range(len(offsets) - 1):
        first, stop = offsets[row], offsets[row + 1]
        if first == stop or data[first] <= 32 or data[stop - 1] <= 32:
            return row
    return -1


# --- order --------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def reorder_rows(matrix, order):
    """matrix[:] = matrix[order], in place: each cycle of the permutation is walked once."""
    width = matrix.shape[1]
    done = np.zeros(len(order), np.bool_)
    held = np.empty(width, matrix.dtype)
    for start in range(len(order)):
        if done[start]:
            continue
        held[:] = matrix[start]
        place = start
        while True:
            done[place] = True
            source = order[place]
            if source == start:
                matrix[place] = held
                break
            matrix[place] = matrix[source]
            place = source


# --- edges alive --------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def follow_edges(src, dst, op, pair, alive, seen, heads, incident, strict, from_row, origin, edge):
    """Walk through the events and keep count of living edges.

    `pair` (e,) numbers the distinct (src, dst); node v's pairs are incident[heads[v]:heads[v + 1]]. Rows from
    `from_row` on are kept: each gives one output row, except that a removal gives one for every living edge
    of its node. `origin` and `edge` receive (row, pair) of each output row when they are long enough. Returns
    how many there are, and the first row that deletes something that is not there (strict), or -1.
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
                        if count < len(origin):
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
            if count < len(origin):
                origin[count] = row
                edge[count] = pair[row]
            count += 1
    return count, -1
