"""Predictions for a table of pairs: a file, frame or dict in, the same rows with logit, probability and notes out."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput, StaleQuery
from pintgn.events.columns import plain
from pintgn.events.schema import TimeUnit
from pintgn.events.times import TimeColumn
from pintgn.ingest.read_options import FileFormat
from pintgn.ingest.sources import open_source
from pintgn.ingest.table_source import Source
from pintgn.live.live import Live
from pintgn.live.questions import notes as notes_on


def predict(
    live: Live,
    pairs: Any,
    *,
    src: str | None = None,
    dst: str | None = None,
    t: str | None = None,
    at: Any = None,
    against: str = "anyone",
    format: FileFormat | None = None,
) -> pa.Table:
    """A logit, a probability and notes for every row.

    The probability is calibrated on validation: that of the link against one random destination, no forecast. Notes say
    what is doubtful: `unknown src`, `unknown dst` (an id that was never seen counts as a new node), and `training
    unfinished` of a run that was stopped; they are empty for most rows.

    Args:
        pairs: a file, frame, table or dict with the users' own ids.
        src, dst, t: its columns; those of the run's log when not given. Without a column of times, `at` holds for all.
            A run that predicts something of a node needs the column of that node only.
        at: one time for all rows; right after the newest event by default.
        against: what links are compared with; see `Live.score`.
        format: how a text file is laid out; see `FileFormat`.
    """
    schema, sides = live.schema, live.run.settings.task.sides
    ends = [(src or schema.src, "src"), (dst or schema.dst, "dst")]
    source = open_source(pairs, [ends[side][0] for side in sides], format=format)
    columns = [_column(source, *ends[side]) for side in sides]
    when = _time_column(source, t, schema.t) if at is None else None
    ids: list[list[Any]] = [[], []]
    times = TimeColumn(when or "t", source.where, source.rows or 0, sort=True, written=schema.time.written)
    asked = live.run.settings.task
    named = asked.given if asked.relation is None else [asked.relation]
    given = [source.column(name) for name in named]
    rows: list[dict[str, Any]] = []
    for batch in source.batches([*columns, *([when] if when else []), *given]):
        row = len(ids[sides[0]])
        if given:
            rows += _given_rows(batch.columns[-len(given) :], named, live, source, row)
        for k, side in enumerate(sides):
            ids[side] += _ids(batch.column(k), live, source, columns[k], row)
        if when:
            times.extend(batch.column(len(columns)), row)
    if len(sides) == 1:
        ids = [ids[sides[0]]] * 2  # the other end is not looked at
    if when and ids[0]:
        found, _ = times.finish(schema.time)
        if live.codec.dtype.kind == "i" and found.dtype.kind == "f" and (found != np.floor(found)).any():
            raise BadInput(f"times of this run are whole numbers; {when!r} of {source.title} has others.")
        found = found.astype(live.codec.dtype)
        if len(found) and found.min() < live.clock:
            raise _stale(live, source.where(int(found.argmin())), found.min(), when)
    else:
        found = np.full(len(ids[0]), live.time_of(at), live.codec.dtype)
    if live.task.scores_links:
        relation = None if asked.relation is None else [one[asked.relation] for one in rows]
        scores = live.score_pairs(ids[0], ids[1], found, against, relation)
        columns_of_answer: dict[str, Any] = {"logit": scores.logits, "probability": scores.probabilities}
        notes = scores.notes
    else:
        columns_of_answer, notes = (
            live.ask(ids[0], ids[1], rows if given else None, found),
            notes_on(live, ids[0], ids[1]),
        )
    answer = {
        **{name: pa.array(ids[side], live.names.type) for name, side in zip(columns, sides, strict=True)},
        when or schema.t: _times(found, schema.time),
        **{name: pa.array(column) for name, column in columns_of_answer.items()},
        "notes": pa.array(notes, pa.string()),
    }
    return pa.table(answer)


def _given_rows(
    columns: list[pa.Array], names: list[str], live: Live, source: Source, row: int
) -> list[dict[str, Any]]:
    """Given columns of a batch's questions, in the types of the run's log."""
    features = {feature.name: feature for feature in live.schema.features}
    found: list[list[Any]] = []
    for values, name in zip(columns, names, strict=True):
        listed, feature = plain(values).to_pylist(), features[name]
        if None in listed and feature.kind == "number":
            raise BadInput(f"{source.where(row + listed.index(None))} has no {name}, which is given when asked.")
        if source.untyped:
            kinds = {type(category) for category in feature.categories or feature.words}
            for k, text in enumerate(listed):
                listed[k] = _typed(text, feature.kind, kinds, f"{source.where(row + k)} has {name}={text!r}")
        found.append(["" if value is None else value for value in listed])
    return [dict(zip(names, one, strict=True)) for one in zip(*found, strict=True)]


def _typed(text: Any, kind: str, categories: set[type], where: str) -> Any:
    """A value of a text file in the type of its column."""
    try:
        if kind == "number":
            return float(text)
        if categories == {bool}:
            return str(text).strip().lower() == "true"
        return int(text) if categories == {int} else "" if text is None else str(text).strip()
    except (TypeError, ValueError):
        raise BadInput(f"{where}, which is no number.") from None


def like_given(table: pa.Table, given: Any) -> Any:
    """A table as a frame of the library that the given one is from, with its index; else as it is."""
    library = type(given).__module__.split(".")[0]
    if library == "pandas":
        return table.to_pandas().set_index(given.index)
    if library == "polars":
        return sys.modules["polars"].from_arrow(table)  # it is there: the user's frame is one of its
    return table


def _stale(live: Live, where: str, t: Any, column: str) -> StaleQuery:
    show, now = live.schema.time.show, live.schema.time.show(live.time_of(None))
    now = f"'{now}'" if " " in now else now
    return StaleQuery(
        f"{where} asks about {show(t)}; this run has already observed {show(live.clock)} and scores no earlier time. "
        f"Leave out {column!r}, or score all pairs at one time, such as right after the newest event (--at {now})."
    )


def _column(source: Source, name: str, fallback: str) -> str:
    return source.column(fallback if name not in source.names and fallback in source.names else name)


def _time_column(source: Source, given: str | None, usual: str) -> str | None:
    if given is not None:
        return source.column(given)
    return next((name for name in (usual, "t") if name in source.names), None)


def ids_in(live: Live, source: Source, name: str) -> list[Any]:
    """The ids in a column."""
    found: list[Any] = []
    for batch in source.batches([name]):
        found += _ids(batch.column(0), live, source, name, len(found))
    return found


def _ids(values: pa.Array, live: Live, source: Source, name: str, row: int) -> list[Any]:
    values = plain(values)
    if values.null_count:
        raise BadInput(f"{source.where(row + values.to_pylist().index(None))} has no {name}.")
    if not source.untyped:
        return live.codec.ids(values.to_pylist())
    found: list[Any] = []
    for text in values.to_pylist():
        try:
            found.append(live.codec.id_from_text(str(text)))
        except BadInput:
            where = source.where(row + len(found))
            raise BadInput(f"{where} has {name}={text!r}; node ids of this run are whole numbers.") from None
    return found


def _times(counts: np.ndarray, time: TimeUnit) -> pa.Array:
    return pa.array(counts) if time.unit is None else pa.array(counts).cast(pa.timestamp(time.unit, time.zone))
