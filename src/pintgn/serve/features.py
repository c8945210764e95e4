"""Features of events as clients give them, encoded as the log was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pintgn.errors import BadInput, UnknownName
from pintgn.events.schema import ADD, NODE, Feature, Schema
from pintgn.serve.words import only, shown


class Features:
    """Reads features by name or by place, for logs of one schema; marks deletions and node events."""

    def __init__(self, schema: Schema):
        self.schema = schema

    def __call__(self, given: list | None, op: np.ndarray | None, count: int, first: int = 0) -> np.ndarray | None:
        """A row for each event; `first` is the number of the first one, for messages."""
        schema = self.schema
        if not schema.width:
            for row, values in enumerate(given or [], first):
                if values:
                    raise UnknownName(f"event {row} has features; this run was trained without any. Leave them out.")
                if values is not None and not isinstance(values, list | dict):
                    raise BadInput(f"event {row} has features={shown(values)}; leave them out.")
            return None
        given = [None] * count if given is None else given
        found = np.zeros((count, schema.width), np.float32)
        adds = list(range(count)) if op is None else np.flatnonzero(op == ADD).tolist()
        rest = [] if op is None else np.flatnonzero(op != ADD).tolist()
        with np.errstate(over="ignore"):
            encoded = self._encoded([given[row] for row in adds], [first + row for row in adds])
            if schema.features:
                found[adds, : schema.feature_width] = encoded
            for row in rest:
                self._mark(found[row], first + row, given[row], op[row] == NODE)  # type: ignore[index]
        if not np.isfinite(found).all():
            row = first + int(np.argwhere(~np.isfinite(found))[0, 0])
            raise BadInput(f"event {row} has a feature that does not fit in single precision.")
        return found

    def _mark(self, found: np.ndarray, row: int, given: Any, node: bool) -> None:  # found: (width,)
        """A deletion or node event: marked, and with what it carries; features of its own are optional."""
        schema, width = self.schema, self.schema.feature_width
        found[width + (1 if node else 0)] = 1
        carries = schema.node_updates if node else ()
        if given is None and not carries:
            return
        if not isinstance(given, dict):
            raise BadInput(f"event {row}: a {'node event' if node else 'deletion'} gives its features by name.")
        only(given, [*(f.name for f in schema.features), *carries], f"event {row}")
        missing = [name for name in carries if name not in given]
        if missing:
            raise BadInput(f"event {row} has no {missing[0]!r}; a node event carries {', '.join(carries)}.")
        if carries:
            found[width + 2 :] = [_number(given[name], name, row) for name in carries]
        named = [f.name for f in schema.features]
        if named and all(name in given for name in named):
            own = {name: given[name] for name in named}
            found[:width] = self._encoded([own], [row])[0]

    def _encoded(self, given: list[Any], rows: list[int]) -> np.ndarray:  # (e, feature_width)
        features = self.schema.features
        if not given:
            return np.zeros((0, self.schema.feature_width), np.float32)
        kinds = set(map(type, given))
        if kinds == {list}:
            columns = self._listed(given, rows)
        elif kinds == {dict}:
            columns = self._named(given, rows)
        elif kinds == {list, dict}:
            parts = [self._encoded([one], [row]) for one, row in zip(given, rows, strict=True)]
            return np.concatenate(parts)
        else:
            wrong = next(k for k, one in enumerate(given) if not isinstance(one, list | dict))
            if given[wrong] is None and not features:
                return np.zeros((len(given), 0), np.float32)
            raise BadInput(
                f"event {rows[wrong]} has no features; this run expects {', '.join(f.name for f in features)}."
            )
        if all(feature.kind == "number" for feature in features) and features:
            made = _matrix(columns)
            if made is not None:
                return made
        encoded = [encode(f, column, rows) for f, column in zip(features, columns, strict=True)]
        return np.concatenate(encoded, 1) if encoded else np.zeros((len(given), 0), np.float32)

    def _listed(self, given: list[list[Any]], rows: list[int]) -> list[Sequence[Any]]:
        features = self.schema.features
        if set(map(len, given)) != {len(features)}:
            wrong = next(k for k, one in enumerate(given) if len(one) != len(features))
            names = ", ".join(f.name for f in features[:8]) + (", …" if len(features) > 8 else "")
            raise BadInput(
                f"event {rows[wrong]} has {len(given[wrong])} features; {len(features)} are expected: {names}."
            )
        return list(zip(*given, strict=True))

    def _named(self, given: list[dict[str, Any]], rows: list[int]) -> list[Sequence[Any]]:
        features = self.schema.features
        known = [feature.name for feature in features]
        for one, row in zip(given, rows, strict=True):
            if len(one) != len(known) or not one.keys() <= set(known):
                if not known and one:
                    raise UnknownName(f"event {row} has features; this run was trained without any. Leave them out.")
                only(one, known, f"event {row}", "feature")
                missing = next(name for name in known if name not in one)
                raise BadInput(f"event {row} has no feature {missing!r}; this run expects {', '.join(known)}.")
        return [[one[name] for one in given] for name in known]


def encode(feature: Feature, values: Sequence[Any], rows: list[int]) -> np.ndarray:  # (e, width of the feature)
    """One feature of some events as numbers; a category never seen in training counts as none of the known ones."""
    if feature.kind == "number":
        return np.array([[_number(v, feature.name, row)] for v, row in zip(values, rows, strict=True)])
    place = {category: k for k, category in enumerate(feature.categories)}
    for value, row in zip(values, rows, strict=True):
        if not isinstance(value, str | int | float):
            raise BadInput(f"event {row}: {feature.name!r} is a category, given {shown(value)}.")
    codes = np.array([place.get(value, -1) for value in values], np.int64)
    if feature.kind == "code":
        return (codes + 1)[:, None].astype(np.float64)
    return (codes[:, None] == np.arange(len(feature.categories))).astype(np.float64)


def _matrix(columns: list[Sequence[Any]]) -> np.ndarray | None:
    """Number columns at once; None when some value is not a number, and it has to be found."""
    for column in columns:
        if not set(map(type, column)) <= {int, float}:
            return None
    try:
        return np.array(columns, np.float64).T
    except OverflowError:
        return None


def _number(value: Any, name: str, row: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 3.4e38:
        raise BadInput(f"event {row}: {name!r} is a finite number in single precision, given {shown(value)}.")
    return float(value)
