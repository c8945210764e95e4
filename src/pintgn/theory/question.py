"""The two things that are compared: nodes or unordered simultaneous events, as people write them."""

from __future__ import annotations

from typing import Any

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.theory.history import EventHistory, node_of
from pintgn.theory.separation import Ends


def read_question(
    log: EventLog, a: Any, b: Any, t: Any = None, times: str = "exact", side: str | None = None
) -> tuple[EventHistory, Ends, Ends]:
    """Read two nodes or two events in the users' ids; anything else is an error that says what is allowed."""
    events = [(name, *found) for name, given in (("a", a), ("b", b)) if (found := _as_event(given)) is not None]
    if not events:
        return EventHistory(log, t, times), (node_of(log, a, side),), (node_of(log, b, side),)
    if len(events) == 1:
        raise BadInput(f"{a!r} and {b!r}: compare two nodes, or two events as pairs of nodes, not one of each.")
    stated = {name: log.time(when, bound=True) for name, _, when in (("t", (), t), *events) if when is not None}
    if len(set(stated.values())) > 1:
        shown = ", ".join(f"{name} at {when}" if name != "t" else f"t={when}" for name, when in stated.items())
        raise BadInput(f"the events are not simultaneous: {shown}. Only events of one time can be compared.")
    first, second = (
        tuple(sorted(_ends(log, *ends))) if isinstance(given, set | frozenset) else _ends(log, *ends)
        for given, (_, ends, _) in zip((a, b), events, strict=True)
    )  # a set has no order; show the same one every time
    return EventHistory(log, next(iter(stated.values()), None), times), first, second


def _as_event(given: Any) -> tuple[tuple[Any, Any], Any] | None:
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


def _ends(log: EventLog, u: Any, v: Any) -> tuple[int, int]:
    if not log.ids.separate_namespaces:
        return node_of(log, u), node_of(log, v)

    def fits(src: Any, dst: Any) -> bool:
        return all(log.ids.encode([id], side, missing="mark")[0] >= 0 for id, side in ((src, "src"), (dst, "dst")))

    if fits(v, u) and not fits(u, v):  # a set has no order, and sources and destinations are named apart
        u, v = v, u
    return node_of(log, u, "src"), node_of(log, v, "dst")
