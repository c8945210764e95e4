"""Failures of a model: ranks by the history of an event's nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pintgn.events.log import EventLog
from pintgn.neighbors.index import NeighborIndex
from pintgn.report.labels import duration
from pintgn.report.spread import BootstrapBlocks, standard_error
from pintgn.report.study import Row, Study

DEGREES = (0, 1, 3, 10, 30, 100, 300)


@dataclass(frozen=True)
class Slice:
    """A group of test events."""

    label: str
    rows: np.ndarray  # (e,) bool

    @property
    def events(self) -> int:
        return int(self.rows.sum())


@dataclass(frozen=True)
class Prior:
    """History strictly before each test event."""

    src_events: np.ndarray  # (e,) of its source
    dst_events: np.ndarray
    src_idle: np.ndarray  # time since the source's last event; NaN if new
    apart: np.ndarray  # time since the two last met; NaN if never


def prior_history(study: Study) -> Prior:
    log, events = study.log, study.events
    index = NeighborIndex()
    index.append(log.src, log.dst, log.t)
    last = index.last(events.src, events.dst, events.t)
    newest = index.recent(events.src, events.t, 1)
    return Prior(
        index.count(events.src, events.t),
        index.count(events.dst, events.t),
        np.where(newest.mask[:, 0], newest.dt[:, 0].astype(np.float64), np.nan),
        np.where(last.mask, (events.t - last.t).astype(np.float64), np.nan),
    )


def by_count(values: np.ndarray) -> list[Slice]:
    """Slices by number of earlier events; empty ones are left out."""
    found = []
    for low, high in zip(DEGREES, (*DEGREES[1:], None), strict=True):
        rows = (values >= low) & (values < (np.inf if high is None else high))
        if rows.any():
            label = f"{low}" if high == low + 1 else f"{low}–{high - 1}" if high else f"{low}+"
            found.append(Slice(label, rows))
    return found


def by_time(values: np.ndarray, log: EventLog, never: str, parts: int = 4) -> list[Slice]:
    """A slice of events without a time, then `parts` slices of about equal size, shortest first."""
    missing = np.isnan(values)
    found = [Slice(never, missing)] if missing.any() else []
    if missing.all():
        return found
    edges = np.unique(np.quantile(values[~missing], np.linspace(0, 1, parts + 1)[1:], method="inverted_cdf"))
    labels: list[str] = []
    for digits in range(2, 8):  # as few as tell the slices apart
        labels = [f"≤ {duration(float(high), log.schema.time, digits)}".replace(" ", "\u00a0") for high in edges]
        if len(set(labels)) == len(labels):
            break
    if len(labels) > 1:
        labels[-1] = "longer"
    lows = np.append(-np.inf, edges[:-1])
    return found + [
        Slice(label, ~missing & (values > low) & (values <= high))
        for low, high, label in zip(lows, edges, labels, strict=True)
    ]


def in_slice(row: Row, part: Slice, blocks: BootstrapBlocks) -> tuple[float, float | None]:
    """Mean reciprocal rank of a row within a slice (mean over runs), and its standard error over blocks."""
    inverse = np.mean([1 / one.ranks for one in row.members], 0)
    return float(inverse[part.rows].mean()), standard_error(blocks.mean(inverse, part.rows))
