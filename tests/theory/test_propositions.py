"""Every proposition and lemma of the paper, as a test. Constructions are those of the gallery; the rest is random."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import pytest

from pintgn.discrete.conversion import GraphSnapshot, from_snapshots, to_snapshots
from pintgn.events.log import EventLog
from pintgn.theory.colors import memory_states, refinement, temporal_wl_test
from pintgn.theory.comparison import Comparison, distinguish, read_question
from pintgn.theory.computation_trees import computation_tree, monotone_tree
from pintgn.theory.event_history import EventHistory
from pintgn.theory.items import item
from pintgn.theory.walks import position_vectors, temporal_diameter
from tests.theory.helpers import (
    caw_readout,
    exact_embeddings,
    graph_properties,
    mirrored_log,
    partition,
    random_log,
    refines,
    varied_logs,
)
from tests.theory.injective import TemporalCode


def colors(log: EventLog, depth: int, memory: bool = False) -> list[int]:
    history = EventHistory(log)
    return refinement(memory_states(history) if memory else history.state, history.entries, depth)[depth].tolist()


class Network:
    """An MP-TGN with random weights, in float64: any aggregation, random tanh layers, random GRU-like memory."""

    def __init__(self, seed: int, aggregate: str, memory: bool, width: int = 8):
        self.rng = np.random.default_rng(seed)
        self.aggregate, self.memory, self.width = aggregate, memory, width
        self.weights: dict = {}

    def layer(self, name: str, x: np.ndarray) -> np.ndarray:
        if name not in self.weights:
            self.weights[name] = self.rng.normal(size=(x.shape[-1], self.width)), self.rng.normal(size=self.width)
        w, b = self.weights[name]
        return np.tanh(x @ w + b)

    def messages(self, history: EventHistory, v: int, h: np.ndarray) -> np.ndarray:
        rows = history.entries.of(v)
        event = history.entry_event[rows]
        dt = np.asarray(history.t - history.when[event], float)
        return np.column_stack([h[history.entries.neighbor[rows]], dt, history.feature[event]])

    def embed(self, history: EventHistory, depth: int) -> np.ndarray:
        h = self.states(history) if self.memory else self.layer("x", history.state[:, None].astype(float))
        for level in range(depth):
            new = []
            for v in range(history.nodes):
                rows = self.messages(history, v, h)
                new.append(self.combine(level, h[v], rows))
            h = np.array(new)
        return h

    def combine(self, level: int, own: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            around = np.zeros(self.width)
        elif self.aggregate == "attention":  # TGAT: query from the node, keys and values from its neighbors
            query = self.layer(f"q{level}", own)
            keys, values = self.layer(f"k{level}", rows), self.layer(f"v{level}", rows)
            weight = np.exp(keys @ query)
            around = weight @ values / weight.sum()
        else:
            around = getattr(np, self.aggregate)(self.layer(f"m{level}", rows), axis=0)
        return self.layer(f"u{level}", np.concatenate([own, around]))

    def states(self, history: EventHistory) -> np.ndarray:
        s, last = self.layer("x", history.state[:, None].astype(float)), np.zeros(history.nodes)
        for t in np.unique(history.when).tolist():
            received: dict = {}
            for i in np.flatnonzero(history.when == t).tolist():
                u, v = int(history.src[i]), int(history.dst[i])
                for x, y in {(u, v), (v, u)}:
                    received.setdefault(x, []).append(np.concatenate([s[x], s[y], [t - last[x], history.feature[i]]]))
            mean = self.aggregate == "attention"
            update = {
                v: self.layer("gru", np.concatenate([s[v], np.mean(m, 0) if mean else np.tanh(m).sum(0)]))
                for v, m in received.items()
            }
            for v, new in update.items():
                s[v], last[v] = new, t
        return s


# -- Prop. 1: discrete and continuous time -----------------------------------------------------------------


def test_prop_1_a_sequence_of_graphs_is_rebuilt_from_its_events():
    rng = np.random.default_rng(0)
    for _ in range(20):
        graphs = []
        for _ in range(5):
            m = int(rng.integers(0, 5))
            nodes = rng.permutation(6)[: int(rng.integers(1, 7))]
            features = rng.integers(0, 3, (len(nodes), 2)).astype(np.float32)
            edges = rng.integers(0, 6, (m, 2))
            graphs.append(GraphSnapshot(edges, rng.random((m, 1), np.float32), nodes, features))
        log = from_snapshots(graphs, delta=7)
        back = to_snapshots(log)
        assert len(back) == len(graphs)
        for graph, again in zip(graphs, back, strict=True):
            names = log.ids.decode().to_pylist()
            assert [[names[i] for i in edge] for edge in again.edges.tolist()] == graph.edges.tolist()
            assert np.array_equal(again.features, graph.features)
            assert [names[i] for i in again.nodes.tolist()] == graph.nodes.tolist()
            assert np.array_equal(again.node_features, graph.node_features)


def test_prop_1_events_at_uniform_times_are_rebuilt_from_their_graphs():
    for seed in range(20):
        log = random_log(seed, events=12, times=6, features=3 * (seed % 2))
        even = EventLog(log.src, log.dst, 100 + 60 * log.t, features=log.features)
        again = from_snapshots(to_snapshots(even))
        assert np.array_equal(again.t, even.t)
        assert again.src.tolist() == even.src.tolist()
        assert again.dst.tolist() == even.dst.tolist()
        if even.features is not None:
            assert np.array_equal(again.features, even.features)


# -- Lemma 1, Prop. 2: trees are what MP-TGNs see ----------------------------------------------------------


@pytest.mark.parametrize("aggregate", ["sum", "mean", "max", "attention"])
@pytest.mark.parametrize("memory", [False, True])
def test_lemma_1_isomorphic_trees_give_equal_embeddings(aggregate, memory):
    together = 0
    for seed, log in enumerate([*varied_logs(6, times=3), *(mirrored_log(s, features=2) for s in range(4))]):
        history = EventHistory(log)
        for depth in range(3):
            embedding = Network(seed, aggregate, memory).embed(history, depth)
            trees = [computation_tree(log, v, depth=depth, memory=memory) for v in range(log.nodes)]
            for u in range(log.nodes):
                for v in range(u):
                    if trees[u].isomorphic(trees[v]):
                        assert np.allclose(embedding[u], embedding[v], rtol=0, atol=1e-9)
                        together += 1
    assert together > 20


def test_prop_2_injective_layers_separate_exactly_the_trees_that_differ():
    for log in varied_logs(15):
        history = EventHistory(log)
        for depth in range(4):
            table: dict = {}
            trees = [computation_tree(log, v, depth=depth).canonical(table) for v in range(log.nodes)]
            assert partition(exact_embeddings(history, depth)) == partition(trees)


# -- Prop. 3: memory ---------------------------------------------------------------------------------------


def test_prop_3_memory_helps_where_layers_are_fewer_than_the_temporal_diameter():
    log = item("memory").log  # (b,c,1) (v,b,2) (u,a,2): the longest monotone walk is v-b-c
    assert temporal_diameter(log) == 2
    u, v = log.node("u"), log.node("v")
    # L=1 < 2: without memory both have one entry at time 2 with an unseen partner; memory knows b met c
    assert colors(log, 1)[u] == colors(log, 1)[v]
    assert colors(log, 1, memory=True)[u] != colors(log, 1, memory=True)[v]
    assert colors(log, 2)[u] != colors(log, 2)[v]


def test_prop_3_memory_never_hurts_and_depth_makes_up_for_it():
    strictly = 0
    for log in varied_logs(60):
        diameter = temporal_diameter(log)
        for layers in range(3):
            with_memory = colors(log, layers, memory=True)
            assert refines(with_memory, colors(log, layers))
            assert refines(colors(log, layers + diameter), with_memory)
            strictly += partition(with_memory) != partition(colors(log, layers))
    assert strictly > 10


# -- Prop. 4: attention ------------------------------------------------------------------------------------


def test_prop_4_attention_gives_equal_embeddings_to_nodes_with_different_trees():
    log = item("attention").log
    u, v = log.node("u"), log.node("v")
    for depth in (1, 2, 4):
        assert not computation_tree(log, "u", 3, depth).isomorphic(computation_tree(log, "v", 3, depth))
        answer = distinguish(log, "u", "v", 3, depth=depth)
        assert answer.can("mp-tgn")
        assert answer.can("tgat") is False
        assert answer.can("tgn-att") is False
    for seed in range(10):
        for memory in (False, True):  # TGAT and TGN-Att with random weights
            embedding = Network(seed, "attention", memory).embed(EventHistory(log, 3), 3)
            assert np.allclose(embedding[u], embedding[v], rtol=0, atol=1e-12)
        assert not np.allclose(*Network(seed, "sum", False).embed(EventHistory(log, 3), 2)[[u, v]])


# -- Prop. 5: message passing and walks --------------------------------------------------------------------


def test_prop_5_walks_separate_events_that_no_mp_tgn_does():
    log = item("walks-win").log
    answer = distinguish(log, {"u", "v"}, {"z", "v"}, 3)
    assert computation_tree(log, "u", 3, 6).isomorphic(computation_tree(log, "z", 3, 6))
    assert [answer.can(m) for m in ("mp-tgn", "mp-tgn+memory", "tgat", "tgn-att", "temporal-wl")] == [False] * 5
    assert answer.can("caw") is True


def test_prop_5_mp_tgns_separate_events_that_no_walk_does():
    log = item("messages-win").log
    for steps in (1, 2, 5):  # however long the walks may be, they end after one step
        assert distinguish(log, {"u", "z"}, {"u'", "z"}, 4, depth=3, steps=steps).can("caw") is False
    assert distinguish(log, {"u", "z"}, {"u'", "z"}, 4, depth=2).can("mp-tgn") is False
    assert distinguish(log, {"u", "z"}, {"u'", "z"}, 4, depth=3).can("mp-tgn") is True


# -- Lemma B2, Prop. 6: the temporal WL test ---------------------------------------------------------------


def random_pairs(count: int):
    """Pairs of small graphs: relabelled, one event rewired, or unrelated."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        log = random_log(seed, nodes=6, events=6, times=2, kinds=2)
        src, dst = log.src.copy(), log.dst.copy()
        if seed % 3 == 1:
            i, j = rng.choice(6, 2, replace=False)
            dst[i], dst[j] = dst[j], dst[i]
        order = rng.permutation(6)
        other = EventLog(order[src], order[dst], log.t, node_features=log.node_features[np.argsort(order)])
        yield log, random_log(seed + 1000, nodes=6, events=6, times=2, kinds=2) if seed % 3 == 2 else other


