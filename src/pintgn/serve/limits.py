"""Options and limits of a service, and the errors of requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pintgn.errors import BadInput, EventOrderError, PintgnError


class Busy(PintgnError):
    """Too many requests are waiting; try again a little later."""


class TooMuch(PintgnError):
    """A request above a limit, which will never be accepted."""


class WrongType(PintgnError):
    """A body of an unsupported content type."""


class TooSlow(PintgnError):
    """A body that did not arrive in time."""


class NotAllowed(PintgnError):
    """A forbidden request; the audit log has each.

    Args:
        status, name, next: of the answer, as in `middleware.FAULTS`.
        headers: of the answer.
    """

    def __init__(self, status: int, name: str, message: str, next: str, **headers: str):
        super().__init__(message)
        self.status, self.name, self.next = status, name, next
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Stopped(PintgnError):
    """The service is stopping, or its writer has failed."""


class NotWriter(PintgnError):
    """Another process writes to the store; this one only answers."""


class Behind(PintgnError):
    """The state did not reach `min_event` in time."""


class KeyReused(BadInput):
    """A key that names another event already."""


class LateEvent(EventOrderError):
    """An event from before the clock."""


class FarAhead(BadInput):
    """An event so far after the clock that its time is more likely a mistake."""


@dataclass(frozen=True)
class Limits:
    """Limits of requests."""

    body: int = 32 * 2**20  # bytes of one body
    bodies: int = 256 * 2**20  # bytes of all bodies that arrive, wait or are worked on
    arrival: float = 30  # seconds that a body may take to arrive
    batch: int = 50_000  # events of one request
    waiting: int = 200_000  # events that may wait for the writer
    pairs: int = 10_000  # pairs of one score request
    asking: int = 32  # questions that may wait or be answered at once
    explaining: int = 8  # explanations that may wait or be worked out at once, one after the other
    connections: int = 500  # connections, idle ones included
    idle: float = 75  # seconds that a connection may stay open between two requests
    behind: float = 5  # seconds that a question waits for the event that it names (min_event)


# Fields with a help text are options of `pintgn serve`; see `cli.option_groups`.


@dataclass(frozen=True)
class Tls:
    """Serve HTTPS."""

    cert: Annotated[
        Path | None,
        "Certificate (PEM, with its chain): serve HTTPS. SIGHUP reads it again.",
        {"flag": "--tls-cert"},
    ] = None
    key: Annotated[Path | None, "The certificate's private key (PEM).", {"flag": "--tls-key"}] = None


@dataclass(frozen=True)
class Access:
    """Accepted API keys; by default those of `pintgn keys`."""

    key_file: Annotated[Path | None, "File with the API key of all clients, instead of those of `pintgn keys`."] = None
    new_key: Annotated[bool, "Create the API key `default`, for everything, and print it once."] = False
    without_keys: Annotated[bool, "Serve without API keys from now on, although the store had some."] = False


@dataclass(frozen=True)
class Logs:
    """Log files and formats."""

    format: Annotated[str, "Format of log lines on stderr: text or json.", {"flag": "--log-format"}] = "text"
    requests: Annotated[bool, "Log every request.", {"flag": "--log-requests"}] = False
    audit: Annotated[Path | None, "Audit log: append writes, administration and refused requests to this file."] = None


@dataclass(frozen=True)
class Options:
    """Options of a service. Lengths of time are in the unit of the run's log."""

    snapshot_every: Annotated[int, "Events between two snapshots.", {"least": 1}] = 100_000
    keep_last: Annotated[int | None, "Keep only this many newest contacts of each node in memory.", {"least": 1}] = None
    window: Annotated[
        float | None,
        "Keep only contacts this recent in memory: P30D, PT1H, or a number in the log's unit.",
        {"duration": True},
    ] = None
    retain_every: int = 10_000
    keep_events: Annotated[
        int | None,
        "Keep about this many newest events in the store, and all that are in no snapshot yet.",
        {"least": 0},
    ] = None
    evaluate_every: Annotated[int, "Score every n-th event just before it is observed; 0 for none.", {"least": 0}] = (
        10  # as in `live.prequential`, which would load everything
    )
    lateness: Annotated[
        float | None,
        "Let events wait this long for earlier ones, then observe them in order: 10m, or a number.",
        {"duration": True},
    ] = None
    max_ahead: Annotated[
        float | None,
        "Refuse an event this long after the one before it: P1D, or a number in the log's unit; inf allows any. A "
        "hundred times the span of the run's log by default.",
        {"duration": True},
    ] = None
    follow: Annotated[bool, "Only answer; another service writes to the same PostgreSQL store."] = False
