"""Users' own ids and features, one at a time, as a running system gets them; wrong ones in one clear line."""

from __future__ import annotations

import numbers
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput, PintgnWarning, UnknownName, suggest
from pintgn.events.columns import Growing
from pintgn.events.ids import IdMap
from pintgn.events.schema import Feature, Schema
from pintgn.events.ties import id_marks


class Names:
    """The id of every node and back, growing while new ids come; a look-up costs the same however many there are."""

    def __init__(self, ids: IdMap):
        self.type, self.two_spaces = ids.type, ids.two_spaces
        self.text = pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
        self.ids: list[Any] = ids.decode().to_pylist()
        self.sides: list[int] = [] if ids.side is None else ids.side.tolist()
        if self.two_spaces:
            self.numbers: list[dict[Any, int]] = [{}, {}]
            for number, (id, side) in enumerate(zip(self.ids, self.sides, strict=True)):
                self.numbers[side][id] = number
        else:
            self.numbers = [{id: number for number, id in enumerate(self.ids)}]
        self._marks = Growing(np.uint64)

    def __len__(self) -> int:
        return len(self.ids)

    def checked(self, id: Any) -> Any:
        """An id in the type of this log's ids."""
        if self.text and isinstance(id, str | uuid.UUID):
            return str(id)
        if not self.text and isinstance(id, numbers.Integral) and not isinstance(id, bool):
            return int(id)
        expected = "text" if self.text else "whole numbers"
        raise BadInput(f"node ids here are {expected}, given {id!r} ({type(id).__name__}).")

    def space(self, side: int) -> dict[Any, int]:
        return self.numbers[side if self.two_spaces else 0]

    def find(self, ids: Iterable[Any], side: int) -> np.ndarray:
        """Node numbers. An id never seen before is a new node: it gets a number of its own for this one question."""
        known = self.space(side)
        strangers: dict[Any, int] = {}
        found = []
        for id in map(self.checked, ids):
            number = known.get(id)
            found.append(strangers.setdefault(id, len(self) + len(strangers)) if number is None else number)
        return np.array(found, np.int64)

    def add(self, src: Sequence[Any], dst: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Node numbers of the ends of events; new ids become nodes, in order, src before dst."""
        pairs = [(self.checked(one), self.checked(other)) for one, other in zip(src, dst, strict=True)]
        numbers_ = [(self._number(one, 0), self._number(other, 1)) for one, other in pairs]
        both = np.array(numbers_, np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def _number(self, id: Any, side: int) -> int:
        space = self.space(side)
        if id not in space:
            space[id] = len(self.ids)
            self.ids.append(id)
            if self.two_spaces:
                self.sides.append(side)
        return space[id]

    @property
    def marks(self) -> np.ndarray:
        """As `IdMap.marks`, of all names so far."""
        known = len(self._marks)
        if known < len(self.ids):
            sides = np.array(self.sides[known:], np.int8) if self.two_spaces else None
            self._marks.extend(id_marks(pa.array(self.ids[known:], self.type), sides))
        return self._marks.values

    def id_map(self) -> IdMap:
        """All names, as logs keep them."""
        return IdMap(pa.array(self.ids, self.type), np.array(self.sides, np.int8) if self.two_spaces else None)


def feature_matrix(given: Sequence[Mapping[str, Any]], schema: Schema) -> np.ndarray | None:
    """Features of events (e, f), given by name for each, encoded as the log was."""
    known = [feature.name for feature in schema.features]
    for row, values in enumerate(given):
        if not isinstance(values, Mapping):
            raise BadInput(f"event {row}: features are given by name, as in {{'{(known or ['amount'])[0]}': 1.0}}.")
        for name in values:
            if name not in known:
                if not known:
                    raise UnknownName(f"event {row} has a feature {name!r}; this run was trained without features.")
                raise UnknownName(f"event {row} has a feature {name!r}, which is unknown.{suggest(name, known)}")
        for name in known:
            if name not in values:
                raise BadInput(f"event {row} has no feature {name!r}; this run expects {', '.join(known)}.")
    if not known:
        return None
    columns = [_encoded(feature, [values[feature.name] for values in given]) for feature in schema.features]
    return np.concatenate(columns, 1).astype(np.float32)


def _encoded(feature: Feature, values: Sequence[Any]) -> np.ndarray:  # (e, width of the feature)
    if feature.kind == "number":
        for row, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, numbers.Real) or not np.isfinite(float(value)):
                raise BadInput(f"event {row}: {feature.name!r} is a finite number, given {value!r}.")
        return np.array(values, np.float64)[:, None]
    place = {category: k for k, category in enumerate(feature.categories)}
    codes = np.array([place.get(value, -1) for value in values], np.int64)
    if (codes < 0).any():
        stranger = values[int(np.argmin(codes))]
        warnings.warn(
            f"{feature.name}={stranger!r} was not in the training data; it counts as none of the known categories.",
            PintgnWarning,
            stacklevel=4,
        )
    if feature.kind == "code":
        return (codes + 1)[:, None].astype(np.float64)
    return (codes[:, None] == np.arange(len(feature.categories))).astype(np.float64)
