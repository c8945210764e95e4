"""Charts of a log: events over time, repeated links, gaps, activity of nodes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pintgn.drawing.plot import Axis, Plot
from pintgn.events.log import EventLog
from pintgn.events.stats import node_gaps
from pintgn.formatting import PER_SECOND, count, short
from pintgn.learn.protocol import Parts
from pintgn.report.labels import duration, percent, percent_tick, time_label, time_ticks

BINS = 60


def events_over_time(parts: Parts) -> str:
    """A histogram of times over training, validation and test part."""
    log, unit = parts.log, parts.log.schema.time
    low, high = log.t[0], log.t[-1]
    bins = min(BINS, max(len(log.group_starts), 1))
    edges = np.linspace(float(low), float(high), bins + 1)
    heights, _ = np.histogram(log.t.astype(np.float64), edges)
    step = duration((float(high) - float(low)) / bins, unit)
    x = Axis(float(low), float(high), time_label(unit, low, high), time_ticks(low, high, unit))
    plot = Plot(x, Axis(0, heights.max() * 1.12, f"events per {step}"), name="Events over time")
    borders = [float(low), *(float(part.t[0]) for part in (parts.val, parts.test)), float(high)]
    for k, words in enumerate((("training",), ("validation", "val"), ("test",))):
        plot.span(borders[k], borders[k + 1], f"part{k}", words)
    for k, height in enumerate(heights):
        at = unit.show(log.t.dtype.type(edges[k]))
        plot.bar(edges[k], edges[k + 1], 0, height, "ink", f"{count(height)} events from {at}", gap=0.4)
    return plot.svg()


def novelty(log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """True for events whose pair, and whose two nodes, occur in an earlier row."""
    pair = log.src * np.int64(max(log.nodes, 1)) + log.dst
    ends = seen_before(np.stack([log.src, log.dst], 1).ravel())
    return seen_before(pair), ends[::2] & ends[1::2]


def seen_before(values: np.ndarray) -> np.ndarray:
    """True for values that occur earlier in the array."""
    seen = np.ones(len(values), bool)
    seen[np.unique(values, return_index=True)[1]] = False
    return seen


def links_over_time(log: EventLog) -> str:
    """Shares of repeated links, new links between known nodes and links of a new node, over the log."""
    seen_pair, seen_nodes = novelty(log)
    edges = np.unique(np.linspace(0, len(log), min(40, len(log)) + 1).astype(int))
    y = Axis(0, 1, "share of events (%)", words=percent_tick)
    plot = Plot(Axis(0, len(log), "events, in order of time"), y, name="New and repeated links")
    for first, last in pairwise(edges.tolist()):
        again = float(seen_pair[first:last].mean())
        fresh = float((~seen_nodes[first:last]).mean())
        rest = 1 - again - fresh
        floor = 0.0
        for share, series, word in (
            (again, "k0", "repeated links"),
            (rest, "k1", "new links between known nodes"),
            (fresh, "k2", "links of a new node"),
        ):
            tip = f"events {first:,} to {last - 1:,}: {percent(share, 1)} % {word}"
            plot.bar(first, last, floor, floor + share, series, tip, gap=0.3)
            floor += share
    return plot.svg()


def gaps_between_events(log: EventLog) -> str | None:
    """A histogram of the times between a node's events, logarithmic; None if no node has two at different times."""
    gaps = node_gaps(log)
    positive = gaps[gaps > 0]
    if not len(positive):
        return None
    unit = log.schema.time
    low, high = float(positive.min()), float(positive.max())
    low, high = (low / 2, low * 2) if low == high else (low, high)
    few = log.t.dtype.kind == "i" and high / low < 40  # whole numbers: more bars than values would leave gaps
    bins = min(40, max(int(high - low), 1)) if few else 40
    edges = np.geomspace(low, high * (1 + 1e-9), bins + 1)
    heights = np.histogram(positive, edges)[0] / len(gaps)
    label = "between two events of a node" + ("" if unit.unit else ", in the log's own unit")
    x = Axis(low, high, label, _duration_ticks(low, high, log) if unit.unit else None, log=True)
    y = Axis(0, max(heights.max(), 1e-9) * 1.12, "share of gaps (%)", words=percent_tick)
    plot = Plot(x, y, name="Times between events of one node")
    for k, height in enumerate(heights):
        tip = f"{duration(edges[k], unit)} to {duration(edges[k + 1], unit)}: {percent(height, 1)} %"
        plot.bar(edges[k], edges[k + 1], 0, height, "ink", tip)
    return plot.svg()


def _duration_ticks(low: float, high: float, log: EventLog) -> list[tuple[float, str]]:
    per = PER_SECOND[log.schema.time.unit or "s"]
    seconds = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400, 100 * 86400, 1000 * 86400]
    return [(s * per, duration(s * per, log.schema.time)) for s in seconds if low <= s * per <= high]


def event_counts(log: EventLog) -> np.ndarray:
    """Events of each node (n,); a self-loop counts once."""
    once = log.src != log.dst
    return np.bincount(np.concatenate([log.src, log.dst[once]]), minlength=log.nodes)


def busiest_half(log: EventLog) -> int:
    """The smallest number of nodes that have half of all events."""
    events = np.sort(event_counts(log))[::-1]
    return int(np.searchsorted(np.cumsum(events), events.sum() / 2)) + 1


def activity(log: EventLog) -> str:
    """The share of nodes with at least k events, over k."""
    counts = event_counts(log)
    values, nodes = np.unique(counts[counts > 0], return_counts=True)
    share = nodes[::-1].cumsum()[::-1] / nodes.sum()
    least, most = float(values[0]), float(max(values[-1], 2 * values[0]))
    last = float(share[-1])
    ticks = [(10.0**-k, short(100 * 10.0**-k)) for k in range(int(-np.log10(last / 1.3)) + 1)]
    y = Axis(last / 1.3, 1.0, "share of nodes with at least as many (%)", ticks, log=True)
    plot = Plot(Axis(least, most, "events of a node", log=True), y, left=44, name="Events per node")
    keep = np.unique(np.geomspace(1, len(values), min(len(values), 80)).astype(int) - 1)
    plot.line(values[keep].tolist(), share[keep].tolist(), "ink")
    return plot.svg()
