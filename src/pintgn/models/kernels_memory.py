"""The loop of recurrent memory: a block of events leaves messages. Plain arrays in and out.

The inner loops run along a row and mix no types, and an index that is a sum is unsigned, so that the compiler makes
vector instructions of them.
"""

from __future__ import annotations

import numpy as np

from pintgn.compiled import kernel


@kernel
def leave_messages(
    nodes, ends, t, applied, context, features, last, unit, memory, updated, ever, pending, message, message_t,
    message_dt, newest, count,
):  # fmt: skip
    """Commit the pending messages of a block's nodes, then store the block's own, in the columns of a `MemoryState`.

    `ends` (2, e) are the indices of sources and destinations in `nodes`, `applied` (nodes, d) everyone's new state,
    `context` (e, 2, c) and `features` (e, f) what else a message says; any width may be 0. A message is the mean over
    the node's events, with `last` over those of its newest time. `newest` and `count` (nodes,) are scratch.
    """
    d, f, c = np.uint64(applied.shape[1]), np.uint64(features.shape[1]), np.uint64(context.shape[2])
    zero = message.dtype.type(0)
    for i in range(nodes.shape[0]):
        v = nodes[i]
        if pending[v]:
            updated[v], ever[v] = message_t[v], True
        pending[v] = True
        message_dt[v] = zero
        for j in range(d):
            memory[v, j] = applied[i, j]
            message[v, j] = applied[i, j]
        for j in range(d, np.uint64(message.shape[1])):
            message[v, j] = zero
        count[i] = 0
    for e in range(t.shape[0]):  # times never fall
        newest[ends[0, e]] = t[e]
        newest[ends[1, e]] = t[e]
    for e in range(t.shape[0]):
        for side in range(2):
            mine, other = ends[side, e], ends[1 - side, e]
            if (side and mine == other) or (last and t[e] != newest[mine]):  # a self-loop is one message
                continue
            v = nodes[mine]
            count[mine] += 1
            for j in range(d):
                message[v, d + j] += applied[other, j]
            for j in range(c):
                message[v, d + d + j] += context[e, 1 - side, j]
            for j in range(f):
                message[v, d + d + c + j] += features[e, j]
            if ever[v]:
                message_dt[v] += message.dtype.type((t[e] - updated[v]) / unit)
    for i in range(nodes.shape[0]):
        v = nodes[i]
        message_t[v] = newest[i]
        if count[i] > 1:
            share = message.dtype.type(1 / count[i])
            message_dt[v] *= share
            for j in range(d, np.uint64(message.shape[1])):
                message[v, j] *= share
