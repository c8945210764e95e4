"""Options of a feed besides its two addresses, from Python or from `pintgn feed`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated


@dataclass(frozen=True)
class ColumnNames:
    """Names of an event's columns, where they differ from the run's log."""

    src: Annotated[str | None, "Column of the source ids; as in the run's log by default."] = None
    dst: Annotated[str | None, "Column of the destination ids."] = None
    time: Annotated[str | None, "Column of the times.", {"short": "-t"}] = None
    key: Annotated[str | None, "Column with a permanent key of each event; its position in the source by default."] = (
        None
    )


@dataclass(frozen=True)
class SourceOptions:
    """Options of reading a source."""

    increasing: Annotated[str | None, "Of a table: a column that only grows, such as id."] = None
    kind: Annotated[str | None, "Of a file: csv or ndjson; by its ending by default.", {"flag": "--format"}] = None
    delimiter: Annotated[str | None, "Of a CSV file: the column separator."] = None
    name: Annotated[str | None, "Name of the source in keys; of Kafka's group. Keep it when a file or table moves."] = (
        None
    )
    bookmark: Annotated[
        Path | None, "File of the position, except for Kafka, which keeps it; SOURCE.bookmark by default."
    ] = None
    from_start: Annotated[bool, "Read everything again; what the service has counts as a duplicate."] = False
