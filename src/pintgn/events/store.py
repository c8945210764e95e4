"""Logs on disk: one Parquet file that restores exactly, or a text file with the users' own ids."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from pintgn.errors import BadFile, BadInput, suggest
from pintgn.events.checks import frozen
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.numbering import Numbering, UnfitIds, as_ids
from pintgn.events.schema import FEATURE, LATEST, NODE, SHAPE, Schema
from pintgn.events.seal import check_seal, seal
from pintgn.events.table import ROWS, Layout, as_text, check_dates, encode, needs_quotes, to_table, whole_days
from pintgn.facts import AtLeast, Maybe, check, check_format, parse, reading
from pintgn.files import replacing, write_errors

__all__ = ["open_log", "save", "to_table", "write_events"]

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
REMEDY = "Save the log again."
ARROW = "Pass pyarrow.feather.read_table(…) to read_events; a log is saved as .parquet."
"""What to do about a file that older versions wrote where a log's name ended in .arrow."""
THRIFT_LIMIT = 2**31 - 1
"""A footer may hold the node table of a saved log, which is larger than Arrow's cautious default allows."""
COLUMNS = 32
"""Columns of numbers read at once."""
KEY, NODES_KEY = b"pintgn", b"pintgn.nodes"
COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
ENDINGS = (".parquet", ".csv", ".tsv", ".csv.gz", ".csv.zst")


