"""Loops that number the nodes of temporal computation trees. Plain arrays in and out; see `trees`."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import kernel


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
