"""Relative positional features (PINT, Sec. 4, Eqs. 7-11), kept up to date event by event.

One class for both backends: it checks what comes in, keeps the clock and the open group, and plans the passes; the
storages (`exact`, `sketch`) keep rows and run them.

The open group is the events at t = clock. More of them may come, and none may see another, so they are kept as events
until the clock moves and only then applied, all from the same state. A query after the clock adds their part on the
fly. So calls of any size give the same state, bit for bit.
"""

from __future__ import annotations

import json
import logging
import math
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadFile, BadInput, StaleQuery, UnknownName, suggest
from pintgn.facts import check_format, parse, read_arrays, reading
from pintgn.formatting import size
from pintgn.neighbors.index_file import write_arrays
from pintgn.neighbors.queries import FLOAT64, INT64, as_events, as_ids, as_times, at_least, flat
from pintgn.positions import capacity, first_use
from pintgn.positions.exact import NO_LIMIT, ExactTables
from pintgn.positions.kernels_passes import QUERY, TOO_BIG, divide_counts, log_counts, pair_up
from pintgn.positions.sketch import SketchRows, bytes_per_node

BACKENDS = ("auto", "exact", "sketch")
TRANSFORMS = ("raw", "l1", "log1p", "rate")
WIDTH = 128
"""Default width of a sketch: numbers for each node and level."""
SETTINGS = ("d", "width", "time_unit", "budget", "seed")
BUDGET, FORMAT = 3 * 2**27, 1
NO_EVENTS, NO_NODES = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
# as the passes take them; see `kernels_passes`
NO_GROUPS = (NO_EVENTS, NO_EVENTS, np.zeros(0), np.zeros(1, np.int64))
NO_QUERIES = (NO_NODES, NO_NODES, NO_EVENTS, NO_EVENTS, np.zeros(0, np.bool_))
NO_PAIRS = (NO_EVENTS, NO_EVENTS, np.zeros(0))
log = logging.getLogger("pintgn")


