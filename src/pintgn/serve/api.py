"""The HTTP interface of a service: handlers of its routes. `describe` lists them, `middleware` surrounds them."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pintgn.errors import BadInput
from pintgn.serve import answers, describe, middleware
from pintgn.serve.api_keys import Keys
from pintgn.serve.limits import Behind, Busy, WrongType
from pintgn.serve.middleware import Json, fault
from pintgn.serve.models import promote
from pintgn.serve.service import Service

PAGES = Path(__file__).parent / "pages"
SMALL = 4_096
"""Bytes of a body that is decoded by the event loop itself: to hand it to a thread takes longer."""
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""Types of bodies that any web page may send without asking first."""
POLL = 0.005
"""Seconds between two checks whether an event counts already."""
REVALIDATE = {"Cache-Control": "no-cache"}
"""Browsers keep the page's files, but ask whether there are newer ones."""


def create_app(service: Service, keys: Keys | None = None, hosts: tuple[str, ...] | None = None) -> Starlette:
    """The HTTP interface of a service.

    Args:
        keys: of clients; anyone is let in without.
        hosts: names by which the service may be called, against web pages that pose as it; any by default.
    """
    api = Api(service)
    endpoints = {one: getattr(api, one.name, None) or api.answering(one) for one in describe.OPERATIONS}
    about = {one.name: endpoint.__doc__ for one, endpoint in endpoints.items()}
    description = describe.openapi(service.requests.declared, about, with_key=bool(keys))
    routes = [
        Route(one.path.replace("{node}", "{node:path}"), endpoint, methods=[one.method])
        for one, endpoint in endpoints.items()
    ]
    paths = {route.endpoint: route.path for route in routes}
    app = Starlette(
        routes=[
            *routes,
            Route("/openapi.json", lambda request: Json(description)),
            Route("/", lambda request: FileResponse(PAGES / "index.html", headers=REVALIDATE)),
            Route("/docs", lambda request: FileResponse(PAGES / "docs.html", headers=REVALIDATE)),
            Mount("/static", PageFiles(directory=PAGES)),
        ],
        middleware=[
            Middleware(middleware.RequestLog, service.writer.metrics, paths),
            Middleware(middleware.ErrorAnswers, service.writer.metrics),
            Middleware(middleware.OneLength),
            Middleware(middleware.TrustedHost, hosts),
            Middleware(middleware.SameOrigin, keys),
            Middleware(middleware.ApiKeys, keys),
            Middleware(middleware.BodyLimits, service.limits),
        ],
        exception_handlers={HTTPException: _no_route},
    )
    app.state.service = service
    return app


class PageFiles(StaticFiles):
    """The files of the page."""

    def file_response(self, *given: Any, **more: Any) -> Response:
        response = super().file_response(*given, **more)
        response.headers.update(REVALIDATE)
        return response


class BoundedExecutor:
    """A few threads for one type of request, and a bound on how many of those run or wait.

    Threads of one process take turns at Python, so more of them answer nothing sooner, and every other request waits:
    with 40 at work `/health` took seconds. A request that waits here waits without a thread.
    """

    def __init__(self, name: str, threads: int, most: int):
        self.name, self.most, self.count = name, most, 0
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"pintgn-{name}")

    async def __call__(self, work: Callable[..., Any], *given: Any) -> Any:
        if self.count >= self.most:
            raise Busy(f"{self.count} {self.name} are being answered already.")
        self.count += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)
        finally:
            self.count -= 1


