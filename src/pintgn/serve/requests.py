"""Request bodies: the types that decode, check and describe them (OpenAPI), and a reader for each route.

A decoder that knows what it expects (msgspec) refuses a body at its first wrong value and makes nothing of the rest.
What is left to bound is how much a valid body may hold, which is counted before it is decoded.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, defstruct

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.ingest.codec import LONGEST_ID, Codec, EventBatch
from pintgn.live.prequential import ENOUGH
from pintgn.serve.limits import Limits, TooMuch

LONGEST_KEY = 200
SPARE = 10_000
"""Commas and brackets that a body may have beyond what its events need: texts have some, too."""
PROMOTION = "requests"
ENDS = ("src", "dst")
FIELDS = 6
"""Values of an event besides its features."""

Value = str | int | float | bool | None
Features = dict[str, Value] | list[Value]
Time = Annotated[int | float | str, Meta(description="In the log's unit, or a date.")]
Op = Annotated[str | int | None, Meta(description="add, delete or node", examples=["add", "delete", "node"])]
Key = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_KEY, description="Sent again, an event with a key counts once.")
]
Against = Annotated[
    Literal["anyone", "known"],
    Meta(description="Against a link to a random destination, or to one that the source met before but not now."),
]
GIVEN = "Of a run that predicts a column: what is known when an event is asked about, by name."
ONE_END = "Left out of a question that is about the other end alone, such as whether a node returns."
BY_NAME = "By name, or a list in the order of the log's feature columns."


class Body(Struct, forbid_unknown_fields=True, gc=False):
    """A JSON object that rejects unknown fields."""


class Promotion(Body):
    """`POST /models`: a run's folder, as the service sees it, or back to the run before."""

    run: str | None = None
    back: bool = False
    force: bool = False
    scored: Annotated[int, Meta(ge=1, le=1_000_000)] = ENOUGH


class Declared:
    """Types of the requests to one service: ids have the type of its log."""

    def __init__(self, codec: Codec):
        text, number = Meta(min_length=1, max_length=LONGEST_ID), Meta(ge=codec.least, le=codec.most)
        id: Any = Annotated[str, text] if codec.text else Annotated[int, number]
        features = Annotated[Features, Meta(description=BY_NAME)]
        rest = [("features", features | None, None), ("op", Op, None), ("key", Key | None, None)]
        self.event = _struct("Event", [("src", id), ("t", Time), ("dst", id | None, None), *rest])
        columns = _struct(
            "Columns",
            [
                ("src", list_of(id)),
                ("dst", list_of(id | None)),
                ("t", list[Time]),
                ("features", dict[str, list[Value]] | list[Features | None] | None, None),
                ("op", list[Op] | None, None),
                ("key", list[Key | None] | None, None),
            ],
        )
        given = ("given", Annotated[Features, Meta(description=GIVEN)] | None, None)
        end = Annotated[id | None, Meta(description=ONE_END)]
        pair = _struct("Pair", [("src", end, None), ("dst", end, None), given])
        when = [("at", Time | None, None), ("against", Against, "anyone"), given]
        events, pairs, destinations = list_of(self.event), list_of(pair), id | list_of(id)
        target = _struct("Target", [("src", id), ("dst", id), ("t", Time), ("value", Value)])
        self.targets = _struct("Targets", [("targets", list_of(target)), ("at", Time | None, None)])
        self.schemas = {
            "events": [
                _struct("EventList", [("events", events)]),
                self.event,
                _struct("EventColumns", [("columns", columns)]),
            ],
            "score": [
                _struct("SourceAndDestinations", [("src", end, None), ("dst", destinations | None, None), *when]),
                _struct("Pairs", [("pairs", pairs), *when]),
            ],
            "targets": [self.targets],
            "new_model": [Promotion],
        }
        """The bodies of each operation, for OpenAPI."""
        # a decoder takes one kind of object, so the kinds are told apart by what they have
        single = {field.name: field.type for field in msgspec.structs.fields(self.event)}
        self.any_events = _struct("AnyEvents", _optional(events=events, columns=columns, **single))
        self.any_pairs = _struct("AnyPairs", [*_optional(pairs=pairs, src=id, dst=destinations), *when])


