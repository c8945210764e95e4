"""The HTTP interface: routes, limits, errors. What the routes do stands in `service` and `answers`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi import Path as InPath
from fastapi import Query as InQuery
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pintgn import __version__
from pintgn.errors import BadInput
from pintgn.serve import answers, describe, targets
from pintgn.serve.bodies import Bodies, content_type
from pintgn.serve.guard import Guard, Json, fault
from pintgn.serve.journal import PRIVATE
from pintgn.serve.keys import Keys
from pintgn.serve.lanes import Lane
from pintgn.serve.limits import Busy, WrongType
from pintgn.serve.models import promote
from pintgn.serve.requests import ARROW
from pintgn.serve.service import Service

PAGES = Path(__file__).parent / "pages"
SMALL = 4_096
"""Bytes of a body that is read by the event loop itself."""
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""Types of bodies that a web page can send anywhere without being asked first."""
Id = Annotated[str, InPath(description="A node's id, as in the log.", max_length=1_000)]
Relation = Annotated[
    str | None,
    InQuery(description="By which relation, of a run that was trained with relations.", max_length=1_000),
]
At = Annotated[
    str | None,
    InQuery(description="A time in the log's unit (or a date), no earlier than the clock; right after it by default."),
]


def create_app(service: Service, keys: Keys | None = None, hosts: tuple[str, ...] | None = None) -> FastAPI:
    """The HTTP interface of a service.

    Args:
        keys: whom clients must be; anyone is let in without.
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
    app.add_middleware(Guard, service=service, keys=keys, hosts=hosts, direct=direct)
    _pages(app)
    describe.finish(app, service.requests.declared, with_key=bool(keys))
    return app


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
            done = await asyncio.wrap_future(service.submit(batch, _flag(request, "scores")))
            request.scope[PRIVATE]["done"] = {name: value for name, value in done.items() if name != "scores"}
            return Json(done)

    @app.post("/targets", **describe.TARGETS)
    async def known(request: Request) -> Response:
        """What became known about events that have happened. It is durable, and counts, when this is answered."""
        with bodies.one() as body:
            data, _ = await body.read(request)
            return Json(await asyncio.wrap_future(targets.submit(service, *requests.targets(data))))

    @app.post("/score", **describe.SCORE)
    async def score(request: Request) -> Response:
        """How likely is each pair to meet?"""
        with bodies.one() as body:
            data, _ = await body.read(request)
            return await asking(_answer, answers.score, service, data)

    @app.get("/recommend/{node:path}", **describe.RECOMMEND)
    async def recommend(
        node: Id, k: Annotated[int, InQuery(ge=1, le=1_000)] = 10, at: At = None, relation: Relation = None
    ) -> Response:
        """Where is a node most likely to go next?"""
        who = service.live.codec.id_from_text(node)
        return await asking(_answer, answers.recommend, service, who, k, at, relation)

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
        src: Annotated[str, InQuery(max_length=1_000)],
        dst: Annotated[str | None, InQuery(max_length=1_000)] = None,
        at: At = None,
        given: Annotated[str | None, InQuery(max_length=10_000, description="Given columns as JSON, by name.")] = None,
        relation: Relation = None,
    ) -> Response:
        """Why is an answer what it is?"""
        read = service.live.codec.id_from_text
        ends = read(src), None if dst is None else read(dst)
        return await explaining(_answer, answers.explain, service, *ends, at, given, relation)

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
        done = request.scope[PRIVATE]["done"] = await asyncio.wrap_future(service.snapshot())
        return Json(done)

    @app.get("/models", **describe.MODELS)
    async def models() -> Response:
        """Which run is served, and what came of candidates."""
        return await looking(_answer, answers.models, service)

    @app.post("/models", **describe.PROMOTE)
    async def new_model(request: Request) -> Response:
        """Put another run in the place of the one that is served, without a stop; or go back."""
        with bodies.one() as body:
            data, _ = await body.read(request)
            asked = requests.promotion(data)
            promote(service, asked.run, asked.scored, asked.force)
            done = request.scope[PRIVATE]["done"] = answers.models(service)
            return Json(done, 202)

    often = {"/events": "POST", "/score": "POST", "/health": "GET"}
    found = [route for route in app.routes if isinstance(route, Route) and route.path in often]
    return {f"{often[route.path]} {route.path}": route for route in found}


def _flag(request: Request, name: str) -> bool:
    """A parameter of an address that is true or false."""
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise BadInput(f"{name}={text[:60]!r}; it is true or false.")
    return text in ("true", "1")


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
