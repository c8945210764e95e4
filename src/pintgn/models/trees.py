"""Temporal computation trees as arrays: every node that message passing of a given depth will touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pintgn.models import kernels_ages
from pintgn.models.kernels_ages import KNOWN
from pintgn.models.past import Past, Reads
from pintgn.neighbors.index import Neighbors
from pintgn.neighbors.pairs import WAYS


@dataclass
class Trees:
    """The trees of w roots per query (two for a link, one for a node), level by level.

    Level l has w * k^l slots per query; the children of slot i are the slots i*k … i*k + k - 1 of the next level, so
    a query's first k^l slots belong to its first root. All depths look at times strictly before the query's own t,
    and dt is measured from it (paper, Section 2: the neighborhoods N(v, t) of every layer are taken at the same t).

    What depends on a node or an event alone stands once, in a row of its own; `node_of` and `event_of` say which row
    each slot of each level has (row 0 where there is nothing: the mask decides). Without positions a tree depends on
    its root and time alone, so equal ones are grown once, as if asked for one by one; `tree_of` says which is whose.
    """

    roots: int
    queries: int
    tree_of: np.ndarray | None  # (queries asked for * w,) the tree of each of their roots; None: in the same order
    mask: list[np.ndarray]  # level l: (q, w * k^l), False where there is no node
    dt: list[np.ndarray]  # from level 1 on: the same shape, float32, in units of the log's time scale
    nodes: np.ndarray  # (n',) the distinct nodes
    node_of: list[np.ndarray]  # level l: (slots,)
    node_features: np.ndarray | None  # (n', g)
    event_of: list[np.ndarray]  # from level 1 on: (slots,)
    features: np.ndarray | None  # (e', f) of the distinct events
    positions: Reads | None  # (trees, m, w, r): each tree's levels one after the other; its own root comes first
    acquaintance: np.ndarray | None = None  # (q, a) what the two roots of a link know of each other; see `known`

    def bounds(self) -> list[tuple[int, int]]:
        """First and last slot of each level, when the levels of a tree stand one after the other."""
        return list(pairwise(np.cumsum([0, *(level.shape[1] // self.roots for level in self.mask)]).tolist()))

    def some(self, rows: np.ndarray, positions: np.ndarray) -> Trees:
        """Some of the trees, by number, each as if asked for alone, with positions (rows, m, w, r) of their own."""

        def chosen(level: np.ndarray) -> np.ndarray:
            return level.reshape(self.queries * self.roots, -1)[rows]

        return replace(
            self,
            roots=1,
            queries=len(rows),
            mask=[chosen(level) for level in self.mask],
            dt=[chosen(level) for level in self.dt],
            node_of=[chosen(level).ravel() for level in self.node_of],
            event_of=[chosen(level).ravel() for level in self.event_of],
            positions=Reads(rows[:, None], rows[:, None], rows, positions),
        )


def known(src: np.ndarray, dst: np.ndarray, past: Past, time_unit: float) -> np.ndarray:  # (q, a)
    """How often and how recently u met v, v met u, and each of them anyone, either way round: as columns."""
    found = past.acquaintance(src, dst)
    counts = found.counts.reshape(-1, found.counts.shape[-1])
    out = np.empty((len(counts), KNOWN * counts.shape[1]), np.float32)
    kernels_ages.known(counts, found.dt.reshape(counts.shape), time_unit, out)
    return out


ACQUAINTANCE = KNOWN * len(WAYS)
"""Columns of `known`."""

Look = Callable[[Past, np.ndarray, np.ndarray], Neighbors]
"""Which contacts (…, k) of nodes (q, m) become their children; the mask (q, m) says where there is a node."""


def grow(roots: np.ndarray, past: Past, depth: int, look: Look, time_unit: float, positions: bool) -> Trees:
    """Trees of `depth` levels below the roots (q, w), each node with the contacts that `look` finds.

    With `positions`, every node of every tree is asked for relative to all roots of its query.
    """
    if not positions:
        roots, past, tree_of = _each_once(roots, past)
        return replace(_grown(roots, past, depth, look, time_unit)[0], tree_of=tree_of)
    trees, everyone = _grown(roots, past, depth, look, time_unit)
    turned = np.stack([np.roll(roots, -own, axis=1) for own in range(roots.shape[1])], 1)  # own root first
    return replace(trees, positions=past.positions(everyone, turned.reshape(roots.size, -1)))


def _grown(roots: np.ndarray, past: Past, depth: int, look: Look, time_unit: float) -> tuple[Trees, np.ndarray]:
    """The trees without positions, and the nodes (trees, m) of each, -1 where there is none."""
    nodes, mask = [roots], [np.ones(roots.shape, bool)]
    dt, events = [], []
    flat = (len(roots), -1)
    for level in range(depth):
        found = look(past, nodes[level], mask[level])
        nodes.append(found.ids.reshape(flat))
        mask.append(found.mask.reshape(flat))
        dt.append((found.dt.reshape(flat) / time_unit).astype(np.float32))
        events.append(found.events.reshape(flat))
    sizes = [level.size for level in nodes]
    distinct, node_of = past.distinct(_joined(nodes), _joined(mask))
    features, event_of = None, [np.zeros(size, np.int32) for size in sizes[1:]]
    if past.event_table is not None:
        happened, where = past.distinct(_joined(events), _joined(mask[1:]))
        features = past.event_features(happened, np.ones(len(happened), bool))
        event_of = _parted(where, sizes[1:])
    everyone = [np.where(m, n, -1).reshape(roots.size, -1) for n, m in zip(nodes, mask, strict=True)]
    trees = Trees(
        roots=roots.shape[1],
        queries=len(roots),
        tree_of=None,
        mask=mask,
        dt=dt,
        nodes=distinct,
        node_of=_parted(node_of, sizes),
        node_features=past.node_features(distinct),
        event_of=event_of,
        features=features,
        positions=None,
    )
    return trees, np.concatenate(everyone, 1)


def _each_once(roots: np.ndarray, past: Past) -> tuple[np.ndarray, Past, np.ndarray]:
    """The distinct roots (q', 1) and their past, and for each root asked for its place among them."""
    when = np.unique(past.t, return_inverse=True)[1].reshape(-1, 1)
    key = roots * len(past.t) + when
    _, first, tree_of = np.unique(key, return_index=True, return_inverse=True)
    return roots.reshape(-1, 1)[first], past.of(first // roots.shape[1]), tree_of.reshape(-1)


def _joined(levels: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([level.ravel() for level in levels])


def _parted(joined: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(joined, np.cumsum(sizes)[:-1])


@dataclass
class Ranking:
    """Trees of q sources and of c candidates for each, and the positions between them."""

    trees: Trees  # of 1 + c roots per query: the source, then its candidates
    reads: Reads  # (3 q c + q, m, 1, r); see `grow_ranking`
    acquaintance: np.ndarray | None = None  # (q c, a)

    def versions(self) -> tuple[Trees, np.ndarray]:
        """The distinct trees that a ranking needs, and which of them is each source as a candidate sees it (q, c).

        Seen from a candidate that no walk joins to it, a source's tree is always the same: it is taken once. The trees
        of the candidates come last, in order.
        """
        assert self.reads.answer is not None
        read = self.reads.answer[:, :, 0]  # (rows, m, r)
        queries, pairs = self.trees.queries, self.trees.queries * (self.trees.roots - 1)
        other, own, back, alone = np.split(read, [pairs, 2 * pairs, 3 * pairs])
        joined = np.add.reduce(other, axis=1).any(-1)  # (q c,); transformed counts are never negative
        of = np.flatnonzero(joined)
        source = np.repeat(np.arange(queries), pairs // queries)
        version = source.copy()
        version[of] = queries + np.arange(len(of))
        positions = np.zeros((queries + len(of) + pairs, read.shape[1], 2, read.shape[2]), read.dtype)
        positions[:queries, :, 0] = alone
        positions[queries:-pairs, :, 0], positions[queries:-pairs, :, 1] = alone[source[of]], other[of]
        positions[-pairs:, :, 0], positions[-pairs:, :, 1] = own, back
        roots = np.arange(queries * self.trees.roots).reshape(queries, -1)
        rows = np.concatenate([roots[:, 0], roots[source[of], 0], roots[:, 1:].ravel()])
        return self.trees.some(rows, positions), version.reshape(queries, -1)


def grow_ranking(src: np.ndarray, dst: np.ndarray, past: Past, depth: int, look: Look, time_unit: float) -> Ranking:
    """Trees and positions for sources (q,) against candidates (q, c); what is a source's alone is looked up once.

    The reads, one root each: for every pair the source's tree relative to the candidate, the candidate's relative to
    itself, and the candidate's relative to the source; then for every query the source's tree relative to itself.
    """
    roots = np.concatenate([src[:, None], dst], 1)
    trees, everyone = _grown(roots, past, depth, look, time_unit)
    nodes = everyone.reshape(*roots.shape, -1)
    ours = np.repeat(nodes[:, 0], dst.shape[1], 0)
    theirs = nodes[:, 1:].reshape(dst.size, -1)
    asked = np.concatenate([ours, theirs, theirs, nodes[:, 0]])
    relative = np.concatenate([dst.ravel(), dst.ravel(), np.repeat(src, dst.shape[1]), src])
    whose = np.concatenate([np.tile(np.repeat(np.arange(len(src)), dst.shape[1]), 3), np.arange(len(src))])
    return Ranking(trees, past.positions(asked, relative[:, None], whose))
