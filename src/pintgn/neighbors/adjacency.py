"""Storage of the neighbor index: each node's entries in arenas that grow, are trimmed, forked, saved and opened."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pintgn.errors import BadInput, TooLarge
from pintgn.neighbors import index_file
from pintgn.neighbors import kernels_storage as storage
from pintgn.neighbors.queries import INT64, LIMITS, as_events, as_ids, as_times, at_least, flat

ON = np.empty(0, np.int64)
"""Numbers of events that are numbered on from the last."""


NARROW = 2**31 - 1
"""Event numbers and entries up to which an entry keeps its event's number in four bytes; eight from then on."""
PIECE = 1 << 20
"""Entries that are written together when an index is saved; a node with more is written at once."""
SLACK = 16
"""The arenas grow by one part in this many: what is added is filled with zeros, so it takes memory at once."""
SPARE = 4096
"""Entries by which they grow at least: a small index need not grow at every batch."""
ENTRY = 20
"""Bytes of an entry: other end, time, number, how many went out so far."""
HUB = 4096
"""Two nodes that both have so many entries get a list of their own: looking through theirs would take too long."""
NO_HUBS = np.iinfo(np.int64).max


class Adjacency:
    """Every node's entries, newest first; see `NeighborIndex`, which adds the look-ups."""

    def __init__(self, nodes: int = 0, *, time: DTypeLike | None = None) -> None:
        nodes = at_least(nodes, 0, "nodes")
        self._time = None if time is None else np.dtype(time)
        if self._time is not None and self._time not in LIMITS:
            raise BadInput(f"time must be 'int64' or 'float64', got {time!r}.")
        self._nodes = 0
        self._events = 0
        self._entries = 0
        self._forgotten = 0
        self._uneven = False
        self._clock: Any = None
        self._open_numbers, self._open_ties = np.zeros(0, np.int64), np.zeros(0, np.uint64)  # of the clock's own group
        self._heads = np.zeros((0, 2), np.int64)
        self._hub = HUB
        self._new_arena(0)
        self._grow_nodes(nodes)

    # --- what it is ---------------------------------------------------------------------------------------

    @property
    def time(self) -> np.dtype | None:
        """The type of the times; None until the first event decides."""
        return self._time

    @property
    def clock(self) -> int | float | None:
        """The time of the last event, None before the first."""
        return None if self._clock is None else self._clock.item()

    @property
    def events(self) -> int:
        """The number that the next event will get; the count of events unless numbers were given."""
        return self._events

    @property
    def size(self) -> int:
        """Number of entries: two for each event, one for a self-loop, less the trimmed ones."""
        return self._entries

    @property
    def nodes(self) -> int:
        """One more than the largest node id seen or hinted."""
        return self._nodes

    @property
    def forgotten(self) -> int:
        """How many entries `trim` has dropped so far."""
        return self._forgotten

    @property
    def nbytes(self) -> int:
        """Bytes allocated, spare capacity included."""
        return sum(array.nbytes for array in (self._heads, *self._arenas, *self._pairs, self._free, self._used))

    def __repr__(self) -> str:
        clock = "empty" if self._clock is None else f"clock {self.clock}"
        return f"NeighborIndex: {self._events:,} events, {self._entries:,} entries, {self._nodes:,} nodes, {clock}"

    # --- growing ------------------------------------------------------------------------------------------

    def append(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        t: ArrayLike,
        *,
        numbers: ArrayLike | None = None,
        ties: np.ndarray | None = None,
    ) -> int:
        """Add events (arrays or single values) whose times do not fall, and return the number of the first.

        Events are numbered on from `events`, unless `numbers` gives their own (increasing, for logs in which not every
        row is an interaction). Of simultaneous events the one with the larger number counts as the newer, or, with
        `ties` (e,) uint64 such as `EventLog.ties`, the one with the larger tie, in whatever order and batches they
        come; give `before` then only numbers at which a group begins. Nothing is added when anything is wrong; only an
        index that runs out of memory keeps the events that still fitted, and counts them.
        """
        own = ON if numbers is None else as_ids(numbers, "numbers", what="event numbers")
        own = np.atleast_1d(own)
        further = {"numbers": None if numbers is None else own, "ties": ties}
        src, dst, t = as_events(src, dst, t, self._clock, self._time, **further)
        if not t.size:
            return self._events
        least = np.append(self._events, own[:-1] + 1)  # each number follows the one before
        if own.size and (own < least).any():
            i = int(np.argmax(own < least))
            raise BadInput(f"event {i} has number {own[i]}; numbers must rise, here from {least[i]} on.")
        return self.add(src, dst, t, flat(own), ties)

    def add(
        self, src: np.ndarray, dst: np.ndarray, t: np.ndarray, own: np.ndarray = ON, ties: np.ndarray | None = None
    ) -> int:
        """`append` for checked arguments: at least one event, in contiguous writeable arrays."""
        first, done, total = self._events, 0, src.size
        if (largest := int(max(src.max(), dst.max()))) >= self._nodes:
            self._grow_nodes(largest + 1)
        if self._time is None:
            self._time = t.dtype
            self._new_arena(0)
        if total <= SPARE and (need := int(self._used[0]) + 4 * total) > len(self._arenas[0]):
            self._grow_arena(need)  # mostly enough: the kernel runs once; for many events it says how much it needs
        if (last := int(own[-1]) if own.size else first + total - 1) > NARROW:
            self._widen(last)
        tied, keys = self._open_numbers[:0], self._open_ties[:0]
        if ties is not None:
            tied, keys = own if own.size else np.arange(first, first + total), np.array(ties, np.uint64)
        if len(self._open_ties) and t[0] == self._clock:
            tied, keys = np.append(self._open_numbers, tied), np.append(self._open_ties, keys)
        try:
            while done < total:
                done, need = storage.append_events(
                    self._heads, *self._arenas, *self._pairs, self._hub, self._free, self._used, src, dst, t, own,
                    first, done, tied, keys,
                )  # fmt: skip
                if need:
                    # What is left needs about two entries each: a bulk load grows the arena once.
                    self._make_space(need, 3 * (total - done))
                elif self._hub in self._heads[[src[done - 1], dst[done - 1]], 1]:
                    self._enter_hubs(int(src[done - 1]), int(dst[done - 1]))
        finally:
            if done > 0:
                self._clock = t[done - 1]
                self._events = int(own[done - 1]) + 1 if own.size else first + done
                begin = int(np.searchsorted(t[:done], self._clock))  # the first at the clock; 0 where a group goes on
                least = 0 if begin == 0 else int(own[begin]) if own.size else first + begin
                here = slice(*np.searchsorted(tied, [least, self._events]))
                self._open_numbers, self._open_ties = tied[here].copy(), keys[here].copy()
                self._entries += 2 * done - int(np.count_nonzero(src[:done] == dst[:done]))
        return int(own[0]) if own.size else first

    def _grow_nodes(self, nodes: int) -> None:
        if nodes > len(self._heads):
            capacity = max(nodes, len(self._heads) * 3 // 2)
            _afford(capacity, 16, "nodes")
            heads = np.zeros((capacity, 2), np.int64)
            heads[: len(self._heads)] = self._heads
            self._heads = heads
        self._nodes = max(self._nodes, nodes)

    def _new_arena(self, capacity: int) -> None:
        _afford(capacity, ENTRY, "entries")
        number = np.int32 if max(capacity, self._events) <= NARROW else np.int64
        kinds = (np.int32, INT64 if self._time is None else self._time, number, np.int32)
        self._arenas: tuple[Any, ...] = tuple(
            np.empty(capacity, kind) for kind in kinds
        )  # of ids, times, numbers and sent
        self._free = np.full(storage.SIZES, -1, np.int64)
        self._used = np.zeros(1, np.int64)
        self._pairs = _pair_table(1)

    def _grow_arena(self, need: int) -> None:
        held = len(self._arenas[0])
        capacity = max(need, held + max(held // SLACK, SPARE))
        _afford(capacity, ENTRY, "entries")
        self._widen(capacity)
        for arena in self._arenas:  # large arrays grow where they are: the system moves pages, not bytes
            arena.resize(capacity, refcheck=False)

    def _make_space(self, need: int, more: int) -> None:
        """Allocate what an append asks for: a larger table of busy pairs, or an arena of that size, with `more`
        spare."""
        if need == storage.GROW_PAIRS:
            keys, heads, count = self._pairs
            self._pairs = _pair_table(2 * len(keys))
            storage.rehash(keys, heads, *self._pairs[:2])
            self._pairs[2][0] = count[0]
        else:
            self._grow_arena(max(need, int(self._used[0]) + more))

    def _enter_hubs(self, src: int, dst: int) -> None:
        """The ends of an event that have just become hubs get a list with each of the others."""
        ends = [node for node in dict.fromkeys((src, dst)) if self._heads[node, 1] == self._hub]
        for node in ends:  # where both have, the second enters the list of the two
            self._enter(node, len(self._heads), ends[1] if node != ends[-1] else -1)

    def _enter_all_hubs(self) -> None:
        """Lists of all busy pairs, which are not kept in files: each hub with itself and those before it."""
        for node in np.flatnonzero(self._heads[:, 1] >= self._hub).tolist():
            self._enter(node, node, -1)

    def _enter(self, node: int, last: int, skipped: int) -> None:
        done, length, hub = 0, int(self._heads[node, 1]), self._hub
        self._hub = NO_HUBS  # should memory run out half-way: lists of single nodes know everything, too
        while done < length:
            done, need = storage.enter_hub(
                self._heads, *self._arenas, *self._pairs, hub, self._free, self._used, node, last, skipped, done
            )
            if need:
                self._make_space(need, length - done)
        self._hub = hub

    def _widen(self, largest: int) -> None:
        """Eight bytes for each number, from when one no longer fits in four: of an event, or of an entry (free segments
        keep where the next one starts)."""
        if largest > NARROW and self._arenas[2].dtype == np.int32:
            ids, times, numbers, sent = self._arenas
            self._arenas = ids, times, numbers.astype(np.int64), sent

    # --- keeping ------------------------------------------------------------------------------------------

    def trim(self, *, keep_last: int | None = None, before_t: float | None = None, spare_newest: bool = False) -> int:
        """Forget entries and return how many: all but each node's newest `keep_last`, and those with time < before_t.

        With `before_t`, the index answers as if the events before that time had never been appended. With `keep_last`,
        each list is cut on its own: `recent` with k <= keep_last and t after the clock is unchanged, older or
        wider questions see less; `last` and `count_pair` still find an event that either end remembers. Clock, event
        numbers and nodes stay; draws of `uniform` and walks change where their candidates do. Frees the memory.
        With `spare_newest`, entries at the clock's own time are kept in addition to the `keep_last`, so that a question
        at t = clock, which does not see them, is answered as before, too.
        """
        keep = np.iinfo(np.int64).max if keep_last is None else at_least(keep_last, 0, "keep_last")
        floor = as_times(0 if before_t is None else before_t, self._time, "before_t")
        if floor.ndim != 0 or np.isnan(floor):
            raise BadInput(f"before_t must be one time, got {before_t!r}.")
        if self._entries == 0:
            return 0
        lengths = np.empty(len(self._heads), np.int64)
        storage.kept_lengths(
            self._heads, self._arenas[1], keep, spare_newest, self._clock, before_t is not None, floor[()], lengths
        )
        dropped = self._entries - int(lengths.sum())
        if dropped:
            self._uneven |= keep_last is not None
            self._rebuild(lengths, self._heads, *self._arenas)
            self._forgotten += dropped
        return dropped

    def _rebuild(self, lengths: np.ndarray, old: np.ndarray, *arenas: np.ndarray) -> None:
        """Lay out the newest lengths[v] entries of each node anew; `old` are the heads of lists in the arenas."""
        starts, held = np.ascontiguousarray(old.T)
        self._heads = np.zeros((len(lengths), 2), np.int64)
        used = storage.lay_out(lengths, self._heads)
        self._new_arena(used)
        self._used[0] = used
        self._entries = int(lengths.sum())
        storage.copy_entries(starts, held, *arenas, self._heads, *self._arenas)  # type: ignore[call-arg]
        if self._uneven:  # each list of two may lack what the other has: a list of both would have to be either
            self._hub = NO_HUBS
        self._enter_all_hubs()

    def _tight(
        self, arena: np.ndarray, dtype: DTypeLike, copied: Callable = storage.copy_column
    ) -> Iterator[np.ndarray]:
        """An arena with nothing between one node's entries and the next, a few nodes at a time."""
        heads = self._heads[: self._nodes]
        ends = np.cumsum(heads[:, 1])
        begin = 0
        while begin < len(heads):
            done = int(ends[begin - 1]) if begin else 0
            stop = max(int(np.searchsorted(ends, done + PIECE, "right")), begin + 1)
            made = np.empty(int(ends[stop - 1]) - done, dtype)
            copied(heads[begin:stop], arena, made)
            yield made
            begin = stop

    def fork(self) -> Self:
        """An independent copy: what either appends, the other never sees."""
        other = copy.copy(self)
        other._heads, other._free, other._used = self._heads.copy(), self._free.copy(), self._used.copy()
        keys, heads, count = self._pairs
        other._pairs = keys.copy(), heads.copy(), count.copy()
        end = int(self._used[0])
        other._arenas = tuple(arena[:end].copy() for arena in self._arenas)
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file of plain arrays, atomically."""
        facts = (
            self._clock, self._time, self._events, self._forgotten, self._uneven, self._open_numbers, self._open_ties,
        )  # fmt: skip
        lengths = np.ascontiguousarray(self._heads[: self._nodes, 1])
        types: tuple[np.dtype, ...] = (np.dtype(np.int32), self._arenas[1].dtype, np.dtype(np.int64), np.dtype(np.int8))
        copied = (*[storage.copy_column] * 3, storage.copy_directions)
        columns = (
            index_file.Pieces(dtype, self._entries, self._tight(arena, dtype, by))
            for arena, dtype, by in zip(self._arenas, types, copied, strict=True)
        )
        index_file.write(Path(path), index_file.Stored._make((lengths, *columns, *facts)))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by `save`; a damaged or foreign one is refused."""
        stored = index_file.read(Path(path))
        index = cls(time=stored.time)
        index._events = stored.events
        lists = np.stack([np.cumsum(stored.lengths) - stored.lengths, stored.lengths], 1)
        numbers = stored.numbers.astype(np.int32 if stored.events <= NARROW else np.int64)
        sent = np.empty(len(stored.outgoing), np.int32)
        storage.count_sent(stored.lengths, stored.outgoing, sent)
        index._forgotten, index._uneven = stored.forgotten, stored.uneven
        index._rebuild(stored.lengths, lists, stored.ids, stored.times, numbers, sent)
        index._nodes, index._clock = len(stored.lengths), stored.clock
        index._open_numbers, index._open_ties = stored.open_numbers, stored.open_ties
        return index


def _pair_table(slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two nodes or -1, where their list is, and how many slots are taken."""
    return np.full((slots, 2), -1, np.int32), np.zeros((slots, 2), np.int64), np.zeros(1, np.int64)


def _afford(count: int, bytes_each: int, what: str) -> None:
    """Refuse an allocation that this machine cannot hold, before trying it."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if count * bytes_each > total:
        raise TooLarge(
            f"{count:,} {what} need {count * bytes_each / 1e9:.1f} GB; this machine has {total / 1e9:.1f} GB, "
            f"which holds {total // bytes_each:,}. Map ids to 0, 1, 2, … without gaps, or trim the index."
        )
