"""Upkeep of the adjacency: append events, lay out segments anew.

Each node owns a segment of the arenas whose size is a power of two, filled from its end towards its start so that
its entries lie newest first. A full segment moves to one of twice the size; the old one goes to a free list of its
size and serves another node. An append therefore costs a constant number of copies per entry, whatever the
degree, and at most a constant factor of space.

The arenas are `ids` (the other endpoint), `times`, `numbers` (event numbers) and `sent` (how many entries of the list
go out, from the oldest to this one). Lists of two busy nodes lie among those of single nodes, with heads of their own.

Simultaneous events may come with `ties`, which then decide which of them counts as the newer: within one time a node's
entries lie by falling tie, and by falling number where ties are equal.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel, prefetch
from pintgn.neighbors.kernels_lookups import is_hub, pair_slot

SMALLEST = 2  # most nodes of most logs have very few events
SIZES = 64  # one free list per power of two
FEW = 16  # simultaneous entries that are ordered one by one
PREFETCH = 8  # events whose lists are on their way from memory
GROW_PAIRS = -1  # instead of the arena size that an append needs: the table of busy pairs must grow


@inner
def next_power(heads, node):
    """The power of two of the segment that a node moves to with its next entry; -1 where there is space in its own.

    A segment is always the smallest power of two, from SMALLEST on, that holds its entries: its size need not be kept.
    """
    length = heads[node, 1]
    if length != 0 and (length < SMALLEST or length & (length - 1) != 0):
        return -1
    power = 0
    while (1 << power) < max(2 * length, SMALLEST):
        power += 1
    return power


@inner
def space_needed(heads, free, u, v):
    """The free space that the arena needs so that both nodes can take one more entry.

    It is asked for before either moves: a node that had moved when there was no space for the other would, with a
    length that is unchanged, move once more.
    """
    power, other = next_power(heads, u), next_power(heads, v)
    need = 1 << power if power >= 0 and free[power] < 0 else 0
    if v != u and other >= 0 and (other == power or free[other] < 0):
        need += 1 << other
    return need


@inner
def make_room(heads, ids, times, numbers, sent, free, used, node):
    """Give a node's segment space for one more entry; the arena has it."""
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
        sent[first + j] = sent[start + j]
    if length > 0:
        numbers[start] = free[power - 1]
        free[power - 1] = start
    heads[node, 0] = first


@inner
def push(heads, ids, times, numbers, sent, free, used, node, other, t, number, goes_out):
    """Write a node's newest entry; there is space in the arena."""
    make_room(heads, ids, times, numbers, sent, free, used, node)
    p, length = heads[node, 0] - 1, heads[node, 1]
    ids[p], times[p], numbers[p] = other, t, number
    sent[p] = goes_out + (sent[p + 1] if length > 0 else 0)
    heads[node, 0], heads[node, 1] = p, length + 1


@inner
def turn_to_directions(sent, first, end, stop):
    """Replace the counts of entries first … end - 1 of a list that ends at `stop` by directions: 1 for each that goes
    out."""
    for p in range(first, end):
        sent[p] -= sent[p + 1] if p + 1 < stop else 0


@inner
def turn_to_counts(sent, first, end, stop):
    """The inverse of `turn_to_directions`."""
    for p in range(end - 1, first - 1, -1):
        sent[p] += sent[p + 1] if p + 1 < stop else 0


@inner
def tie_of(number, tied_numbers, ties):
    """The tie of an event by its number; 0 for one that is not known."""
    index = number - tied_numbers[0]  # numbers mostly have no gaps
    if not (0 <= index < ties.shape[0] and tied_numbers[index] == number):
        index = np.searchsorted(tied_numbers, number)
    return ties[index] if index < ties.shape[0] and tied_numbers[index] == number else np.uint64(0)


