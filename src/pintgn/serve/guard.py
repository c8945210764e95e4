"""Around every request: who may ask, what is counted and written down, and refusals that say what to do."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pintgn.errors import BadInput, EventOrderError, PintgnError, StaleQuery, TooLarge
from pintgn.serve.auth import FILES, OPEN, foreign, host_name, is_local
from pintgn.serve.journal import ID, PRIVATE, access, audit, note
from pintgn.serve.keys import Keys, needed
from pintgn.serve.limits import (
    Behind,
    Busy,
    FarAhead,
    KeyReused,
    LateEvent,
    NotWriter,
    Stopped,
    TooMuch,
    TooSlow,
    WrongType,
)
from pintgn.serve.service import Service
from pintgn.serve.store import StoreFull, StoreLost

log = logging.getLogger("pintgn.serve")
POLL = 0.005
"""Seconds between two looks at whether an event counts already."""
SECURITY = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
FAULTS: list[tuple[type[BaseException], int, str, str]] = [
    (LateEvent, 409, "late_event", "Send events in order of time; drop or correct what comes too late."),
    (KeyReused, 409, "key_reused", "Give every event a key of its own, and repeat only identical events."),
    (FarAhead, 422, "far_ahead", "Check the unit of the times; a larger --max-ahead allows it."),
    (StaleQuery, 409, "stale_query", "Ask about the clock's time or later, or leave out `at`."),
    (EventOrderError, 422, "bad_input", "Sort the events by time, then send them again."),
    (TooSlow, 408, "too_slow", "Send the body faster, or less at once."),
    (TooMuch, 413, "too_large", "Send less at once; the documentation of serving lists every limit."),
    (WrongType, 415, "wrong_type", "Say the body's type in Content-Type; /openapi.json has the types of each route."),
    (Busy, 429, "busy", "Wait as long as Retry-After says, then send the same request again."),
    (NotWriter, 503, "not_writer", "Send it to the service that writes, or here again when this one has taken over."),
    (StoreLost, 503, "store_lost", "Send the same events again, under the same keys: those that were kept count once."),
    (Behind, 503, "behind", "Ask again in a moment, or ask the service that writes."),
    (Stopped, 503, "stopped", "Wait until the service has been restarted; see /health."),
    (StoreFull, 507, "store_full", "Free space on the service's disk, then send the same request again."),
    (TooLarge, 507, "out_of_memory", "Ask for less at once, or give the service more memory."),
    (BadInput, 422, "bad_input", "Correct the request; /openapi.json describes what is expected."),
    (PintgnError, 500, "failed", "See the service's log."),
]


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


class Guard:
    """Stands before every request: lets in who may ask, counts, and turns a fault of ours into a plain answer.

    Routes that are asked most are called from here (`direct`): the way through FastAPI takes longer than their work,
    and the event loop is what `/health` waits for under a flood.
    """

    def __init__(
        self, app: ASGIApp, service: Service, keys: Keys | None, hosts: tuple[str, ...] | None, direct: dict[str, Route]
    ):
        self.app, self.service, self.keys, self.hosts, self.direct = app, service, keys, hosts, direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status, headers = time.perf_counter(), 0, Headers(scope=scope)
        asked, given = f"{scope['method']} {scope['path']}", headers.get("x-request-id", "")
        id = given if ID.fullmatch(given) else secrets.token_hex(8)
        scope[PRIVATE] = {}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = (b"x-request-id", id.encode())
                message["headers"] = [*message.get("headers", []), *SECURITY, named]
            await send(message)

        try:
            answer = self._refused(headers, asked, scope)
            direct = self.direct.get(asked)
            if answer is None and b"min_event=" in scope["query_string"]:
                await self._reached(scope["query_string"])
            if answer is None and direct is not None:
                scope["route"] = direct
                answer = await direct.endpoint(Request(scope, receive))
            await (self.app if answer is None else answer)(scope, receive, sending)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except PintgnError as error:
            await refusal(self.service, error)(scope, receive, sending)
        except Exception:  # said plainly, written to the log, never shown
            log.exception("%s %s failed", scope["method"], scope["path"], extra={"facts": {"request_id": id}})
            if status:
                raise
            answer = fault(500, "failed", "Something went wrong inside the service.", "See the service's log.")
            await answer(scope, receive, sending)
        finally:
            route, seconds = getattr(scope.get("route"), "path", "other"), time.perf_counter() - begin
            self.service.metrics.requests.labels(route, status).inc()
            self.service.metrics.request_seconds.labels(route).observe(seconds)
            if access.isEnabledFor(logging.INFO) or audit.isEnabledFor(logging.INFO):
                note(scope, id, status, seconds)

    async def _reached(self, query: bytes) -> None:
        """Wait, for a while, until the event that a question names counts in the state."""
        said = dict(parse_qsl(query.decode("latin-1"))).get("min_event", "")
        if not said.isascii() or not said.isdecimal() or len(said) > 18:
            raise BadInput(f"min_event={said[:50]!r}; it is the number of an event, such as an acknowledgement says.")
        end, store = time.monotonic() + self.service.limits.behind, self.service.store
        while self.service.live.total < int(said):
            if store.writes and store.total < int(said):  # whoever writes knows every number there is
                raise BadInput(f"min_event={said}; the newest event here is {store.total:,}.")
            if time.monotonic() > end:
                raise Behind(
                    f"this {self.service.role} has come to event {self.service.live.total:,}, not yet to {int(said):,}."
                )
            await asyncio.sleep(POLL)

    def _refused(self, headers: Headers, asked: str, scope: Scope) -> Response | None:
        """The answer to somebody who may not ask."""
        if "content-length" in headers and "transfer-encoding" in headers:  # two lengths: a proxy may mean the other
            said, close = "The request has both Content-Length and Transfer-Encoding.", {"Connection": "close"}
            return self._turned_away(scope, 400, "two_lengths", said, "Send one of them.", close)
        if self.hosts is not None:
            name = host_name(headers.get("host", ""))
            if name not in self.hosts and not is_local(name):
                said = f"This service is not {name[:100]!r}."
                return self._turned_away(scope, 421, "wrong_host", said, "Call it by the name it was started with.")
        changes = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if changes and foreign(headers, not self.keys, scope["scheme"]):
            said = "This request comes from a web page of somebody else's."
            next_step = "Send it from a program, or from the service's own page."
            return self._turned_away(scope, 403, "foreign_page", said, next_step)
        if self.keys is None or scope["path"] in OPEN or scope["path"].startswith(FILES):
            return None
        scope[PRIVATE]["key"], error, wait = self.keys(headers, asked)
        if error == "no_key":
            said, challenge = "The API key is missing or wrong.", {"WWW-Authenticate": "Bearer"}
            return self._turned_away(scope, 401, error, said, "Send `Authorization: Bearer KEY`.", challenge)
        if error == "forbidden":
            need = needed(asked)
            said = f"The API key may not do this, which needs the scope {need}."
            return self._turned_away(scope, 403, error, said, f"Use a key with the scope {need}.")
        if error == "too_often":
            said, next_step = (
                "The API key is used more often than its rate allows.",
                "Wait as long as Retry-After says.",
            )
            return self._turned_away(scope, 429, error, said, next_step, {"Retry-After": str(wait)})
        return None

    def _turned_away(self, scope: Scope, status: int, name: str, *more: Any) -> Response:
        scope[PRIVATE]["refused"] = name
        self.service.metrics.refused.labels(name).inc()
        return fault(status, name, *more)


def refusal(service: Service, error: PintgnError) -> Response:
    """An error of ours as clients get it."""
    _, status, name, next_step = next(row for row in FAULTS if isinstance(error, row[0]))
    service.metrics.refused.labels(name).inc()
    return fault(status, name, str(error), next_step, {"Retry-After": "1"} if status in (429, 503) else None)


def fault(status: int, name: str, message: str, next_step: str, headers: dict[str, str] | None = None) -> Response:
    """An error as clients get it: what went wrong, and what to do."""
    return Json({"error": name, "message": message, "next": next_step}, status, headers)
