"""Counts by relation over time, as linked chains: plain arrays, newest moment first.

An entry is one moment of a key: when it was, how many events and how many distinct other ends there were by its end,
and the entry before it. A key is a triple (source, relation, destination); a node and a relation (node, relation, -1),
where the relation says the direction, too; or a relation alone (-1, relation, -1). Ends are counted by what they are in
an event: a self-loop is one event of the triple, and one of its node at either end.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel

FREE, NONE = -2, -1
TRIPLE, NEAR, FAR, ALL = 0, 1, 2, 3


@inner
def slot_of(keys, a, relation, b):
    """The slot of a key, or the free slot where it would go; the table is never full, its size a power of two."""
    mask = np.uint64(len(keys) - 1)
    mixed = np.uint64(a + 3) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(b + 7) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(29)
    mixed = (mixed + np.uint64(relation)) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    slot = mixed & mask
    while keys[slot, 0] != FREE and (keys[slot, 0] != a or keys[slot, 1] != relation or keys[slot, 2] != b):
        slot = (slot + np.uint64(1)) & mask
    return slot


@inner
def enter(keys, heads, a, relation, b, when, fresh, times, before, counts, partners, used, filled):
    """Append one event of a key, to its newest moment or a new one. Returns entries and keys used."""
    slot = slot_of(keys, a, relation, b)
    if keys[slot, 0] == FREE:
        keys[slot, 0], keys[slot, 1], keys[slot, 2] = a, relation, b
        filled += 1
    entry = heads[slot]
    if entry >= 0 and times[entry] == when:
        counts[entry] += 1
        partners[entry] += fresh
        return used, filled
    times[used] = when
    before[used] = entry
    counts[used] = 1 if entry < 0 else counts[entry] + 1
    partners[used] = fresh if entry < 0 else partners[entry] + fresh
    heads[slot] = used
    return used + 1, filled


@kernel
def add(src, relation, dst, t, inverse, keys, heads, times, before, counts, partners, used, filled):
    """Append events, in order of time, to tables with free space; returns how many entries and keys are used then."""
    for e in range(len(src)):
        s, r, d, when = src[e], relation[e], dst[e], t[e]
        known = filled
        used, filled = enter(keys, heads, s, r, d, when, 0, times, before, counts, partners, used, filled)
        fresh = filled - known
        used, filled = enter(keys, heads, s, r, NONE, when, fresh, times, before, counts, partners, used, filled)
        used, filled = enter(
            keys, heads, d, r + inverse, NONE, when, fresh, times, before, counts, partners, used, filled
        )
        used, filled = enter(keys, heads, NONE, r, NONE, when, fresh, times, before, counts, partners, used, filled)
    return used, filled


@kernel
def rehash(old_keys, old_heads, keys, heads):
    """The keys of a table in a larger one."""
    for slot in range(len(old_keys)):
        if old_keys[slot, 0] != FREE:
            new = slot_of(keys, old_keys[slot, 0], old_keys[slot, 1], old_keys[slot, 2])
            for column in range(3):
                keys[new, column] = old_keys[slot, column]
            heads[new] = old_heads[slot]


@kernel
def head_of(keys, heads, a, relation, b):
    """The newest entry of a key; -1 where there is none."""
    slot = slot_of(keys, a, relation, b)
    return heads[slot] if keys[slot, 0] != FREE else -1


@inner
def read(keys, heads, times, before, counts, partners, a, relation, b, t, q, level, count, dt, newest, others):
    """Counts of a key strictly before t."""
    slot = slot_of(keys, a, relation, b)
    entry = heads[slot] if keys[slot, 0] != FREE else -1
    while entry >= 0 and times[entry] >= t:
        entry = before[entry]
    if entry < 0:
        count[q, level] = dt[q, level] = newest[q, level] = others[q, level] = 0
        return
    older = before[entry]
    count[q, level] = counts[entry]
    dt[q, level] = t - times[entry]
    newest[q, level] = counts[entry] - (0 if older < 0 else counts[older])
    others[q, level] = partners[entry]


@kernel
def look_up(u, relation, v, t, inverse, keys, heads, times, before, counts, partners, count, dt, newest, others):
    """Counts strictly before t of the triple, the near end, the far end and the relation of each query.

    Rows that follow each other and share u, relation and t are answered for u and the relation once.
    """
    for q in range(len(u)):
        r = relation[q]
        back = r >= inverse
        plain = r - inverse if back else r
        first, second = (v[q], u[q]) if back else (u[q], v[q])
        read(
            keys, heads, times, before, counts, partners, first, plain, second, t[q], q, TRIPLE, count, dt, newest,
            others,
        )  # fmt: skip
        far = plain if back else r + inverse
        read(keys, heads, times, before, counts, partners, v[q], far, NONE, t[q], q, FAR, count, dt, newest, others)
        if q and u[q] == u[q - 1] and r == relation[q - 1] and t[q] == t[q - 1]:
            for level in (NEAR, ALL):
                count[q, level], dt[q, level] = count[q - 1, level], dt[q - 1, level]
                newest[q, level], others[q, level] = newest[q - 1, level], others[q - 1, level]
            continue
        read(keys, heads, times, before, counts, partners, u[q], r, NONE, t[q], q, NEAR, count, dt, newest, others)
        read(keys, heads, times, before, counts, partners, NONE, plain, NONE, t[q], q, ALL, count, dt, newest, others)
