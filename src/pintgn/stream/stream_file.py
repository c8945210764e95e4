"""A stream on disk: a folder of plain files, no pickle."""

from __future__ import annotations

import inspect
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pintgn.errors import BadFile, BadInput
from pintgn.events.schema import Schema
from pintgn.facts import (
    AtLeast,
    DictOf,
    Maybe,
    archive_mark,
    check,
    check_format,
    digest_of,
    read_arrays,
    read_json,
    reading,
)
from pintgn.files import regular, replace_folder
from pintgn.models.base import Model
from pintgn.models.history_view import Events, LateFeatures, Relations
from pintgn.models.registry import model_class, model_name
from pintgn.neighbors.index import NeighborIndex
from pintgn.neighbors.relations import RelationIndex
from pintgn.neighbors.running_sums import RunningSums
from pintgn.positions import RelativePositions
from pintgn.positions.relative import WIDTH
from pintgn.stream.blocks import Undo
from pintgn.stream.core import Stream

FORMAT = 4
REMEDY = "Make it again: replay its events, and save it."
OLDEST = 2
"""A format from before `history_refresh`: all history was fresh. Known targets are read from the newest on only."""
ABSENT = {"history_refresh": "event", "positions_width": WIDTH}
"""What streams had before these were kept."""
STREAM = {
    "memory_block": AtLeast(1),
    "positions_refresh": str,
    "positions_backend": str,
    "positions_width": Maybe(AtLeast(1)),
    "history_refresh": Maybe(str),
}
FACTS = {
    "format": AtLeast(1),
    "model": str,
    "settings": dict,
    "schema": str,
    "stream": STREAM,
    "clock": (float, None),
    "events": AtLeast(0),
    "group_start": AtLeast(0),
    "time": ({"int64", "float64"}, None),
    "planned": AtLeast(0),
    "ended_with": (AtLeast(0), None),
    "weights": Maybe(str),
    "files": Maybe(DictOf(str)),
}
"""What stream.json says."""


def save(stream: Stream, folder: Path) -> None:
    """Write everything to a temporary folder next to the target, then swap the two."""
    from safetensors.torch import save_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        save_file(dict(stream.model.state_dict()), made / "model.safetensors")
        stream.index.save(made / "neighbors.npz")
        if isinstance(stream.positions, RelativePositions):
            stream.positions.save(made / "positions.npz")
        np.savez(made / "stream.npz", **_arrays(stream))  # type: ignore[arg-type]
        facts = _facts(stream) | {"files": {path.name: archive_mark(path) for path in sorted(made.glob("*.npz"))}}
        (made / "stream.json").write_text(json.dumps(facts, indent=2))
        replace_folder(made, folder)
    except OSError as error:
        raise BadFile(f"cannot write {folder}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def open_stream(
    folder: Path,
    cls: type[Model] | None = None,
    schema: Schema | None = None,
    device: str | torch.device = "cpu",
) -> Stream:
    """Read a folder written by `save`."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        facts = read_json(folder / "stream.json", {"format": AtLeast(1)})
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BadFile(f"{folder} holds no saved stream.") from error
    check_format(facts["format"], FORMAT, f"the stream in {folder}", REMEDY, OLDEST)
    check(facts, FACTS, str(folder / "stream.json"))
    cls = _class(facts["model"], cls)
    stored = Schema.from_json(facts["schema"])
    if stored.asking is not None and stored.asking.late:
        check_format(facts["format"], FORMAT, f"the stream in {folder}", REMEDY)
    if schema is not None and schema != stored:
        raise BadInput(f"the stream in {folder} was made for other data: {_difference(stored, schema)}.")
    with reading(folder):
        try:
            weights = load_file(regular(folder / "model.safetensors"))
        except SafetensorError as error:
            raise BadFile(f"{folder / 'model.safetensors'} is damaged: {error}.") from error
        if facts.get("weights") not in (None, _digest(weights)):
            raise BadFile(f"{folder / 'model.safetensors'} is damaged: its checksum does not fit.")
        for name, mark in facts.get("files", {}).items():
            if archive_mark(folder / name) != mark:
                raise BadFile(f"{folder / name} is damaged, or belongs to another stream.")
        arrays = read_arrays(folder / "stream.npz")
        options = {name: facts["stream"].get(name, ABSENT.get(name)) for name in STREAM}
        stream = Stream(
            cls.from_settings(_still_known(cls, facts["settings"], folder)),
            stored,
            node_features=arrays.get("node_features"),
            device=device,
            **options,
        )
        stream.model.load_state_dict(weights)
        stream.history.index = NeighborIndex.open(folder / "neighbors.npz")
        if stream.positions is not None:
            stream.positions = RelativePositions.open(folder / "positions.npz")
        _restore(stream, facts, arrays)
        _check(stream, facts, folder)
    return stream


def _still_known(cls: type[Model], settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A model's settings without removed ones, as long as they were off."""
    known = inspect.signature(cls).parameters
    gone = [name for name, value in settings.items() if value and name not in known]
    if gone:
        old = f"the stream in {folder} was written by an older pintgn: {cls.__name__} has no {gone[0]!r} any more."
        raise BadFile(f"{old} {REMEDY}")
    return {name: value for name, value in settings.items() if name in known}


