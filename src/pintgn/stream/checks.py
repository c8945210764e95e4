"""What a stream is given, checked once: arrays of the right types, in order of time, none too early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pintgn.errors import BadInput, StaleQuery
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import LATEST, LATEST_ASKED, Schema, beyond
from pintgn.models.asked import check_relations, checked_given
from pintgn.models.base import Model
from pintgn.models.history_view import Events
from pintgn.neighbors.inputs import as_events
from pintgn.stream.history import History
from pintgn.stream.reads import node_numbers


class Checks:
    """Events and queries as a stream takes them."""

    schema: Schema
    model: Model
    history: History
    state: Any
    node_features: np.ndarray | None
    _time_dtype: np.dtype | None

    @property
    def clock(self) -> int | float | None:
        """The time of the newest event."""
        return self.history.clock

    def _checked(self, batch: EventLog | Events | None, queries: Sequence[Query]) -> tuple[Query, Events]:
        return self._checked_queries(queries), self._checked_events(batch)

    def _checked_events(self, batch: EventLog | Events | None) -> Events:
        if batch is None:
            return Events.none(self.schema.width, self._time_dtype)
        if isinstance(batch, EventLog):
            if len(batch.ids.marks) > len(self.history.node_marks):
                self.history.node_marks = batch.ids.marks
            late = None if self.history.late_columns is None else batch.features[:, self.history.late_columns]  # type: ignore[index]
            batch = Events(batch.src, batch.dst, batch.t, batch.marked_features, late=late, known=batch.known)
        given = 0 if batch.features is None else batch.features.shape[1]
        if given != self.schema.width:
            raise BadInput(f"events carry {given} feature columns; this stream expects {self.schema.width}.")
        if batch.features is not None and not np.isfinite(batch.features).all():
            row = int(np.argwhere(~np.isfinite(batch.features))[0, 0])
            raise BadInput(f"event {row} has a feature that is not finite. Fill or drop it.")
        check_relations(batch.features, self.schema)
        t = self._times(batch.t)
        far = beyond(t)
        if far >= 0:
            raise BadInput(f"event {far} has t={t[far]}; times of events are within ±{LATEST:.3g}.")
        src, dst, t = as_events(batch.src, batch.dst, t, self.clock, t.dtype)
        if self.history.late_columns is not None and batch.late is None:
            raise BadInput(
                "this stream is asked about events; observe a log as the run reads it, or Events with `late`."
            )
        known = None if batch.known is None else np.maximum(self._times(batch.known), t)
        return Events(src, dst, t, batch.features if self.schema.width else None, late=batch.late, known=known)

    def _checked_queries(self, queries: Sequence[Query]) -> Query:
        if not queries:
            return Query(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, self._time_dtype or np.int64))
        src = np.concatenate([node_numbers(q.src, "src") for q in queries])
        dst = np.concatenate([node_numbers(q.dst, "dst") for q in queries])
        t = self._times(np.concatenate([np.asarray(q.t) for q in queries]))
        if len(t) and self.clock is not None and t.min() < self.clock:
            raise StaleQuery(
                f"asked for a score at t={t.min()}; this stream has already observed t={self.clock}. "
                f"Fork it before t={t.min()}."
            )
        return Query(src, dst, t, checked_given(queries, self.schema))

    def _times(self, t: Any) -> np.ndarray:
        """Times in the stream's own type, which the first ones decide."""
        t = np.asarray(t)
        far = beyond(t, LATEST_ASKED) if t.dtype.kind in "iuf" else -1
        if far >= 0 and np.isfinite(t[far]):
            raise BadInput(f"a time is {t[far]}; times are within ±{LATEST_ASKED:.3g}.")
        if t.dtype.kind == "u":
            t = t.astype(np.int64)
        if t.dtype not in (np.int64, np.float64):
            raise BadInput(f"times are {t.dtype}; pass int64 or float64.")
        if t.dtype.kind == "f" and not np.isfinite(t).all():
            raise BadInput("a time is not finite.")
        if self._time_dtype is None:
            self._time_dtype = t.dtype
            self.state = self.model.initial_state(self.node_features, t.dtype)
        if t.dtype != self._time_dtype:
            if (exact := t.astype(self._time_dtype)).astype(t.dtype).tolist() != t.tolist():
                raise BadInput(f"times of this stream are {self._time_dtype}, given {t.dtype} values that do not fit.")
            t = exact
        return t
