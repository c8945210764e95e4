"""Routes of the HTTP interface, with their requests and answers, and the OpenAPI description made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from pintgn import __version__
from pintgn.serve.requests import Declared, list_of

ABOUT = (
    "A trained run that keeps observing. Ids and times are those of the log that the run was trained on. "
    "Errors say what went wrong and what to do next."
)
TAGS = {
    "events": "Let things happen.",
    "answers": "Ask about what comes next.",
    "service": "Look after the service.",
}
LONG = Meta(max_length=1_000)

# -- parameters --------------------------------------------------------------------------------------------------------

Id = Annotated[str, LONG, Meta(description="A node's id, as in the log.")]
Relation = Annotated[str | None, Meta(description="By which relation, of a run that was trained with relations.")]
At = Annotated[
    str | None,
    Meta(description="A time in the log's unit (or a date), no earlier than the clock; right after it by default."),
]


class Question(Struct):
    """A question waits, for a while, until the event of this number counts."""

    min_event: Annotated[
        int, Meta(ge=0, le=10**18, description="The number of an event, such as `event` of an acknowledgement.")
    ] = 0


class EventsQuery(Struct):
    scores: Annotated[
        bool, Meta(description="Answer with each event's probability, as of just before it; null for a known one.")
    ] = False


class RecommendQuery(Question, kw_only=True):
    node: Id
    k: Annotated[int, Meta(ge=1, le=1_000)] = 10
    at: At = None
    relation: Relation = None


class NodesQuery(Question, kw_only=True):
    prefix: Annotated[str, LONG] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class NodeQuery(Question, kw_only=True):
    node: Id
    depth: Annotated[int, Meta(ge=0, le=3)] = 2
    neighbors: Annotated[int, Meta(ge=0, le=20)] = 10
    side: Annotated[str | None, Meta(description="src or dst, where ids of the two are separate.")] = None


class ExplainQuery(Question, kw_only=True):
    src: Id
    dst: Annotated[str, LONG] | None = None
    at: At = None
    given: Annotated[str, Meta(max_length=10_000, description="Given columns as JSON, by name.")] | None = None
    relation: Relation = None


# -- answers -----------------------------------------------------------------------------------------------------------

AnyId = Annotated[str, Meta(min_length=1, max_length=1_000)] | int
Event = Annotated[int, Meta(description="Number of the newest live event that the answer counts.")]
Probability = Annotated[float, Meta(description="Of this link against one random destination; no forecast.")]
NextProbability = Annotated[float, Meta(description="That this destination is the next one, of all that were ranked.")]
Notes = Annotated[str, Meta(description="What is doubtful: unknown src, unknown dst, training unfinished.")]


def _answer(name: str, optional: dict[str, Any] | None = None, **fields: Any) -> Any:
    """A JSON object that is answered."""
    rest = [(field, kind | UnsetType, UNSET) for field, kind in (optional or {}).items()]
    return defstruct(name, [*fields.items(), *rest])


Held = Annotated[int, Meta(description="Events that wait for their turn, and do not count yet.")]
Fault = _answer("Fault", error=str, message=str, next=str)
Acknowledged = _answer(
    "Acknowledged", {"scores": list[Probability | None], "held": Held},
    accepted=int, duplicates=int, clock=float, total=int, event=Event,
)  # fmt: skip
Score = _answer("Score", {"src": AnyId}, dst=AnyId, logit=float, probability=Probability, notes=Notes)
Scores = _answer("Scores", {"held": Held}, at=float, event=Event, scores=list_of(Score))
Ranked = _answer(
    "Ranked", dst=AnyId, next_probability=NextProbability, probability=Probability, logit=float, notes=Notes
)
Recommended = _answer("Recommended", {"held": Held}, node=AnyId, at=float, event=Event, items=list_of(Ranked))
Found = _answer("Found", event=Event, nodes=list[AnyId])
Contact = _answer("Contact", other=AnyId, t=float, direction=Literal["in", "out", "self"])
Tree = _answer("Tree", id=AnyId, children=list[dict[str, Any]])
Described = _answer(
    "Described", {"held": Held}, node=AnyId, known=bool, at=float, event=Event, first_seen=float | None,
    last_seen=float | None, degree=int, recent=list_of(Contact), tree=Tree,
)  # fmt: skip
Explained = _answer("Explained", event=Event)
Health = _answer("Health", status=str, role=str, clock=float, event=Event, events=int)
Written = _answer("Written", events=int, clock=float, bytes=int, seconds=float)
AnyObject = dict[str, Any]


class Operation(NamedTuple):
    """A route: the handler's name in `api`, its request and its answer."""

    name: str
    method: str
    path: str
    tag: str
    summary: str
    answer: Any
    query: type[Struct] | None = None
    status: int = 200


