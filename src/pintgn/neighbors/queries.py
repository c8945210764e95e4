"""Checks of arguments: events and queries become flat arrays of the right types, or are refused in one line.

The public methods of `NeighborIndex` and `RelativePositions` come through here. What a stream asks has been checked by
the stream and does not.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pintgn.errors import BadInput, EventOrderError
from pintgn.events.columns import scrambled

NO_GATE = np.array(np.iinfo(np.int64).max)
LARGEST_ID = np.iinfo(np.int32).max
INT64 = np.dtype(np.int64)
FLOAT64 = np.dtype(np.float64)

# Differences of two times must fit their own type.
LIMITS = {INT64: np.int64(2**62), FLOAT64: np.float64(np.finfo(np.float64).max / 2)}


def native(value: ArrayLike) -> np.ndarray:
    """An array in the machine's byte order."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise BadInput("a list of lists of unequal length is no array.") from None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def flat(array: np.ndarray) -> np.ndarray:
    """A one-dimensional, contiguous, aligned, writeable array: the one kind that kernels are compiled for.

    Columns from Arrow are read-only; without this copy every mixture of kinds would be compiled anew.
    """
    flags = array.flags
    if not (flags.c_contiguous and flags.writeable and flags.aligned):
        array = array.copy()
    return array.reshape(-1)


def as_ids(value: ArrayLike, name: str, *, what: str = "node ids") -> np.ndarray:
    """Node ids or event numbers as int64. Floats are refused: an id is an index into a table."""
    array = native(value)
    if array.dtype == INT64:
        return array
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and array.max() <= np.iinfo(np.int64).max):
        return array.astype(np.int64)
    advice = " Map your own ids to 0, 1, 2, … first (an EventLog keeps that map)." if what == "node ids" else ""
    raise BadInput(f"{name} must be {what} (integers), got {array.dtype}{_example(array)}.{advice}")


def as_times(value: ArrayLike, dtype: np.dtype | None, name: str = "t") -> np.ndarray:
    """Times as int64 or float64, in the given type if there is one; never rounded."""
    array = native(value)
    kind = array.dtype.kind
    if dtype is None:  # careful: NumPy takes `dtype == None` for `dtype == float64`
        dtype = FLOAT64 if kind == "f" else INT64
    if array.dtype == dtype:
        return array
    if array.size == 0:
        return array.astype(dtype)
    if kind == "u" and array.max() <= np.iinfo(np.int64).max:
        kind = "i"
    if kind == "i":
        if dtype == INT64:
            return array.astype(INT64)
        if array.min() >= -(2**53) and array.max() <= 2**53:
            return array.astype(FLOAT64)
        raise BadInput(f"{name} holds integers beyond 2**53, which float64 times cannot keep apart. Use int64 times.")
    if array.dtype == FLOAT64:
        odd = ~((array == np.floor(array)) & (np.abs(array) <= 2**53))
        if not odd.any():
            return array.astype(INT64)
        raise BadInput(
            f"{name} is float64{_example(array[odd])}, but times are kept as int64 here. Give whole numbers, "
            "or float64 times from the first event on."
        )
    advice = {
        "f": f"{array.dtype} merges neighboring times; read the times as float64 or int64.",
        "M": "Convert them first, for example t.astype('datetime64[s]').astype('int64').",
    }.get(kind, "Give int64 or float64 numbers.")
    raise BadInput(f"{name} must be int64 or float64, got {array.dtype}{_example(array)}. {advice}")


