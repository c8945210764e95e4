"""Arguments of the positions room, made into arrays or refused in one line."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from pintgn.errors import BadInput, EventOrderError, UnknownName, suggest

TRANSFORMS = ("raw", "l1", "log1p", "rate")
MOST_NODES = 2**31 - 1
EXACT_FLOAT = 2**53


def whole(name: str, value: Any, least: int) -> int:
    """A setting that is a whole number of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise BadInput(f"{name}={value!r}; it is a whole number of at least {least}.") from None
    if number < least:
        raise BadInput(f"{name}={number}; it is at least {least}.")
    return number


def positive(name: str, value: Any) -> float:
    """A setting that is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise BadInput(f"{name}={value!r}; it is a positive number, in the time unit of the events, or None.")
    return float(value)


def transform(name: Any, time_unit: float | None) -> str:
    if not isinstance(name, str) or name not in TRANSFORMS:
        raise UnknownName(f"there is no transform {name!r}.{suggest(name, TRANSFORMS)}")
    if name == "rate" and time_unit is None:
        raise BadInput("transform 'rate' counts per unit of time; give RelativePositions a time_unit.")
    return name


def nodes(name: str, values: Any, least: int = 0) -> np.ndarray:
    """Node ids of any shape as int64; `least` is -1 where padding is allowed."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise BadInput(f"{name} is a list of lists of unequal length; pass an array.") from None
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind not in "iu":
        raise BadInput(f"{name} holds {array.dtype} values; node ids are whole numbers: 0, 1, 2, …")
    low, high = int(array.min()), int(array.max())
    if low < least:
        also = " (-1 is padding)" if least < 0 else ""
        raise BadInput(f"{name} holds {low}; node ids are 0 or greater{also}.")
    if high > np.iinfo(np.int64).max:
        raise BadInput(f"{name} holds {high}; node ids fit int64.")
    return plain(array, np.int64)


def plain(array: np.ndarray, dtype: type) -> np.ndarray:
    """Contiguous and writable: Numba compiles anew, for many seconds, for every other kind of array."""
    return np.require(array, dtype, ["C_CONTIGUOUS", "WRITEABLE", "ALIGNED"])


def times(name: str, values: Any, integers: bool | None) -> np.ndarray:
    """Times of any shape as int64 or float64; `integers`: what the earlier events have, if there were any."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(array.shape, np.float64 if integers is False else np.int64)
    kind = array.dtype.kind
    if kind == "f" and array.dtype.itemsize < 8:
        raise BadInput(f"{name} is {array.dtype}, in which different times become equal; pass int64 or float64.")
    if kind not in "iuf" or (kind == "u" and int(array.max()) > np.iinfo(np.int64).max):
        raise BadInput(f"{name} holds {array.dtype} values; times are int64 or float64.")
    array = plain(array, np.float64 if kind == "f" else np.int64)
    if kind == "f" and not np.isfinite(array).all():
        where = int(np.flatnonzero(~np.isfinite(array))[0])
        raise BadInput(f"{name} holds {array.ravel()[where]} (number {where}); times are finite.")
    if kind == "f" and integers is True:
        if (array != np.floor(array)).any() or (np.abs(array) > EXACT_FLOAT).any():
            odd = array.ravel()[int(np.flatnonzero((array != np.floor(array)) | (np.abs(array) > EXACT_FLOAT))[0])]
            raise BadInput(f"{name} holds {odd}; the events so far have whole times (int64). Keep to one kind.")
        array = array.astype(np.int64)
    elif kind != "f" and integers is False:
        if (np.abs(array) > EXACT_FLOAT).any():
            raise BadInput(f"{name} holds times beyond 2**53; the events so far have float64 times. Keep to one kind.")
        array = array.astype(np.float64)
    return array


def events(src: Any, dst: Any, t: Any, clock: Any, integers: bool | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three equally long columns, in order of time and not before the clock."""
    columns = {"src": nodes("src", src), "dst": nodes("dst", dst), "t": times("t", t, integers)}
    for name, column in columns.items():
        if column.ndim > 1:
            raise BadInput(f"{name} has shape {column.shape}; events are given as flat columns.")
    lengths = {name: column.size for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadInput(f"src, dst and t have lengths {', '.join(map(str, lengths.values()))}; they must be equal.")
    src, dst, t = (np.atleast_1d(column) for column in columns.values())
    if t.size:
        high = max(int(src.max()), int(dst.max()))
        if high >= MOST_NODES:
            raise BadInput(f"node id {high}; ids stop at {MOST_NODES - 1:,}. Number your nodes 0, 1, 2, … first.")
        back = np.flatnonzero(t[1:] < t[:-1])
        if back.size:
            i = int(back[0]) + 1
            raise EventOrderError(
                f"event {i} has t={t[i]}, earlier than event {i - 1} (t={t[i - 1]}). Sort the events by time."
            )
        if clock is not None and t[0] < clock:
            raise EventOrderError(
                f"event 0 has t={t[0]}, before the clock (t={clock}). Events arrive in order of time; "
                "fork before the clock moves if you need to go back."
            )
    return src, dst, t
