"""The HTTP interface: routes, limits, errors. What the routes do stands in `service` and `answers`."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Request
from fastapi import Path as InPath
from fastapi import Query as InQuery
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pintgn import __version__
from pintgn.errors import BadInput, EventOrderError, PintgnError, StaleQuery, TooLarge
from pintgn.serve import answers, describe
from pintgn.serve.auth import FILES, OPEN, Key, foreign, given_key, host_name, is_local
from pintgn.serve.bodies import Bodies, content_type
from pintgn.serve.lanes import Lane
from pintgn.serve.limits import Busy, Degraded, FarAhead, KeyReused, LateEvent, Stopped, TooMuch, TooSlow, WrongType
from pintgn.serve.requests import ARROW
from pintgn.serve.service import Service
from pintgn.serve.store import StoreFull

log = logging.getLogger("pintgn.serve")
PAGES = Path(__file__).parent / "pages"
SECURITY = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
SMALL = 4_096
"""Bytes of a body that is read by the event loop itself."""
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""Types of bodies that a web page can send anywhere without being asked first."""
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
    (Degraded, 503, "degraded", "An operator has to accept the loss or rewind the store; see /health."),
    (Stopped, 503, "stopped", "Wait until the service has been restarted; see /health."),
    (StoreFull, 507, "store_full", "Free space on the service's disk, then send the same request again."),
    (TooLarge, 507, "out_of_memory", "Ask for less at once, or give the service more memory."),
    (BadInput, 422, "bad_input", "Correct the request; /openapi.json describes what is expected."),
    (PintgnError, 500, "failed", "See the service's log."),
]
Id = Annotated[str, InPath(description="A node's id, as in the log.", max_length=1_000)]
At = Annotated[
    str | None,
    InQuery(description="A time in the log's unit (or a date), no earlier than the clock; right after it by default."),
]


def create_app(service: Service, key: Key | None = None, hosts: tuple[str, ...] | None = None) -> FastAPI:
    """The HTTP interface of a service.

    Args:
        key: what clients must present; anyone is let in without one.
        hosts: names by which the service may be called, against web pages that pose as it; any by default.
    """
    app = FastAPI(
        title="pintgn",
        version=__version__,
        description=describe.ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_tags=describe.TAGS,
    )
    app.state.service, app.state.bodies = service, Bodies(service.limits)
    _faults(app, service)
    direct = _routes(app, service)
    app.add_middleware(Guard, service=service, key=key, hosts=hosts, direct=direct)
    _pages(app)
    describe.finish(app, service.requests.declared, with_key=key is not None)
    return app


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


# -- around every request ----------------------------------------------------------------------------------------------


