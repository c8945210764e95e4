"""Each node of a tree has one place, and what is read from the places is the tree as the paper defines it."""

from __future__ import annotations

import numpy as np
import pytest

from pintgn.models.history_view import HistoryView
from pintgn.models.trees import grow, grow_ranking
from pintgn.neighbors.index import NeighborIndex

K = 3


def random_history(rng, queries, nodes=6, events=40):
    """The past of queries in the middle of a log with simultaneous events, repeats and self-loops."""
    t = np.sort(rng.integers(0, 15, events))
    index = NeighborIndex()
    index.append(rng.integers(0, nodes, events), rng.integers(0, nodes, events), t)
    when = rng.integers(0, 16, queries)
    features = rng.random((events, 2)).astype(np.float32)
    return HistoryView(index, when, np.searchsorted(t, when), features, None, positional_length=2)


def find_children(history, nodes):
    return history.recent(nodes, K)


def unrolled(trees, place, levels):
    """The tree below a place, as nested tuples of nodes, times and event features."""
    node = int(trees.nodes[trees.node_of[place]])
    if levels == 0:
        return node
    below = []
    for i in np.flatnonzero(trees.mask[place]):
        what = tuple(trees.features[trees.event_of[place, i]].tolist()), float(trees.dt[place, i])
        below.append((what, unrolled(trees, trees.child[place, i], levels - 1)))
    return node, tuple(below)


def looked_up(history, query, node, levels):
    """The same from the definition: the newest contacts of every node, all at the query's time."""
    if levels == 0:
        return int(node)
    mine = history.of(np.array([query]))
    found, below = mine.recent(np.array([[node]]), K), []
    for i in np.flatnonzero(found.mask[0, 0]):
        what = tuple(history.event_table[found.events[0, 0, i]].tolist()), float(np.float32(found.dt[0, 0, i] / 2))
        below.append((what, looked_up(history, query, found.ids[0, 0, i], levels - 1)))
    return int(node), tuple(below)


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_places_unroll_to_the_trees_of_the_definition(positions, depth, seed):
    rng = np.random.default_rng(seed)
    history = random_history(rng, 7)
    roots = rng.integers(0, 8, (7, 2))  # two of the nodes have never been seen
    trees = grow(roots, history, depth, find_children, 2.0, positions)
    assert len(trees.sizes) == depth + 1
    places = np.arange(roots.size) if trees.root_of is None else trees.root_of
    for at, (row, root) in zip(places, [(q, root) for q in range(7) for root in roots[q]], strict=True):
        assert unrolled(trees, at, depth) == looked_up(history, row, root, depth)


@pytest.mark.parametrize("positions", [True, False])
def test_a_node_has_one_place_in_its_group(positions):
    rng = np.random.default_rng(0)
    trees = grow(rng.integers(0, 6, (9, 2)), random_history(rng, 9), 2, find_children, 1.0, positions)
    named = list(zip(trees.group.tolist(), trees.node_of.tolist(), strict=True))
    assert len(set(named)) == len(named)
    ranks = list(zip(trees.group.tolist(), trees.rank.tolist(), strict=True))
    assert len(set(ranks)) == len(ranks)
    if positions:
        assert trees.positions is not None
        nodes = trees.positions.nodes
        assert (nodes[trees.group, trees.rank] == trees.nodes[trees.node_of]).all()
        assert (nodes >= 0).sum() == len(trees.node_of)


@pytest.mark.parametrize("depth", [1, 2])
def test_chosen_trees_are_the_same_trees(depth):
    rng = np.random.default_rng(3)
    history = random_history(rng, 4)
    ranking = grow_ranking(rng.integers(0, 6, 4), rng.integers(0, 6, (4, 5)), history, depth, find_children, 1.0)
    trees, chosen = ranking.trees, np.array([3, 0, 3, 23, 11])
    some = trees.some(chosen, np.zeros((5, 1, 2, 2), np.float32))
    for new, old in enumerate(chosen):
        assert unrolled(some, new, depth) == unrolled(trees, old, depth)
    assert (some.group[: len(chosen)] == np.arange(len(chosen))).all()
    nobody = grow(np.zeros((0, 2), int), history.of(np.zeros(0, int)), depth, find_children, 1.0, False)
    assert nobody.sizes == [0] * (depth + 1)


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
def test_trees_of_strangers_are_their_roots_alone(positions, depth):
    index = NeighborIndex()
    index.append([5], [6], [0])
    history = HistoryView(index, np.array([3, 3]), np.array([1, 1]), None, None, positional_length=2)
    trees = grow(np.array([[1, 2], [3, 4]]), history, depth, find_children, 1.0, positions)
    assert trees.sizes == [4] * (depth + 1)
