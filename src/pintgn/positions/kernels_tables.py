"""Tables of walk counts: search, fill, resize and add. See `kernels_arena` for their layout."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel
from pintgn.positions.kernels_arena import (
    BINS,
    BOUND,
    CAP,
    DENSE_SHARE,
    EMPTY,
    FEW,
    HELD,
    LAST,
    NARROW,
    OFF,
    ONE,
    RATIO,
    SHIFT,
    SIZES,
    SPREAD,
    TOP_BYTE,
    UNIT,
    WIDTH,
    WINDOW,
    ZERO,
    allocate,
    block_class,
    count_below,
    head,
    keys_of,
    offset_of,
    plus,
    release,
    scramble,
    size_class,
    sparse_class,
    unscramble,
)

NONE = np.int64(0)


@inner(allocates=False, forceinline=True)
def find(slots, slot, key):
    """The first slot from `slot` on whose key is not smaller."""
    below = WINDOW
    while below == WINDOW:
        below = count_below(slots, slot, key)  # type: ignore[call-arg]
        slot += below
    return slot


@inner(allocates=False)
def fill(slots, counts, book, offset, cap, spread, old, old_cap, keys, vals, begin, end):
    """Write an old sparse table and new nodes begin:end into a fresh block; False if they overflow it."""
    source, first = keys_of(book, old, old_cap), keys_of(book, offset, cap)
    for i in range(np.uint64(cap)):
        counts[offset + i] = 0
    for i in range(np.uint64(cap) + WINDOW):
        slots[first + i] = EMPTY
    slot, a, last = ZERO, ZERO, np.uint64(old_cap)
    while True:
        while a < last and slots[source + a] == EMPTY:
            a += ONE
        if a == last and begin == end:
            return True
        if begin == end or (a < last and slots[source + a] < keys[begin]):
            key, value = slots[source + a], counts[old + a]
            a += ONE
        else:
            key, value = keys[begin], vals[begin]
            begin += ONE
        slot = max(slot, (np.uint64(key) * np.uint64(spread)) >> SHIFT)
        if slot >= np.uint64(cap):
            return False
        slots[first + slot], counts[offset + slot] = key, value
        slot += ONE


@inner(allocates=False)
def make_sparse(heads, slots, counts, book, table, c, old, old_cap, keys, vals, begin, end, held):
    """Put an old sparse block and new nodes begin:end into a block of size class c."""
    cap = (SIZES[c] * book[RATIO] - WIDTH) // (book[RATIO] + 1) // 8 * 8
    offset = allocate(counts, book, c)
    # The slots after the spread take the overflow of the last homes. Should a table's keys crowd, a smaller
    # spread always fits in the end: with 1 the table is a plain sorted list, as tiny tables are anyway.
    spread = 1 if cap <= 16 else cap - 8 - min(cap // 32, 16)
    while not fill(slots, counts, book, offset, cap, spread, old, old_cap, keys, vals, begin, end):
        spread = max(spread // 2, 1)
    heads[table, OFF], heads[table, CAP] = offset // np.uint64(UNIT), cap
    heads[table, SPREAD], heads[table, HELD] = spread, held


@inner(allocates=False, forceinline=True)
def dense_enough(held, last):
    return held * DENSE_SHARE + FEW > last


@inner(allocates=False, forceinline=True)
def dense_class(last):
    """The block of a dense table for ids up to `last`, and some that are yet to come."""
    return size_class(last + last // 4 + 1)


@inner(allocates=False)
def make_dense(heads, slots, counts, book, table, held, last):
    """Give a table the dense shape, large enough for ids up to `last`."""
    old, cap, c = offset_of(heads, table), head(heads, table, CAP), dense_class(last)
    new = allocate(counts, book, c)
    for i in range(np.uint64(SIZES[c])):
        counts[new + i] = 0
    if cap < 0:
        for i in range(np.uint64(-cap)):
            counts[new + i] = counts[old + i]
    else:
        first = keys_of(book, old, cap)
        for i in range(np.uint64(cap)):
            if slots[first + i] != EMPTY:
                counts[new + unscramble(slots[first + i])] = counts[old + i]
    release(counts, book, old, cap)
    heads[table, OFF], heads[table, CAP] = new // np.uint64(UNIT), -SIZES[c]
    heads[table, HELD], heads[table, LAST] = held, last


@kernel(allocates=False)
def sort_pairs(keys, vals, total):
    """Sort the first `total` keys, and vals with them: evenly spread keys go to 256 bins, then a step or two.

    Scratch is two lists and the bins: the list, a copy of it, and (keys only) BINS numbers.
    """
    copy, bins = np.uint64(len(vals) // 2), np.uint64(len(vals))
    for i in range(np.uint64(BINS)):
        keys[bins + i] = 0
    for i in range(total):
        keys[copy + i], vals[copy + i] = keys[i], vals[i]
        keys[bins + np.uint64(keys[i] >> TOP_BYTE) + ONE] += np.uint32(1)
    for i in range(ONE, np.uint64(BINS)):
        keys[bins + i] += keys[bins + i - ONE]
    for i in range(total):
        bin = bins + np.uint64(keys[copy + i] >> TOP_BYTE)
        index = np.uint64(keys[bin])
        keys[index], vals[index] = keys[copy + i], vals[copy + i]
        keys[bin] += np.uint32(1)
    for i in range(ONE, total):
        key, value, index = keys[i], vals[i], np.uint64(i)
        while index > ZERO and keys[index - ONE] > key:
            keys[index], vals[index] = keys[index - ONE], vals[index - ONE]
            index -= ONE
        keys[index], vals[index] = key, value


@inner(allocates=False)
def enlarge(heads, slots, counts, book, table, last, keys, vals):
    """Extend a dense table to ids up to `last`; it becomes sparse if it is no longer dense enough."""
    old, cap, held = offset_of(heads, table), head(heads, table, CAP), NONE
    for i in range(np.uint64(-cap)):
        held += counts[old + i] > 0
    if dense_enough(held, last):
        make_dense(heads, slots, counts, book, table, held, last)
        return
    held = NONE
    for i in range(np.uint64(-cap)):
        if counts[old + i] > 0:
            keys[held], vals[held] = scramble(i), counts[old + i]
            held += 1
    sort_pairs(keys, vals, np.uint64(held))
    c = sparse_class(held, book[RATIO])
    make_sparse(heads, slots, counts, book, table, c, ZERO, NONE, keys, vals, ZERO, np.uint64(held), held)
    release(counts, book, old, cap)


@inner(allocates=False)
def insert(heads, slots, counts, book, table, keys, vals, end):
    """Insert nodes :end, whose keys ascend and which the sparse table does not hold; LAST is already set."""
    cap, held = head(heads, table, CAP), head(heads, table, HELD) + np.int64(end)
    done, offset = ZERO, offset_of(heads, table)
    if dense_enough(held, head(heads, table, LAST)):
        make_dense(heads, slots, counts, book, table, held, head(heads, table, LAST))
        offset = offset_of(heads, table)
        for i in range(end):
            counts[offset + unscramble(keys[i])] = vals[i]
        return
    if held <= (cap if cap <= 16 else cap - cap // 8):
        first, spread, last = keys_of(book, offset, cap), np.uint64(head(heads, table, SPREAD)), np.uint64(cap)
        while done < end:
            key = keys[done]
            slot = find(slots, first + ((np.uint64(key) * spread) >> SHIFT), key) - first
            gap = slot
            while gap < last and slots[first + gap] != EMPTY:
                gap += ONE
            if gap == last:
                break
            while gap > slot:
                slots[first + gap], counts[offset + gap] = slots[first + gap - ONE], counts[offset + gap - ONE]
                gap -= ONE
            slots[first + slot], counts[offset + slot] = key, vals[done]
            done += ONE
    heads[table, HELD] = held
    if done < end:
        c = sparse_class(held, book[RATIO])
        if cap > 0:
            c = max(c, block_class(cap, book[RATIO]) + 1)
        make_sparse(heads, slots, counts, book, table, c, offset, cap, keys, vals, done, end, held)
        release(counts, book, offset, cap)


@inner(allocates=False, forceinline=True)
def add_node(heads, slots, counts, book, into, node, times, keys, vals):
    """Level 1: the other endpoint itself, `times` times."""
    if head(heads, into, CAP) < 0 and node >= -head(heads, into, CAP):
        enlarge(heads, slots, counts, book, into, node, keys, vals)
    cap, offset = head(heads, into, CAP), offset_of(heads, into)
    heads[into, LAST] = max(head(heads, into, LAST), node)
    if cap < 0:
        at = offset + np.uint64(node)
        counts[at] = plus(counts[at], times, counts.dtype.type(1))
        return
    key = scramble(node)
    if cap > 0:
        first = keys_of(book, offset, cap)
        slot = find(slots, first + ((np.uint64(key) * np.uint64(head(heads, into, SPREAD))) >> SHIFT), key)
        if slots[slot] == key:
            at = offset + slot - first
            counts[at] = plus(counts[at], times, counts.dtype.type(1))
            return
    keys[0], vals[0] = key, times
    insert(heads, slots, counts, book, into, keys, vals, ONE)


@inner(allocates=False)
def add_listed(slots, counts, offset, first, spread, keys, vals, total):
    """Add the listed nodes that a sparse table holds to it, and keep the others in the list; returns how many."""
    missing = ZERO
    for i in range(total):
        slot = find(slots, first + ((np.uint64(keys[i]) * spread) >> SHIFT), keys[i])
        if slots[slot] == keys[i]:
            at = offset + slot - first
            counts[at] = plus(counts[at], counts.dtype.type(1), vals[i])
        else:
            keys[missing], vals[missing] = keys[i], vals[i]
            missing += ONE
    return missing


@inner(allocates=False, forceinline=True)
def add_table(heads, slots, counts, book, into, source, times, keys, vals):
    """into += times * source, for two tables of different levels; keys and vals are scratch."""
    if head(heads, source, CAP) == 0:
        return
    last = max(head(heads, into, LAST), head(heads, source, LAST))
    if head(heads, into, CAP) < 0 and last >= -head(heads, into, CAP):
        enlarge(heads, slots, counts, book, into, last, keys, vals)
    if (
        head(heads, source, CAP) < 0
        and head(heads, into, CAP) >= 0
        and dense_enough(head(heads, into, HELD) + head(heads, source, HELD), last)
    ):
        make_dense(heads, slots, counts, book, into, head(heads, into, HELD), last)
    heads[into, LAST] = last
    a_cap, b_cap = head(heads, source, CAP), head(heads, into, CAP)
    a, b = offset_of(heads, source), offset_of(heads, into)
    if a_cap < 0 and b_cap < 0:  # whole units: no loop over a rest
        for i in range(np.uint64(head(heads, source, LAST) // UNIT * UNIT + UNIT)):
            counts[b + i] = plus(counts[b + i], times, counts[a + i])
        return
    first = keys_of(book, a, max(a_cap, 0))
    if b_cap < 0:  # an empty slot counts zero, so adding it to node 0 is harmless; a branch would cost more
        for i in range(np.uint64(a_cap)):
            at = b + (unscramble(slots[first + i]) if slots[first + i] != EMPTY else ZERO)
            counts[at] = plus(counts[at], times, counts[a + i])
        return
    missing, begin, spread, end = ZERO, keys_of(book, b, b_cap), np.uint64(head(heads, into, SPREAD)), np.uint64(b_cap)
    if a_cap < 0 or b_cap == 0:
        for i in range(np.uint64(abs(a_cap))):
            if counts[a + i] > 0:
                keys[missing] = slots[first + i] if a_cap > 0 else scramble(i)
                vals[missing] = plus(counts.dtype.type(0), times, counts[a + i])
                missing += ONE
        if a_cap < 0:
            sort_pairs(keys, vals, missing)
        if b_cap > 0:
            missing = add_listed(slots, counts, b, begin, spread, keys, vals, missing)
    else:
        for i in range(np.uint64(a_cap)):
            key = slots[first + i]
            slot = find(slots, begin + ((np.uint64(key) * spread) >> SHIFT), key)
            if slots[slot] == key:  # also an empty slot: it finds another one, and adds zero to some count
                at = b + (slot - begin if slot - begin < end else ZERO)
                counts[at] = plus(counts[at], times, counts[a + i])
            else:
                keys[missing], vals[missing] = key, plus(counts.dtype.type(0), times, counts[a + i])
                missing += ONE
    if missing > ZERO:
        insert(heads, slots, counts, book, into, keys, vals, missing)


@inner(allocates=False)
def tighten(heads, counts, into, source):
    """Set the bounds of two tables (or one and a single node: source -1) to their largest counts."""
    most = 1
    for table in (into, source):
        if table >= 0:
            offset, most = offset_of(heads, table), 0
            for i in range(np.uint64(abs(head(heads, table, CAP)))):
                most = max(most, int(counts[offset + i]))
            heads[table, BOUND] = most
    return most if source >= 0 else 1


@inner(allocates=False, forceinline=True)
def fits(heads, counts, into, source, times):
    """Whether four bytes still hold into += times * source (or one node: source -1)."""
    more = head(heads, source, BOUND) if source >= 0 else 1
    if head(heads, into, BOUND) + times * more > NARROW:
        more = tighten(heads, counts, into, source)
        if head(heads, into, BOUND) + times * more > NARROW:
            return False
    heads[into, BOUND] += np.int64(times * more)
    return True


@inner(allocates=False, forceinline=True)
def look_up(slots, counts, book, offset, cap, spread, node, key):
    """The count of a node in the table at `offset`, given also the node's key."""
    if cap < 0:
        return np.float64(counts[offset + np.uint64(node)]) if node < -cap else 0.0
    first = keys_of(book, offset, cap)
    slot = find(slots, first + ((np.uint64(key) * spread) >> SHIFT), key)
    return np.float64(counts[offset + slot - first]) if slots[slot] == key else 0.0