class RelativePositions:
    """Counts r_{i->u}(t)[k], k = 0 … d - 1: walks of k steps from u back to i, times decreasing and all before t.

    Args:
        d: Positional length: walks of 0 to d - 1 steps.
        backend: `exact`; `sketch` (estimates in fixed memory); or `auto`: exact until its tables take more than
            `budget` bytes and more than the sketch would, then the sketch of them. Only the events decide.
        nodes: How many nodes to expect. Only saves time; nodes are added as they come.
        width: Numbers that the sketch keeps for each node and level; errors shrink with its square root.
        time_unit: What transform `rate` counts per, in the events' unit of time.
        budget: Bytes; see `backend`.
        seed: Of the sketch's random signs.

    Events between the same two nodes at different times, exact repeats and self-loops all count; see docs/positions.md.

    >>> import pintgn
    >>> positions = pintgn.RelativePositions(d=3)
    >>> positions.observe([0, 1], [1, 2], [10, 20])
    >>> positions.advance(30)
    >>> positions.read(0, 2, transform="raw")  # from 2 back to 0: one walk of two steps
    array([0., 0., 1.])
    """

    def __init__(
        self,
        d: int = 4,
        backend: str = "auto",
        *,
        nodes: int = 0,
        width: int = WIDTH,
        time_unit: float | None = None,
        budget: int = BUDGET,
        seed: int = 0,
    ) -> None:
        if backend not in BACKENDS:
            raise BadInput(f"backend={backend!r}; it is 'auto', 'exact' or 'sketch'.")
        self._d = at_least(d, 1, "d")
        self._width = at_least(width, 1, "width")
        self._budget = at_least(budget, 0, "budget")
        self._seed = at_least(seed, 0, "seed") % 2**64
        self._time_unit = None if time_unit is None else _positive("time_unit", time_unit)
        self._auto = backend == "auto"
        limit = (self._budget, bytes_per_node(self._d - 1, self._width)) if self._auto else NO_LIMIT
        exact = backend != "sketch"
        self._store = ExactTables(self._d - 1, limit) if exact else self._sketch()
        self._size = 0
        self._clock: Any = None
        self._origin: Any = None  # the first event's time
        self._time: np.dtype | None = None  # int64 or float64, once there are any
        self._open = np.empty((2, 0), np.int64)  # buffer of the open group's events: src and dst
        self._opened = 0  # how many there are
        self._open_pairs: tuple | None = None
        self._backlog: tuple | None = None  # groups that ran out of memory while they were applied
        self._store.reserve(at_least(nodes, 0, "nodes"))

    def _sketch(self) -> SketchRows:
        return SketchRows(self._d - 1, self._width, self._seed)

    # -- what there is ---------------------------------------------------------------------------------------------

    @property
    def d(self) -> int:
        """Positional length."""
        return self._d

    @property
    def backend(self) -> str:
        """The current backend: `exact` or `sketch`."""
        return self._store.name

    @property
    def clock(self) -> int | float | None:
        """Time of the newest event, or of `advance`; None before the first."""
        return None if self._clock is None else self._clock.item()

    @property
    def size(self) -> int:
        """Nodes: one more than the greatest id observed."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._store.nbytes + self._open.nbytes

    def __repr__(self) -> str:
        clock = "no events yet" if self._clock is None else f"clock {self.clock}"
        return f"RelativePositions: {self.backend}, d={self.d}, {self.size:,} nodes, {clock}, {size(self.nbytes)}"

    # -- what one does with it -------------------------------------------------------------------------------------

    def observe(self, src: Any, dst: Any, t: Any) -> None:
        """Observe events: three columns (or three numbers), in order of time, none before the clock."""
        self.append(*as_events(src, dst, t, self._clock, self._time))

    def advance(self, t: int | float) -> None:
        """Move the clock to t: nothing more happens before it, and the open group closes."""
        when = _times("t", t, self._time)
        if when.shape:
            raise BadInput(f"t has shape {when.shape}; it is one number.")
        if self._clock is not None and when < self._clock:
            raise StaleQuery(f"advance to t={when}; the clock is already at t={self._clock}.")
        self.append(NO_EVENTS, NO_EVENTS, np.zeros(0, when.dtype), clock=when[()])

    def read(self, nodes: Any, roots: Any, at: Any = None, transform: str = "log1p") -> np.ndarray:
        """Positions of nodes relative to roots at time `at`: (…, d), the three broadcast against each other.

        Only events strictly before `at` count; None is right after the clock: everything observed. A node never
        observed has the position [1, 0, …] relative to itself and zeros otherwise; -1 is padding and gives zeros.
        float64 for `raw`, float32 otherwise.
        """
        nodes, roots = _nodes("nodes", nodes), _nodes("roots", roots)
        when = None if at is None else _times("at", at, self._time)
        try:
            shape = np.broadcast_shapes(nodes.shape, roots.shape, () if when is None else when.shape)
        except ValueError:
            given = " and ".join(str(a.shape) for a in (nodes, roots, when) if a is not None)
            raise BadInput(f"nodes and roots (and at) have shapes {given}, which do not broadcast.") from None
        together = roots.size == 1 and (when is None or when.size == 1)  # one root, one time: one query
        rows = (1, -1) if together else (-1, 1)
        nodes = flat(np.broadcast_to(nodes, shape)).reshape(rows)
        roots = roots.reshape(1, 1) if together else flat(np.broadcast_to(roots, shape)).reshape(rows)
        if when is not None:
            when = when.reshape(1) if together else np.broadcast_to(when, shape).reshape(-1)
        self._check_reads(when, transform)
        return self.serve(NO_EVENTS, NO_EVENTS, NO_EVENTS, nodes, roots, when, transform).reshape(*shape, self._d)

    def replay(
        self, src: Any, dst: Any, t: Any, nodes: Any, roots: Any, at: Any, transform: str = "log1p"
    ) -> np.ndarray:
        """Observe a batch and answer its queries, each as of its own time: nodes (q, m), roots (q, w), at (q,).

        Means: for every group of simultaneous events in turn, read what is asked at that time, then observe the group.
        One native pass does it, with the same answers whatever the size of the batch. `at` need not be sorted.
        Returns (q, m, w, d). The state afterwards is as after `observe(src, dst, t)`.
        """
        nodes, roots = _nodes("nodes", nodes), _nodes("roots", roots)
        when = None if at is None else _times("at", at, self._time)
        if nodes.ndim != 2 or roots.ndim != 2 or len(nodes) != len(roots) or (
            when is not None and when.shape != nodes.shape[:1]
        ):  # fmt: skip
            given = f"{nodes.shape}, {roots.shape} and {None if when is None else when.shape}"
            raise BadInput(f"nodes, roots and at have shapes {given}; they are (q, m), (q, w) and (q,).")
        events = as_events(src, dst, t, self._clock, self._time)
        self._check_reads(when, transform)
        return self.serve(*events, nodes, roots, when, transform)

    def _check_reads(self, at: np.ndarray | None, transform: str) -> None:
        check_transform(transform, self._time_unit)
        if at is not None and at.size and self._clock is not None and at.min() < self._clock:
            raise StaleQuery(
                f"asked for positions at t={at.min()}; events up to t={self._clock} have been observed. "
                f"Ask at t={self._clock} or later, or keep a fork of the earlier state."
            )

    def fork(self) -> RelativePositions:
        """An independent copy."""
        self._finish_backlog()
        return self._restored(self._settings(), self._arrays(), copy=True)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to one file of plain arrays, atomically."""
        self._finish_backlog()
        line = np.frombuffer(json.dumps({"format": FORMAT, **self._settings()}).encode(), np.uint8)
        write_arrays(Path(path), {"settings": line, **self._arrays()})

    @classmethod
    def open(cls, path: str | PathLike[str]) -> RelativePositions:
        """Read a file written by `save`."""
        path = Path(path)
        if not path.exists():
            raise BadFile(f"{path} does not exist.")
        try:
            arrays = read_arrays(path)
            settings = parse(arrays.pop("settings").tobytes(), {"format": int}, "its line of settings")
            if settings.get("decay"):
                raise BadFile("it holds counts with a decay, which positions no longer have")
        except (BadFile, KeyError) as error:
            raise BadFile(
                f"{path} does not hold positions, or is damaged ({error}). RelativePositions.save writes such files."
            ) from None
        check_format(settings.pop("format"), FORMAT, str(path), "Make them again from the events.")
        with reading(path):
            return cls._restored(settings, arrays)

    # -- the pass: everything is checked by now --------------------------------------------------------------------

    def serve(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        t: np.ndarray,
        nodes: np.ndarray,
        roots: np.ndarray,
        at: np.ndarray | None,
        transform: str,
    ) -> np.ndarray:  # (q, m, w, d)
        """`replay` for checked arguments: contiguous arrays of the right types, in order of time."""
        answers = nodes.size * roots.shape[1]
        if (needed := answers * self._d * 12) > capacity.SMALL:
            capacity.require_memory(needed, needed, f"an answer of {answers:,} positions", "Ask in smaller batches.")
        return self._transformed(self.append(src, dst, t, nodes, roots, at), at, transform)

    def append(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        t: np.ndarray,
        nodes: np.ndarray = NO_NODES,
        roots: np.ndarray = NO_NODES,
        at: np.ndarray | None = None,
        clock: Any = None,
    ) -> np.ndarray:
        """`observe`, and `replay` with queries, of arrays that have been checked already; `clock` as `advance` sets it.

        Returns raw counts (q, w, m, d). Events go to the open group; groups that they close are applied.
        """
        if first_use.running:
            first_use.wait()
        if self._backlog is not None:
            self._finish_backlog()
        if len(t):
            clock = t[-1]
            size = max(self._size, int(max(src.max(), dst.max())) + 1)
            if size > self._size:
                self._store.reserve(size)  # nothing has changed yet if this is too much
                self._size = size
            if self._origin is None:
                self._origin = t[0]
        groups, times, last = NO_GROUPS, t[:0], 0
        if clock is not None and (self._clock is None or clock > self._clock):  # the open group closes
            last = int(np.searchsorted(t, clock))  # from here on: the group that is open afterwards
            one, two, when = src[:last], dst[:last], t[:last]
            if self._opened:
                one, two = np.append(self._open[0, : self._opened], one), np.append(self._open[1, : self._opened], two)
                when = np.append(np.full(self._opened, self._clock), when)
            self._clock, self._time, self._opened, self._open_pairs = clock, t.dtype, 0, None
            if len(when):
                bounds = np.concatenate(([0], np.flatnonzero(when[1:] != when[:-1]) + 1, [len(when)]))
                times = when[bounds[:-1]]
                keys = (np.minimum(one, two) << 32) | np.maximum(one, two)
                for g in np.flatnonzero(np.diff(bounds) > 64):
                    keys[bounds[g] : bounds[g + 1]].sort()
                groups = pair_up(keys, bounds)
        if len(t):
            end = self._opened + len(t) - last
            if end > self._open.shape[1]:
                grown = np.empty((2, max(end, 2 * self._opened, 16)), np.int64)
                grown[:, : self._opened] = self._open[:, : self._opened]
                self._open = grown
            self._open[0, self._opened : end], self._open[1, self._opened : end] = src[last:], dst[last:]
            self._opened, self._open_pairs = end, None
        out = np.empty((len(nodes), roots.shape[1], nodes.shape[1], self._d))
        if groups is NO_GROUPS and not len(nodes):
            return out
        queries, open_pairs, progress = NO_QUERIES, NO_PAIRS, np.zeros(4, np.int64)
        if len(nodes):
            queries, open_pairs = self._queries(nodes, roots, at, times)
        if groups is not NO_GROUPS:
            self._backlog = (groups, progress)
        self._run(groups, queries, open_pairs, progress, out)
        return out

    def _run(self, *arguments: Any) -> None:
        """Run the pass, with as much memory as it asks for, or switch to the other backend."""
        while status := self._store.advance(*arguments):
            assert isinstance(self._store, ExactTables)
            if status != TOO_BIG:
                self._store.extend(status)
                continue
            _note_estimate(f"positions of {self._size:,} nodes take {size(self.nbytes)}: estimated from here on")
            sketch = self._sketch()
            sketch.absorb(self._store, self._size)
            self._store = sketch
        self._backlog = None

    def _queries(self, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray | None, times: np.ndarray) -> tuple:
        """Queries in order of time, and the open group as pairs if one sees it; `times` are those of the groups."""
        count = len(nodes)
        row, before, sees_open = np.arange(count), np.full(count, len(times)), np.full(count, self._opened > 0)
        if at is not None:
            row = np.argsort(at, kind="stable")
            before = np.searchsorted(times, at[row])
            if self._opened:
                sees_open = at[row] > self._clock
        queries = (nodes, roots, row, before, sees_open)
        if not sees_open.any():
            return queries, NO_PAIRS
        if self._open_pairs is None:  # directed, sorted by the node they lead to
            src, dst = self._open[:, : self._opened]
            other = src != dst
            keys = np.concatenate(((dst << 32) | src, (src[other] << 32) | dst[other]))
            keys, often = np.unique(keys, return_counts=True)
            self._open_pairs = (keys >> 32, keys & 0xFFFFFFFF, often.astype(np.float64))
        return queries, self._open_pairs

    def _finish_backlog(self) -> None:
        """Apply events that an earlier call could not apply for lack of memory; they are part of the state."""
        if self._backlog is not None:
            groups, progress = self._backlog
            progress[QUERY] = 0
            self._run(groups, NO_QUERIES, NO_PAIRS, progress, np.empty((0, 0, 0, self._d)))

    def transformed(self, raw: np.ndarray, at: np.ndarray, transform: str) -> np.ndarray:
        """Raw counts (q, w, m, d), wherever they come from, in the form and order of `replay`'s answers; `at` (q,)."""
        check_transform(transform, self._time_unit)
        return self._transformed(np.array(raw, np.float64), at, transform)

    def _transformed(self, raw: np.ndarray, at: np.ndarray | None, transform: str) -> np.ndarray:  # (q, m, w, d)
        if transform == "raw":
            return np.ascontiguousarray(raw.transpose(0, 2, 1, 3))
        queries, roots, nodes, levels = raw.shape
        out = np.empty((queries, nodes, roots, levels), np.float32)
        if transform == "log1p":
            log_counts(raw, raw.view(np.int64), out)
        elif transform == "l1":
            divide_counts(raw, np.ones(0), out)
        else:
            t, first = np.full(queries, self._clock or 0) if at is None else at, self._origin
            if first is None:
                elapsed = np.zeros(queries)
            elif self._time == INT64 and len(t) and int(t.max()) - int(first) < 2**63:
                elapsed = (t - first).astype(np.float64)  # whole times are subtracted as such
            else:
                elapsed = t.astype(np.float64) - np.float64(first)
            divide_counts(raw, 1 + np.maximum(elapsed, 0.0) / self._time_unit, out)
        return out

    # -- all of it, as settings and arrays -------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, f"_{name}") for name in SETTINGS} | {
            "backend": self.backend,
            "auto": self._auto,
            "size": self._size,
            "integers": None if self._time is None else self._time == INT64,
            "clock": self.clock,
            "origin": None if self._origin is None else self._origin.item(),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        src, dst = self._open[:, : self._opened]
        return {**self._store.arrays(), "open_src": src, "open_dst": dst}

    @classmethod
    def _restored(
        cls, settings: dict[str, Any], arrays: dict[str, np.ndarray], copy: bool = False
    ) -> RelativePositions:
        backend = "sketch" if settings["backend"] == "sketch" else "auto" if settings["auto"] else "exact"
        made = cls(backend=backend, **{name: settings[name] for name in SETTINGS})
        made._auto, made._size, integers = settings["auto"], settings["size"], settings["integers"]
        made._time = None if integers is None else INT64 if integers else FLOAT64
        kind = np.int64 if integers else np.float64
        made._clock = None if settings["clock"] is None else kind(settings["clock"])
        made._origin = None if settings["origin"] is None else kind(settings["origin"])
        made._store.load(arrays, copy)
        made._store.reserve(made._size)
        made._open, made._opened = np.stack((arrays["open_src"], arrays["open_dst"])), len(arrays["open_src"])
        return made


