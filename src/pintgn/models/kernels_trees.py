"""Kernels over temporal computation trees: messages along their edges, and the numbers of their nodes.

Plain arrays in and out; float32 or float64. `trees` says what a tree is.

A slot is one neighbor of one parent; the k slots of parent p are p*k … p*k + k - 1. The pre-activation of a slot is

    z = row[row_of[slot]] + event[event_of[slot]] + Σ_j own[slot, j] · mix[j]

where either of the last two parts may be absent (an array of no rows). Slots of weight 0 are empty: nothing is read for
them. Gradients of weights are written only if their array is not empty.

The inner loops run along a row and mix no types (hence `zero`), so that the compiler makes vector instructions of them.
Scratch rows are padded with zeros to whole vectors (`full` columns).
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from pintgn.compiled import inner, kernel

# sin(2π g) = g · P(g²) for g in [-1/4, 1/4]; P by least squares, error below 4e-9
SINE = np.array([6.28318515961, -41.3416549293, 81.6009981926, -76.5496568205, 39.5358137107])
SINES = {np.dtype(kind): SINE.astype(kind) for kind in ("float32", "float64")}
TURN = 1 / (2 * np.pi)
NAN_SAFE_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
"""What the compiler may do to be fast while NaNs propagate: broken weights must not look healthy."""


@intrinsic
def wide_vectors(typing_context):
    """Ask LLVM for the widest vectors available in the function that calls it; by default it stops at 32 bytes."""

    def generate(context, builder, signature, arguments):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # llvmlite's own `add` knows few names
        return context.get_dummy_value()

    return types.void(), generate


@inner
def aligned(rows, width, kind):
    """Rows of zeros, aligned to lines of the cache if their width is a multiple of one."""
    buffer = np.zeros(rows * width + 16, kind)
    first = (-buffer.ctypes.data) % 64 // buffer.itemsize
    return buffer[first : first + rows * width].reshape((rows, width))


@inner
def padded_width(width):
    """The width padded to whole vectors: the rest would be done one by one."""
    return width + (-width) % (64 if width > 32 else 8)


@inner
def padded(rows):
    """The rows, padded with zeros to whole vectors."""
    count, width = rows.shape
    out = aligned(count, padded_width(width), rows.dtype)
    for i in range(count):  # `out[:, :width] = rows` takes Numba seconds to compile
        for j in range(width):
            out[i, j] = rows[i, j]
    return out


@kernel(fastmath=True)
def weighted_relu_sum(first, last, k, row, row_of, event, event_of, own, mix, weight, out):
    """out[p] = Σ over the slots of p of weight · relu(z), for the parents first … last - 1."""
    wide_vectors()  # type: ignore[call-arg]
    width, zero = out.shape[1], out.dtype.type(0)
    with_event, length = event.shape[0] > 0, mix.shape[0]
    alone = not with_event and length == 0  # z is a row as it stands
    by_four = length - length % 4  # columns are added four at a time: fewer passes over z
    mix = padded(mix)
    full = mix.shape[1]
    z, total = aligned(1, full, out.dtype)[0], aligned(1, full, out.dtype)[0]
    for parent in range(first, last):
        for d in range(full):
            total[d] = zero
        for slot in range(parent * k, parent * k + k):
            w = weight[slot]
            if w == zero:
                continue
            # z; repeated in the backward pass, because a function of its own, inlined or not, is ten times slower
            at = row_of[slot]
            if alone:
                for d in range(width):
                    total[d] += w * max(row[at, d], zero)
                continue
            for d in range(width):
                z[d] = row[at, d]
            if with_event:
                at = event_of[slot]
                for d in range(width):
                    z[d] += event[at, d]
            for j in range(0, by_four, 4):
                a, b, c, e = own[slot, j], own[slot, j + 1], own[slot, j + 2], own[slot, j + 3]
                for d in range(full):
                    z[d] += a * mix[j, d] + b * mix[j + 1, d] + c * mix[j + 2, d] + e * mix[j + 3, d]
            for j in range(by_four, length):
                a = own[slot, j]
                for d in range(full):
                    z[d] += a * mix[j, d]
            for d in range(full):
                total[d] += w * max(z[d], zero)
        for d in range(width):
            out[parent, d] = total[d]


@kernel(fastmath=True)
def weighted_relu_sum_backward(
    first, last, k, row, row_of, event, event_of, own, mix, weight, grad, grad_row, grad_event, grad_mix, grad_weight
):
    """Add to the gradients of everything but the slots' own columns, for the parents first … last - 1. z is computed
    again."""
    wide_vectors()  # type: ignore[call-arg]
    width, zero, wanted = grad.shape[1], grad.dtype.type(0), grad_weight.shape[0] > 0
    with_event, length = event.shape[0] > 0, mix.shape[0]
    alone = not with_event and length == 0 and not wanted
    by_four = length - length % 4
    mix = padded(mix)
    full = mix.shape[1]
    to_mix = aligned(length, full, grad.dtype)
    z, g = aligned(1, full, grad.dtype)[0], aligned(1, full, grad.dtype)[0]
    for parent in range(first, last):
        for d in range(width):
            g[d] = grad[parent, d]
        for slot in range(parent * k, parent * k + k):
            w = weight[slot]
            if w == zero:
                continue
            at = row_of[slot]
            if alone:
                for d in range(width):
                    grad_row[at, d] += w * g[d] if row[at, d] > zero else zero
                continue
            for d in range(width):
                z[d] = row[at, d]
            if with_event:
                at = event_of[slot]
                for d in range(width):
                    z[d] += event[at, d]
            for j in range(0, by_four, 4):
                a, b, c, e = own[slot, j], own[slot, j + 1], own[slot, j + 2], own[slot, j + 3]
                for d in range(full):
                    z[d] += a * mix[j, d] + b * mix[j + 1, d] + c * mix[j + 2, d] + e * mix[j + 3, d]
            for j in range(by_four, length):
                a = own[slot, j]
                for d in range(full):
                    z[d] += a * mix[j, d]

            if wanted:
                along = zero
                for d in range(full):
                    along += g[d] * max(z[d], zero)
                grad_weight[slot] = along
            for d in range(full):
                z[d] = w * g[d] if z[d] > zero else zero
            at = row_of[slot]
            for d in range(width):
                grad_row[at, d] += z[d]
            if with_event:
                at = event_of[slot]
                for d in range(width):
                    grad_event[at, d] += z[d]
            for j in range(0, by_four, 4):
                a, b, c, e = own[slot, j], own[slot, j + 1], own[slot, j + 2], own[slot, j + 3]
                for d in range(full):
                    to_mix[j, d] += a * z[d]
                    to_mix[j + 1, d] += b * z[d]
                    to_mix[j + 2, d] += c * z[d]
                    to_mix[j + 3, d] += e * z[d]
            for j in range(by_four, length):
                a = own[slot, j]
                for d in range(full):
                    to_mix[j, d] += a * z[d]
    for j in range(length):
        for d in range(width):
            grad_mix[j, d] += to_mix[j, d]


# --- tree nodes and their numbers ------------------------------------------------------------------------------------


@kernel
def number_roots(order, t, roots, table, node, group, query_of, root_of):
    """Number the roots, those of one time and one node alike; returns how many tree nodes there are.

    Args:
        order, t (q,): the queries in order of their times, and the times.
        roots (q, w): of each query.
        table (nodes,): a guess of each node's tree node, checked before it is used: it may hold anything from 0 on.
        node, group, query_of (q w,): filled: each tree node's node, its time's number, and a query that asks for it.
        root_of (q, w): filled with the tree node of each root.
    """
    count, moment = 0, -1
    for i in range(order.shape[0]):
        q = order[i]
        if i == 0 or t[q] != t[order[i - 1]]:
            moment += 1
        for j in range(roots.shape[1]):
            root = roots[q, j]
            at = table[root]
            if at >= count or node[at] != root or group[at] != moment:
                at = count
                table[root], node[at], group[at], query_of[at] = at, root, moment, q
                count += 1
            root_of[q, j] = at
    return count


@kernel
def number_children(sizes, group, node, begin, ids, mask, table, held, rank, child):
    """Number the contacts: the tree node that a node already has in the group, or a new one after all others.

    Args:
        sizes: where each level ends so far; within a level tree nodes are in order of their groups.
        group, node, rank (most,): of each tree node its group, its node, and how many of the group's come before
            it; filled for new ones.
        begin: the first of the tree nodes whose contacts these are; they go on to the last.
        ids, mask (parents, k): the contacts.
        table (nodes,): a guess of each node's tree node, checked before it is used: it may hold anything from 0 on.
        held (groups,): how many tree nodes each group has.
        child (parents, k): filled; 0 where there is no contact.

    Returns how many tree nodes there are now.
    """
    end = sizes[-1]
    count, parent = end, begin
    unwritten = np.empty_like(sizes)  # of each level, the first tree node that is not in the table yet
    for level in range(sizes.shape[0]):
        unwritten[level] = sizes[level - 1] if level else 0
    while parent < end:
        g = group[parent]
        for level in range(sizes.shape[0]):
            at = unwritten[level]
            while at < sizes[level] and group[at] <= g:
                if group[at] == g:
                    table[node[at]] = at
                at += 1
            unwritten[level] = at
        while parent < end and group[parent] == g:
            for i in range(ids.shape[1]):
                if not mask[parent - begin, i]:
                    child[parent - begin, i] = 0
                    continue
                contact = ids[parent - begin, i]
                at = table[contact]
                if at >= count or node[at] != contact or group[at] != g:
                    at = count
                    table[contact], group[at], node[at], rank[at] = at, g, contact, held[g]
                    held[g] += 1
                    count += 1
                child[parent - begin, i] = at
            parent += 1
    return count


@kernel
def choose_trees(chosen, sizes, starts, child, mask, fresh, old_index, owner, ends, new_child):
    """Lay out some trees, by number and perhaps several times, as if they alone had been grown.

    Args:
        chosen (c,): the trees; each is a group of tree nodes.
        sizes (levels,): where each level ends.
        starts (levels, trees + 1): where each tree's nodes of each level begin.
        child, mask (parents, k): the contacts of all tree nodes but those of the last level.
        fresh (levels, c): filled with where the nodes of each chosen tree begin now.
        old_index, owner (most,): filled with the old index of each tree node, and which of the chosen it belongs to.
        ends (levels,): filled with where each level ends now.
        new_child (most, k): filled for all parents.
    """
    count = 0
    for level in range(sizes.shape[0]):
        for c in range(chosen.shape[0]):
            fresh[level, c] = count
            for at in range(starts[level, chosen[c]], starts[level, chosen[c] + 1]):
                old_index[count], owner[count] = at, c
                count += 1
        ends[level] = count
    for parent in range(ends[-2]):
        old, c = old_index[parent], owner[parent]
        for i in range(child.shape[1]):
            new_child[parent, i] = 0
            if mask[old, i]:
                at, level = child[old, i], 0
                while at >= sizes[level]:
                    level += 1
                new_child[parent, i] = fresh[level, c] + at - starts[level, chosen[c]]


@kernel
def number_distinct(values, valid, table, distinct, where):
    """Number the distinct valid values in order of first appearance; returns how many there are.

    `table` has a -1 for every possible value and is left so. Invalid entries get number 0.
    """
    count = 0
    for i in range(values.shape[0]):
        if not valid[i]:
            where[i] = 0
            continue
        value = values[i]
        if table[value] < 0:
            table[value] = count
            distinct[count] = value
            count += 1
        where[i] = table[value]
    for i in range(count):
        table[distinct[i]] = -1
    return count
