"""Events that came after a run's log: to measure the run on, or to go on training with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from pintgn.errors import BadInput, EventOrderError
from pintgn.events.log import COLUMNS, EventLog
from pintgn.facts import digest_of
from pintgn.ingest.options import Cleaning
from pintgn.ingest.read import read_events


@dataclass(frozen=True)
class Start:
    """The weights of an earlier run, with which one on a longer log begins."""

    rows: int  # the first events of the log, by which those weights have learned to read features and times
    events: int  # what they may have learned from; measured is what comes after
    weights: dict[str, Tensor] = field(default_factory=dict)  # empty where they stand in a folder

    def facts(self) -> dict[str, Any]:
        digest = digest_of({name: value.numpy(force=True) for name, value in self.weights.items()})
        return {"rows": self.rows, "events": self.events, "digest": digest}


def longer_log(log: EventLog, newer: Any) -> EventLog:
    """A log and the events after it, as one: nodes keep their numbers, new ones follow.

    Args:
        log: what a run has learned from.
        newer: a file, frame, table or log with the same columns, in any order of time: either only events after the
            log's last one, or the whole log again with more events behind.
    """
    title = str(newer) if isinstance(newer, str | Path) else "the newer events"
    table = newer.to_table() if isinstance(newer, EventLog) else newer
    later = read_events(table, like=log, cleaning=Cleaning(sort=True))
    if len(later) > len(log) and _continues(log, later):
        return _joined(log, later, later[len(log) :])
    if not len(later):
        raise BadInput(f"{title} has no events, so there is nothing after the run's log.")
    if len(log) and later.t[0] <= log.t[-1]:
        show = log.schema.time.show
        raise EventOrderError(
            f"{title} begins at {show(later.t[0])}, but the run has learned from events up to {show(log.t[-1])}. "
            "Give it events after that, or the whole log with more events behind."
        )
    return _joined(log, later, later)


def _continues(log: EventLog, later: EventLog) -> bool:
    """Whether a log begins with all events of another, and goes on strictly after them."""
    same = all(np.array_equal(getattr(log, name), getattr(later, name)[: len(log)]) for name in ("src", "dst", "t"))
    return same and bool(later.t[len(log)] > log.t[-1])


def _joined(log: EventLog, named: EventLog, newer: EventLog) -> EventLog:
    """Two logs as one, with the nodes of `named`."""
    columns: dict[str, Any] = {"node_features": named.node_features}
    for name in COLUMNS[:-1]:
        one, other = getattr(log, name), getattr(newer, name)
        if name == "t" and one.dtype != other.dtype:
            if (exact := other.astype(one.dtype)).astype(other.dtype).tolist() != other.tolist():
                raise BadInput(f"times of this run are {one.dtype}, those of the newer events {other.dtype}.")
            other = exact
        columns[name] = None if one is None or other is None else np.concatenate([one, other])
    label, known = (None if columns[name] is None else getattr(log.schema, name) for name in ("label", "known"))
    schema = replace(log.schema, label=label, known=known)
    return EventLog.trusted(columns, named.ids, schema)
