"""Settings and questions of positions, refused in one line; events are checked as those of the neighbors are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pintgn.errors import BadInput, UnknownName, suggest
from pintgn.neighbors.inputs import FLOAT64, as_ids, as_times, flat

TRANSFORMS = ("raw", "l1", "log1p", "rate")


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


def nodes(name: str, values: Any) -> np.ndarray:
    """Node ids of any shape as int64; -1 is padding."""
    array = as_ids(values, name)
    if array.min(initial=0) < -1:
        raise BadInput(f"{name} holds {array.min()}; node ids are 0 or more (-1 is padding).")
    return plain(array)


def plain(array: np.ndarray) -> np.ndarray:
    """Contiguous and writable: Numba compiles anew, for many seconds, for every other kind of array."""
    return flat(array).reshape(array.shape)


def times(name: str, values: Any, dtype: np.dtype | None) -> np.ndarray:
    """Times of any shape in the type of the earlier events, if there were any."""
    array = as_times(values, dtype, name)
    if array.dtype == FLOAT64 and not np.isfinite(array).all():
        raise BadInput(f"{name} holds {array[~np.isfinite(array)][0]}; times are finite.")
    return plain(array)
