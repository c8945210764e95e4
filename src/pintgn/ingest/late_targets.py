"""Targets that arrive as messages of their own: the event, its target, and when it became known.

They are stored among events, as rows with an operation of their own: whatever keeps, copies, undoes or replays events
keeps them in their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from pintgn.errors import BadInput
from pintgn.events.schema import Feature, Schema
from pintgn.ingest.codec import TARGET, EventBatch
from pintgn.ingest.encode import encode_features

WIDTH = 8
"""Columns of its features: four numbers of 64 bits."""


@dataclass
class TargetBatch:
    """Targets in the order in which they arrived, of events that are named by their ends and their time."""

    src: list[Any]
    dst: list[Any]
    t: np.ndarray  # (n,) of the events
    known: np.ndarray  # (n,) when the targets became known, of the same type
    values: np.ndarray  # (n,) float64: values, or numbers of categories from 0 on
    column: int  # which column they are of, by `column_hash`

    def __len__(self) -> int:
        return len(self.t)

    def take(self, rows: list[int]) -> TargetBatch:
        """Some of them, by row."""
        src, dst = ([column[row] for row in rows] for column in (self.src, self.dst))
        return TargetBatch(src, dst, self.t[rows], self.known[rows], self.values[rows], self.column)

    def as_events(self, clock: Any) -> EventBatch:
        """The targets as rows of a store, at the time of the newest event."""
        column = np.full(len(self), self.column)
        numbers = [self.t.view(np.int64), self.known.view(np.int64), column, self.values.view(np.int64)]
        features = np.ascontiguousarray(np.stack(numbers, 1), "<i8").view("<f4")
        t, op = np.full(len(self), clock, self.t.dtype), np.full(len(self), TARGET, np.int8)
        return EventBatch(self.src, self.dst, t, features, op)

    @classmethod
    def of_events(cls, batch: EventBatch) -> TargetBatch:
        """The inverse of `as_events`; all are of the column of the first."""
        assert batch.features is not None
        numbers = np.ascontiguousarray(batch.features, "<f4").view("<i8").astype(np.int64)
        t, known = (np.ascontiguousarray(numbers[:, k]).view(batch.t.dtype) for k in (0, 1))
        values = np.ascontiguousarray(numbers[:, 3]).view(np.float64)
        return cls(batch.src, batch.dst, t, known, values, int(numbers[0, 2]))


def column_hash(name: str) -> int:
    """A column in 64 bits."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def target_number(feature: Feature, value: Any, where: str, wide: Collection[str] = ()) -> float:
    """A user's target as a number: a value, as exact as in the log (`wide`, see `Codec`), or the number of its category
    from 0 on.

    >>> target_number(Feature("fraud", "onehot", (False, True)), True, "target 0")
    1.0
    """
    if value is None:
        raise BadInput(f"{where} has no value of {feature.name!r}.")
    if feature.kind == "number":
        found = encode_features([{feature.name: value}], None, 1, Schema(features=(feature,)), wide=wide)
        assert found is not None
        return float(found[0, 0])
    for number, category in enumerate(feature.categories):
        if category == value and isinstance(category, bool) == isinstance(value, bool):
            return float(number)
    known = ", ".join(map(repr, feature.categories[:5])) + (", …" if len(feature.categories) > 5 else "")
    raise BadInput(f"{where}: {feature.name}={value!r}; the log has {known}.")
