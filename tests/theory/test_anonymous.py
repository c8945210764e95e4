"""CAW's walks by definition: all maximal walks, the paper's own sets, and limits that say what fits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pintgn.errors import TooLarge
from pintgn.events.log import EventLog
from pintgn.theory.event_history import EventHistory
from pintgn.theory.items import item
from pintgn.theory.walks import anonymize, anonymous_walks, walk_set, walk_totals, walk_totals_differ
from tests.theory.helpers import entry_list, random_log, varied_logs


def listed(history: EventHistory, v: int, steps: int, before=np.inf) -> list[tuple]:
    """Maximal walks as (node, time) tuples, by recursion over the definition."""
    onward = [(u, t) for u, _, t in entry_list(history, v) if t < before] if steps else []
    return [((v, before), *rest) for u, t in onward for rest in listed(history, u, steps - 1, t)] or [((v, before),)]


def test_walk_sets_equal_the_definition():
    for log in varied_logs(20):
        history = EventHistory(log)
        for v in range(log.nodes):
            for steps in (1, 2, 4):
                walks = walk_set(history, v, steps)
                found = Counter()
                for nodes, events in zip(walks.nodes.tolist(), walks.events.tolist(), strict=True):
                    times = [np.inf, *(history.when[e].item() for e in events if e >= 0)]
                    found[tuple(zip([n for n in nodes if n >= 0], times, strict=True))] += 1
                assert found == Counter(listed(history, v, steps))
                assert walk_totals(history, steps)[v, -1] == len(walks)


def test_occurrences_count_walks_not_positions():
    history = EventHistory(item("walks-win").log)
    v = history.log.node("v")
    # S_v = {v-u, v-w-z}: v starts both walks, so g(v; S_v) = [2, 0, 0]
    assert walk_set(history, v, 2).occurrences()[v] == (2, 0, 0)


def show(walks) -> set[str]:
    return {walks.show(walk) for walk in walks.counts}


def test_walks_of_prop_5_left_are_those_of_the_paper():
    """Appendix, proof of Prop. 5: the three anonymised walks of (u, v, t3) and of (z, v, t3).

    In the paper's listing the walk u -> v has v as {[0,1,0], [2,0,0]}: one walk of S_u has v second, both walks of
    S_v start there. Our pairs are unordered and shown with the larger vector first.
    """
    log = item("walks-win").log
    assert show(anonymous_walks(log, "u", "v", 3, steps=2)) == {
        "{[1,0,0], [0,1,0]} ─t=1→ {[2,0,0], [0,1,0]}",
        "{[2,0,0], [0,1,0]} ─t=1→ {[1,0,0], [0,1,0]}",
        "{[2,0,0], [0,1,0]} ─t=2→ {[0,1,0], [0,0,0]} ─t=1→ {[0,0,1], [0,0,0]}",
    }
    assert show(anonymous_walks(log, "z", "v", 3, steps=2)) == {
        "{[1,0,0], [0,0,1]} ─t=1→ {[0,1,0], [0,1,0]}",
        "{[2,0,0], [0,0,0]} ─t=1→ {[0,1,0], [0,0,0]}",
        "{[2,0,0], [0,0,0]} ─t=2→ {[0,1,0], [0,1,0]} ─t=1→ {[1,0,0], [0,0,1]}",
    }


def test_walks_of_prop_5_right_are_those_of_the_paper():
    log = item("messages-win").log
    expected = {"{[1,0], [0,0]} ─t=1→ {[0,1], [0,0]}"}
    for u in ("u", "u'"):
        walks = anonymous_walks(log, u, "z", 4, steps=1)
        assert show(walks) == expected
        assert walks.total == 2


def test_shares_forget_scale():
    once = EventLog([0, 2], [1, 3], [1, 1])
    twice = EventLog([0, 2, 4, 0, 2, 4], [1, 3, 5, 1, 3, 5], [1] * 6)
    one, two = anonymize(EventHistory(once), 0, 2, 1), anonymize(EventHistory(twice), 0, 2, 1)
    assert one.shares != two.shares  # the counts g in the walks still tell


def test_a_self_loop_event_has_one_set_of_walks():
    history = EventHistory(EventLog([0, 1], [1, 2], [1, 2]))
    assert anonymize(history, 1, 1, 2).total == len(walk_set(history, 1, 2))


def test_numbers_of_walks_alone_tell_only_what_walks_tell():
    for seed in range(15):
        log = random_log(seed, events=10)
        history = EventHistory(log)
        totals = walk_totals(history, 2)[:, -1]
        pairs = [(u, v) for u in range(log.nodes) for v in range(u, log.nodes)]
        seen = {pair: anonymize(history, *pair, 2) for pair in pairs}
        for a in pairs:
            for b in pairs:
                if walk_totals_differ(totals, a, b):
                    assert seen[a].difference(seen[b]) is not None


def test_too_many_walks_say_how_many_fit():
    log = random_log(1, nodes=4, events=60, times=60)
    with pytest.raises(
        TooLarge, match=r"has 609,000 walks of 6 steps; at most 500 are listed. 1 step fits \(53 walks\)"
    ):
        anonymous_walks(log, 0, 1, steps=6, most=500)
    with pytest.raises(TooLarge, match="Not even one step fits"):
        anonymous_walks(log, 0, 1, steps=2, most=3)
