"""The interface in OpenAPI's words: what goes in, what comes out, what can go wrong."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI

from pintgn.serve.requests import ARROW, Declared

ABOUT = (
    "A trained run that keeps observing. Ids and times are those of the log that the run was trained on. "
    "Errors say what went wrong and what to do next."
)
TAGS = [
    {"name": "events", "description": "Let things happen."},
    {"name": "answers", "description": "Ask about what comes next."},
    {"name": "service", "description": "Look after the service."},
]
MEANING = {
    400: "The request is no HTTP that makes sense.",
    401: "The API key is missing or wrong.",
    403: "The API key's scope does not allow this, or the request comes from a web page of somebody else's.",
    408: "The body did not arrive in time. Nothing was applied.",
    409: "Too late: the clock has passed that time; or a key was used for another event. Nothing was applied.",
    413: "Too much at once.",
    415: "The body has the wrong type.",
    422: "The request is malformed. Nothing was applied.",
    429: "Too much is waiting, or the key's rate is used up. Retry after the time that Retry-After says.",
    503: "The service is going down or has failed, does not write, or has not come to `min_event` yet.",
    507: "The disk or the memory is full. Nothing was applied.",
}

Json = dict[str, Any]
ID: Json = {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 1000}, {"type": "integer"}]}
NUMBER: Json = {"type": "number"}
COUNT: Json = {"type": "integer"}
TEXT: Json = {"type": "string"}


def record(required: Json, optional: Json | None = None) -> Json:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def listed(items: Json) -> Json:
    return {"type": "array", "items": items}


MIN_EVENT: Json = {
    "name": "min_event",
    "in": "query",
    "required": False,
    "schema": {"type": "integer", "minimum": 0},
    "description": "Wait until the event of this number counts, such as `event` of an acknowledgement, for a while.",
}
FAULT = record({"error": TEXT, "message": TEXT, "next": TEXT})
PROBABILITY: Json = {"type": "number", "description": "Of this link against one random destination; no forecast."}
NEXT: Json = {"type": "number", "description": "That this destination is the next one, of all destinations ranked."}
NOTES: Json = {"type": "string", "description": "What is doubtful: unknown src, unknown dst, training unfinished."}
SCORE_ROW = record({"dst": ID, "logit": NUMBER, "probability": PROBABILITY, "notes": NOTES}, {"src": ID})
RANKED_ROW = record({"dst": ID, "next_probability": NEXT, "probability": PROBABILITY, "logit": NUMBER, "notes": NOTES})


def _route(tag: str, summary: str, answer: Json, faults: tuple[int, ...]) -> dict[str, Any]:
    failures = {
        code: {"description": MEANING[code], "content": {"application/json": {"schema": FAULT}}}
        for code in sorted({400, 401, 403, 429, 503, *faults})
    }
    return {
        "tags": [tag],
        "summary": summary,
        "responses": {200: {"description": "Done.", "content": answer}, **failures},
    }


def _json(schema: Json, example: Any = None) -> Json:
    return {"application/json": {"schema": schema} | ({} if example is None else {"example": example})}


WITH_BODY = (403, 408, 409, 413, 415, 422, 429, 507)
EVENT: Json = {"type": "integer", "description": "Number of the newest live event that the answer counts."}
HELD: Json = {"held": COUNT | {"description": "Events that wait until no earlier one can come (--lateness)."}}
PROBABILITIES: Json = listed({"anyOf": [PROBABILITY, {"type": "null"}]})
ACKNOWLEDGED = record(
    {"accepted": COUNT, "duplicates": COUNT, "clock": NUMBER, "total": COUNT, "event": EVENT},
    {"scores": PROBABILITIES} | HELD,
)
SCORES_TOO = {
    "name": "scores",
    "in": "query",
    "description": "Answer with the probability of each event, as of just before it; null for one that was known.",
    "schema": {"type": "boolean", "default": False},
}
SCORES = record({"at": NUMBER, "event": EVENT, "scores": listed(SCORE_ROW)}, HELD)
RECOMMENDED = record({"node": ID, "at": NUMBER, "event": EVENT, "items": listed(RANKED_ROW)}, HELD)
EVENTS = _route("events", "Observe events", _json(ACKNOWLEDGED), WITH_BODY)
EVENTS["openapi_extra"] = {"parameters": [SCORES_TOO]}
KNOWN = record({"accepted": COUNT, "duplicates": COUNT, "clock": NUMBER, "total": COUNT, "event": EVENT})
TARGETS = _route("events", "Tell targets that became known later", _json(KNOWN), WITH_BODY)
SCORE = _route("answers", "Score pairs", _json(SCORES), WITH_BODY)
RECOMMEND = _route("answers", "Recommend destinations", _json(RECOMMENDED), (409, 422, 429, 507))
NODES = _route("answers", "Search nodes", _json(record({"event": EVENT, "nodes": listed(ID)})), (422, 429))
CONTACT = record({"other": ID, "t": NUMBER, "direction": {"type": "string", "enum": ["in", "out", "self"]}})
DESCRIBED = record(
    {
        "node": ID,
        "known": {"type": "boolean"},
        "at": NUMBER,
        "event": EVENT,
        "first_seen": {"anyOf": [NUMBER, {"type": "null"}]},
        "last_seen": {"anyOf": [NUMBER, {"type": "null"}]},
        "degree": COUNT,
        "recent": listed(CONTACT),
        "tree": record({"id": ID, "children": listed({"type": "object"})}),
    },
    HELD,
)
NODE = _route("answers", "Describe a node", _json(DESCRIBED), (422, 429))
EXPLAIN = _route("answers", "Explain a score", _json(record({"event": EVENT})), (409, 422, 429, 507))
STATUS = _route("service", "State of the service", _json({"type": "object"}), (429,))
HEALTH = _route(
    "service",
    "Health",
    _json(record({"status": TEXT, "role": TEXT, "clock": NUMBER, "event": EVENT, "events": COUNT})),
    (),
)
METRICS = _route("service", "Metrics", {"text/plain": {"schema": TEXT}}, (429,))
WRITTEN = record({"events": COUNT, "clock": NUMBER, "bytes": COUNT, "seconds": NUMBER})
SNAPSHOT = _route("service", "Write a snapshot", _json(WRITTEN), (403, 415, 507))

MODELS = _route("service", "The run that is served, and candidates", _json({"type": "object"}), (429,))
PROMOTE = _route("service", "Promote another run", _json({"type": "object"}), WITH_BODY)
PROMOTE["responses"][202] = PROMOTE["responses"].pop(200)
PROMOTE["status_code"] = 202
PROMOTION = record(
    {},
    {
        "run": TEXT,
        "back": {"type": "boolean"},
        "force": {"type": "boolean"},
        "scored": {"type": "integer", "minimum": 1},
    },
)
PROMOTE["openapi_extra"] = {"requestBody": {"required": True, "content": _json(PROMOTION)}}

EXAMPLES = {
    "events": {"events": [{"src": "alice", "dst": "bob", "t": 1700000000, "key": "order-17"}]},
    "score": {"src": "alice", "dst": ["bob", "carol"]},
    "targets": {"targets": [{"src": "alice", "dst": "bob", "t": 1700000000, "value": True}], "at": 1702592000},
}


def finish(app: FastAPI, requests: Declared, with_key: bool) -> None:
    """Say what requests hold, as it is declared, and how a key is sent."""
    made = app.openapi()
    kinds = [kind for several in requests.schemas.values() for kind in several]
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    made["components"] = {"schemas": schemas}
    for name, several in requests.schemas.items():
        choices = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in several]
        content = _json({"anyOf": choices}, EXAMPLES[name])
        if name == "events":
            content |= {ARROW: {"schema": {"type": "string", "format": "binary"}}}
        made["paths"][f"/{name}"]["post"]["requestBody"] = {"required": True, "content": content}
    for path in made["paths"].values():
        for route in path.values():
            if "answers" in route["tags"]:
                route.setdefault("parameters", []).append(MIN_EVENT)
    if with_key:
        made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"key": []}]
    app.openapi_schema = made
