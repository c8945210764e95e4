"""The node table: initial features of nodes, also of nodes without events."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput, PintgnWarning, UnknownName
from pintgn.events.columns import Where, first_true, plain
from pintgn.events.ids import IdMap
from pintgn.events.numbering import TEXT, Ids, Numbering, UnfitIds, as_ids
from pintgn.events.schema import Feature
from pintgn.ingest.feature_columns import FeatureColumns, category_columns
from pintgn.ingest.table_source import Source

if TYPE_CHECKING:
    from pintgn.ingest.builder import Plan

SIDE_WORDS = {"src": 0, "source": 0, "0": 0, "dst": 1, "destination": 1, "1": 1}


def node_table(
    source: Source | None, ids: IdMap, plan: Plan
) -> tuple[IdMap, tuple[tuple[Feature, ...], np.ndarray | None]]:
    """All nodes (those of the table without events come last, in its order), its columns and features (n, g).

    Nodes of an earlier log keep the features they had there. Nodes that the table leaves out have zeros.
    """
    old: np.ndarray | None = None
    known: tuple[Feature, ...] = ()
    if plan.like is not None:
        schema, old = plan.like.schema, plan.like.node_features
        known = schema.node_columns or tuple(Feature(name) for name in schema.node_features)
    if source is None:
        return ids, (known, None if old is None else np.pad(old, ((0, len(ids) - len(old)), (0, 0))))
    if plan.like is not None and not known:
        raise BadInput("the earlier log has no node features, so this one cannot have a node table.")
    key = _key(source, plan)
    side = source.column("side") if plan.bipartite and key not in (plan.src, plan.dst) else None
    own = [name for name in source.names if name not in (key, "side")]
    names = source.columns([feature.name for feature in known]) if known else own
    numbering = Numbering(bool(plan.bipartite), ids)
    values: FeatureColumns | None = None
    fill = plan.cleaning.fill
    numbers: list[np.ndarray] = []
    row = 0

    def where(k: int) -> str:
        return f"{source.where(row + k)} of the node table"

    columns = list(dict.fromkeys([key, *([side] if side else []), *names]))
    for batch in source.batches(columns):
        by_name = dict(zip(columns, batch.columns, strict=True))
        given = _read_ids(by_name[key], source.untyped, numbering, len(ids) > 0, where)
        sides = by_name[side] if side else pa.array(["dst" if key == plan.dst else "src"] * batch.num_rows)
        numbers.append(_number(given, sides if plan.bipartite else None, numbering, where))
        if values is None:
            said = {feature.name: feature.kind != "number" for feature in known}
            coded = category_columns(names, batch, batch if source.untyped else None, said)
            values = FeatureColumns(names, coded, source, known, names, fill, plan.format.decimal)
        values.extend(by_name, where, optional=fill is None)
        row += batch.num_rows
    listed = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    grown = numbering.finish(listed, listed.copy())
    first = np.unique(listed, return_index=True)[1]
    if len(first) < len(listed):
        row = int(np.setdiff1d(np.arange(len(listed)), first)[0])
        name = grown.decode([listed[row]])[0].as_py()
        raise BadInput(f"{source.where(row)} of the node table lists {name!r} a second time.")
    if values is None or not names:
        return grown, (known, None if not known else np.pad(old, ((0, len(grown) - len(old)), (0, 0))))  # type: ignore[arg-type]
    for name, gaps in values.numbers.gaps.items():
        if gaps:
            message = f"{gaps:,} of {row:,} nodes in the node table have no {name}; it counts as 0"
            warnings.warn(f"{message} (fill= says otherwise).", PintgnWarning, stacklevel=3)
    found, described = values.finish({}, most_words=row // 2)
    matrix = np.zeros((len(grown), found.shape[1]), np.float32)
    matrix[listed] = found
    met = np.zeros(len(grown), bool)
    met[listed] = True
    if old is not None:
        matrix[: len(old)] = old
        met[: len(old)] = True
    if not met.all():
        missing = np.flatnonzero(~met)
        shown = grown.decode(missing[:1])[0].as_py()
        warnings.warn(
            f"the node table lacks {len(missing):,} of {len(grown):,} nodes, such as {shown!r}; their features are 0.",
            PintgnWarning,
            stacklevel=3,
        )
    return grown, (described, matrix)


def _key(source: Source, plan: Plan) -> str:
    """The column of ids: `id`, or the one that is called as in the events."""
    names = [name for name in ("id", plan.src, plan.dst) if name in source.name_set]
    if not names:
        listed = ", ".join(map(repr, source.names[:8]))
        raise UnknownName(
            f"the node table {source.title} has no column 'id', nor {plan.src!r} or {plan.dst!r} as in the events. "
            f"There are: {listed}. Rename the one that holds the ids."
        )
    return names[0]


def _read_ids(values: pa.Array, untyped: bool, numbering: Numbering, known: bool, where: Where) -> Ids:
    try:
        given = as_ids(values, untyped, numbering.kind == TEXT)
    except UnfitIds as error:
        raise BadInput(f"ids in the node table are {error}; an id is a whole number, a text or a UUID.") from error
    if (bad := first_true(given.missing)) >= 0:
        raise BadInput(f"{where(bad)} has no id.")
    if known and given.kind != numbering.kind:
        raise BadInput(f"ids are {given.kind} in the node table but {numbering.kind} in the events. Write them alike.")
    return given


def _number(given: Ids, sides: pa.Array | None, numbering: Numbering, where: Where) -> np.ndarray:
    side = np.zeros(len(given.missing), np.int8)
    for index, word in enumerate(() if sides is None else plain(sides).cast(pa.string()).to_pylist()):
        code = SIDE_WORDS.get((word or "").strip().lower())
        if code is None:
            raise BadInput(f"{where(index)} has side={word!r}; write src or dst.")
        side[index] = code
    out = np.empty(len(side), np.int64)
    for one in (0, 1):
        out[side == one] = numbering.number(given.where(side == one), one)
    return out
