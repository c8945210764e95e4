"""Files, frames and arrays become an EventLog, by column name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from pintgn.errors import BadFile, UnknownName, suggest
from pintgn.events.ids import IdMap
from pintgn.events.log import EventLog
from pintgn.events.schema import Feature, Schema


def read_events(
    source: Any,
    src: str | int | None = None,
    dst: str | int | None = None,
    t: str | int | None = None,
    *,
    features: str | Sequence[str | int] | None = None,
    label: str | int | None = None,
    op: str | int | None = None,
    node_updates: Sequence[str | int] | None = None,
    bipartite: bool = False,
    sort: bool = False,
    strict: bool = False,
    nodes: Any = None,
    like: EventLog | None = None,
    categorical: Sequence[str | int] = (),
    encoding: str | Mapping[str, str] = "auto",
    fill: float | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    columns: Sequence[str] | None = None,
    skip_lines: int = 0,
    charset: str = "utf-8",
) -> EventLog:
    """Read events by column name (first version: simple columns only, being deepened)."""
    if isinstance(source, pa.Table):
        table = source
    elif isinstance(source, Mapping):
        table = pa.table({k: pa.array(v) for k, v in source.items()})
    elif isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise BadFile(f"{path} does not exist.")
        if path.is_dir() or path.suffix == ".parquet":
            table = pq.read_table(path)
        else:
            table = pacsv.read_csv(path, parse_options=pacsv.ParseOptions(delimiter=delimiter or ","))
    else:
        table = pa.Table.from_pandas(source, preserve_index=False)
    names = [str(src or "src"), str(dst or "dst"), str(t or "t")]
    for name in names:
        if name not in table.column_names:
            raise UnknownName(f"no column {name!r}.{suggest(name, table.column_names)}")
    a, b, times = (table.column(n).combine_chunks() for n in names)
    both = pa.concat_arrays([a, b.cast(a.type)])
    interleaved = both.take(pa.array(np.arange(2 * len(a)).reshape(2, -1).T.ravel()))
    coded = pc.dictionary_encode(interleaved)
    numbers = coded.indices.to_numpy().astype(np.int64)
    order = np.argsort(times.to_numpy(), kind="stable") if sort else slice(None)
    wanted = [] if features is None else [str(n) for n in features]
    return EventLog(
        numbers[::2][order],
        numbers[1::2][order],
        times.to_numpy()[order],
        features=None if not wanted else np.stack([table.column(n).to_numpy() for n in wanted], 1)[order],
        label=None if label is None else table.column(str(label)).to_numpy()[order],
        op=None if op is None else table.column(str(op)).to_numpy()[order],
        ids=IdMap(coded.dictionary),
        schema=Schema(
            src=names[0],
            dst=names[1],
            t=names[2],
            label=None if label is None else str(label),
            op=None if op is None else str(op),
            features=tuple(Feature(n) for n in wanted),
        ),
    )
