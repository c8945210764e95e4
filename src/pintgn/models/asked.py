"""What a question about an event brings along, as columns: what is given, and what is known of earlier answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.events.schema import Schema
from pintgn.models.history_view import HistoryView
from pintgn.neighbors.targets import CHAINS

QUANTILES = (0.05, 0.5, 0.95)
"""Ends and middle of the interval that comes with a value; an answer is its mean, then these."""
ABOUT = ("known", "count", "age")


def asked_width(schema: Schema) -> int:
    """How many columns `asked_columns` has."""
    if schema.asking is None:
        return 0
    late = schema.asking.late
    return len(schema.asking.given) + (len(CHAINS) * (len(ABOUT) + 2 * (late - 1)) if late else 0)


def asked_names(schema: Schema) -> list[str]:
    """The names of those columns."""
    if schema.asking is None:
        return []
    columns = schema.feature_columns()
    given = [columns[k] for k in schema.asking.given]
    values = columns[schema.late][:-1]
    about = [[*ABOUT, *(f"mean of {v}" for v in values), *(f"last {v}" for v in values)] for _ in CHAINS]
    earlier = [f"{chain}: {name}" for chain, names in zip(CHAINS, about, strict=True) for name in names]
    return given + (earlier if schema.asking.late else [])


def checked_given(queries: Sequence[Query], schema: Schema) -> np.ndarray | None:  # (q, g)
    """What is known when questions are asked, of several together."""
    expected = 0 if schema.asking is None else len(schema.asking.given)
    if not expected:
        return None
    parts = [np.zeros((len(q), 0), np.float32) if q.given is None else q.given for q in queries]
    for part in parts:
        if part.shape[1] != expected:
            raise BadInput(f"a question brings {part.shape[1]} given columns; this stream expects {expected}.")
    return np.concatenate(parts)


def asked_columns(query: Query, history: HistoryView, schema: Schema, time_unit: float) -> np.ndarray:  # (q, b)
    """The given columns of each query; then, of its source, its destination and the pair, whether anything is known
    about earlier events, of how many, how long ago that became known, its mean and its last value."""
    assert schema.asking is not None
    parts = [] if query.given is None else [query.given]
    if schema.asking.late:
        found = history.target_history(query.src, query.dst)
        there = found.count > 0
        about = np.stack([there, np.log1p(found.count), np.log1p(np.maximum(found.dt, 0) / time_unit)], -1)
        earlier = np.concatenate([about * there[..., None], found.mean, found.last], -1)
        parts.append(earlier.reshape(len(query), -1).astype(np.float32))
    return np.concatenate(parts, 1).astype(np.float32, copy=False) if parts else np.zeros((len(query), 0), np.float32)