def active(history: EventHistory, values: list) -> Counter:
    return Counter(str(values[v]) for v in np.flatnonzero(history.present))


def test_prop_6_an_injective_mp_tgn_separates_two_graphs_exactly_when_temporal_wl_does():
    verdicts: Counter = Counter()
    for first, second in [*random_pairs(30), tuple(g.log for g in item("girth-messages").graphs)]:
        answer = temporal_wl_test(first, second, t=9)
        both = EventLog(  # one embedding function for both graphs: their disjoint union
            *_union(first, second), node_features=np.concatenate([first.node_features, second.node_features])
        )
        history, n = EventHistory(both, 9), first.nodes
        embeddings = exact_embeddings(history, answer.round + 1)
        counts = [Counter(), Counter()]
        for v in np.flatnonzero(history.present).tolist():
            counts[v >= n][embeddings[v]] += 1
        assert (counts[0] != counts[1]) == (answer.verdict == "non-isomorphic")
        verdicts[answer.verdict] += 1
    assert min(verdicts.values()) > 5


def _union(first: EventLog, second: EventLog):
    src = np.concatenate([first.src, second.src + first.nodes])
    dst = np.concatenate([first.dst, second.dst + first.nodes])
    t = np.concatenate([first.t, second.t])
    order = np.argsort(t, kind="stable")
    return src[order], dst[order], t[order]


