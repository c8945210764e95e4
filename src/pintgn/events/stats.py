"""Statistics of a log."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pintgn.errors import PintgnWarning
from pintgn.events.kernels import mix
from pintgn.events.log import EventLog
from pintgn.events.schema import DELETE, NODE


@dataclass(frozen=True)
class Gaps:
    """Times between consecutive events: their number, mean and quantiles, in the log's own unit."""

    count: int
    mean: float
    p10: float
    median: float
    p90: float
    largest: float

    @classmethod
    def of(cls, gaps: np.ndarray) -> Gaps | None:
        if not len(gaps):
            return None
        p10, median, p90 = np.quantile(gaps, [0.1, 0.5, 0.9])
        return cls(len(gaps), float(gaps.mean()), float(p10), float(median), float(p90), float(gaps.max()))


@dataclass(frozen=True)
class Statistics:
    """Counts and gaps of one log."""

    events: int
    nodes: int
    sources: int
    destinations: int
    bipartite: bool
    """No node is both a source and a destination."""
    distinct_pairs: int
    repeated_links: int
    """Events whose (src, dst) had met before or at the same time, by row."""
    exact_repeats: int
    """Events equal in all columns to an earlier row."""
    self_loops: int
    distinct_times: int
    simultaneous: int
    """Events that share their time with another event."""
    largest_group: int
    deletions: int
    node_events: int
    t_first: int | float | None
    t_last: int | float | None
    event_gaps: Gaps | None
    """Between consecutive distinct times of the whole log."""
    node_gaps: Gaps | None
    """Between consecutive events of one node."""

    @classmethod
    def of(cls, log: EventLog) -> Statistics:
        src, dst, t = log.src, log.dst, log.t
        sources, destinations = np.unique(src), np.unique(dst)
        group_sizes = np.diff(np.append(log.group_starts, len(log)))
        pairs = len(np.unique(src * np.int64(max(log.nodes, 1)) + dst))
        return cls(
            events=len(log),
            nodes=log.nodes,
            sources=len(sources),
            destinations=len(destinations),
            bipartite=len(log) > 0 and not len(np.intersect1d(sources, destinations, assume_unique=True)),
            distinct_pairs=pairs,
            repeated_links=len(log) - pairs,
            exact_repeats=int(repeats(log).sum()),
            self_loops=int((src == dst).sum()),
            distinct_times=len(group_sizes),
            simultaneous=int(group_sizes[group_sizes > 1].sum()),
            largest_group=int(group_sizes.max(initial=0)),
            deletions=0 if log.op is None else int((log.op == DELETE).sum()),
            node_events=0 if log.op is None else int((log.op == NODE).sum()),
            t_first=t[0].item() if len(log) else None,
            t_last=t[-1].item() if len(log) else None,
            event_gaps=Gaps.of(np.diff(t[log.group_starts])),
            node_gaps=Gaps.of(node_gaps(log)),
        )

    @property
    def span(self) -> int | float:
        return 0 if self.t_first is None or self.t_last is None else self.t_last - self.t_first

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"span": self.span}


def repeats(log: EventLog) -> np.ndarray:
    """Which events (e,) are equal to an earlier one in every column."""
    found = np.zeros(len(log), bool)
    same_time = log.t[1:] == log.t[:-1]
    rows = np.flatnonzero(np.append(False, same_time) | np.append(same_time, False)) if len(log) else np.zeros(0, int)
    keys = log.ties[rows]  # of time, ends and features
    if log.label is not None:
        label = log.label[rows].astype(np.float64 if log.label.dtype.kind == "f" else np.int64)
        keys = mix.py_func(keys) + label.view(np.uint64)
    found[rows] = True
    found[rows[np.unique(keys, return_index=True)[1]]] = False
    return found


def drop_repeats(log: EventLog) -> EventLog:
    """A log without exact repeats: the first of events that are equal in all columns."""
    again = repeats(log)
    if not again.any():
        return log
    warnings.warn(
        f"dropped {int(again.sum()):,} of {len(log):,} events, which are equal to an earlier one.",
        PintgnWarning,
        stacklevel=3,
    )
    return log.where(~again)


def node_gaps(log: EventLog) -> np.ndarray:
    """Time between each event of a node and that node's previous one (a self-loop counts once)."""
    once = log.src != log.dst
    node = np.concatenate([log.src, log.dst[once]])
    t = np.concatenate([log.t, log.t[once]])
    order = np.lexsort((t, node))
    node, t = node[order], t[order]
    return (t[1:] - t[:-1])[node[1:] == node[:-1]]
