"""The HTTP interface of a service: what each route does. `describe` lists them, `middleware` is around them."""

from __future__ import annotations

import asyncio
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
    about = {one.name: getattr(api, one.name).__doc__ for one in describe.OPERATIONS}
    description = describe.openapi(service.requests.declared, about, with_key=bool(keys))
    routes = [
        Route(one.path.replace("{node}", "{node:path}"), getattr(api, one.name), methods=[one.method])
        for one in describe.OPERATIONS
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
            Middleware(middleware.RequestLog, service.metrics, paths),
            Middleware(middleware.ErrorAnswers, service.metrics),
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
    """The operations of the interface, by their names in `describe.OPERATIONS`."""

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
        service, asked = self.service, _query(request, describe.EventsQuery)
        data = await _body(request)
        if service.waiting > service.limits.waiting:
            raise Busy(f"{service.waiting:,} events are waiting to be written already.")
        read = service.requests.events
        batch = read(data) if len(data) <= SMALL else await self.decoding(read, data)
        del data
        done = await asyncio.wrap_future(service.submit(batch, asked.scores))
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

    async def recommend(self, request: Request) -> Response:
        """Where is a node most likely to go next?"""
        asked = await self._question(request, describe.RecommendQuery)
        given = self._id(asked.node), asked.k, asked.at, asked.relation
        return await self.asking(_answer, answers.recommend, self.service, *given)

    async def nodes(self, request: Request) -> Response:
        """Which ids begin like this? Without a prefix: the nodes that were active most recently."""
        asked = await self._question(request, describe.NodesQuery)
        return await self.asking(_answer, answers.nodes, self.service, asked.prefix, asked.limit)

    async def node(self, request: Request) -> Response:
        """What is known about a node?"""
        asked = await self._question(request, describe.NodeQuery)
        given = self._id(asked.node), asked.depth, asked.neighbors, asked.side
        return await self.asking(_answer, answers.node, self.service, *given)

    async def explain(self, request: Request) -> Response:
        """Why is an answer what it is?"""
        asked = await self._question(request, describe.ExplainQuery)
        ends = self._id(asked.src), None if asked.dst is None else self._id(asked.dst)
        given = asked.at, asked.given, asked.relation
        return await self.explaining(_answer, answers.explain, self.service, *ends, *given)

    async def status(self, request: Request) -> Response:
        """Clock, rates, quality, model and data: what the page shows."""
        await self._question(request, describe.Question)
        return await self.watching(_answer, answers.status, self.service)

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

    async def models(self, request: Request) -> Response:
        """Which run is served, and what came of candidates."""
        return await self.watching(_answer, answers.models, self.service)

    async def new_model(self, request: Request) -> Response:
        """Promote another run in place of the one that is served, without a stop; or go back."""
        data = await _body(request)
        asked = self.service.requests.promotion(data)
        await self.promoting(promote, self.service, asked.run, asked.scored, asked.force)
        done = request.scope["state"]["done"] = answers.models(self.service)
        return Json(done, 202)

    def _id(self, text: str) -> Any:
        return self.service.live.codec.id_from_text(text)

    async def _question(self, request: Request, kind: type[describe.Question]) -> Any:
        """The parameters of a question, once the state has come to the event that it names."""
        service, asked = self.service, _query(request, kind)
        end = time.monotonic() + service.limits.behind
        while service.live.total < asked.min_event:
            if service.store.writes and service.store.total < asked.min_event:  # the writer knows every number there is
                raise BadInput(f"min_event={asked.min_event}; the newest event here is {service.store.total:,}.")
            if time.monotonic() > end:
                raise Behind(
                    f"this {service.role} has come to event {service.live.total:,}, not yet to {asked.min_event:,}."
                )
            await asyncio.sleep(POLL)
        return asked


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


def _answer(work: Callable[..., Any], *given: Any) -> Response:
    """An answer, also encoded as JSON by the thread that computed it."""
    return Json(work(*given))


async def _no_route(request: Request, error: Exception) -> Response:
    """What Starlette refuses, as clients get it."""
    assert isinstance(error, HTTPException)
    name, said = {
        404: ("not_found", f"There is nothing at {request.url.path[:200]}."),
        405: ("not_allowed", f"{request.method} is not for this."),
    }.get(error.status_code, ("refused", str(error.detail)))
    return fault(error.status_code, name, said, "/openapi.json lists the routes.", dict(error.headers or {}))
