"""Arena in which the exact backend keeps its tables of walk counts: offsets, blocks, compaction.

A table holds one level of one root's row: which nodes are reached in k steps, and how often. `counts` is the arena;
a count is a four-byte integer until some count could pass NARROW, then all of them become eight-byte floats (see
`widen`). `slots` is the same memory seen as four-byte words. A table has one of two shapes:

* sparse: `cap` counts, then `cap + WINDOW` keys. A key is the node id, scrambled (a bijection of 32 bits, so keys
  are unique and evenly spread). Keys ascend; the home of a key is its share of the first `spread` slots; it is in
  that slot or the next free one; unused slots hold EMPTY, which is larger than every key, and count zero. So a
  key is found by comparing WINDOW neighbors, and two tables are added by walking both in the same order.
* dense: `cap` counts, one per node id. `cap` is stored negative.

`heads` (tables, 6) says where each table is, its cap and spread, how many nodes it holds (a dense one: held when it
became dense), the greatest node id among them, and what no count exceeds. `book` holds the numbers named below, then
one list of free blocks for each size.

Two things are for speed. Indices are unsigned, so that Numba emits no test for negative ones: that halves the time
per count. And `allocates=False`: nothing here allocates, so that Numba need not count references, which would cost more
at every call than a small table does. Constants are NumPy's numbers: Numba compiles a function again for every
Python number that it is called with.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from pintgn.compiled import inner, kernel

WIDTH = 16  # keys that are compared at once
MOST = 1e300  # eight-byte counts stop here: sums, products and logarithms of it stay finite
NARROW = 2**31 - 1  # the largest four-byte count
EMPTY = np.uint32(0xFFFFFFFF)  # no id below 2**31 scrambles to this
SPREAD_A, SPREAD_B = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)
UNSPREAD_A, UNSPREAD_B = np.uint32(0x0E8B2F51), np.uint32(0xA5CB9243)  # their inverses modulo 2**32
HALF, TOP_BYTE, BINS = np.uint32(16), np.uint32(24), 257
ZERO, ONE, SHIFT = np.uint64(0), np.uint64(1), np.uint64(32)
WINDOW = np.uint64(WIDTH)
UNIT = 16  # blocks are multiples of this many counts, and `heads` gives offsets in these units
DENSE_SHARE, FEW = 8, 256  # a table is dense if it holds one in so many of the ids it spans, FEW of them not counted
# Block sizes: multiples of UNIT, then eight per doubling, so that freed blocks fit their next owner.
SIZES = np.array([UNIT * i for i in range(1, 9)] + [2**e // 8 * (9 + i) for e in range(7, 36) for i in range(8)])
OFF, CAP, SPREAD, HELD, LAST, BOUND = (np.int64(i) for i in range(6))  # columns of `heads`
# In `book`: the first unused count, counts in free blocks, nodes, counts of the largest block they can need, keys per
# count, free blocks.
TOP, FREED, NODES, WIDEST, RATIO, FREE = range(6)


@kernel(allocates=False, forceinline=True)
def scramble(node):
    key = np.uint32(np.uint32(node) * SPREAD_A)  # Numba multiplies in 64 bits: cut to 32
    return np.uint32((key ^ (key >> HALF)) * SPREAD_B)


@kernel(allocates=False, forceinline=True)
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


@intrinsic
def count_below(typing_context, slots, first, key):
    """How many of the WIDTH four-byte numbers slots[first:] are smaller than `key`, all of them unsigned."""

    def generate(context, builder, signature, arguments):
        numbers, single = ir.VectorType(ir.IntType(32), WIDTH), ir.IntType(32)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), numbers.as_pointer())
        found = builder.load(address)
        found.align = 4
        nothing = ir.Constant(numbers, ir.Undefined)
        one = builder.insert_element(nothing, arguments[2], ir.Constant(single, 0))
        same = builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(single, WIDTH), [0] * WIDTH))
        below = builder.bitcast(builder.icmp_unsigned("<", found, same), ir.IntType(WIDTH))
        return builder.zext(builder.ctpop(below), ir.IntType(64))

    return types.uint64(slots, types.uint64, types.uint32), generate


# --- the arena ------------------------------------------------------------------------------------------------


@inner(allocates=False)
def first_of(sorted_nodes, node):
    """The index of `node`, or where it would go (`np.searchsorted` takes Numba a second to compile)."""
    low, high = 0, len(sorted_nodes)
    while low < high:
        middle = (low + high) // 2
        if sorted_nodes[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@inner(allocates=False)
def size_class(words):
    return first_of(SIZES, words)


@inner(allocates=False)
def block_class(cap, ratio):
    """The size class of a block: counts and keys, or (negative cap) counts alone."""
    return size_class(-cap if cap < 0 else cap + (cap + WIDTH) // ratio)


@inner(allocates=False)
def sparse_class(held, ratio):
    """The smallest block that holds so many nodes in at most five sixths of its slots."""
    cap = held if held <= 16 else held + held // 5
    return block_class((cap + 7) // 8 * 8, ratio)


@inner(allocates=False)
def allocate(counts, book, c):
    offset = book[FREE + c]
    if offset > 0:
        offset -= 1
        book[FREE + c] = np.int64(counts[offset])
        book[FREED] -= SIZES[c]
    else:
        offset = book[TOP]
        book[TOP] += SIZES[c]
    return np.uint64(offset)


@inner(allocates=False)
def release(counts, book, offset, cap):
    if cap != 0:
        c = block_class(cap, book[RATIO])
        counts[offset] = book[FREE + c]
        book[FREE + c] = np.int64(offset) + 1
        book[FREED] += SIZES[c]


@inner(allocates=False, forceinline=True)
def head(heads, table, column):
    """As int64: Numba compiles a function again for every other type of its arguments."""
    return np.int64(heads[table, column])


@inner(allocates=False, forceinline=True)
def offset_of(heads, table):
    return np.uint64(head(heads, table, OFF)) * np.uint64(UNIT)


@inner(allocates=False, forceinline=True)
def keys_of(book, offset, cap):
    return np.uint64(book[RATIO]) * (offset + np.uint64(cap))


@kernel(allocates=False)
def compact(heads, counts, book, order):
    """Move every block down over the freed ones; `order` lists the tables by offset."""
    top = 0
    for table in order:
        start, size = head(heads, table, OFF) * UNIT, SIZES[block_class(head(heads, table, CAP), book[RATIO])]
        for i in range(size if start > top else 0):
            counts[top + i] = counts[start + i]
        heads[table, OFF] = top // UNIT
        top += size
    book[FREE:] = 0
    book[TOP], book[FREED] = top, 0


@kernel(allocates=False)
def widen(heads, slots, counts, book, order, new_slots, new_counts):
    """Copy all tables into an arena of floats; returns its length. An empty new arena: only that."""
    top = 0
    for table in order:
        old, cap = offset_of(heads, table), head(heads, table, CAP)
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


@kernel(allocates=False)
def unpack(heads, slots, counts, book, tables, nodes, values, owners):
    """List what the tables hold: node and count of each entry, and the table it belongs to. Returns how many."""
    n = 0
    for table in tables:
        offset, cap = offset_of(heads, table), head(heads, table, CAP)
        first = keys_of(book, offset, max(cap, 0))
        for i in range(np.uint64(abs(cap))):
            if counts[offset + i] > 0:
                if n < len(nodes):
                    nodes[n] = np.int64(i) if cap < 0 else np.int64(unscramble(slots[first + i]))
                    values[n], owners[n] = counts[offset + i], table
                n += 1
    return n
