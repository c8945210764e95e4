"""HTTP middleware, one concern per class: log, errors, lengths, host names, cross-site pages, keys, sizes of bodies."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pintgn.errors import BadInput, EventOrderError, PintgnError, StaleQuery, TooLarge
from pintgn.serve import limits
from pintgn.serve.api_keys import Keys
from pintgn.serve.event_store import StoreFull, StoreLost
from pintgn.serve.journal import ID, access, audit, note
from pintgn.serve.prometheus import Metrics

log = logging.getLogger("pintgn.serve")
SECURITY = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
OPEN = ("/", "/docs", "/health")
FILES = "/static/"
"""Reached without a key: the pages, and their files."""
FAULTS: list[tuple[type[BaseException], int, str, str]] = [
    (limits.LateEvent, 409, "late_event", "Send events in order of time; drop or correct what comes too late."),
    (limits.KeyReused, 409, "key_reused", "Give every event a key of its own, and repeat only identical events."),
    (limits.FarAhead, 422, "far_ahead", "Check the unit of the times; a larger --max-ahead allows it."),
    (StaleQuery, 409, "stale_query", "Ask about the clock's time or later, or leave out `at`."),
    (EventOrderError, 422, "bad_input", "Sort the events by time, then send them again."),
    (limits.TooSlow, 408, "too_slow", "Send the body faster, or less at once."),
    (limits.TooMuch, 413, "too_large", "Send less at once; the documentation of serving lists every limit."),
    (
        limits.WrongType,
        415,
        "wrong_type",
        "Say the body's type in Content-Type; /openapi.json has the types of each route.",
    ),
    (limits.Busy, 429, "busy", "Wait as long as Retry-After says, then send the same request again."),
    (
        limits.NotWriter,
        503,
        "not_writer",
        "Send it to the service that writes, or here again when this one has taken over.",
    ),
    (StoreLost, 503, "store_lost", "Send the same events again, under the same keys: those that were kept count once."),
    (limits.Behind, 503, "behind", "Ask again in a moment, or ask the service that writes."),
    (limits.Stopped, 503, "stopped", "Wait until the service has been restarted; see /health."),
    (StoreFull, 507, "store_full", "Free space on the service's disk, then send the same request again."),
    (TooLarge, 507, "out_of_memory", "Ask for less at once, or give the service more memory."),
    (BadInput, 422, "bad_input", "Correct the request; /openapi.json describes what is expected."),
    (PintgnError, 500, "failed", "See the service's log."),
]
"""Status, name and next step of every error; the first row that fits."""


class Json(Response):
    """A JSON response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def fault(status: int, name: str, message: str, next_step: str, headers: dict[str, str] | None = None) -> Response:
    """An error as a client gets it: the cause and the next step."""
    return Json({"error": name, "message": message, "next": next_step}, status, headers)


class RequestLog:
    """The id of a request, its line in the log, its count and time in the metrics, and the headers of every answer.

    `scope["state"]` holds what is known of a request: `id`; `status`, `key`, `refused` and `done` where there is one.

    Args:
        paths: what the metrics call each endpoint.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Mapping[Any, str]):
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begin, given = time.perf_counter(), Headers(scope=scope).get("x-request-id", "")
        id = given if ID.fullmatch(given) else secrets.token_hex(8)
        state = scope["state"] = {"id": id}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                message["headers"] = [*message.get("headers", []), *SECURITY, (b"x-request-id", id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            route, seconds = self.paths.get(scope.get("endpoint"), "other"), time.perf_counter() - begin
            status = state.get("status", 0)
            self.metrics.requests.labels(route, status).inc()
            self.metrics.request_seconds.labels(route).observe(seconds)
            if access.isEnabledFor(logging.INFO) or audit.isEnabledFor(logging.INFO):
                note(scope, status, seconds)


class ErrorAnswers:
    """Exceptions as responses: ours by the table, anything else as 500 without its cause."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            return await self.app(scope, receive, send)
        except ClientDisconnect:
            return  # nobody is there to be answered
        except asyncio.CancelledError:
            answer = self._answer(scope, limits.Stopped("the service is going down; this request was given up."))
        except PintgnError as error:
            answer = self._answer(scope, error)
        except Exception:
            facts = {"request_id": scope["state"]["id"]}
            log.exception("%s %s failed", scope["method"], scope["path"], extra={"facts": facts})
            if "status" in scope["state"]:  # half an answer has been sent
                raise
            answer = fault(500, "failed", "Something went wrong inside the service.", "See the service's log.")
        await answer(scope, receive, send)

    def _answer(self, scope: Scope, error: PintgnError) -> Response:
        headers: dict[str, str] = {}
        if isinstance(error, limits.NotAllowed):
            scope["state"]["refused"], headers = error.name, error.headers
            status, name, next_step = error.status, error.name, error.next
        else:
            _, status, name, next_step = next(row for row in FAULTS if isinstance(error, row[0]))
        self.metrics.refused.labels(name).inc()
        if status in (429, 503):
            headers = {"Retry-After": "1"} | headers
        return fault(status, name, str(error), next_step, headers)


