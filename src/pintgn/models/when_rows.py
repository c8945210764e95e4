"""Training-free baselines for whether a node acts, or two meet, within a horizon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.models.base import Model, check_choice
from pintgn.models.history_view import HistoryView
from pintgn.models.pair_features import LONGEST
from pintgn.neighbors.index import WAYS

ROWS = ("overall", "recency", "rate")
SPAN = 4.0
"""Horizons over which a rate is counted."""


@dataclass(eq=False, repr=False)
class WhenRow(Model):
    """A training-free answer: how often it was so in training (`overall`); the likelier the more recent the last time,
    exp(-time since / horizon) (`recency`); or by the rate of the last four horizons, 1 - exp(-events per horizon).

    Args:
        row: one of these.
        horizon: in the log's own unit of time.
        share: how often it was so in training.
        pairs: whether the question is about two nodes.
    """

    row: str = "overall"
    horizon: float = 1.0
    share: float = 0.5
    pairs: bool = False
    answers_columns = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("row", self.row, ROWS)

    def prepare(self, train: EventLog) -> None:
        pass

    def make(self, schema: Schema) -> None:
        pass

    def gather(self, query: Query, history: HistoryView) -> Any:
        whole = history.t.dtype.kind == "i"
        window = np.clip([SPAN * self.horizon], 1 if whole else 0, LONGEST).astype(history.t.dtype)
        found = history.pair_history(query.src, query.dst, window)
        way = WAYS.index("u to v" if self.pairs else "u to anyone")
        return found.counts[..., way], found.dt[..., way], found.within[..., way, 0]

    def forward(self, inputs: Any, state: None) -> Tensor:  # (q, 2)
        count, dt, within = (np.asarray(one, np.float64).ravel() for one in inputs)
        p = np.full(len(count), self.share)
        if self.row == "recency":
            p = np.where(count > 0, np.exp(-dt / self.horizon), 0)
        elif self.row == "rate":
            p = 1 - np.exp(-within / SPAN)
        p = np.clip(p, 1e-4, 1 - 1e-4)
        return torch.from_numpy(np.stack([np.log1p(-p), np.log(p)], 1).astype(np.float32))
