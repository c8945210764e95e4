"""How a service runs, how much it takes at once, and what it says when that is too much."""

from __future__ import annotations

from dataclasses import dataclass

from pintgn.errors import BadInput, EventOrderError, PintgnError
from pintgn.live.prequential import EVERY


class Busy(PintgnError):
    """Too much is waiting already; try again a little later."""


class TooMuch(PintgnError):
    """More at once than is allowed; the same request will never be taken."""


class WrongType(PintgnError):
    """A body of a type that is not taken."""


class TooSlow(PintgnError):
    """A body that did not arrive in time."""


class Stopped(PintgnError):
    """The service is going down, or its writer has failed."""


class NotWriter(PintgnError):
    """Another process writes to the store; this one only answers."""


class Behind(PintgnError):
    """The state has not come as far as was asked for, in the time that there is to wait."""


class KeyReused(BadInput):
    """A key that names another event already."""


class LateEvent(EventOrderError):
    """An event from before the clock."""


class FarAhead(BadInput):
    """An event so far after the clock that its time is more likely a mistake."""


@dataclass(frozen=True)
class Limits:
    """How much at once."""

    body: int = 32 * 2**20  # bytes of one body, unpacked too
    bodies: int = 256 * 2**20  # bytes of all bodies that arrive, wait or are worked on
    arrival: float = 30  # seconds that a body may take to arrive
    batch: int = 50_000  # events of one request
    waiting: int = 200_000  # events that may wait for the writer
    pairs: int = 10_000  # pairs of one score request
    asking: int = 32  # questions that may wait or be answered at once
    explaining: int = 8  # explanations that may wait or be worked out at once, one after the other
    connections: int = 500  # connections; the one that has been idle longest gives way to a new one
    request: float = 10  # seconds from a connection's opening, or a request's first byte, to the end of its headers
    idle: float = 75  # seconds that a connection may stay open between two requests
    behind: float = 5  # seconds that a question waits for the event that it names (min_event)
    unread: float = 30  # seconds that an answer may lie there unread


@dataclass(frozen=True)
class Options:
    """How a service runs; see `pintgn serve --help`."""

    snapshot_every: int = 100_000
    keep_last: int | None = None
    window: float | None = None
    retain_every: int = 10_000
    keep_events: int | None = None  # of the store; all when not given
    evaluate_every: int = EVERY
    lateness: float | None = None  # how long events wait for others from before them, in the log's unit
    max_ahead: float | None = None  # how far an event may be after the one before it; from the log's span by default
    follow: bool = False  # only answer, beside the service that writes to the same store
