"""Encoding of single events' features, by name or in order, for a log of known schema."""

from __future__ import annotations

import json
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.categories import hashes, signs
from pintgn.events.schema import ADD, NODE, Feature, Schema

LARGEST = float(np.finfo(np.float32).max)
Unseen = Callable[[str, Any], None]


def encode_features(
    given: list[Any] | None,
    op: np.ndarray | None,
    count: int,
    schema: Schema,
    unseen: Unseen | None = None,
    optional: str | None = None,
    wide: Collection[str] = (),
) -> np.ndarray | None:  # (e, schema.width)
    """Features of events as `EventLog.marked_features` has them; None where the log has none.

    Args:
        given: of each event a dict by name, a list in the log's order, or None.
        op: what each event does; None where all are additions. Others are marked, and need no features of their own.
        unseen: called with a feature's name and a category that training never met, which counts as none.
        optional: a feature that may be missing: NaN, or no category.
        wide: features that are float64 in the log; where there are any, the matrix is, too.
    """
    if not schema.width:
        for row, values in enumerate(given or []):
            if values:
                raise UnknownName(f"event {row} has features; this run was trained without any. Leave them out.")
        return None
    given = [None] * count if given is None else given
    found = np.zeros((count, schema.width), np.float64 if wide else np.float32)
    adds = list(range(count)) if op is None else np.flatnonzero(op == ADD).tolist()
    found[adds, : schema.feature_width] = _encoded([given[row] for row in adds], adds, schema, unseen, optional)
    for row in [] if op is None else np.flatnonzero(op != ADD).tolist():
        _mark(found[row], row, given[row], op[row] == NODE, schema)  # type: ignore[index]
    if wide:
        owner = [feature.name for feature in schema.features for _ in range(feature.width)]
        narrow = [k for k in range(schema.width) if k >= len(owner) or owner[k] not in wide]
        found[:, narrow] = found[:, narrow].astype(np.float32)  # as the log has them
    return found


def value_from_text(name: str, text: str, schema: Schema) -> Any:
    """The value of a feature that was written as text: a number, or the category that is written so.

    >>> schema = Schema(features=(Feature("amount"), Feature("web", "onehot", (False, True))))
    >>> value_from_text("amount", "2.5", schema), value_from_text("web", "True", schema)
    (2.5, True)
    """
    feature = next((one for one in schema.features if one.name == name), None)
    if feature is None:
        return text  # who reads it says which there are
    if feature.kind == "number":
        try:
            return float(text)
        except ValueError:
            raise BadInput(f"{name}={text!r}: {name} is a number.") from None
    return next((one for one in feature.categories if str(one).lower() == text.lower()), text)


def _mark(found: np.ndarray, row: int, given: Any, node: bool, schema: Schema) -> None:  # found: (width,)
    """A deletion or node event: marked, and with what it carries."""
    width = schema.feature_width
    found[width + (1 if node else 0)] = 1
    carries = schema.node_updates if node else ()
    if given is None and not carries:
        return
    if not isinstance(given, Mapping):
        raise BadInput(f"event {row}: a {'node event' if node else 'deletion'} gives its features by name.")
    named = [feature.name for feature in schema.features]
    only(given, [*named, *carries], f"event {row}")
    missing = [name for name in carries if name not in given]
    if missing:
        raise BadInput(f"event {row} has no {missing[0]!r}; a node event carries {', '.join(carries)}.")
    if carries:
        found[width + 2 :] = [_number(given[name], name, row) for name in carries]
    if named and all(name in given for name in named):
        found[:width] = _encoded([{name: given[name] for name in named}], [row], schema)[0]


