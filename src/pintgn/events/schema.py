"""Schema of a log: names, feature encodings and times of its columns. Kept with the log, reused for later files."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.categories import BITS
from pintgn.events.columns import first_true
from pintgn.events.timeformat import zone_of
from pintgn.facts import AtLeast, Maybe, parse

ADD, DELETE, NODE = 1, -1, 0
"""Kinds of event (`EventLog.op`): an interaction, the end of one, a change of a node's own features."""

FEATURE = {
    "name": str,
    "kind": {"number", "code", "onehot", "hash"},
    "categories": [(str, int, bool)],
    "words": Maybe([(str, int, bool)]),
}
SHAPE = {
    "src": str,
    "dst": str,
    "t": str,
    "label": (str, None),
    "op": (str, None),
    "known": Maybe((str, None)),
    "features": [FEATURE],
    "node_features": [str],
    "node_columns": Maybe([FEATURE]),
    "node_updates": [str],
    "time": {
        "unit": ({"s", "ms", "us", "ns"}, None),
        "zone": (str, None),
        "written": Maybe((str, None)),
        "assumed": Maybe((str, None)),
    },
    "separate_namespaces": bool,
    "dummy": Maybe((AtLeast(0), None)),
    "grid": Maybe(([float], None)),
    "time_scale": (float, None),
    "asking": Maybe(
        (
            {
                "outputs": AtLeast(0),
                "given": [AtLeast(0)],
                "late": AtLeast(0),
                "values": bool,
                "relations": Maybe(AtLeast(0)),
            },
            None,
        )
    ),
}
"""Of a schema as JSON."""

OP_NAMES = {ADD: "add", DELETE: "delete", NODE: "node"}


LATEST = 3 * 2**60
"""Times of events are within ±LATEST (3.46e18; nanoseconds since 1970 end in 2079), whatever their type."""
LATEST_ASKED = 2**62
"""Times that are asked about go further, so that there is always something after the newest event; the difference of
any two fits int64, and what models make of it float32."""


def beyond(t: np.ndarray, latest: int = LATEST) -> int:
    """The first row whose time is too far away to be counted with, or -1.

    >>> beyond(np.array([0, 2**62])), beyond(np.array([0.0, 1e18]))
    (1, -1)
    """
    return first_true((t > latest) | (t < -latest))


@dataclass(frozen=True)
class Feature:
    """One feature column of the users' file and how it becomes numbers.

    `number` is taken as it is. A categorical column becomes one number (`code`: 1, 2, … in the order of
    `categories`), one 0/1 column per category (`onehot`), or the bits of a hash (`hash`, see `events.categories`). A
    category first met in a later file is 0 in the first two; a hash needs no list of categories.
    """

    name: str
    kind: str = "number"
    categories: tuple[str | int | bool, ...] = ()
    words: tuple[str | int | bool, ...] = dataclasses.field(default=(), compare=False)
    """Of `hash`: the categories that were met, by which its bits are shown in the users' own words."""

    def __post_init__(self) -> None:
        if self.kind not in ("number", "code", "onehot", "hash"):
            raise BadInput(f"a feature is 'number', 'code', 'onehot' or 'hash', not {self.kind!r}.")

    @property
    def width(self) -> int:
        return len(self.categories) if self.kind == "onehot" else BITS if self.kind == "hash" else 1

    @property
    def columns(self) -> list[str]:
        """The names of its columns.

        >>> Feature("kind", "onehot", ("a", "b")).columns
        ['kind=a', 'kind=b']
        """
        if self.kind == "hash":
            return [f"{self.name}#{bit}" for bit in range(BITS)]
        return [f"{self.name}={c}" for c in self.categories] if self.kind == "onehot" else [self.name]


@dataclass(frozen=True)
class TimeUnit:
    """Unit and format of times: plain numbers (`unit=None`), or dates counted in s, ms, us or ns since 1970 UTC."""

    unit: str | None = None
    zone: str | None = None
    written: str | None = dataclasses.field(default=None, compare=False)
    """How the file writes them, where not as ISO-8601: a format of strptime, or the unit of numbers since 1970."""
    assumed: str | None = dataclasses.field(default=None, compare=False)
    """The zone of dates that are written without one, where that was said."""

    def show(self, t: Any) -> str:
        """A time as a person writes it, with its zone where dates have one; `read_time` reads it back.

        >>> TimeUnit("s").show(1_700_000_000)
        '2023-11-14 22:13:20'
        >>> TimeUnit().show(1588)
        '1588'
        >>> TimeUnit("ms", "+02:00").show(1_700_000_000_500)
        '2023-11-15 00:13:20.500+02:00'
        """
        if self.unit is None:
            return f"{t:g}" if isinstance(t, float | np.floating) and abs(float(t)) < 1e6 else str(t)
        stamp = np.datetime64(int(t), self.unit)  # type: ignore[call-overload]
        text = re.sub(r"\.0+$", "", str(stamp).replace("T", " "))
        if self.zone:
            try:
                moment = stamp.astype("datetime64[s]").astype(datetime.datetime).replace(tzinfo=datetime.UTC)
                local = moment.astimezone(zone_of(self.zone)).isoformat(sep=" ")
                if len(local) == len("2024-01-31 12:00:00+01:00"):  # not with the seconds of before there were zones
                    return local[:19] + text[19:] + local[19:]  # a fraction of a second is the same in every zone
            except (AttributeError, KeyError, ValueError, OverflowError):
                pass  # beyond what Python's datetime holds
            return f"{text}+00:00"
        return text.removesuffix(" 00:00:00")