@inner
def sort_newest(heads, ids, times, numbers, sent, node, tied_numbers, ties):
    """Bring a node's entries of its newest time into the order of their ties."""
    first, stop = heads[node, 0], heads[node, 0] + heads[node, 1]
    end = first + 1
    while end < stop and times[end] == times[first]:
        end += 1
    if end - first < 2:
        return
    keys = np.empty(end - first if end - first > FEW else 0, np.uint64)
    in_order = keys.shape[0] > 0
    for j in range(keys.shape[0]):
        keys[j] = ~tie_of(np.int64(numbers[first + j]), tied_numbers, ties)  # the largest first
        in_order = in_order and (j == 0 or keys[j - 1] <= keys[j])
    if in_order:
        return
    turn_to_directions(sent, first, end, stop)
    if keys.shape[0] == 0:
        for i in range(first + 1, end):
            id, number, direction = ids[i], np.int64(numbers[i]), sent[i]
            tie, j = tie_of(number, tied_numbers, ties), i
            while j > first and tie_of(np.int64(numbers[j - 1]), tied_numbers, ties) < tie:
                ids[j], numbers[j], sent[j] = ids[j - 1], numbers[j - 1], sent[j - 1]
                j -= 1
            ids[j], numbers[j], sent[j] = id, number, direction
    else:
        # Stable, and what was just appended lies before the rest, newest first: so numbers fall where ties are equal.
        order = np.argsort(keys, kind="mergesort")
        old_ids, old_numbers, old_sent = ids[first:end].copy(), numbers[first:end].copy(), sent[first:end].copy()
        for j in range(end - first):  # by hand: assignments of slices take Numba seconds to compile
            k = order[j]
            ids[first + j], numbers[first + j], sent[first + j] = old_ids[k], old_numbers[k], old_sent[k]
    turn_to_counts(sent, first, end, stop)


@inner
def settle_group(
    heads, ids, times, numbers, sent, pair_keys, pair_heads, hub, src, dst, own_numbers, next_number, begin, end,
    tied_numbers, ties,
):  # fmt: skip
    """Order the entries of a group of simultaneous events, of which begin … end - 1 were just appended."""
    for i in range(end - 1, begin - 1, -1):
        number = own_numbers[i] if own_numbers.shape[0] > 0 else next_number + i
        u, v = src[i], dst[i]
        for node in (u, v):
            if numbers[heads[node, 0]] == number:  # its newest entry: the node's turn, once
                sort_newest(heads, ids, times, numbers, sent, node, tied_numbers, ties)
        if is_hub(heads, u, hub) and is_hub(heads, v, hub):
            slot = pair_slot(pair_keys, u, v)
            # not there yet where one has just become a hub: it is entered in the order of its list
            if pair_keys[slot, 0] >= 0 and numbers[pair_heads[slot, 0]] == number:
                sort_newest(pair_heads, ids, times, numbers, sent, slot, tied_numbers, ties)


@kernel
def append_events(
    heads, ids, times, numbers, sent, pair_keys, pair_heads, pairs, hub, free, used, src, dst, t, own_numbers,
    next_number, begin, tied_numbers, ties,
):  # fmt: skip
    """Append events from `begin` on; returns (events done, what is needed to go on).

    That is the size of the arena, or GROW_PAIRS, or 0: then all is done, or a node of the last event has just become a
    hub and is to be entered (`enter_hub`).

    One entry for each endpoint, one in all for a self-loop, which goes out. `ties`, of the events `tied_numbers`, are
    those of these events and of earlier ones at the clock; none means that numbers alone decide.
    """
    group = begin
    while group > 0 and t[group - 1] == t[begin]:
        group -= 1
    for i in range(begin, src.shape[0]):
        if i + 2 * PREFETCH < src.shape[0]:
            prefetch(heads, 2 * src[i + 2 * PREFETCH])
            prefetch(heads, 2 * dst[i + 2 * PREFETCH])
        if i + PREFETCH < src.shape[0]:
            for node in (src[i + PREFETCH], dst[i + PREFETCH]):
                p = heads[node, 0] - 1
                prefetch(ids, p)
                prefetch(times, p)
                prefetch(numbers, p)
                prefetch(sent, p)
        u, v = src[i], dst[i]
        need = used[0] + space_needed(heads, free, u, v)
        slot = -1
        if is_hub(heads, u, hub) and is_hub(heads, v, hub):
            slot = pair_slot(pair_keys, u, v)
            if pair_keys[slot, 0] < 0 and 2 * (pairs[0] + 1) > pair_keys.shape[0]:
                return i, GROW_PAIRS
            power = next_power(pair_heads, slot)
            need += 1 << power if power >= 0 else 0
        if need > ids.shape[0]:
            return i, need
        number = own_numbers[i] if own_numbers.shape[0] > 0 else next_number + i
        push(heads, ids, times, numbers, sent, free, used, u, v, t[i], number, 1)
        if v != u:
            push(heads, ids, times, numbers, sent, free, used, v, u, t[i], number, 0)
        if slot >= 0:
            take_slot(pair_keys, pair_heads, pairs, slot, u, v)
            push(pair_heads, ids, times, numbers, sent, free, used, slot, v, t[i], number, u <= v)
        if i + 1 == src.shape[0] or t[i + 1] != t[i]:
            if ties.shape[0] > 0 and (i > group or group == 0):  # the first group may go on from before
                settle_group(
                    heads, ids, times, numbers, sent, pair_keys, pair_heads, hub, src, dst, own_numbers, next_number,
                    group, i + 1, tied_numbers, ties,
                )  # fmt: skip
            group = i + 1
        if slot < 0 and (heads[u, 1] == hub or heads[v, 1] == hub):
            return i + 1, 0
    return src.shape[0], 0