@pytest.mark.parametrize("memory", [False, True])
def test_lemma_b2_when_temporal_wl_is_inconclusive_no_mp_tgn_separates(memory):
    inconclusive = 0
    for seed, (first, second) in enumerate(random_pairs(30)):
        if temporal_wl_test(first, second, t=9).verdict == "non-isomorphic":
            continue
        inconclusive += 1
        network = Network(seed, "sum", memory)
        values = []
        for log in (first, second):
            history = EventHistory(log, 9)
            values.append(np.round(network.embed(history, 3)[history.present], 6))
        assert np.allclose(*(rows[np.lexsort(rows.T)] for rows in values), atol=1e-5)
    assert inconclusive > 5


# -- Prop. 7: graph properties -----------------------------------------------------------------------------


def test_prop_7_mp_tgns_cannot_tell_girth_diameter_and_cycles():
    triangles, hexagon = (graph.log for graph in item("girth-messages").graphs)
    assert graph_properties(triangles) == {"girth": 3, "diameter": math.inf, "cycles": 2}
    assert graph_properties(hexagon) == {"girth": 6, "diameter": 3, "cycles": 1}
    assert temporal_wl_test(triangles, hexagon).verdict == "inconclusive"
    for name in ("u1", "v1", "w1", "u2", "v2", "w2"):
        for depth in (1, 3, 6):
            assert computation_tree(triangles, name, depth=depth).isomorphic(
                computation_tree(hexagon, name, depth=depth)
            )


