"""Consecutive events in columns, as they travel from a client to the store and to the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Batch:
    """Consecutive events in columns: users' own ids, times in the log's count, features encoded but not scaled."""

    src: list[Any]
    dst: list[Any]
    t: np.ndarray  # (e,) int64 or float64
    features: np.ndarray | None  # (e, schema.width) float32
    op: np.ndarray | None  # (e,) int8, where the log has deletions or node events
    keys: list[str | None] | None  # what clients name their events by

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, rows: slice) -> Batch:
        return Batch(
            self.src[rows],
            self.dst[rows],
            self.t[rows],
            None if self.features is None else self.features[rows],
            None if self.op is None else self.op[rows],
            None if self.keys is None else self.keys[rows],
        )

    def take(self, rows: list[int]) -> Batch:
        """Some of the events, by row."""
        return Batch(
            [self.src[k] for k in rows],
            [self.dst[k] for k in rows],
            self.t[rows],
            None if self.features is None else self.features[rows],
            None if self.op is None else self.op[rows],
            None if self.keys is None else [self.keys[k] for k in rows],
        )

    @classmethod
    def joined(cls, parts: Sequence[Batch]) -> Batch:
        if len(parts) == 1:
            return parts[0]

        def lists(name: str) -> list[Any]:
            return [value for part in parts for value in getattr(part, name)]

        def arrays(name: str) -> Any:
            return None if getattr(parts[0], name) is None else np.concatenate([getattr(p, name) for p in parts])

        keys = None
        if any(part.keys is not None for part in parts):
            keys = [key for part in parts for key in part.keys or [None] * len(part)]
        return cls(lists("src"), lists("dst"), arrays("t"), arrays("features"), arrays("op"), keys)
