"""Columns as targets: values as numbers, categories in the users' own words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.events.log import EventLog
from pintgn.learn.settings import TaskSettings

FEW_VALUES = 10
"""Whole numbers that a column may hold before it is worth a word that it is regressed."""


def few_values(log: EventLog, settings: TaskSettings) -> str | None:
    """A note on a column of few whole numbers, which are often classes; None on any other."""
    if not settings.asks_column or column_words(log, name := settings.predict) is not None:
        return None
    values = column_values(log, name)
    found = np.unique(values[~np.isnan(values)])
    if not 2 < len(found) <= FEW_VALUES or (found % 1).any():
        return None
    return (
        f"{name} holds {len(found)} whole numbers, {found[0]:.0f} to {found[-1]:.0f}, and is regressed as a number. If "
        f"they are classes: Columns(categorical=[{name!r}]) (--categorical {name})."
    )


def without_column(log: EventLog, name: str) -> EventLog:
    """A log without one of its features."""
    start = 0
    for feature in log.schema.features:
        if feature.name == name:
            assert log.features is not None
            kept = np.delete(log.features, slice(start, start + feature.width), 1)
            features = tuple(other for other in log.schema.features if other.name != name)
            schema = dataclasses.replace(log.schema, features=features)
            return log.with_columns(schema, features=kept if features else None)
        start += feature.width
    return log


def column_values(log: EventLog, name: str, what: str = "to predict") -> np.ndarray:  # (e,)
    """A column of a log as numbers: values, or numbers of categories from 0 on; NaN where it is missing."""
    start = 0
    for feature in log.schema.features:
        if feature.name == name:
            assert log.features is not None
            columns = log.features[:, start : start + feature.width]
            if feature.kind == "number":
                return columns[:, 0].astype(np.float64)
            if feature.kind == "hash":
                raise BadInput(
                    f"{name!r} was read as bits of a hash, from which classes cannot be told. Read it with "
                    f"Columns(encoding={{{name!r}: 'code'}}) (--encoding {name}=code)."
                )
            codes = columns[:, 0] if feature.kind == "code" else columns @ np.arange(1, feature.width + 1)
            return np.where(codes > 0, codes - 1.0, np.nan)
        start += feature.width
    if log.schema.label == name and log.label is not None:
        return np.asarray(log.label, np.float64)
    known = [feature.name for feature in log.schema.features] + ([log.schema.label] if log.schema.label else [])
    listed = f" Columns that can be {'predicted' if what == 'to predict' else 'used'}: {', '.join(known)}."
    listed = listed if known else " This log was read without any."
    near = suggest(name, ["link", *known] if what == "to predict" else known)
    raise UnknownName(
        f"there is no column {name!r} {what}.{near}{listed} "
        "Name it in features= (--features) or label= (--label) when reading the log."
    )


def column_words(log: EventLog, name: str) -> tuple[Any, ...] | None:
    """The categories of a column, in order; None of one that holds numbers."""
    found = [feature for feature in log.schema.features if feature.name == name and feature.kind != "number"]
    return found[0].categories if found else None
