"""Neighbor index on disk: one uncompressed .npz of plain arrays, replaced atomically."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pintgn.errors import BadFile
from pintgn.facts import check_format, read_arrays
from pintgn.files import replacing, write_errors
from pintgn.neighbors import kernels_storage as storage
from pintgn.neighbors.queries import INT64, LIMITS

FORMAT = 3
OLDEST = 2
"""A format without ties."""
RENAMED = {"ways": "outgoing"}
"""Columns that had other names in files of these formats."""
COLUMNS = ("lengths", "ids", "times", "numbers", "outgoing", "open_numbers", "open_ties")
TYPES = {"lengths": "i8", "ids": "i4", "numbers": "i8", "outgoing": "i1", "open_numbers": "i8", "open_ties": "u8"}


class Pieces(NamedTuple):
    """A column that is written piece by piece, so that it is never in memory as a whole."""

    dtype: np.dtype
    length: int
    made: Iterator[np.ndarray]


class Stored(NamedTuple):
    """Entries of node v are the next lengths[v] rows, newest first; when writing, columns of entries are `Pieces`."""

    lengths: np.ndarray  # (n,) int64
    ids: Any  # (entries,) int32
    times: Any  # (entries,) int64 or float64
    numbers: Any  # (entries,) int64
    outgoing: Any  # (entries,) int8, 1 outgoing, 0 incoming
    clock: Any  # a scalar of the times' type, or None
    time: np.dtype | None
    events: int
    forgotten: int
    uneven: bool
    open_numbers: np.ndarray  # (g,) int64, rising: events at the clock's own time that came with ties
    open_ties: np.ndarray  # (g,) uint64


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write next to the target, flush, then rename: a reader sees the old file or the new one.

    A file as `np.savez` writes it.
    """
    with (
        write_errors(path, "Choose a writable folder with room."),
        replacing(path) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
    ):
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                if not isinstance(array, Pieces):
                    np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=False)
                    continue
                layout = {"descr": np.dtype(array.dtype).str, "fortran_order": False, "shape": (array.length,)}
                np.lib.format.write_array_header_1_0(out, layout)
                for piece in array.made:
                    out.write(np.ascontiguousarray(piece, array.dtype).data)


def write(path: Path, stored: Stored) -> None:
    head = [FORMAT, stored.events, stored.forgotten, stored.uneven, stored.time is not None]
    clock = np.array([] if stored.clock is None else [stored.clock], stored.time or INT64)
    columns = {name: getattr(stored, name) for name in COLUMNS}
    write_arrays(path, {"head": np.array(head, np.int64), "clock": clock, **columns})


def read(path: Path) -> Stored:
    """Read, and check everything that a kernel relies on."""
    if not path.exists():
        raise BadFile(f"there is no file {path}. Write one with NeighborIndex.save.")
    try:
        arrays = {"open_numbers": np.zeros(0, np.int64), "open_ties": np.zeros(0, np.uint64)} | read_arrays(path)
        arrays = {RENAMED.get(name, name): array for name, array in arrays.items()}
        names = ("head", "clock", *COLUMNS)
        head, clock, lengths, ids, times, numbers, outgoing, open_numbers, open_ties = (arrays[name] for name in names)
    except (BadFile, KeyError) as error:
        raise BadFile(f"{path} is not a saved NeighborIndex, or is damaged ({error}).") from error
    if not head.size or head.dtype != np.int64:
        raise BadFile(f"{path} is damaged: it does not say its format. Build it again from the events.")
    check_format(int(head[0]), FORMAT, str(path), "Build it again from the events.", OLDEST)
    good = (
        head.shape == (5,)
        and all(arrays[name].ndim == 1 for name in names)
        and all(arrays[name].dtype == TYPES[name] for name in TYPES)
    )
    good = good and times.dtype in LIMITS and clock.dtype == times.dtype and clock.size <= 1
    good = good and bool((lengths >= 0).all()) and (clock.size == 1 or not len(ids))
    good = good and int(lengths.sum()) == len(ids) == len(times) == len(numbers) == len(outgoing)
    good = good and len(open_numbers) == len(open_ties) and bool((np.diff(open_numbers) > 0).all())
    if good and len(ids):
        limit, offsets = LIMITS[times.dtype], np.append(0, np.cumsum(lengths))
        good = abs(clock[0]) <= limit and bool((times >= -limit).all()) and bool((outgoing.view(np.uint8) <= 1).all())
        good = good and storage.check_stored(offsets, ids, times, numbers, len(lengths), head[1], clock[0])
    if not good:
        raise BadFile(f"{path} is damaged: its arrays do not fit together. Build it again from the events.")
    _, events, forgotten, uneven, decided = head.tolist()
    time = times.dtype if decided else None
    clock = clock[0] if clock.size else None
    facts = (clock, time, events, forgotten, bool(uneven), open_numbers, open_ties)
    return Stored(lengths, ids, times, numbers, outgoing, *facts)
