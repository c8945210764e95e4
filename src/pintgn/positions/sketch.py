"""Sketch backend: rows projected to a fixed width, for graphs whose exact rows do not fit."""

from __future__ import annotations

import numpy as np

from pintgn.positions.capacity import available, require_memory
from pintgn.positions.exact import ExactTables
from pintgn.positions.kernels_sketch import project, sketch_pass

CHUNK = 16  # tables that are converted at a time; the lists of what they reach take up to 24 bytes a node each


def bytes_per_node(levels: int, width: int) -> int:
    """Bytes of the sketch per node; eight are spare, so that `auto` switches where it always did."""
    return levels * width * 4 + 9


class SketchRows:
    """Storage of the sketch: (nodes, levels, width) single-precision sums."""

    name = "sketch"

    def __init__(self, levels: int, width: int, seed: int) -> None:
        self.levels, self.width, self.seed = levels, width, seed
        self.nodes = 0
        self.rows = np.zeros((0, levels, width), np.float32)
        self.seen = np.zeros(0, np.bool_)  # nodes with events: all others have no walks, and that is certain

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.seen.nbytes

    def reserve(self, nodes: int) -> None:
        have = len(self.rows)
        if nodes > have:
            new = max(nodes, have + have // 32, 64)  # what is added is filled with zeros: it takes memory at once
            more = (new - have) * bytes_per_node(self.levels, self.width)
            what = f"a sketch of {nodes:,} nodes with width={self.width}"
            require_memory(more, self.nbytes + more, what, self._advice(nodes))
            if have:
                self.rows.resize((new, self.levels, self.width), refcheck=False)
                self.seen.resize(new, refcheck=False)
            else:  # zeros that are not touched take no memory yet
                self.rows = np.zeros((new, self.levels, self.width), np.float32)
                self.seen = np.zeros(new, np.bool_)
        self.nodes = max(self.nodes, nodes)

    def _advice(self, nodes: int) -> str:
        fits = (available() + self.nbytes) * 4 // 5 // max(nodes * self.levels * 4, 1)
        if fits < 1:
            most = (available() + self.nbytes) * 4 // 5 // max(self.levels * 4 * 16, 1)
            return f"Even width=1 does not fit; width=16 would fit {most:,} nodes. Number your nodes 0, 1, 2, …"
        return f"width={fits} would fit (a narrower sketch is noisier), or a smaller d."

    def advance(self, groups: tuple, queries: tuple, open_pairs: tuple, progress: np.ndarray, out: np.ndarray) -> int:
        """Run the pass; it always completes (0)."""
        signs = np.empty(self.width, np.float32)
        views = np.empty((out.shape[1], self.levels, self.width), np.float32)
        sketch_pass(
            self.rows, self.seen, np.uint64(self.seed), groups, queries, open_pairs, progress, signs, views, out
        )
        return 0

    def absorb(self, exact: ExactTables, nodes: int) -> None:
        """Project exact rows and consume them: both together would take more memory than either.

        The result is what the sketch would hold had it seen the events itself.
        """
        self.reserve(nodes)
        self.seen[:nodes] = exact.seen(nodes)
        signs = np.empty(self.width, np.float32)
        for owners, members, counts in exact.emptied(CHUNK):
            project(self.rows, np.uint64(self.seed), owners, members, counts, signs)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name)[: self.nodes] for name in ("rows", "seen")}

    def load(self, arrays: dict[str, np.ndarray], copy: bool) -> None:
        """Restore from `arrays`, or from copies of them."""
        named = (arrays[name] for name in ("rows", "seen"))
        owned = (np.array(one) if copy else np.require(one, requirements="O") for one in named)  # they will grow
        self.rows, self.seen = owned
        self.nodes = len(self.rows)