def test_prop_7_caw_cannot_tell_girth_diameter_and_cycles():
    square, none = (graph.log for graph in item("girth-walks").graphs)
    assert graph_properties(square) == {"girth": 4, "diameter": math.inf, "cycles": 1}
    assert graph_properties(none) == {"girth": math.inf, "diameter": 5, "cycles": 0}
    for steps in (1, 2, 4):
        assert caw_readout(square, steps=steps) == caw_readout(none, steps=steps)


def test_the_graph_readout_of_caw_does_tell_other_graphs_apart():
    triangles, hexagon = (graph.log for graph in item("girth-messages").graphs)
    assert caw_readout(triangles, steps=3) != caw_readout(hexagon, steps=3)


# -- Lemma 2: positions ------------------------------------------------------------------------------------


def recursion(log: EventLog, d: int) -> np.ndarray:
    """Eqs. 7-11 with the appendix's rule for simultaneous events: r[i, u] is r_{i->u}."""
    n = log.nodes
    r = np.zeros((n, n, d), int)
    r[np.arange(n), np.arange(n), 0] = 1
    shift = np.eye(d, k=-1, dtype=int)
    for t in np.unique(log.t):
        before = r.copy()
        for i in np.flatnonzero(log.t == t):
            u, v = log.src[i], log.dst[i]
            r[:, v] += before[:, u] @ shift.T
            if u != v:
                r[:, u] += before[:, v] @ shift.T
    return r


def test_lemma_2_positions_count_occurrences_in_the_monotone_tree():
    for log in varied_logs(25):
        r = recursion(log, 5)
        for u in range(log.nodes):
            tree = monotone_tree(log, u)
            for k in range(5):
                level = Counter(tree.level(k))
                assert [level[i] for i in range(log.nodes)] == r[:, u, k].tolist()
        assert np.array_equal(position_vectors(EventHistory(log), np.arange(log.nodes), 5), np.swapaxes(r, 0, 1))


def test_lemma_2_on_the_gallery():
    log = item("positions").log  # (i,u,1) (i,j,1) (j,u,2) (u,v,3)
    i, u, v = (log.node(x) for x in "iuv")
    # from u before time 3: u-1->i, u-2->j-1->i. From v after: v-3->u-1->i and v-3->u-2->j-1->i
    assert position_vectors(EventHistory(log, 3), [u], 4)[0, i].tolist() == [0, 1, 1, 0]
    assert position_vectors(EventHistory(log, 4), [v], 4)[0, i].tolist() == [0, 0, 1, 1]


# -- Lemma B1: monotone trees ------------------------------------------------------------------------------


def test_lemma_b1_isomorphic_trees_have_isomorphic_monotone_trees():
    together = 0
    for log in [*varied_logs(20, events=6, times=3), *(mirrored_log(seed, kinds=2) for seed in range(10))]:
        deep = temporal_diameter(log)
        trees = [computation_tree(log, v, depth=deep) for v in range(log.nodes)]
        monotone = [monotone_tree(log, v) for v in range(log.nodes)]
        for u in range(log.nodes):
            for v in range(u):
                if trees[u].isomorphic(trees[v]):
                    assert monotone[u].isomorphic(monotone[v])
                    together += 1
    assert together > 20


