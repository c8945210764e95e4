"""Operations of events: additions, deletions, node updates, removals; and which edges that leaves alive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pintgn.errors import BadInput, suggest
from pintgn.events.columns import Where, first_true, is_text, plain
from pintgn.events.kernels_order import ADD, DELETE, NODE, REMOVE, follow_edges
from pintgn.events.numbering import Ids

SPELLINGS = {
    ADD: ("1", "+1", "1.0", "+", "a", "add", "added", "addition", "insert", "create", "link"),
    DELETE: ("-1", "-1.0", "-", "d", "del", "delete", "deleted", "deletion", "end", "unlink"),
    NODE: ("0", "0.0", "n", "node", "update", "node_update", "node update"),
    REMOVE: ("remove", "removal", "remove_node", "remove node", "delete_node", "delete node", "drop_node"),
}
"""How an op may be written, in any case. Numbers may also be real numbers: 1, -1 and 0."""
MEANING = {word: code for code, words in SPELLINGS.items() for word in words}


def parse_ops(values: pa.Array, name: str, where: Where) -> np.ndarray:
    """A batch of ops as int8, `REMOVE` for the removal of a node."""
    values = plain(values)
    if (gap := first_true(values.is_null())) >= 0:
        raise BadInput(f"{where(gap)} has no {name}. Write add, delete, node or remove.")
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        values = values.cast(pa.string())
    elif not is_text(values.type):
        raise BadInput(f"column {name!r} holds {values.type}; an op is add, delete, node or remove, or 1, -1 or 0.")
    coded = pc.dictionary_encode(values)
    known = [MEANING.get(word.strip().lower()) for word in coded.dictionary.to_pylist()]
    if None in known:
        bad = first_true(coded.indices.to_numpy() == known.index(None))
        word = values[bad].as_py().strip()
        if not word:
            raise BadInput(f"{where(bad)} has no {name}. Write add, delete, node or remove.")
        near = suggest(word.lower(), ["add", "delete", "node", "remove"])
        raise BadInput(f"{where(bad)} has {name}={word!r}.{near} An op can also be 1, -1 or 0.")
    return np.asarray(known, np.int8)[coded.indices.to_numpy()] if len(known) else np.zeros(0, np.int8)


def named_nodes(
    op: np.ndarray, src: Ids, dst: Ids, names: tuple[str, str], where: Where, dummy: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the rows that name a node in src, and in dst: a node event or removal may leave one of the two empty.

    A node event may also end at the dummy node of a discrete-time log, where there is one.
    """
    alone = (op == NODE) | (op == REMOVE)
    if dummy is not None and alone.any():
        alone &= pc.not_equal(dst.as_text(), dummy).fill_null(True).to_numpy(zero_copy_only=False) | (op != NODE)
    no_src, no_dst = src.missing, dst.missing
    if (lost := first_true(alone & no_src & no_dst)) >= 0:
        raise BadInput(f"{where(lost)} has neither {names[0]!r} nor {names[1]!r}; a node event names its node.")
    both = np.flatnonzero(alone & ~no_src & ~no_dst)
    if len(both):
        one, other = src.as_text().take(pa.array(both)), dst.as_text().take(pa.array(both))
        if (differ := first_true(pc.not_equal(one, other.cast(one.type)))) >= 0:
            k = int(both[differ])
            what = "is a node event" if op[k] == NODE else "removes a node"
            advice = "" if op[k] == NODE else " To end one edge write 'delete'."
            raise BadInput(
                f"{where(k)} {what} but names two: {one[differ].as_py()!r} and {other[differ].as_py()!r}. Leave "
                f"{names[1]!r} empty.{advice}"
            )
    return ~(alone & no_src), ~alone | no_src


def settle(
    src: np.ndarray,
    dst: np.ndarray,
    op: np.ndarray,
    nodes: int,
    strict: bool,
    before: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | int:
    """Replace the removal of a node by deletions of its living edges, in place of that row.

    Every addition makes one living edge (repeated ones count each time), every deletion of the same src and dst
    ends one. The deletions of a removal come in the order in which their edges were first added, the copies of one
    edge together. `before` are earlier events whose edges may still be alive.

    Returns src and dst of the resulting events and the row each comes from; or, under `strict`, the number of
    the first row that deletes something that is not there.
    """
    earlier = 0 if before is None else len(before[0])
    if before is not None:
        past_op = np.full(earlier, ADD, np.int8) if before[2] is None else before[2]
        src, dst = np.concatenate([before[0], src]), np.concatenate([before[1], dst])
        op = np.concatenate([past_op, op])
    _, first, pair = np.unique(src * nodes + dst, return_index=True, return_inverse=True)
    added = np.full(len(first), len(src), np.int64)
    np.minimum.at(added, pair[op == ADD], np.flatnonzero(op == ADD))
    ends = np.stack([src[first], dst[first]])
    loop = ends[0] == ends[1]
    touched = np.concatenate([ends[0], ends[1][~loop]])
    which = np.concatenate([np.arange(len(first)), np.flatnonzero(~loop)])
    by_node = np.lexsort((added[which], touched))
    heads = np.searchsorted(touched[by_node], np.arange(nodes + 1))
    incident = which[by_node]
    alive, seen = np.zeros(len(first), np.int64), np.zeros(nodes, bool)
    most = len(src) + int((op == ADD).sum())  # an edge is removed at most as often as it was added
    origin, edge = np.empty(most, np.int64), np.empty(most, np.int64)
    count, bad = follow_edges(src, dst, op, pair, alive, seen, heads, incident, strict, earlier, origin, edge)
    if bad >= 0:
        return bad - earlier
    return ends[0][edge[:count]], ends[1][edge[:count]], origin[:count] - earlier