# --- busy pairs -------------------------------------------------------------------------------------------


@inner
def take_slot(pair_keys, pair_heads, pairs, slot, u, v):
    """Make a slot that of two nodes, unless it is already."""
    if pair_keys[slot, 0] < 0:
        pair_keys[slot, 0], pair_keys[slot, 1] = min(u, v), max(u, v)
        pair_heads[slot, 0], pair_heads[slot, 1] = 0, 0
        pairs[0] += 1


@kernel
def enter_hub(
    heads, ids, times, numbers, sent, pair_keys, pair_heads, pairs, hub, free, used, node, last, skipped, begin
):  # fmt: skip
    """Give a hub a list with every hub up to node `last`, but for `skipped`; its first `begin` entries have theirs.

    Returns (entries done, what is needed to go on), as `append_events`.
    """
    start, length = heads[node, 0], heads[node, 1]
    for done in range(begin, length):
        p = start + length - 1 - done
        other = np.int64(ids[p])
        if other > last or other == skipped or not is_hub(heads, other, hub):
            continue
        slot = pair_slot(pair_keys, node, other)
        if pair_keys[slot, 0] < 0 and 2 * (pairs[0] + 1) > pair_keys.shape[0]:
            return done, GROW_PAIRS
        power = next_power(pair_heads, slot)
        if power >= 0 and used[0] + (1 << power) > ids.shape[0]:
            return done, used[0] + (1 << power)
        goes_out = sent[p] - (sent[p + 1] if done > 0 else 0)
        take_slot(pair_keys, pair_heads, pairs, slot, node, other)
        from_smaller = goes_out if node <= other else 1 - goes_out
        push(
            pair_heads, ids, times, numbers, sent, free, used, slot, other, times[p], np.int64(numbers[p]), from_smaller
        )  # fmt: skip
    return length, 0


@kernel
def rehash(old_keys, old_heads, pair_keys, pair_heads):
    """The busy pairs of a table in a larger one."""
    for old in range(old_keys.shape[0]):
        if old_keys[old, 0] >= 0:
            slot = pair_slot(pair_keys, np.int64(old_keys[old, 0]), np.int64(old_keys[old, 1]))
            for k in range(2):
                pair_keys[slot, k], pair_heads[slot, k] = old_keys[old, k], old_heads[old, k]


# --- laying out anew --------------------------------------------------------------------------------------


@kernel
def kept_lengths(heads, times, keep_last, spared, clock, floored, floor, out):
    """The number of each node's newest entries that remain: at most `keep_last`, none with time < floor.

    `spared` entries at the clock's own time are not counted.
    """
    for v in range(heads.shape[0]):
        first, length, at_clock = heads[v, 0], heads[v, 1], 0
        while spared and at_clock < length and times[first + at_clock] == clock:
            at_clock += 1
        if length - at_clock > keep_last:
            length = keep_last + at_clock
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
def copy_entries(starts, lengths, ids, times, numbers, sent, heads, new_ids, new_times, new_numbers, new_sent):
    """Copy each node's newest entries from their old segment, which held `lengths` of them, to the new one."""
    for v in range(heads.shape[0]):
        start, first = starts[v], heads[v, 0]
        dropped = sent[start + heads[v, 1]] if heads[v, 1] < lengths[v] else 0
        for j in range(heads[v, 1]):
            new_ids[first + j] = ids[start + j]
            new_times[first + j] = times[start + j]
            new_numbers[first + j] = numbers[start + j]
            new_sent[first + j] = sent[start + j] - dropped


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
def copy_directions(heads, sent, out):
    """1 for each entry that goes out, else 0, node after node."""
    at = 0
    for v in range(heads.shape[0]):
        first, stop = heads[v, 0], heads[v, 0] + heads[v, 1]
        for p in range(first, stop):
            out[at] = sent[p] - (sent[p + 1] if p + 1 < stop else 0)
            at += 1


@kernel
def count_sent(lengths, outgoing, out):
    """`sent` of entries that lie node after node, from which of them go out."""
    stop = 0
    for v in range(lengths.shape[0]):
        stop += lengths[v]
        count = 0
        for j in range(lengths[v]):
            count += outgoing[stop - 1 - j]
            out[stop - 1 - j] = count


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
