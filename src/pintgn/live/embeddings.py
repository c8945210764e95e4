"""Embeddings of many nodes, chunk by chunk: a million nodes need no more memory than a few thousand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pintgn.display.progress import counting, progress_callback
from pintgn.errors import BadInput
from pintgn.events.store import writing_table
from pintgn.models.base import Model

if TYPE_CHECKING:
    from pintgn.live.live import Live

CHUNK = 16_384
"""Nodes of one batch of the answer."""
UNKNOWN, NO_EVENTS = "unknown", "no events"
"""Notes: an id that was never seen; a node of the node table that has met nobody yet."""


def queried_nodes(live: Live, ids: Iterable[Any] | None, side: str) -> np.ndarray:
    """Node numbers; of every node but the dummy where none are named."""
    if type(live.model).gather_nodes is Model.gather_nodes:
        raise BadInput(f"{type(live.model).__name__} scores links; it has no embeddings of nodes.")
    if side not in ("src", "dst"):
        raise BadInput(f"side={side!r}; it is 'src' or 'dst'.")
    if ids is None:
        nodes = np.arange(len(live.names))
        return nodes if live.schema.dummy is None else nodes[nodes != live.schema.dummy]
    return live.names.find(ids, 0 if side == "src" else 1)


def embed(live: Live, ids: Iterable[Any] | None, at: Any, side: str) -> tuple[list[Any], np.ndarray]:
    """See `Live.embed`."""
    listed = None if ids is None else live.codec.ids(list(ids))
    nodes = queried_nodes(live, listed, side)
    found = live.answerer.embeddings(nodes, live.time_of(at))
    listed = [live.names.ids[node] for node in nodes.tolist()] if listed is None else listed
    return listed, found if len(nodes) else np.zeros((0, 0), np.float32)


def embed_many(live: Live, ids: Iterable[Any] | str, at: Any, side: str, progress: Any) -> pa.RecordBatchReader:
    """See `Live.embed_many`."""
    if isinstance(ids, str) and ids != "all":
        raise BadInput(f"ids={ids!r}; it is a list of ids, or 'all'. For one node: embed([{ids!r}]).")
    given = None if isinstance(ids, str) else live.codec.ids(list(dict.fromkeys(ids)))
    nodes = queried_nodes(live, given, side)
    when, apart = live.time_of(at), live.names.separate_namespaces
    width = live.answerer.embeddings(nodes[:1] if len(nodes) else np.zeros(1, np.int64), when).shape[1]
    kinds = {"id": live.names.type} | ({"side": pa.string()} if apart else {})
    schema = pa.schema(kinds | {"embedding": pa.list_(pa.float32(), width), "notes": pa.string()})

    def batches(report: Callable[..., None]) -> Iterator[pa.RecordBatch]:
        names = live.names.ids
        pieces = [nodes[begin : begin + CHUNK] for begin in range(0, len(nodes), CHUNK)]
        done = 0
        for some, found in zip(pieces, live.answerer.embeddings_of_each(pieces, when), strict=True):
            values = pa.array(found.astype(np.float32, copy=False).ravel())
            own = [names[k] for k in some.tolist()] if given is None else given[done : done + len(some)]
            columns, done = [pa.array(own, live.names.type)], done + len(some)
            if apart:
                sides = live.names.sides
                columns.append(pa.array([("src", "dst")[sides[k]] if k < len(sides) else side for k in some.tolist()]))
            columns += [pa.FixedSizeListArray.from_arrays(values, width), _notes(live, some)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            report(done, len(nodes))

    def reported_batches() -> Iterator[pa.RecordBatch]:
        with progress_callback(progress, counting("embedding", "nodes")) as report:
            yield from batches(report)

    with progress_callback(progress, nullcontext):  # a wrong one is refused now, not with the first batch
        return pa.RecordBatchReader.from_batches(schema, reported_batches())


def _notes(live: Live, nodes: np.ndarray) -> pa.Array:
    degree = np.zeros(len(nodes), np.int64)
    met = nodes < len(live.nodes.degree)
    degree[met] = live.nodes.degree.values[nodes[met]]
    words = [", ".join(filter(None, (about_node, live.run.unfinished))) for about_node in ("", NO_EVENTS, UNKNOWN)]
    return pa.array(words, pa.string()).take(pa.array(np.where(nodes >= len(live.names), 2, degree == 0)))


def write_embeddings(reader: pa.RecordBatchReader, path: Path) -> Counter[str]:
    """Write the batches of `Live.embed_many` to a .parquet, .csv or .npz file, atomically.

    Returns how many rows have which notes. CSV has no lists: it gets a column for each number, e0, e1, ….
    """
    import pyarrow.csv
    import pyarrow.parquet

    notes: Counter[str] = Counter()
    with writing_table(path) as part:
        if path.suffix == ".npz":
            table = reader.read_all()
            notes.update(table["notes"].to_pylist())
            arrays = {name: table[name].to_numpy() for name in table.column_names if name != "embedding"}
            arrays = {name: values.astype(str) if values.dtype == object else values for name, values in arrays.items()}
            vectors = np.concatenate([_matrix(batch) for batch in [*table.to_batches(), _empty(reader.schema)]])
            with open(part, "wb") as file:
                np.savez(file, embedding=vectors, **arrays)
            return notes
        flat = _flat if path.suffix == ".csv" else lambda batch: batch
        write: Any = pyarrow.csv.CSVWriter if path.suffix == ".csv" else pyarrow.parquet.ParquetWriter
        with write(str(part), flat(_empty(reader.schema)).schema) as file:
            for batch in reader:
                notes.update(batch.column("notes").to_pylist())
                file.write_batch(flat(batch))
    return notes


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _matrix(batch: pa.RecordBatch) -> np.ndarray:  # (n, d)
    vectors = batch.column("embedding")
    return vectors.flatten().to_numpy().reshape(len(vectors), vectors.type.list_size)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A column for each number of the embedding."""
    columns = {name: batch.column(name) for name in batch.schema.names if name not in ("embedding", "notes")}
    columns |= {f"e{k}": pa.array(column) for k, column in enumerate(_matrix(batch).T.copy())}
    return pa.RecordBatch.from_pydict(columns | {"notes": batch.column("notes")})
