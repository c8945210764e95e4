"""Sizes in the theory: what is too large is refused with what fits, and nothing else depends on a size."""

from __future__ import annotations

import numpy as np
import pytest

import pintgn
from pintgn import EventLog, theory
from pintgn.errors import TooLarge
from pintgn.theory import comparison, probe, separation, symmetry
from pintgn.theory.event_history import EventHistory
from pintgn.theory.symmetry import automorphism
from tests.conftest import around
from tests.learn.helpers import random_log


@pytest.mark.parametrize("kind", ["computation", "monotone", "walks"])
def test_what_is_too_large_to_build_is_refused_and_what_fits_is_built(kind):
    log = random_log(60, 8)

    def build(most):
        if kind == "walks":
            return theory.anonymous_walks(log, 1, 2, steps=2, most=most)
        return getattr(theory, f"{kind}_tree")(log, 1, depth=2, most=most)

    with pytest.raises(TooLarge) as error:
        build(1)
    there = int("".join(c for c in str(error.value).split(" has ")[1].split()[0] if c.isdigit()))
    built = build(there)
    assert kind == "walks" or built.size == there
    build(there + 1)
    with pytest.raises(TooLarge, match=f"at most {there - 1:,} are"):
        build(there - 1)


def test_a_report_says_the_same_in_pieces_of_any_size(monkeypatch):
    log = pintgn.simulate("twins", events=300, seed=1)

    def said():
        return theory.report(log, pairs=20, roots=10).to_dict()

    expected = said()
    for name, module, sizes in (
        ("PAIRS_AT_ONCE", separation, (1, *around(20), *around(40))),
        ("CHUNK", probe, (1, 7, *around(log.nodes))),
    ):
        for piece in sizes:
            with monkeypatch.context() as patch:
                patch.setattr(module, name, piece)
                assert said() == expected, (name, piece)


def test_walks_too_many_to_list_leave_the_verdict_open(monkeypatch):
    """At the limit they are listed. Above it there is no verdict, rather than a wrong one."""
    log = pintgn.simulate("twins", events=200, seed=1)
    many = separation.Separation(EventHistory(log, None), depth=2, d=3, steps=2)
    totals = many.totals[:, -1]
    same = [(u, v) for u in range(log.nodes) for v in range(u) if totals[u] == totals[v] > 0]
    pair = ((same[0][0], same[1][0]), (same[0][1], same[1][1]))
    walks = int(max(totals[list(ends)].sum() for ends in pair))
    verdicts = []
    for most in around(walks):
        monkeypatch.setattr(separation, "MOST_WALKS", most)
        verdicts += many.verdicts("caw", [pair])
    assert verdicts[0] is None
    assert verdicts[1] is verdicts[2] is not None


def test_a_verdict_is_the_same_on_either_side_of_small(monkeypatch):
    """Colours are refined to the end where that is cheap; what the models can do at a depth is the same."""
    log = random_log(60, 8)
    expected = theory.distinguish(log, 1, 2)
    entries = len(EventHistory(log, None).entries.neighbor)
    for small in (0, *around(entries)):
        monkeypatch.setattr(comparison, "SMALL", small)
        found = theory.distinguish(log, 1, 2)
        assert {m: found.can(m) for m in found.verdicts} == {m: expected.can(m) for m in expected.verdicts}


@pytest.mark.parametrize("nodes", around(symmetry.LARGEST))
def test_symmetries_are_searched_up_to_a_size(nodes):
    """A hub that meets everybody at another time: only the first two leaves, who meet it together, can be swapped."""
    t = np.arange(nodes - 1)
    t[1] = 0
    log = EventLog(np.zeros(nodes - 1, np.int64), np.arange(1, nodes), np.sort(t))
    history = EventHistory(log, None)
    if nodes > symmetry.LARGEST:
        with pytest.raises(TooLarge, match=f"at most {symmetry.LARGEST} nodes; this has {nodes}"):
            automorphism(history, [1], [2])
    else:
        assert automorphism(history, [1], [2]) is not None
        assert automorphism(history, [1], [3]) is None
