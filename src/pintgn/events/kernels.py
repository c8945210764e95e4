"""Kernels that number ids.

Known ids are an open-addressing table `slots` (a power of two long, two words per slot): for whole numbers
(node number, id), for text (31 bits of hash, then the node number in the low 32; begin and length of the text
in the arena `text`, length in the low 24). A negative first word is a free slot. Two name spaces are two
tables over one store.

Text columns come as Arrow lays them out: the bytes `data`, and row r between offsets r and r + 1. Lookups go in
short runs that first touch the memory they will need: the processor then fetches many slots at a time. The
small steps are inlined, because a call between compiled functions counts references to every array it passes,
and inner loops index with unsigned numbers, which need no check for indices from the end.
Together that was several times faster.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import kernel

MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
FNV = np.uint64(0x100000001B3)
START = np.uint64(0xCBF29CE484222325)
LEAST = -(2**63 // 10)

RUN = 256
"""Rows whose slots are prefetched."""
LOW_32, LOW_24 = 0xFFFFFFFF, 0xFFFFFF
LONGEST_TEXT = LOW_24


@kernel(inline="always")
def mix(z):
    """The finalizer of splitmix64: a bijection of 64 bits that passes for random."""
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


# --- whole numbers ------------------------------------------------------------------------------------------


@kernel(inline="always")
def enter_int(key, slots, count):
    """The number of an id; a new one is entered under the number `count`, which is then returned."""
    mask = np.uint64(slots.shape[0] - 1)
    index = mix(np.uint64(key)) & mask
    while slots[index, 0] >= 0 and slots[index, 1] != key:
        index = (index + np.uint64(1)) & mask
    if slots[index, 0] < 0:
        slots[index, 0] = count
        slots[index, 1] = key
    return slots[index, 0]


@kernel
def number_ints(keys, slots, known, side, which, count, out):
    """Number a column of ids; new ones get the next numbers. Returns the new count of nodes (and a checksum)."""
    touched, mask = 0, np.uint64(slots.shape[0] - 1)
    for first in range(0, len(out), RUN):
        stop = min(first + RUN, len(out))
        for row in range(first, stop):
            touched += slots[mix(np.uint64(keys[row])) & mask, 0]
        for row in range(first, stop):
            node = enter_int(keys[row], slots, count)
            if node == count:
                known[count] = keys[row]
                side[count] = which
                count += 1
            out[row] = node
    return count, touched


@kernel
def rehash_ints(slots, known, side, which, count):
    """Enter the first `count` nodes of one side (of both when which < 0) into an empty table."""
    for node in range(count):
        if which < 0 or side[node] == which:
            enter_int(known[node], slots, node)


@kernel
def parse_ints(data, offsets, out):
    """Whole numbers of a text column, only as Python would write them: no sign +, no leading zero, no blank.

    Returns the first row that is anything else (or does not fit 64 bits), or -1.
    """
    for row in range(len(out)):
        index, stop = offsets[row], offsets[row + 1]
        negative = index < stop and data[index] == 45
        if negative:
            index += 1
        digits = stop - index
        if digits < 1 or digits > 19 or (data[index] == 48 and (digits > 1 or negative)):
            return row
        value = np.int64(0)
        for k in range(index, stop):
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


@kernel(inline="always")
def four(data, k):
    """Four bytes as one number; the compiler makes one load of it."""
    k = np.uint64(k)
    return (
        np.uint64(data[k])
        | np.uint64(data[k + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[k + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[k + np.uint64(3)]) << np.uint64(24)
    )


@kernel(inline="always")
def eight(data, k):
    return four(data, k) | four(data, k + 4) << np.uint64(32)


@kernel(inline="always")
def hash_text(data, first, stop):
    value = START ^ np.uint64(stop - first)
    k = first
    while k + 8 <= stop:
        value = (value ^ eight(data, k)) * MIX_1
        value ^= value >> np.uint64(29)
        k += 8
    if k + 4 <= stop:
        value = (value ^ four(data, k)) * MIX_1
        value ^= value >> np.uint64(29)
        k += 4
    while k < stop:
        value = (value ^ np.uint64(data[np.uint64(k)])) * FNV
        k += 1
    return mix(value)


@kernel(inline="always")
def same_text(text, begin, data, first, size):
    k = 0
    same = True
    while same and k + 8 <= size:
        same = eight(text, begin + k) == eight(data, first + k)
        k += 8
    if same and k + 4 <= size:
        same = four(text, begin + k) == four(data, first + k)
        k += 4
    while same and k < size:
        same = text[np.uint64(begin + k)] == data[np.uint64(first + k)]
        k += 1
    return same


@kernel
def hash_texts(data, offsets, out):
    """Hash every text; returns the length of the longest."""
    longest = 0
    for row in range(len(out)):
        out[row] = hash_text(data, offsets[row], offsets[row + 1])
        longest = max(longest, offsets[row + 1] - offsets[row])
    return longest


@kernel(inline="always")
def enter_text(data, first, size, hashed, slots, text, end, count):
    """As `enter_int`, for the bytes of data that begin at `first`; `end` is where the arena's next text begins."""
    mask = np.uint64(slots.shape[0] - 1)
    index = hashed & mask
    tag = np.int64(hashed >> np.uint64(33))
    node = np.int64(-1)
    while node < 0:
        here = slots[index, 0]
        if here < 0:
            slots[index, 0] = (tag << 32) | count
            slots[index, 1] = (end << 24) | size
            node = count
        elif (
            here >> 32 == tag
            and slots[index, 1] & LOW_24 == size
            and same_text(text, slots[index, 1] >> 24, data, first, size)
        ):
            node = here & LOW_32
        index = (index + np.uint64(1)) & mask
    return node


@kernel
def number_texts(data, offsets, hashes, slots, text, ends, side, which, count, out):
    """As `number_ints`, for a text column; the text of node i is text[ends[i] : ends[i + 1]]."""
    touched, mask = 0, np.uint64(slots.shape[0] - 1)
    for first in range(0, len(out), RUN):
        stop = min(first + RUN, len(out))
        for row in range(first, stop):
            touched += slots[hashes[row] & mask, 1]
        for row in range(first, stop):
            index = hashes[row] & mask
            if slots[index, 0] >= 0:
                touched += text[np.uint64(slots[index, 1] >> 24)]
        for row in range(first, stop):
            begin, size, end = offsets[row], offsets[row + 1] - offsets[row], ends[count]
            node = enter_text(data, begin, size, hashes[row], slots, text, end, count)
            if node == count:
                for k in range(size):
                    text[np.uint64(end + k)] = data[np.uint64(begin + k)]
                ends[count + 1] = end + size
                side[count] = which
                count += 1
            out[row] = node
    return count, touched


@kernel
def rehash_texts(slots, text, ends, side, which, count):
    for node in range(count):
        if which < 0 or side[node] == which:
            begin, stop = ends[node], ends[node + 1]
            enter_text(text, begin, stop - begin, hash_text(text, begin, stop), slots, text, begin, node)
