"""PINT and boosted trees on the same columns, their answers weighed against each other."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pintgn.errors import BadInput
from pintgn.events.log import EventLog
from pintgn.events.schema import Schema
from pintgn.models.boosted import Boosted
from pintgn.models.node_memory import MemoryState
from pintgn.models.pint import PINT
from pintgn.models.trees import Ranking, Trees


@dataclass(eq=False, repr=False)
class PINTAndTrees(PINT):
    """PINT (`PINT`) and gradient-boosted trees (`Boosted`): a logit, or a value, is a weighted mean of the two.

        z = (1 - s) z_PINT + s z_trees

    The network is trained first, as if alone; then the trees are grown on what its readout is told of a pair
    (`known_columns`), and `trees_share`, here s, is the best on validation (`learn.stack`); the mean and the quantiles
    of a value have one each. Nothing is looked up twice.

    Args:
        rounds, leaves, shrinkage, least_rows: of the trees; see `Boosted`.
        dim, layers, neighbors, positions, positions_at, positions_transform: see `TreeModel`.
        memory, memory_cell, memory_aggregate, historical, time_unit: see `TreeModel`.
        beta, learn_beta: see `PINT`.

    >>> import pintgn
    >>> pintgn.PINTAndTrees(rounds=100)
    PINTAndTrees(rounds=100)
    """

    with_trees = True

    pair_history: bool = True
    aggregates: bool = True
    rounds: int = 1_000
    leaves: int = 15
    shrinkage: float = 0.05
    least_rows: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.pair_history:
            raise BadInput("pint+trees needs pair_history=True: its trees know nothing else. Use pint without.")
        self.boosted = Boosted(
            time_unit=self.time_unit,
            rounds=self.rounds,
            leaves=self.leaves,
            shrinkage=self.shrinkage,
            least_rows=self.least_rows,
            historical=self.historical,
            aggregates=self.aggregates,
            windows=self.windows,
        )

    def make(self, schema: Schema) -> None:
        super().make(schema)
        self.boosted.build(schema)
        values = schema.asking is not None and schema.asking.values
        self.register_buffer("trees_share", torch.zeros(self.answer_shape(1)[-1] if values else ()))

    def prepare(self, train: EventLog) -> None:
        super().prepare(train)
        self.boosted.windows = self.windows  # type: ignore[assignment]

    def forward(self, inputs: Trees, state: MemoryState | None) -> Tensor:  # (q,) or (q, questions)
        answer = super().forward(inputs, state)
        return torch.lerp(answer, self._of_trees(inputs, answer), self.trees_share) if self._trees_count() else answer

    def rank(self, inputs: Ranking, state: MemoryState | None) -> Tensor:  # (q, c)
        answer = super().rank(inputs, state)
        if not self._trees_count():
            return answer
        found = self.answer(self._of_trees(inputs, answer), "anyone")
        return torch.lerp(answer, found.view(answer.shape), self.trees_share)

    def _trees_count(self) -> bool:
        """Whether trees have a say. Without any, as while the network learns, no device is waited for."""
        grown: Tensor = self.boosted.trees  # type: ignore[assignment]
        return len(grown) > 0 and bool(self.trees_share.any())

    def _of_trees(self, inputs: Trees | Ranking, like: Tensor) -> Tensor:
        """What the trees answer to the columns that the readout is told."""
        return self.boosted(inputs.known, None).to(like)