class Requests:
    """Reads the bodies of requests."""

    def __init__(self, codec: Codec, limits: Limits | None = None):
        self.codec, self.limits, self.declared = codec, limits or Limits(), Declared(codec)
        schema, declared = codec.schema, self.declared
        self.names = [*(feature.name for feature in schema.features), *schema.node_updates]
        self._events = msgspec.json.Decoder(declared.any_events | list_of(declared.event))
        self._pairs = msgspec.json.Decoder(declared.any_pairs)
        self._promotion = msgspec.json.Decoder(Promotion)
        self._targets = msgspec.json.Decoder(declared.targets)

    # -- events --------------------------------------------------------------------------------------------------------

    def events(self, body: bytes | bytearray) -> EventBatch:
        """Events from a body: one event, a list, {"events": […]} or {"columns": {…}}."""
        given = self._decoded(self._events, body, self.limits.batch, "events")
        if isinstance(given, list):
            return self._batch(given)
        if given.events is not None:
            self._check_alone(given, "events")
            return self._batch(given.events)
        if given.columns is not None:
            self._check_alone(given, "columns")
            return self._from_columns(given.columns)
        if given.src is None or given.t is None:
            missing = "src" if given.src is None else "t"
            raise BadInput(
                f'the event has no {missing}. The body is {{"events": […]}}, one event {{"src": …, "dst": …, "t": …}}, '
                "or columns."
            )
        return self._batch([given])

    def rows(self, events: list[dict[str, Any]]) -> EventBatch:
        """Events as a list of dicts."""
        try:
            return self._batch(msgspec.convert(events, list_of(self.declared.event)))
        except msgspec.ValidationError as error:
            raise self._refusal(error, "events") from None

    def _batch(self, events: list[Any]) -> EventBatch:
        self._check_count(len(events), self.limits.batch, "events")
        src, dst, t = ([getattr(event, name) for event in events] for name in ("src", "dst", "t"))
        rest = ([getattr(event, name) for event in events] for name in ("features", "op", "key"))
        features, op, keys = (None if all(one is None for one in column) else column for column in rest)
        return self.codec.batch(src, dst, t, features, op, keys, ids_checked=True)

    def _from_columns(self, columns: Any) -> EventBatch:
        count = len(columns.src)
        self._check_count(count, self.limits.batch, "events")
        features = columns.features
        lists = {name: getattr(columns, name) for name in ("dst", "t", "op", "key")}
        lists |= {f"features.{name}": one for name, one in features.items()} if isinstance(features, dict) else {}
        lists |= {"features": features} if isinstance(features, list) else {}
        for name, column in lists.items():
            if column is not None and len(column) != count:
                raise BadInput(f"column {name!r} has {len(column)} values, but src has {count}.")
        if isinstance(features, dict):
            features = [dict(zip(features, row, strict=True)) for row in zip(*features.values(), strict=True)] or None
        ends = columns.src, columns.dst
        return self.codec.batch(*ends, columns.t, features, columns.op, columns.key, ids_checked=True)

    def _check_alone(self, given: Any, name: str) -> None:
        others = [field for field in given.__struct_fields__ if field != name and getattr(given, field) is not None]
        if others:
            raise UnknownName(f'the body has {name!r} and also "{others[0]}", which belongs to a single event.')

    # -- questions -----------------------------------------------------------------------------------------------------

    def pairs(
        self, body: bytes | bytearray, sides: tuple[int, ...] = (0, 1)
    ) -> tuple[list[Any], list[Any], Any, str, bool, list[Any]]:
        """Sources, destinations, time and question of a request for scores; whether it named pairs; and what is given
        about each. Of a question about one of the sides, the other may be left out: it is that one again."""
        most = self.limits.pairs
        given = self._decoded(self._pairs, body, most, "pairs")
        if given.pairs is not None:
            if given.src is not None or given.dst is not None:
                raise UnknownName("the body has 'pairs' and also src or dst. Send one of the two.")
            src, dst = [pair.src for pair in given.pairs], [pair.dst for pair in given.pairs]
            columns = [given.given if pair.given is None else pair.given for pair in given.pairs]
        else:
            dst = given.dst if isinstance(given.dst, list) else [given.dst]
            src, columns = [given.src] * len(dst), [given.given] * len(dst)
        self._check_count(len(dst), most, "pairs")
        src, dst = self._both_ends(src, dst, (0,) if self.codec.schema.alone else sides)
        return src, dst, given.at, given.against, given.pairs is not None, columns

    def _both_ends(self, src: list[Any], dst: list[Any], sides: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
        """Ends of questions, one that is not asked about being the other again; one that is asked about is there."""
        for side in sides:
            if None in (ends := (src, dst)[side]):
                body = '"src": …, "dst": …' if len(sides) == 2 else f'"{ENDS[side]}": …'
                raise BadInput(
                    f"pair {ends.index(None)} has no {ENDS[side]}. The body is {{{body}}} or "
                    f'{{"pairs": [{{{body}}}, …]}}.'
                )
        if len(sides) == 1:
            return (src, src) if sides[0] == 0 else (dst, dst)
        return src, dst

    def targets(self, body: bytes | bytearray) -> tuple[list[tuple[Any, ...]], Any]:
        """Targets of events, (src, dst, t, value) each, and when they became known."""
        most = self.limits.batch
        given = self._decoded(self._targets, body, most, "targets")
        self._check_count(len(given.targets), most, "targets")
        return [(one.src, one.dst, one.t, one.value) for one in given.targets], given.at

    def given(self, text: str) -> dict[str, Any]:
        """Given columns in an address, as JSON by name."""
        found = self._decoded(msgspec.json.Decoder(dict[str, Any]), text.encode(), 1, "given columns")
        return dict(found)

    def promotion(self, body: bytes | bytearray) -> Promotion:
        """The run to promote."""
        given = self._decoded(self._promotion, body, 1, PROMOTION)
        if (given.run is None) != given.back:
            raise BadInput('the body is {"run": FOLDER} or {"back": true}.')
        return given

    # -- checks --------------------------------------------------------------------------------------------------------

    def _decoded(self, decoder: msgspec.json.Decoder, body: bytes | bytearray, most: int, what: str) -> Any:
        values = SPARE + most * (FIELDS + len(self.names))
        if body.count(b",") > values or body.count(b"{") > SPARE + 2 * most:
            raise TooMuch(f"the body holds far more than {most:,} {what} could. Send less at once.")
        try:
            return decoder.decode(body[3:] if body.startswith(b"\xef\xbb\xbf") else body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise self._refusal(error, what) from None

    def _check_count(self, count: int, most: int, what: str) -> None:
        if not count:
            raise BadInput(f"there are no {what} in the body.")
        if count > most:
            raise TooMuch(f"{count:,} {what} at once; send at most {most:,}.")

    def _refusal(self, error: Exception, what: str) -> BadInput:
        """What msgspec found, with the number of the event and what is allowed."""
        said, _, path = str(error).partition(" - at `")
        if not isinstance(error, msgspec.ValidationError):
            return BadInput(f"the body is no JSON: {said[:200]}.")
        row, name = re.search(r"\[(\d+)\]", path), re.search(r"\.(\w+)[^.]*$", path)
        where = f"{what[:-1]} {row[1]}" if row else "the body"
        field = name[1] if name else ""
        missing, unknown = re.search(r"missing required field `(.*)`", said), re.search(r"unknown field `(.*)`", said)
        if missing:
            return BadInput(f"{where} has no {missing[1]}.")
        if unknown:
            known = [*self.declared.any_events.__struct_fields__, "pairs", "at", "against", "given"]
            known = list(Promotion.__struct_fields__) if what == PROMOTION else known
            return UnknownName(f'{where} has a field "{unknown[1]}", which is unknown.{suggest(unknown[1], known)}')
        if field in ("src", "dst") and "length" in said:
            return BadInput(f"{where}: an id has 1 to {LONGEST_ID:,} characters, unlike {field}.")
        if field in ("src", "dst") and "array" not in said.partition("got")[0]:
            allowed = "" if self.codec.text else f" between {self.codec.least} and {self.codec.most}"
            return BadInput(f"{where}: node ids here are {self.codec.id_kind}{allowed}. {field}: {_lower(said)}.")
        if field == "key":
            return BadInput(f"{where}: a key is a text of 1 to {LONGEST_KEY} characters. {_lower(said)}.")
        return BadInput(f"{where}{': ' + field if field else ''}: {_lower(said)}.")


def _struct(name: str, fields: list[Any]) -> Any:
    return defstruct(name, fields, bases=(Body,))


def _optional(**fields: Any) -> list[Any]:
    return [(name, kind | None, None) for name, kind in fields.items()]


def list_of(kind: Any) -> Any:
    """The type of a list of a struct that was made at run time."""
    return list[kind]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "'")
