"""What a service counts and times, for Prometheus; and how many events come per second."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from pintgn.errors import BadInput

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.core import GaugeMetricFamily, Metric
except ImportError:
    raise BadInput("serving needs prometheus-client. Install it: pip install 'pintgn[serve]'.") from None

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds: upper ends of a histogram's bins."""
COUNTED: dict[str, tuple[type[Any], str]] = {
    "events_total": (Counter, "Events acknowledged since the service started."),
    "duplicates_total": (Counter, "Events that were known by their key already."),
    "refused_total": (Counter, "Requests refused, by reason."),
    "requests_total": (Counter, "Requests answered, by route and status."),
    "request_seconds": (Histogram, "Time to answer a request, by route."),
    "commit_seconds": (Histogram, "Time to make a group of events durable."),
    "observe_seconds": (Histogram, "Time to observe a group of events."),
    "store_failures_total": (Counter, "Groups of events that could not be written."),
    "dropped_total": (Counter, "Stored events dropped to keep the store small."),
    "snapshots_total": (Counter, "Snapshots written."),
    "snapshot_failures_total": (Counter, "Snapshots that could not be written."),
    "snapshot_pause_seconds": (Gauge, "How long the newest snapshot held up ingestion."),
    "snapshot_bytes": (Gauge, "Size of the newest snapshot."),
    "snapshot_events": (Gauge, "Number of the last event that the newest snapshot has seen."),
}


class Metrics:
    """The metrics of one service, in a registry of its own. Names are given without the prefix `pintgn_`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def add(self, name: str, count: float = 1, **labels: str) -> None:
        self._metric(name, labels).inc(count)

    def set(self, name: str, value: float) -> None:
        self._metric(name, {}).set(value)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        self._metric(name, labels).observe(seconds)

    def timed(self, name: str) -> AbstractContextManager[Any]:
        return self._metric(name, {}).time()

    def _metric(self, name: str, labels: Mapping[str, str]) -> Any:
        """A metric, made on first use: what never happened is not shown."""
        found = self._made.get(name)
        if found is None:
            with self._lock:
                if (found := self._made.get(name)) is None:
                    kind, about = COUNTED[name]
                    more = {"buckets": BOUNDS} if kind is Histogram else {}
                    found = kind(f"pintgn_{name}", about, list(labels), registry=self.registry, **more)
                    self._made[name] = found
        return found.labels(**labels) if labels else found

    def text(self, more: Mapping[str, tuple[str, Any]]) -> str:
        """Everything, and gauges of the moment: their names, descriptions and values."""
        return generate_latest(_Shown(self.registry, more)).decode()


class _Shown(CollectorRegistry):
    """A registry's metrics without the times of their creation, and gauges of the moment."""

    def __init__(self, registry: CollectorRegistry, more: Mapping[str, tuple[str, Any]]):
        super().__init__()
        self.registry, self.more = registry, more

    def collect(self) -> Iterator[Metric]:
        for metric in self.registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
        for name, (about, value) in self.more.items():
            if value is not None:
                yield GaugeMetricFamily(f"pintgn_{name}", about, value=value)


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
