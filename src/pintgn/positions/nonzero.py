"""Which positions are not zero: what a sparse matrix of them needs to know."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pintgn.errors import BadInput
from pintgn.positions.exact import ExactTables
from pintgn.positions.relative import RelativePositions


def nonzero(positions: RelativePositions, block: int = 512) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs (roots, nodes) whose position is not zero after everything observed, a block of roots at a time.

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