class Guard:
    """Stands before every request: lets in who may ask, counts, and turns a fault of ours into a plain answer.

    Routes that are asked most are called from here (`direct`): the way through FastAPI takes longer than their work,
    and the event loop is what `/health` waits for under a flood.
    """

    def __init__(
        self, app: ASGIApp, service: Service, key: Key | None, hosts: tuple[str, ...] | None, direct: dict[str, Route]
    ):
        self.app, self.service, self.key, self.hosts, self.direct = app, service, key, hosts, direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *SECURITY]
            await send(message)

        try:
            answer = self._refused(Headers(scope=scope), scope["path"], scope["method"])
            direct = self.direct.get(f"{scope['method']} {scope['path']}")
            if answer is None and direct is not None:
                scope["route"] = direct
                answer = await direct.endpoint(Request(scope, receive))
            await (self.app if answer is None else answer)(scope, receive, sending)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except PintgnError as error:
            await refusal(self.service, error)(scope, receive, sending)
        except Exception:  # said plainly, written to the log, never shown
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise
            answer = fault(500, "failed", "Something went wrong inside the service.", "See the service's log.")
            await answer(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.service.metrics.requests.labels(route, status).inc()
            self.service.metrics.request_seconds.labels(route).observe(time.perf_counter() - begin)

    def _refused(self, headers: Headers, path: str, method: str) -> Response | None:
        """The answer to somebody who may not ask."""
        name = host_name(headers.get("host", ""))
        if self.hosts is not None and name not in self.hosts and not is_local(name):
            said = f"This service is not {name[:100]!r}."
            return fault(421, "wrong_host", said, "Call it by the name it was started with.")
        if method not in ("GET", "HEAD", "OPTIONS") and foreign(headers, by_host=self.key is None):
            said = "This request comes from a web page of somebody else's."
            return fault(403, "foreign_page", said, "Send it from a program, or from the service's own page.")
        if self.key is None or path in OPEN or path.startswith(FILES) or self.key(given_key(headers)):
            return None
        challenge = {"WWW-Authenticate": "Bearer"}
        return fault(401, "no_key", "The API key is missing or wrong.", "Send `Authorization: Bearer KEY`.", challenge)


def _faults(app: FastAPI, service: Service) -> None:
    """What FastAPI and Starlette refuse, as clients get it."""

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        service.metrics.refused.labels("bad_input").inc()
        return fault(422, "bad_input", f"{where}: {first['msg']}.", "Correct the request; see /openapi.json.")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        name, said, next_step = {
            404: ("not_found", f"There is nothing at {request.url.path[:200]}.", "/openapi.json lists what there is."),
            405: ("not_allowed", f"{request.method} is not for this.", "/openapi.json lists what there is."),
        }.get(error.status_code, ("refused", str(error.detail), str(error.detail)))
        return fault(error.status_code, name, said, next_step, dict(error.headers or {}))


def refusal(service: Service, error: PintgnError) -> Response:
    """An error of ours as clients get it."""
    _, status, name, next_step = next(row for row in FAULTS if isinstance(error, row[0]))
    service.metrics.refused.labels(name).inc()
    return fault(status, name, str(error), next_step, {"Retry-After": "1"} if status in (429, 503) else None)


def fault(status: int, name: str, message: str, next_step: str, headers: dict[str, str] | None = None) -> Response:
    """An error as clients get it: what went wrong, and what to do."""
    return Json({"error": name, "message": message, "next": next_step}, status, headers)


# -- routes ------------------------------------------------------------------------------------------------------------


def _routes(app: FastAPI, service: Service) -> dict[str, Route]:
    """Adds all routes; returns those that need nothing but the request."""
    limits, requests, bodies = service.limits, service.requests, app.state.bodies
    cores = max(2, os.cpu_count() or 1)
    reading, asking = Lane("bodies", 2), Lane("questions", cores, limits.asking)
    explaining, looking = Lane("explanations", 1, limits.explaining), Lane("looks", 1, limits.asking)

    @app.post("/events", **describe.EVENTS)
    async def events(request: Request) -> Response:
        """Let events happen. When this is answered they are on the disk, and count in every later answer."""
        with bodies.one() as body:
            data, kind = await body.read(request, ("application/json", ARROW))
            if service.waiting > limits.waiting:
                raise Busy(f"{service.waiting:,} events are waiting to be written already.")
            # a small body is read here: to hand it over takes longer
            batch = requests.events(data, kind) if len(data) <= SMALL else await reading(requests.events, data, kind)
            del data
            return Json(await asyncio.wrap_future(service.submit(batch)))

    @app.post("/score", **describe.SCORE)
    async def score(request: Request) -> Response:
        """How likely is each pair to meet?"""
        with bodies.one() as body:
            data, _ = await body.read(request)
            return await asking(_answer, answers.score, service, data)

    @app.get("/recommend/{node:path}", **describe.RECOMMEND)
    async def recommend(node: Id, k: Annotated[int, InQuery(ge=1, le=1_000)] = 10, at: At = None) -> Response:
        """Where is a node most likely to go next?"""
        return await asking(_answer, answers.recommend, service, service.live.codec.id_from_text(node), k, at)

    @app.get("/nodes", **describe.NODES)
    async def nodes(
        prefix: Annotated[str, InQuery(max_length=1_000)] = "", limit: Annotated[int, InQuery(ge=1, le=100)] = 20
    ) -> Response:
        """Which ids begin like this?"""
        return await asking(_answer, answers.nodes, service, prefix, limit)

    @app.get("/nodes/{node:path}", **describe.NODE)
    async def node(
        node: Id,
        depth: Annotated[int, InQuery(ge=0, le=3)] = 2,
        neighbors: Annotated[int, InQuery(ge=0, le=20)] = 10,
        side: Annotated[str | None, InQuery(description="src or dst, where they are named apart.")] = None,
    ) -> Response:
        """What is known about a node?"""
        who = service.live.codec.id_from_text(node)
        return await asking(_answer, answers.node, service, who, depth, neighbors, side)

    @app.get("/explain", **describe.EXPLAIN)
    async def explain(
        src: Annotated[str, InQuery(max_length=1_000)], dst: Annotated[str, InQuery(max_length=1_000)], at: At = None
    ) -> Response:
        """Why is a score what it is?"""
        ends = service.live.codec.id_from_text(src), service.live.codec.id_from_text(dst)
        return await explaining(_answer, answers.explain, service, *ends, at)

    @app.get("/status", **describe.STATUS)
    async def status() -> Response:
        """Clock, rates, quality, model and data: what the page shows."""
        return await looking(_answer, answers.status, service)

    @app.get("/health", **describe.HEALTH)
    async def health(request: Request) -> Response:
        """Is it well?"""
        found = answers.health(service)  # here and now: no queue, no thread, no lock
        return Json(found, 503 if found["status"] == "failed" else 200)

    @app.get("/metrics", **describe.METRICS)
    async def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        text = await looking(answers.metrics, service)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.post("/snapshot", **describe.SNAPSHOT)
    async def snapshot(request: Request) -> Response:
        """Write the state to the disk now; a restart then replays only what comes later."""
        if content_type(request) in FORMS:
            raise WrongType("a form is not taken here. Send no body, or an empty one as application/json.")
        return Json(await asyncio.wrap_future(service.snapshot()))

    often = {"/events": "POST", "/score": "POST", "/health": "GET"}
    found = [route for route in app.routes if isinstance(route, Route) and route.path in often]
    return {f"{often[route.path]} {route.path}": route for route in found}


def _answer(work: Callable[..., Any], *given: Any) -> Response:
    """An answer, also written as JSON by the thread that worked it out."""
    return Json(work(*given))


# -- the page ----------------------------------------------------------------------------------------------------------


def _pages(app: FastAPI) -> None:
    from starlette.staticfiles import StaticFiles

    again = {"Cache-Control": "no-cache"}  # browsers keep the files, but ask whether there are newer ones

    class Files(StaticFiles):
        def file_response(self, *given: Any, **more: Any) -> Response:
            response = super().file_response(*given, **more)
            response.headers.update(again)
            return response

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGES / "index.html", headers=again)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(PAGES / "docs.html", headers=again)

    app.mount("/static", Files(directory=PAGES), name="static")
    app.mount("/swagger", Files(packages=[("fastapi_offline", "static")]), name="swagger")