def check_transform(name: Any, time_unit: float | None) -> None:
    """Refuse a form of counts that does not exist."""
    if not isinstance(name, str) or name not in TRANSFORMS:
        raise UnknownName(f"there is no transform {name!r}.{suggest(name, TRANSFORMS)}")
    if name == "rate" and time_unit is None:
        raise BadInput("transform 'rate' counts per unit of time; give RelativePositions a time_unit.")


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
        raise BadInput(f"{name}={value!r}; it is a positive number, in the time unit of the events, or None.")
    return float(value)


def _nodes(name: str, values: Any) -> np.ndarray:
    """Node ids of any shape as int64; -1 is padding."""
    array = as_ids(values, name)
    if array.min(initial=0) < -1:
        raise BadInput(f"{name} holds {array.min()}; node ids are 0 or more (-1 is padding).")
    return flat(array).reshape(array.shape)


def _times(name: str, values: Any, dtype: np.dtype | None) -> np.ndarray:
    """Times of any shape in the type of the earlier events, if there were any."""
    array = as_times(values, dtype, name)
    if array.dtype == FLOAT64 and not np.isfinite(array).all():
        raise BadInput(f"{name} holds {array[~np.isfinite(array)][0]}; times are finite.")
    return flat(array).reshape(array.shape)


_noted = False


def _note_estimate(text: str) -> None:
    """Log once per process that positions are estimated: training replays its log in every epoch."""
    global _noted
    if not _noted:
        log.warning("%s", text)
    _noted = True
