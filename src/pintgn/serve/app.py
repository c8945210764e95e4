"""The HTTP interface: routes, limits, errors. What the routes do stands in `service` and `answers`."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi import Path as InPath
from fastapi import Query as InQuery
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pintgn import __version__
from pintgn.errors import BadInput, EventOrderError, PintgnError, StaleQuery, TooLarge
from pintgn.events.schema import typed_time
from pintgn.serve import answers, describe
from pintgn.serve.auth import OPEN, Key, given_key, host_name, is_local
from pintgn.serve.intake import ARROW, parsed
from pintgn.serve.limits import Busy, Degraded, FarAhead, KeyReused, LateEvent, Stopped
from pintgn.serve.service import Service
from pintgn.serve.store import StoreFull
from pintgn.serve.words import only

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
FAULTS: list[tuple[type[BaseException], int, str, str]] = [
    (LateEvent, 409, "late_event", "Send events in order of time; drop or correct what comes too late."),
    (KeyReused, 409, "key_reused", "Give every event a key of its own, and repeat only identical events."),
    (FarAhead, 422, "far_ahead", "Check the unit of the times; a larger --max-ahead allows it."),
    (StaleQuery, 409, "stale_query", "Ask about the clock's time or later, or leave out `at`."),
    (EventOrderError, 422, "bad_input", "Sort the events by time, then send them again."),
    (Busy, 429, "busy", "Wait as long as Retry-After says, then send the same request again."),
    (Degraded, 503, "degraded", "An operator has to accept the loss or rewind the store; see /health."),
    (Stopped, 503, "stopped", "Wait until the service has been restarted; see /health."),
    (StoreFull, 507, "store_full", "Make room on the service's disk, then send the same request again."),
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
    app.state.service = service
    app.add_middleware(Guard, service=service, key=key, hosts=hosts)
    _faults(app, service)
    _routes(app, service)
    _pages(app)
    describe.finish(app, with_key=key is not None)
    return app


# -- around every request ----------------------------------------------------------------------------------------------


class Guard:
    """Stands before every request: lets in who may ask, counts, and turns a fault of ours into a plain answer."""

    def __init__(self, app: ASGIApp, service: Service, key: Key | None, hosts: tuple[str, ...] | None):
        self.app, self.service, self.key, self.hosts = app, service, key, hosts

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
            refused = self._refused(Headers(scope=scope), scope["path"])
            await (self.app if refused is None else refused)(scope, receive, sending)
        except Exception:  # said plainly, written to the log, never shown
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise
            answer = fault(500, "failed", "Something went wrong inside the service.", "See the service's log.")
            await answer(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.service.metrics.add("requests_total", route=route, status=str(status))
            self.service.metrics.observe("request_seconds", time.perf_counter() - begin, route=route)

    def _refused(self, headers: Headers, path: str) -> Response | None:
        """The answer to somebody who may not ask."""
        name = host_name(headers.get("host", ""))
        if self.hosts is not None and name not in self.hosts and not is_local(name):
            said = f"This service is not {name[:100]!r}."
            return fault(421, "wrong_host", said, "Call it by the name it was started with.")
        if self.key is None or path in OPEN or path.startswith("/static/") or self.key(given_key(headers)):
            return None
        challenge = {"WWW-Authenticate": "Bearer"}
        return fault(401, "no_key", "The API key is missing or wrong.", "Send `Authorization: Bearer KEY`.", challenge)


def _faults(app: FastAPI, service: Service) -> None:
    """Every error as clients get it."""

    @app.exception_handler(PintgnError)
    async def ours(request: Request, error: PintgnError) -> Response:
        for kind, status, name, next_step in FAULTS:
            if isinstance(error, kind):
                service.metrics.add("refused_total", reason=name)
                extra = {"Retry-After": "1"} if status in (429, 503) else None
                return fault(status, name, str(error), next_step, extra)
        raise error

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        service.metrics.add("refused_total", reason="bad_input")
        return fault(422, "bad_input", f"{where}: {first['msg']}.", "Correct the request; see /openapi.json.")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        name = {404: "not_found", 405: "not_allowed", 413: "too_large", 415: "wrong_type"}.get(error.status_code)
        text = {404: f"There is nothing at {request.url.path[:200]}.", 405: f"{request.method} is not for this."}
        said = text.get(error.status_code, str(error.detail))
        next_step = error.detail if error.status_code not in text else "/openapi.json lists what there is."
        headers = dict(error.headers or {})
        return fault(error.status_code, name or "refused", said, str(next_step), headers)


def fault(status: int, name: str, message: str, next_step: str, headers: dict[str, str] | None = None) -> Response:
    """An error as clients get it: what went wrong, and what to do."""
    return JSONResponse({"error": name, "message": message, "next": next_step}, status, headers)


async def _body(request: Request, most: int, kinds: tuple[str, ...] = ("application/json",)) -> tuple[bytes, str]:
    """A request's body, no longer than allowed, and its type.

    Only types that a web page of somebody else's cannot send without being asked first.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise HTTPException(415, f"Send Content-Type: {' or '.join(kinds)}.")
    told = request.headers.get("content-length", "0")
    size, parts = int(told) if told.isascii() and told.isdigit() else 0, []
    if size <= most:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                break
            parts.append(part)
    if size > most:
        raise HTTPException(413, f"The body is larger than {most:,} bytes. Send less at once.")
    return b"".join(parts), kind


# -- routes ------------------------------------------------------------------------------------------------------------


