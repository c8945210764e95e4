"""Prometheus metrics of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pintgn.errors import BadInput

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.core import GaugeMetricFamily, Metric
except ImportError:
    raise BadInput("serving needs prometheus-client. Install it: pip install 'pintgn[serve]'.") from None

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds: upper ends of a histogram's bins."""


class Metrics:
    """The metrics of one service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"namespace": "pintgn", "registry": self.registry}
        timed = own | {"buckets": BOUNDS}
        self.events = Counter("events_total", "Events acknowledged since the service started.", **own)
        self.duplicates = Counter("duplicates_total", "Events that were known by their key already.", **own)
        self.refused = Counter("refused_total", "Requests refused, by reason.", ["reason"], **own)
        self.requests = Counter("requests_total", "Requests answered, by route and status.", ["route", "status"], **own)
        self.request_seconds = Histogram("request_seconds", "Time to answer a request, by route.", ["route"], **timed)
        self.commit_seconds = Histogram("commit_seconds", "Time to make a group of events durable.", **timed)
        self.observe_seconds = Histogram("observe_seconds", "Time to observe a group of events.", **timed)
        self.store_failures = Counter("store_failures_total", "Groups of events that could not be written.", **own)
        self.dropped = Counter("dropped_total", "Stored events dropped to keep the store small.", **own)
        self.snapshots = Counter("snapshots_total", "Snapshots written.", **own)
        self.snapshot_failures = Counter("snapshot_failures_total", "Snapshots that could not be written.", **own)
        self.snapshot_pause = Gauge("snapshot_pause_seconds", "How long the newest snapshot paused ingestion.", **own)
        self.snapshot_bytes = Gauge("snapshot_bytes", "Size of the newest snapshot.", **own)
        self.snapshot_events = Gauge("snapshot_events", "Events that the newest snapshot has seen.", **own)

    def text(self, more: Mapping[str, tuple[str, Any]]) -> str:
        """Everything, and gauges of the moment: their names, descriptions and values."""
        return generate_latest(_Exported(self.registry, more)).decode()


class _Exported(CollectorRegistry):
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
