"""What a log is like, in numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from pintgn.events.log import EventLog
from pintgn.events.schema import DELETE, NODE


@dataclass(frozen=True)
class Gaps:
    """Times between consecutive happenings: how many, and their mean and quantiles, in the log's own unit."""

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
    """Events equal in src, dst, t, op and features to an earlier row."""
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
            exact_repeats=_exact_repeats(log),
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


def _exact_repeats(log: EventLog) -> int:
    order = np.lexsort((log.dst, log.src, log.t))
    src, dst, t = log.src[order], log.dst[order], log.t[order]
    same = (src[1:] == src[:-1]) & (dst[1:] == dst[:-1]) & (t[1:] == t[:-1])
    if log.marked_features is None:
        return int(same.sum())
    # only rows that tie on src, dst and t need their features compared
    tied = np.zeros(len(log), bool)
    tied[1:] |= same
    tied[:-1] |= same
    rows = order[tied]
    run = np.cumsum(np.concatenate([[True], ~same]))[tied] if len(log) else np.zeros(0, np.int64)
    distinct = np.unique(np.column_stack([run, log.marked_features[rows].view(np.int32)]), axis=0)
    return len(rows) - len(distinct)


def node_gaps(log: EventLog) -> np.ndarray:
    """Time between each event of a node and that node's previous one (a self-loop counts once)."""
    once = log.src != log.dst
    node = np.concatenate([log.src, log.dst[once]])
    t = np.concatenate([log.t, log.t[once]])
    order = np.lexsort((t, node))
    node, t = node[order], t[order]
    return (t[1:] - t[:-1])[node[1:] == node[:-1]]