def _routes(app: FastAPI, service: Service) -> None:
    limits, intake = service.limits, service.engine.intake

    @app.post("/events", **describe.EVENTS)
    async def events(request: Request) -> Response:
        """Let events happen. When this is answered they are on the disk, and count in every later answer."""
        body, kind = await _body(request, limits.body, ("application/json", ARROW))
        if kind == "application/json" and service.waiting > limits.waiting:
            raise Busy(f"{service.waiting:,} events are waiting to be written already.")
        batch = await run_in_threadpool(intake.batch, body, kind)
        if len(batch) > limits.batch:
            raise HTTPException(413, f"{len(batch):,} events at once; send at most {limits.batch:,}.")
        return JSONResponse(await asyncio.wrap_future(service.submit(batch)))

    @app.post("/score", **describe.SCORE)
    async def score(request: Request) -> Response:
        """How likely is each pair to meet?"""
        body, _ = await _body(request, limits.body)
        return JSONResponse(await run_in_threadpool(_scored, service, body))

    @app.get("/recommend/{node:path}", **describe.RECOMMEND)
    async def recommend(node: Id, k: Annotated[int, InQuery(ge=1, le=1_000)] = 10, at: At = None) -> Response:
        """Where is a node most likely to go next?"""
        who, when = _id(service, node), _time(at)
        return JSONResponse(await run_in_threadpool(answers.recommend, service, who, k, when))

    @app.get("/nodes", **describe.NODES)
    async def nodes(
        prefix: Annotated[str, InQuery(max_length=1_000)] = "", limit: Annotated[int, InQuery(ge=1, le=100)] = 20
    ) -> Response:
        """Which ids begin like this?"""
        return JSONResponse(await run_in_threadpool(answers.nodes, service, prefix, limit))

    @app.get("/nodes/{node:path}", **describe.NODE)
    async def node(
        node: Id,
        depth: Annotated[int, InQuery(ge=0, le=3)] = 2,
        neighbors: Annotated[int, InQuery(ge=0, le=20)] = 10,
        side: Annotated[str | None, InQuery(description="src or dst, where they are named apart.")] = None,
    ) -> Response:
        """What is known about a node?"""
        who = _id(service, node)
        return JSONResponse(await run_in_threadpool(answers.node, service, who, depth, neighbors, side))

    @app.get("/explain", **describe.EXPLAIN)
    async def explain(
        src: Annotated[str, InQuery(max_length=1_000)], dst: Annotated[str, InQuery(max_length=1_000)], at: At = None
    ) -> Response:
        """Why is a score what it is?"""
        ends, when = (_id(service, src), _id(service, dst)), _time(at)
        return JSONResponse(await run_in_threadpool(answers.explain, service, *ends, when))

    @app.get("/status", **describe.STATUS)
    async def status() -> Response:
        """Clock, rates, quality, model and data: what the page shows."""
        return JSONResponse(await run_in_threadpool(answers.status, service))

    @app.get("/health", **describe.HEALTH)
    async def health() -> Response:
        """Is it well?"""
        found = answers.health(service)
        return JSONResponse(found, 503 if found["status"] == "failed" else 200)

    @app.get("/metrics", **describe.METRICS)
    async def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        text = await run_in_threadpool(answers.metrics, service)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @app.post("/snapshot", **describe.SNAPSHOT)
    async def snapshot() -> Response:
        """Write the state to the disk now; a restart then replays only what comes later."""
        return JSONResponse(await asyncio.wrap_future(service.snapshot()))


def _scored(service: Service, body: bytes) -> dict[str, Any]:
    given = parsed(body)
    if not isinstance(given, dict):
        raise BadInput('the body is {"src": …, "dst": …} or {"pairs": [{"src": …, "dst": …}, …]}.')
    if "pairs" in given:
        only(given, ("pairs", "at"), "the body")
        pairs = given["pairs"]
        if not isinstance(pairs, list):
            raise BadInput('"pairs" is a list of {"src": …, "dst": …}.')
        for place, pair in enumerate(pairs):
            if not isinstance(pair, dict):
                raise BadInput(f'pair {place} is not {{"src": …, "dst": …}}.')
            only(pair, ("src", "dst"), f"pair {place}")
        src, dst = [pair.get("src") for pair in pairs], [pair.get("dst") for pair in pairs]
    else:
        only(given, ("src", "dst", "at"), "the body")
        one = given.get("dst")
        dst = one if isinstance(one, list) else [one]
        src = [given.get("src")] * len(dst)
    if not dst:
        raise BadInput("there is nothing to score: no dst, no pairs.")
    if len(dst) > service.limits.pairs:
        raise HTTPException(413, f"{len(dst):,} pairs at once; ask for at most {service.limits.pairs:,}.")
    found = answers.score(service, src, dst, given.get("at"))
    columns = zip(src, dst, found["logits"], found["probabilities"], strict=True)
    scores = [{"src": s, "dst": d, "logit": logit, "probability": p} for s, d, logit, p in columns]
    if "pairs" not in given:
        for row in scores:
            del row["src"]
    return {"at": found["at"], "scores": scores}


def _id(service: Service, text: str) -> Any:
    """An id as it stands in an address, in the type of the log's ids."""
    if service.engine.intake.text:
        return text
    try:
        return int(text) if len(text) < 30 and text.isascii() and "_" not in text else _no_id(text)
    except ValueError:
        return _no_id(text)


def _no_id(text: str) -> Any:
    raise BadInput(f"{text[:60]!r} is no node: ids of this run are whole numbers.")


def _time(text: str | None) -> Any:
    """A time as it stands in an address: a number, or a date where the log has dates."""
    return text if text is None or len(text) > 50 else typed_time(text)


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
        if not (PAGES / "index.html").exists():
            return PlainTextResponse("pintgn is running. /openapi.json describes its interface.\n")
        return FileResponse(PAGES / "index.html", headers=again)

    if PAGES.exists():
        app.mount("/static", Files(directory=PAGES), name="static")