def _check(stream: Stream, facts: dict, folder: Path) -> None:
    """Check that the files fit together, in particular everything that look-ups rely on."""
    index, table = stream.index, stream.history.event_table
    held = (index.events, index.clock, None if index.time is None else index.time.name)
    expected = (stream.events, stream.clock, facts["time"] if index.events else held[2])
    rows = table is None or (table.dtype == np.float32 and table.shape == (stream.events, stream.schema.width))
    starts = stream.history.block_starts
    whole = stream.history.block == 1 or starts.shape == (-(-stream.events // stream.history.block),)
    if held != expected or not rows or not whole or not facts["group_start"] <= stream.events:
        raise BadFile(f"the stream in {folder} is damaged: its files do not belong together.")


def _digest(weights: dict) -> str:
    return digest_of({name: value.numpy(force=True) for name, value in weights.items()})


def _facts(stream: Stream) -> dict[str, object]:
    return {
        "format": FORMAT,
        "model": model_name(type(stream.model)),
        "settings": stream.model.settings(),
        "schema": stream.schema.to_json(),
        "stream": {
            "memory_block": stream.blocks.size,
            "positions_refresh": stream.positions_refresh,
            "positions_backend": stream.positions_backend,
            "positions_width": stream.positions_width,
            "history_refresh": stream.history_refresh,
        },
        "clock": stream.clock,
        "events": stream.events,
        "group_start": stream.history.group_start,
        "time": None if stream.time_dtype is None else stream.time_dtype.name,
        "planned": stream.blocks.planned,
        "ended_with": stream.blocks.ended_with,
        "weights": _digest(dict(stream.model.state_dict())),
    }


def _arrays(stream: Stream) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {"node_marks": stream.history.node_marks}
    if stream.node_features is not None:
        found["node_features"] = stream.node_features
    if stream.history.block > 1:
        found["block_starts"] = stream.history.block_starts
    if stream.history.event_table is not None:
        found["event_table"] = stream.history.event_table[: stream.events]
    if (late := stream.history.late) is not None:
        found |= {"late_known": late.known[: stream.events], "late_values": late.values[: stream.events]}
        found |= {f"targets.{name}": column for name, column in late.index.arrays().items()}
    if stream.history.sums is not None:
        found |= {f"sums.{name}": column for name, column in stream.history.sums.arrays().items()}
    if (relations := stream.history.relations) is not None:
        found["relation_sources"] = relations.sources[: stream.events]
        found |= {f"relations.{name}": column for name, column in relations.index.arrays().items()}
    if stream.state is not None:
        found |= {f"state.{name}": column for name, column in stream.state.arrays().items()}
    undo = stream.blocks.undo
    if undo is not None:
        found["undo.nodes"] = undo.nodes
        if undo.rows is not None:
            found |= {f"undo.rows.{name}": column for name, column in undo.rows.arrays().items()}
    blocks = {"block": stream.blocks.unfinished, "late": stream._late, "undo.block": undo.block if undo else []}
    for name, parts in blocks.items():
        if parts:
            joined = Events.joined(parts)
            columns = {"src": joined.src, "dst": joined.dst, "t": joined.t, "features": joined.features}
            columns |= {f"looked_up.{key}": column for key, column in joined.looked_up.items()}
            found |= {f"{name}.{key}": column for key, column in columns.items() if column is not None}
    return found


def _restore(stream: Stream, facts: dict, arrays: dict[str, np.ndarray]) -> None:
    def part(prefix: str) -> dict[str, np.ndarray]:
        return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}

    def events(prefix: str) -> list[Events]:
        found, looked_up = part(prefix), part(f"{prefix}looked_up.")
        return [Events(found["src"], found["dst"], found["t"], found.get("features"), looked_up)] if found else []

    stream.history.node_marks = arrays.get("node_marks", stream.history.node_marks)
    held = stream.history
    held.clock, held.events, held.group_start = facts["clock"], facts["events"], facts["group_start"]
    held.block_starts = arrays.get("block_starts", held.block_starts)
    if facts["time"] is not None:
        stream.time_dtype = np.dtype(facts["time"])
        stream.state = stream.model.initial_state(stream.node_features, stream.time_dtype)
    if stream.history.event_table is not None:
        stream.history.event_table = arrays["event_table"]
    if "late_known" in arrays and held.late_columns is not None:
        index = RunningSums.of_arrays(part("targets."))
        held.late = LateFeatures(held.late_columns, arrays["late_known"], arrays["late_values"], index)
    if "sums.keys" in arrays:
        held.sums = RunningSums.of_arrays(part("sums."))
    if "relation_sources" in arrays and held.relation is not None:
        column, kinds = held.relation
        by_relation = RelationIndex.of_arrays(kinds, part("relations."))
        held.relations = Relations(column, arrays["relation_sources"], by_relation)
    if stream.state is not None:
        stream.state.load(part("state."))
    stream._late = events("late.")
    blocks = stream.blocks
    blocks.unfinished, blocks.planned, blocks.ended_with = events("block."), facts["planned"], facts["ended_with"]
    if "undo.nodes" in arrays:
        rows = None
        if stream.state is not None and stream.time_dtype is not None:
            rows = stream.model.initial_state(None, stream.time_dtype)
            rows.load(part("undo.rows."))
        blocks.undo = Undo(events("undo.block."), arrays["undo.nodes"], rows)


def _class(name: str, given: type[Model] | None) -> type[Model]:
    if given is None:
        return model_class(name)
    if model_name(given) != name:
        raise BadInput(f"this stream was saved with the model {name}, not {model_name(given)}.")
    return given


def _difference(mine: Schema, theirs: Schema) -> str:
    """The first field in which two schemas differ."""
    pairs = ((name, getattr(mine, name), getattr(theirs, name)) for name in mine.__dataclass_fields__)
    return next(f"its {name} is {a!r}, yours {b!r}" for name, a, b in pairs if a != b)
