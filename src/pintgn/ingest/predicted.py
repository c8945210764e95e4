"""How the column that is to be predicted is read: what it holds decides, and it may be missing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from pintgn.events.columns import is_text, plain, try_cast
from pintgn.ingest.feature_columns import trimmed
from pintgn.ingest.read_options import Columns
from pintgn.ingest.table_source import Source


def read_predicted(
    source: Source, label: str | int | None, features: Any, columns: Columns
) -> tuple[str | int | None, Any, Columns]:
    """Label, features and columns with the one to be predicted: numbers are the label, which may be missing and is kept
    in full, all else is a feature in codes."""
    name = source.column(columns.predict)  # type: ignore[arg-type]
    named = list(source.names if features == "all" else features or ())
    if label is not None and source.column(label) == name:
        label = None
    values = plain(next(iter(source.batches([name]))).column(0))
    text = is_text(values.type)
    numbers = any(kind(values.type) for kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null))
    if text:  # also where nothing is filled in
        numbers = try_cast(trimmed(values), pa.float64()) is not None
    if numbers and name not in source.columns(columns.categorical) and label is None:
        others = features if features == "all" else [one for one in named if source.column(one) != name]
        return name, others, columns
    if features != "all" and name not in source.columns(named):
        named.append(name)
    encoding, categorical = columns.encoding, columns.categorical
    if isinstance(encoding, str):
        encoding = dict.fromkeys(source.columns(named), encoding) | {name: "code"}
    if not numbers and not text and not pa.types.is_boolean(values.type):
        categorical = [*categorical, name]
    columns = dataclasses.replace(columns, categorical=categorical, encoding={name: "code"} | dict(encoding))
    return label, features if features == "all" else named, columns