# -- Prop. 8: the injective sum ----------------------------------------------------------------------------


def test_prop_8_every_multiset_has_a_sum_of_its_own():
    """All 4,845 multisets of fewer than 5 pairs over 2 symbols x 2 event features x 4 times."""
    code = TemporalCode(times=[3, 10, 11, 40], most=5)
    pairs = [((x, e), t) for x in "ab" for e in (0, 1) for t in code.times]
    sums = set()
    for size in range(5):
        for multiset in combinations_with_replacement(pairs, size):
            value = code.encode(multiset)
            assert value not in sums
            sums.add(value)
            assert code.decode(value) == Counter(multiset)
    assert len(sums) == math.comb(16 + 4, 4)


# -- Prop. 9: PINT and the others --------------------------------------------------------------------------


def small_events(log: EventLog):
    pairs = [(u, v) for u in range(log.nodes) for v in range(u + 1, log.nodes)]
    return [(a, b) for i, a in enumerate(pairs) for b in pairs[:i]]


def test_prop_9_pint_refined_to_stability_separates_whatever_caw_and_mp_tgns_do():
    """Positions one longer than CAW's walks have steps (d = steps + 1), colours refined until stable."""
    seen: Counter = Counter()
    logs = [random_log(seed, nodes=6, events=6, times=3, loops=seed % 2 == 0) for seed in range(5)]
    logs += [mirrored_log(seed) for seed in range(3)] + [item("walks-win").log, item("messages-win").log]
    for log in logs:
        log = EventLog(log.src, log.dst, log.t)  # plain node numbers
        for a, b in small_events(log)[::7]:
            pair = Comparison(*read_question(log, a, b), depth=0, d=3, steps=2)
            pint = pair.pint("pint")
            stable = pint.can or pint.needs is not None  # separated in some round
            for other in (pair.caw().can, pair.temporal_wl().can):
                assert stable or not other
            seen[stable, pair.caw().can, pair.temporal_wl().can] += 1
    assert seen[True, True, False]  # CAW and PINT can, MP-TGNs cannot
    assert seen[True, False, True]  # MP-TGNs and PINT can, CAW cannot
    assert seen[False, False, False]


def test_prop_9_pint_is_at_least_as_powerful_as_mp_tgns_of_equal_depth():
    for seed in range(6):
        log = random_log(seed, nodes=6, events=6, times=2)
        for a, b in small_events(log)[:60]:
            for depth in (0, 1, 2):
                pair = Comparison(*read_question(log, a, b), depth=depth, d=3, steps=2)
                assert pair.pint("pint").can or not pair.messages("mp-tgn").can
                assert pair.pint("pint+memory").can or not pair.messages("mp-tgn+memory").can


def test_prop_9_does_not_hold_at_equal_depth():
    """Our finding: CAW with 2 steps separates what PINT with 2 layers does not, for any d; 3 layers do."""
    log = item("equal-depth").log
    for d in (3, 10):
        answer = distinguish(log, {"u", "v"}, {"u'", "v"}, 7, depth=2, d=d, steps=2)
        assert answer.can("caw") is True
        assert answer.can("pint") is False
        assert answer["pint"].needs == 3
        assert distinguish(log, {"u", "v"}, {"u'", "v"}, 7, depth=3, d=d, steps=2).can("pint") is True
    # with memory, two layers are enough: the monotone trees of u and u' differ from level 3 on
    assert distinguish(log, {"u", "v"}, {"u'", "v"}, 7, depth=2, d=3, steps=2).can("pint+memory") is True


# -- Prop. 10: PINT's limit --------------------------------------------------------------------------------


def test_prop_10_no_model_separates_events_that_a_symmetry_swaps():
    log = item("symmetry").log
    answer = distinguish(log, {"u", "v"}, {"z", "v"}, 3, depth=5, d=10)
    assert not any(answer.can(model) for model in answer.verdicts)
    assert answer["any"].why == "a symmetry of the graph maps one to the other: u→z, z→u"
