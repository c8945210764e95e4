"""Columns that a user passes in, checked once: what an `EventLog` may be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pintgn.errors import BadInput, EventOrderError
from pintgn.events.columns import first_true
from pintgn.events.schema import LATEST, NODE, OP_NAMES, Feature, Schema, beyond

if TYPE_CHECKING:
    from pintgn.events.log import EventLog

FAR = 64
"""Standard deviations that a column's mean may be away from 0; rounding is then below 1/250,000 of one."""
PIECE = 1 << 20
"""Numbers that are looked at together."""


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    # a missing label is NaN, which must not make a log unequal to itself
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def checked_column(values: Any, name: str, count: int) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (count,):
        raise BadInput(f"{name} has shape {array.shape}, but there are {count} events.")
    return array.view()


def checked_nodes(values: Any, name: str, count: int) -> np.ndarray:
    array = checked_column(values, name, count)
    if array.dtype.kind not in "iu" and len(array):
        raise BadInput(f"{name} holds {array.dtype}, not node numbers. Use pintgn.read_events for other ids.")
    array = array.astype(np.int64, copy=False).view()
    if len(array) and array.min() < 0:
        raise BadInput(f"{name} holds {array.min()} at row {int(array.argmin())}; node numbers start at 0.")
    return array


def checked_times(values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise BadInput(f"t has shape {array.shape}; one time per event is needed.")
    far = beyond(array) if array.dtype.kind in "iuf" else -1
    if far >= 0 and np.isfinite(array[far]):
        raise BadInput(f"event {far} has t={array[far]}; times are within ±{LATEST:.3g}. Count from a later start.")
    if array.dtype.kind in "iu":
        array = array.astype(np.int64, copy=False)
    elif array.dtype == np.float64 or (array.dtype.kind == "f" and not len(array)):
        array = array.astype(np.float64, copy=False)
    elif array.dtype.kind == "f":
        raise BadInput(f"t holds {array.dtype}, which merges distinct times. Pass int64 or float64.")
    else:
        raise BadInput(f"t holds {array.dtype}; pass int64 or float64, or use pintgn.read_events for dates.")
    if (row := first_true(~np.isfinite(array))) >= 0:
        raise BadInput(f"event {row} has t={array[row]}. Every event needs a finite time.")
    if (row := first_true(array[1:] < array[:-1]) + 1) > 0:
        raise EventOrderError(
            f"event {row} has t={array[row]}, earlier than event {row - 1} (t={array[row - 1]}). Sort them by time."
        )
    return array.view()


def checked_known(values: Any, t: np.ndarray) -> np.ndarray:
    """Times at which targets become known, in the type of the events' times: never before the event itself."""
    array = checked_column(values, "known", len(t))
    if array.dtype.kind not in "iuf":
        raise BadInput(f"known holds {array.dtype}; it is a time for each event.")
    far = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), bool)
    whole = np.where(far, LATEST, np.clip(array, -LATEST, LATEST)).astype(t.dtype)
    return np.maximum(whole, t)


def checked_matrix(values: Any, name: str, count: int | None, wide: bool = False) -> np.ndarray | None:
    """A matrix as float32; `wide`, as float64 where that would lose something."""
    if values is None:
        return None
    array = np.ascontiguousarray(values, np.float32).view()
    if array.ndim != 2 or (count is not None and len(array) != count):
        rows = "one row per node" if count is None else f"({count}, width)"
        raise BadInput(f"{name} has shape {array.shape}; {rows} is needed.")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise BadInput(f"{name} row {row}, column {column} is {array[row, column]}. Features must be finite.")
    if wide and np.asarray(values).dtype != np.float32 and not fits_float32(exact := np.array(values, np.float64)):
        return frozen(exact)
    return frozen(array)


def checked_ops(values: Any, count: int) -> np.ndarray:
    array = checked_column(values, "op", count)
    if (row := first_true(~np.isin(array, list(OP_NAMES)))) >= 0:
        raise BadInput(f"event {row} has op={array[row]}; an op is 1 (add), -1 (delete) or 0 (node event).")
    return array.astype(np.int8)


def fits_float32(matrix: np.ndarray) -> bool:
    """Whether float32 holds every column (e, f): whole numbers exactly, others well within their own spread.

    >>> fits_float32(np.array([[0.1], [5.2]])), fits_float32(np.array([[1e9 + 0.1], [1e9 + 5.2]]))
    (True, False)
    >>> fits_float32(np.array([[2.0**24]])), fits_float32(np.array([[2.0**24 + 1]]))
    (True, False)
    """
    rows, width = matrix.shape
    inexact, total, squares = np.zeros(width, bool), np.zeros(width), np.zeros(width)
    step = max(1, PIECE // max(width, 1))
    for start in range(0, rows, step):
        piece = matrix[start : start + step]
        rounded = piece.astype(np.float32) != piece
        if rounded.any():
            if (piece[rounded] % 1 == 0).any():
                return False
            inexact |= rounded.any(0)
        away = piece - matrix[0]  # of numbers far from 0, the squares themselves would say nothing
        total += away.sum(0)
        squares += (away**2).sum(0)
    if not inexact.any():
        return True
    mean = total / rows
    spread = np.sqrt(np.maximum(squares / rows - mean**2, 0))
    return not (inexact & (spread > 0) & (np.abs(matrix[0] + mean) > FAR * spread)).any()


def default_schema(log: EventLog) -> Schema:
    """Names for the columns of a log that was made without a schema."""

    def names(stem: str, matrix: np.ndarray | None) -> tuple[str, ...]:
        return () if matrix is None else tuple(f"{stem}{i}" for i in range(matrix.shape[1]))

    return Schema(
        label=None if log.label is None else "label",
        op=None if log.op is None else "op",
        known=None if log.known is None else "known",
        features=tuple(Feature(name) for name in names("f", log.features)),
        node_features=names("x", log.node_features),
        node_updates=names("u", log.node_updates),
        separate_namespaces=log.ids.separate_namespaces,
    )


def check_schema(log: EventLog, schema: Schema) -> None:
    """Refuse a schema of other widths, and node events that are no self-loops."""
    widths = schema.feature_width, len(schema.node_features), len(schema.node_updates)
    for name, width in zip(("features", "node_features", "node_updates"), widths, strict=True):
        matrix = getattr(log, name)
        given = 0 if matrix is None else matrix.shape[1]
        if given != width:
            raise BadInput(f"{name} have {given} columns, the schema says {width}.")
    dummy = schema.dummy
    if dummy is not None and not 0 <= dummy < log.nodes:
        raise BadInput(f"the schema names node {dummy} as the dummy, but there are only {log.nodes} nodes.")
    if log.op is not None:
        odd = (log.op == NODE) & (log.src != log.dst)
        odd &= True if dummy is None else log.dst != dummy
        if (row := first_true(odd)) >= 0:
            raise BadInput(
                f"event {row} is a node event but runs from {log.src[row]} to {log.dst[row]}. "
                "A node event is a self-loop (or ends at the schema's dummy node)."
            )
