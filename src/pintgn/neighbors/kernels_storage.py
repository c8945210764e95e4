"""Native upkeep of the adjacency: append events, lay segments out anew.

Each node owns a segment of the arenas whose size is a power of two, filled from its end towards its start so that
its entries lie newest first. A full segment moves to one of twice the size; the old one goes to a free list of its
size and serves another node. An append therefore costs a constant number of copies per entry, whatever the
degree, and at most a constant factor of space.

The arenas are `ids` (the other endpoint), `times`, `numbers` (event numbers) and `outgoing` (1 outgoing, 0 incoming).

Simultaneous events may come with `ties`, which then decide which of them counts as the newer: within one time a node's
entries lie by falling tie, and by falling number where ties are equal.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel, prefetch

SMALLEST = 2  # most nodes of most logs have very few events
SIZES = 64  # one free list per power of two
FEW = 16  # simultaneous entries that are ordered one by one
AHEAD = 8  # events whose lists are on their way from memory


@inner
def list_of(node, part, parts):
    """Where the list of a node stands in one part of an index that is shared out by node; -1 for another part's."""
    return node // parts if node % parts == part else -1


@inner
def next_power(heads, node):
    """The power of two of the segment that a node moves to with its next entry; -1 where there is space in its own.

    A segment is always the smallest power of two, from SMALLEST on, that holds its entries: its size need not be kept.
    """
    if node < 0:
        return -1
    length = heads[node, 1]
    if length != 0 and (length < SMALLEST or length & (length - 1) != 0):
        return -1
    power = 0
    while (1 << power) < max(2 * length, SMALLEST):
        power += 1
    return power


@inner
def space_needed(heads, free, u, v):
    """What the arena must have beyond its used part so that both nodes can take one more entry.

    It is asked for before either moves: a node that had moved when there was no space for the other would, with a
    length that is unchanged, move once more.
    """
    power, other = next_power(heads, u), next_power(heads, v)
    need = 1 << power if power >= 0 and free[power] < 0 else 0
    if v != u and other >= 0 and (other == power or free[other] < 0):
        need += 1 << other
    return need


@inner
def make_room(heads, ids, times, numbers, outgoing, free, used, node):
    """See that a node's segment can take one more entry; there is space in the arena."""
    length, power = heads[node, 1], next_power(heads, node)
    if power < 0:
        return
    new = 1 << power
    base = free[power]
    if base >= 0:
        free[power] = np.int64(numbers[base])  # a free segment keeps the next one's start in its first number
    else:
        base = used[0]
        used[0] = base + new
    start, first = heads[node, 0], base + new - length
    for j in range(length):
        ids[first + j] = ids[start + j]
        times[first + j] = times[start + j]
        numbers[first + j] = numbers[start + j]
        outgoing[first + j] = outgoing[start + j]
    if length > 0:
        numbers[start] = free[power - 1]
        free[power - 1] = start
    heads[node, 0] = first


@inner
def tie_of(number, tied_numbers, ties):
    """The tie of an event by its number; 0 for one that is not known."""
    index = number - tied_numbers[0]  # numbers mostly have no gaps
    if not (0 <= index < ties.shape[0] and tied_numbers[index] == number):
        index = np.searchsorted(tied_numbers, number)
    return ties[index] if index < ties.shape[0] and tied_numbers[index] == number else np.uint64(0)


@inner
def sort_newest(heads, ids, times, numbers, outgoing, node, tied_numbers, ties):
    """Bring a node's entries of its newest time into the order of their ties."""
    first, stop = heads[node, 0], heads[node, 0] + heads[node, 1]
    end = first + 1
    while end < stop and times[end] == times[first]:
        end += 1
    if end - first < 2:
        return
    if end - first <= FEW:
        for i in range(first + 1, end):
            id, number, direction = ids[i], np.int64(numbers[i]), outgoing[i]
            tie, j = tie_of(number, tied_numbers, ties), i
            while j > first and tie_of(np.int64(numbers[j - 1]), tied_numbers, ties) < tie:
                ids[j], numbers[j], outgoing[j] = ids[j - 1], numbers[j - 1], outgoing[j - 1]
                j -= 1
            ids[j], numbers[j], outgoing[j] = id, number, direction
        return
    keys = np.empty(end - first, np.uint64)
    in_order = True
    for j in range(end - first):
        keys[j] = ~tie_of(np.int64(numbers[first + j]), tied_numbers, ties)  # the largest first
        in_order = in_order and (j == 0 or keys[j - 1] <= keys[j])
    if in_order:
        return
    # Stable, and what was just appended lies before the rest, newest first: so numbers fall where ties are equal.
    order = np.argsort(keys, kind="mergesort")
    old_ids, old_numbers, old_outgoing = ids[first:end].copy(), numbers[first:end].copy(), outgoing[first:end].copy()
    for j in range(end - first):  # by hand: assignments of slices take Numba seconds to compile
        ids[first + j], numbers[first + j], outgoing[first + j] = (
            old_ids[order[j]],
            old_numbers[order[j]],
            old_outgoing[order[j]],
        )


@inner
def settle_group(
    heads, ids, times, numbers, outgoing, src, dst, own_numbers, next_number, begin, end, tied_numbers, ties,
    part, parts,
):  # fmt: skip
    """Order the entries of a group of simultaneous events, of which begin … end - 1 were just appended."""
    for i in range(end - 1, begin - 1, -1):
        number = own_numbers[i] if own_numbers.shape[0] > 0 else next_number + i
        for node in (list_of(src[i], part, parts), list_of(dst[i], part, parts)):
            if node >= 0 and numbers[heads[node, 0]] == number:  # its newest entry: the node's turn, once
                sort_newest(heads, ids, times, numbers, outgoing, node, tied_numbers, ties)


