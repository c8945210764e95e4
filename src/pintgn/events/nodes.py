"""The node table: initial features of nodes, also of nodes without events."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pintgn.errors import BadInput, PintgnWarning
from pintgn.events.columns import Where, first_true, plain
from pintgn.events.features import Numbers
from pintgn.events.ids import IdMap
from pintgn.events.numbering import TEXT, Ids, Numbering, UnfitIds, as_ids
from pintgn.events.sources import Source

if TYPE_CHECKING:
    from pintgn.events.builder import Plan

SIDE_WORDS = {"src": 0, "source": 0, "0": 0, "dst": 1, "destination": 1, "1": 1}


def node_table(source: Source | None, ids: IdMap, plan: Plan) -> tuple[IdMap, tuple[list[str], np.ndarray | None]]:
    """All nodes (those of the table without events come last, in its order), feature names and features (n, g).

    Nodes of an earlier log keep the features they had there. Nodes that the table leaves out have zeros.
    """
    old = None if plan.like is None else plan.like.node_features
    names = list(plan.like.schema.node_features) if plan.like is not None else []
    if source is None:
        return ids, (names, None if old is None else np.pad(old, ((0, len(ids) - len(old)), (0, 0))))
    key = source.column("id")
    side = source.column("side") if plan.bipartite else None
    if plan.like is None:
        names = [name for name in source.names if name not in (key, "side")]
    elif not names:
        raise BadInput("the earlier log has no node features, so this one cannot have a node table.")
    names = source.columns(names)
    numbering = Numbering(plan.bipartite, ids)
    values = Numbers(names, source.rows or 0, plan.fill)
    numbers: list[np.ndarray] = []
    row = 0

    def where(k: int) -> str:
        return f"{source.where(row + k)} of the node table"

    columns = list(dict.fromkeys([key, *([side] if side else []), *names]))
    for batch in source.batches(columns):
        by_name = dict(zip(columns, batch.columns, strict=True))
        given = _read_ids(by_name[key], source.untyped, numbering, len(ids) > 0, where)
        numbers.append(_number(given, by_name[side] if side else None, numbering, where))
        values.extend([by_name[name] for name in names], where)
        row += batch.num_rows
    listed = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    grown = numbering.finish(listed, listed.copy())
    first = np.unique(listed, return_index=True)[1]
    if len(first) < len(listed):
        row = int(np.setdiff1d(np.arange(len(listed)), first)[0])
        name = grown.decode([listed[row]])[0].as_py()
        raise BadInput(f"{source.where(row)} of the node table lists {name!r} a second time.")
    if not names:
        return grown, ([], None)
    matrix = np.zeros((len(grown), len(names)), np.float32)
    matrix[listed] = values.matrix.finish()
    known = np.zeros(len(grown), bool)
    known[listed] = True
    if old is not None:
        matrix[: len(old)] = old
        known[: len(old)] = True
    if not known.all():
        missing = np.flatnonzero(~known)
        shown = grown.decode(missing[:1])[0].as_py()
        warnings.warn(
            f"the node table lacks {len(missing):,} of {len(grown):,} nodes, such as {shown!r}; their features are 0.",
            PintgnWarning,
            stacklevel=3,
        )
    return grown, (names, matrix)


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
