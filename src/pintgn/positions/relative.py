"""Relative positional features (PINT, Sec. 4, Eqs. 7-11), kept up to date event by event.

One class for both backends: it checks what comes in, keeps the clock and the open group, and plans the passes; the
storages (`exact`, `sketch`) keep rows and run them.

The open group is the events at t = clock. More of them may come, and none may see another, so they are kept as events
until the clock moves and only then applied, all from the same state. A query after the clock adds their part on the
fly. So calls of any size give the same state, bit for bit.
"""

from __future__ import annotations

import logging
import math
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pintgn.errors import BadInput, StaleQuery
from pintgn.events.facts import reading
from pintgn.formatting import size
from pintgn.neighbors.inputs import FLOAT64, INT64, as_events, at_least
from pintgn.positions import inputs
from pintgn.positions.exact import ExactTables
from pintgn.positions.files import read_file, write_file
from pintgn.positions.kernels import divide_counts, log_counts, pair_up
from pintgn.positions.passes import TOO_BIG
from pintgn.positions.room import demand
from pintgn.positions.sketch import SketchRows

BACKENDS = ("auto", "exact", "sketch")
BUDGET = 2**30
NO_EVENTS = np.zeros(0, np.int64)
log = logging.getLogger("pintgn")


class RelativePositions:
    """Counts r_{i->u}(t)[k], k = 0 … d - 1: walks of k steps from u back to i, times decreasing and all before t.

    Args:
        d: Positional length: walks of 0 to d - 1 steps.
        backend: `exact`; `sketch` (estimates in fixed memory); or `auto`: exact until its tables take more than
            `budget` bytes and more than the sketch would, then the sketch of them. Only the events decide.
        nodes: How many nodes to expect. Only saves time; nodes are added as they come.
        width: Numbers that the sketch keeps for each node and level; errors shrink with its square root.
        decay: A walk counts as the product of exp(-decay * (t - t_edge)) over its edges. None: as 1.
        time_unit: What transform `rate` counts per, in the events' unit of time.
        budget: Bytes; see `backend`.
        seed: Of the sketch's random signs.

    Events between the same two nodes at different times, exact repeats and self-loops all count; see docs/positions.md.
    """

    def __init__(
        self,
        d: int = 4,
        backend: str = "auto",
        *,
        nodes: int = 0,
        width: int = 128,
        decay: float | None = None,
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
        self._decay = 0.0 if decay is None or decay == 0 else inputs.positive("decay", decay)
        self._time_unit = None if time_unit is None else inputs.positive("time_unit", time_unit)
        self._auto = backend == "auto"
        self._store = self._sketch() if backend == "sketch" else self._exact()
        self._size = 0
        self._clock: Any = None
        self._origin: Any = None  # the first event's time
        self._time: np.dtype | None = None  # int64 or float64, once there are any
        self._open = (NO_EVENTS, NO_EVENTS)  # buffers of the open group's events, and how many of them are used
        self._opened = 0
        self._opened_pairs: tuple | None = None
        self._backlog: tuple | None = None  # groups that ran out of memory while they were applied
        self._store.reserve(at_least(nodes, 0, "nodes"))

    def _exact(self) -> ExactTables:
        return ExactTables(self._d - 1, self._decay)

    def _sketch(self) -> SketchRows:
        return SketchRows(self._d - 1, self._decay, self._width, self._seed)

    # -- what there is ---------------------------------------------------------------------------------------------

    @property
    def d(self) -> int:
        """Positional length."""
        return self._d

    @property
    def backend(self) -> str:
        """What is in use: `exact` or `sketch`."""
        return self._store.name

    @property
    def clock(self) -> int | float | None:
        """Time of the last event, or of `advance`; None before the first."""
        return None if self._clock is None else self._clock.item()

    @property
    def size(self) -> int:
        """Nodes: one more than the greatest id observed."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._store.nbytes + sum(column.nbytes for column in self._open)

    def __repr__(self) -> str:
        clock = "no events yet" if self._clock is None else f"clock {self.clock}"
        return f"RelativePositions: {self.backend}, d={self.d}, {self.size:,} nodes, {clock}, {size(self.nbytes)}"

    # -- what one does with it -------------------------------------------------------------------------------------

    def observe(self, src: Any, dst: Any, t: Any) -> None:
        """Take in events: three columns (or three numbers), in order of time, none before the clock."""
        self._settle()
        events = as_events(src, dst, t, self._clock, self._time)
        self._run(self._take(*events)[0], self._no_queries(), np.empty((0, 0, 0, self._d)))

    def advance(self, t: int | float) -> None:
        """Say that nothing more happens before t: the open group closes, and the clock is t."""
        self._settle()
        when = inputs.times("t", t, self._time)
        if when.shape:
            raise BadInput(f"t has shape {when.shape}; it is one number.")
        if self._clock is not None and when < self._clock:
            raise StaleQuery(f"advance to t={when}; the clock is already at t={self._clock}.")
        if self._clock is None or when > self._clock:
            groups = self._groups(NO_EVENTS, NO_EVENTS, np.zeros(0, when.dtype))[0]
            self._opened, self._opened_pairs, self._clock = 0, None, when[()]
            self._time = when.dtype
            self._run(groups, self._no_queries(), np.empty((0, 0, 0, self._d)))

    def read(self, nodes: Any, roots: Any, at: Any = None, transform: str = "log1p") -> np.ndarray:
        """Positions of nodes relative to roots at time `at`: (…, d), the three broadcast against each other.

        Only events strictly before `at` count; None is right after the clock: everything observed. A node never
        observed has the position [1, 0, …] relative to itself and zeros otherwise; -1 is padding and gives zeros.
        float64 for `raw`, float32 otherwise.
        """
        self._settle()
        nodes, roots = inputs.nodes("nodes", nodes), inputs.nodes("roots", roots)
        when = None if at is None else inputs.times("at", at, self._time)
        try:
            shape = np.broadcast_shapes(nodes.shape, roots.shape, () if when is None else when.shape)
        except ValueError:
            given = " and ".join(str(a.shape) for a in (nodes, roots, when) if a is not None)
            raise BadInput(f"nodes and roots (and at) have shapes {given}, which do not broadcast.") from None
        together = roots.size == 1 and (when is None or when.size == 1)  # one root, one time: one query
        rows = (1, -1) if together else (-1, 1)
        nodes = inputs.plain(np.broadcast_to(nodes, shape).reshape(rows))
        roots = roots.reshape(1, 1) if together else inputs.plain(np.broadcast_to(roots, shape).reshape(rows))
        if when is not None:
            when = when.reshape(1) if together else np.broadcast_to(when, shape).reshape(-1)
        found = self._pass((NO_EVENTS, NO_EVENTS, NO_EVENTS), nodes, roots, when, transform)
        return found.reshape(*shape, self._d)

    def replay(
        self, src: Any, dst: Any, t: Any, nodes: Any, roots: Any, at: Any, transform: str = "log1p"
    ) -> np.ndarray:
        """Observe a batch and answer its queries, each as of its own time: nodes (q, m), roots (q, w), at (q,).

        Means: for every group of simultaneous events in turn, read what is asked at that time, then observe the group.
        One native pass does it, with the same answers whatever the size of the batch. `at` need not be sorted.
        Returns (q, m, w, d). The state afterwards is as after `observe(src, dst, t)`.
        """
        self._settle()
        nodes, roots = inputs.nodes("nodes", nodes), inputs.nodes("roots", roots)
        when = None if at is None else inputs.times("at", at, self._time)
        if nodes.ndim != 2 or roots.ndim != 2 or len(nodes) != len(roots) or (
            when is not None and when.shape != nodes.shape[:1]
        ):  # fmt: skip
            given = f"{nodes.shape}, {roots.shape} and {None if when is None else when.shape}"
            raise BadInput(f"nodes, roots and at have shapes {given}; they are (q, m), (q, w) and (q,).")
        events = as_events(src, dst, t, self._clock, self._time)
        return self._pass(events, nodes, roots, when, transform)

    def fork(self) -> RelativePositions:
        """An independent copy."""
        self._settle()
        return self._restored(self._settings(), self._arrays())

    def save(self, path: str | PathLike[str]) -> None:
        """Write to one file of plain arrays; it is replaced as a whole or not at all."""
        self._settle()
        write_file(path, self._settings(), self._arrays())

    @classmethod
    def open(cls, path: str | PathLike[str]) -> RelativePositions:
        """Read what `save` wrote."""
        settings, arrays = read_file(path)
        with reading(Path(path)):
            return cls._restored(settings, arrays)

    # -- the pass --------------------------------------------------------------------------------------------------

    def _pass(
        self, events: tuple, nodes: np.ndarray, roots: np.ndarray, at: np.ndarray | None, transform: str
    ) -> np.ndarray:
        inputs.transform(transform, self._time_unit)
        if at is not None and at.size and self._clock is not None and at.min() < self._clock:
            raise StaleQuery(
                f"asked for positions at t={at.min()}; events up to t={self._clock} have been observed. "
                f"Ask at t={self._clock} or later, or keep a fork of the earlier state."
            )
        count, shape = len(nodes), (len(nodes), roots.shape[1], nodes.shape[1])
        size = math.prod(shape) * self._d * 12
        demand(size, size, f"an answer of {math.prod(shape):,} positions", "Ask in smaller batches.")
        raw = np.empty((*shape, self._d))
        groups, when = self._take(*events)
        if at is None:
            row = np.arange(count)
            before, ahead = np.full(count, len(when)), np.full(count, True)
            elapsed = np.full(count, self._since_first(self._clock)) if self._clock is not None else np.zeros(count)
        else:
            row = np.argsort(at, kind="stable")
            at = at[row]
            before = np.searchsorted(when, at)
            ahead = at > self._clock if self._clock is not None else np.full(count, True)
            elapsed = self._since_first(at)
        ahead = ahead & (self._opened > 0)
        self._run(groups, (nodes, roots, row, before, ahead, elapsed), raw)
        since = np.empty(count)
        since[row] = elapsed
        return self._transformed(raw, since, transform)

    def transformed(self, raw: np.ndarray, at: np.ndarray, transform: str) -> np.ndarray:
        """Raw counts (q, w, m, d), wherever they come from, in the form and order of `replay`'s answers; `at` (q,)."""
        inputs.transform(transform, self._time_unit)
        return self._transformed(np.array(raw, np.float64), self._since_first(at), transform)

    def _transformed(self, raw: np.ndarray, since: np.ndarray, transform: str) -> np.ndarray:  # (q, m, w, d)
        if transform == "raw":
            return np.ascontiguousarray(raw.transpose(0, 2, 1, 3))
        queries, roots, nodes, levels = raw.shape
        out = np.empty((queries, nodes, roots, levels), np.float32)
        if transform == "log1p":
            log_counts(raw, raw.view(np.int64), out)
        else:
            rate = transform == "rate"
            factors = 1 + np.maximum(since, 0.0) / self._time_unit if rate else np.ones(0)
            divide_counts(raw, factors, out)
        return out

    def _take(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> tuple[tuple, np.ndarray]:
        """Put events into the open group; returns the groups that are complete by that, and their times."""
        if not t.size:
            return self._groups(src, dst, t, close=False)
        size = max(self._size, int(max(src.max(), dst.max())) + 1)
        self._store.reserve(size)  # nothing has changed yet if this is too much
        closes = self._clock is None or t[-1] > self._clock
        last = int(np.searchsorted(t, t[-1])) if closes else 0  # from here on: the group that is open afterwards
        self._time = t.dtype
        if self._origin is None:
            self._origin = t[0]
        groups, when = self._groups(src[:last], dst[:last], t[:last], close=closes)
        if closes:
            self._opened = 0
        self._size, self._clock, self._opened_pairs = size, t[-1], None
        self._append(src[last:], dst[last:])
        return groups, when

    def _groups(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, close: bool = True) -> tuple[tuple, np.ndarray]:
        """The open group (if it closes) and the events after it, as pairs group by group; and their times."""
        if close and self._opened:
            src, dst = (np.concatenate((a[: self._opened], b)) for a, b in zip(self._open, (src, dst), strict=True))
            t = np.concatenate((np.full(self._opened, self._clock), t))
        n = len(src)
        bounds = np.concatenate(([0], np.flatnonzero(t[1:] != t[:-1]) + 1, [n])) if n else np.zeros(1, np.int64)
        when = t[bounds[:-1]]
        one, two, times = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
        starts = np.zeros(len(bounds), np.int64)
        keys = (np.minimum(src, dst) << 32) | np.maximum(src, dst)
        for g in np.flatnonzero(np.diff(bounds) > 64):
            keys[bounds[g] : bounds[g + 1]].sort()
        pairs = pair_up(keys, bounds, one, two, times, starts)
        return (one[:pairs], two[:pairs], times[:pairs], starts, self._since_first(when)), when

    def _append(self, src: np.ndarray, dst: np.ndarray) -> None:
        need = self._opened + len(src)
        if need > len(self._open[0]):
            room = max(need, 2 * self._opened, 16)
            a, b = np.empty(room, np.int64), np.empty(room, np.int64)
            a[: self._opened], b[: self._opened] = (column[: self._opened] for column in self._open)
            self._open = (a, b)
        self._open[0][self._opened : need], self._open[1][self._opened : need] = src, dst
        self._opened = need

    def _pairs_ahead(self) -> tuple:
        """The open group as directed pairs, sorted by the node they lead to."""
        if self._opened_pairs is None:
            src, dst = (column[: self._opened] for column in self._open)
            other = src != dst
            keys = np.concatenate(((dst << 32) | src, (src[other] << 32) | dst[other]))
            keys, often = np.unique(keys, return_counts=True)
            when = self._since_first(self._clock) if self._opened else 0.0
            self._opened_pairs = (keys >> 32, keys & 0xFFFFFFFF, often.astype(np.float64), float(when))
        return self._opened_pairs

    def _since_first(self, t: Any) -> Any:
        """Time since the first event, as float64; int64 times are subtracted as such."""
        if self._origin is None:
            return np.zeros(np.shape(t))
        if self._time == INT64 and np.size(t) and int(np.max(t)) - int(self._origin) >= 2**63:
            return np.asarray(t, np.float64) - np.float64(self._origin)
        return np.asarray(t - self._origin, np.float64)

    def _run(self, groups: tuple, queries: tuple, out: np.ndarray) -> None:
        """Run the pass to its end, with more memory or the other backend where it asks for that."""
        if len(groups[3]) == 1 and not len(queries[2]):
            return
        progress = np.zeros(4, np.int64)
        if len(groups[3]) > 1:
            self._backlog = (groups, progress)
        opened = self._pairs_ahead() if queries[4].any() else (NO_EVENTS, NO_EVENTS, np.zeros(0), 0.0)
        self._go_on(groups, queries, opened, progress, out)
        self._backlog = None

    def _go_on(self, groups: tuple, queries: tuple, opened: tuple, progress: np.ndarray, out: np.ndarray) -> None:
        sketch = self._sketch()
        limit = (self._budget, sketch.per_node) if self._auto else (2**62, 0)
        while status := self._store.advance(groups, queries, opened, progress, out, limit):
            assert isinstance(self._store, ExactTables)
            if status == TOO_BIG:
                log.warning(
                    "positions of %s nodes take %s: estimated from here on", f"{self._size:,}", size(self.nbytes)
                )
                sketch.absorb(self._store, self._size)
                self._store = sketch
            else:
                self._store.extend(status)

    def _settle(self) -> None:
        """Finish what an earlier call could not for lack of memory; its events are part of the state."""
        if self._backlog is not None:
            groups, progress = self._backlog
            progress[0] = 0
            empty = (NO_EVENTS, NO_EVENTS, np.zeros(0), 0.0)
            self._go_on(groups, self._no_queries(), empty, progress, np.empty((0, 0, 0, self._d)))
            self._backlog = None

    @staticmethod
    def _no_queries() -> tuple:
        none = np.zeros((0, 0), np.int64)
        return none, none, NO_EVENTS, NO_EVENTS, np.zeros(0, np.bool_), np.zeros(0)

    # -- all of it, as settings and arrays -------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return {
            "d": self._d,
            "backend": self.backend,
            "auto": self._auto,
            "width": self._width,
            "decay": self._decay,
            "time_unit": self._time_unit,
            "budget": self._budget,
            "seed": self._seed,
            "size": self._size,
            "integers": None if self._time is None else self._time == INT64,
            "clock": self.clock,
            "origin": None if self._origin is None else self._origin.item(),
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        src, dst = (column[: self._opened] for column in self._open)
        return {**self._store.arrays(), "open_src": src, "open_dst": dst}

    @classmethod
    def _restored(cls, settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> RelativePositions:
        names = ("d", "width", "time_unit", "budget", "seed")
        backend = "sketch" if settings["backend"] == "sketch" else "exact"
        made = cls(backend=backend, decay=settings["decay"], **{name: settings[name] for name in names})
        made._auto, made._size, integers = settings["auto"], settings["size"], settings["integers"]
        made._time = None if integers is None else INT64 if integers else FLOAT64
        kind = np.int64 if integers else np.float64
        made._clock = None if settings["clock"] is None else kind(settings["clock"])
        made._origin = None if settings["origin"] is None else kind(settings["origin"])
        if backend == "sketch":
            made._store = SketchRows.restored(made._d - 1, made._decay, made._width, made._seed, arrays)
        else:
            made._store = ExactTables.restored(made._d - 1, made._decay, arrays)
        made._store.reserve(made._size)
        made._append(arrays["open_src"], arrays["open_dst"])
        return made
