"""Training-free baseline for questions with a relation: facts recur."""

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

ROWS = ("recurrency", "strict recurrency", "relaxed recurrency")
TRIPLE, FAR, EVERY = 0, 2, 3  # of `neighbors.relations.LEVELS`


@dataclass(eq=False, repr=False)
class Recurrency(Model):
    """The baseline of *History repeats itself* (Gastinger et al., IJCAI 2024) for (u, relation, v, t).

    Strict: ψ = 2^(-λ age) of the newest occurrence of the very triple, in steps of time; 0 where there was none.
    Relaxed: ξ, the share of v among everything that happened by the relation. Combined: α ψ + (1 - α) ξ, with λ and α
    of each relation and direction by validation (`learn.tasks.relation`).

    Differs from the published one in what is counted as a step: the median time between two distinct times of the
    training part.

    Args:
        row: which of `ROWS`.
    """

    row: str = "recurrency"
    answers_columns = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("row", self.row, ROWS)
        self.step = 1.0
        self.decay, self.trust = np.ones(1), np.full(1, 0.999)  # of every relation, or of all

    def prepare(self, train: EventLog) -> None:
        times = train.t[train.group_starts]
        self.step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0

    def make(self, schema: Schema) -> None:
        pass

    def gather(self, query: Query, history: HistoryView) -> Any:
        assert query.given is not None
        relation = query.given[:, 0].astype(np.int64)
        return relation, history.relation_history(query.src, relation, query.dst)

    def parts(self, inputs: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether each triple happened, how many steps ago, and ξ."""
        _, found = inputs
        share = found.count[:, FAR] / np.maximum(found.count[:, EVERY], 1)
        return found.count[:, TRIPLE] > 0, found.dt[:, TRIPLE] / self.step, share

    def forward(self, inputs: Any, state: None) -> Tensor:  # (q,) float64
        met, age, share = self.parts(inputs)
        relation = inputs[0] if len(self.decay) > 1 else 0
        strict = np.exp2(-self.decay[relation] * age) * met
        trust = {"strict recurrency": 1.0, "relaxed recurrency": 0.0}.get(self.row, self.trust[relation])
        return torch.from_numpy(trust * strict + (1 - trust) * share)
