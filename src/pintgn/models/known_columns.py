"""What is known when something is asked about two nodes, as named columns: one block for every model.

Pair history (`pair_features`), aggregates (`aggregates`), and what the question brings along (`question_features`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from pintgn.events.log import EventLog, Query
from pintgn.events.schema import Schema
from pintgn.models.aggregates import Aggregates
from pintgn.models.history_view import HistoryView, LateFeatures
from pintgn.models.pair_features import COLUMNS, pair_features
from pintgn.models.question_features import asked_columns, asked_names
from pintgn.neighbors.index import NeighborIndex
from pintgn.neighbors.running_sums import RunningSums

SAMPLED, SAMPLED_FROM = 4_096, 200_000
"""Training events whose columns say what is usual, and the newest ones that they are taken from."""
LEAST_DEVIATION = 0.1
"""Columns that hardly ever differ are not blown up …"""
LEAST_OF_AGGREGATES = 0.01
"""… nor are aggregates, many of which are small shares …"""
FURTHEST = 10.0
"""… and whose extremes are cut off, in deviations."""
DROPPED = 0.5
"""Share of the aggregates that a network does not see in a step of training: there may be hundreds of them."""


class KnownColumns:
    """The columns for a schema: which there are (`names`), and what they say of queries (`look_up`).

    Args:
        pair_history: whether pair history is among them.
        windows: of aggregates; None: there are none, but for what was ever known of what is asked.
        unit: what times are divided by.
    """

    def __init__(self, schema: Schema, pair_history: bool, windows: list[float] | None, unit: float):
        self.schema, self.pair_history, self.unit = schema, pair_history, unit
        self.aggregates = None if windows is None else Aggregates(schema, windows, unit)
        self.earlier = self.aggregates is None or not self.aggregates.late.stop
        pair = list(COLUMNS) if pair_history else []
        aggregated = [] if self.aggregates is None else self.aggregates.names
        asked = asked_names(schema, self.earlier)
        self.names = pair + aggregated + asked
        self.aggregated = slice(len(pair), len(pair) + len(aggregated))
        self.asked = slice(self.aggregated.stop, len(self.names))
        self.relation = self.asked.start if schema.relation is not None else None
        """The column that is the number of a relation."""

    def look_up(self, query: Query, history: HistoryView) -> np.ndarray | None:  # (q, a), or (q c, a)
        """The columns of each query; of destinations (q, c), a row for each pair. None if there are none."""
        parts = self._of_nodes(query, history)
        if self.schema.asking is not None:
            parts.append(asked_columns(query, history, self.schema, self.unit, self.earlier))
        return (parts[0] if len(parts) == 1 else np.concatenate(parts, 1)) if self.names else None

    def _of_nodes(self, query: Query, history: HistoryView) -> list[np.ndarray]:
        parts = []
        if self.pair_history:
            src = query.src if query.dst.ndim == 1 else query.src[:, None]
            parts.append(pair_features(src, query.dst, history, self.unit))
        if self.aggregates is not None and self.aggregates.names:
            parts.append(self.aggregates.look_up(query, history))
        return parts

    def usual(self, train: EventLog) -> tuple[np.ndarray, np.ndarray]:  # (a,), (a,)
        """Mean and deviation of every column over training events and, where links are asked about, as many pairs that
        did not meet then."""
        some = train[-SAMPLED_FROM:]
        rows = np.unique(np.linspace(0, len(some) - 1, SAMPLED).astype(np.int64))
        t, asking, others = some.t[rows], self.schema.asking, np.random.default_rng(0).permutation(some.dst[rows])
        history = self._history(some, t)
        given = None
        if asking is not None and asking.given:
            assert some.features is not None
            given = some.features[rows][:, list(asking.given)]
        links = asking is None or not asking.outputs
        asked = [
            Query(some.src[rows], dst, t, given) for dst in ([some.dst[rows], others] if links else [some.dst[rows]])
        ]
        if self.relation is not None:  # its columns stay as they are
            columns = np.concatenate([np.concatenate(self._of_nodes(query, history), 1) for query in asked])
        else:
            columns = np.concatenate([self.look_up(query, history) for query in asked])  # type: ignore[arg-type]
        mean, deviation = np.zeros(len(self.names)), np.ones(len(self.names))
        known = slice(0, columns.shape[1])
        mean[known], deviation[known] = columns.mean(0), np.maximum(columns.std(0), LEAST_DEVIATION)
        deviation[self.aggregated] = np.maximum(columns[:, self.aggregated].std(0), LEAST_OF_AGGREGATES)
        return mean, deviation

    def _history(self, some: EventLog, t: np.ndarray) -> HistoryView:
        """The past of some of the events, as of their times, of a log alone."""
        index, features, schema = NeighborIndex(), some.features, self.schema
        index.append(some.src, some.dst, some.t, ties=some.ties)
        history = HistoryView(index, t, np.searchsorted(some.t, t, "left"), None, None)
        if self.aggregates is not None and self.aggregates.summed:
            assert features is not None
            mine = some.learnable
            history.sums = RunningSums(len(self.aggregates.summed), some.t.dtype)
            history.sums.add(some.src[mine], some.dst[mine], some.t[mine], features[mine][:, self.aggregates.summed])
        if schema.asking is not None and schema.asking.late:
            assert features is not None
            late, known = features[:, schema.late], some.t if some.known is None else some.known
            there, targets = late[:, -1] > 0, RunningSums(schema.asking.late - 1, some.t.dtype)
            targets.add(some.src[there], some.dst[there], known[there], late[there, :-1])
            history.late = LateFeatures(schema.late, known, late, targets)
        return history


class Standardize(nn.Module):
    """Columns minus their mean, in units of their deviation; both from the training part, 0 and 1 without one.

    In training, some of the aggregates are left out at random.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, columns: KnownColumns, usual: tuple[np.ndarray, np.ndarray] | None):
        super().__init__()
        width = len(columns.names)
        mean, deviation = (np.zeros(width), np.ones(width)) if usual is None else usual
        self.register_buffer("mean", torch.from_numpy(mean).float())
        self.register_buffer("deviation", torch.from_numpy(deviation).float())
        self.aggregated = columns.aggregated

    def forward(self, columns: Tensor) -> Tensor:
        found = (columns - self.mean) / self.deviation
        if self.aggregated.start < self.aggregated.stop:
            found[:, self.aggregated].clamp_(-FURTHEST, FURTHEST)
            if self.training:  # the same columns for all rows, so that workers agree
                found[:, self.aggregated] *= dropout(torch.ones(found[0, self.aggregated].shape), DROPPED).to(found)
        return found
