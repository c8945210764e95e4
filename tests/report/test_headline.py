from __future__ import annotations

import pytest

from pintgn.report.figures import Difference
from pintgn.report.headline import compared


def difference(value, low, high) -> Difference:
    return Difference("a", "b", "random", "all", "ap", value, low, high, 1_000)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (difference(0.02, 0.01, 0.03), "a gains 2.0 points (95 % interval 1.0 to 3.0)"),
        (difference(-0.02, -0.03, -0.01), "the model does worse by 2.0 points (95 % interval 1.0 to 3.0)"),
        (difference(0.02, -0.01, 0.05), "the model is no better (+2.0 points, 95 % interval −1.0 to +5.0)"),
        (difference(0.0, 0.0, 0.0), "the model is no better (0.0 points, 95 % interval 0.0 to 0.0)"),
        (difference(0.02, None, None), "a difference of +2.0 points, on too few events for an interval"),
    ],
)
def test_a_difference_is_only_called_one_where_its_interval_leaves_out_zero(found, words):
    assert compared(found, "a gains") == words


def test_the_ablation_is_the_run_that_differs_in_nothing_but_positions(figures):
    assert [(row.name, other.name) for row, other in figures.ablations] == [
        ("pint (positions=4)", "pint (positions=0)")
    ]
