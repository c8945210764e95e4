"""Moves events from a source into a service, exactly once.

A batch is read, sent, and only then committed. Who is killed in between sends it again: each event has a key that is a
function of its position, and the service counts a known key once. So events arrive once, in the source's order,
whatever dies when.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pintgn.errors import BadInput, PintgnError
from pintgn.feed.client import Client, Unreachable, seconds_to_wait
from pintgn.feed.mapping import BadRow, ColumnMapping
from pintgn.feed.refused_rows import RefusedRows
from pintgn.feed.stream_source import Batch, Row, Source

IDLE = 1.0
"""Seconds that a source is waited for at a time."""
SHORT = 0.1
"""The same, when the feeder stops at the end."""
REFUSED = ("late_event", "bad_input", "far_ahead", "too_large")
"""Errors that one event of a batch can cause; without it the others are taken."""
RETRY = (408, 429, 500, 502, 503, 504, 507)
"""Answers after which the same request is sent again."""


class Refused(PintgnError):
    """The service refused a row, and no file for refused rows was given."""


@dataclass
class Counts:
    """Progress counts."""

    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    retries: int = 0
    position: Any = None
    waiting_for: str = ""  # why nothing moves right now
    began: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Events per second."""
        return (self.accepted + self.duplicates) / max(time.monotonic() - self.began, 1e-9)

    def facts(self) -> dict[str, Any]:
        names = ("accepted", "duplicates", "refused", "retries", "position")
        return {name: getattr(self, name) for name in names} | {"seconds": round(time.monotonic() - self.began, 3)}


class Feeder:
    """Feeds one source into one service.

        Feeder(source, client, columns).run()

    Args:
        source: where events come from.
        client: of the service.
        columns: which of the source's columns are an event's.
        batch: events of a request at most.
        refused: where rows go that the service refuses; without, the first of them stops the feeder.
        progress: called with the counts after every batch, and when waiting begins.
    """

    def __init__(
        self,
        source: Source,
        client: Client,
        columns: ColumnMapping,
        batch: int = 1_000,
        refused: RefusedRows | None = None,
        progress: Callable[[Counts], None] = lambda counts: None,
    ):
        self.source, self.client, self.columns, self.batch = source, client, columns, batch
        self.refused, self.progress = refused, progress
        self.counts, self.stopping = Counts(), threading.Event()

    def stop(self) -> None:
        """Stop after the current batch."""
        self.stopping.set()

    def run(self, once: bool = False) -> Counts:
        """Feed until stopped; with `once`, until the source has no more rows for now."""
        while not self.stopping.is_set():
            batch = self.source.read(self.batch, SHORT if once else IDLE)
            if batch.rows:
                self._move(batch)
            else:
                self.counts.position = batch.position  # all that was read before it has been dealt with
                if once and batch.end:
                    break
            self.progress(self.counts)
        return self.counts

    def _move(self, batch: Batch) -> None:
        events: list[tuple[Row, dict[str, Any]]] = []
        rejected: list[dict[str, Any]] = []
        for row in batch.rows:
            try:
                events.append((row, self.columns.event(row)))
            except BadRow as error:
                if self.refused is None and not self._send(events, rejected):
                    return
                rejected.append(self._refuse(row, "bad_row", str(error)))
        if not self._send(events, rejected):
            return  # stopped: it was not acknowledged; the next feeder sends it again
        if rejected and self.refused is not None:
            self.refused.add(rejected)
        self.source.commit(batch.position)
        self.counts.position = batch.position

    def _send(self, events: list[tuple[Row, dict[str, Any]]], rejected: list[dict[str, Any]]) -> bool:
        """Send events and collect those that are refused; False when the feeder is stopped."""
        if not events:
            return True
        body = {"events": [event for _, event in events]}
        answer = self.ask("POST", "/events", body)
        if answer is None:
            return False
        status, found = answer
        if status == 200:
            self.counts.accepted += found["accepted"]
            self.counts.duplicates += found["duplicates"]
            return True
        error, message = found["error"], found["message"]
        if error not in REFUSED:
            raise BadInput(f"the service refuses what it is sent: {message} {found.get('next', '')}")
        if len(events) == 1:
            rejected.append(self._refuse(events[0][0], error, message))
            return True
        half = len(events) // 2
        return self._send(events[:half], rejected) and self._send(events[half:], rejected)

    def _refuse(self, row: Row, error: str, message: str) -> dict[str, Any]:
        if self.refused is None:
            raise Refused(
                f"row {row.key} is refused ({error}): {message.rstrip('.')}. Everything before it was sent. Correct "
                "it, or set such rows aside with --refused FILE."
            )
        self.counts.refused += 1
        return {"key": row.key, "error": error, "message": message, "row": row.values}

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any] | None:
        """The service's final answer to a request; asks again while the service is busy or away. None when the feeder
        is stopped."""
        attempt = 0
        while True:
            headers: Any = {}
            try:
                status, headers, found = self.client.ask(method, path, body)
                if status not in RETRY:
                    if status >= 400 and not (isinstance(found, dict) and {"error", "message"} <= found.keys()):
                        raise BadInput(
                            f"{path} answered {status}, and not as a pintgn service does. Check the address."
                        )
                    self.counts.waiting_for = ""
                    return status, found
                why = found["message"] if isinstance(found, dict) and "message" in found else f"status {status}"
            except Unreachable as error:
                why = f"no answer ({error})"
            if not self._wait(why, seconds_to_wait(headers, attempt)):
                return None
            attempt += 1

    def _wait(self, why: str, seconds: float) -> bool:
        """Wait before another attempt; False when the feeder is stopped."""
        self.counts.retries += 1
        self.counts.waiting_for = why
        self.progress(self.counts)
        return not self.stopping.wait(seconds)
