"""Feature scaling, fitted on the training part alone: a common scale, so that cents and dollars train alike, and the
categories that occur in training."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pintgn.events.log import EventLog
from pintgn.events.schema import Feature, Schema


@dataclass(frozen=True)
class Vocabulary:
    """The categories of training. One that first occurs later counts as none, as in a later file: otherwise the width
    of a model, or the codes it learns by, would depend on the future."""

    features: tuple[Feature, ...]  # as the log has them
    known: tuple[tuple[int, ...], ...]  # for each feature, which of its categories training has met

    @classmethod
    def of(cls, train: EventLog) -> Vocabulary | None:
        """None where training has met all there are, so that nothing is to be done."""
        if train.features is None:
            return None
        known, start = [], 0
        for feature in train.schema.features:
            columns = train.features[:, start : start + feature.width]
            start += feature.width
            if feature.kind == "onehot":
                met = np.flatnonzero(columns.any(0))
            else:
                met = np.unique(columns[columns > 0]).astype(np.int64) - 1 if feature.kind == "code" else np.arange(0)
            known.append(tuple(met.tolist()))
        made = cls(train.schema.features, tuple(known))
        return None if made.met == made.features else made

    @property
    def met(self) -> tuple[Feature, ...]:
        """The features with the categories of training only."""
        pairs = zip(self.features, self.known, strict=True)
        return tuple(replace(f, categories=tuple(f.categories[k] for k in known)) for f, known in pairs)

    def __str__(self) -> str:
        """A warning that names the categories that count as none."""
        missing = [
            f"{feature.name}={category!r}"
            for feature, known in zip(self.features, self.known, strict=True)
            for k, category in enumerate(feature.categories)
            if k not in known
        ]
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return (
            f"the training part has no {', '.join(missing[:3])}{more}; "
            "what first occurs later counts as none of the known categories."
        )

    def __call__(self, matrix: np.ndarray) -> np.ndarray:
        found, start = [], 0
        for feature, known in zip(self.features, self.known, strict=True):
            columns = matrix[:, start : start + feature.width]
            start += feature.width
            if feature.kind == "onehot":
                columns = columns[:, known]
            elif feature.kind == "code":
                codes = np.zeros(len(feature.categories) + 1, matrix.dtype)
                codes[np.array(known, np.int64) + 1] = np.arange(1, len(known) + 1)
                columns = codes[columns.astype(np.int64)]
            found.append(columns)
        return np.concatenate(found, 1)


@dataclass(frozen=True)
class ColumnScaling:
    """Scaling of each column of a matrix; a scale of 0 leaves it alone."""

    shift: list[float]
    scale: list[float]

    @classmethod
    def of(cls, matrix: np.ndarray, numbers: list[bool]) -> ColumnScaling:
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
    """Fitted scaling of a log's features; None where there is nothing to do."""

    vocabulary: Vocabulary | None = None
    features: ColumnScaling | None = None
    node_updates: ColumnScaling | None = None
    node_features: ColumnScaling | None = None

    @classmethod
    def of(cls, train: EventLog, scale: bool = True) -> Scaling:
        """Categories and statistics of the training part, and of the nodes that occur in it; `scale` off leaves numbers
        as they are."""
        vocabulary = Vocabulary.of(train)
        if not scale:
            return cls(vocabulary)
        found: dict[str, ColumnScaling] = {}
        if train.features is not None and len(train):
            matrix = train.features if vocabulary is None else vocabulary(train.features)
            features = train.schema.features if vocabulary is None else vocabulary.met
            found["features"] = ColumnScaling.of(matrix, [f.kind != "onehot" for f in features for _ in range(f.width)])
        if train.node_updates is not None and len(train.node_updates):
            found["node_updates"] = ColumnScaling.of(train.node_updates, [True] * train.node_updates.shape[1])
        if train.node_features is not None:
            known = np.unique(np.concatenate([train.src, train.dst]))
            found["node_features"] = ColumnScaling.of(train.node_features[known], [True] * train.node_features.shape[1])
        return cls(vocabulary, **found)

    def event_features(self, matrix: np.ndarray) -> np.ndarray:
        """Rows of `EventLog.features` as the model reads them."""
        found = matrix if self.vocabulary is None else self.vocabulary(matrix)
        found = found if self.features is None else self.features(found)
        return found.astype(np.float32, copy=False)  # only now: what is centred and scaled fits

    def schema(self, schema: Schema) -> Schema:
        """A log's schema with the features that the model reads."""
        return schema if self.vocabulary is None else replace(schema, features=self.vocabulary.met)

    def __call__(self, log: EventLog) -> EventLog:
        """The log as the model reads it; everything but features is shared."""
        columns = {} if log.features is None else {"features": self.event_features(log.features)}
        for kind in ("node_updates", "node_features"):
            scale, column = getattr(self, kind), getattr(log, kind)
            if scale is not None and column is not None:
                columns[kind] = scale(column)
        if all(column is getattr(log, kind) for kind, column in columns.items()):
            return log
        return log.with_columns(self.schema(log.schema), **columns)