@kernel
def append_events(
    heads, ids, times, numbers, outgoing, free, used, src, dst, t, own_numbers, next_number, begin, tied_numbers, ties,
    part, parts,
):  # fmt: skip
    """Append events from `begin` on; returns (events done, arena size needed to go on).

    One entry for each endpoint, one in all for a self-loop, which goes out. `ties`, of the events `tied_numbers`, are
    those of these events and of earlier ones at the clock; none means that numbers alone decide. Of an index that is
    shared out, only the lists of this part are kept.
    """
    group = begin
    while group > 0 and t[group - 1] == t[begin]:
        group -= 1
    for i in range(begin, src.shape[0]):
        if i + 2 * AHEAD < src.shape[0]:
            prefetch(heads, 2 * list_of(src[i + 2 * AHEAD], part, parts))
            prefetch(heads, 2 * list_of(dst[i + 2 * AHEAD], part, parts))
        if i + AHEAD < src.shape[0]:
            for node in (list_of(src[i + AHEAD], part, parts), list_of(dst[i + AHEAD], part, parts)):
                if node >= 0:
                    p = heads[node, 0] - 1
                    prefetch(ids, p)
                    prefetch(times, p)
                    prefetch(numbers, p)
                    prefetch(outgoing, p)
        u, v = list_of(src[i], part, parts), list_of(dst[i], part, parts)
        need = used[0] + space_needed(heads, free, u, v)
        if need > ids.shape[0]:
            return i, need
        if u >= 0:
            make_room(heads, ids, times, numbers, outgoing, free, used, u)
        if v >= 0 and v != u:
            make_room(heads, ids, times, numbers, outgoing, free, used, v)
        number = own_numbers[i] if own_numbers.shape[0] > 0 else next_number + i
        if u >= 0:
            p = heads[u, 0] - 1
            ids[p], times[p], numbers[p], outgoing[p] = dst[i], t[i], number, 1
            heads[u, 0] = p
            heads[u, 1] += 1
        if v >= 0 and v != u:
            p = heads[v, 0] - 1
            ids[p], times[p], numbers[p], outgoing[p] = src[i], t[i], number, 0
            heads[v, 0] = p
            heads[v, 1] += 1
        if i + 1 == src.shape[0] or t[i + 1] != t[i]:
            if ties.shape[0] > 0 and (i > group or group == 0):  # the first group may go on from before
                settle_group(
                    heads, ids, times, numbers, outgoing, src, dst, own_numbers, next_number, group, i + 1,
                    tied_numbers, ties, part, parts,
                )  # fmt: skip
            group = i + 1
    return src.shape[0], 0


@kernel
def kept_lengths(heads, times, keep_last, spared, clock, floored, floor, out):
    """How many of each node's newest entries remain: at most `keep_last`, none with time < floor.

    `spared` entries at the clock's own time are not counted.
    """
    for v in range(heads.shape[0]):
        first, length, beside = heads[v, 0], heads[v, 1], 0
        while spared and beside < length and times[first + beside] == clock:
            beside += 1
        if length - beside > keep_last:
            length = keep_last + beside
        if floored:
            low, high = 0, length
            while low < high:
                middle = (low + high) >> 1
                if times[first + middle] >= floor:
                    low = middle + 1
                else:
                    high = middle
            length = low
        out[v] = length


@kernel
def lay_out(lengths, heads):
    """Give every node the smallest segment that holds its entries; returns the arena size."""
    used = 0
    for v in range(lengths.shape[0]):
        size = 0
        if lengths[v] > 0:
            size = SMALLEST
            while size < lengths[v]:
                size *= 2
        used += size
        heads[v, 0] = used - lengths[v]
        heads[v, 1] = lengths[v]
    return used


@kernel
def copy_entries(starts, ids, times, numbers, outgoing, heads, new_ids, new_times, new_numbers, new_outgoing):
    """Copy each node's newest entries from their old segment to the new one."""
    for v in range(heads.shape[0]):
        start, first = starts[v], heads[v, 0]
        for j in range(heads[v, 1]):
            new_ids[first + j] = ids[start + j]
            new_times[first + j] = times[start + j]
            new_numbers[first + j] = numbers[start + j]
            new_outgoing[first + j] = outgoing[start + j]


@kernel
def copy_column(heads, arena, out):
    """Copy one arena's entries, node after node, with nothing between them."""
    at = 0
    for v in range(heads.shape[0]):
        first = heads[v, 0]
        for j in range(heads[v, 1]):
            out[at + j] = arena[first + j]
        at += heads[v, 1]


@kernel
def check_stored(offsets, ids, times, numbers, nodes, next_number, clock):
    """Whether a stored adjacency (entries of node v at offsets[v]:offsets[v + 1]) is in order."""
    for v in range(offsets.shape[0] - 1):
        for p in range(offsets[v], offsets[v + 1]):
            if not (0 <= ids[p] < nodes and 0 <= numbers[p] < next_number and times[p] <= clock):
                return False
            older = p == offsets[v] or (times[p] < times[p - 1] and numbers[p] < numbers[p - 1])
            if not (older or times[p] == times[p - 1]):
                return False
    return True
