"""Gradient-boosted trees on what is known about a pair: what a good data scientist would do instead."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pintgn.errors import BadInput
from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.models.aggregates import checked_windows, chosen_windows
from pintgn.models.base import QUESTIONS, check_least
from pintgn.models.heuristics import Heuristic
from pintgn.models.history_view import HistoryView
from pintgn.models.known_columns import KnownColumns
from pintgn.models.question_features import QUANTILES

SEPARATOR = "\n\x00\n"
"""Between the trees of several boosters."""
HELD_OUT = 0.15
"""The newest part of the rows, by which the number of trees is chosen."""


@dataclass(eq=False, repr=False)
class Boosted(Heuristic):
    """LightGBM on the columns of `pair_features`, which are what PINT's readout knows about a pair.

    Trained like every other model on events and negatives, each row as of its own time, but in one pass without
    gradients (`learn`). Classes are events, random negatives and historical negatives; a logit is that of an event
    minus that of a kind of negatives, as in PINT. How many trees there are is chosen by the newest 15 % of the training
    rows; then as many are grown on all of them. Of a long log, the newest 500,000 events are learned from.

    Until it has learned, a score is the mean of the columns. The embedding of a node is that of `Heuristic`.

    Args:
        rounds: of boosting, at most; each grows a tree for every class.
        leaves: of a tree, at most.
        shrinkage: what a tree's answer is multiplied by.
        least_rows: in a leaf.
        historical: whether there is a logit against pairs that met before, too.
        aggregates, windows: see `TreeModel`.
        time_unit: what times are divided by; the log's own time scale when not given.
    """

    rounds: int = 1_000
    leaves: int = 15
    shrinkage: float = 0.05
    least_rows: int = 50
    historical: bool = True
    aggregates: bool = True
    windows: list[float] | None = None

    trees: Tensor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "rounds", "least_rows")
        check_least(self, 2, "leaves")
        self.windows = checked_windows(self.windows)
        lightgbm()

    @property
    def questions(self) -> tuple[str, ...]:
        return QUESTIONS if self.historical else QUESTIONS[:1]

    def prepare(self, train: EventLog) -> None:
        if self.aggregates and self.windows is None:
            self.windows = chosen_windows(train)

    def make(self, schema: Schema) -> None:
        self.known = KnownColumns(schema, True, list(self.windows or ()) if self.aggregates else None, self.dt_unit)
        self.register_buffer("trees", torch.zeros(0, dtype=torch.uint8))  # LightGBM's own text
        self._booster: list[Any] | None = None

    answers_columns = True

    def gather(self, query: Query, history: HistoryView) -> np.ndarray:  # type: ignore[override]  # (q, a)
        columns = self.known.look_up(query, history)
        assert columns is not None
        return columns

    def forward(self, inputs: np.ndarray, state: None) -> Tensor:  # type: ignore[override]  # (q,) or (q, questions)
        assert self.schema is not None
        if not len(self.trees):
            mean = torch.from_numpy(inputs).mean(1)
            shape = self.answer_shape(len(mean))
            return mean[:, None].expand(shape) if len(shape) > 1 else mean
        if self.schema.asking is not None and self.schema.asking.outputs:
            return torch.from_numpy(self._answers(inputs))
        (booster,) = self._boosters()
        classes = booster.predict(inputs, raw_score=True, num_threads=torch.get_num_threads())
        logits = classes[:, :1] - classes[:, 1:] if self.historical else classes
        return torch.from_numpy(logits.astype(np.float32))

    def columns(self, inputs: np.ndarray, state: None) -> Tensor:  # (q, a)
        return torch.from_numpy(inputs)

    def learn(self, columns: list[Tensor], seed: int) -> None:
        kinds = len(self.questions)
        random, historical = columns[1 : len(columns) - kinds + 1], columns[len(columns) - kinds + 1 :]
        by_class = [columns[:1], random, historical][: 1 + kinds]
        label = np.concatenate([np.full(len(rows), k) for k, some in enumerate(by_class) for rows in some])
        # events and negatives weigh the same, however many negatives an event has
        weight = np.concatenate([np.full(len(rows), 1 / len(some)) for some in by_class for rows in some])
        newness = np.concatenate([np.arange(len(rows)) / max(len(rows), 1) for some in by_class for rows in some])
        x = torch.cat(columns).numpy()
        goal: dict[str, Any] = {"objective": "multiclass" if self.historical else "binary"}
        if self.historical:
            goal["num_class"] = 1 + kinds
        else:
            label = 1 - label
        booster = self._grown(x, label, weight, newness, goal, seed)
        self._keep([booster])

    def learn_answers(self, columns: Tensor, truth: np.ndarray, seed: int) -> None:
        """Classes by their own objective; of a value, its mean and each quantile, so that they need no common scale."""
        assert self.schema is not None
        assert self.schema.asking is not None
        x, kinds = columns.numpy(), self.schema.asking.outputs
        newness = np.arange(len(x)) / max(len(x), 1)
        goals: list[dict[str, Any]] = [{"objective": "multiclass", "num_class": kinds}]
        if self.schema.asking.values:
            goals = [{"objective": "regression"}, *({"objective": "quantile", "alpha": a} for a in QUANTILES)]
        self._keep([self._grown(x, truth, np.ones(len(x)), newness, goal, seed) for goal in goals])

    def _grown(
        self,
        x: np.ndarray,
        label: np.ndarray,
        weight: np.ndarray,
        newness: np.ndarray,
        goal: dict[str, Any],
        seed: int,
    ) -> Any:
        """Trees for a goal; how many is chosen by the newest rows."""
        grown, names = lightgbm(), [_plain(k, name) for k, name in enumerate(self.known.names)]
        options = goal | {
            "num_leaves": self.leaves,
            "learning_rate": self.shrinkage,
            "min_data_in_leaf": self.least_rows,
            "feature_fraction": 0.5,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "num_threads": torch.get_num_threads(),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }

        def data(rows: np.ndarray, of: Any = None) -> Any:
            return grown.Dataset(x[rows], label[rows], weight=weight[rows], feature_name=names, reference=of)

        old = newness < 1 - HELD_OUT
        first = data(old)
        tried = grown.train(
            options,
            first,
            self.rounds,
            [data(~old, first)],
            callbacks=[grown.early_stopping(30, verbose=False)],
        )
        return grown.train(options, data(np.ones(len(x), bool)), max(tried.best_iteration, 1))

    def _keep(self, boosters: list[Any]) -> None:
        text = np.frombuffer(SEPARATOR.join(one.model_to_string() for one in boosters).encode(), np.uint8)
        self.trees, self._booster = torch.from_numpy(text.copy()), None

    def _answers(self, inputs: np.ndarray) -> np.ndarray:  # (q, outputs)
        """What was asked about events: raw scores of classes, or mean and quantiles of a value."""
        threads = torch.get_num_threads()
        found = [one.predict(inputs, raw_score=True, num_threads=threads) for one in self._boosters()]
        return np.column_stack(found).astype(np.float32)

    def _boosters(self) -> list[Any]:
        """What has been learned; one but for values."""
        if self._booster is None:
            texts = self.trees.numpy().tobytes().decode().split(SEPARATOR)
            self._booster = [lightgbm().Booster(model_str=text) for text in texts]
        return self._booster

    def importances(self) -> dict[str, float]:
        """Each known column's share of what the splits gained, the largest first; of a value, of its mean."""
        if not len(self.trees):
            raise BadInput("these trees have learned nothing yet: train first.")
        gained = self._boosters()[0].feature_importance("gain")
        order = np.argsort(-gained, kind="stable")
        return {self.known.names[k]: float(gained[k] / max(gained.sum(), 1e-300)) for k in order}

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """However many trees were saved."""
        if (saved := state_dict.get(f"{prefix}trees")) is not None:
            self.trees, self._booster = torch.empty_like(saved), None
        super()._load_from_state_dict(state_dict, prefix, *args)  # type: ignore[no-untyped-call]


def _plain(number: int, name: str) -> str:
    """A column's name without what LightGBM does not allow there."""
    return re.sub(r"[^\w−]", "_", f"{number} {name}")


def lightgbm() -> Any:
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # OSError: the wheel is there, the system's OpenMP is not
        raise BadInput(f'`boosted` needs LightGBM: pip install "pintgn[boosted]" ({error}).') from None
    return lightgbm
