"""Logs on disk: one Parquet file that restores exactly, or a text file in the users' own words."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from pintgn.errors import BadFile, BadInput, suggest
from pintgn.events.checks import frozen
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.mapped import ENDING, mapped_schema, open_mapped, save_mapped
from pintgn.events.schema import FEATURE, SHAPE, Feature, Schema
from pintgn.events.seal import check_seal, seal
from pintgn.events.table import Layout, as_text, check_dates, needs_quotes, to_table, whole_days
from pintgn.facts import AtLeast, Maybe, check, check_format, parse, reading
from pintgn.files import replacing, write_errors
from pintgn.ingest.numbering import UnfitIds
from pintgn.ingest.sources import ParquetSource, open_parquet

__all__ = ["open_log", "save", "saved_by_pintgn", "to_table", "write_events"]

FORMAT = 2
METADATA = {
    "format": AtLeast(1),
    "schema": SHAPE,
    "events": AtLeast(0),
    "first": AtLeast(0),
    "nodes": AtLeast(0),
    "plain_ids": bool,
    "numbers": bool,
    "t": {"<i8", "<f8"},
    "label": (str, None),
    "has_features": bool,
    "has_updates": bool,
    "columns": {
        "all": [str],
        "op": (str, None),
        "label": (str, None),
        "known": Maybe((str, None)),
        "features": [FEATURE],
        "node_updates": [str],
    },
}
"""What the footer says about a log."""
AGAIN = "Save the log again."
COLUMNS = 32
"""Columns of numbers read at once."""
KEY, NODES_KEY = b"pintgn", b"pintgn.nodes"
COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
ENDINGS = (".parquet", ".arrow", ".csv", ".tsv", ".csv.gz", ".csv.zst")


def save(log: EventLog, path: str | Path) -> None:
    """Write one Parquet file that `open_log` restores exactly and any Parquet reader can read; an Arrow file, which is
    mapped instead of read, where the name ends in .arrow (see `mapped`).

    The footer also holds the schema and the node table (ids, sides, features). The file has a seal (see `seal`): one
    that was damaged since is refused. It is written under another name and renamed at the end, so that nobody ever
    sees half of it.
    """
    if Path(path).suffix.lower() == ENDING:
        with writing_table(path) as part:
            save_mapped(log, part)
        return
    layout = Layout(log, exact=True)
    schema = layout.batch(0, 0).schema.with_metadata(_metadata(layout))
    writing = {"compression": "zstd", "use_dictionary": _repeated(layout), "write_page_checksum": True}
    with writing_table(path) as part:
        with pq.ParquetWriter(part, schema, **writing) as writer:
            for batch in layout.batches():
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
        seal(part)


def _repeated(layout: Layout) -> list[str]:
    """Columns worth a dictionary of their values: all but features that hardly ever repeat one."""
    sample = layout.batch(0, min(len(layout.log), 1000))
    features = set(layout.feature_names)
    return [
        name
        for name, column in zip(layout.names, sample.columns, strict=True)
        if name not in features or 2 * len(column.unique()) <= len(column)
    ]


def write_events(log: EventLog, path: str | Path, *, delimiter: str | None = None) -> None:
    """Write a log by the ending of its name: .parquet or .arrow (as `EventLog.save`), .csv or .tsv, these also .gz or
    .zst.

    Text has a header and the users' own ids, categories and times to the last digit. It cannot hold the node
    table, categories that do not occur, or the name of a time zone (times are then in UTC).

    >>> import pintgn, tempfile
    >>> log = pintgn.simulate("repeat", events=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pintgn.write_events(log, f"{folder}/events.parquet")
    ...     pintgn.read_events(f"{folder}/events.parquet") == log
    True
    """
    path = Path(path)
    endings = [ending.lower() for ending in path.suffixes]
    compression = COMPRESSED.get(endings[-1]) if endings else None
    kind = "".join(endings[-2:-1] if compression else endings[-1:])
    if kind in (".parquet", ".pq", ENDING) and not compression:
        return save(log, path)
    if kind not in (".csv", ".tsv", ".txt"):
        raise BadInput(f"{path.name} ends in nothing that pintgn can write.{suggest(''.join(endings), ENDINGS)}")
    delimiter = delimiter or ("\t" if kind == ".tsv" else ",")
    check_dates(log)
    layout, days = Layout(log), whole_days(log)
    options = pacsv.WriteOptions(
        include_header=False, delimiter=delimiter, quoting_style="needed" if needs_quotes(log, delimiter) else "none"
    )
    header = delimiter.join(_quoted(name, delimiter) for name in _headings(layout)) + "\n"
    with writing_table(path) as part, pa.output_stream(str(part), compression=compression) as stream:
        stream.write(header.encode())
        with pacsv.CSVWriter(stream, as_text(layout.batch(0, 0), 2, days).schema, write_options=options) as writer:
            for batch in layout.batches():
                writer.write_batch(as_text(batch, 2, days))
    return None


def saved_by_pintgn(path: Path) -> bool:
    with open_parquet(path) as file:
        return KEY in (file.schema_arrow.metadata or {})


def saved_schema(path: Path) -> Schema:
    """The schema of a log written by `save`, without its events."""
    if path.suffix.lower() == ENDING:
        return mapped_schema(path)
    with open_parquet(path) as file, reading(path, AGAIN):
        return Schema.from_json(json.dumps(json.loads((file.schema_arrow.metadata or {})[KEY])["schema"]))


def open_log(path: str | Path, *, checked: bool = False) -> EventLog:
    """Read a log written by `save`; its seal is checked, unless it has been `checked` already."""
    path = Path(path)
    if not path.exists():
        raise BadFile(f"there is no file {path}.")
    if path.is_dir():
        raise BadFile(f"{path} is a folder; a saved log is one file. Use pintgn.read_events for folders.")
    if path.suffix.lower() == ENDING:
        return open_mapped(path)
    if not checked:
        check_seal(path)
    with open_parquet(path) as file:
        stored = file.schema_arrow.metadata or {}
        names, rows = list(file.schema_arrow.names), file.metadata.num_rows
    if KEY not in stored:
        raise BadFile(f"{path.name} was not saved by pintgn. Use pintgn.read_events to read it by column name.")
    what = f"the metadata of {path.name}"
    metadata = parse(stored[KEY], {"format": AtLeast(1)}, what, AGAIN)
    check_format(metadata["format"], FORMAT, path.name, "Read the original data again.")
    check(metadata, METADATA, what, AGAIN)
    if rows != metadata["events"] or metadata["columns"]["all"] != names:
        raise BadFile(f"{path.name} was changed after pintgn saved it. Use pintgn.read_events with column names.")
    with reading(path, AGAIN):
        schema = Schema.from_json(json.dumps(metadata["schema"]))
        ids, node_features = _read_nodes(stored[NODES_KEY], metadata)
        log = _restore(path, metadata, schema, ids, node_features)
    log.first = metadata["first"]
    return log


def _restore(path: Path, metadata: dict, schema: Schema, ids: IdMap, node_features: np.ndarray | None) -> EventLog:
    from pintgn.ingest.builder import Plan, build

    names, label = metadata["columns"], None
    if metadata["label"] is not None:
        with open_parquet(path) as file:
            values = file.read([names["label"]]).column(0)
        label = values.to_numpy().astype(np.dtype(metadata["label"]), copy=False)
    empty = np.zeros(0, np.int64)
    count = len(ids)
    stored = Schema.from_json(json.dumps(dataclasses.asdict(schema) | {"features": names["features"]})).features
    if not metadata["events"]:
        columns: dict[str, Any] = {
            "features": None,
            "op": np.zeros(0, np.int8) if names["op"] else None,
            "known": np.zeros(0, np.dtype(metadata["t"])) if names.get("known") else None,
            "node_updates": np.zeros((0, len(schema.node_updates)), np.float32) if metadata["has_updates"] else None,
        }
        if metadata["has_features"]:
            columns["features"] = np.zeros((0, schema.feature_width), _feature_type(path, stored))
        t = np.zeros(0, np.dtype(metadata["t"]))
        log = EventLog(empty, empty, t, label=label, node_features=node_features, ids=ids, schema=schema, **columns)
        log.features = columns["features"]  # of the very type that was saved
        return log
    # the stored columns are read like a later file of this very log: same nodes, same encodings, same unit
    features = tuple(feature for feature in stored if feature.kind != "number")
    node_names = IdMap(size=count) if metadata["numbers"] else ids
    as_stored = dataclasses.replace(schema, features=features, label=None, node_features=(), time_scale=1.0)
    like = EventLog.trusted({"src": empty, "dst": empty, "t": empty}, node_names, as_stored)
    plan = Plan(
        src=names["all"][0], dst=names["all"][1], t=names["all"][2], op=names["op"], known=names.get("known"),
        features=[feature.name for feature in features], node_updates=names["node_updates"],
        bipartite=schema.separate_namespaces and not metadata["numbers"], like=like,
    )  # fmt: skip
    try:
        log = build(ParquetSource(path, checked=True), plan).finish()
    except UnfitIds as error:  # the node table names its nodes otherwise than the events do
        raise BadFile(f"the ids in the node table are {error}. {AGAIN}") from error
    if log.nodes != count:
        raise BadFile(f"{path.name} has events of nodes that its node table lacks. Save the log again.")
    matrix = _features(path, stored, log)
    found = EventLog(
        log.src, log.dst, log.t, features=matrix, label=label, known=log.known, op=log.op,
        node_updates=log.node_updates, node_features=node_features, ids=ids, schema=schema,
    )  # fmt: skip
    found.features = None if matrix is None else frozen(matrix)  # of the very type that was saved
    return found


def _feature_type(path: Path, stored: tuple[Feature, ...]) -> np.dtype:
    """float64 where a column of numbers was saved so."""
    with open_parquet(path) as file:
        kinds = [file.schema_arrow.field(feature.name).type for feature in stored if feature.kind == "number"]
    return np.dtype(np.float64 if pa.float64() in kinds else np.float32)


def _features(path: Path, stored: tuple[Feature, ...], log: EventLog) -> np.ndarray | None:
    """All features: categories as they were read, numbers a few columns at a time into their final columns."""
    if len(stored) == len(log.schema.features):
        return log.features
    matrix = np.empty((len(log), sum(feature.width for feature in stored)), _feature_type(path, stored))
    numbers, start, known = {}, 0, 0
    for feature in stored:
        if feature.kind == "number":
            numbers[feature.name] = start
        elif log.features is not None:
            matrix[:, start : start + feature.width] = log.features[:, known : known + feature.width]
            known += feature.width
        start += feature.width
    some = [list(numbers)[k : k + COLUMNS] for k in range(0, len(numbers), COLUMNS)]
    with open_parquet(path) as file:
        row = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            for columns in some:
                table = file.read_row_group(group, columns, use_threads=False)
                for name in columns:
                    matrix[row : row + rows, numbers[name]] = table.column(name).to_numpy()
            row += rows
    return matrix


def _metadata(layout: Layout) -> dict[bytes, bytes]:
    log, named = layout.log, dict(zip(layout.roles, layout.names, strict=False))
    stored = [
        dataclasses.asdict(dataclasses.replace(feature, name=name))
        for feature, name in zip(layout.features, layout.feature_names, strict=True)
    ]
    metadata = {
        "format": FORMAT,
        "schema": dataclasses.asdict(log.schema),
        "events": len(log),
        "first": log.first,
        "nodes": log.nodes,
        "plain_ids": log.ids.ids is None,
        "numbers": layout.numbers,
        "t": log.t.dtype.str,
        "label": None if log.label is None else log.label.dtype.str,
        "has_features": log.features is not None,
        "has_updates": log.node_updates is not None,
        "columns": {
            "all": layout.names,
            "op": named.get("op"),
            "label": named.get("label"),
            "known": named.get("known"),
            "features": stored,
            "node_updates": layout.names[len(layout.roles) + len(layout.features) :],
        },
    }
    return {KEY: json.dumps(metadata).encode(), NODES_KEY: _write_nodes(log)}


def _write_nodes(log: EventLog) -> bytes:
    """The node table as Arrow IPC, zstd, base64: some readers demand that metadata is UTF-8."""
    columns: dict[str, pa.Array] = {}
    if log.ids.ids is not None:
        columns["id"] = log.ids.ids
    if log.ids.side is not None:
        columns["side"] = pa.array(log.ids.side)
    if log.node_features is not None:
        width = log.node_features.shape[1]
        values = pa.array(np.ascontiguousarray(log.node_features).reshape(-1))
        columns["features"] = pa.FixedSizeListArray.from_arrays(values, width) if width else pa.nulls(log.nodes)
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue())


def _read_nodes(stored: bytes, metadata: dict) -> tuple[IdMap, np.ndarray | None]:
    with pa.ipc.open_stream(base64.b64decode(stored, validate=True)) as reader:
        table = reader.read_all().combine_chunks()
    table.validate(full=True)  # what follows trusts its lengths and offsets
    for column in table.columns:
        gaps = column.null_count > 0 and not pa.types.is_null(column.type)  # features of no width are nulls
        if len(column) != metadata["nodes"] or gaps:
            raise BadFile(f"the node table has {len(column)} rows for {metadata['nodes']} nodes, or gaps. {AGAIN}")
    side = table["side"].to_numpy() if "side" in table.column_names else None
    known = None if metadata["plain_ids"] else table["id"].combine_chunks()
    if known is not None and (pa.types.is_nested(known.type) or pa.types.is_null(known.type)):
        raise BadFile(f"the ids in the node table are {known.type}. {AGAIN}")
    ids = IdMap(known, side, size=metadata["nodes"])
    features = None
    if "features" in table.column_names:
        width = len(metadata["schema"]["node_features"])
        features = np.zeros((metadata["nodes"], width), np.float32)
        if width:
            features[:] = table["features"].combine_chunks().flatten().to_numpy().reshape(-1, width)
    return ids, features


@contextlib.contextmanager
def writing_table(path: str | Path) -> Iterator[Path]:
    """`replacing`, with errors of Arrow and of the disk in one line."""
    with write_errors(path):
        try:
            with replacing(path) as part:
                yield part
        except pa.ArrowException as error:
            raise BadFile(f"cannot write {path}: {str(error).splitlines()[0]}") from error


def _headings(layout: Layout) -> list[str]:
    """Names for a header: columns of a file without one are called by number, which would look like data."""
    instead = layout.roles + [f"column{name}" for name in layout.names[len(layout.roles) :]]
    return [word if name.isdecimal() else name for word, name in zip(instead, layout.names, strict=True)]


def _quoted(name: str, delimiter: str) -> str:
    risky = any(character in name for character in (delimiter, '"', "\n", "\r"))
    return '"' + name.replace('"', '""') + '"' if risky else name
