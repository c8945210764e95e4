"""`EventHistory`: the events strictly before a time, as neighbor entries.

Everything in this package that compares nodes starts here. Times, event features and node features become dense
integers ("classes"), equal exactly where the values are equal, so that comparisons are exact and cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.log import EventLog

TIMES = {
    "exact": "models see the exact time of every event",
    "octaves": "models see how long ago, to a power of two",
    "blind": "models see no times (walks still run backward in time)",
}
"""Time resolutions of classes of models. The paper's theorems are about exact times."""


def number_rows(rows: np.ndarray | None, count: int) -> np.ndarray:
    """A dense integer for each of `count` rows of a matrix, equal exactly where rows are equal, in a fixed order."""
    if rows is None or not rows.shape[1]:
        return np.zeros(count, np.int64)
    if rows.dtype == object:
        return number([repr(row).encode() for row in rows.tolist()])
    rows = np.ascontiguousarray(rows + 0.0 if rows.dtype.kind == "f" else rows)  # -0.0 becomes 0.0
    size, data = rows.shape[1] * rows.itemsize, rows.tobytes()
    return number([data[i : i + size] for i in range(0, len(data), size)])


def number(signatures: Sequence[bytes]) -> np.ndarray:
    """Number byte strings 0, 1, … in sorted order.

    A dictionary of the strings themselves: equal numbers mean equal bytes, so there are no collisions. Sorting
    makes the numbers independent of the order in which nodes or events happen to be stored.
    """
    rank = {signature: i for i, signature in enumerate(sorted(set(signatures)))}
    return np.fromiter(map(rank.__getitem__, signatures), np.int64, len(signatures))


@dataclass(frozen=True)
class Entries:
    """Neighbor entries of a graph, grouped by owner: node v has the entries start[v] … start[v+1]-1."""

    start: np.ndarray  # (n+1,)
    neighbor: np.ndarray  # (m,)
    label: np.ndarray  # (m,) what the event carries: feature class and time, as one integer

    @property
    def nodes(self) -> int:
        return len(self.start) - 1

    @cached_property
    def owner(self) -> np.ndarray:
        return np.repeat(np.arange(self.nodes), np.diff(self.start))

    @cached_property
    def labels(self) -> int:
        return int(self.label.max(initial=-1)) + 1

    def of(self, node: int) -> slice:
        return slice(int(self.start[node]), int(self.start[node + 1]))

    @classmethod
    def join(cls, parts: Sequence[Entries]) -> Entries:
        """The disjoint union of graphs with shared labels; of one graph with itself, copy i starts at i*n."""
        nodes = np.cumsum([0] + [part.nodes for part in parts])
        sizes = np.cumsum([0] + [len(part.neighbor) for part in parts])
        start = [part.start[:-1] + size for part, size in zip(parts, sizes, strict=False)]
        neighbor = [part.neighbor + node for part, node in zip(parts, nodes, strict=False)]
        return cls(
            np.append(np.concatenate(start), sizes[-1]),
            np.concatenate(neighbor),
            np.concatenate([part.label for part in parts]),
        )


