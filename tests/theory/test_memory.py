"""Memory colours equal memory by definition: nested tuples if injective, exact averages if mean."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pintgn.events.log import EventLog
from pintgn.theory.colors import memory_states
from pintgn.theory.computation_trees import monotone_tree
from pintgn.theory.event_history import EventHistory
from tests.theory.helpers import partition, random_log, refines, varied_logs


def tuple_memory(log: EventLog) -> list:
    """Eqs. 3-4 with tuples for injective functions; t - t_v with t_v = 0 before the first update."""
    state = [None if log.node_features is None else tuple(row) for row in _rows(log.node_features, log.nodes)]
    last = [0] * log.nodes
    for t in np.unique(log.t).tolist():
        events = [i for i in range(len(log)) if log.t[i] == t]
        messages: dict = {}
        for i in events:
            u, v = int(log.src[i]), int(log.dst[i])
            e = None if log.features is None else tuple(log.features[i].tolist())
            for x, y in {(u, v), (v, u)}:  # a self-loop is one message
                messages.setdefault(x, []).append((state[x], state[y], t - last[x], e))
        updated = {v: (state[v], tuple(sorted(m, key=repr))) for v, m in messages.items()}
        for v, s in updated.items():
            state[v], last[v] = s, t
    return state


def _rows(features, nodes):
    return [None] * nodes if features is None else features.tolist()


def test_injective_memory_equals_nested_tuples():
    for log in varied_logs(40):
        assert partition(memory_states(EventHistory(log)).tolist()) == partition(tuple_memory(log))


def test_injective_memory_knows_the_monotone_tree_and_nothing_else():
    """Step 3 of the proof of Prop. 3: a bijection between memory and monotone tree."""
    for log in varied_logs(25):
        table: dict = {}
        trees = [monotone_tree(log, v).canonical(table) for v in range(log.nodes)]
        assert partition(memory_states(EventHistory(log)).tolist()) == partition(trees)


def test_mean_memory_equals_averages_of_generic_vectors():
    """States are free vectors (a new axis for every new state), so averages are equal only if they must be."""
    for log in varied_logs(40, times=3):
        history = EventHistory(log)
        state = history.state.tolist()
        last = [0] * log.nodes
        names: dict = {}
        for t in np.unique(log.t).tolist():
            received: dict = {}
            for i in np.flatnonzero(log.t == t).tolist():
                u, v = int(log.src[i]), int(log.dst[i])
                for x, y in {(u, v), (v, u)}:
                    received.setdefault(x, []).append((("s", state[y]), ("e", int(history.feature[i]))))
            updated = {}
            for v, messages in received.items():
                mean: dict = {}
                for message in messages:
                    for axis in message:
                        mean[axis] = mean.get(axis, Fraction(0)) + Fraction(1, len(messages))
                key = (state[v], t - last[v], frozenset(mean.items()))
                updated[v] = names.setdefault(key, 1000 + len(names))
            for v, s in updated.items():
                state[v], last[v] = s, t
        assert partition(memory_states(history, mean=True).tolist()) == partition(state)


def test_mean_memory_does_not_know_who_came_with_which_feature():
    # at time 1, node 0 meets 2 (kind a, feature 1) and 3 (kind b, feature 2); node 1 meets 4 (a, 2) and 5 (b, 1):
    # the same partners and the same features, on average, but paired differently
    kinds = np.array([[0], [0], [1], [2], [1], [2]], np.float32)
    log = EventLog([0, 0, 1, 1], [2, 3, 4, 5], [1] * 4, features=np.array([[1], [2], [2], [1]]), node_features=kinds)
    mean, injective = memory_states(EventHistory(log), mean=True), memory_states(EventHistory(log))
    assert mean[0] == mean[1]
    assert injective[0] != injective[1]


def test_simultaneous_events_see_the_states_before_them():
    # 0-1 and 1-2 at the same time: 2 does not learn of 0, so 0 and 2 stay alike
    log = EventLog([0, 1], [1, 2], [1, 1])
    states = memory_states(EventHistory(log))
    assert states[0] == states[2] != states[1]


def test_coarser_times_separate_less():
    for seed in range(10):
        log = random_log(seed, events=20, times=15)
        exact, octaves, blind = (
            memory_states(EventHistory(log, times=x)).tolist() for x in ("exact", "octaves", "blind")
        )
        assert refines(exact, octaves)
        assert refines(octaves, blind)
