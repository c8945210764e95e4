"""The two things that are compared: nodes or unordered simultaneous events, as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.theory.history import EventHistory, node_of


@dataclass(frozen=True)
class Question:
    """Can a and b be told apart? Both are nodes (one number each) or events (two numbers each)."""

    history: EventHistory
    kind: str
    a: tuple[int, ...]
    b: tuple[int, ...]

    def rooted(self, ends: tuple[int, ...]) -> list[tuple[int, ...]]:
        """(own root, other root) for every end of an event; just the root of a node."""
        return [ends] if len(ends) == 1 else [ends, ends[::-1]]

    @property
    def words(self) -> str:
        show = self.history.log.schema.time.show
        names = [
            self.history.name(x[0]) if self.kind == "nodes" else "{" + ", ".join(map(self.history.name, x)) + "}"
            for x in (self.a, self.b)
        ]
        return f"{self.kind} {names[0]} and {names[1]} at t={show(self.history.t)}"


def ask(log: EventLog, a: Any, b: Any, t: Any = None, *, times: str = "exact", side: str | None = None) -> Question:
    """Read two nodes or two events in the users' ids; anything else is an error that says what is allowed."""
    one, other = _as_event(a), _as_event(b)
    if (one is None) != (other is None):
        raise BadInput(f"{a!r} and {b!r}: compare two nodes, or two events as pairs of nodes, not one of each.")
    if one is None or other is None:
        history = EventHistory(log, t, times)
        return Question(history, "nodes", (node_of(log, a, side),), (node_of(log, b, side),))
    given = {"t": log.time(t, bound=True)} if t is not None else {}
    for name, (_, when) in (("a", one), ("b", other)):
        if when is not None:
            given[name] = log.time(when, bound=True)
    if len(set(given.values())) > 1:
        said = ", ".join(f"{name} at {when}" if name != "t" else f"t={when}" for name, when in given.items())
        raise BadInput(f"the events are not simultaneous: {said}. Only events of one time can be compared.")
    history = EventHistory(log, next(iter(given.values()), None), times)
    first, second = _ends(log, one[0]), _ends(log, other[0])
    if isinstance(a, set | frozenset):  # a set has no order; show the same one every time
        first = tuple(sorted(first))  # type: ignore[assignment]
    if isinstance(b, set | frozenset):
        second = tuple(sorted(second))  # type: ignore[assignment]
    return Question(history, "events", first, second)


def _as_event(given: Any) -> tuple[tuple[Any, ...], Any] | None:
    """The ends of an event and its time, if given; None if this is a node's id."""
    if isinstance(given, set | frozenset):
        ends = tuple(given)
        if not 1 <= len(ends) <= 2:
            raise BadInput(f"{given!r}: an event has two ends.")
        return (ends[0], ends[-1]), None
    if isinstance(given, tuple | list):
        if len(given) not in (2, 3):
            raise BadInput(f"{given!r}: an event is written (u, v) or (u, v, t).")
        return (given[0], given[1]), given[2] if len(given) == 3 else None
    return None


def _ends(log: EventLog, ends: tuple[Any, ...]) -> tuple[int, int]:
    if not log.ids.separate_namespaces:
        return node_of(log, ends[0]), node_of(log, ends[1])
    u, v = ends
    known = [
        log.ids.encode([x], "src", missing="mark")[0] >= 0 and log.ids.encode([y], "dst", missing="mark")[0] >= 0
        for x, y in ((u, v), (v, u))
    ]
    if known == [False, True]:  # a set has no order, and sources and destinations are named apart
        u, v = v, u
    return node_of(log, u, "src"), node_of(log, v, "dst")