@dataclass(frozen=True)
class Asking:
    """Widths of a question about events besides whether they happen; see `learn.tasks`."""

    outputs: int
    """Numbers that an answer consists of; 0: the logits of a link."""
    given: tuple[int, ...] = ()
    """Columns of `EventLog.features` that are known when the question is asked."""
    late: int = 0
    """The last so many columns of `EventLog.features` are the target's: known from `EventLog.known` on."""
    values: bool = False
    """Whether an answer is a value (mean, then quantiles); otherwise logits of classes."""
    relations: int = 0
    """Where the one given column is the number of a relation: how many there are, 0 for one that is not known. A
    question may name r + relations, the inverse of r."""


@dataclass(frozen=True)
class Schema:
    """Column names, encodings and widths of a log: all that a model or a later file must agree with."""

    src: str = "src"
    dst: str = "dst"
    t: str = "t"
    label: str | None = None
    op: str | None = None
    features: tuple[Feature, ...] = ()
    node_features: tuple[str, ...] = ()
    """Names of the initial features x_v, one for each column of `EventLog.node_features`."""
    node_columns: tuple[Feature, ...] = ()
    """How the columns of the node table became those, where not all were numbers."""
    node_updates: tuple[str, ...] = ()
    """Names of the columns that node events carry; their width is their own."""
    time: TimeUnit = dataclasses.field(default_factory=TimeUnit)
    separate_namespaces: bool = False
    dummy: int | None = None
    """Number of the node (the paper's ◇) that stands for no one: node events of a discrete-time log end at it."""
    grid: tuple[float, float, int] | None = dataclasses.field(default=None, compare=False)
    """Start, spacing and number of the snapshots that a discrete-time log was made from (empty ones leave no event)."""
    time_scale: float | None = None
    """A typical time between two events of one node, in the log's own unit; models measure dt in it, so that
    seconds, milliseconds and days train alike. A log fills it in from the first 70 % of its events."""
    known: str | None = None
    """The column of times at which what is predicted becomes known, where there is one."""
    asking: Asking | None = None
    """What is asked about events, in the log as a model reads it; None: whether they happen."""

    @property
    def alone(self) -> bool:
        """Whether events have no destination: each is a self-loop of its source, whose column is named twice."""
        return self.dst == self.src

    @cached_property
    def feature_width(self) -> int:
        """Columns of `EventLog.features`."""
        return sum(feature.width for feature in self.features)

    @cached_property
    def width(self) -> int:
        """Columns of `EventLog.marked_features`: features, marks for delete and node events, node updates."""
        return self.feature_width + (2 if self.op else 0) + len(self.node_updates)

    @property
    def late(self) -> slice:
        """The columns of `EventLog.features` that become known later than their event."""
        return slice(self.feature_width - (0 if self.asking is None else self.asking.late), self.feature_width)

    @cached_property
    def relation(self) -> tuple[int, int] | None:
        """The column of `EventLog.features` that is the number of a relation, and how many there are."""
        relational = self.asking is not None and self.asking.relations
        return (self.asking.given[0], self.asking.relations) if self.asking is not None and relational else None

    def feature_columns(self) -> list[str]:
        """The name of every column of `EventLog.features`.

        >>> Schema(features=(Feature("amount"), Feature("kind", "onehot", ("a", "b")))).feature_columns()
        ['amount', 'kind=a', 'kind=b']
        """
        return [name for feature in self.features for name in feature.columns]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Schema:
        raw = {key: value for key, value in parse(text, SHAPE, "the schema").items() if key in cls.__dataclass_fields__}
        raw["features"] = _features(raw["features"])
        raw["node_columns"] = _features(raw.get("node_columns", []))
        raw["node_features"] = tuple(raw["node_features"])
        raw["node_updates"] = tuple(raw["node_updates"])
        raw["time"] = TimeUnit(*(raw["time"].get(name) for name in ("unit", "zone", "written", "assumed")))
        raw["grid"] = None if raw.get("grid") is None else tuple(raw["grid"])
        if (asked := raw.get("asking")) is not None:
            raw["asking"] = Asking(**asked | {"given": tuple(asked["given"])})
        return cls(**raw)


def _features(raw: list[dict[str, Any]]) -> tuple[Feature, ...]:
    return tuple(Feature(f["name"], f["kind"], tuple(f["categories"]), tuple(f.get("words", ()))) for f in raw)