class EventHistory:
    """The events of a log strictly before t, as the multigraph G(t) of the paper.

    Every event is one entry for each endpoint; a self-loop is one entry. Repeated identical events count each time.
    Deletions and node events are events whose features say so (`EventLog.marked_features`).

    Args:
        log: the events; those at or after t are never looked at.
        t: as of when; after the last event when not given.
        times: how finely models see time, see `TIMES`.
    """

    def __init__(self, log: EventLog, t: Any = None, times: str = "exact"):
        if times not in TIMES:
            raise UnknownName(f"times={times!r} is not a resolution of time.{suggest(times, TIMES)}")
        self.log, self.times = log, times
        self.t = as_of(log, t)
        self.count = int(np.searchsorted(log.t, self.t, "left"))
        self.src, self.dst, self.when = log.src[: self.count], log.dst[: self.count], log.t[: self.count]
        self.nodes = log.nodes

    # -- entries -------------------------------------------------------------------------------------------

    @cached_property
    def entry_event(self) -> np.ndarray:
        """Event number of every neighbor entry, grouped by owner and in order of time."""
        loop = self.src == self.dst
        event = np.concatenate([np.arange(self.count), np.flatnonzero(~loop)])
        owner = np.concatenate([self.src, self.dst[~loop]])
        order = np.lexsort((event, owner))
        self._owner = owner[order]
        return event[order]

    @cached_property
    def entries(self) -> Entries:
        event = self.entry_event
        start = np.searchsorted(self._owner, np.arange(self.nodes + 1))
        neighbor = np.where(self.src[event] == self._owner, self.dst[event], self.src[event])
        return Entries(start, neighbor, self.event_label[event])

    @cached_property
    def entry_time(self) -> np.ndarray:
        return self.when[self.entry_event]

    @cached_property
    def entry_onward(self) -> np.ndarray:
        """For every entry, the end of the neighbor's entries before its time, which continue a walk."""
        rank = np.repeat(np.arange(len(self.group_starts) - 1), np.diff(self.group_starts))[self.entry_event]
        groups = len(self.group_starts)
        return np.searchsorted(self.entries.owner * groups + rank, self.entries.neighbor * groups + rank, "left")

    @cached_property
    def present(self) -> np.ndarray:
        """True for nodes (n,) with an event before t: V(G(t))."""
        present = np.zeros(self.nodes, bool)
        present[self.src] = present[self.dst] = True
        return present

    @cached_property
    def group_starts(self) -> np.ndarray:
        """First event of every group of simultaneous events, and the number of events as an end mark."""
        return np.append(self.log[: self.count].group_starts, self.count)

    # -- classes -------------------------------------------------------------------------------------------

    @cached_property
    def feature_rows(self) -> np.ndarray | None:
        marked = self.log.marked_features
        return None if marked is None else marked[: self.count]

    @cached_property
    def feature(self) -> np.ndarray:
        """Feature class of every event (e,)."""
        return number_rows(self.feature_rows, self.count)

    @cached_property
    def state(self) -> np.ndarray:
        """Class of every node's initial features x_v (n,); all alike when there are none."""
        return number_rows(self.log.node_features, self.nodes)

    @cached_property
    def time_class(self) -> np.ndarray:
        """Class of every event's time (e,) as the models see it: t - t' at a fixed t says as much as t'."""
        return self.see(self.t - self.when) if self.times != "exact" else _dense(self.when)

    @cached_property
    def event_label(self) -> np.ndarray:
        """Feature and time class of every event (e,) as one dense integer."""
        return _dense(self.feature * (int(self.time_class.max(initial=0)) + 1) + self.time_class)

    def see(self, dt: Any) -> Any:
        """A time difference as the models see it (exact differences of floats may round: compare times instead)."""
        if self.times == "blind":
            return np.zeros_like(np.asarray(dt), np.int64)
        return np.frexp(np.asarray(dt, np.float64))[1].astype(np.int64) + 1100  # never negative

    # -- words ---------------------------------------------------------------------------------------------

    def name(self, node: int) -> str:
        return str(self.log.id(int(node)))

    def describe(self, event: int) -> str:
        """Time and, if events differ in them, features of an event as text."""
        high = int(np.frexp(float(self.t - self.when[event]))[1])
        text = {"blind": "any time", "octaves": f"2^{high - 1} to 2^{high} ago"}.get(self.times)
        text = text or f"t={self.log.schema.time.show(self.when[event])}"
        if self.feature.max(initial=0) > 0:
            text += f" with features {show_row(self.feature_rows[event])}"  # type: ignore[index]
        return text


def as_of(log: EventLog, t: Any) -> Any:
    """The checked time of a question; by default after the last event."""
    if not len(log):
        raise BadInput("this log has no events, so there is nothing to compare.")
    if t is None:
        last = log.t[-1]
        return last + 1 if log.t.dtype.kind == "i" else np.nextafter(last, np.inf)
    given, t = t, log.time(t, bound=True)
    if not np.isfinite(t):
        raise BadInput(f"t={given!r} is not a time; pass a finite one.")
    if t <= log.t[0]:
        show = log.schema.time.show
        raise BadInput(
            f"t={given!s} has no event before it: the first event is at t={log.t[0]}"
            + (f" ({show(log.t[0])})" if log.schema.time.unit else "")
            + ". Ask at a later time."
        )
    return t


def node_of(log: EventLog, id: Any, side: str | None = None) -> int:
    """The number of a node by the users' id; an unknown one is an error that suggests near ids."""
    if log.ids.separate_namespaces and side is None:
        found = [s for s in ("src", "dst") if log.ids.encode([id], s, missing="mark")[0] >= 0]
        if len(found) == 2:
            raise BadInput(f"node {id!r} is both a source and a destination here; say side='src' or side='dst'.")
        side = found[0] if found else "src"
    try:
        return log.node(id, side)
    except UnknownName as error:
        if isinstance(id, str):
            raise
        first = [log.id(i) for i in range(min(log.nodes, 3))]
        raise UnknownName(f"{error} It has {log.nodes} nodes: {', '.join(map(repr, first))}, …") from None


def accumulate(
    history: EventHistory, value: np.ndarray, grow: Callable[[Any], Any], backward: bool = False
) -> np.ndarray:
    """Run a recurrence over the groups of simultaneous events, each group seeing only the groups done before.

    Every event between a and b adds grow(value[b]) to value[a] and grow(value[a]) to value[b], all right-hand sides
    from before its group. In order of time this counts walks by where they start; `backward`, by where they end.
    """
    src, dst = history.src, history.dst
    groups = list(pairwise(history.group_starts.tolist()))
    with np.errstate(over="ignore"):  # a count too large for a float is infinite, which callers expect
        for begin, end in reversed(groups) if backward else groups:
            a, b = src[begin:end], dst[begin:end]
            if end == begin + 1:  # the common case, without the bookkeeping
                i, j = int(a[0]), int(b[0])
                mine = grow(value[j])
                if i != j:
                    value[j] += grow(value[i])
                value[i] += mine
            else:
                apart = a != b
                added = grow(value[np.concatenate([b, a[apart]])])
                np.add.at(value, np.concatenate([a, b[apart]]), added)
    return value


def show_row(row: np.ndarray, most: int = 4) -> str:
    """A feature row in a few characters."""
    shown = ", ".join(f"{value:g}" for value in row[:most])
    return f"[{shown}{', …' if len(row) > most else ''}]"


def _dense(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].reshape(-1)