class Api:
    """The operations of `describe.OPERATIONS` that take a body or need no thread; `answering` makes the others."""

    def __init__(self, service: Service):
        self.service, limits = service, service.limits
        cores = max(2, os.cpu_count() or 1)
        self.decoding = BoundedExecutor("bodies", 2, limits.connections)
        self.asking = BoundedExecutor("questions", cores, limits.asking)
        self.explaining = BoundedExecutor("explanations", 1, limits.explaining)
        self.watching = BoundedExecutor("status requests", 1, limits.asking)
        self.promoting = BoundedExecutor("promotions", 1, limits.explaining)

    async def events(self, request: Request) -> Response:
        """Let events happen. When this is answered they are on the disk, and count in every later answer."""
        service, query = self.service, _query(request, describe.EventsQuery)
        data = await _body(request)
        if service.writer.waiting > service.limits.waiting:
            raise Busy(f"{service.writer.waiting:,} events are waiting to be written already.")
        read = service.requests.events
        batch = read(data) if len(data) <= SMALL else await self.decoding(read, data)
        del data
        done = await asyncio.wrap_future(service.writer.submit(batch, query.scores))
        request.scope["state"]["done"] = {name: value for name, value in done.items() if name != "scores"}
        return Json(done)

    async def targets(self, request: Request) -> Response:
        """What became known about events that have happened. It is durable, and counts, when this is answered."""
        data = await _body(request)
        return Json(await asyncio.wrap_future(self.service.submit_targets(*self.service.requests.targets(data))))

    async def score(self, request: Request) -> Response:
        """How likely is each pair to meet?"""
        await self._question(request, describe.Question)
        data = await _body(request)
        return await self.asking(_answer, answers.score, self.service, data)

    async def health(self, request: Request) -> Response:
        """Is it well?"""
        await self._question(request, describe.Question)
        found = answers.health(self.service)  # here and now: no queue, no thread, no lock
        return Json(found, 503 if found["status"] == "failed" else 200)

    async def metrics(self, request: Request) -> Response:
        """Counters and gauges for Prometheus."""
        text = await self.watching(answers.metrics, self.service)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def snapshot(self, request: Request) -> Response:
        """Write the state to the disk now; a restart then replays only what comes later."""
        if _content_type(request) in FORMS:
            raise WrongType("a form is not taken here. Send no body, or an empty one as application/json.")
        done = request.scope["state"]["done"] = await asyncio.wrap_future(self.service.snapshot())
        return Json(done)

    async def new_model(self, request: Request) -> Response:
        """Promote another run in place of the one that is served, without a stop; or go back."""
        data = await _body(request)
        wanted = self.service.requests.promotion(data)
        await self.promoting(promote, self.service, wanted.run, wanted.scored, wanted.force)
        done = request.scope["state"]["done"] = answers.models(self.service)
        return Json(done, 202)

    def answering(self, operation: describe.Operation) -> Callable[[Request], Any]:
        """Answers with the function of `answers` that has the operation's name, in a thread."""
        work, kind = getattr(answers, operation.name), operation.query
        assert kind is not None
        assert issubclass(kind, describe.Question)
        executor = {"explain": self.explaining, "status": self.watching, "models": self.watching}.get(
            operation.name, self.asking
        )

        async def answer(request: Request) -> Response:
            given = msgspec.structs.asdict(await self._question(request, kind))
            del given["min_event"]
            for name in ("node", "src", "dst"):
                if given.get(name) is not None:
                    given[name] = self.service.live.codec.id_from_text(given[name])
            return await executor(functools.partial(_answer, work, self.service, **given))

        answer.__doc__ = work.__doc__.partition("\n")[0]
        return answer

    async def _question(self, request: Request, kind: type[describe.Question]) -> Any:
        """The parameters of a question, once the state has come to the event that it names."""
        service, query = self.service, _query(request, kind)
        end = time.monotonic() + service.limits.behind
        while service.live.total < query.min_event:
            if service.store.writes and service.store.total < query.min_event:  # the writer knows every number there is
                raise BadInput(f"min_event={query.min_event}; the newest event here is {service.store.total:,}.")
            if time.monotonic() > end:
                raise Behind(
                    f"this {service.role} has come to event {service.live.total:,}, not yet to {query.min_event:,}."
                )
            await asyncio.sleep(POLL)
        return query


def _query(request: Request, kind: Any) -> Any:
    """The parameters of a path and a query."""
    try:
        return msgspec.convert({**request.query_params, **request.path_params}, kind, strict=False)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$.")
        said = said[:1].lower() + said[1:].replace("`", "'")
        raise BadInput(f"{path.rstrip('`')}: {said}." if path else f"{said}.") from None


async def _body(request: Request) -> bytes:
    """The body, of a type that no web page of another site can send without asking first."""
    kind = _content_type(request)
    if kind != "application/json":
        raise WrongType(f"a body of type {kind[:100]!r} is not taken. Send Content-Type: application/json.")
    return await request.body()


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _answer(work: Callable[..., Any], *given: Any, **named: Any) -> Response:
    """An answer, also encoded as JSON by the thread that computed it."""
    return Json(work(*given, **named))


async def _no_route(request: Request, error: Exception) -> Response:
    """What Starlette refuses, as clients get it."""
    assert isinstance(error, HTTPException)
    name, said = {
        404: ("not_found", f"There is nothing at {request.url.path[:200]}."),
        405: ("not_allowed", f"{request.method} is not for this."),
    }.get(error.status_code, ("refused", str(error.detail)))
    return fault(error.status_code, name, said, "/openapi.json lists the routes.", dict(error.headers or {}))
