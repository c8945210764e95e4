"""Tables of walk counts in one arena: the storage kernels of the exact backend.

A table holds one level of one root's row: which nodes are reached in k steps, and how often. `counts` is the arena;
a count is a four-byte integer until some count could pass NARROW, then all of them become eight-byte floats (see
`widen`). `slots` is the same memory seen as four-byte words. A table has one of two shapes:

* sparse: `cap` counts, then `cap + WINDOW` keys. A key is the node id, scrambled (a bijection of 32 bits, so keys
  are unique and evenly spread). Keys ascend; the home of a key is its share of the first `spread` slots, its place
  is that slot or the next free one; unused slots hold EMPTY, which is larger than every key, and count zero. So a
  key is found by comparing WINDOW neighbors, and two tables are added by walking both in the same order.
* dense: `cap` counts, one per node id. `cap` is stored negative.

`heads` (tables, 5) says where each table is, its cap and spread, how many nodes it holds (a dense one: held when it
became dense) and what none of its counts exceeds. `book` holds the numbers named below, then one list of free blocks
for each size.

Two things are for speed. Indices are unsigned, so that Numba emits no test for negative ones: that halves the time
per count. And `_nrt=False`: nothing here allocates, so that Numba need not count references, which would cost more
at every call than a small table does. Only functions called from Python are cached, because Numba's cache notices
changes of a function's own file and of no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

MOST = 1e300  # eight-byte counts stop here: sums, products and logarithms of it stay finite
NARROW = 2**31 - 1  # the largest four-byte count
EMPTY = np.uint32(0xFFFFFFFF)  # no id below 2**31 scrambles to this
SPREAD_A, SPREAD_B = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)
UNSPREAD_A, UNSPREAD_B = np.uint32(0x0E8B2F51), np.uint32(0xA5CB9243)  # their inverses modulo 2**32
HALF = np.uint32(16)
ZERO, ONE, SHIFT = np.uint64(0), np.uint64(1), np.uint64(32)
WINDOW = np.uint64(8)
UNIT = 16  # blocks are multiples of this many counts, and `heads` gives places in these units
DENSE_SHARE = 8  # a table becomes dense when it holds one node in this many, and so many nodes do not count:
FEW = 256
# Block sizes: multiples of UNIT, then eight per doubling, so that freed blocks fit their next owner.
SIZES = np.array([UNIT * i for i in range(1, 9)] + [2**e // 8 * (9 + i) for e in range(7, 36) for i in range(8)])
OFF, CAP, SPREAD, HELD, BOUND = range(5)  # columns of `heads`
# In `book`: the first unused count, counts in free blocks, nodes, counts of a dense table, keys per count, free blocks.
TOP, FREED, NODES, WIDEST, RATIO, FREE = range(6)

PLAIN: dict[str, Any] = {"nogil": True, "_nrt": False}
inner = njit(**PLAIN)
small = njit(**PLAIN, forceinline=True)
entry = njit(**PLAIN, cache=True)


@small
def scramble(node):
    key = np.uint32(np.uint32(node) * SPREAD_A)  # Numba multiplies in 64 bits: cut to 32
    return np.uint32((key ^ (key >> HALF)) * SPREAD_B)


@small
def unscramble(key):
    node = np.uint32(key * UNSPREAD_B)
    return np.uint64(np.uint32((node ^ (node >> HALF)) * UNSPREAD_A))


def plus(count, times, more):
    """count + times * more. Four bytes never overflow (see BOUND); eight bytes stop at MOST."""
    return min(count + times * more, MOST)


@overload(plus, jit_options={"nogil": True})
def _plus(count, times, more):
    if isinstance(count, types.Float):
        return lambda count, times, more: min(count + times * more, MOST)
    return lambda count, times, more: np.uint32(count + times * more)


# --- the arena ------------------------------------------------------------------------------------------------


@inner
def size_class(words):
    low, high = 0, len(SIZES) - 1
    while low < high:
        middle = (low + high) // 2
        if SIZES[middle] < words:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def block_class(cap, ratio):
    """The size class of a block: counts and keys, or (negative cap) counts alone."""
    return size_class(-cap if cap < 0 else cap + (cap + 8) // ratio)


@inner
def sparse_class(held, ratio):
    """The smallest block that holds so many nodes in at most five sixths of its slots."""
    cap = held if held <= 16 else held + held // 5
    return block_class((cap + 7) // 8 * 8, ratio)


@inner
def allocate(counts, book, c):
    place = book[FREE + c]
    if place > 0:
        place -= 1
        book[FREE + c] = np.int64(counts[place])
        book[FREED] -= SIZES[c]
    else:
        place = book[TOP]
        book[TOP] += SIZES[c]
    return np.uint64(place)


@inner
def release(counts, book, offset, cap):
    if cap != 0:
        c = block_class(cap, book[RATIO])
        counts[offset] = book[FREE + c]
        book[FREE + c] = np.int64(offset) + 1
        book[FREED] += SIZES[c]


@small
def place_of(heads, table):
    return np.uint64(heads[table, OFF]) * np.uint64(UNIT)


@small
def keys_of(book, offset, cap):
    return np.uint64(book[RATIO]) * (offset + np.uint64(cap))


@entry
def compact(heads, counts, book, order):
    """Move every block down over the freed ones; `order` lists the tables by their place in the arena."""
    top = 0
    for table in order:
        start, size = np.int64(heads[table, OFF]) * UNIT, SIZES[block_class(heads[table, CAP], book[RATIO])]
        for i in range(size if start > top else 0):
            counts[top + i] = counts[start + i]
        heads[table, OFF] = top // UNIT
        top += size
    book[FREE:] = 0
    book[TOP], book[FREED] = top, 0


@entry
def widen(heads, slots, counts, book, order, new_slots, new_counts):
    """Copy all tables into an arena of floats; returns the counts it takes. Without room it only measures."""
    top = 0
    for table in order:
        old, cap = place_of(heads, table), heads[table, CAP]
        size = SIZES[block_class(cap, 2)]
        if len(new_counts) > 0:
            new = np.uint64(top)
            for i in range(np.uint64(abs(cap))):
                new_counts[new + i] = counts[old + i]
            for i in range(np.uint64(cap) + WINDOW if cap > 0 else ZERO):
                new_slots[np.uint64(2) * (new + np.uint64(cap)) + i] = slots[old + np.uint64(cap) + i]
            heads[table, OFF] = top // UNIT
        top += size
    if len(new_counts) > 0:
        book[FREE:] = 0
        book[TOP], book[FREED], book[RATIO] = top, 0, 2
    return top


@entry
def unpack(heads, slots, counts, book, tables, nodes, values, owners):
    """List what the tables hold: node and count of each entry, and the table it belongs to. Returns how many."""
    n = 0
    for table in tables:
        offset, cap = place_of(heads, table), heads[table, CAP]
        first = keys_of(book, offset, max(cap, 0))
        for i in range(np.uint64(abs(cap))):
            if counts[offset + i] > 0:
                if n < len(nodes):
                    nodes[n] = np.int64(i) if cap < 0 else np.int64(unscramble(slots[first + i]))
                    values[n], owners[n] = counts[offset + i], table
                n += 1
    return n


# --- one table ------------------------------------------------------------------------------------------------


@small
def find(slots, slot, key):
    """The first slot from `slot` on whose key is not smaller."""
    below = WINDOW
    while below == WINDOW:
        below = ZERO
        for i in range(WINDOW):
            below += np.uint64(slots[slot + i] < key)
        slot += below
    return slot


@inner
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


@inner
def make_sparse(heads, slots, counts, book, table, c, old, old_cap, keys, vals, begin, end, held):
    """Put an old sparse block and new nodes begin:end into a block of size class c."""
    cap = (SIZES[c] - 4) * 2 // 3 // 8 * 8 if book[RATIO] == 2 else (SIZES[c] - 8) // 2 // 8 * 8
    offset = allocate(counts, book, c)
    # The slots after the spread take the overflow of the last homes. Should a table's keys crowd, a smaller
    # spread always fits in the end: with 1 the table is a plain sorted list, as tiny tables are anyway.
    spread = 1 if cap <= 16 else cap - 8 - min(cap // 32, 16)
    while not fill(slots, counts, book, offset, cap, spread, old, old_cap, keys, vals, begin, end):
        spread = max(spread // 2, 1)
    heads[table, OFF], heads[table, CAP] = offset // np.uint64(UNIT), cap
    heads[table, SPREAD], heads[table, HELD] = spread, held


@inner
def make_dense(heads, slots, counts, book, table, held):
    """Give a table the dense shape, large enough for every node there is now."""
    old, cap, size = place_of(heads, table), heads[table, CAP], book[WIDEST]
    new = allocate(counts, book, size_class(size))
    for i in range(np.uint64(size)):
        counts[new + i] = 0
    first = keys_of(book, old, max(cap, 0))
    for i in range(np.uint64(abs(cap))):
        if cap < 0:
            counts[new + i] = counts[old + i]
        elif slots[first + i] != EMPTY:
            counts[new + unscramble(slots[first + i])] = counts[old + i]
    release(counts, book, old, cap)
    heads[table, OFF], heads[table, CAP], heads[table, HELD] = new // np.uint64(UNIT), -size, held


@inner
def sort_pairs(keys, vals, total):
    """Sort the first `total` keys, and vals with them: a shell sort, which needs no memory."""
    step = 1
    while step < total // 9:
        step = 3 * step + 1
    while step > 0:
        for i in range(step, total):
            key, value, j = keys[i], vals[i], i
            while j >= step and keys[j - step] > key:
                keys[j], vals[j] = keys[j - step], vals[j - step]
                j -= step
            keys[j], vals[j] = key, value
        step //= 3


@small
def outdated(heads, book, table):
    """A dense table that has no place for the newest nodes."""
    return heads[table, CAP] < 0 and -heads[table, CAP] < book[NODES]


@inner
def reshape(heads, slots, counts, book, table, keys, vals):
    """Make an outdated table larger, or sparse if it is no longer full enough."""
    old, cap, held = place_of(heads, table), heads[table, CAP], 0
    for i in range(np.uint64(-cap)):
        if counts[old + i] > 0:
            keys[held], vals[held] = scramble(i), counts[old + i]
            held += 1
    if held * DENSE_SHARE + FEW >= book[NODES]:
        make_dense(heads, slots, counts, book, table, held)
        return
    sort_pairs(keys, vals, held)
    c = sparse_class(held, book[RATIO])
    make_sparse(heads, slots, counts, book, table, c, ZERO, 0, keys, vals, ZERO, np.uint64(held), held)
    release(counts, book, old, cap)


@inner
def insert(heads, slots, counts, book, table, keys, vals, end):
    """Insert nodes :end, whose keys ascend and which the sparse table does not hold."""
    cap, held = np.int64(heads[table, CAP]), heads[table, HELD] + np.int64(end)
    done, offset = ZERO, place_of(heads, table)
    if held * DENSE_SHARE + FEW >= book[NODES]:
        make_dense(heads, slots, counts, book, table, held)
        offset = place_of(heads, table)
        for i in range(end):
            counts[offset + unscramble(keys[i])] = vals[i]
        return
    if held <= (cap if cap <= 16 else cap - cap // 8):
        first, spread, last = keys_of(book, offset, cap), np.uint64(heads[table, SPREAD]), np.uint64(cap)
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


@small
def add_node(heads, slots, counts, book, into, node, times, keys, vals):
    """Level 1: the other endpoint itself, `times` times."""
    if outdated(heads, book, into):
        reshape(heads, slots, counts, book, into, keys, vals)
    cap, offset = heads[into, CAP], place_of(heads, into)
    if cap < 0:
        at = offset + np.uint64(node)
        counts[at] = plus(counts[at], times, counts.dtype.type(1))
        return
    key = scramble(node)
    if cap > 0:
        first = keys_of(book, offset, cap)
        slot = find(slots, first + ((np.uint64(key) * np.uint64(heads[into, SPREAD])) >> SHIFT), key)
        if slots[slot] == key:
            at = offset + slot - first
            counts[at] = plus(counts[at], times, counts.dtype.type(1))
            return
    keys[0], vals[0] = key, times
    insert(heads, slots, counts, book, into, keys, vals, ONE)


@small
def add_table(heads, slots, counts, book, into, source, times, keys, vals):
    """into += times * source, for two tables of different levels; keys and vals are scratch."""
    if heads[source, CAP] == 0:
        return
    if outdated(heads, book, source):
        reshape(heads, slots, counts, book, source, keys, vals)
    if outdated(heads, book, into):
        reshape(heads, slots, counts, book, into, keys, vals)
    if heads[source, CAP] < 0 and heads[into, CAP] >= 0:
        make_dense(heads, slots, counts, book, into, heads[into, HELD])
    a_cap, b_cap = heads[source, CAP], heads[into, CAP]
    a, b = place_of(heads, source), place_of(heads, into)
    if a_cap < 0:  # whole units: no loop over a rest
        for i in range(np.uint64((book[NODES] + UNIT - 1) // UNIT * UNIT)):
            counts[b + i] = plus(counts[b + i], times, counts[a + i])
        return
    first = keys_of(book, a, a_cap)
    if b_cap < 0:  # an empty slot counts zero, so adding it to node 0 is harmless; a branch would cost more
        for i in range(np.uint64(a_cap)):
            at = b + (unscramble(slots[first + i]) if slots[first + i] != EMPTY else ZERO)
            counts[at] = plus(counts[at], times, counts[a + i])
        return
    missing, begin, spread = ZERO, keys_of(book, b, b_cap), np.uint64(heads[into, SPREAD])
    for i in range(np.uint64(a_cap)):
        key = slots[first + i]
        if key != EMPTY:
            if b_cap > 0:
                slot = find(slots, begin + ((np.uint64(key) * spread) >> SHIFT), key)
                if slots[slot] == key:
                    at = b + slot - begin
                    counts[at] = plus(counts[at], times, counts[a + i])
                    continue
            keys[missing], vals[missing] = key, plus(counts.dtype.type(0), times, counts[a + i])
            missing += ONE
    if missing > ZERO:
        insert(heads, slots, counts, book, into, keys, vals, missing)


@inner
def tighten(heads, counts, into, source):
    """Set the bounds of two tables (or one and a single node: source -1) to their largest counts."""
    most = 1
    for table in (into, source):
        if table >= 0:
            offset, most = place_of(heads, table), 0
            for i in range(np.uint64(abs(heads[table, CAP]))):
                most = max(most, int(counts[offset + i]))
            heads[table, BOUND] = most
    return most if source >= 0 else 1


@small
def fits(heads, counts, into, source, times):
    """Whether four bytes still hold into += times * source (or one node: source -1)."""
    more = np.int64(heads[source, BOUND]) if source >= 0 else 1
    if heads[into, BOUND] + times * more > NARROW:
        more = tighten(heads, counts, into, source)
        if heads[into, BOUND] + times * more > NARROW:
            return False
    heads[into, BOUND] += np.int64(times * more)
    return True


@small
def look_up(slots, counts, book, offset, cap, spread, node, key):
    """The count of a node in the table at `offset`, given also the node's key."""
    if cap < 0:
        return np.float64(counts[offset + np.uint64(node)]) if node < -cap else 0.0
    first = keys_of(book, offset, cap)
    slot = find(slots, first + ((np.uint64(key) * spread) >> SHIFT), key)
    return np.float64(counts[offset + slot - first]) if slots[slot] == key else 0.0
