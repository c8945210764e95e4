"""Backward causal walks, as CAW samples them."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pintgn.errors import BadInput
from pintgn.neighbors import inputs, kernels
from pintgn.neighbors.index import NeighborIndex
from pintgn.neighbors.queries import NeighborQuery


class Walks(NamedTuple):
    """M walks of up to L steps for each query, with the shape of the asked nodes in front.

    Position 0 is the asked node at the query's t. Step i goes from nodes[…, i] to nodes[…, i + 1] by event
    events[…, i] at times[…, i + 1]. Where `mask` is False the walk has ended and the other arrays hold 0;
    mask[…, 1:] is the mask of the steps.
    """

    nodes: np.ndarray  # (…, M, L + 1) int64
    times: np.ndarray  # (…, M, L + 1) int64 or float64, as the index
    events: np.ndarray  # (…, M, L) int64 event numbers
    mask: np.ndarray  # (…, M, L + 1) bool


def causal_walks(
    index: NeighborIndex,
    nodes: ArrayLike,
    t: ArrayLike,
    *,
    walks: int,
    length: int,
    keys: ArrayLike,
    bias: float = 0.0,
    before: ArrayLike | None = None,
    window: float | None = None,
    valid: ArrayLike | None = None,
    threads: int = 1,
) -> Walks:
    """Draw M = `walks` walks of up to L = `length` steps back in time from each node, starting before its query's t.

    Paper Section 2 and its appendix on CAW: W = ((w_1, t_1), (w_2, t_2), …) with t_1 = t > t_2 > …, each step an event
    between w_i and w_{i+1}. A step picks one of the current node's entries strictly before the last time, with
    probability proportional to exp(bias * (time of the entry - last time)); bias >= 0 in units of 1/time, 0 is
    uniform over entries. A walk ends early at a node with no such entry.

    Walk w of a query is a function of its key, w, and the past before t: order, batching, `walks` and `threads`
    do not change it. `nodes` may have any shape; `t`, `before`, `valid` and `keys` broadcast to it. Give the two
    ends of an event different keys. `window` keeps only entries with time >= t - window, in every step.
    A step costs the logarithm of the node's degree, not the degree (`kernels.block_table`).
    """
    query = NeighborQuery(index, nodes, t, before, valid, window)
    walks, length = inputs.at_least(walks, 1, "walks"), inputs.at_least(length, 1, "length")
    try:
        bias = float(bias)
    except (TypeError, ValueError):
        raise BadInput(f"bias must be a number, got {bias!r}.") from None
    if not 0 <= bias < math.inf:
        raise BadInput(
            f"bias must be finite and at least 0, got {bias}. 0 draws uniformly; larger prefers recent events."
        )
    full, steps = (query.nodes.size, walks, length + 1), (query.nodes.size, walks, length)
    rows = (
        np.empty(full, np.int64),
        np.empty(full, query.t.dtype),
        np.empty(steps, np.int64),
        np.empty(full, np.bool_),
    )
    query.run(partial(kernels.causal_walks, bias), threads, rows, query.keys(keys))
    return Walks(*(row.reshape(*query.shape, *row.shape[1:]) for row in rows))
