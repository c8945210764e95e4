"""Logs on disk: one Parquet file that restores exactly, or a CSV in the users' own words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from pintgn.events.ingest import read_events
from pintgn.events.log import EventLog
from pintgn.events.schema import Schema


def to_table(log: EventLog) -> pa.Table:
    columns = {
        log.schema.src: log.ids.decode(log.src),
        log.schema.dst: log.ids.decode(log.dst),
        log.schema.t: pa.array(log.t),
    }
    if log.label is not None:
        columns[log.schema.label or "label"] = pa.array(log.label)
    if log.op is not None:
        columns[log.schema.op or "op"] = pa.array(log.op)
    for number, name in enumerate(log.schema.feature_columns()):
        columns[name] = pa.array(log.features[:, number])  # type: ignore[index]
    return pa.table(columns)


def save(log: EventLog, path: str | Path) -> None:
    table = to_table(log)
    pq.write_table(table.replace_schema_metadata({"pintgn": log.schema.to_json()}), path)


def open_log(path: str | Path) -> EventLog:
    schema = Schema.from_json(pq.read_schema(path).metadata[b"pintgn"].decode())
    return read_events(
        path,
        schema.src,
        schema.dst,
        schema.t,
        features=schema.feature_columns() or None,
        label=schema.label,
        op=schema.op,
    )


def write_events(log: EventLog, path: str | Path, *, delimiter: str = ",") -> None:
    """Write a log as CSV or Parquet (by extension; .csv.gz and .csv.zst too) in the users' own columns."""
    if Path(path).suffix == ".parquet":
        save(log, path)
    else:
        pacsv.write_csv(to_table(log), path, pacsv.WriteOptions(delimiter=delimiter))
