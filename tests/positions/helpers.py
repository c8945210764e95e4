"""Random small logs, the oracle's answer, and a plain NumPy implementation for larger logs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from pintgn.positions import RelativePositions
from tests.theory.oracle import walk_counts

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


class Scattered(RelativePositions):
    """The same positions under large ids. Tables of few nodes are dense; with these they are sparse."""

    def observe(self, src, dst, t):
        super().observe(scatter(src), scatter(dst), t)

    def read(self, nodes, roots, *arguments, **more):
        return super().read(scatter(nodes), scatter(roots), *arguments, **more)

    def replay(self, src, dst, t, nodes, roots, *arguments, **more):
        return super().replay(*map(scatter, (src, dst)), t, *map(scatter, (nodes, roots)), *arguments, **more)


def scatter(ids):
    ids = np.asarray(ids, np.int64)
    return np.where(ids < 0, ids, 3000 + 997 * ids)


SHAPES = {"dense": RelativePositions, "sparse": Scattered}


def columns(events: list[tuple[int, int, int]]) -> Columns:
    table = np.array(sorted(events, key=lambda event: event[2]), np.int64).reshape(-1, 3)
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()


@st.composite
def logs(draw: st.DrawFn, events: int = 11, nodes: int = 5, span: int = 6) -> Columns:
    """A log with ties, self-loops, exact repeats; often one node only, often new nodes late."""
    count = draw(st.integers(1, nodes))
    node = st.integers(0, count - 1)
    return columns(draw(st.lists(st.tuples(node, node, st.integers(0, span - 1)), max_size=events)))


@st.composite
def cuts(draw: st.DrawFn, length: int) -> list[slice]:
    """A log of so many events in consecutive pieces, some of them empty, anywhere: also inside a group."""
    at = sorted(draw(st.lists(st.integers(0, length), max_size=4)))
    return [slice(a, b) for a, b in itertools.pairwise([0, *at, length])]


def random_log(seed: int, events: int = 9, nodes: int = 5, span: int = 5) -> Columns:
    rng = np.random.default_rng(seed)
    nodes, events = int(rng.integers(1, nodes + 1)), int(rng.integers(0, events + 1))
    drawn = rng.integers(0, [nodes, nodes, span], (events, 3))
    return columns([tuple(row) for row in drawn.tolist()])


def oracle(log: Columns, nodes: int, t: float, d: int) -> np.ndarray:
    """r_{i->u}(t) for all i and u below `nodes`, by listing every walk: (i, u, d)."""
    events = list(zip(*(column.tolist() for column in log), strict=True))
    found = np.zeros((nodes, nodes, d))
    for root in range(nodes):
        for node, counts in walk_counts(events, root, t, d).items():
            found[node, root] = counts
    return found


def everything(positions: RelativePositions, nodes: int, at: float | None, transform: str = "raw") -> np.ndarray:
    ids = np.arange(nodes)
    return positions.read(ids[:, None], ids[None, :], at=at, transform=transform)


def groups(log: Columns) -> Iterator[Columns]:
    src, dst, t = log
    for when in np.unique(t):
        yield src[t == when], dst[t == when], t[t == when]


def numpy_rows(log: Columns, nodes: int, d: int) -> np.ndarray:
    """Eqs. 10-11 and the appendix, row by row in NumPy: (root, d, node)."""
    rows = np.zeros((nodes, d, nodes))
    rows[np.arange(nodes), 0, np.arange(nodes)] = 1.0
    for src, dst, _ in groups(log):
        old = {int(node): rows[node].copy() for node in np.union1d(src, dst)}
        for u, v in zip(src.tolist(), dst.tolist(), strict=True):
            rows[v, 1:] += old[u][:-1]
            if u != v:
                rows[u, 1:] += old[v][:-1]
    return rows
