"""A stream that never ends: forget old contacts, and the features of events that nobody remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pintgn.events.moment import read_time
from pintgn.neighbors.contents import renumber
from pintgn.stream.core import Stream


def forget(stream: Stream, keep_last: int | None, before_t: Any) -> int:
    """Drop all but each node's newest `keep_last` contacts, and those before a time; returns how many.

    Contacts at the clock's own time do not count: a question at t = clock does not see them. So a model that looks at
    no more than `keep_last` newest contacts gives the same scores as before, now and later. Positions and memory stay
    as they are. Where events have features, the rows of forgotten events are dropped and the others renumbered:
    `stream.events` then counts what is held.
    """
    if before_t is not None:
        before_t = read_time(before_t, stream.schema.time, stream._time_dtype, bound=True)
    held = stream.history
    dropped = held.index.trim(keep_last=keep_last, before_t=before_t, spare_newest=True)
    if dropped and held.event_table is not None:
        kept = renumber(held.index)
        held.event_table = held.event_table[kept]
        if held.late is not None:
            held.late = replace(held.late, known=held.late.known[kept], values=held.late.values[kept])
        if held.relations is not None:
            held.relations = replace(held.relations, sources=held.relations.sources[kept])
        held.group_start = int(np.searchsorted(kept, held.group_start))
        held.events = len(kept)
    return dropped
