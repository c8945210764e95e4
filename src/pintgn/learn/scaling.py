"""Features on a common scale, by the training part alone: cents and dollars train alike."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from pintgn.events.log import EventLog

KINDS = ("features", "node_updates", "node_features")


@dataclass(frozen=True)
class Columns:
    """How each column of a matrix is brought to scale; a scale of 0 leaves it alone."""

    shift: list[float]
    scale: list[float]

    @classmethod
    def of(cls, matrix: np.ndarray, numbers: list[bool]) -> Columns:
        """From the rows of the training part. Columns that are 0 or 1 only, or not `numbers`, are left alone."""
        wide = matrix.astype(np.float64)
        shift, scale = wide.mean(0), wide.std(0)
        scale = np.where(scale > 0, scale, 1.0)
        alone = ((wide == 0) | (wide == 1)).all(0) | ~np.array(numbers, bool)
        return cls(np.where(alone, 0, shift).tolist(), np.where(alone, 0, scale).tolist())

    def __call__(self, matrix: np.ndarray) -> np.ndarray:
        """asinh((x - mean) / std): linear around the mean, logarithmic far away, so that no outlier drowns the rest."""
        scale = np.array(self.scale)
        used = scale > 0
        if not used.any():
            return matrix
        found = matrix.copy()
        found[:, used] = np.arcsinh((matrix[:, used] - np.array(self.shift)[used]) / scale[used])
        return found


@dataclass(frozen=True)
class Scaling:
    """What was learned about the features of a log; None where there are none."""

    features: Columns | None = None
    node_updates: Columns | None = None
    node_features: Columns | None = None

    @classmethod
    def of(cls, train: EventLog) -> Scaling:
        """Statistics of the training part, and of the nodes that occur in it."""
        found: dict[str, Columns] = {}
        if train.features is not None and len(train):
            numbers = [f.kind != "onehot" for f in train.schema.features for _ in range(f.width)]
            found["features"] = Columns.of(train.features, numbers)
        if train.node_updates is not None and len(train.node_updates):
            found["node_updates"] = Columns.of(train.node_updates, [True] * train.node_updates.shape[1])
        if train.node_features is not None:
            known = np.unique(np.concatenate([train.src, train.dst]))
            found["node_features"] = Columns.of(train.node_features[known], [True] * train.node_features.shape[1])
        return cls(**found)

    def __call__(self, log: EventLog) -> EventLog:
        """The log with its features to scale; everything else is shared."""
        columns = {kind: getattr(log, kind) for kind in KINDS}
        for kind in KINDS:
            scale = getattr(self, kind)
            if scale is not None and columns[kind] is not None:
                columns[kind] = scale(columns[kind])
        if all(columns[kind] is getattr(log, kind) for kind in KINDS):
            return log
        scaled = EventLog(
            log.src, log.dst, log.t, label=log.label, op=log.op, ids=log.ids, schema=log.schema, **columns
        )
        scaled.first = log.first
        return scaled

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Scaling:
        raw = json.loads(text)
        return cls(**{kind: None if raw[kind] is None else Columns(**raw[kind]) for kind in KINDS})
