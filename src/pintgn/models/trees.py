"""Temporal computation trees as arrays: every node that message passing of a given depth will touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pintgn.models import kernels_trees as kernels
from pintgn.models.history_view import HistoryView, Reads
from pintgn.neighbors.index import Neighbors


@dataclass
class Trees:
    """The trees of w roots per query (two for a link, one for a node), each node of a tree once.

    All depths look at times strictly before the query's own t, and dt is measured from it (paper, Section 2: the
    neighborhoods N(v, t) of every layer are taken at the same t). So wherever a node stands in a tree, the same hangs
    below it, and its embedding at every depth is the same: it is one tree node. With positions a tree node
    belongs to one tree, because its positions do; without, to all trees of one time.

    Tree nodes come level by level: first the roots, then what is one step away and new, and so on. Those of the first l
    levels need the contacts of those of the first l - 1 alone, so message passing always goes from the first tree nodes
    to fewer first ones. What depends on a node or an event alone is stored once, in a row of its own.
    """

    sizes: list[int]  # how many tree nodes the first 1, 2, … levels have
    root_of: np.ndarray | None  # (roots asked for,) the tree node of each; None: in the same order
    group: np.ndarray  # (tree nodes,) the tree of each with positions, the time without
    rank: np.ndarray  # (tree nodes,) how many of its group come before it
    nodes: np.ndarray  # (n',) the distinct nodes
    node_of: np.ndarray  # (tree nodes,) which of them
    node_features: np.ndarray | None  # (n', g)
    child: (
        np.ndarray
    )  # (parents, k) the tree node of each contact, 0 where the mask is False; parents: all but the last level
    mask: np.ndarray  # the same shape
    dt: np.ndarray  # the same shape, float32, in units of the log's time scale
    event_of: np.ndarray  # the same shape, which of the distinct events
    features: np.ndarray | None  # (e', f) of the distinct events
    positions: Reads | None  # (trees, m, w, r): each tree's nodes in order of rank; its own root comes first
    known: np.ndarray | None = None  # (q, a) what else is known of the two roots of a link; see `models.known_columns`

    def nodes_by_tree(self) -> np.ndarray:  # (trees, m)
        """The nodes of each tree in order of rank, -1 where there is none."""
        found = np.full((self.sizes[0], int(self.rank.max(initial=-1)) + 1), -1)
        found[self.group, self.rank] = self.nodes[self.node_of]
        return found

    def some(self, trees: np.ndarray, positions: np.ndarray) -> Trees:
        """Some of the trees, by number, each as if asked for alone, with positions (trees, m, w, r) of their own."""
        every = np.arange(self.sizes[0] + 1)
        starts = np.stack(
            [first + np.searchsorted(self.group[first:last], every) for first, last in pairwise([0, *self.sizes])]
        )
        most = int((starts[:, trees + 1] - starts[:, trees]).sum())
        old_index, owner = np.empty(most, np.int64), np.empty(most, np.int64)
        ends, fresh = np.empty(len(self.sizes), np.int64), np.empty((len(self.sizes), len(trees)), np.int64)
        child = np.empty((most, self.child.shape[1]), np.int32)
        kernels.choose_trees(
            trees, np.array(self.sizes), starts, self.child, self.mask, fresh, old_index, owner, ends, child
        )
        parents = old_index[: ends[-2]]
        return replace(
            self,
            sizes=ends.tolist(),
            group=owner,
            rank=self.rank[old_index],
            node_of=self.node_of[old_index],
            child=child[: len(parents)],
            mask=self.mask[parents],
            dt=self.dt[parents],
            event_of=self.event_of[parents],
            positions=Reads(trees[:, None], trees[:, None], trees, positions),
        )


Find = Callable[[HistoryView, np.ndarray], Neighbors]
"""Which contacts (q, k) of nodes (q,) become their children."""


def grow(roots: np.ndarray, history: HistoryView, depth: int, find: Find, time_unit: float, positions: bool) -> Trees:
    """Trees of `depth` levels below the roots (q, w), each node with the contacts that `look` finds.

    With `positions`, every node of every tree is asked for relative to all roots of its query.
    """
    if not positions:
        order, table = np.argsort(history.t, kind="stable"), history.numbering.scratch(1 + int(roots.max(initial=0)))
        node, group, query_of_root, root_of = np.empty((4, roots.size), np.int64)
        count = kernels.number_roots(
            order,
            history.t,
            np.ascontiguousarray(roots),
            table,
            node,
            group,
            query_of_root,
            root_of.reshape(roots.shape),
        )
        trees = _grown(node[:count], group[:count], query_of_root[:count], history, depth, find, time_unit)
        trees.root_of = root_of
        return trees
    query_of_root = np.repeat(np.arange(len(roots)), roots.shape[1])
    trees = _grown(roots.ravel(), np.arange(roots.size), query_of_root, history, depth, find, time_unit)
    rolled = np.stack([np.roll(roots, -own, axis=1) for own in range(roots.shape[1])], 1)  # own root first
    return replace(trees, positions=history.positions(trees.nodes_by_tree(), rolled.reshape(roots.size, -1)))


def _grown(
    roots: np.ndarray,
    groups: np.ndarray,
    query_of_root: np.ndarray,
    history: HistoryView,
    depth: int,
    find: Find,
    time_unit: float,
) -> Trees:
    """The trees of roots (in order of their groups, each of the query that `query_of_root` says), without positions."""
    query_of_group = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    query_of_group[groups] = query_of_root  # of one group all have the same time: any will do
    held = np.bincount(groups, minlength=len(query_of_group))
    rank = np.arange(len(roots)) - (np.cumsum(held) - held)[groups]
    group, node, sizes, found = groups, roots, [len(roots)], []
    for _ in range(depth):
        begin, end = sizes[-2] if len(sizes) > 1 else 0, sizes[-1]
        ids, _, dt, events, mask = find(history.of(query_of_group[group[begin:end]]), node[begin:end])
        group, node, rank = (np.concatenate([x, np.empty(ids.size, np.int64)]) for x in (group, node, rank))
        child = np.empty(ids.shape, np.int32)
        table = history.numbering.scratch(1 + max(ids.max(initial=0, where=mask), node[:end].max(initial=0)))
        count = kernels.number_children(np.array(sizes), group, node, begin, ids, mask, table, held, rank, child)
        group, node, rank = group[:count], node[:count], rank[:count]
        sizes.append(count)
        found.append((child, mask, (dt / time_unit).astype(np.float32), events))
    child, mask, dt, events = found[0] if depth == 1 else (np.concatenate(x) for x in zip(*found, strict=True))
    distinct, node_of = history.numbering(node, np.ones(len(node), bool))
    features, event_of = None, np.zeros(events.shape, np.int32)
    if history.event_table is not None:
        parents = node[: len(events)]
        features, where = history.distinct_features(events, mask, query_of_group[group[: len(events)]], parents)
        event_of = where.reshape(events.shape)
    return Trees(
        sizes=sizes,
        root_of=None,
        group=group,
        rank=rank,
        nodes=distinct,
        node_of=node_of,
        node_features=None if history.node_table is None else history.node_features(distinct),
        child=child,
        mask=mask,
        dt=dt,
        event_of=event_of,
        features=features,
        positions=None,
    )


@dataclass
class Ranking:
    """Trees of q sources and of c candidates for each, and the positions between them."""

    queries: int
    trees: Trees  # of 1 + c roots per query: the source, then its candidates
    reads: Reads  # (3 q c + q, m, 1, r); see `grow_ranking`
    known: np.ndarray | None = None  # (q c, a)

    def versions(self) -> tuple[Trees, np.ndarray]:
        """The distinct trees that a ranking needs, and which of them is each source as a candidate sees it (q, c).

        Seen from a candidate that no walk joins to it, a source's tree is always the same: it is taken once. The trees
        of the candidates come last, in order.
        """
        assert self.reads.answer is not None
        read = self.reads.answer[:, :, 0]  # (rows, m, r)
        queries, pairs = self.queries, self.trees.sizes[0] - self.queries
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
        roots = np.arange(self.trees.sizes[0]).reshape(queries, -1)
        rows = np.concatenate([roots[:, 0], roots[source[of], 0], roots[:, 1:].ravel()])
        return self.trees.some(rows, positions), version.reshape(queries, -1)


def grow_ranking(
    src: np.ndarray, dst: np.ndarray, history: HistoryView, depth: int, find: Find, time_unit: float
) -> Ranking:
    """Trees and positions for sources (q,) against candidates (q, c); a source's own part is looked up once.

    The reads, one root each: for every pair the source's tree relative to the candidate, the candidate's relative to
    itself, and the candidate's relative to the source; then for every query the source's tree relative to itself.
    """
    roots = np.concatenate([src[:, None], dst], 1)
    of_query = np.repeat(np.arange(len(src)), roots.shape[1])
    trees = _grown(roots.ravel(), np.arange(roots.size), of_query, history, depth, find, time_unit)
    nodes = trees.nodes_by_tree().reshape(*roots.shape, -1)
    ours = np.repeat(nodes[:, 0], dst.shape[1], 0)
    theirs = nodes[:, 1:].reshape(dst.size, -1)
    asked = np.concatenate([ours, theirs, theirs, nodes[:, 0]])
    relative = np.concatenate([dst.ravel(), dst.ravel(), np.repeat(src, dst.shape[1]), src])
    query_of_root = np.concatenate([np.tile(np.repeat(np.arange(len(src)), dst.shape[1]), 3), np.arange(len(src))])
    return Ranking(len(src), trees, history.positions(asked, relative[:, None], query_of_root))
