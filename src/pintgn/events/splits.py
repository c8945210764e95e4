"""Cutting a log by time for learning, and hiding nodes so that new ones can be measured."""

from __future__ import annotations

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import EventLog


def split_points(t: np.ndarray, val: float, test: float) -> tuple[int, int]:
    """Rows where validation and test begin: time quantiles, never inside a group of simultaneous events.

    As in TGAT, TGN and PINT, validation begins after the (1 - val - test) quantile of the times. The
    quantile is found by row, not by arithmetic on the times, so int64 nanoseconds stay exact.
    """
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise BadInput(f"val={val} and test={test} must be at least 0 and leave something to train on.")

    def after(share: float) -> int:
        if share >= 1 or not len(t):
            return len(t)
        # the epsilon undoes float dust, as in 1 - 0.15 - 0.15 = 0.7 - 1e-16
        last = int((len(t) - 1) * share + 1e-9)
        return int(np.searchsorted(t, t[last], "right"))

    return after(1 - val - test), after(1 - test)


def hidden_nodes(log: EventLog, train: EventLog, fraction: float = 0.1, seed: int = 0) -> np.ndarray:
    """Mark nodes (n,) to keep out of training so that predictions for new nodes can be measured.

    A number of nodes equal to `fraction` of all nodes in the log's events, drawn with a seed from those that
    appear after the training period (TGN's rule); all of them when there are fewer. Training skips every event
    that touches one. The dummy node of a discrete-time log stands for no one and is never hidden.
    """
    if not 0 <= fraction < 1:
        raise BadInput(f"the fraction of hidden nodes is between 0 and 1, not {fraction}.")
    later = log[train.first - log.first + len(train) :]
    candidates, everyone = (np.unique(np.concatenate([part.src, part.dst])) for part in (later, log))
    if log.schema.dummy is not None:
        candidates, everyone = (nodes[nodes != log.schema.dummy] for nodes in (candidates, everyone))
    count = min(int(fraction * len(everyone)), len(candidates))
    hidden = np.zeros(log.nodes, bool)
    hidden[np.random.default_rng(seed).choice(candidates, count, replace=False)] = True
    return hidden


def touches(log: EventLog, marked: np.ndarray) -> np.ndarray:
    """Which events (e,) have a marked node (n,) at either end."""
    return marked[log.src] | marked[log.dst]


def seen_nodes(train: EventLog, hidden: np.ndarray) -> np.ndarray:
    """Which nodes (n,) are trained on: those with a training event that touches no hidden node."""
    seen = np.zeros(train.nodes, bool)
    used = ~touches(train, hidden)
    seen[train.src[used]] = True
    seen[train.dst[used]] = True
    return seen


def time_scale(src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> float:
    """The mean time between consecutive events of one node; 1 where no node has two events at different times.

    Summed over a node's events the gaps telescope, so first and last times are enough.
    """
    if not len(t):
        return 1.0
    nodes = int(max(src.max(), dst.max())) + 1
    first, last = np.full(nodes, t[-1]), np.full(nodes, t[0])
    for ends in (src, dst):
        # of repeated rows the last assignment stays; events are sorted by time
        first[ends[::-1]] = np.minimum(first[ends[::-1]], t[::-1])
        last[ends] = np.maximum(last[ends], t)
    once = src != dst
    count = np.bincount(src, minlength=nodes) + np.bincount(dst[once], minlength=nodes)
    total = float(np.maximum(last - first, 0)[count > 1].astype(np.float64).sum())
    return total / float((count[count > 1] - 1).sum()) if total > 0 else 1.0
