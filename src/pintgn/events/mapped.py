"""Logs that are mapped, not read: an Arrow file whose columns lie on disk as they lie in memory.

Parquet is for others, and a tenth of the size. A hundred million events take half a minute to read from it, because
every id is looked up and every page unpacked; an Arrow file takes as long as its checksum does, and its columns share
the memory of every process that has mapped them. Any Arrow reader can read it: `src` and `dst` are dictionaries of the
users' ids, whose indices are the node numbers.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadFile
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import SHAPE, Schema
from pintgn.events.seal import check_seal, seal
from pintgn.events.table import times
from pintgn.facts import AtLeast, check, check_format, parse, reading

FORMAT = 1
METADATA = {
    "format": AtLeast(1),
    "schema": SHAPE,
    "events": AtLeast(0),
    "first": AtLeast(0),
    "nodes": AtLeast(0),
    "plain_ids": bool,
    "columns": [str],
    "fingerprint": str,
}
"""What an Arrow file says about its log."""
AGAIN = "Save the log again."
KEY, TABLE_KEY = b"pintgn", b"pintgn.%s"
ENDING = ".arrow"
TABLES = ("node_features", "node_updates", "side")
"""What is not one row for each event; stands in the metadata."""


def save_mapped(log: EventLog, part: Path) -> None:
    """Write a log as an Arrow file with a seal, in one batch without compression."""
    ends = [pa.array(column) for column in (log.src, log.dst)]
    if log.ids.ids is not None:
        ends = [pa.DictionaryArray.from_arrays(column, log.ids.ids, safe=False) for column in ends]
    columns = {"src": ends[0], "dst": ends[1], "t": times(log.t, log.schema.time)}
    columns |= {name: pa.array(column) for name in ("op", "label") if (column := getattr(log, name)) is not None}
    if log.features is not None and log.features.shape[1]:
        values = pa.array(np.ascontiguousarray(log.features).reshape(-1))
        columns["features"] = pa.FixedSizeListArray.from_arrays(values, log.features.shape[1])
    metadata = {
        "format": FORMAT,
        "schema": dataclasses.asdict(log.schema),
        "events": len(log),
        "first": log.first,
        "nodes": log.nodes,
        "plain_ids": log.ids.ids is None,
        "columns": [name for name in ("features", "op", "label") if getattr(log, name) is not None],
        "fingerprint": log.fingerprint,
    }
    stored = {KEY: json.dumps(metadata).encode()}
    for name, array in _tables(log).items():
        stored[TABLE_KEY % name.encode()] = base64.b64encode(_packed(array))
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    schema = batch.schema.with_metadata(stored)
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(stored))
    seal(part)


def open_mapped(path: Path) -> EventLog:
    """A log written by `save_mapped`; its columns stay on disk until they are looked at."""
    if not check_seal(path):
        raise BadFile(f"{path.name} is an Arrow file of others. Read it with pyarrow, and pass the table.")
    with reading(path, AGAIN):
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        stored = reader.schema.metadata or {}
        what = f"the metadata of {path.name}"
        metadata = parse(stored[KEY], {"format": AtLeast(1)}, what, AGAIN)
        check_format(metadata["format"], FORMAT, path.name, "Read the original data again.")
        check(metadata, METADATA, what, AGAIN)
        batch = reader.get_batch(0)
        batch.validate()
        columns: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
        schema = Schema.from_json(json.dumps(metadata["schema"]))
        tables = {name: _unpacked(stored.get(TABLE_KEY % name.encode())) for name in TABLES}
        ids = None
        if not metadata["plain_ids"]:
            ids = columns["src"].dictionary
            columns |= {end: columns[end].indices for end in ("src", "dst")}
        found: dict[str, Any] = {name: _numbers(columns[name]) for name in ("src", "dst")}
        found["t"] = _numbers(
            columns["t"].view(pa.int64()) if pa.types.is_timestamp(columns["t"].type) else columns["t"]
        )
        found |= {name: _numbers(columns[name]) for name in ("op", "label") if name in metadata["columns"]}
        if "features" in metadata["columns"]:
            width = schema.feature_width
            values = _numbers(columns["features"].flatten()) if width else np.zeros(0, np.float32)
            found["features"] = values.reshape(len(batch), width)
        log = EventLog(
            **found, node_features=tables["node_features"], node_updates=tables["node_updates"],
            ids=IdMap(ids, tables["side"], metadata["nodes"]), schema=schema,
        )  # fmt: skip
        log.features = found.get("features")  # of the very type that was saved
    if (len(log), log.nodes) != (metadata["events"], metadata["nodes"]):
        raise BadFile(f"{path.name} was changed after pintgn saved it. {AGAIN}")
    log.first = metadata["first"]
    log.__dict__["fingerprint"] = metadata["fingerprint"]
    return log


def mapped_schema(path: Path) -> Schema:
    """The schema of a log written by `save_mapped`, without its events."""
    with reading(path, AGAIN), pa.memory_map(str(path)) as file:
        metadata = json.loads((pa.ipc.open_file(file).schema.metadata or {})[KEY])
        return Schema.from_json(json.dumps(metadata["schema"]))


def _numbers(values: pa.Array) -> np.ndarray:
    return values.to_numpy(zero_copy_only=not pa.types.is_boolean(values.type))


def _tables(log: EventLog) -> dict[str, np.ndarray]:
    found = {"node_features": log.node_features, "node_updates": log.node_updates, "side": log.ids.side}
    return {name: array for name, array in found.items() if array is not None}


def _packed(array: np.ndarray) -> memoryview | bytes:
    """An array as an Arrow stream, zstd."""
    shape = pa.schema([("values", pa.from_numpy_dtype(array.dtype))], {b"shape": json.dumps(array.shape).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, shape, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch([pa.array(np.ascontiguousarray(array).reshape(-1))], schema=shape))
    return sink.getvalue()


def _unpacked(stored: bytes | None) -> np.ndarray | None:
    if stored is None:
        return None
    with pa.ipc.open_stream(base64.b64decode(stored, validate=True)) as reader:
        values = reader.read_all().combine_chunks()["values"]
        shape = json.loads(reader.schema.metadata[b"shape"])
    return (values.chunk(0).to_numpy() if values.num_chunks else np.zeros(0, np.float32)).reshape(shape)
