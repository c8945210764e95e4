"""What a question about an event brings along, as columns: what is given, and what is known of earlier answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.log import Query
from pintgn.events.schema import Schema
from pintgn.models.history_view import HistoryView

EARLIER = ("src", "dst", "pair")
"""Of whom earlier answers are known."""
QUANTILES = (0.05, 0.5, 0.95)
"""Ends and middle of the interval that comes with a value; an answer is its mean, then these."""
ABOUT = ("known", "count", "age")
OF_TRIPLE = (
    "met", "count", "age", "age, finer", "decay 10", "decay 1", "decay 0.1", "share of u's", "share of v's",
    "in u's newest", "in v's newest", "in the newest",
)  # fmt: skip
OF_END = ("met", "count", "age", "partners", "newest")
RELATION_COLUMNS = (
    *(f"triple: {what}" for what in OF_TRIPLE),
    *(f"{end}: {what}" for end in ("u with it", "v with its inverse") for what in OF_END),
    "relation: age",
    "share of v",
)
"""What is known of a triple (u, relation, v) when it is asked about, besides the relation."""


def asked_names(schema: Schema, earlier: bool = True) -> list[str]:
    """The names of `asked_columns`."""
    if schema.asking is None:
        return []
    columns = schema.feature_columns()
    given = [columns[k] for k in schema.asking.given]
    if schema.asking.relations:
        return [*given, *RELATION_COLUMNS]
    if not (earlier and schema.asking.late):
        return given
    values = columns[schema.late][:-1]
    about = [*ABOUT, *(f"mean of {v}" for v in values), *(f"last {v}" for v in values)]
    return given + [f"{chain}: {name}" for chain in EARLIER for name in about]


def checked_given(queries: Sequence[Query], schema: Schema) -> np.ndarray | None:  # (q, g)
    """What is known when questions are asked, of several together."""
    expected = 0 if schema.asking is None else len(schema.asking.given)
    if not expected:
        return None
    parts = [np.zeros((len(q), 0), np.float32) if q.given is None else q.given for q in queries]
    for part in parts:
        if part.shape[1] != expected:
            raise BadInput(f"a question brings {part.shape[1]} given columns; this stream expects {expected}.")
    given = np.concatenate(parts)
    if schema.relation is not None:
        _check_numbers(given[:, 0], 2 * schema.relation[1], "a question")
    return given


def nothing_given(schema: Schema, count: int) -> np.ndarray | None:  # (q, g)
    """In place of what is given, where nothing is asked."""
    given = 0 if schema.asking is None else len(schema.asking.given)
    return np.zeros((count, given), np.float32) if given else None


def check_relations(features: np.ndarray | None, schema: Schema) -> None:
    """Refuse events whose relation is none."""
    if schema.relation is not None and features is not None:
        _check_numbers(features[:, schema.relation[0]], schema.relation[1], "an event")


def _check_numbers(numbers: np.ndarray, count: int, what: str) -> None:
    bad = (numbers < 0) | (numbers >= count) | (numbers != np.floor(numbers))
    if bad.any():
        raise BadInput(f"{what} has relation {numbers[bad][0]:g}; relations are numbers from 0 to {count - 1}.")


def asked_columns(
    query: Query, history: HistoryView, schema: Schema, time_unit: float, earlier: bool = True
) -> np.ndarray:  # (q, b)
    """The given columns of each query; then, with `earlier`, of its source, its destination and the pair, whether
    anything is known about earlier events, of how many, how long ago that became known, its mean and its last value. Of
    a relation, its number and `RELATION_COLUMNS`; destinations may then be (q, c), and there is a row for each pair."""
    assert schema.asking is not None
    if schema.asking.relations:
        return relation_columns(query, history, time_unit)
    parts = [] if query.given is None else [query.given]
    if earlier and schema.asking.late:
        found = history.target_history(query.src, query.dst)
        count = found.count[:, :, 0]  # (q, 3)
        about = np.stack([count > 0, np.log1p(count), np.log1p(found.dt / time_unit)], -1)
        columns = np.concatenate([about, found.mean, found.last[:, :, 0]], -1)
        parts.append(columns.reshape(len(query), -1).astype(np.float32))
    return np.concatenate(parts, 1).astype(np.float32, copy=False) if parts else np.zeros((len(query), 0), np.float32)


def relation_columns(query: Query, history: HistoryView, time_unit: float) -> np.ndarray:  # (q c, b)
    """The relation that is asked about, and how often and how recently the triple, either end with the relation and the
    relation itself occurred."""
    assert query.given is not None
    count, query_of = query.dst.size // max(len(query), 1), None
    src, relation = query.src, query.given[:, 0].astype(np.int64)
    if query.dst.ndim > 1:
        query_of = np.repeat(np.arange(len(query)), count)
        src, relation = src[query_of], relation[query_of]
    found = history.relation_history(src, relation, query.dst.ravel(), query_of)
    n, dt = found.count, found.dt / time_unit
    triple, near, far, every = range(4)
    met = n > 0
    there = met[:, triple]
    share = n[:, triple, None] / np.maximum(n[:, [near, far]], 1)
    as_new = there[:, None] & (found.dt[:, triple, None] == found.dt[:, [near, far, every]])
    age, counted, others, newest = (np.log1p(x) for x in (dt, n, found.partners, found.newest))
    old = dt[:, triple]
    decays = [np.exp2(-rate * old) * there for rate in (0.1, 1.0, 10.0)]
    columns = [
        relation, there, counted[:, triple], age[:, triple], np.log1p(100 * old), *decays, *share.T, *as_new.T
    ]  # fmt: skip
    for end in (near, far):
        columns += [met[:, end], counted[:, end], age[:, end], others[:, end], newest[:, end]]
    columns += [age[:, every], np.log((n[:, far] + 0.1) / (n[:, every] + 1)) / 4]
    return np.stack(columns, 1).astype(np.float32)