def as_events(
    src: ArrayLike, dst: ArrayLike, t: ArrayLike, clock: Any, dtype: np.dtype | None, **further: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three equally long columns (or three numbers), in order of time and not before the clock.

    `further` are further columns, which must be as long.
    """
    given = {"src": as_ids(src, "src"), "dst": as_ids(dst, "dst"), "t": as_times(t, dtype)} | further
    columns = {name: np.atleast_1d(column) for name, column in given.items() if column is not None}
    if columns["t"].ndim != 1 or len({column.shape for column in columns.values()}) > 1:
        shapes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise BadInput(f"events need columns of one length; got shapes {shapes}.")
    src, dst, t = (flat(columns[name]) for name in ("src", "dst", "t"))
    if not t.size:
        return src, dst, t
    limit = LIMITS[t.dtype]
    good = (t >= -limit) & (t <= limit)
    if not good.all():
        i = int(np.argmin(good))
        raise BadInput(f"event {i} has t={t[i]}; times must be finite and within ±{limit:.3g}.")
    if (t[1:] < t[:-1]).any():
        i = int(np.argmax(t[1:] < t[:-1])) + 1
        raise EventOrderError(
            f"event {i} has t={t[i]}, earlier than event {i - 1} (t={t[i - 1]}). Sort the events by time."
        )
    if clock is not None and t[0] < clock:
        raise EventOrderError(
            f"event 0 has t={t[0]}, before the clock (t={clock}). Events come in order of time; fork before the clock "
            "moves if you need to go back."
        )
    for name, ids in (("src", src), ("dst", dst)):
        if ids.min() < 0:
            i = int(np.argmax(ids < 0))
            raise BadInput(f"event {i} has {name}={ids[i]}; node ids are 0 or more.")
    if (largest := max(src.max(), dst.max())) >= LARGEST_ID:
        raise BadInput(
            f"node id {largest} is too large: ids are indices into a table and end at {LARGEST_ID - 1}. "
            "Map your own ids to 0, 1, 2, … first."
        )
    return src, dst, t


def as_keys(value: ArrayLike) -> np.ndarray:
    """Keys as uint64; negative integers wrap."""
    array = native(value)
    if array.dtype.kind in "iu" or array.size == 0:
        return array.astype(np.uint64, copy=False)
    raise BadInput(f"keys must be integers, got {array.dtype}. Make them with query_keys(seed, event_numbers).")


def at_least(value: object, least: int, name: str) -> int:
    """A whole number not below `least`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise BadInput(f"{name} must be a whole number, got {value!r}.") from None
    if number < least:
        raise BadInput(f"{name} must be at least {least}, got {number}.")
    return number


def as_queries(
    nodes: ArrayLike, t: ArrayLike, before: ArrayLike | None, time: np.dtype | None, valid: ArrayLike | None = None
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray]:
    """The shape of the nodes; then nodes, times and gates, flat. A node of -1 is not to be looked at."""
    nodes = as_ids(nodes, "nodes")
    shape = nodes.shape
    when = per_query(as_times(t, time), shape, "t")
    gates = NO_GATE if before is None else as_ids(before, "before", what="event numbers")
    limit = LIMITS[when.dtype]
    good = (flat(nodes) >= 0) & (when >= -limit) & (when <= limit)
    if valid is not None:
        mask = np.asarray(valid)
        if mask.dtype != np.bool_:
            raise BadInput(f"valid must be booleans, got {mask.dtype}. Give a mask such as the one a look-up returns.")
        mask = per_query(mask, shape, "valid")
        good |= ~mask
    if not good.all():
        first = int(np.argmin(good))
        if (node := nodes.flat[first]) < 0:
            raise BadInput(f"query {first} asks about node {node}; node ids are 0 or more. Mask it with valid=.")
        raise BadInput(f"query {first} has t={when[first]}; times must be finite and within ±{limit:.3g}.")
    nodes = flat(nodes) if valid is None else np.where(mask, flat(nodes), -1)
    return shape, nodes, when, per_query(gates, shape, "before")


def as_pairs(
    u: ArrayLike, v: ArrayLike, t: ArrayLike, before: ArrayLike | None, time: np.dtype | None
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two columns of nodes, which broadcast together: their shape; then u, v, times and gates, flat."""
    u, v = as_ids(u, "u"), as_ids(v, "v")
    try:
        u, v = np.broadcast_arrays(u, v)
    except ValueError:
        raise BadInput(f"u and v do not fit together: shapes {u.shape} and {v.shape}.") from None
    shape, u, when, gates = as_queries(u, t, before, time)
    return shape, u, as_queries(v, t, before, time)[1], when, gates


def per_query(array: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    """A flat array with one value per query."""
    if array.shape == shape:
        return flat(array)
    try:
        return flat(np.broadcast_to(array, shape))
    except ValueError:
        raise BadInput(
            f"{name} has shape {array.shape}, which does not fit nodes of shape {shape}. "
            "Give one value, or one per query."
        ) from None


def query_keys(seed: int, *parts: ArrayLike) -> np.ndarray:
    """uint64 keys from a seed and any integers that name a query, e.g. its event number and a role.

    The parts broadcast together. Equal arguments give equal keys, so what is drawn with them depends on neither the
    order nor the batching of queries.

    >>> query_keys(0, [3, 4], 1).shape
    (2,)
    >>> bool(query_keys(0, 3)[()] == query_keys(0, [5, 3])[1])
    True
    """
    arrays = [as_keys(part) for part in parts]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    key = scrambled(np.full(math.prod(shape), operator.index(seed) % 2**64, np.uint64))
    for array in arrays:
        key = scrambled(key ^ scrambled(np.broadcast_to(array, shape).reshape(-1)))
    return key.reshape(shape)


def _example(array: np.ndarray) -> str:
    return f" ({array.flat[0]!s}…)" if array.size else ""
