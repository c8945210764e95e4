from __future__ import annotations

import pytest

from pintgn.report.figures import Difference
from pintgn.report.verdict import ablations, compared, over_kinds

WORDS = ("a gains", "a loses", "a is no better")


def difference(value, low, high, kind="random") -> Difference:
    return Difference("a", "b", kind, "all", "ap", value, low, high, 1_000)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (difference(0.02, 0.01, 0.03), "a gains 2.0 points (95 % interval 1.0 to 3.0)"),
        (difference(-0.02, -0.03, -0.01), "a loses 2.0 points (95 % interval 1.0 to 3.0)"),
        (difference(0.02, -0.01, 0.05), "a is no better (+2.0 points, 95 % interval −1.0 to +5.0)"),
        (difference(0.0, 0.0, 0.0), "a is no better (0.0 points, 95 % interval 0.0 to 0.0)"),
        (difference(0.02, None, None), "a difference of +2.0 points, on too few events to say more"),
    ],
)
def test_a_difference_is_only_called_one_where_its_interval_leaves_out_zero(found, words):
    assert compared(found, *WORDS) == words


def test_kinds_of_negatives_that_turn_the_verdict_round_are_named():
    found = {
        "random": difference(0.2, 0.1, 0.3),
        "historical": difference(-0.08, -0.09, -0.07, "historical"),
        "inductive": difference(-0.01, -0.03, 0.01, "inductive"),  # not clear
        "per-event": difference(-0.03, -0.04, -0.02, "per-event"),
    }
    words = over_kinds(found, "random", *WORDS)
    assert words.startswith("against random negatives a gains 20.0 points")
    assert words.endswith(", but against historical and per-event negatives a loses 8.0 and 3.0")


def test_the_ablation_is_the_run_that_differs_in_nothing_but_positions(figures):
    assert [(row.name, other.name) for row, other in ablations(figures)] == [
        ("pint (positions=4)", "pint (positions=0)")
    ]
