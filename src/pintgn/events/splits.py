"""Splits of a log by time, and hidden nodes, so that new ones can be evaluated."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput
from pintgn.events.log import EventLog

DYGLIB = "dyglib"


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


def hidden_nodes(log: EventLog, train: EventLog, hidden: float | str = 0.1, seed: int = 0) -> np.ndarray:
    """Mark nodes (n,) to keep out of training so that predictions for new nodes can be measured.

    A number of nodes equal to the share `hidden` of all nodes in the log's events, drawn with a seed from those that
    appear after the training period (TGN's rule); all of them when there are fewer. Training skips every event
    that touches one. The dummy node of a discrete-time log stands for no one and is never hidden, and neither is a node
    that takes part in every training event, such as the only destination.

    "dyglib" is the one set that TGN and DyGLib hide, whatever the seed (`dyglib_hidden`).

    >>> import pintgn
    >>> log = pintgn.simulate("repeat", events=500, seed=0)
    >>> hidden = pintgn.hidden_nodes(log, log.split()[0], hidden=0.1)
    >>> hidden.shape == (log.nodes,), hidden.dtype
    (True, dtype('bool'))
    """
    if hidden == DYGLIB:
        return dyglib_hidden(log, train)
    if isinstance(hidden, str) or not 0 <= hidden < 1:
        raise BadInput(f"hidden={hidden!r}; it is a share of the nodes between 0 and 1, or {DYGLIB!r}.")
    later = log[train.first - log.first + len(train) :]
    candidates, everyone = (np.flatnonzero(met_nodes(part)) for part in (later, log))
    if log.schema.dummy is not None:
        candidates, everyone = (nodes[nodes != log.schema.dummy] for nodes in (candidates, everyone))
    ends = np.unique([train.src[0], train.dst[0]]) if len(train) else np.zeros(0, np.int64)
    needed = [node for node in ends if ((train.src == node) | (train.dst == node)).all()]
    candidates = candidates[~np.isin(candidates, needed)]
    count = min(int(hidden * len(everyone)), len(candidates))
    marked = np.zeros(log.nodes, bool)
    marked[np.random.default_rng(seed).choice(candidates, count, replace=False)] = True
    return marked


def dyglib_hidden(log: EventLog, train: EventLog) -> np.ndarray:
    """Mark the nodes (n,) that TGN and DyGLib hide: a tenth of all, drawn once for all from those after training.

    They are drawn by Python's `random`, seeded with 2020, from a set of node numbers, so the draw depends on the
    numbers: a log's own integer ids plus one, destinations after all sources where the two are named apart (other
    ids: the nodes' numbers in order of first appearance, plus one).
    """
    names = _dyglib_numbers(log)
    later = log[train.first - log.first + len(train) :]
    # as theirs: how a set was made decides the order in which it is walked
    candidates = set(names[later.src].tolist()).union(set(names[later.dst].tolist()))
    count = int(0.1 * len(np.union1d(log.src, log.dst)))
    if count > len(candidates):
        raise BadInput(
            f"{DYGLIB!r} hides {count} nodes, but only {len(candidates)} appear after the training part. "
            "Give hidden= a share of the nodes."
        )
    drawn = random.Random(2020).sample(tuple(candidates), count)
    return np.isin(names, drawn)


def _dyglib_numbers(log: EventLog) -> np.ndarray:
    """The number (n,) of every node in DyGLib's files."""
    ids = log.ids.decode()
    if not pa.types.is_integer(ids.type):
        return np.arange(1, log.nodes + 1)
    numbers = ids.to_numpy(zero_copy_only=False).astype(np.int64) + 1
    if log.ids.side is not None:
        numbers[log.ids.side == 1] += numbers[log.ids.side == 0].max(initial=0)
    return numbers


def touches(log: EventLog, marked: np.ndarray) -> np.ndarray:
    """Which events (e,) have a marked node (n,) at either end."""
    return marked[log.src] | marked[log.dst]


def met_nodes(log: EventLog) -> np.ndarray:
    """Mask of the nodes (n,) that have an event in a log."""
    met = np.zeros(log.nodes, bool)
    met[log.src] = True
    met[log.dst] = True
    return met


def seen_nodes(train: EventLog, hidden: np.ndarray) -> np.ndarray:
    """Mask of the nodes (n,) seen in training: those with a training event that touches no hidden node."""
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
