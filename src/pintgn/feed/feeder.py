"""Moves events from a source into a service, exactly once, and predictions out.

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
from urllib.parse import quote

from pintgn.errors import BadInput, PintgnError
from pintgn.feed.client import Client, Unreachable, seconds_to_wait
from pintgn.feed.mapping import BadRow, Columns
from pintgn.feed.refused_rows import RefusedRows
from pintgn.feed.sink import Sink
from pintgn.feed.stream_source import Batch, Row, Source

IDLE = 1.0
"""Seconds that a source is waited for at a time."""
SHORT = 0.1
"""The same, when the feeder stops at the end."""
REFUSED = ("late_event", "bad_input", "far_ahead", "too_large")
"""Errors that one event of a batch can cause; without it the others are taken."""
LATER = (408, 429, 500, 502, 503, 504, 507)
"""Answers after which the same request is sent again."""


class Refused(PintgnError):
    """The service refuses a row, and nobody has said where to put it."""


@dataclass
class Counts:
    """What has been done so far."""

    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    predictions: int = 0
    retries: int = 0
    position: Any = None
    waiting_for: str = ""  # why nothing moves right now
    began: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Events per second."""
        return (self.accepted + self.duplicates) / max(time.monotonic() - self.began, 1e-9)

    def facts(self) -> dict[str, Any]:
        names = ("accepted", "duplicates", "refused", "predictions", "retries", "position")
        return {name: getattr(self, name) for name in names} | {"seconds": round(time.monotonic() - self.began, 3)}


@dataclass
class Predictions:
    """What is sent out: the likeliest destinations of sources that were just active, and unlikely events."""

    sink: Sink
    top: int = 0
    below: float | None = None


class Feeder:
    """One source, one service.

        Feeder(source, client, columns).run()

    Args:
        source: where events come from.
        client: of the service.
        columns: which of the source's columns are an event's.
        batch: events of a request at most.
        refused: where rows go that the service refuses; without, the first of them stops the feeder.
        predictions: what goes out.
        progress: called with the counts after every batch, and when waiting begins.
    """

    def __init__(
        self,
        source: Source,
        client: Client,
        columns: Columns,
        batch: int = 1_000,
        refused: RefusedRows | None = None,
        predictions: Predictions | None = None,
        progress: Callable[[Counts], None] = lambda counts: None,
    ):
        self.source, self.client, self.columns, self.batch = source, client, columns, batch
        self.refused, self.predictions, self.progress = refused, predictions, progress
        self.counts, self.stopping = Counts(), threading.Event()

    def stop(self) -> None:
        """Come to an end after the batch that is under way."""
        self.stopping.set()

    def run(self, once: bool = False) -> Counts:
        """Feed until stopped; with `once`, until the source has nothing more for now."""
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
                if self.refused is None and self._send(events, rejected) is None:
                    return
                rejected.append(self._refuse(row, "bad_row", str(error)))
        taken = self._send(events, rejected)
        if self.stopping.is_set() and taken is None:
            return  # it was not acknowledged; the next feeder sends it again
        if rejected and self.refused is not None:
            self.refused.add(rejected)
        if self.predictions is not None:
            self._predict(taken or [])
        self.source.commit(batch.position)
        self.counts.position = batch.position

    # -- in ------------------------------------------------------------------------------------------------------------

    def _send(self, events: list[tuple[Row, dict[str, Any]]], rejected: list[dict[str, Any]]) -> list[Any] | None:
        """Send events; those that are refused are collected.

        Returns each that was taken, with its score; None when the feeder is stopped.
        """
        if not events:
            return []
        body = {"events": [event for _, event in events]}
        wanted = self.predictions is not None and self.predictions.below is not None
        answer = self.ask("POST", "/events?scores=true" if wanted else "/events", body)
        if answer is None:
            return None
        status, found = answer
        if status == 200:
            self.counts.accepted += found["accepted"]
            self.counts.duplicates += found["duplicates"]
            scores = found.get("scores") or [None] * len(events)
            return [(event, score) for (_, event), score in zip(events, scores, strict=True)]
        error, message = found["error"], found["message"]
        if error not in REFUSED:
            raise BadInput(f"the service refuses what it is sent: {message} {found.get('next', '')}")
        if len(events) == 1:
            rejected.append(self._refuse(events[0][0], error, message))
            return []
        half = len(events) // 2
        taken: list[Any] = []
        for part in (events[:half], events[half:]):
            more = self._send(part, rejected)
            if more is None:
                return None
            taken += more
        return taken

    def _refuse(self, row: Row, error: str, message: str) -> dict[str, Any]:
        if self.refused is None:
            raise Refused(
                f"row {row.key} is refused ({error}): {message.rstrip('.')}. Everything before it was sent. Correct "
                "it, or set such rows aside with --refused FILE."
            )
        self.counts.refused += 1
        return {"key": row.key, "error": error, "message": message, "row": row.values}

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any] | None:
        """An answer that says yes or no; whoever is busy or away is asked again. None when the feeder is stopped."""
        attempt = 0
        while True:
            headers: Any = {}
            try:
                status, headers, found = self.client.ask(method, path, body)
                if status not in LATER:
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

    # -- out -----------------------------------------------------------------------------------------------------------

    def _predict(self, taken: list[Any]) -> None:
        """Predictions about a batch: made anew if it is sent again, so they leave at least once."""
        assert self.predictions is not None
        messages = []
        below, top = self.predictions.below, self.predictions.top
        for event, score in taken if below is not None else ():
            if score is not None and score < below:
                messages.append({"kind": "unlikely", "id": f"unlikely {event['key']}", "probability": score} | event)
        newest = {event["src"]: event for event, _ in taken} if top else {}
        for src, event in newest.items():
            answer = self.ask("GET", f"/recommend/{quote(str(src), safe='')}?k={top}")
            if answer is None:
                return
            status, found = answer
            if status == 200:
                about = {"kind": "next", "id": f"next {event['key']}", "src": src}
                messages.append(about | {"at": found["at"], "items": found["items"]})
        attempt = 0
        while messages:
            try:
                self.predictions.sink.send(messages)
                self.counts.predictions += len(messages)
                self.counts.waiting_for = ""
                return
            except OSError as error:
                if not self._wait(str(error), seconds_to_wait({}, attempt)):
                    return
                attempt += 1