OPERATIONS = (
    Operation("events", "POST", "/events", "events", "Observe events", Acknowledged, EventsQuery),
    Operation("score", "POST", "/score", "answers", "Score pairs", Scores, Question),
    Operation("health", "GET", "/health", "service", "Health", Health, Question),
    Operation("targets", "POST", "/targets", "events", "Add targets that became known later", Acknowledged),
    Operation("recommend", "GET", "/recommend/{node}", "answers", "Recommend", Recommended, RecommendQuery),
    Operation("nodes", "GET", "/nodes", "answers", "Search nodes", Found, NodesQuery),
    Operation("node", "GET", "/nodes/{node}", "answers", "Describe a node", Described, NodeQuery),
    Operation("explain", "GET", "/explain", "answers", "Explain a score", Explained, ExplainQuery),
    Operation("status", "GET", "/status", "service", "State of the service", AnyObject, Question),
    Operation("metrics", "GET", "/metrics", "service", "Metrics", str),
    Operation("snapshot", "POST", "/snapshot", "service", "Write a snapshot", Written),
    Operation("models", "GET", "/models", "service", "The run that is served, and candidates", AnyObject, Question),
    Operation("new_model", "POST", "/models", "service", "Promote another run", AnyObject, None, 202),
)
EXAMPLES = {
    "events": {"events": [{"src": "alice", "dst": "bob", "t": 1700000000, "key": "order-17"}]},
    "score": {"src": "alice", "dst": ["bob", "carol"]},
    "targets": {"targets": [{"src": "alice", "dst": "bob", "t": 1700000000, "value": True}], "at": 1702592000},
    "new_model": {"run": "runs/shop-2"},
}


# -- OpenAPI -----------------------------------------------------------------------------------------------------------


def openapi(declared: Declared, about: dict[str, str | None], with_key: bool) -> dict[str, Any]:
    """The description of the interface of one service.

    Args:
        declared: what bodies hold, with ids of the type that the run's log has.
        about: the description of each operation, by its name.
        with_key: whether clients need a key.
    """
    bodies = declared.schemas
    answers = [one.answer for one in OPERATIONS if one.answer not in (AnyObject, str)]
    queries = [one.query for one in OPERATIONS if one.query is not None]
    kinds = [*(kind for kinds in bodies.values() for kind in kinds), *answers, *queries, Fault]
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        said: dict[str, Any] = {
            "tags": [one.tag],
            "summary": one.summary,
            "description": about[one.name],
            "operationId": one.name,
            "parameters": _parameters(one, schemas),
            "responses": {
                str(one.status): {"description": "Done.", "content": _content(one.answer)},
                "default": {"description": "What went wrong, and what to do.", "content": _content(Fault)},
            },
        }
        if one.name in bodies:
            schema: dict[str, Any] = {"anyOf": [_reference(kind) for kind in bodies[one.name]]}
            content: dict[str, Any] = {"application/json": {"schema": schema, "example": EXAMPLES[one.name]}}
            said["requestBody"] = {"required": True, "content": content}
        paths.setdefault(one.path, {})[one.method.lower()] = said
    for kind in queries:
        schemas.pop(kind.__name__, None)
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "pintgn", "version": __version__, "description": ABOUT},
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if with_key:
        made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"key": []}]
    return made


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _content(kind: Any) -> dict[str, Any]:
    if kind is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"type": "object"} if kind is AnyObject else _reference(kind)}}


def _parameters(one: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a query as parameters of the path or the query."""
    if one.query is None:
        return []
    found = schemas[one.query.__name__]
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in one.path else "query",
            "required": name in found.get("required", ()),
            "schema": {key: value for key, value in schema.items() if key != "description"},
            "description": schema.get("description", ""),
        }
        for name, schema in found["properties"].items()
    ]
