"""How the column that is to be predicted is read: what it holds decides, and it may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pintgn.events.columns import plain, try_cast
from pintgn.ingest.feature_columns import trimmed
from pintgn.ingest.sources import Source


def read_predicted(
    source: Source,
    predict: str | int,
    label: str | int | None,
    features: str | Sequence[str | int] | None,
    categorical: Sequence[str | int],
    encoding: str | Mapping[str, str],
) -> tuple[str | int | None, Any, Sequence[str | int], str | Mapping[str, str]]:
    """Label, features, categorical and encoding with the column to be predicted: numbers are the label, which may be
    missing and is kept in full, all else is a feature in codes."""
    name = source.column(predict)
    named = list(source.names if features == "all" else features or ())
    if label is not None and source.column(label) == name:
        label = None
    values = plain(next(iter(source.batches([name]))).column(0))
    text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    numbers = any(kind(values.type) for kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null))
    if text:  # also where nothing is filled in
        numbers = try_cast(trimmed(values), pa.float64()) is not None
    if numbers and name not in source.columns(categorical) and label is None:
        others = features if features == "all" else [one for one in named if source.column(one) != name]
        return name, others, categorical, encoding
    if features != "all" and name not in source.columns(named):
        named.append(name)
    if isinstance(encoding, str):
        encoding = dict.fromkeys(source.columns(named), encoding) | {name: "code"}
    if not numbers and not text and not pa.types.is_boolean(values.type):
        categorical = [*categorical, name]
    return label, features if features == "all" else named, categorical, {name: "code"} | dict(encoding)