def save(log: EventLog, path: str | Path) -> None:
    """Write one Parquet file that `open_log` restores exactly and any Parquet reader can read.

    The footer also holds the schema and the node table (ids, sides, features). The file has a seal (see `seal`): one
    that was damaged since is refused. It is written under another name and renamed at the end, so that nobody ever
    sees half of it.
    """
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
    """Write a log in the format of the file's ending: .parquet (as `EventLog.save`), .csv or .tsv, these also .gz or
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
    if kind in (".parquet", ".pq") and not compression:
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


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open for streaming: pages are read through a small buffer, not a column at a time."""
    try:
        return pq.ParquetFile(
            path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True,
            thrift_string_size_limit=THRIFT_LIMIT, thrift_container_size_limit=THRIFT_LIMIT,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise BadFile(f"there is no file {path}.") from error
    except (pa.ArrowException, OSError) as error:
        raise no_parquet(path) from error


def no_parquet(path: Path) -> BadFile:
    """The message about a file that Parquet's reader cannot open."""
    with open(path, "rb") as file:
        start = file.read(6)
    if start[:4] == b"PAR1":
        return BadFile(f"{path.name} is cut off or damaged: its Parquet footer is gone. Copy it again.")
    if start == b"ARROW1":
        return BadFile(f"{path.name} is an Arrow file. {ARROW}")
    return BadFile(f"{path.name} is not a Parquet file. Give it the ending of what it is, such as .csv.")


def saved_schema(path: Path) -> Schema:
    """The schema of a log written by `save`, without its events."""
    with open_parquet(path) as file, reading(path, REMEDY):
        return Schema.from_json(json.dumps(json.loads((file.schema_arrow.metadata or {})[KEY])["schema"]))


def open_log(path: str | Path, *, checked: bool = False) -> EventLog:
    """Read a log written by `save`; its seal is checked, unless it has been `checked` already."""
    path = Path(path)
    if not path.exists():
        raise BadFile(f"there is no file {path}.")
    if path.is_dir():
        raise BadFile(f"{path} is a folder; a saved log is one file. Use pintgn.read_events for folders.")
    if not checked:
        check_seal(path)
    with open_parquet(path) as file:
        stored = file.schema_arrow.metadata or {}
        names, rows = list(file.schema_arrow.names), file.metadata.num_rows
    if KEY not in stored:
        raise BadFile(f"{path.name} was not saved by pintgn. Use pintgn.read_events to read it by column name.")
    what = f"the metadata of {path.name}"
    metadata = parse(stored[KEY], {"format": AtLeast(1)}, what, REMEDY)
    check_format(metadata["format"], FORMAT, path.name, "Read the original data again.")
    check(metadata, METADATA, what, REMEDY)
    if rows != metadata["events"] or metadata["columns"]["all"] != names:
        raise BadFile(f"{path.name} was changed after pintgn saved it. Use pintgn.read_events with column names.")
    with reading(path, REMEDY):
        ids, node_features = _read_nodes(stored[NODES_KEY], metadata)
        with open_parquet(path) as file:
            log = _restored(file, metadata, ids, node_features)
    log.first = metadata["first"]
    return log


def _restored(file: pq.ParquetFile, metadata: dict, ids: IdMap, node_features: np.ndarray | None) -> EventLog:
    named, schema = metadata["columns"], Schema.from_json(json.dumps(metadata["schema"]))

    def column(name: str) -> pa.ChunkedArray:
        return file.read([name]).column(0)

    t = _times(column(named["all"][2]), schema, metadata["t"])
    op = None if named["op"] is None else column(named["op"]).to_numpy().astype(np.int8, copy=False)
    if metadata["numbers"]:
        src, dst = (column(name).to_numpy() for name in named["all"][:2])
    else:
        src, dst = _ends(file, named["all"][:2], ids, metadata["events"])
        if op is not None and ids.side is not None:  # a node event names its node on the node's own side only
            alone = op == NODE
            src, dst = np.where(alone & (src < 0), dst, src), np.where(alone & (dst < 0), src, dst)
        if min(src.min(initial=0), dst.min(initial=0)) < 0:
            raise BadFile(f"it has events without a node. {REMEDY}")
    label, known, updates = metadata["label"], named.get("known"), None
    if metadata["has_updates"]:
        node_events = np.zeros(len(t), bool) if op is None else op == NODE
        updates = np.zeros((int(node_events.sum()), len(named["node_updates"])), np.float32)
        for k, name in enumerate(named["node_updates"]):
            updates[:, k] = column(name).to_numpy()[node_events]
    features = _features(file, metadata) if metadata["has_features"] else None
    log = EventLog(
        src, dst, t, features=features, op=op, node_updates=updates, node_features=node_features, ids=ids,
        schema=schema,
        label=None if label is None else column(named["label"]).to_numpy().astype(np.dtype(label), copy=False),
        known=None if known is None else _times(column(known), schema, metadata["t"], LATEST),
    )  # fmt: skip
    log.features = None if features is None else frozen(features)  # of the very type that was saved
    return log


def _times(values: pa.ChunkedArray, schema: Schema, dtype: str, missing: int | None = None) -> np.ndarray:
    if pa.types.is_timestamp(values.type):  # Parquet has no seconds: they are stored as milliseconds
        values = values.cast(pa.timestamp(schema.time.unit or values.type.unit, values.type.tz)).cast(pa.int64())
    values = values if missing is None else values.fill_null(pa.scalar(missing).cast(values.type))
    if values.null_count:
        raise BadFile(f"it has events without a time. {REMEDY}")
    return values.to_numpy().astype(np.dtype(dtype), copy=False)


def _ends(file: pq.ParquetFile, names: list[str], ids: IdMap, rows: int) -> np.ndarray:
    """Node numbers (2, e) of sources and destinations, -1 where there is none."""
    found, row = np.full((2, rows), -1, np.int64), 0
    try:
        numbering = Numbering(ids.separate_namespaces, ids)
        for batch in file.iter_batches(ROWS, columns=names):
            for side, name in enumerate(names):
                given = as_ids(batch.column(name), untyped=False)
                here = ~given.missing
                part = found[side, row : row + batch.num_rows]
                if here.any():
                    part[here] = numbering.number(given if here.all() else given.where(here), side)
            row += batch.num_rows
    except UnfitIds as error:
        raise BadFile(f"its ids are {error}. {REMEDY}") from error
    if numbering.count > len(ids):
        raise BadFile(f"it has events of nodes that its node table lacks. {REMEDY}")
    return found


def _features(file: pq.ParquetFile, metadata: dict) -> np.ndarray:
    """A few columns at a time into the final matrix: numbers as they are, categories by their codes."""
    schema = metadata["schema"] | {"features": metadata["columns"]["features"]}
    stored = Schema.from_json(json.dumps(schema)).features
    numbers = [file.schema_arrow.field(one.name).type for one in stored if one.kind == "number"]
    dtype = np.float64 if pa.float64() in numbers else np.float32
    matrix = np.empty((metadata["events"], sum(one.width for one in stored)), dtype)
    starts = np.cumsum([0, *(one.width for one in stored)]).tolist()
    for first in range(0, len(stored), COLUMNS):
        some, row = stored[first : first + COLUMNS], 0
        for batch in file.iter_batches(ROWS, columns=[one.name for one in some], use_threads=False):
            part = matrix[row : row + batch.num_rows]
            for one, start in zip(some, starts[first:], strict=False):
                values = batch.column(one.name)
                if one.kind == "number":
                    part[:, start] = values.to_numpy(zero_copy_only=False)
                else:
                    encode(values, one, part[:, start : start + one.width])
            row += batch.num_rows
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
            raise BadFile(f"the node table has {len(column)} rows for {metadata['nodes']} nodes, or gaps. {REMEDY}")
    side = table["side"].to_numpy() if "side" in table.column_names else None
    known = None if metadata["plain_ids"] else table["id"].combine_chunks()
    if known is not None and (pa.types.is_nested(known.type) or pa.types.is_null(known.type)):
        raise BadFile(f"the ids in the node table are {known.type}. {REMEDY}")
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
