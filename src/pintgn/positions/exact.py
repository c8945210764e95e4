"""Exact backend: one table of walk counts for each root and level, in one growing arena."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pintgn.errors import BadInput
from pintgn.formatting import size
from pintgn.positions.capacity import require_memory
from pintgn.positions.kernels_arena import (
    BINS,
    CAP,
    FREE,
    FREED,
    NODES,
    OFF,
    RATIO,
    SIZES,
    TOP,
    UNIT,
    WIDEST,
    compact,
    unpack,
    widen,
)
from pintgn.positions.kernels_passes import TOO_NARROW, exact_pass

if TYPE_CHECKING:
    from pintgn.positions.relative import RelativePositions

SLACK = 16  # the arena grows by one part in this many
WASTE = 10  # free blocks are swept together when they take one part in this many
START = 1 << 12
NO_LIMIT = (2**62, 0)
LONGEST = 2**31  # an arena of four-byte counts; its lists of free blocks are four-byte numbers, too


class ExactTables:
    """Storage of the exact backend.

    `limit` is what a pass may take: bytes in all, or bytes for each node, if that is more.

    Counts take four bytes while all of them are below 2**31, eight (float64) from then on: exact up to 2**53, then to
    16 digits, and never above 1e300.
    """

    name = "exact"

    def __init__(self, levels: int, limit: tuple[int, int] = NO_LIMIT) -> None:
        self.levels, self.limit = levels, limit
        self.heads = np.zeros((0, 6), np.int32)
        self.rows = 0  # of how many roots there are tables
        self.book = np.zeros(FREE + len(SIZES), np.int64)
        self.arena: np.ndarray = np.zeros(START, np.uint32)
        self.book[RATIO] = self.arena.itemsize // 4

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.heads, self.book, self.arena))

    def reserve(self, nodes: int) -> None:
        """Allocate the rows of `nodes` nodes."""
        have = self.rows
        if nodes > have:
            new = max(nodes, have + have // 4, 64)
            more = (new - have) * self.levels * 24
            require_memory(more, self.nbytes + more, f"exact positions for {nodes:,} nodes", self._advice(nodes))
            self.heads = _extended(self.heads, new * self.levels)
            self.rows = new

    def advance(self, groups: tuple, queries: tuple, open_pairs: tuple, progress: np.ndarray, out: np.ndarray) -> int:
        """Run the pass until it is done (0), needs more memory (see `extend`) or exceeds the limit (TOO_BIG)."""
        scratch = 2 * self.rows if len(groups[3]) > 1 else 0
        return exact_pass(
            self.heads, self.arena.view(np.uint32), self.arena, self.book, *self.limit, groups, queries, open_pairs,
            progress, np.empty(scratch + BINS, np.uint32), np.empty(scratch, self.arena.dtype),
            np.empty(out.shape[2], np.uint32), out,
        )  # fmt: skip

    def extend(self, status: int) -> None:
        """Give the pass the memory it asked for: space in the arena, or eight bytes for each count."""
        length, widest, nodes = len(self.arena), int(self.book[WIDEST]), int(self.book[NODES])
        wider = status == TOO_NARROW or (self.arena.itemsize == 4 and length > LONGEST)
        if not wider and self.book[FREED] * WASTE > length:
            compact(self.heads, self.arena, self.book, self._by_offset())
            return
        longer = length + max(length // SLACK, 8 * widest, START)
        more = 2 * self.arena.nbytes if wider else (longer - length) * self.arena.itemsize
        require_memory(more, self.nbytes + more, f"exact positions of {nodes:,} nodes", self._advice(nodes))
        if not wider:
            self.arena.resize(longer, refcheck=False)
            return
        tables = (self.heads, self.arena.view(np.uint32), self.arena, self.book, self._by_offset())
        needed = widen(*tables, np.zeros(0, np.uint32), np.zeros(0))
        arena = np.zeros(needed + needed // SLACK + 8 * widest)
        widen(*tables, arena.view(np.uint32), arena)
        self.arena = arena

    def _by_offset(self) -> np.ndarray:
        """The nonempty tables, in the order of the arena."""
        used = np.flatnonzero(self.heads[:, CAP])
        return used[np.argsort(self.heads[used, OFF])]

    def _advice(self, nodes: int) -> str:
        narrow = nodes * self.levels * 64 * 4
        return f"backend='sketch' with width=64 would take {size(narrow)}; a smaller d takes less."

    def seen(self, nodes: int) -> np.ndarray:
        """Which of the first nodes have events, as a mask."""
        return self.heads[: nodes * self.levels : max(self.levels, 1), CAP] != 0

    def entries(self, roots: range) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Entries of the rows of some roots: table (root * levels + level), node and count."""
        return self._entries(np.arange(roots.start * self.levels, roots.stop * self.levels))

    def emptied(self, count: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield `entries` of so many tables at a time, from the arena's end on, and free their memory."""
        order = self._by_offset()
        for stop in range(len(order), 0, -count):
            some = order[max(stop - count, 0) : stop]
            yield self._entries(some)
            self.arena.resize(int(self.heads[some[0], OFF]) * UNIT, refcheck=False)

    def _entries(self, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        arguments = (self.heads, self.arena.view(np.uint32), self.arena, self.book, tables)
        n = unpack(*arguments, np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
        nodes, counts, owners = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.int64)
        unpack(*arguments, nodes, counts, owners)
        return owners, nodes, counts

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "heads": self.heads[: int(self.book[NODES]) * self.levels],
            "book": self.book,
            "arena": self.arena[: int(self.book[TOP])],
        }

    def load(self, arrays: dict[str, np.ndarray], copy: bool) -> None:
        """Restore from copies of `arrays`; the arena needs space after them."""
        self.heads, self.book = np.array(arrays["heads"]), np.array(arrays["book"])
        self.rows = int(self.book[NODES])
        self.arena = _extended(arrays["arena"], len(arrays["arena"]) + 8 * int(self.book[WIDEST]) + START)


def nonzero(positions: RelativePositions, block: int = 512) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs (roots, nodes) with a nonzero position after everything observed, a block of roots at a time.

    Only the exact backend can tell: estimates are never quite zero.
    """
    closed = positions.fork()
    clock, size, levels = positions.clock, positions.size, positions.d - 1
    if not isinstance(closed._store, ExactTables):
        raise BadInput("estimated positions are never quite zero. Use RelativePositions(backend='exact').")
    if clock is not None:  # the open group's walks become part of the tables
        closed.advance(clock + 1 if isinstance(clock, int) else float(np.nextafter(clock, np.inf)))
    for begin in range(0, size, block):
        mine = range(begin, min(begin + block, size))
        owners, nodes, _ = closed._store.entries(mine)
        themselves = np.array(mine) * (size + 1)  # level 0
        roots, nodes = np.divmod(np.unique(np.append(themselves, owners // max(levels, 1) * size + nodes)), size)
        yield roots, nodes


def _extended(array: np.ndarray, length: int) -> np.ndarray:
    """The array with zeros after it."""
    made = np.zeros((length, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made
