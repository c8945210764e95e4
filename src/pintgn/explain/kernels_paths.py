"""Kernels of explanations: ordered events, walk counts under many counterfactuals, walks of two and three steps."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import inner, kernel


@kernel
def events_in_order(starts, lengths, ids, times, numbers, sent, remembered, src, dst, when):
    """Source, destination and time of every event that either end remembers; event number remembered[i] at index i.

    An empty `remembered` means that all are: every event is at its own number.
    """
    for v in range(starts.shape[0]):
        stop = starts[v] + lengths[v]
        for p in range(starts[v], stop):
            index = numbers[p]
            if remembered.shape[0] > 0:
                index = np.searchsorted(remembered, index)
            when[index] = times[p]
            outgoing = sent[p] - (sent[p + 1] if p + 1 < stop else 0)
            src[index], dst[index] = (v, ids[p]) if outgoing == 1 else (ids[p], v)


@kernel
def distances(one, two, stop, distance, most):
    """Spread distances over events, whatever their times, from the nodes at 0 to those at most `most` steps away."""
    for step in range(most):
        for i in range(stop):
            x, y = one[i], two[i]
            if distance[x] == step and distance[y] > step + 1:
                distance[y] = step + 1
            elif distance[y] == step and distance[x] > step + 1:
                distance[x] = step + 1


@inner
def add_level(counts, x, y, k, gone, some_gone):
    """A step from x, reached in k steps, to y; not in the worlds that lack the event."""
    for w in range(counts.shape[2]):
        if not (some_gone and gone[w]):
            counts[y, k + 1, w] += counts[x, k, w]


@kernel
def count_walks(one, two, when, stop, row_of, reach, need, counts, absent_event, absent_world):
    """Walks from a root back to every node, by steps, in many worlds: each world lacks some of the events.

    counts (rows, d, worlds) starts as 1 at the root's own row and level 0, else 0. row_of[node] is a node's row, -1 for
    one that does not matter; reach (rows,) is the least level at which a walk can arrive at it, need (rows,) the last
    level at which anyone wants to know. Events 0 … stop - 1 are taken from the newest to the oldest, those of one time
    together:

        counts[y, k + 1] += counts[x, k],  counts[x, k + 1] += counts[y, k]        for an event between x and y

    The levels of a group are taken from the last to the first, so that none of its events sees another (PINT, Eqs.
    10-11, read backwards). absent_event (falling) and absent_world say which events are left out where.
    """
    gone = np.zeros(counts.shape[2], np.bool_)
    last, pointer = stop - 1, 0
    while last >= 0:
        if row_of[one[last]] < 0 or row_of[two[last]] < 0:
            last -= 1  # nothing comes by that anyone wants to know
            continue
        first = last
        while first > 0 and when[first - 1] == when[last]:
            first -= 1
        while pointer < absent_event.shape[0] and absent_event[pointer] > last:
            pointer += 1
        begin = pointer
        for k in range(counts.shape[1] - 2, -1, -1):
            pointer = begin
            for i in range(last, first - 1, -1):
                x, y = row_of[one[i]], row_of[two[i]]
                if x < 0 or y < 0:
                    continue
                there, back = reach[x] <= k < need[y], x != y and reach[y] <= k < need[x]
                if not (there or back):
                    continue
                while pointer < absent_event.shape[0] and absent_event[pointer] > i:
                    pointer += 1
                here = pointer
                while pointer < absent_event.shape[0] and absent_event[pointer] == i:
                    gone[absent_world[pointer]] = True
                    pointer += 1
                if there:
                    add_level(counts, x, y, k, gone, pointer > here)
                if back:
                    add_level(counts, y, x, k, gone, pointer > here)
                for p in range(here, pointer):
                    gone[absent_world[p]] = False
        last = first - 1


@inner
def later_than(times, first, stop, t):
    """The end of the entries first … stop - 1, newest first, that are later than t."""
    while first < stop:
        middle = (first + stop) >> 1
        if times[middle] > t:
            first = middle + 1
        else:
            stop = middle
    return first


@kernel
def two_steps(near_starts, near_times, far_first, far_last, far_times, walks, earlier):
    """For every distinct contact w of the root: how many walks root - w - target, and through which contacts.

    near: the root's contacts, those with the g-th w at near_starts[g]:near_starts[g + 1], newest first; far: the
    target's contacts with w, at far_first[g]:far_last[g]. walks[i] counts the walks that begin with near contact i;
    earlier[i] is the newest far contact that continues it.
    """
    for g in range(near_starts.shape[0] - 1):
        for i in range(near_starts[g], near_starts[g + 1]):
            j = later_than(far_times, far_first[g], far_last[g], near_times[i])
            while j < far_last[g] and far_times[j] == near_times[i]:
                j += 1
            walks[i], earlier[i] = far_last[g] - j, j


@kernel
def three_steps(
    near_nodes, near_starts, near_times, far_starts, far_times, group_of, starts, lengths, ids, times, found
):  # fmt: skip
    """Walks root - w - x - target by their middle contact; returns how many middle contacts there are.

    near and far: the contacts of root and target, grouped by the other end, newest first within a group; group_of[x] is
    the far group of a node, or -1. A contact of w and x at time s is on (near contacts later than s) x (far contacts
    earlier than s) walks. found[i] takes (near group, far group, entry, walks, index of the newest far contact); pass
    an empty one to count first.
    """
    count = 0
    for g in range(near_nodes.shape[0]):
        w, newest = near_nodes[g], near_times[near_starts[g]]
        if w >= starts.shape[0]:
            continue
        for p in range(starts[w], starts[w] + lengths[w]):
            if times[p] >= newest or group_of[ids[p]] < 0:
                continue
            far = group_of[ids[p]]
            begin, stop = far_starts[far], far_starts[far + 1]
            j = later_than(far_times, begin, stop, times[p])
            while j < stop and far_times[j] == times[p]:
                j += 1
            if j == stop:
                continue
            if found.shape[0] > 0:
                later = later_than(near_times, near_starts[g], near_starts[g + 1], times[p]) - near_starts[g]
                found[count, 0], found[count, 1], found[count, 2] = g, far, p
                found[count, 3], found[count, 4] = later * (stop - j), j
            count += 1
    return count
