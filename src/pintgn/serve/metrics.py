"""Counters, gauges and times in Prometheus' text format; and how many events come per second."""

from __future__ import annotations

import bisect
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds: upper ends of a histogram's bins."""
HELP = {
    "events_total": "Events acknowledged since the service started.",
    "duplicates_total": "Events that were known by their key already.",
    "refused_total": "Requests refused, by reason.",
    "requests_total": "Requests answered, by route and status.",
    "request_seconds": "Time to answer a request, by route.",
    "commit_seconds": "Time to make a group of events durable.",
    "observe_seconds": "Time to observe a group of events.",
    "store_failures_total": "Groups of events that could not be written.",
    "dropped_total": "Stored events dropped to keep the store small.",
    "snapshots_total": "Snapshots written.",
    "snapshot_failures_total": "Snapshots that could not be written.",
    "snapshot_pause_seconds": "How long the newest snapshot held up ingestion.",
    "snapshot_bytes": "Size of the newest snapshot.",
    "snapshot_events": "Number of the last event that the newest snapshot has seen.",
}


class Metrics:
    """What a service counts. Names are given without the prefix `pintgn_`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], float] = {}
        self._times: dict[tuple[str, str], list[float]] = {}

    def add(self, name: str, count: float = 1, **labels: str) -> None:
        with self._lock:
            key = (name, _labels(labels))
            self._values[key] = self._values.get(key, 0) + count

    def set(self, name: str, value: float, **labels: str) -> None:
        with self._lock:
            self._values[name, _labels(labels)] = value

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        with self._lock:
            bins = self._times.setdefault((name, _labels(labels)), [0.0] * (len(BOUNDS) + 2))
            bins[bisect.bisect_left(BOUNDS, seconds)] += 1
            bins[-1] += seconds

    @contextmanager
    def timed(self, name: str, **labels: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.observe(name, time.perf_counter() - begin, **labels)

    def text(self, more: dict[str, tuple[str, Any]]) -> str:
        """Everything, and gauges of the moment: their names, descriptions and values."""
        lines: list[str] = []
        with self._lock:
            values, times = dict(self._values), {key: list(bins) for key, bins in self._times.items()}
        for name in sorted({name for name, _ in values}):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += _head(name, kind, HELP.get(name, name))
            lines += [f"pintgn_{name}{labels} {_number(v)}" for (n, labels), v in sorted(values.items()) if n == name]
        for name in sorted({name for name, _ in times}):
            lines += _head(name, "histogram", HELP.get(name, name))
            for (own, labels), bins in sorted(times.items()):
                if own == name:
                    lines += _histogram(name, labels, bins)
        for name, (described, value) in more.items():
            if value is not None:
                lines += [*_head(name, "gauge", described), f"pintgn_{name} {_number(value)}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, described: str) -> list[str]:
    return [f"# HELP pintgn_{name} {described}", f"# TYPE pintgn_{name} {kind}"]


def _histogram(name: str, labels: str, bins: list[float]) -> list[str]:
    inner, lines, seen = labels.strip("{}"), [], 0.0
    for bound, count in zip([*map(str, BOUNDS), "+Inf"], bins[:-1], strict=True):
        seen += count
        within = ",".join(filter(None, [inner, f'le="{bound}"']))
        lines.append(f"pintgn_{name}_bucket{{{within}}} {_number(seen)}")
    return [*lines, f"pintgn_{name}_sum{labels} {bins[-1]:.6f}", f"pintgn_{name}_count{labels} {_number(seen)}"]


def _labels(labels: dict[str, str]) -> str:
    """Labels as they are written.

    >>> _labels({"route": "/score", "status": "200"})
    '{route="/score",status="200"}'
    """
    escaped = {k: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for k, v in labels.items()}
    return "{" + ",".join(f'{k}="{v}"' for k, v in escaped.items()) + "}" if labels else ""


def _number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class Rate:
    """How many events came in each of the last seconds."""

    def __init__(self, seconds: int = 300):
        self._lock = threading.Lock()
        self._counts: deque[list[int]] = deque(maxlen=seconds)  # [unix second, events]

    def add(self, count: int, now: float | None = None) -> None:
        second = int(time.time() if now is None else now)
        with self._lock:
            if self._counts and self._counts[-1][0] >= second:
                self._counts[-1][1] += count
            else:
                self._counts.append([second, count])

    def per_second(self, over: int = 60, now: float | None = None) -> float:
        """Events per second over the last so many seconds."""
        since = (time.time() if now is None else now) - over
        with self._lock:
            return sum(count for second, count in self._counts if second > since) / over

    def history(self, seconds: int = 120, now: float | None = None) -> list[list[float]]:
        """[unix second, events per second], a point for every one of the last seconds, quiet ones included."""
        end = int(time.time() if now is None else now)
        with self._lock:
            known = {point[0]: point[1] for point in self._counts}
        return [[second, known.get(second, 0)] for second in range(end - seconds, end)]
