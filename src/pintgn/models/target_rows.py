"""Answers without training about a column of events, printed beside every result."""

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
from pintgn.models.question_features import EARLIER

ROWS = ("overall", "pair's last", "source's mean", "destination's mean")
CHAIN = {"pair's last": "pair", "source's mean": "src", "destination's mean": "dst"}
DOUBT = 2.0
"""How many events a class's overall share counts for beside those of a source or destination."""
TRUST = 0.8
"""Weight of a pair's last class beside the overall shares."""


@dataclass(eq=False, repr=False)
class TargetRow(Model):
    """A training-free answer about a column: the training part's mean or shares of classes (`overall`), the pair's last
    value, or the running mean of the source or of the destination; `overall` where nothing is known yet.

    A value is answered as it is; classes as logarithms of shares, those that are known mixed with the overall ones.
    """

    row: str = "overall"
    answers_columns = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("row", self.row, ROWS)
        self.overall = np.zeros(1)

    def prepare(self, train: EventLog) -> None:
        assert train.features is not None
        late = train.features[:, train.schema.late].astype(np.float64)
        known = late[:, -1] > 0
        if train.known is not None:
            known &= train.known <= train.t[-1]
        self.overall = late[known, :-1].mean(0) if known.any() else np.zeros(late.shape[1] - 1)

    def make(self, schema: Schema) -> None:
        pass

    def gather(self, query: Query, history: HistoryView) -> Any:
        return history.target_history(query.src, query.dst)

    def forward(self, inputs: Any, state: None) -> Tensor:  # (q, 1) of values, (q, k) of classes
        count = inputs.count[:, 0]
        said = np.broadcast_to(self.overall, (len(count), len(self.overall)))
        if self.row != "overall":
            chain = EARLIER.index(CHAIN[self.row])
            count = inputs.count[:, chain]
            last = self.row == "pair's last"
            own = inputs.last[:, chain, 0] if last else inputs.mean[:, chain]
            if len(self.overall) > 1:
                trust = TRUST if last else count / (count + DOUBT)
                own = trust * own + (1 - trust) * said
            said = np.where(count > 0, own, said)
        if len(self.overall) > 1:
            said = np.log(np.maximum(said, 1e-6))
        return torch.from_numpy(said.astype(np.float32))