class OneLength:
    """Refuses a request that has two lengths: a proxy in front may believe the other one (RFC 9112, 6.1)."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and {b"content-length", b"transfer-encoding"} <= {
            name for name, _ in scope["headers"]
        }:
            said = "the request has both Content-Length and Transfer-Encoding."
            raise limits.NotAllowed(400, "two_lengths", said, "Send one of them.", Connection="close")
        await self.app(scope, receive, send)


class TrustedHost:
    """Refuses requests under a foreign host name: a web page may have pointed its own name here.

    Args:
        hosts: names that are taken besides those of this machine; any when None.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] | None):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.hosts is not None:
            name = host_name(Headers(scope=scope).get("host", ""))
            if name not in self.hosts and not is_local(name):
                said = f"this service is not {name[:100]!r}."
                raise limits.NotAllowed(421, "wrong_host", said, "Call it by the name it was started with.")
        await self.app(scope, receive, send)


def host_name(header: str) -> str:
    """The name in a Host header, without the port.

    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("example.org")
    ('localhost', '::1', 'example.org')
    """
    return header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("::1"), is_local("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SameOrigin:
    """Refuses requests that change something and that a browser sends on behalf of another site's page.

    With keys, the page's name is not compared: no foreign page knows the key, and a proxy may have changed the name.
    """

    def __init__(self, app: ASGIApp, keys: Keys | None):
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        changes = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if changes and is_foreign(Headers(scope=scope), scope["scheme"], compare_names=not self.keys):
            said = "this request comes from a web page of another site."
            ours = "Send it from a program, or from the service's own page."
            raise limits.NotAllowed(403, "foreign_page", said, ours)
        await self.app(scope, receive, send)


def is_foreign(headers: Mapping[str, str], scheme: str = "http", compare_names: bool = True) -> bool:
    """Whether a browser sends a request on behalf of a page that is not the service's own.

    Browsers say it themselves (`Sec-Fetch-Site`); older ones only name the page (`Origin`), which is compared with the
    scheme and the name that the service was called by.

    >>> is_foreign({"sec-fetch-site": "cross-site"}), is_foreign({"sec-fetch-site": "same-origin"}), is_foreign({})
    (True, False, False)
    >>> is_foreign({"origin": "http://evil.example", "host": "localhost:8000"}), is_foreign({"origin": "null"})
    (True, True)
    >>> is_foreign({"origin": "https://localhost", "host": "localhost"})
    True
    """
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    page = headers.get("origin", "").lower()
    return compare_names and bool(page) and page != f"{scheme}://{headers.get('host', '?').lower()}"


class ApiKeys:
    """Accepts requests whose key has the scope and is within its rate; all requests, where there never was a key."""

    def __init__(self, app: ASGIApp, keys: Keys | None):
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.keys is not None and scope["type"] == "http":
            path, state = scope["path"], scope["state"]
            if path not in OPEN and not path.startswith(FILES):
                key = self.keys.find(Headers(scope=scope))
                if key is not None:
                    state["key"] = key.name
                    self.keys.check(key, f"{scope['method']} {path}")
        await self.app(scope, receive, send)


class BodyLimits:
    """Limits on bodies: the size of one, seconds until it has arrived, and bytes of all that arrive or are being
    handled."""

    def __init__(self, app: ASGIApp, most: limits.Limits):
        self.app, self.most, self.held = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        most, size, whole = self.most, 0, False
        deadline = asyncio.get_running_loop().time() + most.arrival
        length = Headers(scope=scope).get("content-length", "0")
        too_large = limits.TooMuch(f"the body is larger than {most.body:,} bytes. Send less at once.")
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most.body):
            raise too_large

        async def receiving() -> Message:
            nonlocal size, whole
            try:
                async with asyncio.timeout_at(None if whole else deadline):
                    message = await receive()
            except TimeoutError:
                raise limits.TooSlow(
                    f"{size:,} bytes of the body have arrived in {most.arrival:g} s, and not the rest. Nothing was "
                    "applied."
                ) from None
            part, whole = len(message.get("body", b"")), not message.get("more_body", False)
            if size + part > most.body:
                raise too_large
            if self.held + part > most.bodies:
                raise limits.Busy(f"all bodies together hold {self.held:,} bytes already, of {most.bodies:,}.")
            size, self.held = size + part, self.held + part
            return message

        try:
            await self.app(scope, receiving, send)
        finally:
            self.held -= size
