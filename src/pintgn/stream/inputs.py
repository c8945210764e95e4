"""Checks of a stream's arguments: arrays of the right types, in order of time, none before the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput, StaleQuery
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import LATEST, LATEST_ASKED, beyond
from pintgn.models.history_view import Events
from pintgn.models.question_features import check_relations, checked_given
from pintgn.neighbors.index import NeighborIndex
from pintgn.neighbors.queries import as_events

if TYPE_CHECKING:
    from pintgn.stream.core import Stream


def checked_events(stream: Stream, batch: EventLog | Events | None) -> Events:
    """Events that may be observed next; the columns of a log were checked when it was made."""
    schema, history = stream.schema, stream.history
    if batch is None:
        return Events.none(schema.width, stream.time_dtype)
    if isinstance(batch, EventLog):
        if len(batch.ids.marks) > len(history.node_marks):
            history.node_marks = batch.ids.marks
        late = None if history.late_columns is None else batch.features[:, history.late_columns]  # type: ignore[index]
        src, dst, t, features, known = batch.src, batch.dst, batch.t, batch.marked_features, batch.known
    else:
        src, dst, t, features, late, known = batch.src, batch.dst, batch.t, batch.features, batch.late, batch.known
    given = 0 if features is None else features.shape[1]
    if given != schema.width:
        raise BadInput(f"events carry {given} feature columns; this stream expects {schema.width}.")
    if features is not None and not np.isfinite(features).all():
        row = int(np.argwhere(~np.isfinite(features))[0, 0])
        raise BadInput(f"event {row} has a feature that is not finite. Fill or drop it.")
    if schema.relation is not None:
        check_relations(features, schema)
    t = checked_times(stream, t)
    if isinstance(batch, EventLog) and not (len(t) and history.clock is not None and t[0] < history.clock):
        src, dst, t = (np.require(column, requirements=["C", "W"]) for column in (src, dst, t))
    else:
        if (far := beyond(t)) >= 0:
            raise BadInput(f"event {far} has t={t[far]}; times of events are within ±{LATEST:.3g}.")
        src, dst, t = as_events(src, dst, t, history.clock, t.dtype)
    if history.late_columns is not None and late is None:
        raise BadInput("this stream is asked about events; observe a log as the run reads it, or Events with `late`.")
    known = None if known is None else np.maximum(checked_times(stream, known), t)
    return Events(src, dst, t, features if schema.width else None, late=late, known=known)


def checked_queries(stream: Stream, queries: Sequence[Query]) -> Query:
    """All queries as one, none before the clock."""
    if not queries:
        return Query(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, stream.time_dtype or np.int64))
    src, dst = _nodes([q.src for q in queries], "src"), _nodes([q.dst for q in queries], "dst")
    t = checked_times(stream, np.concatenate([np.asarray(q.t) for q in queries]))
    clock = stream.history.clock
    if len(t) and clock is not None and (first := t.min()) < clock:
        raise StaleQuery(
            f"asked for a score at t={first}; this stream has already observed t={clock}. Fork it before t={first}."
        )
    return Query(src, dst, t, None if stream.schema.asking is None else checked_given(queries, stream.schema))


def checked_times(stream: Stream, t: Any) -> np.ndarray:
    """Times in the stream's own type, which the first ones decide."""
    t = np.asarray(t)
    if (
        stream.time_dtype is not None
        and t.dtype == stream.time_dtype
        and len(t)
        and t.min() >= -LATEST_ASKED
        and t.max() <= LATEST_ASKED
    ):
        return t
    far = beyond(t, LATEST_ASKED) if t.dtype.kind in "iuf" else -1
    if far >= 0 and np.isfinite(t[far]):
        raise BadInput(f"a time is {t[far]}; times are within ±{LATEST_ASKED:.3g}.")
    if t.dtype.kind == "u":
        t = t.astype(np.int64)
    if t.dtype not in (np.int64, np.float64):
        raise BadInput(f"times are {t.dtype}; pass int64 or float64.")
    if t.dtype.kind == "f" and not np.isfinite(t).all():
        raise BadInput("a time is not finite.")
    if stream.time_dtype is None:
        stream.time_dtype = t.dtype
        stream.state = stream.model.initial_state(stream.node_features, t.dtype)
        if stream.index.time is None:
            stream.history.index = NeighborIndex(time=t.dtype)  # still empty
    if t.dtype != stream.time_dtype:
        if (exact := t.astype(stream.time_dtype)).astype(t.dtype).tolist() != t.tolist():
            raise BadInput(f"times of this stream are {stream.time_dtype}, given {t.dtype} values that do not fit.")
        t = exact
    return t


def _nodes(columns: list[Any], name: str) -> np.ndarray:
    """Node numbers of several queries together."""
    nodes = np.concatenate([np.atleast_1d(column) for column in columns])
    if nodes.dtype.kind not in "iu":
        for column in map(np.atleast_1d, columns):
            if column.dtype.kind not in "iu" and len(column):
                raise BadInput(
                    f"{name} holds {column.dtype}; a stream takes node numbers. Use log.node(id) for users' ids."
                )
    if len(nodes) and nodes.min() < 0:
        raise BadInput(f"{name} holds {nodes.min()}; node numbers start at 0.")
    return nodes.astype(np.int64, copy=False)