def _encoded(
    given: list[Any], rows: list[int], schema: Schema, unseen: Unseen | None = None, optional: str | None = None
) -> np.ndarray:  # (e, feature_width)
    features = schema.features
    known = [feature.name for feature in features]
    columns: list[list[Any]] = [[] for _ in features]
    order = {name: k for k, name in enumerate(known)}
    for one, row in zip(given, rows, strict=True):
        if optional is not None and (one is None or isinstance(one, Mapping)):
            one = {optional: None} | dict(one or {})
        if isinstance(one, Mapping):
            if one.keys() != order.keys():
                _wrong_names(one, known, row)
            one = [one[name] for name in known]
        elif one is None and not features:
            one = []
        elif not isinstance(one, list | tuple):
            what = "no features" if one is None else f"features={as_text(one)}"
            raise BadInput(f"event {row} has {what}; this run expects {_some(known)}.")
        if len(one) != len(known):
            raise BadInput(f"event {row} has {len(one)} features; {len(known)} are expected: {_some(known)}.")
        for column, value in zip(columns, one, strict=True):
            column.append(value)
    parts = [
        (_optional_column if feature.name == optional else _encoded_column)(feature, column, rows, unseen)
        for feature, column in zip(features, columns, strict=True)
    ]
    return np.concatenate(parts, 1) if parts else np.zeros((len(given), 0), np.float32)


def _encoded_column(
    feature: Feature, values: Sequence[Any], rows: list[int], unseen: Unseen | None
) -> np.ndarray:  # (e, feature.width)
    if feature.kind == "number":
        if not set(map(type, values)) <= {int, float} or (values and not max(map(abs, values)) <= LARGEST):
            values = [_number(value, feature.name, row) for value, row in zip(values, rows, strict=True)]
        return np.array(values, np.float64)[:, None]
    for value, row in zip(values, rows, strict=True):
        if not isinstance(value, str | int | float | np.generic):
            raise BadInput(f"event {row}: {feature.name!r} is a category, given {as_text(value)}.")
    if feature.kind == "hash":
        bits = signs(hashes(values))
        bits[[value == "" for value in values]] = 0
        return bits
    code_of = {category: k for k, category in enumerate(feature.categories, 1)}
    codes = np.array([code_of.get(value, 0) for value in values], np.int64)
    if unseen is not None and not codes.all():
        unseen(feature.name, values[int(np.argmin(codes))])
    if feature.kind == "code":
        return codes[:, None].astype(np.float64)
    return (codes[:, None] == np.arange(1, len(feature.categories) + 1)).astype(np.float64)


def _optional_column(
    feature: Feature, values: Sequence[Any], rows: list[int], unseen: Unseen | None
) -> np.ndarray:  # (e, feature.width)
    """A column that may be missing: NaN of numbers, no category of others."""
    there = [k for k, value in enumerate(values) if value is not None and value != ""]
    found = np.full((len(values), feature.width), np.nan if feature.kind == "number" else 0.0)
    found[there] = _encoded_column(feature, [values[k] for k in there], [rows[k] for k in there], unseen)
    return found


def _number(value: Any, name: str, row: int) -> float:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not -LARGEST <= value <= LARGEST:  # compared before it is converted: a whole number may be huge
        raise BadInput(f"event {row}: {name!r} is a finite number in single precision, given {as_text(value)}.")
    return float(value)


def _wrong_names(given: Mapping[str, Any], known: list[str], row: int) -> None:
    if not known:
        raise UnknownName(f"event {row} has features; this run was trained without any. Leave them out.")
    only(given, known, f"event {row}", "feature")
    missing = next(name for name in known if name not in given)
    raise BadInput(f"event {row} has no feature {missing!r}; this run expects {_some(known)}.")


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def only(given: Mapping[str, Any], known: Sequence[str], what: str, kind: str = "field") -> None:
    """Refuse unknown names, with the near miss."""
    for name in given:
        if name not in known:
            raise UnknownName(f"{what} has a {kind} {as_text(name)}, which is unknown.{suggest(name, known)}")


def as_text(value: Any) -> str:
    """A value in an error message: short, and harmless to print."""
    try:
        text = json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        text = f"something of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"
